//! The work applier: makes the objects of Works live on this cluster, watches them, and reports.
//!
//! ```text
//! hub ──watch──► works ─┐
//!                       ├─► queue ─► admit ─► decode ─► write ahead ─► waves ─► conclude ─► report ──► hub
//! own cluster ─ watches ┘              │                  │  ▲          │ ▲        │
//!                                      │                  ▼  │          ▼ │        ▼
//!                                      │            AppliedWork      manifest    leftovers, AppliedWork
//!                                      └─► cleanup (the end of a Work) ─► report
//! ```
//!
//! Every decision is made in `fleet_core::apply`; this is the shell that reads, calls it, and carries out what it says.
//! Each phase owns what it remembers; what is remembered of a Work between rounds travels through them ([`memory`]).
//!
//! # Guarantees
//! - Nothing is touched for a Work that was not read from the hub with the clean-up finalizer, nor while this cluster
//!   does not belong to the fleet.
//! - What may come to exist is written into the status of the AppliedWork first, so a crash at any point loses nothing.
//! - A Work is worked on once at a time. Own writes cause no further round.
//! - Nothing is deleted because something is merely absent.

mod admit;
mod barrier;
mod cleanup;
mod conclude;
mod decode;
mod digest;
mod door;
mod handles;
mod leftovers;
mod manifest;
mod measures;
mod member_api;
mod memory;
mod owners;
mod records;
mod report;
mod round;
#[cfg(test)]
mod tests;
mod watches;
mod waves;
mod works;
mod write_ahead;

use std::{sync::Arc, time::Duration};

use fleet_api::{names::ClusterName, placement::AppliedWork};
use fleet_core::apply::{
    identify::{Manifest, waiting_for_own_crds},
    requeue,
};
use fleet_runtime::{
    cache::{self, Era, Selection, Store},
    clock::Clock,
    controller,
    metrics::Metrics,
    queue::{Next, Queue},
};
use jiff::SignedDuration;
use kube::{Api, Client, core::PartialObjectMeta};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

pub use self::door::{Applier, Known};
use self::{
    admit::{Admission, Admitted, End},
    barrier::Barrier,
    cleanup::{Cleanup, Doubt, Ended},
    conclude::Conclusion,
    decode::Decoder,
    handles::Handles,
    manifest::rules::MergeRules,
    measures::Measures,
    member_api::MemberApi,
    memory::{ManifestMemory, WorkMemory},
    owners::Owners,
    records::Records,
    report::Reporter,
    round::{Before, Common, Extent, RoundFailure, place_of},
    watches::Watches,
    waves::Waves,
    works::{HubWork, Works},
    write_ahead::WriteAhead,
};
use crate::{options::ApplierArgs, outgoing::Outgoing};

/// Works at the same time.
const WORKS_AT_ONCE: usize = 8;

/// An API server, and whether it has gone back in time.
#[derive(Clone)]
pub struct Side {
    /// Its client.
    pub client: Client,
    /// Its era.
    pub era: Era,
}

/// The applier: its phases, and what they share.
pub struct Applying {
    hub_era: Era,
    member: Side,
    works: Works,
    queue: Queue<String>,
    barrier: Barrier,
    records: Records,
    watches: Watches,
    reporter: Reporter,
    admission: Admission,
    decoder: Decoder,
    write_ahead: WriteAhead,
    waves: Waves,
    conclusion: Conclusion,
    cleanup: Cleanup,
    passes: controller::Measures,
    clock: Clock,
}

impl Applying {
    /// An applier with its barrier closed.
    pub fn new(
        cluster: ClusterName,
        hub: Side,
        member: Side,
        outgoing: Arc<Outgoing>,
        args: &ApplierArgs,
        metrics: &Metrics,
        clock: Clock,
    ) -> Self {
        let queue = Queue::default();
        if args.priorities().is_some() {
            queue.set_priority_of_timers(requeue::TIMER_PRIORITY);
        }
        let client = member.client.clone();
        let (api, barrier, records) = (
            MemberApi::new(client.clone()),
            Barrier::default(),
            Records::new(clock.clone()),
        );
        let owners = Owners::new(client.clone(), cluster.namespace());
        let watches = Watches::new(client.clone(), member.era.clone(), api.kinds.clone(), queue.clone());
        let (works, applied) = (Works::new(hub.client, cluster), Store::new("appliedworks"));
        works.store.show_in(metrics.dump());
        applied.show_in(metrics.dump());
        watches.show_in(metrics.dump());
        let measures = {
            let (works, applied) = (works.clone(), applied.clone());
            Measures::new(metrics, move || works.orphans(&applied).len())
        };
        let reporter = Reporter::new(outgoing, queue.clone(), measures.clone());
        let handles = Handles {
            api: api.clone(),
            owners: owners.clone(),
            watches: watches.clone(),
            barrier: barrier.clone(),
            records: records.clone(),
            reporter: reporter.clone(),
        };
        let delays = args.delays();
        Self {
            hub_era: hub.era,
            member,
            admission: Admission {
                works: works.clone(),
                applied,
                queue: queue.clone(),
                barrier: barrier.clone(),
                records: records.clone(),
                owners: owners.clone(),
                watches: watches.clone(),
                reporter: reporter.clone(),
                measures: measures.clone(),
                clock: clock.clone(),
                longest: Duration::from_secs_f64(delays.fast_max_secs),
                by_age: args.priorities(),
                memories: admit::Memories::default(),
            },
            decoder: Decoder {
                kinds: api.kinds.clone(),
                keep_finalizers: args.work_applier_keep_finalizers,
            },
            write_ahead: WriteAhead {
                handles: handles.clone(),
            },
            waves: Waves {
                api: api.clone(),
                rules: MergeRules::new(client),
                works: works.clone(),
                barrier: barrier.clone(),
                watches: watches.clone(),
                reporter: reporter.clone(),
                reserved: args.reserved_keys(),
                clock: clock.clone(),
            },
            conclusion: Conclusion {
                handles,
                delays,
                degraded_counts: args.work_applier_count_degraded_diff_as_reported,
                measures: measures.clone(),
                clock: clock.clone(),
            },
            cleanup: Cleanup {
                api,
                works: works.clone(),
                owners,
                barrier: barrier.clone(),
                records: records.clone(),
                reporter: reporter.clone(),
                measures,
                help_after: SignedDuration::from_mins(args.deletion_wait_time.into()),
                clock: clock.clone(),
            },
            works,
            queue,
            barrier,
            records,
            watches,
            reporter,
            passes: controller::Measures::new(metrics),
            clock,
        }
    }

    /// Applies, until told to stop.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let applied = &self.admission.applied;
        // Between two terms of this process another may have led: nothing that is remembered is trusted, and whatever
        // was under way when the last one ended is looked at again.
        self.works.store.rest();
        applied.rest();
        self.queue.take_back();
        let api: Api<PartialObjectMeta<AppliedWork>> = Api::all(self.member.client.clone());
        let feed_works = async {
            let mut changes = self.works.store.subscribe();
            loop {
                self.admission.work_changed(&changes.next().await);
            }
        };
        let feed_applied = controller::feed(applied.subscribe(), self.queue.clone(), |change| {
            self.admission.owner_changed(change)
        });
        let passes = async {
            self.load().await;
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
            () = self.works.watch(&self.hub_era) => {}
            () = applied.clone().watch(api, Selection::all(&self.member.era), cache::plain) => {}
            () = self.follow_eras() => {}
            () = feed_works => {}
            () = feed_applied => {}
            () = passes => {}
        }
    }

    /// Waits until all Works and AppliedWorks are known: other Works decide whose an object is, and nothing is judged
    /// before.
    async fn load(&self) {
        self.works.store.synced().await;
        self.admission.applied.synced().await;
        self.admission.load_records().await;
    }

    /// When an API server has gone back in time, what is remembered may never have happened: every Work is looked at as if
    /// for the first time.
    async fn follow_eras(&self) {
        let (mut hub, mut member) = (self.hub_era.number(), self.member.era.number());
        loop {
            tokio::select! {
                now = self.hub_era.over(hub) => {
                    hub = now;
                    self.admission.hub_went_back();
                }
                now = self.member.era.over(member) => member = now,
            }
            self.admission.forget_rounds();
            self.reporter.forget_all_said();
            self.load().await;
            self.admission.wake_all();
        }
    }

    /// One pass over a Work.
    async fn pass(&self, name: &str) -> Result<Next, RoundFailure> {
        match self.admission.admit(name).await? {
            Admitted::Nothing(next) => Ok(next),
            Admitted::Round(admitted) => {
                let admit::Round {
                    inside: _inside,
                    work,
                    mut memory,
                    extent,
                } = *admitted;
                let next = self.round(&work, &mut memory, &extent).await?;
                self.admission.done(name, memory);
                Ok(next)
            }
            Admitted::End(end) => match self.end(*end).await? {
                Ended::Yes => {
                    self.admission.forget(name);
                    Ok(Next::Wait)
                }
                Ended::Later(at) => Ok(Next::At(at)),
            },
        }
    }

    /// Does a round, and says when to do the next.
    async fn round(&self, work: &HubWork, memory: &mut WorkMemory, extent: &Extent) -> Result<Next, RoundFailure> {
        let common = Common::new(work, memory, self.clock.now());
        let full = *extent == Extent::All;
        let mut batch = self.decoder.decode(work, extent).await;
        let mut before = if full {
            Before::all(&mut memory.manifests)
        } else {
            Before::some(&memory.manifests, &batch)
        };
        if full {
            memory.manifests = batch.iter().map(ManifestMemory::failed).collect();
            let ledger = &mut memory.ledger;
            self.write_ahead.begin(&common, ledger, &batch, &mut before).await?;
        }
        let done = self.waves.announced(&common, &batch, &before, full).await?;
        self.waves.keep(&common, &mut memory.manifests, done);
        if full {
            let late = waiting_for_own_crds(&batch);
            if !late.is_empty() && self.decoder.own_kinds(work, &mut batch, &late).await {
                let ledger = &mut memory.ledger;
                self.write_ahead.write(&common, ledger, &batch, &mut before).await?;
                let ready: Vec<Manifest> = late.iter().map(|at| batch[*at].clone()).collect();
                let done = self.waves.run(&common, &ready, &before).await?;
                self.waves.keep(&common, &mut memory.manifests, done);
            }
        }
        // What is of no use without its manifest: say why it failed.
        for manifest in batch.iter().filter(|manifest| manifest.object.is_err()) {
            memory.manifests[place_of(manifest)] = ManifestMemory::failed(manifest);
        }
        if full {
            memory.schedule.full_at = Some(Instant::now());
        }
        self.conclusion.conclude(&common, memory).await
    }

    /// Takes the end of a Work as far as it goes.
    async fn end(&self, end: End) -> Result<Ended, RoundFailure> {
        let End {
            inside: _inside,
            work,
            owner,
        } = end;
        match self.cleanup.doubt(&work, owner.1.as_ref()) {
            Doubt::None => {}
            Doubt::NotItsOwn => {
                self.cleanup.leave(&work);
                return Ok(Ended::Yes);
            }
            Doubt::Forgotten(owner, mut inventory) => {
                let manifests = self.decoder.decode(&work, &Extent::All).await;
                let ahead = &self.write_ahead;
                ahead.keep_forgotten(&work, &owner, &mut inventory, &manifests).await?;
                self.cleanup.write(&owner, &inventory).await?;
            }
        }
        self.cleanup.clean_up(&work, owner).await
    }
}
