//! The Works of all simulated members: one watch, and each member is told of its own.

use std::collections::{BTreeMap, HashMap};
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
pub(super) struct Works(Mutex<HashMap<String, Desk>>);

/// One member's.
#[derive(Debug, Default)]
struct Desk {
    works: BTreeMap<String, Arc<Work>>,
    session: Option<UnboundedSender<Arc<Work>>>,
}

impl Works {
    fn desks(&self) -> MutexGuard<'_, HashMap<String, Desk>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        found.map(|work| status(work)).collect()
    }
}

/// What there is to say about it now; nothing if the hub has it already.
pub(super) fn report(work: &Work) -> Option<MemberMessage> {
    if work.metadata.deletion_timestamp.is_some() {
        let held = !work.finalizers().is_empty();
        return held.then(|| MemberMessage::CleanupComplete(reference(work)));
    }
    let generation = work.metadata.generation.unwrap_or_default();
    let stored = work.status.as_ref();
    let done = stored.is_some_and(|status| conditions::is_true(&status.conditions, "Available", generation));
    (!done).then(|| status(work))
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

/// Everything is applied and available.
fn status(work: &Work) -> MemberMessage {
    let observed_generation = work.metadata.generation.unwrap_or_default();
    let manifests = work.spec.workload.manifests.iter().enumerate();
    MemberMessage::WorkStatus(WorkReport {
        work: reference(work),
        observed_generation,
        phase: Phase::Result,
        conditions: both("AllManifestsApplied", "AllManifestsAvailable"),
        manifests: manifests
            .map(|(i, manifest)| ManifestReport {
                identifier: identifier(i, manifest),
                conditions: both("Applied", "Available"),
                details: None,
                mirrored: None,
            })
            .collect(),
    })
}

fn both(applied: &str, available: &str) -> Vec<ReportedCondition> {
    [("Applied", applied), ("Available", available)]
        .map(|(type_, reason)| condition(type_, Status::True, reason))
        .into()
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
