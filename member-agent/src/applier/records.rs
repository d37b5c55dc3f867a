//! What was last applied, Work by Work, as this cluster has written it down; and by that, whether the hub went back in
//! time.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use fleet_core::{
    apply::inventory::Attempt,
    session::recovery::{Recovery, goes_on, went_back},
};
use fleet_runtime::clock::Clock;
use jiff::Timestamp;
use parking_lot::Mutex;

use super::works::HubWork;

/// What is written down, and what follows from it. Cheap to clone.
#[derive(Clone)]
pub(super) struct Records(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    clock: Clock,
}

#[derive(Default)]
struct State {
    /// By Work.
    attempts: HashMap<String, Attempt>,
    /// Works that are older than what was applied, what they are, and when that was.
    older: BTreeMap<String, (String, Timestamp)>,
    /// When the hub's versions went back while we looked.
    back: Option<Timestamp>,
    recovery: Recovery,
    imc_uid: String,
}

impl Records {
    pub(super) fn new(clock: Clock) -> Self {
        Self(Arc::new(Inner {
            state: Mutex::default(),
            clock,
        }))
    }

    /// This is all that is written down.
    pub(super) fn replace(&self, attempts: HashMap<String, Attempt>) {
        self.0.state.lock().attempts = attempts;
    }

    /// This was written down.
    pub(super) fn note(&self, name: &str, attempt: &Attempt) {
        self.0.state.lock().attempts.insert(name.to_owned(), attempt.clone());
    }

    /// Nothing is written down any more.
    pub(super) fn forget(&self, name: &str) {
        self.0.state.lock().attempts.remove(name);
    }

    /// What was written down for a Work.
    pub(super) fn get(&self, name: &str) -> Option<Attempt> {
        self.0.state.lock().attempts.get(name).cloned()
    }

    /// Whether a Work goes on where the attempt that was written down ended.
    pub(super) fn goes_on(&self, work: &HubWork, attempt: &Attempt) -> bool {
        let recovery = self.0.state.lock().recovery;
        goes_on(attempt, work.uid(), &recovery, self.0.clock.now())
    }

    /// The attempt to write down after this one. It keeps its time until it is another, or somebody has said that the hub
    /// recovered.
    pub(super) fn next(&self, work: &HubWork, spec_digest: &str, before: &Attempt) -> Attempt {
        let same = before.work_uid == work.uid()
            && before.generation == work.generation()
            && before.spec_digest == spec_digest
            && self.goes_on(work, before);
        // Whole seconds, as they are stored; never before the recovery that it comes after, whatever the clocks say.
        let now = Timestamp::from_second(self.0.clock.now().as_second()).unwrap_or_default();
        let recovered_at = self.0.state.lock().recovery.recovered_at;
        let since = recovered_at.map_or(now, |recovered| now.max(recovered));
        Attempt {
            work_uid: work.uid().to_owned(),
            generation: work.generation(),
            spec_digest: spec_digest.to_owned(),
            at: if same { before.at } else { Some(since) },
        }
    }

    /// Looks at a Work as the hub shows it. Whether it is older than what was applied, and nobody has said to go on since.
    pub(super) fn is_older(&self, work: &HubWork) -> bool {
        let now = self.0.clock.now();
        let state = &mut *self.0.state.lock();
        let Some(attempt) = state.attempts.get(work.name()) else {
            return false;
        };
        if !went_back(attempt, work.uid(), work.generation(), || work.spec_digest()) {
            return false;
        }
        let at = attempt.at.unwrap_or(Timestamp::MIN);
        let older = !state.recovery.covers(at, now);
        if older {
            let (was, is) = (attempt.generation, work.generation());
            let why = format!(
                "Work {} is at generation {is}, and another {was} was applied",
                work.name()
            );
            state.older.insert(work.name().to_owned(), (why, at));
        }
        older
    }

    /// Whether a Work was found older than what was applied.
    pub(super) fn was_older(&self, name: &str) -> bool {
        self.0.state.lock().older.contains_key(name)
    }

    /// The hub's versions went back.
    pub(super) fn hub_went_back(&self) {
        self.0.state.lock().back = Some(self.0.clock.now());
    }

    /// What the InternalMemberCluster says about it.
    pub(super) fn heed(&self, imc_uid: &str, recovery: Recovery) {
        let mut state = self.0.state.lock();
        state.recovery = recovery;
        imc_uid.clone_into(&mut state.imc_uid);
    }

    /// The InternalMemberCluster that was heeded last.
    pub(super) fn imc_uid(&self) -> String {
        self.0.state.lock().imc_uid.clone()
    }

    /// Why nothing may be touched, if so.
    pub(super) fn why_held(&self) -> Option<String> {
        let now = self.0.clock.now();
        let state = &mut *self.0.state.lock();
        let recovery = state.recovery;
        state.older.retain(|_, (_, at)| !recovery.covers(*at, now));
        state.back.take_if(|at| recovery.covers(*at, now));
        let older = state.older.values().next().map(|(why, _)| why.clone());
        older
            .or_else(|| state.back.map(|_| "its versions are lower than before".to_owned()))
            .or_else(|| recovery.is_held(now).then(|| "the hub agent noticed it".to_owned()))
    }
}
