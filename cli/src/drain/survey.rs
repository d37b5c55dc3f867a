//! What a cluster has, and who has yet to do with it.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::{
    conditions::{self, update_run, update_stage::ClusterSucceeded},
    labels::PARENT_PLACEMENT,
    placement::{
        BindingSpec, ClusterResourceBinding, ClusterScoped, Namespaced, ResourceBinding, Scope, StageStatus,
        UpdateRunStatus,
    },
};
use kube::Resource as _;
use kube::core::{
    ObjectMeta,
    object::{HasSpec as _, HasStatus as _},
};

use super::report::HeldUp;
use crate::{hub::Hub, problem::Problem};

/// What is on a cluster.
#[derive(Debug, Default)]
pub(super) struct Survey {
    /// The ClusterResourcePlacements that have a claim on it.
    pub(super) placements: BTreeSet<String>,
    /// Those of which only a claim is left that is being removed.
    pub(super) removing: BTreeSet<String>,
    /// Bindings that do not say whose they are.
    pub(super) orphans: BTreeSet<String>,
    /// The ResourcePlacements that have a claim on it, by namespace and name.
    pub(super) namespaced: BTreeSet<(String, String)>,
    /// Unfinished update runs that have yet to do with it, by namespace and name of their placement.
    pub(super) runs: BTreeMap<(Option<String>, String), Vec<HeldUp>>,
    /// What could not be read.
    pub(super) odd: Vec<String>,
}

/// Looks at everything that speaks of a cluster.
pub(super) async fn take(hub: &Hub, cluster: &str) -> Result<Survey, Problem> {
    let mut survey = Survey::default();
    let is_there = |spec: &BindingSpec| spec.target_cluster == cluster;
    let bindings = hub.list("", |it: &ClusterResourceBinding| is_there(&it.spec)).await?;
    survey.odd.extend(bindings.odd);
    for binding in &bindings.items {
        match parent(&binding.metadata) {
            Some(name) if binding.metadata.deletion_timestamp.is_none() => _ = survey.placements.insert(name),
            Some(name) => _ = survey.removing.insert(name),
            None => _ = survey.orphans.insert(binding.metadata.name.clone().unwrap_or_default()),
        }
    }
    survey.removing.retain(|name| !survey.placements.contains(name));
    // A hub may have no namespaced placements.
    let bindings = hub.list("", |it: &ResourceBinding| is_there(&it.spec)).await;
    if let Some(bindings) = if_served(bindings)? {
        survey.odd.extend(bindings.odd);
        let stays = bindings
            .items
            .iter()
            .filter(|it| it.metadata.deletion_timestamp.is_none());
        for binding in stays {
            let name = parent(&binding.metadata).or_else(|| binding.metadata.name.clone());
            let namespace = binding.metadata.namespace.clone();
            survey
                .namespaced
                .insert((namespace.unwrap_or_default(), name.unwrap_or_default()));
        }
    }
    survey.ahead::<ClusterScoped>(hub, cluster).await?;
    survey.ahead::<Namespaced>(hub, cluster).await?;
    Ok(survey)
}

fn parent(metadata: &ObjectMeta) -> Option<String> {
    metadata.labels.as_ref()?.get(PARENT_PLACEMENT).cloned()
}

fn if_served<T>(answer: Result<T, Problem>) -> Result<Option<T>, Problem> {
    match answer {
        Err(problem) if problem.is_unserved() => Ok(None),
        answer => answer.map(Some),
    }
}

impl Survey {
    /// Adds the runs that have yet to do with the cluster.
    async fn ahead<S: Scope>(&mut self, hub: &Hub, cluster: &str) -> Result<(), Problem> {
        let is_ahead = |run: &S::UpdateRun| {
            let status = run.status();
            run.meta().deletion_timestamp.is_none() && status.is_some_and(|status| ahead(status, cluster).is_some())
        };
        let Some(runs) = if_served(hub.list("", is_ahead).await)? else {
            return Ok(());
        };
        self.odd.extend(runs.odd);
        for run in &runs.items {
            let Some((stage, removes)) = run.status().and_then(|status| ahead(status, cluster)) else {
                continue;
            };
            let (namespace, placement) = (run.meta().namespace.clone(), run.spec().placement_name.clone());
            let own = self.runs.entry((namespace.clone(), placement)).or_default();
            own.push(HeldUp::UpdateRun {
                namespace,
                name: run.meta().name.clone().unwrap_or_default(),
                stage: stage.stage_name.clone(),
                removes,
            });
        }
        Ok(())
    }
}

/// The stage of an unfinished run that has yet to do with the cluster, and whether it removes from it.
fn ahead<'a>(status: &'a UpdateRunStatus, cluster: &str) -> Option<(&'a StageStatus, bool)> {
    let is_over = conditions::find(&status.conditions, update_run::Succeeded::TYPE)
        .is_some_and(|said| conditions::Status::of(said) != conditions::Status::Unknown);
    if is_over {
        return None;
    }
    let has_it = |stage: &&StageStatus| {
        let mut clusters = stage.clusters.iter().filter(|it| it.cluster_name == cluster);
        clusters.any(|it| conditions::find(&it.conditions, ClusterSucceeded::TYPE).is_none())
    };
    let removal = status
        .deletion_stage_status
        .as_ref()
        .filter(has_it)
        .map(|stage| (stage, true));
    let update = status.stages_status.iter().find(has_it).map(|stage| (stage, false));
    update.or(removal)
}
