//! What the hub would do with a placement, before it does it: for `kubectl fleet plan`.
//!
//! [`plan`] walks a placement through the decisions of the hub's controllers, with the functions that they call, over objects
//! in memory: what one stage would write is what the next one reads. Nothing here decides anything itself.
//!
//! ```text
//! snapshot::policy ─► scheduler ─┐
//!                     (picking)  ├─► overrides ─► work::render ─► before │ after ─► differences
//! snapshot::resource ────────────┘        └─────► rollout, wave by wave        │ updaterun (staged)
//! ```
//!
//! Between two waves of the rollout every cluster is taken to become available. A cluster that does not changes when the
//! others get their turn, not what they get.

mod answer;
pub mod applied;
mod diff;
mod mask;
mod picking;
mod render;
mod resources;
mod staged;
#[cfg(test)]
mod tests;
mod waves;

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::cluster::MemberCluster;
use fleet_api::names::{PlacementKey, Scope};
use fleet_api::placement::{ClusterResourceOverrideSpec, ResourceOverrideSpec, RolloutStrategyType};
use fleet_api::raw::RawJson;
use jiff::Timestamp;

pub use answer::{
    Action, Blocked, Change, Difference, Kind, ObjectChange, PlacedObject, Placing, Plan, PlannedCluster, Policy,
    Resources, Rollout, Run, Score, StageLeft, Turn, Wave,
};
pub use staged::{Request, Written, left};

use crate::explain;
use crate::overrides::choose::{Candidates, Chosen, Lists};
use crate::overrides::{self, Rbac};
use crate::scheduler;
use crate::selection::ClusterScoped;
use crate::snapshot::history_limit;
use crate::work::Stored;

/// Everything that a plan is made from, as it is on the hub, or as a file would make it.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it has a function")]
pub struct World<'a> {
    /// The time.
    pub now: Timestamp,
    /// The placement's name, and its namespace if it is of the namespaced kind.
    pub key: &'a PlacementKey,
    /// The placement.
    pub placement: explain::Placement<'a>,
    /// Whether the hub does not have it yet.
    pub is_new: bool,
    /// What its selectors select, in order and as a snapshot holds it; or what is wrong with them.
    pub selected: Result<&'a [RawJson], &'a str>,
    /// All members.
    pub members: &'a [MemberCluster],
    /// Members that cannot be read, by name.
    pub unread: &'a [String],
    /// The placement's policy snapshots.
    pub policies: &'a [explain::Policy<'a>],
    /// The placement's resource snapshots.
    pub snapshots: &'a [Stored<'a>],
    /// The placement's bindings.
    pub bindings: &'a [explain::Binding<'a>],
    /// All snapshots of overrides.
    pub overrides: Overrides<'a>,
    /// What the hub's API says of kinds.
    pub cluster_scoped: ClusterScoped<'a>,
    /// Groups of resources that unfinished update runs name.
    pub named_by_runs: &'a [u64],
    /// Groups of resources that update runs have ever recorded.
    pub recorded_by_runs: &'a [u64],
    /// Choices of whoever runs the hub.
    pub settings: HubFlags,
}

/// The hub agent's flags, as far as they matter here. The default is the hub agent's.
#[derive(Debug, Clone, Copy, Default)]
pub struct HubFlags {
    /// Those of the scheduler.
    pub scheduler: scheduler::SchedulerSettings,
    /// Whether objects that grant rights may come out of a namespace.
    pub rbac: Rbac,
}

/// Snapshots of overrides.
#[derive(Debug, Clone, Default)]
pub struct Overrides<'a> {
    /// All of ClusterResourceOverrides, by name: bindings may name old ones.
    pub cluster_wide: BTreeMap<&'a str, &'a ClusterResourceOverrideSpec>,
    /// All of ResourceOverrides, by namespace and name.
    pub namespaced: BTreeMap<(&'a str, &'a str), &'a ResourceOverrideSpec>,
    /// Those of the first that count.
    pub current_cluster_wide: Vec<&'a str>,
    /// Those of the second that count.
    pub current_namespaced: Vec<(&'a str, &'a str)>,
}

impl<'a> Overrides<'a> {
    /// Those that concern a placement with these resources.
    fn chosen(&self, key: &PlacementKey, resources: &[RawJson], cluster_scoped: ClusterScoped<'_>) -> Chosen<'a> {
        let candidates = Candidates::new(resources, cluster_scoped);
        let wide = self.current_cluster_wide.iter();
        let narrow = self.current_namespaced.iter();
        Chosen::new(
            key,
            &candidates,
            wide.filter_map(|name| Some((*name, *self.cluster_wide.get(name)?))),
            narrow.filter_map(|named| Some((named.0, named.1, *self.namespaced.get(named)?))),
        )
    }
}

/// The walk, as far as it has come.
struct Walk<'w, 'a> {
    world: &'w World<'a>,
    labels: BTreeMap<&'w str, &'w BTreeMap<String, String>>,
    texts: &'w [RawJson],
    chosen: Chosen<'a>,
}

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

impl<'w, 'a> Walk<'w, 'a> {
    fn new(world: &'w World<'a>, texts: &'w [RawJson]) -> Self {
        let labels = world.members.iter().filter_map(|member| {
            let labels = member.metadata.labels.as_ref().unwrap_or(&NO_LABELS);
            Some((member.metadata.name.as_deref()?, labels))
        });
        Self {
            world,
            labels: labels.collect(),
            texts,
            chosen: world.overrides.chosen(world.key, texts, world.cluster_scoped),
        }
    }

    fn history_limit(&self) -> usize {
        history_limit(self.world.placement.spec)
    }

    fn cluster<'c>(&'c self, name: &'c str) -> overrides::LabelledCluster<'c> {
        let labels = self.labels.get(name).copied().unwrap_or(&NO_LABELS);
        overrides::LabelledCluster { name, labels }
    }

    /// The overrides on a cluster, or what is wrong with them.
    fn lists(&self, cluster: &str) -> Result<Lists, String> {
        if self.world.unread.iter().any(|unread| unread == cluster) {
            return Err(format!("MemberCluster {cluster:?} cannot be read"));
        }
        self.chosen.on(&self.cluster(cluster)).map_err(|bad| bad.to_string())
    }
}

/// What the hub would do. With a `request`, what a staged run of it would.
pub fn plan(world: &World<'_>, request: Option<&Request<'_>>) -> Plan {
    let placement = Placing {
        kind: match world.key.scope() {
            Scope::Cluster => "ClusterResourcePlacement",
            Scope::Namespaced => "ResourcePlacement",
        },
        namespace: world.key.namespace().map(str::to_owned),
        name: world.key.name().to_owned(),
        is_new: world.is_new,
    };
    let selected = match world.selected {
        Ok(texts) => texts,
        Err(why) => return Plan::refused(placement, why),
    };
    // A run that names an index rolls out what was selected then.
    let then = request.and_then(|request| request.index);
    let then = then.and_then(|index| resources::of_index(world, index));
    let texts = then.as_ref().map_or(selected, |then| then.texts.as_slice());
    let walk = Walk::new(world, texts);
    let (mut resources, group) = match &then {
        Some(then) => resources::frozen_then(&walk, then),
        None => resources::freeze(&walk),
    };
    let picked = picking::pick(&walk);
    let external = world.placement.spec.rollout_type() == RolloutStrategyType::External;
    // Only a run makes snapshots then, and only a run changes what clusters have.
    let waits = external && request.is_none();
    resources.is_new &= !waits;
    let (rollout, run) = if external {
        let run = request.map(|request| staged::plan(&walk, &picked, &resources, then.as_ref(), request));
        (Rollout::external(), run)
    } else {
        (waves::roll_out(&walk, &picked, &group), None)
    };
    let mut clusters = picked.clusters;
    for cluster in &mut clusters {
        if !cluster.change.has_it() {
            continue;
        }
        match walk.lists(&cluster.name) {
            Ok(lists) => cluster.overrides = lists.into(),
            Err(why) => cluster.problem = Some(why),
        }
    }
    // What is in no stage of a run keeps what it has.
    let outline = run.as_ref().and_then(|run| run.outline.as_ref());
    let left_out = outline.iter().flat_map(|outline| &outline.unassigned);
    let left_out: BTreeSet<&str> = left_out.map(|cluster| cluster.cluster.as_str()).collect();
    let differences = if waits {
        Vec::new()
    } else {
        render::differences(&walk, &picked.bindings, (&group, &left_out), &mut clusters)
    };
    Plan {
        placement,
        refused: None,
        resources,
        policy: picked.policy,
        clusters,
        differences,
        rollout,
        run,
    }
}
