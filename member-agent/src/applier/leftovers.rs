//! Objects that a Work brought and no longer names.

use std::collections::BTreeSet;

use fleet_api::placement::WorkResourceIdentifier;
use fleet_core::apply::{
    identify::Manifest,
    inventory::{Confirmed, Inventory, Removal, removal},
    owners::Owner,
};
use futures::{StreamExt as _, stream};

use super::{
    kinds::{Elsewhere, Gvk, Kind, Kinds},
    objects::{Found, Objects, Place},
};

const AT_ONCE: usize = 8;

/// What became of one leftover.
enum Fate {
    Forget(Confirmed),
    Keep,
    Failed(String),
}

/// Removes what is left over, and forgets what is gone. Returns why some could not be removed.
pub(super) async fn remove(
    objects: &Objects,
    kinds: &Kinds,
    owner: &Owner,
    inventory: &mut Inventory,
    manifests: &[Manifest],
    current: &BTreeSet<String>,
) -> Vec<(String, String)> {
    let left: Vec<WorkResourceIdentifier> = inventory.leftovers(manifests).into_iter().cloned().collect();
    if left.is_empty() {
        return Vec::new();
    }
    kinds.learn(left.iter().map(gvk)).await;
    let fates: Vec<(WorkResourceIdentifier, Fate)> = stream::iter(left)
        .map(|id| async {
            let fate = one(objects, kinds, owner, &id, current).await;
            (id, fate)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut failures = Vec::new();
    for (id, fate) in fates {
        match fate {
            Fate::Forget(confirmed) => inventory.forget(&id, confirmed),
            Fate::Keep => {}
            Fate::Failed(error) => failures.push((describe(&id), error)),
        }
    }
    failures.sort();
    failures
}

async fn one(
    objects: &Objects,
    kinds: &Kinds,
    owner: &Owner,
    id: &WorkResourceIdentifier,
    current: &BTreeSet<String>,
) -> Fate {
    let place = match place(kinds, id) {
        Ok(place) => place,
        Err(error) => match kinds.elsewhere(&gvk(id)).await {
            Elsewhere::Served(kind) => at(kind, id),
            Elsewhere::Nowhere => return Fate::Forget(Confirmed::Gone),
            Elsewhere::Unknown => return Fate::Failed(error),
        },
    };
    let live = objects.get(&place).await;
    if let Found::Unserved(error) = live {
        // Looked for anew in the next round.
        kinds.forget(&gvk(id));
        return Fate::Failed(error);
    }
    let outcome = match removal(live.as_live(), owner, current) {
        Removal::Forget(confirmed) => return Fate::Forget(confirmed),
        Removal::Keep => {
            return match live {
                Found::Failed(error) => Fate::Failed(error),
                _ => Fate::Keep,
            };
        }
        Removal::Delete { uid } => objects.delete(&place, &uid).await,
        Removal::Release(object) => match objects.replace(&place, &object).await {
            Ok(_) => return Fate::Forget(Confirmed::Released),
            Err(refusal) => Err(refusal),
        },
    };
    match outcome {
        // Most are gone at once; for the rest their watch tells.
        Ok(_) => match removal(objects.get(&place).await.as_live(), owner, current) {
            Removal::Forget(confirmed) => Fate::Forget(confirmed),
            _ => Fate::Keep,
        },
        Err(refusal) => Fate::Failed(refusal.text),
    }
}

pub(super) fn gvk(id: &WorkResourceIdentifier) -> Gvk {
    Gvk {
        group: id.group.clone(),
        version: id.version.clone(),
        kind: id.kind.clone(),
    }
}

/// Where an object of the inventory is, if its kind is known.
pub(super) fn place(kinds: &Kinds, id: &WorkResourceIdentifier) -> Result<Place, String> {
    Ok(at(kinds.find(&gvk(id))?, id))
}

fn at(kind: Kind, id: &WorkResourceIdentifier) -> Place {
    Place {
        kind,
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}

/// An object as people name it.
pub(super) fn describe(id: &WorkResourceIdentifier) -> String {
    if id.namespace.is_empty() {
        format!("{} {}", id.kind, id.name)
    } else {
        format!("{} {}/{}", id.kind, id.namespace, id.name)
    }
}
