//! What one stage must know of another and no stored object says, or not yet. The only way from one stage's pass to
//! another stage's queue: who writes a fact here wakes those who read it.
//!
//! | fact | written by | read by | woken | after a restart |
//! |---|---|---|---|---|
//! | `verdicts`: what became of a placement's selectors | selection | placement roll-up | placement roll-up | selection judges again; nothing is said before |
//! | `decisions`: the status that a policy snapshot is about to get | scheduler | placement roll-up | placement roll-up | the scheduler decides the same again |
//! | `picking`: a placement's bindings are being made | scheduler | rollout | rollout, for several bindings at once | nothing is being made |
//! | `goals`: what a placement's bindings should name, which tells whose rollout has started | rollout | work, binding roll-up | work, where a status does not say so | the rollout makes them again from snapshots, overrides and the strategy |
//! | `outcomes`: what became of a binding's Works: whether they are written, or why not, which were written last and since when they have their content | work | binding roll-up; both, to tell whom a report concerns | binding roll-up | work looks at every binding; nothing is said before |
//! | `statuses`: the status that a binding is about to get | binding roll-up | rollout, placement roll-up, update run | all three | it is made again from Works |
//! | `steps`: since when a placement's change is under way | selection, snapshots | placement roll-up, for a metric | nobody | not counted |
//! | users' objects or kinds of a placement have changed | selection | report back | report back | everything is looked at |
//!
//! Everything else that a stage needs it reads from the stores, and what it remembers for itself is in its own memory.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use fleet_api::{
    conditions::placement::Scheduled,
    placement::{ApplyStrategy, BindingStatus, PolicySnapshotStatus, ResourceIdentifier},
};
use fleet_core::{
    overrides::choose::Lists,
    work::{Plan, WorkFailure},
};
use fleet_runtime::{
    Key,
    queue::{Next, Queue},
};
use jiff::Timestamp;
use parking_lot::Mutex;

pub(crate) use super::ahead::Noted;
use super::{
    ahead::Ahead,
    outcomes::{Outcomes, WorksOutcome},
    stage::Door,
    steps::Steps,
};

/// The facts of one scope, and the way into each stage.
#[derive(Default)]
pub(crate) struct Signals {
    doors: Doors,
    verdicts: Mutex<HashMap<Key, Verdict>>,
    decisions: Ahead<PolicySnapshotStatus>,
    picking: Mutex<HashSet<Key>>,
    goals: Mutex<HashMap<Key, Arc<Goals>>>,
    outcomes: Outcomes,
    statuses: Ahead<BindingStatus>,
    /// How far each placement has come with its last change.
    pub(crate) steps: Steps,
}

/// One queue per stage; the keys are placements, for Works and bindings' status bindings, for update runs themselves.
#[derive(Default)]
struct Doors {
    selection: Queue<Key>,
    scheduler: Queue<Key>,
    rollout: Queue<Key>,
    work: Queue<Key>,
    binding: Queue<Key>,
    placement: Queue<Key>,
    report_back: Queue<Key>,
    update_run: Queue<Key>,
    /// Placements whose update runs have something to look at.
    moved: Queue<Key>,
}

/// What became of a placement's selectors, for one generation of it. Nothing is said about a generation before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) generation: i64,
    pub(crate) selected: Selected,
}

/// What became of a placement's selectors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Selected {
    /// They select something, or nothing. Where update runs make the snapshots this is what is selected now; else the
    /// snapshot tells, and nothing is kept here.
    Valid(Arc<[ResourceIdentifier]>),
    /// The user has to change them; what `Scheduled` says about it.
    Refused(Scheduled),
}

/// What the bindings of a placement should name. Made from stored objects alone.
#[derive(Debug)]
pub(crate) enum Goals {
    /// The latest resources.
    Latest {
        /// The master of the latest snapshot.
        snapshot: String,
        /// The placement's apply strategy, defaults filled in.
        strategy: ApplyStrategy,
        /// By binding: the overrides for its cluster, or why they cannot be told.
        overrides: HashMap<String, Result<Lists, String>>,
    },
    /// What update runs have given them: whoever was started stays so.
    External,
}

impl Signals {
    /// The queue of a stage, for that stage.
    pub(super) fn queue(&self, door: Door) -> Queue<Key> {
        let queue = match door {
            Door::Selection => &self.doors.selection,
            Door::Scheduler => &self.doors.scheduler,
            Door::Rollout => &self.doors.rollout,
            Door::Work => &self.doors.work,
            Door::Binding => &self.doors.binding,
            Door::Placement => &self.doors.placement,
            Door::ReportBack => &self.doors.report_back,
            Door::UpdateRun => &self.doors.update_run,
        };
        queue.clone()
    }

    /// Selection: what became of the selectors. Whether that is news.
    pub(crate) fn judge(&self, placement: &Key, verdict: Verdict) -> bool {
        let before = self.verdicts.lock().insert(placement.clone(), verdict.clone());
        let news = before != Some(verdict);
        if news {
            self.doors.placement.add(placement.clone());
        }
        news
    }

    /// Selection: the placement is gone or going.
    pub(crate) fn forget(&self, placement: &Key) {
        self.verdicts.lock().remove(placement);
        self.steps.forget(placement);
    }

    /// What became of the selectors of this generation.
    pub(crate) fn verdict(&self, placement: &Key, generation: i64) -> Option<Selected> {
        let verdict = self.verdicts.lock().get(placement).cloned();
        Some(verdict.filter(|verdict| verdict.generation == generation)?.selected)
    }

    /// Selection: what users' objects show may have to be written again.
    pub(super) fn look_back(&self, placement: &Key) {
        self.doors.report_back.add(placement.clone());
    }

    /// Scheduler: what a policy snapshot is about to say.
    pub(crate) fn decide(&self, placement: &Key, snapshot: &Key, generation: i64, status: PolicySnapshotStatus) {
        if self.decisions.set(snapshot, generation, status).news {
            self.doors.placement.add(placement.clone());
        }
    }

    /// Scheduler: what was decided before, and could not be written, is not decided any more.
    pub(crate) fn undecide(&self, placement: &Key, snapshot: &Key) {
        if self.decisions.remove(snapshot) {
            self.doors.placement.add(placement.clone());
        }
    }

    /// Scheduler: the policy snapshot says it now, or is gone.
    pub(crate) fn decision_stored(&self, snapshot: &Key) {
        self.decisions.remove(snapshot);
    }

    /// What a policy snapshot is about to say.
    pub(crate) fn decision(&self, snapshot: &Key, generation: i64) -> Option<Arc<PolicySnapshotStatus>> {
        self.decisions.get(snapshot, generation)
    }

    /// Scheduler: bindings of this placement are being made, and the rollout will be told.
    pub(crate) fn begin_picking(&self, placement: &Key) {
        self.picking.lock().insert(placement.clone());
    }

    /// Scheduler: some more are made.
    pub(crate) fn picked_some(&self, placement: &Key) {
        self.doors.rollout.add(placement.clone());
    }

    /// Scheduler: all are made.
    pub(crate) fn end_picking(&self, placement: &Key) {
        self.picking.lock().remove(placement);
        self.doors.rollout.add(placement.clone());
    }

    /// Whether the rollout will be told of new bindings of this placement.
    pub(crate) fn is_picking(&self, placement: &Key) -> bool {
        self.picking.lock().contains(placement)
    }

    /// Rollout: what the bindings of a placement should name.
    pub(crate) fn aim(&self, placement: &Key, goals: Goals) {
        self.goals.lock().insert(placement.clone(), Arc::new(goals));
    }

    /// Rollout: the placement is gone or going.
    pub(crate) fn forget_goals(&self, placement: &Key) {
        self.goals.lock().remove(placement);
    }

    /// What the bindings of a placement should name; none before the rollout has looked.
    pub(crate) fn goals(&self, placement: &Key) -> Option<Arc<Goals>> {
        self.goals.lock().get(placement).cloned()
    }

    /// Rollout: a binding has started, and its status does not say so.
    pub(crate) fn restamp(&self, binding: &Key) {
        self.doors.work.add(binding.clone());
    }

    /// Update run: the next placement of which a binding is about to say something new.
    pub(crate) async fn moved(&self) -> Key {
        let key = self.doors.moved.take().await.key;
        self.doors.moved.done(&key, Next::Wait);
        key
    }

    /// Work: a pass over a binding begins. What members say from here on is for the next one.
    pub(crate) fn begin_works(&self, binding: &Key) {
        self.outcomes.begin(binding);
    }

    /// Work: this is about to be written. Nothing is said of a binding's Works until that is done.
    pub(crate) fn plan_works(&self, binding: &Key, plan: &Plan, now: Timestamp) {
        self.outcomes.plan(binding, plan, now);
    }

    /// Work: the Works of a binding of this generation are what they should be, or why not.
    pub(crate) fn conclude_works(&self, binding: &Key, generation: i64, failure: Option<WorkFailure>) {
        self.outcomes.conclude(binding, generation, failure);
        self.doors.binding.add(binding.clone());
    }

    /// Work: the binding is to have no Works, or none for now.
    pub(crate) fn withdraw_works(&self, binding: &Key) {
        if self.outcomes.withdraw(binding) {
            self.doors.binding.add(binding.clone());
        }
    }

    /// Work: the binding is gone.
    pub(crate) fn forget_works(&self, binding: &Key) {
        self.outcomes.forget(binding);
    }

    /// What became of the Works of a binding of this generation; none while they are being written.
    pub(crate) fn outcome(&self, binding: &Key, generation: i64) -> Option<WorksOutcome> {
        self.outcomes.get(binding, generation)
    }

    /// Whether the Works of a binding, of this generation if one is given, are as they should be whatever is said of them.
    pub(crate) fn is_closed(&self, binding: &Key, generation: Option<i64>) -> bool {
        self.outcomes.is_closed(binding, generation)
    }

    /// Binding roll-up: after the first look nothing is unknown any more about the age of the content.
    pub(crate) fn settle(&self, binding: &Key) {
        self.outcomes.settle(binding);
    }

    /// Binding roll-up: the status that a binding of this generation is about to get.
    pub(crate) fn say(&self, placement: &Key, binding: &Key, generation: i64, status: BindingStatus) -> Noted {
        let noted = self.statuses.set(binding, generation, status);
        if noted.news {
            self.doors.placement.add(placement.clone());
            self.doors.rollout.add(placement.clone());
            self.doors.moved.add(placement.clone());
        }
        noted
    }

    /// Binding roll-up: the binding says it now, or will not.
    pub(crate) fn status_stored(&self, binding: &Key) {
        self.statuses.remove(binding);
    }

    /// The status that a binding of this generation is about to get, if that is not stored yet.
    pub(crate) fn status(&self, binding: &Key, generation: i64) -> Option<Arc<BindingStatus>> {
        self.statuses.get(binding, generation)
    }
}
