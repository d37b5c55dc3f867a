//! How a cluster joins, lives in and leaves the fleet.
//!
//! ```text
//! MemberCluster ──join──► namespace, Role, RoleBinding, InternalMemberCluster ──► the member reports
//!       ▲                                                                              │
//!       └── status: agents, properties, Joined, Healthy ◄──────────────────────────────┘
//!       └── eligibility (scheduler) · profile (inventory) · leave (deletion)
//! ```
//!
//! The hub agent's membership controller carries these plans out; `properties` is the member agent's.

pub mod agents;
pub mod eligibility;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod heartbeat;
pub mod join;
pub mod leave;
pub mod profile;
pub mod properties;
pub mod status;
pub mod validate;
