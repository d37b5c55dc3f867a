//! Objects that a Work brought and no longer names.

use std::collections::BTreeSet;

use fleet_core::apply::{
    identify::Manifest,
    inventory::{Confirmed, Entry, Inventory, Removal, removal},
    owners::Owner,
};
use futures::{StreamExt as _, stream};

use super::{
    kinds::{Gvk, Kinds},
    objects::{Objects, Place},
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
    let left: Vec<Entry> = inventory.leftovers(manifests).into_iter().cloned().collect();
    if left.is_empty() {
        return Vec::new();
    }
    kinds.learn(left.iter().map(gvk)).await;
    let fates: Vec<(Entry, Fate)> = stream::iter(left)
        .map(|entry| async {
            let fate = one(objects, kinds, owner, &entry, current).await;
            (entry, fate)
        })
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let mut failures = Vec::new();
    for (entry, fate) in fates {
        match fate {
            Fate::Forget(confirmed) => inventory.forget(&entry.id, confirmed),
            Fate::Keep => {}
            Fate::Failed(error) => failures.push((describe(&entry), error)),
        }
    }
    failures.sort();
    failures
}

async fn one(objects: &Objects, kinds: &Kinds, owner: &Owner, entry: &Entry, current: &BTreeSet<String>) -> Fate {
    let kind = match kinds.find(&gvk(entry)) {
        Ok(kind) => kind,
        Err(error) => return Fate::Failed(error),
    };
    let place = Place {
        kind,
        namespace: entry.id.namespace.clone(),
        name: entry.id.name.clone(),
    };
    let live = objects.get(&place).await;
    let outcome = match removal(live.as_live(), owner, current) {
        Removal::Forget(confirmed) => return Fate::Forget(confirmed),
        Removal::Keep => {
            return match live {
                super::objects::Found::Failed(error) => Fate::Failed(error),
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
        Ok(()) => match removal(objects.get(&place).await.as_live(), owner, current) {
            Removal::Forget(confirmed) => Fate::Forget(confirmed),
            _ => Fate::Keep,
        },
        Err(refusal) => Fate::Failed(refusal.text),
    }
}

pub(super) fn gvk(entry: &Entry) -> Gvk {
    Gvk {
        group: entry.id.group.clone(),
        version: entry.id.version.clone(),
        kind: entry.id.kind.clone(),
    }
}

/// An object as people name it.
pub(super) fn describe(entry: &Entry) -> String {
    let id = &entry.id;
    if id.namespace.is_empty() {
        format!("{} {}", id.kind, id.name)
    } else {
        format!("{} {}/{}", id.kind, id.namespace, id.name)
    }
}
