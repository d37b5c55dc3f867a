//! Update runs: those of the files, what is left of those of the hub, and which snapshots they name.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use fleet_api::{
    annotations,
    kind::Kind,
    names::PlacementKey,
    placement::{GROUP, Scope, UpdateRunSpec, UpdateRunStatus, UpdateStrategySpec},
};
use fleet_core::{
    plan::{self, Written},
    updaterun::{Run, needed_indexes, recorded_indexes},
};
use kube::{
    Client, Resource as _,
    core::{
        ObjectMeta,
        object::{HasSpec as _, HasStatus as _},
    },
};

use super::{
    left::Left,
    manifests::Object,
    read::{PAGE, find, list},
};
use crate::problem::Failure;

/// A run that is in the files.
pub(super) struct WrittenRun {
    name: String,
    annotations: BTreeMap<String, String>,
    pub(super) spec: UpdateRunSpec,
    /// The run that it is to try again.
    retried: Option<(ObjectMeta, UpdateRunSpec, Option<UpdateRunStatus>)>,
}

impl WrittenRun {
    pub(super) async fn find<S: Scope>(
        client: &Client,
        key: &PlacementKey,
        over: &[Object],
        strategy: Option<&str>,
    ) -> Result<Option<Self>> {
        let namespace = key.namespace().unwrap_or_default();
        let is_own = |object: &&Object| {
            let id = &object.id;
            id.group == GROUP
                && id.kind == S::UpdateRun::KIND
                && id.namespace == namespace
                && object.value["spec"]["placementName"] == key.name()
        };
        let mut runs = over.iter().filter(is_own);
        let (Some(run), another) = (runs.next(), runs.next()) else {
            return Ok(None);
        };
        let next = "kubectl fleet plan --help";
        if another.is_some() {
            let text = format!("the files hold several update runs of {key}: a plan is about one");
            return Err(Failure::usage(text, next));
        }
        if strategy.is_some() {
            let text = format!(
                "update run {} of the files names its strategy: leave --strategy out",
                run.id.name
            );
            return Err(Failure::usage(text, next));
        }
        let spec = run.value["spec"].clone();
        let spec: UpdateRunSpec = serde_json::from_value(spec).context("the update run's spec cannot be read")?;
        let own = run.value["metadata"]["annotations"].clone();
        let own: BTreeMap<String, String> = serde_json::from_value(own).unwrap_or_default();
        let retried = match own.get(annotations::RETRY_OF) {
            Some(name) => find::<S::UpdateRun>(client, key.namespace(), name).await?,
            None => None,
        };
        Ok(Some(Self {
            name: run.id.name.clone(),
            annotations: own,
            spec,
            retried: retried.map(|run| (run.meta().clone(), run.spec().clone(), run.status().cloned())),
        }))
    }

    pub(super) fn index(&self) -> Option<String> {
        Some(self.spec.resource_snapshot_index.clone()).filter(|index| !index.is_empty())
    }

    /// As a plan takes it.
    pub(super) fn written(&self) -> Written<'_> {
        let retried = self.retried.as_ref();
        Written {
            name: &self.name,
            annotations: &self.annotations,
            retried: retried.map(|(meta, spec, status)| Run::of(meta, spec, status.as_ref())),
        }
    }
}

/// An update strategy of the files or of the hub, and its annotations.
pub(super) async fn strategy<S: Scope>(
    client: &Client,
    namespace: Option<&str>,
    name: &str,
    over: &[Object],
) -> Result<Option<(UpdateStrategySpec, BTreeMap<String, String>)>> {
    let kind = S::UpdateStrategy::KIND;
    let in_file = over
        .iter()
        .find(|it| it.id.group == GROUP && it.id.kind == kind && it.id.name == name);
    if let Some(object) = in_file {
        let spec = object.value["spec"].clone();
        let spec = serde_json::from_value(spec).context("the update strategy's spec cannot be read")?;
        let settings = object.value["metadata"]["annotations"].clone();
        return Ok(Some((spec, serde_json::from_value(settings).unwrap_or_default())));
    }
    let found = find::<S::UpdateStrategy>(client, namespace, name).await?;
    Ok(found.map(|strategy| {
        (
            strategy.spec().clone(),
            strategy.meta().annotations.clone().unwrap_or_default(),
        )
    }))
}

/// Groups of resources, by index.
#[derive(Default)]
pub(super) struct Groups {
    /// Those that unfinished runs name: the hub keeps them.
    pub(super) needed: Vec<u64>,
    /// Those that runs have ever recorded: the hub makes none of them again.
    pub(super) recorded: Vec<u64>,
}

/// The groups of resources that runs name. Who may not read runs learns the same of everything else.
pub(super) async fn groups_of_runs<S: Scope>(client: &Client, namespace: Option<&str>, key: &PlacementKey) -> Groups {
    let Ok(runs) = list::<S::UpdateRun>(client, namespace, "", PAGE).await else {
        return Groups::default();
    };
    let own = runs.items.iter().filter(|run| run.spec().placement_name == key.name());
    let own: Vec<_> = own.map(|run| Run::of(run.meta(), run.spec(), run.status())).collect();
    Groups {
        needed: needed_indexes(&own),
        recorded: recorded_indexes(&own),
    }
}

/// What an update run still has to do; none if there is no such run.
pub(super) async fn left<S: Scope>(client: &Client, namespace: Option<&str>, name: &str) -> Result<Option<Left>> {
    let Some(run) = find::<S::UpdateRun>(client, namespace, name).await? else {
        return Ok(None);
    };
    let status = run.status();
    let Some(status) = status.filter(|status| status.staged_update_strategy_snapshot.is_some()) else {
        let (placement, strategy) = (&run.spec().placement_name, &run.spec().staged_rollout_strategy_name);
        return Err(Failure::error(
            format!("update run {name} has no plan yet"),
            format!("kubectl fleet plan {placement} --strategy {strategy}"),
        ));
    };
    Ok(Some(Left::new(
        S::UpdateRun::KIND,
        name,
        &run.spec().placement_name,
        &status.resource_snapshot_index_used,
        plan::left(status),
    )))
}
