//! Whatever happens in whatever order: no budget is broken, no eviction deletes two bindings, each ends in one state.
//!
//! A toy hub with what is stored, and what the leader's caches show of it. Writes are refused when they are based on
//! something old, as the API server does. Any write may be the last before a crash, and any answer may be lost: then the
//! write has happened and the caches do not know. A new leader starts with caches as old as the last checkpoint. Anything
//! may come between a record and its deletion, and between that and the outcome.

use fleet_api::conditions::{self, Status};
use fleet_api::placement::{DisruptionBudgetSpec, EvictionStatus, PlacementSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use proptest::prelude::*;
use serde_json::json;

use super::tests::{Stored, at, stored};
use super::*;

const CLUSTERS: [&str; 5] = ["a", "b", "c", "d", "e"];

#[derive(Debug, Clone, Copy)]
enum Event {
    Create(usize),
    /// The leader looks at an eviction, if it has nothing else to do, and writes what comes first. That may go wrong.
    Pass(usize, Option<Fault>),
    /// It writes what comes next.
    Step(Option<Fault>),
    Report(usize, Said),
    /// The binding gets other content: what was said of it says nothing any more.
    Rollout(usize),
    /// The scheduler takes a cluster away.
    Unschedule(usize),
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

/// What a member says of a binding.
#[derive(Debug, Clone, Copy)]
enum Said {
    Ready,
    Late,
    Failed,
}

impl Said {
    /// A binding of which this is said, at this generation.
    fn of(self, cluster: &str, generation: i64) -> Stored {
        let line = match self {
            Self::Ready => format!("Available True@{generation} AllWorkAreAvailable"),
            Self::Late => format!("Applied False@{generation} ApplyInProgress"),
            Self::Failed => format!("Overridden False@{generation} OverriddenFailed"),
        };
        stored(cluster, "Bound", &[&line])
    }
}

fn event() -> impl Strategy<Value = Event> {
    let fault = prop::option::weighted(0.2, prop_oneof![Just(Fault::Crash), Just(Fault::LostAnswer)]);
    let said = prop_oneof![6 => Just(Said::Ready), 2 => Just(Said::Late), 1 => Just(Said::Failed)];
    let cluster = 0..CLUSTERS.len();
    prop_oneof![
        3 => cluster.clone().prop_map(Event::Create),
        6 => (0..8_usize, fault.clone()).prop_map(|(e, fault)| Event::Pass(e, fault)),
        8 => fault.prop_map(Event::Step),
        3 => (cluster.clone(), said).prop_map(|(c, said)| Event::Report(c, said)),
        1 => cluster.clone().prop_map(Event::Rollout),
        1 => cluster.clone().prop_map(Event::Unschedule),
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

/// What a pass has still to do.
enum Next {
    /// Delete what it has recorded, if that is still right by the budget that it has read.
    Delete { read: bool },
    /// Say that it is done.
    Conclude,
}

struct Toy {
    truth: State,
    cache: State,
    checkpoint: State,
    /// Where each eviction aims.
    aims: Vec<&'static str>,
    /// The eviction that the leader looks at.
    pass: Option<(usize, Next)>,
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
        let bindings: Vec<_> = CLUSTERS.iter().map(|cluster| Said::Ready.of(cluster, 1)).collect();
        let state = State {
            bindings,
            evictions: Vec::new(),
        };
        Self {
            cache: state.clone(),
            checkpoint: state.clone(),
            truth: state,
            aims: Vec::new(),
            pass: None,
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
            Event::Pass(eviction, fault) if eviction < self.aims.len() && self.pass.is_none() => {
                self.pass = self.begin(eviction, fault).unwrap_or_default();
            }
            Event::Create(_) | Event::Pass(..) => {}
            Event::Step(fault) => {
                if let Some((eviction, next)) = self.pass.take() {
                    self.pass = self.go_on(eviction, &next, fault).unwrap_or_default();
                }
            }
            Event::Report(cluster, said) => self.shown_at_once(CLUSTERS[cluster], |live| {
                let generation = live.metadata.generation.unwrap_or_default();
                live.status = said.of("x", generation).status;
            }),
            Event::Rollout(cluster) => self.shown_at_once(CLUSTERS[cluster], |live| {
                live.metadata.generation = live.metadata.generation.map(|generation| generation + 1);
            }),
            Event::Unschedule(cluster) => self.shown_at_once(CLUSTERS[cluster], going),
            Event::Gone(cluster) => {
                let is_gone =
                    |b: &Stored| b.spec.target_cluster == CLUSTERS[cluster] && b.metadata.deletion_timestamp.is_some();
                self.truth.bindings.retain(|b| !is_gone(b));
            }
            Event::Pick(cluster) => {
                let taken = |b: &Stored| b.spec.target_cluster == CLUSTERS[cluster];
                if !self.truth.bindings.iter().any(taken) {
                    self.serial += 1;
                    let mut new = Said::Late.of(CLUSTERS[cluster], 1);
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
                self.pass = None;
            }
        }
    }

    /// What this process writes, and what members say: every cache shows it.
    fn shown_at_once(&mut self, cluster: &str, change: impl Fn(&mut Stored)) {
        let Some(uid) = self.truth.live(cluster).map(|live| live.metadata.uid.clone()) else {
            return;
        };
        for state in [&mut self.truth, &mut self.cache, &mut self.checkpoint] {
            let mut same = state.bindings.iter_mut().filter(|b| b.metadata.uid == uid);
            same.next().into_iter().for_each(&change);
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

    /// What the shell does: up to the first write.
    fn begin(&mut self, i: usize, fault: Option<Fault>) -> Result<Option<(usize, Next)>, Stopped> {
        if self.view(i, &self.cache.evictions[i]).ended().is_some() {
            return Ok(None);
        }
        if self.cache.evictions[i].target.is_some() {
            self.show(self.aims[i]);
        }
        let (mut decision, mut status) = self.decide(i, Budget::Unread);
        let read = decision.outcome == EvictionOutcome::NeedsBudget;
        if read {
            if !self.listed {
                self.cache = self.truth.clone();
                self.listed = true;
            }
            (decision, status) = self.decide(i, Budget::Limit(&self.limit));
        }
        let Some(status) = status else { return Ok(None) };
        let evicts = matches!(decision.outcome, EvictionOutcome::Evict(_));
        if self.cache.evictions[i].target != status.target || !evicts {
            self.write(i, status, fault)?;
        }
        Ok(evicts.then_some((i, Next::Delete { read })))
    }

    /// And one write more.
    fn go_on(&mut self, i: usize, next: &Next, fault: Option<Fault>) -> Result<Option<(usize, Next)>, Stopped> {
        match *next {
            Next::Delete { read } => {
                let target = self.cache.evictions[i].target.clone().ok_or(Stopped)?;
                let same = |b: &Stored| b.metadata.uid.as_ref() == Some(&target.uid);
                let stays = |b: &Stored| same(b) && b.metadata.deletion_timestamp.is_none();
                if self.cache.bindings.iter().any(stays) {
                    let budget = if read {
                        Budget::Limit(&self.limit)
                    } else {
                        Budget::Unread
                    };
                    if self.decide(i, budget).0.outcome != EvictionOutcome::Evict(target.clone()) {
                        return Err(Stopped);
                    }
                    self.delete(i, &target.uid, fault)?;
                }
                Ok(Some((i, Next::Conclude)))
            }
            Next::Conclude => {
                let status = executed(&self.view(i, &self.cache.evictions[i]), at(1000));
                self.write(i, status, fault)?;
                Ok(None)
            }
        }
    }

    /// A look at an eviction, from its first write to its last.
    fn pass_over(&mut self, i: usize) {
        while self.pass.is_some() {
            self.happen(Event::Step(None));
        }
        self.happen(Event::Pass(i, None));
        while self.pass.is_some() {
            self.happen(Event::Step(None));
        }
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

    fn delete(&mut self, i: usize, uid: &str, fault: Option<Fault>) -> Result<(), Stopped> {
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
        let none = Taken::default();
        let view = Binding::of(&found.metadata, &found.spec, Some(&found.status), &none);
        if !failed::is_failed(&view, SignedDuration::MAX, at(1000)) {
            let count = self.truth.count(&self.limit);
            assert!(count.allows(), "the budget is broken: {count:?}");
        }
        self.deletions[i] += 1;
        let found = self
            .truth
            .bindings
            .iter_mut()
            .find(|b| b.metadata.uid.as_deref() == Some(uid));
        going(found.expect("it was there"));
        if fault.is_some() {
            return Err(Stopped);
        }
        self.show(self.aims[i]);
        Ok(())
    }
}

/// Somebody has deleted it.
fn going(binding: &mut Stored) {
    let meta = &mut binding.metadata;
    meta.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    meta.generation = meta.generation.map(|generation| generation + 1);
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
                toy.pass_over(i);
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
