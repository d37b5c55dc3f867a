//! Staged update runs: one version of a placement's resources goes to its clusters stage by stage.
//!
//! [`plan`] makes the plan of a run once, when it is initialized; it is never made again. [`advance`] takes the run and the
//! world as they are and answers with a new status, writes, Events and when to look again. The shell carries the answer out
//! and decides nothing. Everything is derived from stored objects, so that a pass may be repeated or lost at any point.
//!
//! ```text
//! plan ──► Initialized ──Run──► stage ──► … ──► stage ──► deletion stage ──► Succeeded
//!                                 │ approval, gates ─► window ─► clusters (maxConcurrency) ─► wait, approval, gates
//!                                 ├──Stop──► Stopping ──► Stopped ──Run──► the same stage
//!                                 ├──another run, a user's edit──► Failed
//!                                 └──too many clusters failed──► Failed, or rolling back ──► Failed
//! ```
//!
//! One pass deals with one stage. That the stage has ended is stored before the next one begins, so two stages never
//! overlap, also across a crash.

mod advance;
mod blame;
mod budget;
mod closed;
mod clusters;
mod deletion;
mod doors;
mod ending;
mod events;
mod gate_object;
mod gates;
mod initialize;
mod names;
mod needed;
mod number;
mod options;
mod outline;
mod pass;
mod placement;
mod put;
mod restamp;
mod retry;
mod rollback;
mod spans;
mod stages;
mod standing;
mod state;
mod step;
mod stop;
mod tasks;
#[cfg(test)]
mod tests;
mod unassigned;
mod validate;
mod world;

use jiff::{SignedDuration, Timestamp};

pub use advance::advance;
pub use blame::may_have_given;
pub use budget::{Failures, failures};
pub use ending::{ended_at, expires};
pub use gate_object::{GateCondition, GateObject};
pub use gates::{open as open_gates, shown as shown_gate};
pub use initialize::{Inputs, PATIENCE as INITIALIZATION_PATIENCE, Plan, Planning, Snapshot, plan};
pub use needed::{needed_indexes, needed_overrides, recorded_indexes};
pub use number::{concurrency, duration};
pub use outline::{Contents, Named, Outline, OutlinedCluster, OutlinedStage};
pub use pass::snapshot_name;
pub use restamp::restamp;
pub use spans::{Moment, Spans};
pub use stages::Members;
pub use step::{ApprovalWrite, BindingAction, BindingWrite, Content, Given, NewApproval, On, Put, Stamp, Step, Told};
pub use validate::PATIENCE as EDIT_PATIENCE;
pub use world::{
    Approval, Binding, ClusterFacts, Memory, Phase, Placement, PolicySnapshot, RecordedSnapshot, Refused, Run, World,
};

/// How long a cluster may take before the run says that it is stuck, unless the operator says otherwise.
pub const STUCK_THRESHOLD: SignedDuration = SignedDuration::from_mins(5);

/// Until when to wait, or none if that is over. The span begins when it is first asked for. `since` is in steady time.
fn patience(since: &mut Option<Timestamp>, span: SignedDuration, at: Moment) -> Option<Timestamp> {
    let over = later(*since.get_or_insert(at.steady), span);
    (at.steady < over).then(|| later(at.now, over.duration_since(at.steady)))
}

/// An instant so much later; never is late enough where that cannot be told.
fn later(instant: Timestamp, span: SignedDuration) -> Timestamp {
    instant.saturating_add(span).unwrap_or(Timestamp::MAX)
}
