//! One cluster's part of a placement's status.

use std::collections::BTreeMap;

use fleet_api::conditions::placed_cluster::{self, RolloutStarted, Scheduled, Undecided};
use fleet_api::conditions::placement::Step;
use fleet_api::conditions::{self, ConditionState, Status};
use fleet_api::placement::{BindingSpec, BindingStatus, ClusterDecision, PerClusterPlacementStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use super::Common;

/// A binding, as far as it matters here.
#[derive(Debug, Clone, Copy)]
pub struct BindingView<'a> {
    /// Its generation.
    pub generation: i64,
    /// Its spec.
    pub spec: &'a BindingSpec,
    /// Its status.
    pub status: Option<&'a BindingStatus>,
    /// The index of the snapshot that it names, empty if there is none. Only for external rollouts.
    pub index: &'a str,
}

impl<'a> BindingView<'a> {
    fn fresh(&self, step: Step) -> Option<(Status, &'a Condition)> {
        let list = &self.status?.conditions;
        let condition = conditions::fresh(list, step.on_cluster(), self.generation)?;
        Some((Status::of(condition), condition)).filter(|(status, _)| *status != Status::Unknown)
    }
}

/// A cluster's part, with what is needed to add it up.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// What the placement shows.
    pub status: PerClusterPlacementStatus,
    /// How far the cluster has come: the steps reached, in order.
    pub reached: Vec<(Step, Status)>,
}

impl Entry {
    /// Whether any override applies.
    pub fn is_overridden(&self) -> bool {
        !self.status.applicable_resource_overrides.is_empty()
            || !self.status.applicable_cluster_resource_overrides.is_empty()
    }
}

/// The bindings that count, by cluster: see [`latest_by_cluster`].
pub fn bindings_by_cluster<'a>(
    policy_snapshot: &str,
    bindings: impl IntoIterator<Item = (&'a ObjectMeta, BindingView<'a>)>,
) -> BTreeMap<&'a str, BindingView<'a>> {
    let bindings = bindings.into_iter();
    latest_by_cluster(
        policy_snapshot,
        bindings.map(|(metadata, view)| (metadata, view.spec, view)),
    )
}

/// The bindings that count, by cluster: those of the latest policy snapshot that are not being deleted. Of several for
/// one cluster the one with the greatest name counts.
pub fn latest_by_cluster<'a, B>(
    policy_snapshot: &str,
    bindings: impl IntoIterator<Item = (&'a ObjectMeta, &'a BindingSpec, B)>,
) -> BTreeMap<&'a str, B> {
    let mut found: BTreeMap<&str, (&str, B)> = BTreeMap::new();
    for (metadata, spec, binding) in bindings {
        let (cluster, name) = (
            spec.target_cluster.as_str(),
            metadata.name.as_deref().unwrap_or_default(),
        );
        let counts = metadata.deletion_timestamp.is_none()
            && !cluster.is_empty()
            && spec.scheduling_policy_snapshot_name == policy_snapshot;
        if counts && found.get(cluster).is_none_or(|(known, _)| *known < name) {
            found.insert(cluster, (name, binding));
        }
    }
    found
        .into_iter()
        .map(|(cluster, (_, binding))| (cluster, binding))
        .collect()
}

/// The part of a cluster that was picked. Only conditions are carried over from `previous`, for their times.
pub fn entry(
    context: &Common<'_>,
    decision: &ClusterDecision,
    binding: Option<&BindingView<'_>>,
    previous: Option<&PerClusterPlacementStatus>,
) -> Entry {
    let mut writer = Writer {
        context,
        entry: Entry {
            status: PerClusterPlacementStatus {
                cluster_name: decision.cluster_name.clone(),
                conditions: previous.map(|previous| previous.conditions.clone()).unwrap_or_default(),
                ..PerClusterPlacementStatus::default()
            },
            reached: Vec::new(),
        },
    };
    let scheduled = Scheduled::Scheduled {
        decision: decision.reason.clone(),
    };
    conditions::set(
        &mut writer.entry.status.conditions,
        &scheduled,
        context.generation,
        context.now,
    );
    writer.write(binding);
    let Entry { mut status, reached } = writer.entry;
    let keep = |type_name: &str| {
        let known = Step::ALL.iter().find(|step| step.on_cluster() == type_name);
        known.is_none_or(|step| *step == Step::Scheduled || reached.iter().any(|(reached, _)| reached == step))
    };
    status.conditions.retain(|condition| keep(&condition.type_));
    trim(&mut status, context.entry_bytes_max);
    Entry { status, reached }
}

/// The parts of clusters that were asked for and not found: they have no name.
pub fn unplaced<'a>(
    context: &Common<'_>,
    decisions: impl IntoIterator<Item = &'a ClusterDecision>,
    previous: &[PerClusterPlacementStatus],
) -> Vec<PerClusterPlacementStatus> {
    let known: Vec<_> = previous.iter().filter(|entry| entry.cluster_name.is_empty()).collect();
    let make = |decision: &ClusterDecision| {
        let state = Scheduled::Failed {
            decision: decision.reason.clone(),
        };
        // Without a name the reason is what tells one from the other; the time goes with it.
        let same = |list: &&&PerClusterPlacementStatus| list.conditions.iter().any(|c| c.message == decision.reason);
        let mut conditions = known
            .iter()
            .find(same)
            .map(|entry| entry.conditions.clone())
            .unwrap_or_default();
        conditions.retain(|condition| condition.type_ == placed_cluster::Scheduled::TYPE);
        conditions::set(&mut conditions, &state, context.generation, context.now);
        PerClusterPlacementStatus {
            conditions,
            ..PerClusterPlacementStatus::default()
        }
    };
    decisions.into_iter().map(make).collect()
}

struct Writer<'a> {
    context: &'a Common<'a>,
    entry: Entry,
}

impl Writer<'_> {
    fn set(&mut self, step: Step, state: &impl ConditionState) {
        self.entry.reached.push((step, state.status()));
        conditions::set(
            &mut self.entry.status.conditions,
            state,
            self.context.generation,
            self.context.now,
        );
    }

    fn set_undecided(&mut self, step: Step) {
        if let Some(state) = Undecided::of(step) {
            self.set(step, &state);
        }
    }

    fn write(&mut self, binding: Option<&BindingView<'_>>) {
        let Some(binding) = binding else {
            return self.set_undecided(Step::RolloutStarted);
        };
        if self.context.external {
            self.entry.status.observed_resource_index = binding.index.into();
            return self.copy(binding);
        }
        let Some((name, index)) = self.context.latest else {
            return self.set_undecided(Step::RolloutStarted);
        };
        // Also when the cluster still runs an older one: users and tools know it so.
        self.entry.status.observed_resource_index = index.into();
        if binding.spec.resource_snapshot_name == name {
            return self.copy(binding);
        }
        match binding.fresh(Step::RolloutStarted) {
            Some((Status::False, _)) => self.set(Step::RolloutStarted, &RolloutStarted::Blocked),
            _ => self.set_undecided(Step::RolloutStarted),
        }
    }

    fn copy(&mut self, binding: &BindingView<'_>) {
        for step in self.context.steps() {
            let Some((status, condition)) = binding.fresh(*step) else {
                return self.set_undecided(*step);
            };
            let list = &mut self.entry.status.conditions;
            conditions::mirror(
                list,
                step.on_cluster(),
                condition,
                self.context.generation,
                self.context.now,
            );
            self.entry.reached.push((*step, status));
            self.copy_details(*step, status, binding);
            if status == Status::False {
                return;
            }
        }
    }

    fn copy_details(&mut self, step: Step, status: Status, binding: &BindingView<'_>) {
        let entry = &mut self.entry.status;
        let Some(details) = binding.status else { return };
        match (step, status) {
            (Step::RolloutStarted, Status::True) => {
                entry
                    .applicable_resource_overrides
                    .clone_from(&binding.spec.resource_override_snapshots);
                entry
                    .applicable_cluster_resource_overrides
                    .clone_from(&binding.spec.cluster_resource_override_snapshots);
            }
            (Step::Applied | Step::Available, _) => {
                entry.drifted_placements.clone_from(&details.drifted_placements);
                if status == Status::False {
                    entry.failed_placements.clone_from(&details.failed_placements);
                    entry.diffed_placements.clone_from(&details.diffed_placements);
                }
            }
            (Step::DiffReported, Status::True) => entry.diffed_placements.clone_from(&details.diffed_placements),
            _ => {}
        }
    }
}

/// Drops details until the entry fits: first what differs, then more and more of the lists. Conditions always stay.
fn trim(entry: &mut PerClusterPlacementStatus, bytes_max: usize) {
    let details = entry.failed_placements.len() + entry.drifted_placements.len() + entry.diffed_placements.len();
    if details == 0 || size(entry) <= bytes_max {
        return;
    }
    entry
        .drifted_placements
        .iter_mut()
        .for_each(|drifted| drifted.observed_drifts.clear());
    entry
        .diffed_placements
        .iter_mut()
        .for_each(|diffed| diffed.observed_diffs.clear());
    for keep in [50, 20, 5, 1, 0] {
        if size(entry) <= bytes_max {
            return;
        }
        entry.failed_placements.truncate(keep);
        entry.drifted_placements.truncate(keep);
        entry.diffed_placements.truncate(keep);
    }
}

fn size(entry: &PerClusterPlacementStatus) -> usize {
    serde_json::to_vec(entry).map_or(usize::MAX, |json| json.len())
}
