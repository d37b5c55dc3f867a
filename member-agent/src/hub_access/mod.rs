//! Access to the hub: where it is, how it proves itself, and how we prove ourselves.

pub mod client;
pub mod credential;
pub mod endpoint;
pub mod renewal;
pub mod settings;
