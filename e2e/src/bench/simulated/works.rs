//! The Works of all simulated members: one watch, and each member is told of its own.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fleet_api::conditions;
use fleet_api::conditions::Status;
use fleet_api::placement::Work;
use fleet_api::placement::WorkResourceIdentifier;
use fleet_api::raw::RawJson;
use fleet_core::selection::ObjectId;
use fleet_core::session::WorkRef;
use fleet_core::session::condition::ReportedCondition;
use fleet_core::session::digest::KnownWork;
use fleet_core::session::digest::digest;
use fleet_core::session::merge::ManifestReport;
use fleet_core::session::work::{Phase, WorkReport};
use fleet_proto::convert::MemberMessage;
use futures::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt as _};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::scripted_member::condition;

const MEMBER_NAMESPACE: &str = "fleet-member-";

/// What every member has to do.
#[derive(Debug, Default)]
pub(super) struct Works {
    desks: Mutex<HashMap<String, Desk>>,
    broken: Mutex<Broken>,
}

/// Content that does not work.
#[derive(Debug, Default)]
struct Broken {
    /// What is in it; nothing is broken if empty.
    text: String,
    /// The members where it works all the same.
    works_on: BTreeSet<String>,
}

/// One member's.
#[derive(Debug, Default)]
struct Desk {
    works: BTreeMap<String, Arc<Work>>,
    session: Option<UnboundedSender<Arc<Work>>>,
}

impl Works {
    fn desks(&self) -> MutexGuard<'_, HashMap<String, Desk>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn break_version(&self, text: &str, works_on: &[&str]) {
        let works_on = works_on.iter().map(|name| (*name).to_owned()).collect();
        *self.broken.lock().unwrap_or_else(PoisonError::into_inner) = Broken {
            text: text.to_owned(),
            works_on,
        };
    }

    fn is_available(&self, member: &str, work: &Work) -> bool {
        let broken = self.broken.lock().unwrap_or_else(PoisonError::into_inner);
        let mut manifests = work.spec.workload.manifests.iter();
        broken.text.is_empty()
            || broken.works_on.contains(member)
            || !manifests.any(|manifest| manifest.as_str().contains(&broken.text))
    }

    /// Follows the Works of all. Never ends.
    pub(super) async fn follow(self: Arc<Self>, client: Client) {
        let works = Api::<Work>::all(client);
        let mut events = Box::pin(watcher(works, watcher::Config::default()).default_backoff());
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(work) | Event::InitApply(work)) => self.store(work),
                Ok(Event::Delete(work)) => self.with(&work, |desk| drop(desk.works.remove(&work.name_any()))),
                _ => {}
            }
        }
    }

    fn with(&self, work: &Work, change: impl FnOnce(&mut Desk)) {
        let namespace = work.namespace().unwrap_or_default();
        if let Some(member) = namespace.strip_prefix(MEMBER_NAMESPACE) {
            change(self.desks().entry(member.to_owned()).or_default());
        }
    }

    fn store(&self, work: Work) {
        let work = Arc::new(work);
        self.with(&work, |desk| {
            desk.works.insert(work.name_any(), work.clone());
            if let Some(session) = &desk.session {
                // A session that has ended reads them all again when it is back.
                let _ = session.send(work.clone());
            }
        });
    }

    /// What a member holds, and what comes from now on, beginning with all of them.
    pub(super) fn open(&self, member: &str) -> (Vec<KnownWork>, UnboundedReceiver<Arc<Work>>) {
        let (sender, receiver) = unbounded_channel();
        let mut desks = self.desks();
        let desk = desks.entry(member.to_owned()).or_default();
        for work in desk.works.values() {
            let _ = sender.send(work.clone());
        }
        desk.session = Some(sender);
        (desk.works.values().map(|work| known(work)).collect(), receiver)
    }

    /// What a member says of the Works of these names.
    pub(super) fn reports(&self, member: &str, names: &[String]) -> Vec<MemberMessage> {
        let desks = self.desks();
        let works = desks.get(member).map(|desk| &desk.works);
        let found = names.iter().filter_map(|name| works?.get(name));
        found
            .map(|work| status(work, self.is_available(member, work)))
            .collect()
    }

    /// What a member has to say about it now; nothing if the hub has it already.
    pub(super) fn report(&self, member: &str, work: &Work) -> Option<MemberMessage> {
        if work.metadata.deletion_timestamp.is_some() {
            let held = !work.finalizers().is_empty();
            return held.then(|| MemberMessage::CleanupComplete(reference(work)));
        }
        let available = self.is_available(member, work);
        let generation = work.metadata.generation.unwrap_or_default();
        let stored = work.status.as_ref().map(|status| status.conditions.as_slice());
        let said = conditions::fresh(stored.unwrap_or_default(), "Available", generation).map(Status::of);
        (said != Some(truth(available))).then(|| status(work, available))
    }
}

fn truth(holds: bool) -> Status {
    if holds { Status::True } else { Status::False }
}

fn reference(work: &Work) -> WorkRef {
    WorkRef {
        name: work.name_any(),
        uid: work.uid().unwrap_or_default(),
    }
}

fn known(work: &Work) -> KnownWork {
    let status_digest = work.status.as_ref().map(|status| digest(status).to_vec());
    let WorkRef { name, uid } = reference(work);
    KnownWork {
        name,
        uid,
        generation: work.metadata.generation.unwrap_or_default(),
        status_digest: status_digest.unwrap_or_default(),
    }
}

/// Everything is applied, and available or not.
fn status(work: &Work, available: bool) -> MemberMessage {
    let reason = |good: &'static str, bad: &'static str| if available { good } else { bad };
    let observed_generation = work.metadata.generation.unwrap_or_default();
    let manifests = work.spec.workload.manifests.iter().enumerate();
    MemberMessage::WorkStatus(WorkReport {
        work: reference(work),
        observed_generation,
        phase: Phase::Result,
        conditions: both(
            "AllManifestsApplied",
            (
                reason("AllManifestsAvailable", "SomeManifestsAreNotAvailable"),
                available,
            ),
        ),
        manifests: manifests
            .map(|(i, manifest)| ManifestReport {
                identifier: identifier(i, manifest),
                conditions: both("Applied", (reason("Available", "NotAvailableYet"), available)),
                details: None,
                mirrored: None,
            })
            .collect(),
    })
}

fn both(applied: &str, (reason, available): (&str, bool)) -> Vec<ReportedCondition> {
    vec![
        condition("Applied", Status::True, applied),
        condition("Available", truth(available), reason),
    ]
}

fn identifier(ordinal: usize, manifest: &RawJson) -> WorkResourceIdentifier {
    let ObjectId {
        group,
        version,
        kind,
        namespace,
        name,
    } = ObjectId::of(manifest).unwrap_or_default();
    WorkResourceIdentifier {
        ordinal: i64::try_from(ordinal).unwrap_or(i64::MAX),
        group,
        version,
        resource: format!("{}s", kind.to_lowercase()),
        kind,
        namespace,
        name,
    }
}
