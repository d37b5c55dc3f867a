//! Objects that a Work brought and no longer names.

use std::{collections::BTreeSet, time::Duration};

use fleet_api::placement::WorkResourceIdentifier;
use fleet_core::apply::{
    identify::Manifest,
    inventory::{Confirmed, Inventory, Removal, removal},
    owners::Owner,
};
use futures::{StreamExt as _, stream};
use tokio::time::timeout;

use super::member_api::{MemberApi, describe, gvk, json::uid, kinds::Elsewhere, objects::Found, place_in};

const AT_ONCE: usize = 8;
/// How long applying waits for what is left over.
const ROOM_MAX: Duration = Duration::from_secs(5);

/// What became of one leftover.
enum Fate {
    Forget(Confirmed),
    Keep,
    Failed(String),
}

/// Removes what is left over, and forgets what is gone. Returns why some could not be removed.
pub(super) async fn remove(
    api: &MemberApi,
    owner: &Owner,
    inventory: &mut Inventory,
    manifests: &[Manifest],
    current: &BTreeSet<String>,
) -> Vec<(String, String)> {
    let left: Vec<WorkResourceIdentifier> = inventory.leftovers(manifests).into_iter().cloned().collect();
    if left.is_empty() {
        return Vec::new();
    }
    api.learn(&left).await;
    all(api, owner, inventory, left, current).await
}

/// Removes what is left over before what replaces it is applied: a port or an address is free only then. What fails, or takes
/// long, or may be an object that the spec names under another group or kind, is left for [`remove`]: nothing waits for it.
pub(super) async fn make_room(api: &MemberApi, owner: &Owner, inventory: &mut Inventory, manifests: &[Manifest]) {
    let mut left: Vec<WorkResourceIdentifier> = inventory.leftovers(manifests).into_iter().cloned().collect();
    if left.is_empty() {
        return;
    }
    let room = async {
        api.learn(&left).await;
        let namesakes = Inventory::namesakes(&left, manifests).into_iter();
        let namesakes: Vec<WorkResourceIdentifier> = namesakes.map(|manifest| manifest.id.clone()).collect();
        let namesakes: Vec<(WorkResourceIdentifier, Option<Found>)> = stream::iter(namesakes)
            .map(|id| async {
                let live = match api.place(&id) {
                    Ok(place) => Some(api.objects.get(&place).await),
                    Err(_) => None,
                };
                (id, live)
            })
            .buffer_unordered(AT_ONCE)
            .collect()
            .await;
        let mut current = BTreeSet::new();
        for (id, live) in namesakes {
            match live {
                Some(Found::Object(live)) => {
                    current.insert(uid(&live).to_owned());
                }
                Some(Found::Absent) => {}
                _ => left.retain(|other| (&other.namespace, &other.name) != (&id.namespace, &id.name)),
            }
        }
        for (object, error) in all(api, owner, inventory, left, &current).await {
            tracing::debug!(object, error, "Not removed yet");
        }
    };
    if timeout(ROOM_MAX, room).await.is_err() {
        tracing::info!(work = owner.name, "Removing what is left over takes long");
    }
}

/// Removes each of these.
async fn all(
    api: &MemberApi,
    owner: &Owner,
    inventory: &mut Inventory,
    left: Vec<WorkResourceIdentifier>,
    current: &BTreeSet<String>,
) -> Vec<(String, String)> {
    let fates: Vec<(WorkResourceIdentifier, Fate)> = stream::iter(left)
        .map(|id| async {
            let fate = one(api, owner, &id, current).await;
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

/// What became of objects that were to lose their owner.
#[derive(Default)]
pub(super) struct Released {
    pub(super) released: Vec<String>,
    pub(super) failures: Vec<(String, String)>,
}

/// Takes our reference off objects, so that they stay whatever becomes of their owner, and forgets them.
pub(super) async fn release(
    api: &MemberApi,
    owner: &Owner,
    inventory: &mut Inventory,
    left: Vec<WorkResourceIdentifier>,
) -> Released {
    let mut outcome = Released::default();
    api.learn(&left).await;
    for id in left {
        let place = match api.place(&id) {
            Ok(place) => place,
            Err(error) => match api.kinds.elsewhere(&gvk(&id)).await {
                Elsewhere::Served(kind) => place_in(kind, &id),
                Elsewhere::Nowhere => {
                    inventory.forget(&id, Confirmed::Gone);
                    continue;
                }
                Elsewhere::Unknown => {
                    outcome.failures.push((describe(&id), error));
                    continue;
                }
            },
        };
        match api.objects.get(&place).await {
            Found::Absent => inventory.forget(&id, Confirmed::Gone),
            Found::Object(live) if !owner.owns(&live) => inventory.forget(&id, Confirmed::NotOurs),
            Found::Object(live) => match api.objects.replace(&place, &owner.released(&live)).await {
                Ok(_) => {
                    inventory.forget(&id, Confirmed::Released);
                    outcome.released.push(describe(&id));
                }
                Err(refusal) => outcome.failures.push((describe(&id), refusal.text)),
            },
            Found::Failed(error) | Found::Unserved(error) => outcome.failures.push((describe(&id), error)),
        }
    }
    outcome
}

async fn one(api: &MemberApi, owner: &Owner, id: &WorkResourceIdentifier, current: &BTreeSet<String>) -> Fate {
    let place = match api.place(id) {
        Ok(place) => place,
        Err(error) => match api.kinds.elsewhere(&gvk(id)).await {
            Elsewhere::Served(kind) => place_in(kind, id),
            Elsewhere::Nowhere => return Fate::Forget(Confirmed::Gone),
            Elsewhere::Unknown => return Fate::Failed(error),
        },
    };
    let live = api.objects.get(&place).await;
    if let Found::Unserved(error) = live {
        // Looked for anew in the next round.
        api.kinds.forget(&gvk(id));
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
        Removal::Delete { uid } => api.objects.delete(&place, &uid).await,
        Removal::Release(object) => match api.objects.replace(&place, &object).await {
            Ok(_) => return Fate::Forget(Confirmed::Released),
            Err(refusal) => Err(refusal),
        },
    };
    match outcome {
        // Most are gone at once; for the rest their watch tells.
        Ok(_) => match removal(api.objects.get(&place).await.as_live(), owner, current) {
            Removal::Forget(confirmed) => Fate::Forget(confirmed),
            _ => Fate::Keep,
        },
        Err(refusal) => Fate::Failed(refusal.text),
    }
}
