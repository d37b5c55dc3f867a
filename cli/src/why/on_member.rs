//! Objects as a member has them, read with a context of that cluster: who wrote them last, and who owns them.

use fleet_api::{
    names::FLEET_SYSTEM_NAMESPACE,
    placement::{DiffedPlacement, DriftedPlacement, FailedPlacement},
};
use fleet_core::explain::{LiveObject, Objects};
use jiff::Timestamp;
use kube::api::DynamicObject;

use super::answer::{Live, Manager};
use crate::{hub::Hub, problem::said, reading::Reader, subject::Key};

/// Objects whose field managers are read from a member.
const LIVE_MAX: usize = 5;

/// An object, with its kind as kubectl takes it.
pub(super) struct Wanted<'a> {
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
}

/// The object on a member. The outer none: it could not be read.
pub(super) async fn object(
    reader: &Reader<'_>,
    member: &Hub,
    cluster: &str,
    wanted: Wanted<'_>,
) -> Option<Option<DynamicObject>> {
    let Wanted { kind, namespace, name } = wanted;
    match member.kind(kind).await {
        Ok(Some(kind)) => match member.object(&kind, namespace, name).await {
            Ok(found) => return Some(found),
            Err(error) => hide(reader, member, cluster, &said(&error)),
        },
        Ok(None) => hide(
            reader,
            member,
            cluster,
            &format!("{cluster} does not know the kind {kind}"),
        ),
        Err(error) => hide(reader, member, cluster, &format!("{error:#}")),
    }
    None
}

fn hide(reader: &Reader<'_>, member: &Hub, cluster: &str, why: &str) {
    reader.hide(
        &format!("the object on {cluster}"),
        why,
        &format!("{} auth can-i --list", member.kubectl()),
    );
}

/// What the member agent says of itself; none if nobody can ask it, which is said.
pub(super) async fn readyz(reader: &Reader<'_>, member: &Hub, cluster: &str) -> Option<String> {
    let (what, pods) = (
        format!("what the member agent of {cluster} says"),
        format!("{} get pods -n {FLEET_SYSTEM_NAMESPACE}", member.kubectl()),
    );
    match member.readyz().await {
        Ok(None) => reader.hide(&what, &format!("no Pod of it runs in {FLEET_SYSTEM_NAMESPACE}"), &pods),
        Ok(says) => return says,
        Err(error) => reader.hide(&what, &said(&error), &pods),
    }
    None
}

pub(super) fn live_object(cluster: &str, object: &DynamicObject) -> LiveObject {
    LiveObject {
        cluster: cluster.to_owned(),
        kind: object
            .types
            .as_ref()
            .map(|types| types.kind.clone())
            .unwrap_or_default(),
        metadata: object.metadata.clone(),
    }
}

pub(super) fn described(object: Option<&DynamicObject>) -> Live {
    let metadata = object.map(|object| object.metadata.clone()).unwrap_or_default();
    let entries = metadata.managed_fields.unwrap_or_default();
    let mut managers: Vec<_> = entries
        .into_iter()
        .map(|entry| Manager {
            name: entry.manager.unwrap_or_default(),
            at: entry.time,
        })
        .collect();
    managers.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.name.cmp(&b.name)));
    let owners = metadata.owner_references.unwrap_or_default().into_iter();
    Live {
        exists: object.is_some(),
        created_at: metadata.creation_timestamp,
        managers,
        owners: owners
            .map(|owner| format!("{}/{}", owner.kind.to_lowercase(), owner.name))
            .collect(),
    }
}

/// Objects in trouble on a cluster, as its member has them: who changed them.
pub(super) async fn drifted(
    reader: &Reader<'_>,
    objects: &Objects,
    key: &Key,
    cluster: &str,
    member: &Hub,
    now: Timestamp,
) -> Vec<LiveObject> {
    let fleet = objects.fleet(&key.namespace, now);
    let Some(status) = fleet.binding(&key.name, cluster).and_then(|binding| binding.status) else {
        return Vec::new();
    };
    let failed = status.failed_placements.iter().map(FailedPlacement::resource);
    let drifted = status.drifted_placements.iter().map(DriftedPlacement::resource);
    let diffed = status.diffed_placements.iter().map(DiffedPlacement::resource);
    let mut ids: Vec<_> = drifted.chain(diffed).chain(failed).collect();
    ids.dedup();
    let kinds = match member.kinds().await {
        Ok(kinds) if !ids.is_empty() => kinds,
        Ok(_) => return Vec::new(),
        Err(error) => {
            hide(reader, member, cluster, &format!("{error:#}"));
            return Vec::new();
        }
    };
    let mut live = Vec::new();
    for id in ids.iter().take(LIVE_MAX) {
        let kind = kinds
            .iter()
            .find(|kind| kind.resource.group == id.group && kind.resource.kind == id.kind);
        let Some(kind) = kind else {
            continue;
        };
        match member.object(kind, &id.namespace, &id.name).await {
            Ok(found) => live.extend(found.map(|object| live_object(cluster, &object))),
            Err(error) => hide(reader, member, cluster, &said(&error)),
        }
    }
    live
}
