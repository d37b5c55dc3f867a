//! Status roll-up: what a placement says about itself, from its policy snapshot and bindings.
//!
//! [`entry`] makes one cluster's part, [`Counts`] adds parts up, [`conditions`] turns the sum into the placement's own
//! conditions. [`Rollup`] keeps what was found out about each cluster and their counts, and makes the parts anew of which
//! something has changed; [`roll_up`] starts from nothing, and both give the same.

mod entry;
mod fold;
mod kept;
mod mirror;
mod pace;
mod standing;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use fleet_api::conditions::placement::{Scheduled, Step};
use fleet_api::conditions::{self, Status};
use fleet_api::names::Scope;
use fleet_api::placement::{
    ApplyStrategyType, ClusterDecision, PerClusterPlacementStatus, PlacementPolicy, PlacementStatus, PlacementType,
    PolicySnapshotStatus, ResourceIdentifier, RolloutStrategy, WhenToTakeOver,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use entry::{BindingView, Entry, bindings_by_cluster, entry, latest_by_cluster, unplaced};
use fold::Share;
pub use fold::{Counts, External, conditions, external};
pub use kept::{Origin, Rolled, Rollup};
pub use mirror::{mirrored, recorded_namespace, target_namespace};
pub use pace::{Due, Pace};
pub use standing::{Standing, standing};

/// What a whole placement status may have. etcd takes 1.5 MiB for the object; the rest is for spec, metadata and
/// `selectedResources`.
pub const ENTRIES_BYTES_MAX: usize = 900 * 1024;

/// What all parts of a placement's status share.
#[derive(Debug, Clone, Copy)]
pub struct Common<'a> {
    /// The placement's scope.
    pub scope: Scope,
    /// The placement's generation.
    pub generation: i64,
    /// Whether update runs control the rollout.
    pub external: bool,
    /// Whether differences are reported instead of applying.
    pub reports_diff: bool,
    /// The latest master snapshot: name and index. Not used when the rollout is external.
    pub latest: Option<(&'a str, &'a str)>,
    /// How many bytes one cluster's entry may have; details are dropped beyond.
    pub entry_bytes_max: usize,
    /// The time of the roll-up.
    pub now: Timestamp,
}

impl Common<'_> {
    /// The conditions that are expected after scheduling.
    pub fn steps(&self) -> &'static [Step] {
        Step::expected(self.reports_diff)
    }
}

/// How many bytes each of so many entries may have.
pub fn entry_bytes_max(clusters: usize) -> usize {
    ENTRIES_BYTES_MAX / clusters.max(1)
}

/// The latest policy snapshot, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct PolicyView<'a> {
    /// Its generation.
    pub generation: i64,
    /// The policy in force.
    pub policy: Option<&'a PlacementPolicy>,
    /// For PickN the number of clusters, from its annotation, which outranks the policy's own.
    pub number_of_clusters: Option<i32>,
    /// What the scheduler said.
    pub status: Option<&'a PolicySnapshotStatus>,
}

impl<'a> PolicyView<'a> {
    /// The scheduler's verdict on the placement of today.
    pub fn verdict(&self, placement_generation: i64) -> Option<&'a Condition> {
        let status = self
            .status
            .filter(|status| status.observed_crp_generation >= placement_generation)?;
        let scheduled = conditions::find(&status.conditions, "Scheduled")?;
        let speaks = scheduled.observed_generation.unwrap_or_default() >= self.generation;
        Some(scheduled).filter(|_| speaks && Status::of(scheduled) != Status::Unknown)
    }

    /// The decisions, in the scheduler's order.
    pub fn decisions(&self) -> &'a [ClusterDecision] {
        self.status
            .map(|status| status.target_clusters.as_slice())
            .unwrap_or_default()
    }

    /// How many clusters were asked for and not found. More found than asked for is none missing.
    pub fn missing(&self) -> usize {
        let wanted = match self.policy.map(|policy| policy.placement_type) {
            Some(PlacementType::PickN) => {
                let number = self
                    .number_of_clusters
                    .or_else(|| self.policy.and_then(|policy| policy.number_of_clusters));
                usize::try_from(number.unwrap_or_default()).unwrap_or_default()
            }
            Some(PlacementType::PickFixed) => self.policy.map_or(0, |policy| policy.cluster_names.len()),
            Some(PlacementType::PickAll) | None => return 0,
        };
        wanted.saturating_sub(self.decisions().iter().filter(|decision| decision.selected).count())
    }
}

/// Everything that a placement's status is made from.
#[derive(Clone)]
pub struct World<'a> {
    /// What all parts share.
    pub context: Common<'a>,
    /// The latest policy snapshot, once there is one.
    pub policy: Option<PolicyView<'a>>,
    /// The bindings that count, by cluster: see [`bindings_by_cluster`].
    pub bindings: BTreeMap<&'a str, BindingView<'a>>,
    /// What is selected; while a new snapshot is held back, what the current one holds.
    pub selected: &'a [ResourceIdentifier],
    /// For an external rollout: what the group with an index holds.
    pub group_content: &'a dyn Fn(&str) -> Vec<ResourceIdentifier>,
    /// The status that the placement has.
    pub previous: &'a PlacementStatus,
}

/// The placement's status, from scratch. Compare it with the previous one before writing.
pub fn roll_up(world: &World<'_>) -> PlacementStatus {
    Rollup::<()>::default()
        .look(world, Origin::Other, |_| None)
        .into_status()
}

/// What can be said before any cluster is looked at, and the policy by which they were picked. None while the scheduler has
/// not spoken: then that is all.
fn begin<'a>(world: &World<'a>) -> (PlacementStatus, Option<PolicyView<'a>>) {
    let context = &world.context;
    let mut status = PlacementStatus {
        selected_resources: world.selected.to_vec(),
        observed_resource_index: observed_index(context),
        placement_statuses: Vec::new(),
        conditions: world.previous.conditions.clone(),
        other: world.previous.other.clone(),
    };
    let spoken = world
        .policy
        .and_then(|policy| Some((policy, policy.verdict(context.generation)?)));
    let Some((policy, verdict)) = spoken else {
        let pending = context.scope.state(&Scheduled::Pending);
        conditions::set(&mut status.conditions, &pending, context.generation, context.now);
        // The other conditions stay: they speak of an older generation, and say so.
        return (status, None);
    };
    let scheduled = Step::Scheduled.on_placement(context.scope);
    conditions::mirror(
        &mut status.conditions,
        scheduled,
        verdict,
        context.generation,
        context.now,
    );
    (status, Some(policy))
}

/// Placement-level fields and conditions, from the sum of the entries.
fn finish(context: &Common<'_>, counts: &Counts, world: &World<'_>, status: &mut PlacementStatus) {
    if counts.clusters() == 0 {
        let scheduled = Step::Scheduled.on_placement(context.scope);
        status.conditions.retain(|condition| condition.type_ == scheduled);
        return;
    }
    if context.external {
        let seen = external(counts);
        seen.index()
            .unwrap_or_default()
            .clone_into(&mut status.observed_resource_index);
        status.selected_resources = seen.index().map(world.group_content).unwrap_or_default();
    }
    conditions(context, counts, &mut status.conditions);
}

/// `observedResourceIndex` before any cluster is looked at.
fn observed_index(context: &Common<'_>) -> String {
    let index = context.latest.filter(|_| !context.external).map(|(_, index)| index);
    index.unwrap_or_default().to_owned()
}

fn previous_entries(status: &PlacementStatus) -> BTreeMap<&str, &PerClusterPlacementStatus> {
    let named = status
        .placement_statuses
        .iter()
        .filter(|entry| !entry.cluster_name.is_empty());
    named.map(|entry| (entry.cluster_name.as_str(), entry)).collect()
}

/// Whether the placement has reached what it asks for: every expected condition is true for its generation.
pub fn is_completed(context: &Common<'_>, list: &[Condition]) -> bool {
    first_unmet(context, list).is_none()
}

/// With which word for `whenToTakeOver` a placement that only compares acquires what is on its clusters already. None if it
/// applies, where that is the purpose, or leaves alone what is not its own.
pub fn acquires(strategy: Option<&RolloutStrategy>) -> Option<WhenToTakeOver> {
    let apply = strategy.and_then(|strategy| strategy.apply_strategy.as_ref())?;
    let when =
        Some(&apply.when_to_take_over).filter(|when| matches!(when, WhenToTakeOver::Always | WhenToTakeOver::IfNoDiff));
    when.filter(|_| apply.type_ == ApplyStrategyType::ReportDiff).cloned()
}

/// The first condition in order that is not true for the generation, with its status and reason if it has them.
pub fn first_unmet<'a>(context: &Common<'_>, list: &'a [Condition]) -> Option<(Step, Option<&'a Condition>)> {
    let mut steps = std::iter::once(&Step::Scheduled).chain(context.steps());
    let unmet = steps.find(|step| !conditions::is_true(list, step.on_placement(context.scope), context.generation))?;
    Some((
        *unmet,
        conditions::fresh(list, unmet.on_placement(context.scope), context.generation),
    ))
}

/// What has gone wrong between two states, with the words of its condition; each is worth a warning.
///
/// Steps that are false for a moment in every rollout count only once a member says that it failed.
pub fn failures(context: &Common<'_>, before: &PlacementStatus, after: &PlacementStatus) -> Vec<(Step, String)> {
    let failed = |status: &PlacementStatus| {
        let (step, condition) = first_unmet(context, &status.conditions)?;
        let condition = condition.filter(|condition| Status::of(condition) == Status::False)?;
        let certain = match step {
            Step::Scheduled | Step::Overridden | Step::WorkSynchronized => true,
            Step::Applied => status.placement_statuses.iter().any(has_failed),
            Step::RolloutStarted | Step::Available | Step::DiffReported => false,
        };
        certain.then(|| (step, condition.message.clone()))
    };
    let known = failed(before).map(|(step, _)| step);
    failed(after)
        .into_iter()
        .filter(|(step, _)| Some(*step) != known)
        .collect()
}

/// Whether a cluster lists what it could not apply.
fn has_failed(entry: &PerClusterPlacementStatus) -> bool {
    !entry.failed_placements.is_empty()
}
