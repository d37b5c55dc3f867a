//! The hub's end of the heartbeat channel.

pub mod authenticate;
mod certificate;
mod listener;
