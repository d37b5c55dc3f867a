//! The end of a Work: what it brought is removed, and the hub is told when nothing is left.

use std::time::Duration;

use fleet_api::placement::{AppliedWork, WorkResourceIdentifier, WorkStatus};
use fleet_core::{
    apply::{
        deletion::{AppliedWorkView, CleanUp, Ending, HubNamespace, Swept, clean_up, owns_others},
        inventory::Inventory,
        owners::Owner,
    },
    session::seen::Subject,
};
use fleet_proto::convert::{Blocker, CleanupProgress, MemberMessage};
use fleet_runtime::queue::Next;
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use tokio::time::{Instant, timeout};

use super::{Applying, Failure, json::uid, leftovers, objects::Found, report, round::reference, works::Seen};

/// How long a pause lasts that no event ends.
const PAUSE: Duration = Duration::from_secs(5);
/// How often a deletion that does not get on is looked at.
const STUCK: Duration = Duration::from_secs(30);
/// Objects at the same time.
const AT_ONCE: usize = 16;
/// Blockers that are named.
const BLOCKERS_MAX: usize = 10;

impl Applying {
    /// Takes the clean-up of a Work as far as it goes. Called with no round of this Work under way.
    pub(super) async fn clean_up(
        &self,
        work: &Seen,
        mut seen: (AppliedWorkView, Option<AppliedWork>),
    ) -> Result<Next, Failure> {
        let mut namespace = HubNamespace::NotAsked;
        let mut swept = Swept::NotYet;
        loop {
            let (view, object) = &seen;
            let now = self.clock.now();
            let step = clean_up(&Ending {
                joined: self.gate.is_open(),
                round_in_flight: false,
                work: work.view(),
                namespace,
                applied_work: view,
                swept,
                help_after: self.help_after,
                now,
            });
            match step {
                CleanUp::Nothing => {
                    self.drop_memory(work.name());
                    return Ok(Next::Wait);
                }
                CleanUp::Pause(why) => {
                    tracing::info!(work = work.name(), ?why, "Clean-up pauses");
                    return Ok(Next::At(Instant::now() + PAUSE));
                }
                CleanUp::AskNamespace => namespace = self.hub_namespace().await,
                CleanUp::Sweep => {
                    tracing::info!(work = work.name(), "Removing what the Work brought");
                    swept = match object {
                        Some(object) => self.sweep(work, object).await,
                        None => return Err(Failure::OwnerUnknown),
                    };
                }
                CleanUp::DeleteOwner { uid, propagation } => {
                    self.owners.delete(work.name(), &uid, propagation).await?;
                    seen = self.owners.read(work.name()).await;
                    // Not deleted although accepted: leave it to the next pass instead of asking without a pause.
                    if matches!(seen.0, AppliedWorkView::Present { .. }) {
                        return Ok(Next::At(Instant::now() + PAUSE));
                    }
                }
                CleanUp::AwaitOwner { help_at } => {
                    // Its watch wakes us; the time is for when it does not go.
                    let wait = Duration::try_from(help_at.duration_since(now)).unwrap_or_default();
                    return Ok(Next::At(Instant::now() + wait));
                }
                CleanUp::Help => {
                    self.measures.stuck(work.name(), true);
                    if let Some(object) = object {
                        self.help(work, object).await;
                    }
                    return Ok(Next::At(Instant::now() + STUCK));
                }
                CleanUp::Complete => {
                    tracing::info!(work = work.name(), "Nothing is left of the Work");
                    self.drop_memory(work.name());
                    let message = MemberMessage::CleanupComplete(reference(work));
                    self.outgoing.report(Subject::Cleanup(work.name().to_owned()), message);
                    return Ok(Next::Wait);
                }
            }
        }
    }

    /// Deletes what only the AppliedWork owns. The garbage collector would do it too, but it asks for each object one
    /// after the other, and takes its time with kinds that are new to it.
    async fn sweep(&self, work: &Seen, object: &AppliedWork) -> Swept {
        let owner = &owner_of(work, object);
        let inventory = known(object);
        self.kinds.learn(inventory.entries.values().map(leftovers::gvk)).await;
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
        let Ok(place) = leftovers::place(&self.kinds, id) else {
            return false;
        };
        let live = match self.objects.get(&place).await {
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
            self.objects.delete_foreground(&place, uid(&live)).await
        } else {
            self.objects.delete(&place, uid(&live)).await
        };
        deleted.unwrap_or_else(|refusal| {
            let object = leftovers::describe(id);
            tracing::debug!(object, error = refusal.text, "Left to the collector");
            false
        })
    }

    /// Frees an AppliedWork that waits for owners that will never go, and says what else it waits for.
    async fn help(&self, work: &Seen, object: &AppliedWork) {
        let owner = owner_of(work, object);
        let inventory = known(object);
        self.kinds.learn(inventory.entries.values().map(leftovers::gvk)).await;
        let mut blockers = Vec::new();
        let mut remaining = 0;
        for id in inventory.entries.values() {
            let Ok(place) = leftovers::place(&self.kinds, id) else {
                continue;
            };
            let reason = match self.objects.get(&place).await {
                Found::Object(live) if owner.owns(&live) => match owner.unblocked(&live) {
                    Some(freed) => match self.objects.replace(&place, &freed).await {
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
                blockers.push((leftovers::describe(id), id, reason));
            }
        }
        let Some((first, ..)) = blockers.first() else { return };
        tracing::warn!(work = work.name(), remaining, first, "Clean-up does not get on");
        let progress = CleanupProgress {
            work: reference(work),
            since: object.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            remaining: u32::try_from(remaining).unwrap_or(u32::MAX),
            blockers: blockers
                .into_iter()
                .map(|(_, id, reason)| Blocker {
                    identifier: report::identifier(id),
                    reason,
                })
                .collect(),
        };
        let message = MemberMessage::CleanupProgress(progress);
        self.outgoing.report(Subject::Cleanup(work.name().to_owned()), message);
    }

    /// The namespace of this cluster on the hub, read now.
    async fn hub_namespace(&self) -> HubNamespace {
        let api: Api<Namespace> = Api::all(self.hub.clone());
        match timeout(Duration::from_secs(10), api.get(&self.cluster.namespace())).await {
            Ok(Ok(namespace)) => {
                let phase = namespace.status.and_then(|status| status.phase);
                if namespace.metadata.deletion_timestamp.is_some() || phase.as_deref() == Some("Terminating") {
                    HubNamespace::Terminating
                } else {
                    HubNamespace::Active
                }
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => HubNamespace::Gone,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => HubNamespace::Forbidden,
            Ok(Err(_)) | Err(_) => HubNamespace::Unknown,
        }
    }
}

fn owner_of(work: &Seen, object: &AppliedWork) -> Owner {
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
