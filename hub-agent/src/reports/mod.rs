//! What members say, written down.
//!
//! ```text
//! session ─┬─► cluster   heartbeats, agent status, properties ─► InternalMemberCluster, MemberCluster
//!          ├─► queue     one report at a time per Work ─► work, finalizer ─► Work
//!          ├─► events    recorded on the member's behalf
//!          └─► labels    of its platform ─► MemberCluster
//! ```
//!
//! Rules are in `fleet_core::session`; here they are carried out. Nothing is remembered beyond a stream's life: whatever
//! counts is stored on the API server before it is acknowledged.

mod cluster;
mod context;
mod events;
mod finalizer;
mod labels;
mod queue;
mod session;
mod work;

pub(crate) use self::session::SessionReports;
