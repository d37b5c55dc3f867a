//! Which clusters a placement gets.
//!
//! [`schedule`] looks at the policy, the clusters and the bindings of one placement and says what to write; [`Watchers`]
//! says which placements have to be looked at again when a cluster changes.
//!
//! ```text
//! World ─► classes ─► pick_all │ pick_n │ pick_fixed ─► reconcile ─► Plan
//!          (bindings)   filters, scores, greedy        (picks against     (writes in order,
//!                       = plugins/                      bindings)          status, problem)
//! ```

mod classes;
mod cycle;
mod decisions;
mod greedy;
mod pick_all;
mod pick_fixed;
mod pick_n;
mod plan;
pub mod plugins;
mod property;
mod reconcile;
mod schedule;
mod selector;
mod status;
#[cfg(test)]
mod tests;
mod trigger;
mod wake;
mod world;

pub use decisions::{DECISIONS_MAX, UNSELECTED_MAX};
pub use plan::{Create, Patch, Plan, Problem, Unschedule};
pub use property::{BadName, Property, RESOURCE_PREFIX, Usage};
pub use schedule::schedule;
pub use selector::{BadSelector, Selector};
pub use trigger::{binding_wakes, snapshot_wakes};
pub use wake::{Change, Interest, Watchers};
pub use world::{Binding, Cluster, Namespaces, Placement, SchedulerSettings, Snapshot, World};
