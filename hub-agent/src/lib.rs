//! The hub agent: schedules placements, writes Works, serves the members.
//!
//! One folder is one stage of the flow: [`cache`] holds one watch per kind, [`membership`] keeps what members need on the
//! hub, [`session`] is the hub's end of the heartbeat channel, [`inventory`] exports ClusterProfiles. [`hub`] puts them
//! together.

pub mod cache;
pub mod hub;
pub mod inventory;
pub mod membership;
pub mod options;
mod overrides;
mod placement;
mod rollout;
mod scheduler;
pub mod session;
mod work;
mod writer;
