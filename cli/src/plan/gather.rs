//! The world of a placement, read from the hub with few requests, side by side.

use anyhow::{Context as _, Result};
use fleet_api::{
    cluster::MemberCluster,
    kind::Kind,
    labels,
    names::PlacementKey,
    placement::{ClusterResourceOverrideSnapshot, PlacementSpec, ResourceOverrideSnapshot, Scope},
    raw::RawJson,
};
use fleet_core::{
    explain::View,
    plan::{self, HubFlags, Request, World},
    selection::{ObjectId, apis::Apis},
    snapshot::number,
    work::Stored,
};
use kube::{
    Client, Resource as _,
    core::{
        ObjectMeta,
        object::{HasSpec as _, HasStatus as _},
    },
};

use super::{
    asked::Asked,
    kinds::Kinds,
    known::Known,
    manifests::{Object, placement_scope},
    read::{LARGE_PAGE, PAGE, find, list, may},
    runs::{WrittenRun, groups_of_runs, strategy},
    selected,
    show::Shown,
};
use crate::{problem::Failure, terminal::now};

/// What a plan cannot say without these kinds.
const WITHOUT_POLICIES: &str = "whether the policy is new is not known";
const WITHOUT_SNAPSHOTS: &str = "what clusters have is not known, so that all of it looks new";
const WITHOUT_BINDINGS: &str = "which clusters have it is not known, so that they are picked as for a new placement";
const WITHOUT_OVERRIDES: &str = "overrides are left out";

/// Reads the world, lays the files over it, and plans.
pub(in crate::plan) async fn plan<S: Scope>(client: &Client, asked: &Asked<'_>) -> Result<Shown> {
    let (mut notes, mut hidden) = (Vec::new(), Vec::new());
    let (key, apis) = (asked.key, Apis::default());
    let namespace = key.namespace();
    let of_placement = format!("{}={}", labels::PARENT_PLACEMENT, key.name());
    let (kinds, live, members, policies, resources, bindings, wide, narrow) = futures::try_join!(
        Kinds::discover(client, &apis),
        async { Ok(find::<S::Placement>(client, namespace, key.name()).await?) },
        async { Ok(list::<MemberCluster>(client, None, "", PAGE).await?) },
        may::<S::PolicySnapshot>(client, namespace, &of_placement, PAGE, WITHOUT_POLICIES),
        may::<S::ResourceSnapshot>(client, namespace, &of_placement, LARGE_PAGE, WITHOUT_SNAPSHOTS),
        may::<S::Binding>(client, namespace, &of_placement, PAGE, WITHOUT_BINDINGS),
        may::<ClusterResourceOverrideSnapshot>(client, None, "", PAGE, WITHOUT_OVERRIDES),
        may::<ResourceOverrideSnapshot>(client, namespace, "", PAGE, WITHOUT_OVERRIDES),
    )?;
    let (policies, resources, bindings) = (
        policies.seen(&mut hidden),
        resources.seen(&mut hidden),
        bindings.seen(&mut hidden),
    );
    let (wide, narrow) = (wide.seen(&mut hidden).items, narrow.seen(&mut hidden).items);
    let unread: Vec<_> = policies
        .unread
        .iter()
        .chain(&resources.unread)
        .chain(&bindings.unread)
        .collect();
    if !unread.is_empty() {
        notes.push(format!("left out, since this version cannot read them: {unread:?}"));
    }
    let over = asked
        .manifests
        .tried(client, &kinds, asked.namespace, &mut notes)
        .await?;
    let placement = placement::<S>(key, live, &over)?;
    let is_new = placement.is_new;
    let texts = frozen::<S>(&resources.items);
    let selectors = &placement.spec.resource_selectors;
    let selected = selected::select(client, &kinds, key, selectors, &over, &texts, &mut notes).await?;

    let run = WrittenRun::find::<S>(client, key, &over, asked.strategy).await?;
    let name = run.as_ref().map(|run| run.spec.staged_rollout_strategy_name.as_str());
    let name = name.or(asked.strategy);
    let strategy = match name {
        Some(name) => strategy::<S>(client, namespace, name, &over).await?,
        None => None,
    };
    let index = match &run {
        Some(run) => run.index(),
        None => asked.index.map(|index| index.to_string()),
    };
    let request = name.map(|name| Request {
        strategy: name,
        spec: strategy.as_ref().map(|(spec, _)| spec),
        settings: strategy.as_ref().map(|(_, settings)| settings),
        index: index.as_deref(),
        run: run.as_ref().map(WrittenRun::written),
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
    let runs = groups_of_runs::<S>(client, namespace, key).await;
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
        named_by_runs: &runs.needed,
        recorded_by_runs: &runs.recorded,
        settings: HubFlags::default(),
    };
    Ok(Shown::new(plan::plan(&world, request.as_ref()), notes, hidden))
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
        (None, None) => Err(Failure::error(
            format!(
                "there is no {} {key} (`-f` takes one that is only a file)",
                S::Placement::KIND
            ),
            format!("kubectl get {} --all-namespaces", S::Placement::CRD.plural),
        )),
    }
}

/// The texts of the newest group of snapshots.
fn frozen<S: Scope>(snapshots: &[S::ResourceSnapshot]) -> Vec<RawJson> {
    let index = |it: &S::ResourceSnapshot| number(it.meta(), labels::RESOURCE_INDEX);
    let newest = snapshots.iter().filter_map(index).max();
    let group = snapshots.iter().filter(|it| index(it) == newest);
    group.flat_map(|it| it.spec().selected_resources.clone()).collect()
}
