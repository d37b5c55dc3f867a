//! The hub agent: schedules placements, writes Works, serves the members.
//!
//! One folder is one stage of the flow, with one door in (what it watches) and one door out (what it writes):
//!
//! - [`run`] puts everything together; [`options`] are the flags.
//! - [`cache`] holds one watch per kind, [`writer`] is the only way to write.
//! - [`channel`] moves messages and knows who sends them, with what [`certificates`] keeps; [`reports`] writes down what
//!   members say.
//! - [`admission`] judges what people write before it is stored.
//! - [`membership`] keeps what members need on the hub, [`inventory`] exports ClusterProfiles.
//! - [`pipeline`] is what the stages of a placement share: [`selection`], [`snapshots`], [`scheduler`], [`rollout`],
//!   [`work`] and [`status`]; where update runs decide who gets what when, [`updaterun`] is in the place of the rollout.
//!   [`binding`] is the only writer of bindings, [`overrides`] keeps the overrides' snapshots.
//! - [`eviction`] takes placements off clusters, within budgets.

mod admission;
mod binding;
mod cache;
mod certificates;
mod channel;
mod eviction;
mod inventory;
mod kubefleet;
mod membership;
pub mod options;
mod overrides;
mod pipeline;
mod recovery;
mod reports;
mod rollout;
pub mod run;
mod scheduler;
mod selection;
mod snapshots;
mod status;
#[cfg(test)]
mod tests;
mod updaterun;
mod work;
mod writer;
