//! What a plan says. Its JSON is an interface: fields are only added.

use fleet_api::placement::NamespacedName;
use serde::Serialize;

use crate::overrides::choose::Lists;
use crate::updaterun::Outline;

/// What the hub would do with a placement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    /// Whose plan it is.
    pub placement: Placing,
    /// Why the hub would do nothing at all: what is wrong with the selectors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// What is selected.
    pub resources: Resources,
    /// The policy.
    pub policy: Policy,
    /// Every cluster of the fleet, and those that the placement is still on; by name.
    pub clusters: Vec<PlannedCluster>,
    /// What changes on clusters. Those with equal changes are together.
    pub differences: Vec<Difference>,
    /// How it is rolled out.
    pub rollout: Rollout,
    /// What a staged run would do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<Run>,
}

/// The placement.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Placing {
    /// Its kind.
    pub kind: &'static str,
    /// Its namespace, if it is of the namespaced kind.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Whether the hub does not have it yet.
    pub is_new: bool,
}

/// What is selected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Resources {
    /// The snapshot that counts.
    pub snapshot: String,
    /// Its index.
    pub index: u64,
    /// Whether it would be made.
    pub is_new: bool,
    /// The hash of the content.
    pub hash: String,
    /// How large it is.
    pub bytes: usize,
    /// The objects, in the order of the selection.
    pub objects: Vec<PlacedObject>,
}

/// A selected object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacedObject {
    /// `group/version`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How large it is.
    pub bytes: usize,
}

/// The policy that picks clusters.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Policy {
    /// The policy snapshot that counts.
    pub snapshot: String,
    /// Whether it would be made.
    pub is_new: bool,
    /// How many clusters are picked.
    pub found: usize,
    /// Whether these are all that the policy asks for.
    pub fulfilled: bool,
    /// Why none can be picked at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What becomes of a cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedCluster {
    /// Its name.
    pub name: String,
    /// What changes for it.
    pub change: Change,
    /// With what it was compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<Score>,
    /// Why it is picked or not.
    pub reason: String,
    /// What would make it fit; a command where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The override snapshots that it gets.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<NamespacedName>,
    /// Why it cannot get what it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Both scores of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Score {
    /// How much the placement likes it.
    pub affinity: i32,
    /// How much it improves the spread.
    pub spread: i32,
}

/// What becomes of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Change {
    /// It is picked and did not have the placement.
    Added,
    /// It is picked and has it.
    Kept,
    /// It has it and is not picked.
    Removed,
    /// It does not have it and is not picked.
    NotPicked,
}

impl Change {
    /// Whether the cluster has the placement in the end.
    pub fn has_it(self) -> bool {
        matches!(self, Self::Added | Self::Kept)
    }
}

/// What changes on some clusters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The clusters, by name.
    pub clusters: Vec<String>,
    /// What changes there.
    pub objects: Vec<ObjectChange>,
}

/// What changes about one object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectChange {
    /// `group/version`.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What becomes of it.
    pub change: Kind,
    /// Line by line, as `diff -u`; what Secrets hold is masked.
    pub diff: String,
}

/// What becomes of an object on a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// It was not placed there.
    Added,
    /// It is another.
    Changed,
    /// It is placed there no more.
    Removed,
}

/// How it is rolled out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// Whether only update runs roll it out.
    pub external: bool,
    /// How many clusters may be unavailable.
    pub max_unavailable: String,
    /// How many clusters more than wanted may have it for a while.
    pub max_surge: String,
    /// What goes together; the next wave begins as clusters of the one before become available.
    pub waves: Vec<Wave>,
    /// Clusters that no wave reaches, and why.
    pub blocked: Vec<Blocked>,
}

impl Rollout {
    /// A rollout that waits for update runs.
    pub(super) fn external() -> Self {
        Self {
            external: true,
            ..Self::default()
        }
    }
}

/// Clusters that are changed together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Wave {
    /// In the order of the rollout.
    pub clusters: Vec<Turn>,
}

/// A cluster whose turn it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Turn {
    /// Its name.
    pub cluster: String,
    /// What is done with it.
    pub action: Action,
}

/// A cluster that waits for ever.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Blocked {
    /// Its name.
    pub cluster: String,
    /// Why.
    pub reason: String,
}

/// What is done with a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Action {
    /// It gets its first resources.
    Place,
    /// It gets other resources.
    Update,
    /// The placement is taken off.
    Remove,
}

/// What a staged run would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Run {
    /// The update strategy.
    pub strategy: String,
    /// The plan; none if there can be none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outline: Option<Outline>,
    /// The plan's hash, for the annotation of a run that is to do this and nothing else.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hash: String,
    /// Why a run would fail.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// What a run still has to do in a stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StageLeft {
    /// Its name.
    pub name: String,
    /// How many clusters have been updated.
    pub done: usize,
    /// Those that could not be updated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<String>,
    /// Those under way.
    pub updating: Vec<String>,
    /// Those still to come, in order.
    pub waiting: Vec<String>,
    /// What is waited for before or after it.
    pub tasks: Vec<String>,
}

impl Plan {
    /// The plan for a placement that the hub can do nothing for.
    pub(super) fn refused(placement: Placing, why: &str) -> Self {
        Self {
            placement,
            refused: Some(why.to_owned()),
            resources: Resources::default(),
            policy: Policy::default(),
            clusters: Vec::new(),
            differences: Vec::new(),
            rollout: Rollout::default(),
            run: None,
        }
    }

    /// Whether what would be differs from what is.
    pub fn differs(&self) -> bool {
        let changes = |cluster: &PlannedCluster| matches!(cluster.change, Change::Added | Change::Removed);
        self.refused.is_some()
            || self.placement.is_new
            || self.resources.is_new
            || self.policy.is_new
            || self.policy.problem.is_some()
            || self
                .clusters
                .iter()
                .any(|cluster| changes(cluster) || cluster.problem.is_some())
            || !self.differences.is_empty()
            || !self.rollout.waves.is_empty()
            || !self.rollout.blocked.is_empty()
            || self.run.as_ref().is_some_and(Run::differs)
    }
}

impl Run {
    /// Whether a cluster has something else than the run would give it.
    fn differs(&self) -> bool {
        let Some(outline) = &self.outline else { return true };
        !outline.leaving.is_empty() || self.problem.is_some()
    }
}

/// Both lists, cluster-wide ones first and without a namespace.
impl From<Lists> for Vec<NamespacedName> {
    fn from(lists: Lists) -> Self {
        let wide = lists.cluster_wide.into_iter().map(|name| NamespacedName {
            name,
            namespace: String::new(),
        });
        wide.chain(lists.namespaced).collect()
    }
}
