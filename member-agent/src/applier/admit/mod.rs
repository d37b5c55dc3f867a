//! Whether a Work may be touched, and what of it has to be looked at.
//!
//! ```text
//! queue ─► barrier ─► older than what was applied? ─► AppliedWork ─► memory ─► extent ─► a round
//!            └► held: say so           └► judge             └► the Work is deleted ─► its end
//! ```

mod extent;
mod feed;
mod judge;
mod memories;

use std::{sync::Arc, time::Duration};

use fleet_api::placement::{AppliedWork, AppliedWorkInventory, AppliedWorkStatus};
use fleet_core::apply::{
    deletion::{AppliedWorkView, Entry, entry},
    inventory::Inventory,
};
use fleet_runtime::{
    Key,
    cache::Store,
    clock::Clock,
    logs,
    queue::{Next, Queue},
};
use kube::core::PartialObjectMeta;
use tokio::time::Instant;

use self::extent::{Cause, extent};
pub(super) use self::memories::Memories;
use super::{
    barrier::{Barrier, Inside},
    digest::hex_digest,
    measures::Measures,
    memory::{Ledger, WorkMemory},
    owners::{self, Owners},
    records::Records,
    report::Reporter,
    round::{Extent, RoundFailure},
    watches::Watches,
    works::{HubWork, Works},
};

/// How long to wait for an old AppliedWork to go, should its watch not tell.
const OLD_OWNER: Duration = Duration::from_secs(30);

/// Decides what a pass does.
pub(super) struct Admission {
    pub(super) works: Works,
    /// AppliedWorks, only to know when they come and go.
    pub(super) applied: Store<PartialObjectMeta<AppliedWork>>,
    pub(super) queue: Queue<String>,
    pub(super) barrier: Barrier,
    pub(super) records: Records,
    pub(super) owners: Owners,
    pub(super) watches: Watches,
    pub(super) reporter: Reporter,
    pub(super) measures: Measures,
    pub(super) clock: Clock,
    /// Everything of a Work is looked at as often as that.
    pub(super) longest: Duration,
    /// How the priority of an update falls with the age of its Work, if it does.
    pub(super) by_age: Option<(i64, i64)>,
    pub(super) memories: Memories,
}

/// What is to be done about a Work.
pub(super) enum Admitted {
    /// Nothing until then.
    Nothing(Next),
    /// A round.
    Round(Box<Round>),
    /// It is deleted, and what it brought goes.
    End(Box<End>),
}

/// A round that may begin. While this lives, the barrier does not close.
pub(super) struct Round {
    pub(super) inside: Inside,
    pub(super) work: Arc<HubWork>,
    pub(super) memory: WorkMemory,
    pub(super) extent: Extent,
}

/// The end of a Work that may begin. While this lives, the barrier does not close.
pub(super) struct End {
    pub(super) inside: Inside,
    pub(super) work: Arc<HubWork>,
    /// The AppliedWork as it was read just now.
    pub(super) owner: (AppliedWorkView, Option<AppliedWork>),
}

impl Admission {
    pub(super) async fn admit(&self, name: &str) -> Result<Admitted, RoundFailure> {
        let Some(inside) = self.barrier.enter() else {
            if self.barrier.is_held()
                && let Some(work) = self.works.get(name)
            {
                self.say_held(&work);
            }
            // Opening it wakes everybody.
            return Ok(Admitted::Nothing(Next::Wait));
        };
        let Some(work) = self.works.get(name) else {
            // Not an order to delete: what it brought stays, and its AppliedWork shows as an orphan.
            self.forget(name);
            self.reporter.forget_end(name);
            return Ok(Admitted::Nothing(Next::Wait));
        };
        // The store may be ahead of what was told of it.
        if self.records.is_older(&work) {
            self.judge();
            return Ok(Admitted::Nothing(Next::Wait));
        }
        let mut memory = self.memories.take(name);
        if memory
            .as_ref()
            .is_some_and(|memory| memory.version.work_uid != work.uid())
        {
            self.forget(name);
            memory = None;
        }
        if let Some(memory) = memory.take_if(|memory| self.is_enough(&work, memory)) {
            return Ok(self.round(inside, work, memory));
        }
        let (view, object) = self.owners.read(name).await;
        let object = match entry(true, work.view(), &view) {
            Entry::GateClosed => return Ok(Admitted::Nothing(Next::Wait)),
            Entry::Claim => {
                self.reporter.claim(&work);
                return Ok(Admitted::Nothing(Next::Wait));
            }
            Entry::CleanUp => {
                let owner = (view, object);
                return Ok(Admitted::End(Box::new(End { inside, work, owner })));
            }
            Entry::AwaitOldOwner => return Ok(Admitted::Nothing(Next::At(Instant::now() + OLD_OWNER))),
            Entry::AwaitRead => return Err(RoundFailure::OwnerUnknown),
            // With a record, so that it is never taken for one that another agent left.
            Entry::CreateOwner => AppliedWork {
                status: Some(AppliedWorkStatus {
                    inventory: Some(AppliedWorkInventory::default()),
                    ..AppliedWorkStatus::default()
                }),
                ..self.owners.create(name).await?
            },
            Entry::Begin => object.ok_or(RoundFailure::OwnerUnknown)?,
        };
        let memory = self.load(&work, memory, &object).await?;
        Ok(self.round(inside, work, memory))
    }

    /// Whether what is remembered is enough: the same content, and an owner that the watch shows to be there still.
    fn is_enough(&self, work: &HubWork, memory: &WorkMemory) -> bool {
        let view = work.view();
        let owner = self.applied.get(&Key::cluster(work.name()));
        view.has_finalizer
            && !view.deleting
            && memory.version.generation == work.generation()
            && memory.version.content == work.content
            && memory.manifests.len() == work.spec.workload.manifests.len()
            && memory.schedule.full_at.is_some()
            && owner.is_some_and(|owner| {
                owner.metadata.uid.as_deref() == Some(&*memory.ledger.owner_uid)
                    && owner.metadata.deletion_timestamp.is_none()
            })
    }

    /// What is remembered of the Work, or can be read of it.
    async fn load(
        &self,
        work: &HubWork,
        memory: Option<WorkMemory>,
        object: &AppliedWork,
    ) -> Result<WorkMemory, RoundFailure> {
        let owner_uid = object.metadata.uid.clone().unwrap_or_default();
        let mut memory = match memory {
            Some(memory) if memory.ledger.owner_uid == owner_uid => memory,
            before => {
                let status = object.status.clone().unwrap_or_default();
                let inventory = if let Some(inventory) = Inventory::stored(&status) {
                    inventory
                } else {
                    // Another agent was here before: all that it may have made may be ours.
                    let stored = self.works.stored_status(work.name()).await;
                    let stored = stored.map_err(|error| RoundFailure::Work(logs::chain(&error).to_string()))?;
                    Inventory::adopted(&stored, &status.applied_resources)
                };
                let written = owners::status(&inventory, &status.applied_resources);
                WorkMemory {
                    ledger: Ledger {
                        owner_uid,
                        written: hex_digest(&written.to_string()),
                        inventory,
                    },
                    manifests: before.map(|before| before.manifests).unwrap_or_default(),
                    ..WorkMemory::default()
                }
            }
        };
        memory.move_to(work);
        Ok(memory)
    }

    /// A round over what has to be looked at.
    fn round(&self, inside: Inside, work: Arc<HubWork>, memory: WorkMemory) -> Admitted {
        let cause = Cause {
            changed: self.watches.take_changed(work.name()),
            asked: self.reporter.is_asked(work.name()),
            now: self.clock.steady(),
            longest: self.longest,
        };
        let Some(extent) = extent(&memory, &cause) else {
            // The echo of an own write.
            let next = memory.schedule.due.map_or(Next::Wait, Next::At);
            self.memories.put(work.name(), memory);
            return Admitted::Nothing(next);
        };
        tracing::debug!(work = work.name(), generation = work.generation(), ?extent, "Round");
        Admitted::Round(Box::new(Round {
            inside,
            work,
            memory,
            extent,
        }))
    }

    /// A round is over.
    pub(super) fn done(&self, name: &str, memory: WorkMemory) {
        self.memories.put(name, memory);
    }

    /// Forgets all about a Work but what is to be told to the hub about its end.
    pub(super) fn forget(&self, name: &str) {
        self.memories.take(name);
        self.reporter.forget(name);
        self.measures.stuck(name, false);
        self.watches.forget(name);
    }

    /// Forgets what is remembered of every Work: each is looked at as if for the first time.
    pub(super) fn forget_rounds(&self) {
        self.memories.clear();
    }

    /// Every Work has to be looked at.
    pub(super) fn wake_all(&self) {
        for work in self.works.all() {
            self.queue.add(work.name().to_owned());
        }
    }
}
