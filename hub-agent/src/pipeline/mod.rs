//! What the stages of a placement share: handles ([`Pipeline`]), what one must know of another ([`signals`]), and how a
//! stage is made ([`Stage`]).
//!
//! ```text
//! Placement ─► selection ─► snapshots ─► scheduler ─► rollout ─► work ─► Works
//!     ▲                                     └──── bindings ────┘           │
//!     └── placement roll-up ◄── bindings' status ◄── binding roll-up ◄─────┤
//! users' objects ◄───────────────────── report back ◄──────────────────────┘
//! ```
//!
//! Every stage has a queue of its own, fed from the stores and by [`signals`], and remembers what it needs for itself
//! alone. The decisions are `fleet_core`'s.

mod ahead;
mod error;
mod outcomes;
mod reads;
pub(crate) mod signals;
mod stage;
pub(crate) mod steps;
mod told;

use std::{ops::Deref, sync::Arc};

use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    events::PlacementEvent,
    names::Scope as ScopeName,
    placement::{PlacementScope, Scope},
};
use fleet_core::{overrides::Rbac, selection::Rules, snapshot::delay::Flags, updaterun::Moment};
use fleet_runtime::{Key, cache::Store, clock::Clock, events::Recorder, queue::Next};
use jiff::{SignedDuration, Timestamp};

use self::signals::Signals;
pub(crate) use self::{
    error::{Error, decide_anew, key_of},
    stage::{Door, Stage},
    told::Told,
};
use crate::{
    cache::{
        family::{Family, Mirrors},
        overrides::OverrideStores,
        user::UserResources,
        works::Works,
    },
    writer::{Writer, record},
};

/// What a pass of any stage works with. Cheap to clone.
pub(crate) struct Pipeline<S: Scope>(Arc<Handles<S>>);

/// Handles; nothing here is remembered.
pub(crate) struct Handles<S: Scope> {
    pub(crate) family: Family<S>,
    pub(crate) shared: Shared,
    pub(crate) signals: Signals,
}

/// What both scopes share.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) members: Store<MemberCluster>,
    pub(crate) internals: Store<InternalMemberCluster>,
    pub(crate) works: Works,
    pub(crate) overrides: OverrideStores,
    pub(crate) mirrors: Mirrors,
    pub(crate) user: UserResources,
    pub(crate) writer: Writer,
    pub(crate) events: Recorder,
    pub(crate) steps: steps::Measures,
    pub(crate) clock: Clock,
    pub(crate) settings: PipelineSettings,
}

/// What the flags say.
#[derive(Clone, Debug)]
pub(crate) struct PipelineSettings {
    pub(crate) rules: Rules,
    pub(crate) delay: Flags,
    /// Whether ResourcePlacements are served.
    pub(crate) namespaced: bool,
    pub(crate) scheduler: fleet_core::scheduler::SchedulerSettings,
    pub(crate) rbac: Rbac,
    pub(crate) unhealthy_threshold: SignedDuration,
    /// Whether update runs are carried out.
    pub(crate) update_runs: bool,
    /// How long a cluster may take before its run says that it is stuck.
    pub(crate) stuck_threshold: SignedDuration,
    /// How long update runs stay after their end; zero is for ever.
    pub(crate) update_run_ttl: SignedDuration,
}

impl<S: Scope> Pipeline<S> {
    pub(crate) fn new(family: Family<S>, shared: Shared) -> Self {
        Self(Arc::new(Handles {
            family,
            shared,
            signals: Signals::default(),
        }))
    }

    /// A stage with what it alone remembers.
    pub(crate) fn stage<M>(&self, door: Door, memory: M) -> Stage<S, M> {
        Stage::new(self.clone(), self.signals.queue(door), memory)
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// Now, for what is measured as well as written down.
    pub(crate) fn moment(&self) -> Moment {
        let clock = &self.shared.clock;
        Moment {
            now: clock.now(),
            steady: clock.steady(),
        }
    }

    /// The pass after this one: at `at`, or when something changes.
    pub(crate) fn next(&self, at: Option<Timestamp>) -> Next {
        at.map_or(Next::Wait, |at| Next::At(self.shared.clock.wake_at(at)))
    }

    /// Whether there is such a cluster, even one whose object cannot be read: what is placed on it must stay.
    pub(crate) fn knows_cluster(&self, name: &str) -> bool {
        let (key, members) = (Key::cluster(name), &self.shared.members);
        members.get(&key).is_some() || members.is_odd(&key)
    }

    /// Whether a placement, or a binding, of this name is of this scope.
    pub(crate) fn is_ours(key: &Key) -> bool {
        key.namespace().is_some() == (Self::scope() == ScopeName::Namespaced)
    }

    /// Whether placements of this scope are served. Of a scope that is not, they can only come to their end.
    pub(crate) fn is_served(&self) -> bool {
        Self::scope() == ScopeName::Cluster || self.shared.settings.namespaced
    }

    /// Which of the two scopes this is, as names and conditions have it.
    pub(crate) fn scope() -> ScopeName {
        match S::SCOPE {
            PlacementScope::Cluster => ScopeName::Cluster,
            PlacementScope::Namespaced => ScopeName::Namespaced,
        }
    }

    /// Records an Event about a placement.
    pub(crate) fn record(&self, placement: &S::Placement, event: &PlacementEvent) {
        record(&self.shared.events, Self::scope(), placement, event);
    }

    /// Records what is news among complaints of one sort; none takes the last one back.
    pub(crate) fn record_once(
        &self,
        told: &Told<PlacementEvent>,
        placement: &S::Placement,
        event: Option<PlacementEvent>,
    ) {
        let key = Key::of(placement);
        match event {
            None => told.forget(&key),
            Some(event) if told.is_news(&key, event.clone()) => self.record(placement, &event),
            Some(_) => {}
        }
    }
}

impl<S: Scope> Clone for Pipeline<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Scope> Deref for Pipeline<S> {
    type Target = Handles<S>;

    fn deref(&self) -> &Handles<S> {
        &self.0
    }
}
