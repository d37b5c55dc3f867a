//! Whatever happens in whatever order: no budget is broken, no eviction deletes two bindings, each ends in one state.
//!
//! A toy hub with what is stored, and what the leader's caches show of it. Writes are refused when they are based on
//! something old, as the API server does. Any write may be the last before a crash, and any answer may be lost: then the
//! write has happened and the caches do not know. A new leader starts with caches as old as the last checkpoint.

use fleet_api::conditions::{self, Status};
use fleet_api::placement::{DisruptionBudgetSpec, EvictionStatus, PlacementSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::json;

use super::tests::{Stored, at, stored};
use super::*;

const CLUSTERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const READY: &str = "Available True@1 AllWorkAreAvailable";
const LATE: &str = "Applied False@1 ApplyInProgress";

#[derive(Debug, Clone, Copy)]
enum Event {
    Create(usize),
    /// The leader looks at an eviction. Something goes wrong at this write, if it gets that far.
    Pass(usize, Option<(usize, Fault)>),
    Report(usize, bool),
    /// A deleted binding is gone.
    Gone(usize),
    /// The scheduler picks a cluster again.
    Pick(usize),
    /// The watch shows one binding, and one eviction.
    Show(usize, usize),
    Checkpoint,
    NewLeader,
}

#[derive(Debug, Clone, Copy)]
enum Fault {
    Crash,
    LostAnswer,
}

fn event() -> impl Strategy<Value = Event> {
    let fault = prop_oneof![Just(Fault::Crash), Just(Fault::LostAnswer)];
    let cluster = 0..CLUSTERS.len();
    prop_oneof![
        3 => cluster.clone().prop_map(Event::Create),
        8 => (0..8_usize, prop::option::of((0..3_usize, fault))).prop_map(|(e, fault)| Event::Pass(e, fault)),
        3 => (cluster.clone(), prop::bool::weighted(0.7)).prop_map(|(c, ready)| Event::Report(c, ready)),
        2 => cluster.clone().prop_map(Event::Gone),
        2 => cluster.clone().prop_map(Event::Pick),
        2 => (cluster, 0..8_usize).prop_map(|(b, e)| Event::Show(b, e)),
        1 => Just(Event::Checkpoint),
        2 => Just(Event::NewLeader),
    ]
}

fn limit() -> impl Strategy<Value = DisruptionBudgetSpec> {
    (any::<bool>(), 0..5_i32).prop_map(|(max, number)| {
        let number = Some(IntOrString::Int(number));
        let (max_unavailable, min_available) = if max { (number, None) } else { (None, number) };
        DisruptionBudgetSpec {
            max_unavailable,
            min_available,
        }
    })
}

#[derive(Clone, Default)]
struct State {
    bindings: Vec<Stored>,
    evictions: Vec<EvictionStatus>,
}

struct Toy {
    truth: State,
    cache: State,
    checkpoint: State,
    /// Where each eviction aims.
    aims: Vec<&'static str>,
    /// How many bindings were deleted for each.
    deletions: Vec<usize>,
    /// Whether the leader has listed what it decides from.
    listed: bool,
    limit: DisruptionBudgetSpec,
    placement: PlacementSpec,
    serial: u32,
}

/// The pass ends here.
struct Stopped;

impl Toy {
    fn new(limit: DisruptionBudgetSpec) -> Self {
        let policy = json!({ "resourceSelectors": [],
                             "policy": { "placementType": "PickN", "numberOfClusters": CLUSTERS.len() } });
        let bindings: Vec<_> = CLUSTERS
            .iter()
            .map(|cluster| stored(cluster, "Bound", &[READY]))
            .collect();
        let state = State {
            bindings,
            evictions: Vec::new(),
        };
        Self {
            cache: state.clone(),
            checkpoint: state.clone(),
            truth: state,
            aims: Vec::new(),
            deletions: Vec::new(),
            listed: false,
            limit,
            placement: serde_json::from_value(policy).unwrap(),
            serial: 0,
        }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Create(cluster) if self.aims.len() < 8 => {
                self.aims.push(CLUSTERS[cluster]);
                self.deletions.push(0);
                for state in [&mut self.truth, &mut self.cache, &mut self.checkpoint] {
                    state.evictions.push(EvictionStatus::default());
                }
            }
            Event::Pass(eviction, fault) if eviction < self.aims.len() => _ = self.pass(eviction, fault),
            Event::Create(_) | Event::Pass(..) => {}
            Event::Report(cluster, ready) => {
                let uid = self.truth.live(CLUSTERS[cluster]).and_then(|b| b.metadata.uid.clone());
                let said = stored("x", "Bound", &[if ready { READY } else { LATE }]).status;
                for state in [&mut self.truth, &mut self.cache, &mut self.checkpoint] {
                    let live = state.bindings.iter_mut().find(|b| b.metadata.uid == uid);
                    if let Some(live) = live.filter(|b| b.metadata.deletion_timestamp.is_none()) {
                        live.status = said.clone();
                    }
                }
            }
            Event::Gone(cluster) => {
                let is_gone =
                    |b: &Stored| b.spec.target_cluster == CLUSTERS[cluster] && b.metadata.deletion_timestamp.is_some();
                self.truth.bindings.retain(|b| !is_gone(b));
            }
            Event::Pick(cluster) => {
                let taken = |b: &Stored| b.spec.target_cluster == CLUSTERS[cluster];
                if !self.truth.bindings.iter().any(taken) {
                    self.serial += 1;
                    let mut new = stored(CLUSTERS[cluster], "Bound", &[LATE]);
                    new.metadata.uid = Some(format!("new-{}", self.serial));
                    self.truth.bindings.push(new.clone());
                    self.cache.bindings.retain(|b| !taken(b));
                    self.cache.bindings.push(new);
                }
            }
            Event::Show(cluster, eviction) => {
                self.show(CLUSTERS[cluster]);
                if let Some(stored) = self.truth.evictions.get(eviction) {
                    self.cache.evictions[eviction] = stored.clone();
                }
            }
            Event::Checkpoint => self.checkpoint = self.truth.clone(),
            Event::NewLeader => {
                self.cache = self.checkpoint.clone();
                self.listed = false;
            }
        }
    }

    fn show(&mut self, cluster: &str) {
        self.cache.bindings.retain(|b| b.spec.target_cluster != cluster);
        let shown = self.truth.bindings.iter().filter(|b| b.spec.target_cluster == cluster);
        self.cache.bindings.extend(shown.cloned());
    }

    fn view<'a>(&self, i: usize, status: &'a EvictionStatus) -> Eviction<'a> {
        Eviction {
            generation: 1,
            status,
            ..Eviction::asking("crp", self.aims[i])
        }
    }

    fn decide(&self, i: usize, budget: Budget<'_>) -> (Decision, Option<EvictionStatus>) {
        let others = self.cache.evictions.iter().enumerate().filter(|(j, _)| *j != i);
        let taken = Taken::by(others.map(|(_, status)| status));
        let bindings = self.cache.bindings.iter();
        let bindings: Vec<_> = bindings
            .map(|b| Binding::of(&b.metadata, &b.spec, Some(&b.status), &taken))
            .collect();
        let world = World {
            placement: Some(Placement {
                deleting: false,
                spec: &self.placement,
            }),
            bindings: &bindings,
            budget,
        };
        let view = self.view(i, &self.cache.evictions[i]);
        let decision = decide(&view, &world, at(1000));
        let status = decision.status(&view, at(1000));
        (decision, status)
    }

    /// What the shell does.
    fn pass(&mut self, i: usize, fault: Option<(usize, Fault)>) -> Result<(), Stopped> {
        let mut writes = 0..;
        let mut fault_now = || {
            fault
                .filter(|(at, _)| Some(*at) == writes.next())
                .map(|(_, fault)| fault)
        };
        if self.view(i, &self.cache.evictions[i]).ended().is_some() {
            return Ok(());
        }
        if self.cache.evictions[i].target.is_some() {
            self.show(self.aims[i]);
        }
        let (mut decision, mut status) = self.decide(i, Budget::Unread);
        if decision.outcome == Outcome::NeedsBudget {
            if !self.listed {
                self.cache = self.truth.clone();
                self.listed = true;
            }
            (decision, status) = self.decide(i, Budget::Limit(&self.limit));
        }
        let Some(status) = status else { return Ok(()) };
        if self.cache.evictions[i].target != status.target || !matches!(decision.outcome, Outcome::Evict(_)) {
            self.write(i, status, fault_now())?;
        }
        let Outcome::Evict(target) = &decision.outcome else {
            return Ok(());
        };
        self.delete(i, &target.uid, decision.count.is_some(), fault_now())?;
        let status = executed(&self.view(i, &self.cache.evictions[i]), at(1000));
        self.write(i, status, fault_now())
    }

    fn write(&mut self, i: usize, status: EvictionStatus, fault: Option<Fault>) -> Result<(), Stopped> {
        if self.cache.evictions[i] != self.truth.evictions[i] {
            self.cache.evictions[i] = self.truth.evictions[i].clone();
            return Err(Stopped);
        }
        let before = conditions::find(&self.truth.evictions[i].conditions, "Executed");
        assert!(before.is_none(), "an end is never written over");
        if matches!(fault, Some(Fault::Crash)) {
            return Err(Stopped);
        }
        self.truth.evictions[i] = status.clone();
        if fault.is_some() {
            return Err(Stopped);
        }
        self.cache.evictions[i] = status;
        Ok(())
    }

    fn delete(&mut self, i: usize, uid: &str, by_budget: bool, fault: Option<Fault>) -> Result<(), Stopped> {
        let same = |b: &&Stored| b.metadata.uid.as_deref() == Some(uid);
        let seen = self.cache.bindings.iter().find(same).map(|b| &b.metadata);
        let Some(found) = self.truth.bindings.iter().find(same) else {
            return Ok(());
        };
        if seen != Some(&found.metadata) {
            self.show(self.aims[i]);
            return Err(Stopped);
        }
        if matches!(fault, Some(Fault::Crash)) {
            return Err(Stopped);
        }
        if by_budget {
            let count = self.truth.count(&self.limit);
            assert!(count.allows(), "the budget is broken: {count:?}");
        }
        self.deletions[i] += 1;
        let found = self
            .truth
            .bindings
            .iter_mut()
            .find(|b| b.metadata.uid.as_deref() == Some(uid));
        let found = found.expect("it was there");
        found.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        found.metadata.generation = Some(2);
        if fault.is_some() {
            return Err(Stopped);
        }
        self.show(self.aims[i]);
        Ok(())
    }
}

impl State {
    fn live(&self, cluster: &str) -> Option<&Stored> {
        let live = |b: &&Stored| b.spec.target_cluster == cluster && b.metadata.deletion_timestamp.is_none();
        self.bindings.iter().find(live)
    }

    fn count(&self, limit: &DisruptionBudgetSpec) -> Count {
        let none = Taken::default();
        let views = self
            .bindings
            .iter()
            .map(|b| Binding::of(&b.metadata, &b.spec, Some(&b.status), &none));
        let available = views.filter(failed::is_available).count();
        budget::count(
            limit,
            u32::try_from(CLUSTERS.len()).ok(),
            self.bindings.len(),
            available,
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn budgets_hold_and_every_eviction_ends_once(
        limit in limit(),
        events in prop::collection::vec(event(), 1..60),
    ) {
        let mut toy = Toy::new(limit);
        for event in events {
            toy.happen(event);
        }
        for _ in 0..4 {
            for i in 0..toy.aims.len() {
                toy.happen(Event::Pass(i, None));
            }
        }
        for (i, status) in toy.truth.evictions.iter().enumerate() {
            let ended = toy.view(i, status).ended();
            prop_assert!(ended.is_some(), "{status:?}");
            let said = conditions::find(&status.conditions, "Executed").map(Status::of);
            let deleted = usize::from(said == Some(Status::True) && status.target.is_some());
            // Two evictions of one binding: one of them deletes it.
            prop_assert!(toy.deletions[i] <= deleted, "{status:?} after {} deletions", toy.deletions[i]);
            if let Some(target) = &status.target {
                let left = toy.truth.bindings.iter().find(|b| b.metadata.uid.as_ref() == Some(&target.uid));
                prop_assert!(left.is_none_or(|b| b.metadata.deletion_timestamp.is_some()), "{status:?}");
            }
        }
    }
}
