//! The plan of a run as people approve it: what each cluster has, what it gets and in which stage, with a hash of all of it.
//!
//! The hub and `kubectl fleet plan` make it with the same function from the same objects. The index of the resources is not
//! part of it: a snapshot that is only made when the run begins has none yet, but its content is known.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::names;
use fleet_api::placement::{ApplyStrategy, BindingState, NamespacedName, UpdateRunStatus, UpdateStrategySpec};
use serde::Serialize;

use super::world::Binding;
use super::world::by_cluster;
use crate::text;

/// Hex digits of a part of the hash. A part only has to differ from that of another plan for the same placement.
const PART_DIGITS: usize = 16;

/// What a run would do.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outline {
    /// The hash of the resources.
    pub content: String,
    /// The stages, in order.
    pub stages: Vec<OutlinedStage>,
    /// Picked clusters that are in no stage.
    pub unassigned: Vec<OutlinedCluster>,
    /// Clusters from which the placement is removed in the end.
    pub leaving: Vec<OutlinedCluster>,
    /// How objects are applied.
    pub apply_strategy: Option<ApplyStrategy>,
    /// The update strategy as the run records it.
    pub strategy: Option<UpdateStrategySpec>,
}

/// One stage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutlinedStage {
    /// Its name.
    pub name: String,
    /// Its clusters, in the order of their update.
    pub clusters: Vec<OutlinedCluster>,
}

/// One cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OutlinedCluster {
    /// Its name.
    pub cluster: String,
    /// What it has now.
    pub has: Contents,
    /// The overrides that it gets.
    pub gets: Named,
}

/// What a binding names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Contents {
    /// The master resource snapshot; empty if there is nothing yet.
    pub snapshot: String,
    /// The overrides.
    #[serde(flatten)]
    pub overrides: Named,
}

/// Override snapshots by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Named {
    /// Those of ClusterResourceOverrides.
    pub cluster_resource_override_snapshots: Vec<String>,
    /// Those of ResourceOverrides.
    pub resource_override_snapshots: Vec<NamespacedName>,
}

impl Outline {
    /// The outline of the plan that `status` records, as [`plan`](super::plan) has made it from these bindings. `content` is
    /// the hash of the resources.
    pub fn of(status: &UpdateRunStatus, bindings: &[Binding<'_>], content: &str) -> Self {
        let bindings = by_cluster(bindings);
        let cluster = |name: &str, gets: Named| OutlinedCluster {
            cluster: name.to_owned(),
            has: bindings.get(name).map(|binding| has(binding)).unwrap_or_default(),
            gets,
        };
        let stages = status.stages_status.iter().map(|stage| OutlinedStage {
            name: stage.stage_name.clone(),
            clusters: stage
                .clusters
                .iter()
                .map(|entry| {
                    let gets = Named {
                        cluster_resource_override_snapshots: entry.cluster_resource_override_snapshots.clone(),
                        resource_override_snapshots: entry.resource_override_snapshots.clone(),
                    };
                    cluster(&entry.cluster_name, gets)
                })
                .collect(),
        });
        let stages: Vec<_> = stages.collect();
        let placed = stages.iter().flat_map(|stage| &stage.clusters);
        let placed: BTreeSet<_> = placed.map(|entry| entry.cluster.as_str()).collect();
        let picked = bindings
            .iter()
            .filter(|(_, binding)| matches!(binding.spec.state, BindingState::Scheduled | BindingState::Bound));
        let unassigned = picked.filter(|(name, _)| !placed.contains(*name));
        let leaving = status.deletion_stage_status.iter().flat_map(|stage| &stage.clusters);
        Self {
            content: content.to_owned(),
            unassigned: unassigned.map(|(name, _)| cluster(name, Named::default())).collect(),
            leaving: leaving
                .map(|entry| cluster(&entry.cluster_name, Named::default()))
                .collect(),
            stages,
            apply_strategy: status.apply_strategy.clone(),
            strategy: status.staged_update_strategy_snapshot.clone(),
        }
    }

    /// The hash of all of it, in parts, so that a plan that differs can tell what does.
    pub fn hash(&self) -> String {
        let digests: Vec<_> = self.parts().into_iter().map(|part| part.digest).collect();
        digests.join(".")
    }

    /// The first difference from the plan with the hash `approved`, in words; none if it is the same.
    pub fn first_difference(&self, approved: &str) -> Option<String> {
        let parts = self.parts();
        let approved: Vec<_> = approved.trim().split('.').collect();
        if approved.len() != parts.len() {
            return Some("the hash is none that `kubectl fleet plan` has printed".to_owned());
        }
        let mut pairs = parts.into_iter().zip(approved);
        let (part, _) = pairs.find(|(part, approved)| part.digest != *approved)?;
        Some(format!("{} ({})", part.title, part.now))
    }

    /// The parts of the hash, those first that explain the others.
    fn parts(&self) -> [Part; 6] {
        let stages: Vec<_> = self
            .stages
            .iter()
            .map(|stage| (&stage.name, &stage.clusters))
            .map(|(name, clusters)| {
                (
                    name,
                    clusters.iter().map(|it| (&it.cluster, &it.gets)).collect::<Vec<_>>(),
                )
            })
            .collect();
        let all = self
            .stages
            .iter()
            .flat_map(|stage| &stage.clusters)
            .chain(&self.leaving);
        let has: BTreeMap<_, _> = all.map(|it| (&it.cluster, &it.has)).collect();
        let shown = self.stages.iter();
        let shown: Vec<_> = shown
            .map(|stage| format!("{}: {}", stage.name, names_of(&stage.clusters)))
            .collect();
        [
            Part::new("the resources", self.content.clone(), &self.content),
            Part::new(
                "the update strategy or the apply strategy",
                "as they are now".to_owned(),
                &(&self.strategy, &self.apply_strategy),
            ),
            Part::new(
                "the clusters of the stages, their order or their overrides",
                shown.join("; "),
                &stages,
            ),
            Part::new(
                "the clusters in no stage",
                names_of(&self.unassigned),
                &clusters(&self.unassigned),
            ),
            Part::new(
                "the clusters to be left",
                names_of(&self.leaving),
                &clusters(&self.leaving),
            ),
            Part::new("what the clusters have now", "somebody has changed it".to_owned(), &has),
        ]
    }
}

fn has(binding: &Binding<'_>) -> Contents {
    Contents {
        snapshot: binding.spec.resource_snapshot_name.clone(),
        overrides: Named {
            cluster_resource_override_snapshots: binding.spec.cluster_resource_override_snapshots.clone(),
            resource_override_snapshots: binding.spec.resource_override_snapshots.clone(),
        },
    }
}

fn clusters(list: &[OutlinedCluster]) -> Vec<&str> {
    list.iter().map(|entry| entry.cluster.as_str()).collect()
}

/// Names for people: a few of them.
fn names_of(list: &[OutlinedCluster]) -> String {
    const SHOWN_MAX: usize = 10;
    let names = clusters(list);
    if names.is_empty() {
        return "none now".to_owned();
    }
    text::few(&names, SHOWN_MAX)
}

/// A part of the hash.
struct Part {
    title: &'static str,
    /// What it is now, for people.
    now: String,
    digest: String,
}

impl Part {
    fn new(title: &'static str, now: String, content: &impl Serialize) -> Self {
        let text = serde_json::to_string(content).expect("plain data with text keys is JSON");
        let mut digest = names::sha256_hex(text);
        digest.truncate(PART_DIGITS);
        Self { title, now, digest }
    }
}

#[cfg(test)]
mod tests {
    use fleet_api::placement::{BindingSpec, ClusterUpdatingStatus, StageStatus};

    use super::*;

    fn entry(cluster: &str) -> ClusterUpdatingStatus {
        ClusterUpdatingStatus {
            cluster_name: cluster.to_owned(),
            ..ClusterUpdatingStatus::default()
        }
    }

    fn stage(name: &str, clusters: &[&str]) -> StageStatus {
        StageStatus {
            stage_name: name.to_owned(),
            clusters: clusters.iter().map(|cluster| entry(cluster)).collect(),
            ..StageStatus::default()
        }
    }

    fn outline(stages: &[StageStatus], specs: &[(&str, BindingSpec)], content: &str) -> Outline {
        let status = UpdateRunStatus {
            stages_status: stages.to_vec(),
            deletion_stage_status: Some(stage("kubernetes-fleet.io/deleteStage", &["old"])),
            ..UpdateRunStatus::default()
        };
        let bindings: Vec<_> = specs
            .iter()
            .map(|(name, spec)| Binding {
                name,
                uid: "",
                generation: 1,
                deleting: false,
                update_run: None,
                spec,
                conditions: &[],
            })
            .collect();
        Outline::of(&status, &bindings, content)
    }

    fn binding(cluster: &'static str, state: BindingState, snapshot: &str) -> (&'static str, BindingSpec) {
        let spec = BindingSpec {
            state,
            target_cluster: cluster.to_owned(),
            resource_snapshot_name: snapshot.to_owned(),
            ..BindingSpec::default()
        };
        (cluster, spec)
    }

    fn fleet(snapshot: &str) -> Vec<(&'static str, BindingSpec)> {
        vec![
            binding("a", BindingState::Bound, snapshot),
            binding("b", BindingState::Scheduled, ""),
            binding("old", BindingState::Unscheduled, snapshot),
        ]
    }

    #[test]
    fn equal_plans_have_equal_hashes_whatever_the_index_will_be() {
        let stages = [stage("canary", &["a"]), stage("rest", &["b"])];
        let plan = outline(&stages, &fleet("web-0-snapshot"), "c0ffee");
        let mut turned = fleet("web-0-snapshot");
        turned.reverse();
        let again = outline(&stages, &turned, "c0ffee");
        assert_eq!(plan, again);
        assert_eq!(again.first_difference(&plan.hash()), None);
        assert_eq!(plan.stages[0].clusters[0].has.snapshot, "web-0-snapshot");
        assert_eq!(clusters(&plan.leaving), ["old"]);
        assert!(plan.unassigned.is_empty());
    }

    #[test]
    fn the_first_difference_is_named() {
        let stages = [stage("canary", &["a"]), stage("rest", &["b"])];
        let approved = outline(&stages, &fleet("web-0-snapshot"), "c0ffee").hash();
        let differs = |stages: &[StageStatus], specs: &[(&str, BindingSpec)], content: &str| {
            outline(stages, specs, content).first_difference(&approved)
        };
        let now = fleet("web-0-snapshot");
        for (stages, specs, content, text) in [
            (&stages[..], &now, "decaf", "the resources (decaf)"),
            (
                &[stage("canary", &["b"]), stage("rest", &["a"])],
                &now,
                "c0ffee",
                "the clusters of the stages, their order or their overrides (canary: b; rest: a)",
            ),
            (
                &stages[..],
                &fleet("web-1-snapshot"),
                "c0ffee",
                "what the clusters have now (somebody has changed it)",
            ),
        ] {
            assert_eq!(differs(stages, specs, content).as_deref(), Some(text));
        }
        let mut more = now.clone();
        more.push(binding("new", BindingState::Scheduled, ""));
        assert_eq!(
            differs(&stages, &more, "c0ffee").as_deref(),
            Some("the clusters in no stage (new)")
        );
        assert_eq!(
            outline(&stages, &now, "c0ffee").first_difference("sha256:1").as_deref(),
            Some("the hash is none that `kubectl fleet plan` has printed")
        );
    }
}
