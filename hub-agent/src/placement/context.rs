//! What the stages of the pipeline share: stores, queues, and what one stage must know of another within a process.

use std::{collections::HashMap, ops::Deref, sync::Arc, time::Duration};

use fleet_api::{
    annotations,
    cluster::{InternalMemberCluster, MemberCluster},
    conditions::placement::Scheduled,
    events::{Event, EventType, PlacementEvent},
    labels,
    names::{PlacementKey, Scope as ScopeName},
    placement::{BindingStatus, PlacementScope, ResourceIdentifier, Scope},
};
use fleet_core::{
    selection::{Interests, ObjectId, Rules},
    snapshot::delay::Flags,
};
use fleet_runtime::{
    Key,
    cache::{Index, Store},
    clock::Clock,
    events::{Recorder, Severity},
    queue::{Next, Queue},
};
use jiff::{SignedDuration, Timestamp};
use kube::{Resource, ResourceExt as _, core::object::HasSpec as _};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::told::Told;
use crate::{
    cache::{
        family::{Family, Mirrors},
        user::UserResources,
    },
    overrides::OverrideStores,
    session::Works,
    writer::{WriteError, Writer},
};

/// What a pass works with. Cheap to clone.
pub(crate) struct Context<S: Scope>(Arc<Inner<S>>);

/// Handles, and what the stages remember.
pub(crate) struct Inner<S: Scope> {
    pub(crate) family: Family<S>,
    pub(crate) shared: Shared,
    pub(crate) queues: Queues,
    /// Which placements a change of a user's object concerns.
    pub(crate) interests: Mutex<Interests<Key>>,
    /// How far each placement has come with its last change.
    pub(crate) steps: super::steps::Steps,
    /// The last complaint about each placement.
    pub(crate) told: Told<PlacementEvent>,
    /// What became of each placement's selectors, for the roll-up. Empty after a restart: nothing is judged before.
    pub(crate) selections: Mutex<HashMap<Key, Judged>>,
    /// The generation of each binding for which the rollout was started by this process.
    pub(crate) started: Mutex<HashMap<Key, i64>>,
    pub(crate) scheduler: crate::scheduler::Memory,
    pub(crate) rollout: crate::rollout::Memory,
    pub(crate) work: crate::work::Memory,
    pub(crate) rollup: super::rollup::Memory,
    pub(crate) report: super::report_back::Memory,
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
    pub(crate) cycles: crate::scheduler::Measures,
    pub(crate) steps: super::steps::Measures,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
}

/// What the flags say.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) rules: Rules,
    pub(crate) delay: Flags,
    pub(crate) scheduler: fleet_core::scheduler::Settings,
    pub(crate) unhealthy_threshold: SignedDuration,
}

/// One queue per stage; the keys are placements, for Works bindings.
#[derive(Default)]
pub(crate) struct Queues {
    pub(crate) placement: Queue<Key>,
    pub(crate) schedule: Queue<Key>,
    pub(crate) rollout: Queue<Key>,
    pub(crate) work: Queue<Key>,
    pub(crate) rollup: Queue<Key>,
    pub(crate) report: Queue<Key>,
}

/// What became of a placement's selectors, for one generation of it. Nothing is said about a generation before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Judged {
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

/// Why a pass failed. Users see what they must in conditions; the pass is repeated with a growing delay.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("could not read what the placement selects")]
    Read(#[source] kube::Error),
    #[error("could not compare the states of {0}")]
    Compare(String, #[source] serde_json::Error),
    /// What holds a placement back that users can do nothing about in it, and no condition has words for.
    #[error("{0}")]
    Held(String),
    #[error("{0}")]
    NotYet(String),
}

impl Error {
    /// Whether somebody else was faster, so that all there is to do is to decide anew.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict())
    }
}

impl<S: Scope> Context<S> {
    pub(crate) fn new(family: Family<S>, shared: Shared) -> Self {
        Self(Arc::new(Inner {
            family,
            shared,
            queues: Queues::default(),
            interests: Mutex::new(Interests::new(Self::scope())),
            steps: super::steps::Steps::default(),
            told: Told::default(),
            selections: Mutex::default(),
            started: Mutex::default(),
            scheduler: crate::scheduler::Memory::default(),
            rollout: crate::rollout::Memory::default(),
            work: crate::work::Memory::default(),
            rollup: super::rollup::Memory::default(),
            report: super::report_back::Memory::default(),
        }))
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The pass after this one: at `at`, or when something changes.
    pub(crate) fn next(&self, at: Option<Timestamp>) -> Next {
        at.map_or(Next::Wait, |at| {
            let wait = Duration::try_from(at.duration_since(self.now())).unwrap_or_default();
            Next::At(Instant::now() + wait)
        })
    }

    /// The latest snapshot of a placement: the one with the label, of several the one with the highest index.
    pub(crate) fn latest_policy(&self, placement: &Key) -> Option<Arc<S::PolicySnapshot>> {
        latest(&self.family.policies_of, placement, labels::POLICY_INDEX)
    }

    /// The latest master of a placement's resource snapshots.
    pub(crate) fn latest_master(&self, placement: &Key) -> Option<Arc<S::ResourceSnapshot>> {
        latest(&self.family.snapshots_of, placement, labels::RESOURCE_INDEX)
    }

    /// What the group with this index holds, in order.
    pub(crate) fn group_content(&self, placement: &Key, index: &str) -> Vec<ObjectId> {
        let mut group = self.family.snapshots_of.get(placement);
        group.retain(|s| s.labels().get(labels::RESOURCE_INDEX).is_some_and(|own| own == index));
        let position = |s: &Arc<S::ResourceSnapshot>| {
            let text = s.annotations().get(annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT);
            text.and_then(|text| text.parse::<usize>().ok())
        };
        group.sort_by_key(position);
        let resources = group.iter().flat_map(|s| &s.spec().selected_resources);
        resources.filter_map(|text| ObjectId::of(text).ok()).collect()
    }

    /// What is placed now: the content of the newest group, whether or not it is labelled latest at the moment.
    pub(crate) fn placed(&self, placement: &Key) -> Vec<ObjectId> {
        let all = self.family.snapshots_of.get(placement);
        let index = |s: &Arc<S::ResourceSnapshot>| s.labels().get(labels::RESOURCE_INDEX)?.parse::<u64>().ok();
        all.iter()
            .filter_map(index)
            .max()
            .map(|index| self.group_content(placement, &index.to_string()))
            .unwrap_or_default()
    }

    /// Whether there is such a cluster, even one whose object cannot be read: what is placed on it must stay.
    pub(crate) fn knows_cluster(&self, name: &str) -> bool {
        let (key, members) = (Key::cluster(name), &self.shared.members);
        members.get(&key).is_some() || members.is_odd(&key)
    }

    /// The status that a binding is about to get, if that is not stored yet.
    pub(crate) fn ahead(&self, binding: &S::Binding) -> Option<Arc<BindingStatus>> {
        let generation = binding.meta().generation.unwrap_or_default();
        self.work.ahead.get(&Key::of(binding), generation)
    }

    /// Records a warning about a placement, once; none takes the last one back.
    pub(crate) fn complain(&self, placement: &S::Placement, event: Option<PlacementEvent>) {
        self.tell_once(&self.told, placement, event);
    }

    /// Records what is news among complaints of one sort; none takes the last one back.
    pub(crate) fn tell_once(
        &self,
        told: &Told<PlacementEvent>,
        placement: &S::Placement,
        event: Option<PlacementEvent>,
    ) {
        let key = Key::of(placement);
        match event {
            None => told.forget(&key),
            Some(event) if told.is_news(&key, event.clone()) => self.tell(placement, &event),
            Some(_) => {}
        }
    }

    /// Whether a placement, or a binding, of this name is of this scope.
    pub(crate) fn is_ours(key: &Key) -> bool {
        key.namespace().is_some() == (Self::scope() == ScopeName::Namespaced)
    }

    /// Which of the two scopes this is, as names and conditions have it.
    pub(crate) fn scope() -> ScopeName {
        match S::SCOPE {
            PlacementScope::Cluster => ScopeName::Cluster,
            PlacementScope::Namespaced => ScopeName::Namespaced,
        }
    }

    /// Records an Event about a placement.
    pub(crate) fn tell(&self, placement: &S::Placement, event: &PlacementEvent) {
        tell(&self.shared.events, Self::scope(), placement, event);
    }
}

fn latest<K: Resource>(index: &Index<K, Key>, placement: &Key, index_label: &str) -> Option<Arc<K>> {
    let is_latest = |object: &Arc<K>| {
        let value = object.labels().get(labels::IS_LATEST_SNAPSHOT);
        object.meta().deletion_timestamp.is_none() && value.and_then(|v| labels::parse_bool(v)) == Some(true)
    };
    let number = |object: &Arc<K>| object.labels().get(index_label).and_then(|v| v.parse::<u64>().ok());
    let found = index.get(placement).into_iter().filter(is_latest);
    found
        .filter_map(|o| Some((number(&o)?, o)))
        .max_by_key(|(n, _)| *n)
        .map(|(_, object)| object)
}

/// Records an Event.
pub(crate) fn tell<K: Resource<DynamicType = ()>, E: Event>(
    events: &Recorder,
    scope: ScopeName,
    object: &K,
    event: &E,
) {
    let severity = match event.event_type() {
        EventType::Normal => Severity::Normal,
        EventType::Warning => Severity::Warning,
    };
    events.record(E::component(scope), object, severity, event.reason(), event.message());
}

/// The key as decisions take it. A name that is too long for a label never gets this far: admission refuses it, and
/// without admission nothing is done with it.
pub(crate) fn key_of(key: &Key) -> Result<PlacementKey, Error> {
    PlacementKey::new(key.namespace(), key.name()).map_err(|error| Error::NotYet(error.to_string()))
}

impl<S: Scope> Clone for Context<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S: Scope> Deref for Context<S> {
    type Target = Inner<S>;

    fn deref(&self) -> &Inner<S> {
        &self.0
    }
}
