//! The roll-up by difference: what was found out about each cluster is kept between two looks, and only clusters of which
//! something is different are looked at again.

use std::borrow::Cow;

use fleet_api::names::Scope;
use fleet_api::placement::{ClusterDecision, PerClusterPlacementStatus, PlacementStatus};

use super::{Common, Counts, Share, World, begin, entry, finish, previous_entries, unplaced};

/// Where the status that a placement has comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// It is the one of the last look.
    Same,
    /// What the last look gave was written since.
    Ours,
    /// Nobody knows, or somebody else wrote it.
    Other,
}

/// What is kept of one placement. `V` tells one version of a binding from another.
#[derive(Debug, Clone)]
pub struct Rollup<V> {
    basis: Option<Basis>,
    /// By position among the selected decisions.
    clusters: Vec<KeptCluster<V>>,
    counts: Counts,
}

/// What all entries have been made with: they are made anew with another one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Basis {
    scope: Scope,
    generation: i64,
    external: bool,
    reports_diff: bool,
    latest: Option<(String, String)>,
    entry_bytes_max: usize,
}

impl Basis {
    fn is(&self, context: &Common<'_>) -> bool {
        let latest = self
            .latest
            .as_ref()
            .map(|(name, index)| (name.as_str(), index.as_str()));
        (self.scope, self.generation, self.external) == (context.scope, context.generation, context.external)
            && (self.reports_diff, self.entry_bytes_max) == (context.reports_diff, context.entry_bytes_max)
            && latest == context.latest
    }
}

impl From<&Common<'_>> for Basis {
    fn from(context: &Common<'_>) -> Self {
        Self {
            scope: context.scope,
            generation: context.generation,
            external: context.external,
            reports_diff: context.reports_diff,
            latest: context.latest.map(|(name, index)| (name.to_owned(), index.to_owned())),
            entry_bytes_max: context.entry_bytes_max,
        }
    }
}

/// What is kept of one cluster.
#[derive(Debug, Clone)]
struct KeptCluster<V> {
    share: Share,
    reason: String,
    version: Option<V>,
    /// What is to be shown of it; none while the placement shows just that.
    status: Option<PerClusterPlacementStatus>,
    /// The second in which it was made: what has just come about says since when.
    made: i64,
}

/// A placement's status as it should be, without the copies that only a write needs.
#[derive(Debug)]
pub struct Rolled<'a> {
    /// Everything but the clusters' parts.
    pub head: PlacementStatus,
    /// The clusters' parts.
    pub entries: Vec<Cow<'a, PerClusterPlacementStatus>>,
}

impl<'a> Rolled<'a> {
    /// The clusters' parts of `stored`, under another head.
    pub fn with_entries_of(stored: &'a PlacementStatus, head: PlacementStatus) -> Self {
        Self {
            head,
            entries: stored.placement_statuses.iter().map(Cow::Borrowed).collect(),
        }
    }

    /// Whether the placement shows it already.
    pub fn is(&self, stored: &PlacementStatus) -> bool {
        let PlacementStatus {
            selected_resources,
            observed_resource_index,
            placement_statuses,
            conditions,
            other,
        } = stored;
        self.head.conditions == *conditions
            && self.head.observed_resource_index == *observed_resource_index
            && self.entries.len() == placement_statuses.len()
            && self.head.selected_resources == *selected_resources
            && self.head.other == *other
            && self.entries.iter().map(|entry| &**entry).eq(placement_statuses)
    }

    /// All of it.
    pub fn into_status(self) -> PlacementStatus {
        PlacementStatus {
            placement_statuses: self.entries.into_iter().map(Cow::into_owned).collect(),
            ..self.head
        }
    }
}

impl<V> Default for Rollup<V> {
    fn default() -> Self {
        Self {
            basis: None,
            clusters: Vec::new(),
            counts: Counts::default(),
        }
    }
}

impl<V: PartialEq> Rollup<V> {
    /// The status that the placement should have. `version` names the version of the binding that `world` has for a cluster:
    /// two with the same are the same, in everything that a binding's view shows.
    pub fn look<'a>(
        &'a mut self,
        world: &World<'a>,
        stored: Origin,
        version: impl Fn(&str) -> Option<V>,
    ) -> Rolled<'a> {
        let context = &world.context;
        let (mut head, policy) = begin(world);
        let Some(policy) = policy else {
            // What is kept cannot be compared with a status that comes between.
            self.forget();
            return Rolled {
                head,
                entries: Vec::new(),
            };
        };
        if !self.basis.as_ref().is_some_and(|basis| basis.is(context)) {
            self.forget();
            self.basis = Some(Basis::from(context));
        }
        let previous = previous_entries(world.previous);
        let selected: Vec<_> = policy.decisions().iter().filter(|decision| decision.selected).collect();
        for (position, decision) in selected.iter().enumerate() {
            let name = decision.cluster_name.as_str();
            let (shown, version) = (previous.get(name).copied(), version(name));
            let made = context.now.as_second();
            if let Some(kept) = self.clusters.get_mut(position)
                && kept.holds(decision, version.as_ref(), shown, stored, made)
            {
                continue;
            }
            let entry = entry(context, decision, world.bindings.get(name), shown);
            let share = Share::of(&entry);
            let is_shown = shown == Some(&entry.status);
            let kept = KeptCluster {
                share,
                reason: decision.reason.clone(),
                version,
                status: (!is_shown).then_some(entry.status),
                made,
            };
            self.put(position, kept);
        }
        while self.clusters.len() > selected.len() {
            if let Some(gone) = self.clusters.pop() {
                self.counts.remove_share(self.clusters.len(), &gone.share);
            }
        }
        finish(context, &self.counts, world, &mut head);
        let kept = self.clusters.iter().filter_map(|kept| match &kept.status {
            Some(status) => Some(Cow::Borrowed(status)),
            None => previous.get(kept.share.cluster.as_str()).copied().map(Cow::Borrowed),
        });
        let missing = policy.decisions().iter().filter(|decision| !decision.selected);
        let missing = unplaced(
            context,
            missing.take(policy.missing()),
            &world.previous.placement_statuses,
        );
        let entries = kept.chain(missing.into_iter().map(Cow::Owned)).collect();
        Rolled { head, entries }
    }

    fn put(&mut self, position: usize, kept: KeptCluster<V>) {
        // First the old: both may be the same to the sum.
        if let Some(old) = self.clusters.get(position) {
            self.counts.remove_share(position, &old.share);
        }
        self.counts.add_share(position, &kept.share);
        match self.clusters.get_mut(position) {
            Some(slot) => *slot = kept,
            None => self.clusters.push(kept),
        }
    }

    fn forget(&mut self) {
        *self = Self::default();
    }
}

impl<V: PartialEq> KeptCluster<V> {
    /// Whether a new look at the cluster would find the same.
    fn holds(
        &mut self,
        decision: &ClusterDecision,
        version: Option<&V>,
        shown: Option<&PerClusterPlacementStatus>,
        stored: Origin,
        now: i64,
    ) -> bool {
        let same = self.share.cluster == decision.cluster_name
            && self.reason == decision.reason
            && self.version.as_ref() == version;
        if !same {
            return false;
        }
        let Some(status) = &self.status else {
            return stored != Origin::Other;
        };
        if shown == Some(status) {
            self.status = None;
            return true;
        }
        stored == Origin::Same && self.made == now
    }
}
