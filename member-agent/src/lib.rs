//! The member agent: applies Works, reports to the hub.
//!
//! ```text
//! hub API server ──watch──► membership ─barrier─► applier
//!                               │                   │
//! own API server ──► health ────┤                   │
//!                └─► properties ┴──► session ◄──────┘ ──one stream──► hub agent
//! ```
//!
//! What the agent does is decided by objects that it has read; what it says goes over the session, and nothing that the
//! hub says there makes it apply, delete or leave.

pub mod applier;
pub mod hub_access;
pub mod measures;
pub mod membership;
pub mod options;
pub mod outgoing;
pub mod properties;
pub mod run;
pub mod session;
