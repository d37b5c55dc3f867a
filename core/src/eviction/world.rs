//! What an eviction is decided from: plain views of API objects.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use fleet_api::annotations::{EVICTION_TTL, EVICTION_WAIT, PREVIOUS_BINDING_STATE};
use fleet_api::conditions::{self, Status, eviction::Executed};
use fleet_api::placement::{
    BindingSpec, BindingState, BindingStatus, DisruptionBudgetSpec, EvictionSpec, EvictionStatus, PlacementSpec,
    PlacementType,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};

use crate::rollout;
use crate::updaterun::duration;

static NO_STATUS: LazyLock<EvictionStatus> = LazyLock::new(EvictionStatus::default);

/// An eviction.
#[derive(Debug, Clone)]
pub struct Eviction<'a> {
    /// The placement to remove.
    pub placement: &'a str,
    /// The cluster to remove it from.
    pub cluster: &'a str,
    /// Its generation.
    pub generation: i64,
    /// When it was made.
    pub created: Timestamp,
    /// How far it has come.
    pub status: &'a EvictionStatus,
    /// How long it waits for the budget, if its user chose to.
    pub wait: Option<SignedDuration>,
    /// How long it stays after its end, if its user chose.
    pub ttl: Option<SignedDuration>,
    /// Annotations that say nothing usable, with their values.
    pub ignored: Vec<(&'static str, &'a str)>,
}

impl<'a> Eviction<'a> {
    /// A stored one.
    pub fn of(metadata: &'a ObjectMeta, spec: &'a EvictionSpec, status: Option<&'a EvictionStatus>) -> Self {
        let mut new = Self::asking(&spec.placement_name, &spec.cluster_name);
        new.generation = metadata.generation.unwrap_or_default();
        if let Some(created) = &metadata.creation_timestamp {
            new.created = created.0;
        }
        new.status = status.unwrap_or(&NO_STATUS);
        if let Some(annotations) = &metadata.annotations {
            new.wait = new.choice(annotations, EVICTION_WAIT);
            new.ttl = new.choice(annotations, EVICTION_TTL);
        }
        new
    }

    /// One that nobody has made yet, to see what would become of it.
    pub fn asking(placement: &'a str, cluster: &'a str) -> Self {
        Self {
            placement,
            cluster,
            generation: 0,
            created: Timestamp::UNIX_EPOCH,
            status: &NO_STATUS,
            wait: None,
            ttl: None,
            ignored: Vec::new(),
        }
    }

    fn choice(&mut self, annotations: &'a BTreeMap<String, String>, key: &'static str) -> Option<SignedDuration> {
        let text = annotations.get(key)?;
        let chosen = duration(text);
        if chosen.is_none() {
            self.ignored.push((key, text));
        }
        chosen
    }
}

/// What an eviction is decided from.
#[derive(Debug, Clone, Copy)]
pub struct World<'a> {
    /// The placement; none if there is none of this name.
    pub placement: Option<Placement<'a>>,
    /// All of its bindings, those that are going too.
    pub bindings: &'a [Binding<'a>],
    /// The budget of the same name as the placement.
    pub budget: Budget<'a>,
}

/// The budget of a placement.
#[derive(Debug, Clone, Copy)]
pub enum Budget<'a> {
    /// Nobody has looked yet; [`decide`](super::decide) says if it matters.
    Unread,
    /// There is none.
    None,
    /// What it says.
    Limit(&'a DisruptionBudgetSpec),
}

/// The placement that is to be evicted.
#[derive(Debug, Clone, Copy)]
pub struct Placement<'a> {
    /// Whether it is being deleted.
    pub deleting: bool,
    /// What its user wants.
    pub spec: &'a PlacementSpec,
}

impl<'a> Placement<'a> {
    /// A stored one.
    pub fn of(metadata: &ObjectMeta, spec: &'a PlacementSpec) -> Self {
        Self {
            deleting: metadata.deletion_timestamp.is_some(),
            spec,
        }
    }

    /// How many clusters PickN wants; none for PickAll.
    pub(super) fn desired(self) -> Option<u32> {
        let policy = self.spec.policy.as_ref();
        let policy = policy.filter(|policy| policy.placement_type == PlacementType::PickN)?;
        Some(u32::try_from(policy.number_of_clusters.unwrap_or_default()).unwrap_or_default())
    }

    /// How long a cluster may be unavailable before that counts as failed.
    pub(super) fn unavailable_period(self) -> SignedDuration {
        let strategy = self.spec.strategy.as_ref();
        rollout::Budget::of(strategy.and_then(|strategy| strategy.rolling_update.as_ref())).unavailable_period
    }
}

/// A binding of the placement.
#[derive(Debug, Clone, Copy)]
pub struct Binding<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// Its cluster.
    pub cluster: &'a str,
    /// Its generation.
    pub generation: i64,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether another eviction, which has not ended, has recorded it as its target: it may be deleted at any moment.
    pub taken: bool,
    /// How far it has come.
    pub state: &'a BindingState,
    /// Whether resources have been placed through it: it is Bound, or was before it was unscheduled.
    pub placed: bool,
    /// What is said of it.
    pub conditions: &'a [Condition],
}

impl<'a> Binding<'a> {
    /// A stored one, as evictions have left it.
    pub fn of(
        metadata: &'a ObjectMeta,
        spec: &'a BindingSpec,
        status: Option<&'a BindingStatus>,
        taken: &Taken,
    ) -> Self {
        let uid = metadata.uid.as_deref().unwrap_or_default();
        let before = metadata
            .annotations
            .as_ref()
            .and_then(|a| a.get(PREVIOUS_BINDING_STATE));
        let was_bound = before.is_some_and(|before| before == BindingState::Bound.as_str());
        Self {
            name: metadata.name.as_deref().unwrap_or_default(),
            uid,
            cluster: &spec.target_cluster,
            generation: metadata.generation.unwrap_or_default(),
            deleting: metadata.deletion_timestamp.is_some() || taken.deleted.contains(uid),
            taken: taken.recorded.contains(uid),
            state: &spec.state,
            placed: spec.state == BindingState::Bound || (spec.state == BindingState::Unscheduled && was_bound),
            conditions: status.map(|status| status.conditions.as_slice()).unwrap_or_default(),
        }
    }
}

/// The bindings that other evictions have deleted or are about to delete, whatever watches have shown of that so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Taken {
    deleted: BTreeSet<String>,
    recorded: BTreeSet<String>,
}

impl Taken {
    /// What the statuses of all other evictions of the placement say.
    pub fn by<'a>(others: impl IntoIterator<Item = &'a EvictionStatus>) -> Self {
        let mut new = Self::default();
        for status in others {
            let Some(target) = &status.target else { continue };
            match conditions::find(&status.conditions, Executed::TYPE).map(Status::of) {
                None => _ = new.recorded.insert(target.uid.clone()),
                Some(Status::True) => _ = new.deleted.insert(target.uid.clone()),
                Some(_) => {}
            }
        }
        new
    }
}
