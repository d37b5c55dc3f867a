//! What two resource snapshots of a placement hold differently. Their content is read for this alone, with the user's rights;
//! what is secret in it is masked before it is compared.

use std::collections::BTreeMap;

use fleet_api::{
    guard::Guarded,
    kind::{HasSpec as _, Kind},
    labels::{PARENT_PLACEMENT, RESOURCE_INDEX},
    placement::{ClusterScoped, Namespaced, PatchDetail, Scope},
};
use fleet_core::{apply::diff::differences, selection::ObjectId};
use kube::{Api, Client, api::ListParams};
use serde_json::Value;

use crate::view::Name;

/// A large snapshot comes in parts of about a megabyte; more is not read into memory at once.
const PARTS_MAX: u32 = 50;

/// An object that two snapshots do not have alike.
pub(crate) struct Change {
    pub(crate) object: String,
    pub(crate) kind: ChangeKind,
}

pub(crate) enum ChangeKind {
    Added,
    Removed,
    /// Some of the fields, and how many there are.
    Changed(Vec<PatchDetail>, usize),
}

/// What changes from one index to another.
pub(crate) async fn snapshots(client: &Client, placement: &Name, from: u64, to: u64) -> Result<Vec<Change>, String> {
    let (before, after) = if placement.namespace.is_empty() {
        futures::try_join!(
            content::<ClusterScoped>(Api::all(client.clone()), placement, from),
            content::<ClusterScoped>(Api::all(client.clone()), placement, to)
        )
    } else {
        futures::try_join!(
            content::<Namespaced>(Api::namespaced(client.clone(), &placement.namespace), placement, from),
            content::<Namespaced>(Api::namespaced(client.clone(), &placement.namespace), placement, to)
        )
    }?;
    let mut changes: Vec<Change> = Vec::new();
    for (object, old) in &before {
        let kind = match after.get(object) {
            None => ChangeKind::Removed,
            Some(new) => {
                let found = differences(old, new);
                if found.total == 0 {
                    continue;
                }
                ChangeKind::Changed(found.details, found.total)
            }
        };
        changes.push(Change {
            object: object.clone(),
            kind,
        });
    }
    let added = after.keys().filter(|object| !before.contains_key(*object));
    changes.extend(added.map(|object| Change {
        object: object.clone(),
        kind: ChangeKind::Added,
    }));
    Ok(changes)
}

/// The objects of a snapshot, of all its parts.
async fn content<S: Scope>(
    api: Api<Guarded<S::ResourceSnapshot>>,
    placement: &Name,
    index: u64,
) -> Result<BTreeMap<String, Value>, String> {
    let params = ListParams::default().limit(PARTS_MAX).labels(&format!(
        "{PARENT_PLACEMENT}={},{RESOURCE_INDEX}={index}",
        placement.name
    ));
    let listed = fleet_runtime::client::answered(api.list(&params)).await;
    let listed = listed.map_err(|error| format!("cannot read {}: {error}", S::ResourceSnapshot::CRD.plural))?;
    if listed.metadata.continue_.is_some_and(|more| !more.is_empty()) {
        return Err(format!(
            "resource snapshot {index} has more than {PARTS_MAX} parts: too much to compare here"
        ));
    }
    let mut objects = BTreeMap::new();
    for Guarded(snapshot) in listed.items {
        let snapshot = snapshot.map_err(|odd| odd.error)?;
        if kube::Resource::meta(&snapshot).namespace.as_deref().unwrap_or_default() != placement.namespace {
            continue;
        }
        for manifest in &snapshot.spec().selected_resources {
            let id = ObjectId::of(manifest)?;
            let slash = if id.namespace.is_empty() { "" } else { "/" };
            objects.insert(
                format!("{} {}{slash}{}", id.kind, id.namespace, id.name),
                manifest.to_value(),
            );
        }
    }
    if objects.is_empty() {
        return Err(format!(
            "there is no resource snapshot {index} of {} any more",
            placement.shown()
        ));
    }
    Ok(objects)
}
