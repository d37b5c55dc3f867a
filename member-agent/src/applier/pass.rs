//! One pass over a Work: whether it may be touched, and what of it has to be looked at.

use std::{collections::BTreeSet, time::Duration};

use fleet_api::{
    events::{Event as _, EventType, WorkEvent},
    placement::{AppliedWork, AppliedWorkInventory, AppliedWorkStatus, Work, WorkStatus},
};
use fleet_core::{
    apply::{
        deletion::{Entry, entry},
        identify::ObjectKey,
        inventory::Inventory,
        owners::Owner,
        status::ManifestReport,
    },
    session::{digest::digest, seen::Subject},
};
use fleet_proto::convert::{Event, EventObject, MemberMessage, Severity};
use fleet_runtime::{client::answered, queue::Next};
use jiff::{SignedDuration, Timestamp};
use kube::Api;
use tokio::time::Instant;

use super::{
    Applying, Failure,
    held::{Held, Kept, Said},
    owners, report,
    round::{Scope, reference},
    works::{self, Seen},
};

/// How often times alone are refreshed.
const REFRESH: SignedDuration = SignedDuration::from_mins(5);
/// How long to wait for an old AppliedWork to go, should its watch not tell.
const OLD_OWNER: Duration = Duration::from_secs(30);

impl Applying {
    pub(super) async fn pass(&self, name: &str) -> Result<Next, Failure> {
        let Some(_inside) = self.gate.enter() else {
            // Opening it wakes everybody.
            return Ok(Next::Wait);
        };
        let Some(work) = self.works.get(&works::key(&self.cluster, name)) else {
            // Not an order to delete: what it brought stays, and its AppliedWork shows as an orphan.
            self.drop_memory(name);
            self.outgoing.forget(&Subject::Cleanup(name.to_owned()));
            return Ok(Next::Wait);
        };
        let mut held = self.held.lock().remove(name);
        if held.as_ref().is_some_and(|held| held.work_uid != work.uid()) {
            self.drop_memory(name);
            held = None;
        }
        if let Some(held) = held.take_if(|held| self.is_quick(&work, held)) {
            return self.again(&work, held).await;
        }
        let seen = self.owners.read(name).await;
        let object = match entry(true, work.view(), &seen.0) {
            Entry::GateClosed => return Ok(Next::Wait),
            Entry::Claim => {
                let claim = MemberMessage::Claim(reference(&work));
                self.outgoing.report(Subject::Claim(name.to_owned()), claim);
                return Ok(Next::Wait);
            }
            Entry::CleanUp => return self.clean_up(&work, seen).await,
            Entry::AwaitOldOwner => return Ok(Next::At(Instant::now() + OLD_OWNER)),
            Entry::AwaitRead => return Err(Failure::OwnerUnknown),
            // With a record, so that it is never taken for one that another agent left.
            Entry::CreateOwner => AppliedWork {
                status: Some(AppliedWorkStatus {
                    inventory: Some(AppliedWorkInventory::default()),
                    ..AppliedWorkStatus::default()
                }),
                ..self.owners.create(name).await?
            },
            Entry::Begin => match seen.1 {
                Some(object) => object,
                None => return Err(Failure::OwnerUnknown),
            },
        };
        let held = self.loaded(&work, held, &object).await?;
        self.again(&work, held).await
    }

    /// Whether what is remembered is enough: the same content, and an owner that the watch shows to be there still.
    fn is_quick(&self, work: &Seen, held: &Held) -> bool {
        let view = work.view();
        let owner = self.applied.get(&fleet_runtime::Key::cluster(work.name()));
        view.has_finalizer
            && !view.deleting
            && held.generation == work.generation()
            && held.content == work.content
            && held.kept.len() == work.spec.workload.manifests.len()
            && held.full_at.is_some()
            && owner.is_some_and(|owner| {
                owner.metadata.uid.as_deref() == Some(&*held.owner_uid) && owner.metadata.deletion_timestamp.is_none()
            })
    }

    /// What is remembered of the Work, or can be read of it.
    async fn loaded(&self, work: &Seen, held: Option<Held>, object: &AppliedWork) -> Result<Held, Failure> {
        let owner_uid = object.metadata.uid.clone().unwrap_or_default();
        let mut held = match held {
            Some(held) if held.owner_uid == owner_uid => held,
            before => {
                let status = object.status.clone().unwrap_or_default();
                let inventory = match Inventory::stored(&status) {
                    Some(inventory) => inventory,
                    // Another agent was here before: all that it may have made may be ours.
                    None => Inventory::adopted(&self.stored_status(work).await?, &status.applied_resources),
                };
                let written = owners::status(&inventory, &status.applied_resources);
                Held {
                    work_uid: work.uid().to_owned(),
                    owner_uid,
                    written: report::digest_of(&written.to_string()),
                    inventory,
                    kept: before.map(|before| before.kept).unwrap_or_default(),
                    ..Held::default()
                }
            }
        };
        let spec = serde_json::to_string(&work.spec).map_err(|error| Failure::Work(error.to_string()))?;
        let digest = report::digest_of(&spec);
        if held.generation != work.generation() || held.spec_digest != digest {
            held.full_at = None;
            held.since = Some(Instant::now());
            held.reached.clear();
        }
        held.generation = work.generation();
        held.content = work.content;
        held.spec_digest = digest;
        Ok(held)
    }

    async fn stored_status(&self, work: &Seen) -> Result<WorkStatus, Failure> {
        let api: Api<Work> = Api::namespaced(self.hub.clone(), &self.cluster.namespace());
        match answered(api.get(work.name())).await {
            Ok(work) => Ok(work.status.unwrap_or_default()),
            Err(error) => Err(Failure::Work(fleet_runtime::logs::chain(&error).to_string())),
        }
    }

    /// A round over what has to be looked at.
    async fn again(&self, work: &Seen, mut held: Held) -> Result<Next, Failure> {
        let Some(scope) = self.scope(work, &held) else {
            // The echo of an own write.
            let next = held.due.map_or(Next::Wait, Next::At);
            self.held.lock().insert(work.name().to_owned(), held);
            return Ok(next);
        };
        let owner = Owner {
            name: work.name().to_owned(),
            uid: held.owner_uid.clone(),
        };
        tracing::debug!(work = work.name(), generation = work.generation(), ?scope, "Round");
        let next = self.round(work, &mut held, &owner, scope).await?;
        self.held.lock().insert(work.name().to_owned(), held);
        Ok(next)
    }

    /// What has to be looked at; none if nothing has.
    fn scope(&self, work: &Seen, held: &Held) -> Option<Scope> {
        let changed = self.watches.take_changed(work.name());
        let longest = Duration::from_secs_f64(self.delays.fast_max_secs);
        let fresh = held.full_at.is_some_and(|at| at.elapsed() < longest);
        if !fresh {
            return Some(Scope::All);
        }
        let asked = self.again.lock().contains(work.name());
        let timer = held.due.is_none_or(|due| due <= Instant::now());
        let now = self.clock.now();
        let due = |until: Option<Timestamp>| until.is_some_and(|until| until <= now);
        let defined = changed.iter().any(|key| key.kind == "CustomResourceDefinition");
        // What is unknown is neither written down nor watched yet; a round over everything begins that.
        if (defined || timer) && held.kept.iter().any(Kept::is_unknown) {
            return Some(Scope::All);
        }
        let in_changed_namespace = |kept: &Kept| {
            let is_it = |key: &ObjectKey| key.kind == "Namespace" && key.name == kept.id.namespace;
            changed.iter().any(is_it)
        };
        let places = held.kept.iter().enumerate().filter(|(_, kept)| {
            if !kept.is_workable() {
                return false;
            }
            let touched = kept.key().is_some_and(|key| changed.contains(&key));
            touched || due(kept.until) || !kept.is_settled() && (timer || in_changed_namespace(kept))
        });
        let places: BTreeSet<usize> = places.map(|(at, _)| at).collect();
        // A namespace that we only look at, or the echo of an own write, is nothing to report.
        let ours = changed.iter().any(|key| held.inventory.entries.contains_key(key));
        let nothing = places.is_empty() && !ours && !asked && !timer && !defined;
        (!nothing).then_some(Scope::Some(places))
    }

    /// Whether the hub was told about this generation already.
    pub(super) fn has_said(&self, work: &Seen) -> bool {
        let said = self.said.lock();
        said.get(work.name())
            .is_some_and(|said| said.uid == work.uid() && said.generation == work.generation())
    }

    /// Tells the hub, if there is anything to tell.
    pub(super) fn say(
        &self,
        work: &Seen,
        held: &mut Held,
        status: &WorkStatus,
        reports: &[ManifestReport],
        now: Timestamp,
    ) {
        let name = work.name();
        let again = self.again.lock().remove(name);
        let (digest, mirrored) = (digest(status), report::mirrored(status));
        let mut all = self.said.lock();
        let before = all
            .get(name)
            .filter(|said| said.uid == work.uid() && said.generation == work.generation());
        let same = before.is_some_and(|said| said.digest == digest && said.mirrored == mirrored);
        let lean = same && before.is_some_and(|said| said.lean);
        let old = report::has_times(status) && before.is_some_and(|said| now.duration_since(said.at) >= REFRESH);
        // After a restart the hub has most of it already.
        let stored = before.is_none() && mirrored.is_empty() && work.stored == Some(digest);
        if stored {
            // There is nothing to time.
            held.since = None;
        }
        let since = held.since.filter(|_| before.is_none());
        let silent = !again && (stored || same && !old);
        if silent && before.is_some() {
            return;
        }
        let said = Said {
            uid: work.uid().to_owned(),
            generation: work.generation(),
            digest,
            mirrored,
            at: now,
            stored,
            lean,
            since,
        };
        all.insert(name.to_owned(), said);
        drop(all);
        if !silent {
            let message = report::message(reference(work), work.generation(), status, reports, lean);
            self.outgoing
                .report(Subject::Work(name.to_owned()), MemberMessage::WorkStatus(message));
        }
    }

    /// Something that people should see on the Work.
    pub(super) fn announce(&self, work: &Seen, event: &WorkEvent) {
        self.outgoing.event(Event {
            object: EventObject::Work,
            work_name: work.name().to_owned(),
            object_uid: work.uid().to_owned(),
            severity: match event.event_type() {
                EventType::Normal => Severity::Normal,
                EventType::Warning => Severity::Warning,
            },
            reason: event.reason().to_owned(),
            message: event.message(),
            count: 1,
            last_seen: Some(self.clock.now()),
        });
    }
}
