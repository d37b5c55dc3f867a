//! The end of a Work: what it brought is removed, and the hub is told when nothing is left.

use std::time::Duration;

use fleet_api::placement::{AppliedWork, WorkResourceIdentifier, WorkStatus};
use fleet_core::apply::{
    deletion::{AppliedWorkView, CleanUp, Ending, HubNamespace, Swept, clean_up, owns_others},
    identify::ObjectKey,
    inventory::Inventory,
    owners::Owner,
};
use fleet_proto::convert::{Blocker, CleanupProgress};
use fleet_runtime::clock::Clock;
use futures::{StreamExt as _, stream};
use jiff::SignedDuration;
use serde_json::json;
use tokio::time::Instant;

use super::{
    barrier::Barrier,
    measures::Measures,
    member_api::{MemberApi, describe, json::uid, objects::Found},
    owners::Owners,
    records::Records,
    report::Reporter,
    round::RoundFailure,
    works::{HubWork, Works},
};

/// How long a pause lasts that no event ends.
const PAUSE: Duration = Duration::from_secs(5);
/// How often a deletion that does not get on is looked at.
const STUCK: Duration = Duration::from_secs(30);
/// Objects at the same time.
const AT_ONCE: usize = 16;
/// Blockers that are named.
const BLOCKERS_MAX: usize = 10;

/// Ends Works.
pub(super) struct Cleanup {
    pub(super) api: MemberApi,
    pub(super) works: Works,
    pub(super) owners: Owners,
    pub(super) barrier: Barrier,
    pub(super) records: Records,
    pub(super) reporter: Reporter,
    pub(super) measures: Measures,
    /// How long the garbage collector is given before it is helped.
    pub(super) help_after: SignedDuration,
    pub(super) clock: Clock,
}

/// How far the end of a Work has come.
pub(super) enum Ended {
    /// There is nothing more to do, and nothing to remember.
    Yes,
    /// To be looked at again then.
    Later(Instant),
}

/// What has to happen before a deleted Work is cleaned up.
pub(super) enum Doubt {
    /// Nothing: what it brought is meant.
    None,
    /// What is here was brought by another Work of this name: it stays.
    NotItsOwn,
    /// What it does not name may have been forgotten by the hub: it is let go first.
    Forgotten(Owner, Inventory),
}

impl Ended {
    fn after(pause: Duration) -> Self {
        Self::Later(Instant::now() + pause)
    }
}

impl Cleanup {
    /// Whether all that is written down is what the deletion of the Work means.
    pub(super) fn doubt(&self, work: &HubWork, object: Option<&AppliedWork>) -> Doubt {
        let status = object.and_then(|object| object.status.as_ref());
        let Some(inventory) = status.and_then(Inventory::stored) else {
            return Doubt::None;
        };
        if self.records.goes_on(work, &inventory.attempt) {
            return Doubt::None;
        }
        if inventory.attempt.work_uid != work.uid() {
            return Doubt::NotItsOwn;
        }
        match object {
            Some(object) if !work.view().abandon => Doubt::Forgotten(owner_of(work, object), inventory),
            _ => Doubt::None,
        }
    }

    /// Leaves alone what another Work of this name brought.
    pub(super) fn leave(&self, work: &HubWork) {
        tracing::warn!(
            work = work.name(),
            "Another Work of this name brought what is here: it stays"
        );
        self.reporter.cleaned_up(work);
    }

    /// Writes down what is left after the Work let go of what it does not name.
    pub(super) async fn write(&self, owner: &Owner, inventory: &Inventory) -> Result<(), RoundFailure> {
        let status = json!({ "inventory": inventory.to_store(|_: &ObjectKey| false) });
        Ok(self.owners.write(&owner.name, &owner.uid, &status).await?)
    }

    /// Takes the clean-up of a Work as far as it goes. Called with no round of this Work under way.
    pub(super) async fn clean_up(
        &self,
        work: &HubWork,
        mut seen: (AppliedWorkView, Option<AppliedWork>),
    ) -> Result<Ended, RoundFailure> {
        // A cache may be old: nothing is removed before the hub itself says that the Work goes.
        if work.view().has_finalizer && !self.works.is_deleting(work).await {
            tracing::info!(
                work = work.name(),
                "Clean-up pauses: the hub does not say that the Work is being deleted"
            );
            return Ok(Ended::after(PAUSE));
        }
        let mut namespace = HubNamespace::NotAsked;
        let mut swept = Swept::NotYet;
        loop {
            let (view, object) = &seen;
            let now = self.clock.now();
            let step = clean_up(&Ending {
                joined: self.barrier.is_open(),
                round_in_flight: false,
                work: work.view(),
                namespace,
                applied_work: view,
                swept,
                help_after: self.help_after,
                now,
            });
            match step {
                CleanUp::Nothing => return Ok(Ended::Yes),
                CleanUp::Pause(why) => {
                    tracing::info!(work = work.name(), ?why, "Clean-up pauses");
                    return Ok(Ended::after(PAUSE));
                }
                CleanUp::AskNamespace => namespace = self.works.hub_namespace().await,
                CleanUp::Sweep => {
                    tracing::info!(work = work.name(), "Removing what the Work brought");
                    swept = match object {
                        Some(object) => self.sweep(work, object).await,
                        None => return Err(RoundFailure::OwnerUnknown),
                    };
                }
                CleanUp::DeleteOwner { uid, propagation } => {
                    self.owners.delete(work.name(), &uid, propagation).await?;
                    seen = self.owners.read(work.name()).await;
                    // Not deleted although accepted: leave it to the next pass instead of asking without a pause.
                    if matches!(seen.0, AppliedWorkView::Present { .. }) {
                        return Ok(Ended::after(PAUSE));
                    }
                }
                CleanUp::AwaitOwner { help_at } => {
                    // Its watch wakes us; the time is for when it does not go.
                    let wait = Duration::try_from(help_at.duration_since(now)).unwrap_or_default();
                    return Ok(Ended::after(wait));
                }
                CleanUp::Help => {
                    self.measures.stuck(work.name(), true);
                    if let Some(object) = object {
                        self.help(work, object).await;
                    }
                    return Ok(Ended::after(STUCK));
                }
                CleanUp::Complete => {
                    tracing::info!(work = work.name(), "Nothing is left of the Work");
                    self.reporter.cleaned_up(work);
                    return Ok(Ended::Yes);
                }
            }
        }
    }

    /// Deletes what only the AppliedWork owns. The garbage collector would do it too, but it asks for each object one
    /// after the other, and takes its time with kinds that are new to it.
    async fn sweep(&self, work: &HubWork, object: &AppliedWork) -> Swept {
        let owner = &owner_of(work, object);
        let inventory = known(object);
        self.api.learn(inventory.entries.values()).await;
        let recorded = object.status.as_ref().is_some_and(|status| status.inventory.is_some());
        let all_gone = stream::iter(inventory.entries.into_values())
            .map(|id| async move { self.sweep_one(owner, &id).await })
            .buffer_unordered(AT_ONCE)
            .fold(recorded, |all, gone| async move { all && gone })
            .await;
        if all_gone { Swept::Everything } else { Swept::Partly }
    }

    /// Whether nothing of ours is left of this object.
    async fn sweep_one(&self, owner: &Owner, id: &WorkResourceIdentifier) -> bool {
        let Ok(place) = self.api.place(id) else {
            return false;
        };
        let live = match self.api.objects.get(&place).await {
            Found::Absent => return true,
            Found::Failed(_) | Found::Unserved(_) => return false,
            Found::Object(live) => live,
        };
        if !owner.owns(&live) {
            return true;
        }
        if owner.shares(&live) {
            return false;
        }
        let deleted = if owns_others(&id.group, &id.kind) {
            self.api.objects.delete_foreground(&place, uid(&live)).await
        } else {
            self.api.objects.delete(&place, uid(&live)).await
        };
        deleted.unwrap_or_else(|refusal| {
            let object = describe(id);
            tracing::debug!(object, error = refusal.text, "Left to the collector");
            false
        })
    }

    /// Frees an AppliedWork that waits for owners that will never go, and says what else it waits for.
    async fn help(&self, work: &HubWork, object: &AppliedWork) {
        let owner = owner_of(work, object);
        let inventory = known(object);
        self.api.learn(inventory.entries.values()).await;
        let mut blockers = Vec::new();
        let mut remaining = 0;
        for id in inventory.entries.values() {
            let Ok(place) = self.api.place(id) else {
                continue;
            };
            let reason = match self.api.objects.get(&place).await {
                Found::Object(live) if owner.owns(&live) => match owner.unblocked(&live) {
                    Some(freed) => match self.api.objects.replace(&place, &freed).await {
                        Ok(_) => continue,
                        Err(refusal) => refusal.text,
                    },
                    // Freed already: others own it too, and it stays.
                    None if owner.shares(&live) => continue,
                    None => finalizers(&live),
                },
                Found::Failed(error) | Found::Unserved(error) => error,
                Found::Object(_) | Found::Absent => continue,
            };
            remaining += 1;
            if blockers.len() < BLOCKERS_MAX {
                blockers.push((describe(id), id, reason));
            }
        }
        let Some((first, ..)) = blockers.first() else { return };
        tracing::warn!(work = work.name(), remaining, first, "Clean-up does not get on");
        let progress = CleanupProgress {
            work: work.reference(),
            since: object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            blockers: blockers
                .into_iter()
                .map(|(_, id, reason)| Blocker {
                    identifier: id.clone(),
                    reason,
                })
                .collect(),
        };
        self.reporter.stuck(work, progress);
    }
}

fn owner_of(work: &HubWork, object: &AppliedWork) -> Owner {
    Owner {
        name: work.name().to_owned(),
        uid: object.metadata.uid.clone().unwrap_or_default(),
    }
}

/// All that is known to be owned; where another agent ran, what that has listed.
fn known(object: &AppliedWork) -> Inventory {
    let status = object.status.clone().unwrap_or_default();
    Inventory::stored(&status).unwrap_or_else(|| Inventory::adopted(&WorkStatus::default(), &status.applied_resources))
}

fn finalizers(live: &serde_json::Value) -> String {
    let list = live
        .pointer("/metadata/finalizers")
        .and_then(serde_json::Value::as_array);
    let names: Vec<&str> = list
        .into_iter()
        .flatten()
        .filter_map(serde_json::Value::as_str)
        .collect();
    if names.is_empty() {
        "the garbage collector has not removed it".to_owned()
    } else {
        format!("it has finalizers: {}", names.join(", "))
    }
}
