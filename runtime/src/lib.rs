//! What both agents share: options, logs, metrics, health, leases, caches, the write queue.

pub mod admin;
pub mod backoff;
pub mod cache;
pub mod client;
pub mod clock;
pub mod controller;
pub mod events;
pub mod health;
pub mod key;
pub mod lease;
pub mod logs;
pub mod metrics;
pub mod options;
pub mod queue;
pub mod shutdown;
#[cfg(test)]
mod testing;
pub mod tls;
pub mod writes;

pub use key::Key;
