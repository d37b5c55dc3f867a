//! What is wrong, why, what it holds back, and what to type next: for `kubectl fleet why` and `status`, the dashboard, Events.
//!
//! From objects of the hub ([`Objects`] has them, [`Fleet`] borrows them) to a [`Chain`] of steps: the first that is not done
//! has a cause in words and a command. Where the scheduler, the rollout or an applier has left its reason it is used; where it can be found out again
//! (affinity, taints, heartbeats) the same code that decides is asked, so that the answer is about now.
//!
//! ```text
//! placement ─► cluster ─┬─► scheduling ─► affinity        reasons: a line for every reason of the API
//!     run ──────┘       ├─► rollout                       refusals, selectors, aborts: words of messages
//!                       ├─► manifest ─► drift
//!  eviction, object     └─► member                     overview, breakdown: rows, as `status` shows them
//! ```

mod aborts;
mod affinity;
mod breakdown;
mod chain;
mod cluster;
mod drift;
mod eviction;
mod fleet;
mod manifest;
mod member;
mod names;
mod object;
mod objects;
mod orphans;
mod overview;
mod placement;
mod reasons;
mod refusals;
mod rollout;
mod run;
pub(crate) mod scheduling;
mod selectors;
mod shell;
#[cfg(test)]
mod tests;

pub use breakdown::{ClusterRow, DiffRow, ObjectRow, cluster_rows, diff_rows};
pub use chain::{Cause, Chain, Note, Step, Verdict};
pub use cluster::placement_on;
pub use drift::manager;
pub use eviction::{eviction, never as budget_never_allows};
pub use fleet::{Approval, Binding, Fleet, Live, Placement, Policy, Run, View, span};
pub use member::{member, unready};
pub use object::{Lineage, object};
pub use objects::{Family, LiveObject, Objects, happened};
pub use orphans::{on as orphans_on, orphan};
pub use overview::{
    MemberRow, PlacementRow, RunRow, members as member_rows, placements as placement_rows, runs as run_rows,
};
pub use placement::placement;
pub use reasons::{Meaning, meaning};
pub use run::run;
pub use shell::quoted;
