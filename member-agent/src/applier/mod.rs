//! The work applier: makes the objects of Works live on this cluster, watches them, and reports.
//!
//! ```text
//! hub ──watch──► works ─┐                                            ┌─► outgoing ──► hub
//!                       ├─► queue ─► pass ─► round ─► manifest ─► objects
//! own cluster ─ watches ┘              └──► cleanup ─► owners (AppliedWork, with the inventory)
//! ```
//!
//! Every decision is made in `fleet_core::apply`; this is the shell that reads, calls it, and carries out what it says.
//!
//! # Guarantees
//! - Nothing is touched for a Work that was not read from the hub with the clean-up finalizer, nor while this cluster
//!   does not belong to the fleet.
//! - What may come to exist is written into the status of the AppliedWork first, so a crash at any point loses nothing.
//! - A Work is worked on once at a time. Own writes cause no further round.
//! - Nothing is deleted because something is merely absent.

mod cleanup;
mod gate;
mod held;
mod json;
mod kinds;
mod leftovers;
mod manifest;
mod measures;
mod objects;
mod owners;
mod pass;
mod processing;
mod report;
mod result;
mod round;
mod rules;
#[cfg(test)]
mod tests;
mod watches;
mod works;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use fleet_api::{names::ClusterName, placement::AppliedWork};
use fleet_core::{
    apply::{
        clean::ReservedKeys,
        requeue::{self, Delays},
    },
    session::seen::Subject,
};
use fleet_proto::convert::{Ack, KnownWork, Outcome};
use fleet_runtime::{
    cache::{Selection, Store},
    clock::Clock,
    controller,
    metrics::Metrics,
    queue::Queue,
};
use futures::future::BoxFuture;
use jiff::SignedDuration;
use kube::{Api, Client, core::PartialObjectMeta};
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::{
    gate::Gate,
    held::{Held, Said},
    kinds::Kinds,
    measures::{Measures, Stage},
    objects::Objects,
    owners::Owners,
    rules::MergeRules,
    watches::Watches,
    works::Seen,
};
use crate::{options::ApplierArgs, session::Outgoing};

/// What the rest of the agent asks of the work applier.
///
/// The applier reports through [`Outgoing`](crate::session::Outgoing), which it is given when it is made.
pub trait Applier: Send + Sync + 'static {
    /// The gate opens: this cluster belongs to the fleet under the InternalMemberCluster with this uid. May be called
    /// again while it is open.
    fn open(&self, imc_uid: &str);

    /// The gate closes. Resolves when no round is in flight; nothing on the cluster is removed. May be called again.
    fn close(&self) -> BoxFuture<'_, ()>;

    /// What is held for each Work, for the resync at the start of a session.
    fn known(&self) -> Known;

    /// How far the watch of Works has come, as the resourceVersion; empty if there is none.
    fn watched(&self) -> String;

    /// The hub wants these Works reported again; none means all.
    fn resend(&self, works: Vec<String>);

    /// The hub's answer to a report about a Work.
    fn answered(&self, ack: &Ack);
}

/// What an applier holds.
#[derive(Debug, Default)]
pub struct Known {
    /// Each Work.
    pub works: Vec<KnownWork>,
    /// AppliedWorks without a Work.
    pub orphans: Vec<String>,
}

/// At most one report per Work and second is repeated because somebody else has changed what the hub stores.
const REPAIR_AFTER: Duration = Duration::from_secs(1);
/// How soon a status that was too large in its shortest form is tried again.
const TOO_LARGE_PAUSE: Duration = Duration::from_mins(1);
/// Works at the same time.
const WORKS_AT_ONCE: usize = 8;

/// The applier.
pub struct Applying {
    cluster: ClusterName,
    hub: Client,
    works: Store<Seen>,
    /// AppliedWorks, only to know when they come and go.
    applied: Store<PartialObjectMeta<AppliedWork>>,
    queue: Queue<String>,
    gate: Gate,
    objects: Objects,
    kinds: Kinds,
    rules: MergeRules,
    owners: Owners,
    watches: Watches,
    held: Mutex<HashMap<String, Held>>,
    said: Mutex<BTreeMap<String, Said>>,
    /// To be reported again although nothing changed.
    again: Mutex<BTreeSet<String>>,
    outgoing: Arc<Outgoing>,
    delays: Delays,
    help_after: SignedDuration,
    /// Whether a comparison in degraded mode counts as one.
    degraded_counts: bool,
    /// Which labels and annotations comparisons leave out.
    reserved: ReservedKeys,
    /// How the priority of an update falls with the age of its Work, if it does.
    by_age: Option<(i64, i64)>,
    measures: Measures,
    passes: controller::Measures,
    clock: Clock,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Owner(#[from] owners::Error),
    #[error("the AppliedWork could not be read")]
    OwnerUnknown,
    #[error("the Work could not be read: {0}")]
    Work(String),
    #[error("manifest processing has been interrupted")]
    Interrupted,
}

impl Applying {
    /// An applier with its gate closed.
    pub fn new(
        cluster: ClusterName,
        hub: Client,
        member: &Client,
        outgoing: Arc<Outgoing>,
        args: &ApplierArgs,
        metrics: &Metrics,
        clock: Clock,
    ) -> Self {
        let queue = Queue::default();
        if args.priorities().is_some() {
            queue.set_priority_of_timers(requeue::TIMER_PRIORITY);
        }
        let (works, applied) = (works::store(), Store::new("appliedworks"));
        let orphans = {
            let (works, applied, cluster) = (works.clone(), applied.clone(), cluster.clone());
            move || works::orphans(&works, &applied, &cluster).len()
        };
        Self {
            hub,
            works,
            applied,
            gate: Gate::default(),
            objects: Objects::new(member.clone()),
            kinds: Kinds::new(member.clone()),
            rules: MergeRules::new(member.clone()),
            owners: Owners::new(member.clone(), cluster.namespace()),
            watches: Watches::new(member.clone(), queue.clone()),
            held: Mutex::default(),
            said: Mutex::default(),
            again: Mutex::default(),
            outgoing,
            delays: args.delays(),
            help_after: SignedDuration::from_mins(args.deletion_wait_time.into()),
            by_age: args.priorities(),
            degraded_counts: args.work_applier_count_degraded_diff_as_reported,
            reserved: args.reserved_keys(),
            measures: Measures::new(metrics, orphans),
            passes: controller::Measures::new(metrics),
            cluster,
            queue,
            clock,
        }
    }

    /// Applies, until told to stop.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        // Between two terms of this process another may have led: nothing that is remembered is trusted, and whatever
        // was under way when the last one ended is looked at again.
        self.works.rest();
        self.applied.rest();
        self.queue.take_back();
        let applied: Api<PartialObjectMeta<AppliedWork>> = Api::all(self.objects.client().clone());
        let feed_works = async {
            let mut changes = self.works.subscribe();
            loop {
                self.work_changed(&changes.next().await);
            }
        };
        let feed_applied = controller::feed(self.applied.subscribe(), self.queue.clone(), |change| {
            // What we create is known; that it goes is not.
            let going = change
                .new
                .as_ref()
                .is_none_or(|now| now.metadata.deletion_timestamp.is_some());
            going.then(|| change.key.name().to_owned())
        });
        let passes = async {
            // Other Works decide whose an object is, and nothing is judged before all are known.
            self.works.synced().await;
            self.applied.synced().await;
            let options = controller::Options {
                concurrency: WORKS_AT_ONCE,
                ..controller::Options::new("work-applier")
            };
            let this = self.clone();
            let pass = move |name: String| {
                let this = this.clone();
                async move { this.pass(&name).await }
            };
            controller::run(self.queue.clone(), options, self.passes.clone(), stop.clone(), pass).await;
        };
        tokio::select! {
            () = works::watch(self.works.clone(), self.hub.clone(), &self.cluster) => {}
            () = self.applied.clone().watch(applied, Selection::default(), fleet_runtime::cache::plain) => {}
            () = feed_works => {}
            () = feed_applied => {}
            () = passes => {}
        }
    }

    fn work_changed(&self, change: &fleet_runtime::cache::Change<Seen>) {
        let name = change.key.name();
        if works::matters(change) {
            self.queue.add_with_priority(name.to_owned(), self.priority(change));
            return;
        }
        // Somebody else has written the status: what was said is said again.
        let Some(work) = &change.new else { return };
        let repair = self.said.lock().get(name).is_some_and(|said| {
            said.stored
                && said.uid == work.uid()
                && said.generation == work.generation()
                && work.stored.is_none_or(|stored| stored != said.digest)
        });
        if repair && change.differs(|work| work.stored) {
            self.again.lock().insert(name.to_owned());
            self.queue.add_after(name.to_owned(), REPAIR_AFTER);
        }
    }

    /// How urgent a change of a Work is; the same for all unless that was asked for.
    fn priority(&self, change: &fleet_runtime::cache::Change<Seen>) -> i64 {
        let Some((a, b)) = self.by_age else { return 0 };
        match (&change.old, &change.new) {
            (None, Some(new)) => requeue::listed_priority(new.is_well),
            (Some(old), Some(new)) if old.is_well && !new.view().deleting => {
                let now = self.clock.now();
                requeue::update_priority(now.duration_since(new.created().unwrap_or(now)), a, b)
            }
            _ => requeue::URGENT,
        }
    }

    /// Whether there is a Work of that name, once that can be told.
    fn work_exists(&self, name: &str) -> Result<bool, String> {
        if self.works.is_synced() {
            Ok(self.works.get(&works::key(&self.cluster, name)).is_some())
        } else {
            Err("the Works of this cluster have not been read yet".to_owned())
        }
    }

    /// Forgets all about a Work but what is to be told to the hub.
    fn drop_memory(&self, name: &str) {
        self.held.lock().remove(name);
        self.said.lock().remove(name);
        self.again.lock().remove(name);
        self.measures.stuck(name, false);
        self.watches.forget(name);
        self.outgoing.forget(&Subject::Work(name.to_owned()));
        self.outgoing.forget(&Subject::Claim(name.to_owned()));
    }
}

impl Applier for Applying {
    fn open(&self, imc_uid: &str) {
        if self.gate.open(imc_uid) {
            for work in self.works.all() {
                self.queue.add(work.name().to_owned());
            }
        }
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.gate.close().await;
            // Whatever is found after the gate opens again is looked at as if for the first time.
            self.watches.stop();
            self.held.lock().clear();
            self.said.lock().clear();
            self.again.lock().clear();
        })
    }

    fn known(&self) -> Known {
        let said = self.said.lock();
        let works = said.iter().map(|(name, said)| KnownWork {
            name: name.clone(),
            uid: said.uid.clone(),
            generation: said.generation,
            status_digest: Bytes::copy_from_slice(&said.digest),
        });
        Known {
            works: works.collect(),
            orphans: works::orphans(&self.works, &self.applied, &self.cluster),
        }
    }

    fn watched(&self) -> String {
        match self.works.progress() {
            0 => String::new(),
            version => version.to_string(),
        }
    }

    fn resend(&self, works: Vec<String>) {
        let works = if works.is_empty() {
            self.said.lock().keys().cloned().collect()
        } else {
            works
        };
        self.again.lock().extend(works.iter().cloned());
        for work in works {
            self.queue.add(work);
        }
    }

    fn answered(&self, ack: &Ack) {
        let Some(work) = &ack.work else { return };
        match ack.outcome {
            Outcome::Persisted | Outcome::Unchanged => {
                if let Some(said) = self.said.lock().get_mut(&work.name).filter(|said| said.uid == work.uid) {
                    said.stored = true;
                    if let Some(since) = said.since.take() {
                        self.measures.stage(Stage::Persisted, since);
                    }
                }
            }
            // Without the details it may fit. What does not even then is tried again from time to time.
            Outcome::TooLarge => {
                let mut said = self.said.lock();
                let was_lean = said
                    .get_mut(&work.name)
                    .is_some_and(|said| std::mem::replace(&mut said.lean, true));
                drop(said);
                self.again.lock().insert(work.name.clone());
                if was_lean {
                    tracing::error!(work = work.name, "The status of the Work is too large for the hub");
                    self.queue.add_after(work.name.clone(), TOO_LARGE_PAUSE);
                } else {
                    self.queue.add(work.name.clone());
                }
            }
            // The hub's view of the Work is another than ours: look again in a moment.
            Outcome::NotDeleting => self.queue.add_at(work.name.clone(), Instant::now() + REPAIR_AFTER),
            // The watch brings what there is to know.
            Outcome::Superseded | Outcome::UidMismatch | Outcome::Gone | Outcome::RetryLater => {}
            Outcome::Invalid => {
                tracing::error!(work = work.name, reason = ack.reason, "The hub finds a report invalid");
            }
        }
    }
}
