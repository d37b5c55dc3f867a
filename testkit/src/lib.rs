//! An API server in memory, for unit tests that need more than one answer: it keeps objects as a real one does, and does to
//! clients what real ones do at times.
//!
//! ```no_run
//! use fleet_testkit::Server;
//! use serde_json::json;
//!
//! let server = Server::new();
//! server.serve("/api/v1", "configmaps", "ConfigMap", true);
//! server.put("/api/v1/namespaces/default/configmaps/settings", json!({ "data": { "key": "one" } }));
//! let client = server.client(); // a kube::Client
//! # let _ = client;
//! ```
//!
//! | It has | In |
//! |---|---|
//! | versions, generations, uids, finalizers, preconditions, status subresources | `objects` |
//! | writes of every kind, also such that are only tried | `write` |
//! | lists in pages, selectors, metadata alone, discovery | `read` |
//! | watches that begin at a version, lag when told to, and end with 410 once history is compacted | `watch` |
//! | answers that fail, once, after so many, or for all; answers of a test's own | `fault` |
//!
//! It does not validate, default, or check rights: tests on real control planes do that.

mod body;
mod fault;
mod objects;
mod path;
mod read;
mod server;
#[cfg(test)]
mod tests;
mod watch;
mod write;

pub use fault::Fault;
pub use server::{Server, Write, frozen};
