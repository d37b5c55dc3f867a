//! The world of a placement, read from the hub with few requests, side by side.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use fleet_api::{
    cluster::MemberCluster,
    guard::Guarded,
    kind::Kind,
    labels,
    names::PlacementKey,
    placement::{
        ClusterResourceOverrideSnapshot, GROUP, PlacementSpec, ResourceOverrideSnapshot, Scope, UpdateStrategySpec,
    },
    raw::RawJson,
};
use fleet_core::{
    explain::View,
    plan::{self, Request, Settings, World},
    selection::{ObjectId, apis::Apis},
    snapshot::number,
    updaterun::{Run, needed_indexes},
    work::Stored,
};
use kube::{
    Client, Resource as _,
    api::{ListParams, ObjectList},
    core::{
        ObjectMeta, Request as HttpRequest,
        object::{HasSpec as _, HasStatus as _},
    },
};

use super::{
    kinds::Kinds,
    known::Known,
    manifests::{Manifests, Object, placement_scope},
    selected,
    show::{Left, Shown},
};
use crate::{problem::Problem, terminal::now};

/// Objects of a page. MemberClusters and bindings have a few kilobytes.
const PAGE: u32 = 1000;
/// Snapshots hold up to a megabyte each.
const LARGE_PAGE: u32 = 10;

/// What is asked.
pub(in crate::plan) struct Asked<'a> {
    pub(in crate::plan) key: &'a PlacementKey,
    pub(in crate::plan) manifests: &'a Manifests,
    pub(in crate::plan) strategy: Option<&'a str>,
    pub(in crate::plan) index: Option<u64>,
}

/// What a list has found.
struct Listed<K> {
    items: Vec<K>,
    /// The names of objects that do not decode.
    unread: Vec<String>,
}

/// Reads the world, lays the files over it, and plans.
pub(in crate::plan) async fn plan<S: Scope>(client: &Client, asked: &Asked<'_>) -> Result<Shown> {
    let mut notes = Vec::new();
    let (key, apis) = (asked.key, Apis::default());
    let namespace = key.namespace();
    let of_placement = format!("{}={}", labels::PARENT_PLACEMENT, key.name());
    let (kinds, live, members, policies, resources, bindings, wide, narrow) = futures::try_join!(
        Kinds::discover(client, &apis),
        async { Ok(find::<S::Placement>(client, namespace, key.name()).await?) },
        async { Ok(list::<MemberCluster>(client, None, "", PAGE).await?) },
        async { Ok(list::<S::PolicySnapshot>(client, namespace, &of_placement, PAGE).await?) },
        async { Ok(list::<S::ResourceSnapshot>(client, namespace, &of_placement, LARGE_PAGE).await?) },
        async { Ok(list::<S::Binding>(client, namespace, &of_placement, PAGE).await?) },
        overrides::<ClusterResourceOverrideSnapshot>(client, None),
        overrides::<ResourceOverrideSnapshot>(client, namespace),
    )?;
    let (wide, hidden_wide) = wide;
    let (narrow, hidden_narrow) = narrow;
    notes.extend(hidden_wide.into_iter().chain(hidden_narrow));
    let unread: Vec<_> = policies
        .unread
        .iter()
        .chain(&resources.unread)
        .chain(&bindings.unread)
        .collect();
    if !unread.is_empty() {
        notes.push(format!("left out, since this version cannot read them: {unread:?}"));
    }
    let home = namespace.unwrap_or("default");
    let over = asked.manifests.tried(client, &kinds, home, &mut notes).await?;
    let placement = placement::<S>(key, live, &over)?;
    let is_new = placement.is_new;
    let texts = frozen::<S>(&resources.items);
    let selectors = &placement.spec.resource_selectors;
    let selected = selected::select(client, &kinds, key, selectors, &over, &texts, &mut notes).await?;

    let strategy = match asked.strategy {
        Some(name) => strategy::<S>(client, namespace, name, &over).await?,
        None => None,
    };
    let index = asked.index.map(|index| index.to_string());
    let request = asked.strategy.map(|name| Request {
        strategy: name,
        spec: strategy.as_ref().map(|(spec, _)| spec),
        settings: strategy.as_ref().map(|(_, settings)| settings),
        index: index.as_deref(),
    });
    let known = Known::new(&wide, &narrow, &over)?;
    let policies: Vec<_> = policies
        .items
        .iter()
        .map(|it| View::of(it.meta(), it.spec(), it.status()))
        .collect();
    let bindings: Vec<_> = bindings
        .items
        .iter()
        .map(|it| View::of(it.meta(), it.spec(), it.status()))
        .collect();
    let snapshots = resources.items.iter().map(|it| Stored {
        metadata: it.meta(),
        resources: &it.spec().selected_resources,
    });
    let snapshots: Vec<_> = snapshots.collect();
    let runs = named_by_runs::<S>(client, namespace, key).await;
    let scoped = |object: &ObjectId| kinds.is_cluster_scoped(object);
    let world = World {
        now: now(),
        key,
        placement: View::of(&placement.meta, &placement.spec, None),
        is_new,
        selected: selected.as_deref().map_err(String::as_str),
        members: &members.items,
        unread: &members.unread,
        policies: &policies,
        snapshots: &snapshots,
        bindings: &bindings,
        overrides: known.overrides(),
        cluster_scoped: &scoped,
        named_by_runs: &runs,
        settings: Settings::default(),
    };
    Ok(Shown::new(plan::plan(&world, request.as_ref()), notes))
}

/// The placement as it is, or as it would be.
struct Placement {
    meta: ObjectMeta,
    spec: PlacementSpec,
    is_new: bool,
}

fn placement<S: Scope>(key: &PlacementKey, live: Option<S::Placement>, over: &[Object]) -> Result<Placement> {
    let wanted = |object: &&Object| {
        placement_scope(&object.id) == Some(key.namespace().is_some())
            && object.id.name == key.name()
            && object.id.namespace == key.namespace().unwrap_or_default()
    };
    let is_new = live.is_none();
    match (over.iter().find(wanted), live) {
        (Some(object), live) => {
            let spec = object.value["spec"].clone();
            let spec: PlacementSpec = serde_json::from_value(spec).context("the placement's spec cannot be read")?;
            let mut meta: ObjectMeta = serde_json::from_value(object.value["metadata"].clone()).unwrap_or_default();
            // As it is written it has neither, and the API server counts a change up.
            if let Some(live) = live {
                let before = live.meta().generation.unwrap_or_default();
                let generation = if *live.spec() == spec { before } else { before + 1 };
                meta.generation = Some(meta.generation.unwrap_or(generation).max(generation));
                meta.uid.clone_from(&live.meta().uid);
            }
            meta.generation.get_or_insert(1);
            meta.uid.get_or_insert_default();
            Ok(Placement { meta, spec, is_new })
        }
        (None, Some(live)) => Ok(Placement {
            meta: live.meta().clone(),
            spec: live.spec().clone(),
            is_new,
        }),
        (None, None) => bail!(
            "there is no {} {key} (`kubectl get {}` lists them; `-f` takes one that is only a file)",
            S::Placement::KIND,
            S::Placement::CRD.plural
        ),
    }
}

/// The texts of the newest group of snapshots.
fn frozen<S: Scope>(snapshots: &[S::ResourceSnapshot]) -> Vec<RawJson> {
    let index = |it: &S::ResourceSnapshot| number(it.meta(), labels::RESOURCE_INDEX);
    let newest = snapshots.iter().filter_map(index).max();
    let group = snapshots.iter().filter(|it| index(it) == newest);
    group.flat_map(|it| it.spec().selected_resources.clone()).collect()
}

async fn strategy<S: Scope>(
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

/// The groups of resources that unfinished runs name: the hub keeps them. Who may not read runs learns the same of everything
/// else.
async fn named_by_runs<S: Scope>(client: &Client, namespace: Option<&str>, key: &PlacementKey) -> Vec<u64> {
    let Ok(runs) = list::<S::UpdateRun>(client, namespace, "", PAGE).await else {
        return Vec::new();
    };
    let own = runs.items.iter().filter(|run| run.spec().placement_name == key.name());
    let own: Vec<_> = own.map(|run| Run::of(run.meta(), run.spec(), run.status())).collect();
    needed_indexes(&own)
}

/// What an update run still has to do.
pub(in crate::plan) async fn left<S: Scope>(client: &Client, namespace: Option<&str>, name: &str) -> Result<Left> {
    let Some(run) = find::<S::UpdateRun>(client, namespace, name).await? else {
        bail!(
            "there is no {} {name:?} (`kubectl get {}` lists them)",
            S::UpdateRun::KIND,
            S::UpdateRun::CRD.plural
        );
    };
    let Some(status) = run
        .status()
        .filter(|status| status.staged_update_strategy_snapshot.is_some())
    else {
        bail!(
            "update run {name} has no plan yet: `kubectl fleet plan {} --strategy {}` makes one",
            run.spec().placement_name,
            run.spec().staged_rollout_strategy_name
        );
    };
    Ok(Left::new(
        S::UpdateRun::KIND,
        name,
        &run.spec().placement_name,
        &status.resource_snapshot_index_used,
        plan::left(status),
    ))
}

/// Snapshots of overrides, unless the hub has none or the user may not read them; then what to say of it.
async fn overrides<K: Kind>(client: &Client, namespace: Option<&str>) -> Result<(Vec<K>, Option<String>)> {
    let namespace = namespace.filter(|_| K::NAMESPACED);
    match list::<K>(client, namespace, "", PAGE).await {
        Ok(found) => Ok((found.items, None)),
        Err(problem) if problem.is_unserved() => Ok((Vec::new(), None)),
        Err(problem) if problem.is_forbidden() => {
            let note = format!("overrides are left out: {problem}");
            Ok((Vec::new(), Some(note)))
        }
        Err(problem) => Err(problem.into()),
    }
}

async fn find<K: Kind>(client: &Client, namespace: Option<&str>, name: &str) -> Result<Option<K>, Problem> {
    let failed = |error| Problem::new::<K>("get", error);
    let request = HttpRequest::new(K::url_path(&(), namespace));
    let request = request.get(name, &kube::api::GetParams::default());
    let request = request.map_err(|error| failed(kube::Error::BuildRequest(error)))?;
    match client.request::<K>(request).await.map_err(failed) {
        Ok(object) => Ok(Some(object)),
        Err(problem) if problem.is_missing() => Ok(None),
        Err(problem) => Err(problem),
    }
}

async fn list<K: Kind>(
    client: &Client,
    namespace: Option<&str>,
    selector: &str,
    page: u32,
) -> Result<Listed<K>, Problem> {
    let failed = |error| Problem::new::<K>("list", error);
    let path = HttpRequest::new(K::url_path(&(), namespace));
    let mut params = ListParams::default().limit(page);
    if !selector.is_empty() {
        params = params.labels(selector);
    }
    let mut found = Listed {
        items: Vec::new(),
        unread: Vec::new(),
    };
    loop {
        let request = path
            .list(&params)
            .map_err(|error| failed(kube::Error::BuildRequest(error)))?;
        let answer: ObjectList<Guarded<K>> = client.request(request).await.map_err(failed)?;
        for Guarded(object) in answer.items {
            match object {
                Ok(object) => found.items.push(object),
                Err(odd) => found.unread.push(odd.metadata.name.unwrap_or_default()),
            }
        }
        let Some(next) = answer.metadata.continue_.filter(|token| !token.is_empty()) else {
            return Ok(found);
        };
        params = params.continue_token(&next);
    }
}
