//! Many plans in a row: whatever happens in whatever order, the budget holds, and in the end everything has settled.
//!
//! The toy fleet knows which clusters work, as last reported, and whether the hub's word on them is fresh. On some
//! clusters nobody can tell whether the resources work until time has passed; they work all the same. Reports, writes,
//! crashes, time and the scheduler come in any order. The law is checked on what works.

use proptest::prelude::*;

use super::*;

const CLUSTERS: usize = 7;
const WANTED_MAX: u32 = 6;

#[derive(Debug, Clone)]
enum Event {
    /// The hub plans and carries out the first so many steps, then crashes.
    Roll(usize),
    /// One cluster is reported to work, or not to.
    Report(usize, bool),
    /// A new snapshot.
    Release,
    /// The scheduler swaps one cluster for another.
    Swap(usize, usize),
    /// The scheduler, or a new apply strategy, writes to every binding: all conditions go stale.
    Touch,
    /// A deleting binding is gone.
    Gone(usize),
    /// `unavailablePeriodSeconds` is over for whoever waits for it.
    Time,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (0..CLUSTERS + 1).prop_map(Event::Roll),
        6 => (0..CLUSTERS, prop::bool::weighted(0.8)).prop_map(|(i, works)| Event::Report(i, works)),
        1 => Just(Event::Release),
        1 => (0..CLUSTERS, 0..CLUSTERS).prop_map(|(a, b)| Event::Swap(a, b)),
        1 => Just(Event::Touch),
        2 => (0..CLUSTERS).prop_map(Event::Gone),
        2 => Just(Event::Time),
    ]
}

#[derive(Debug, Clone)]
struct Toy {
    member: Member,
    version: u32,
    /// Whether what is on the cluster works.
    works: bool,
    /// Whether nobody can tell that but by waiting.
    untrackable: bool,
    /// Whether the rollout has said of the binding as it is that it has started, or waits. Nobody tells of one before.
    spoken: bool,
}

struct Fleet {
    toys: Vec<Toy>,
    version: u32,
    wanted: u32,
    budget: Budget,
    serial: u32,
}

impl Fleet {
    fn new(wanted: u32, budget: Budget) -> Self {
        let mut fleet = Self {
            toys: Vec::new(),
            version: 1,
            wanted,
            budget,
            serial: 0,
        };
        for cluster in 0..wanted {
            fleet.pick(cluster as usize);
        }
        fleet
    }

    fn pick(&mut self, cluster: usize) {
        self.serial += 1;
        let mut member = Member::new(&format!("c{cluster}"), State::Scheduled);
        member.binding = format!("b{cluster}-{:03}", self.serial);
        self.toys.push(Toy {
            member,
            version: 0,
            works: false,
            untrackable: cluster.is_multiple_of(2),
            spoken: false,
        });
    }

    fn plan(&mut self) -> Plan {
        let version = self.version;
        for toy in &mut self.toys {
            toy.member.content = if toy.version == version {
                Content::Current
            } else {
                Content::Outdated
            };
        }
        let members: Vec<_> = self.toys.iter().map(|t| t.member.clone()).collect();
        let target = Target::Clusters {
            wanted: self.wanted,
            found: None,
        };
        plan(&World {
            target,
            budget: &self.budget,
            has_snapshot: true,
            members: &members,
        })
    }

    fn roll(&mut self, steps_max: usize) -> usize {
        let plan = self.plan();
        let mut done = 0;
        for (binding, step) in plan.steps.iter().take(steps_max) {
            let version = self.version;
            let toy = self
                .toys
                .iter_mut()
                .find(|t| t.member.binding == *binding)
                .expect("a planned binding exists");
            match &step.action {
                Action::Bind | Action::Update(_) => {
                    toy.version = version;
                    toy.works = false;
                    toy.member.state = State::Bound;
                    toy.member.holds_content = true;
                    toy.member.started = Some(true);
                    toy.stale();
                    toy.spoken = true;
                    done += 1;
                }
                Action::Remove(_) => {
                    toy.member.deleting = true;
                    done += 1;
                }
                Action::Restamp => {
                    toy.member.started = Some(true);
                    toy.spoken = true;
                }
                Action::Hold(_) => toy.spoken = true,
                Action::Keep(_) | Action::PushStrategy => {}
            }
        }
        done
    }

    fn happen(&mut self, event: &Event) {
        match *event {
            Event::Roll(steps_max) => _ = self.roll(steps_max),
            Event::Report(i, works) => self.on(i, |toy| toy.report(works)),
            Event::Release => self.version += 1,
            Event::Touch => self.toys.iter_mut().for_each(Toy::touch),
            Event::Gone(i) => {
                let gone = self
                    .toys
                    .iter()
                    .filter(|t| t.member.deleting)
                    .nth(i)
                    .map(|t| t.member.binding.clone());
                self.toys.retain(|t| Some(&t.member.binding) != gone.as_ref());
            }
            Event::Swap(from, to) => self.swap(from, to),
            Event::Time => self.toys.iter_mut().for_each(Toy::settle),
        }
    }

    fn swap(&mut self, from: usize, to: usize) {
        let live = |t: &Toy, i: usize| t.member.cluster == format!("c{i}") && !t.member.deleting;
        if self.toys.iter().any(|t| live(t, to)) {
            return;
        }
        let picked = |t: &&mut Toy| live(t, from) && t.member.state != State::Unscheduled;
        if let Some(toy) = self.toys.iter_mut().find(picked) {
            toy.member.state = State::Unscheduled;
            toy.touch();
            self.pick(to);
        }
    }

    fn on(&mut self, i: usize, f: impl FnOnce(&mut Toy)) {
        if let Some(toy) = self
            .toys
            .iter_mut()
            .filter(|t| t.member.holds_content && !t.member.deleting)
            .nth(i)
        {
            f(toy);
        }
    }

    fn working(&self) -> u32 {
        let working = self.toys.iter().filter(|t| t.works && !t.member.deleting).count();
        u32::try_from(working).expect("few")
    }

    /// What the rollout has to leave alone: everything that worked before it acted, down to the floor.
    fn floor(&self) -> u32 {
        self.wanted - self.budget.max_unavailable.of(self.wanted).min(self.wanted)
    }
}

impl Toy {
    fn report(&mut self, works: bool) {
        if !self.spoken && self.member.state != State::Unscheduled {
            return;
        }
        self.works = works;
        self.member.readiness = match (works, self.untrackable) {
            (true, false) => Readiness::Ready,
            // Saying it again starts no new period.
            (true, true) if self.member.readiness.is_ready() => Readiness::Ready,
            (true, true) => Readiness::Settling { until: Timestamp::MAX },
            (false, _) => Readiness::InProgress {
                reason: "NotAllWorkAreAvailable".into(),
            },
        };
    }

    fn settle(&mut self) {
        if matches!(self.member.readiness, Readiness::Settling { .. }) {
            self.member.readiness = Readiness::Ready;
        }
    }

    fn touch(&mut self) {
        self.stale();
        self.member.started = None;
        self.spoken = false;
    }

    fn stale(&mut self) {
        if matches!(self.member.readiness, Readiness::Ready | Readiness::Settling { .. }) {
            self.member.readiness = Readiness::Unsure;
        } else if self.member.readiness != Readiness::Unsure {
            self.member.readiness = Readiness::Unheard;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn the_budget_holds_in_any_order_of_events(
        wanted in 1..=WANTED_MAX,
        max_unavailable in 0..4_u32,
        max_surge in 0..3_u32,
        events in prop::collection::vec(event(), 0..120),
    ) {
        let budget = Budget {
            max_unavailable: Amount::Clusters(max_unavailable),
            max_surge: Amount::Clusters(max_surge),
            ..Budget::default()
        };
        let mut fleet = Fleet::new(wanted, budget);
        for event in &events {
            let (before, floor) = (fleet.working(), fleet.floor());
            fleet.happen(event);
            if let Event::Roll(_) = event {
                let after = fleet.working();
                // The rollout may take working clusters down to the floor and never one more.
                prop_assert!(after >= floor.min(before), "{event:?}: {before} → {after}, floor {floor}");
                let holding = fleet.toys.iter().filter(|t| t.member.holds_content && !t.member.reports_diff).count();
                prop_assert!(holding <= (wanted + max_surge) as usize, "{holding} clusters hold the resources");
            }
        }
    }

    #[test]
    fn it_settles_whatever_happened_before(
        wanted in 1..=WANTED_MAX,
        max_unavailable in 1..4_u32,
        max_surge in 0..3_u32,
        events in prop::collection::vec(event(), 0..60),
    ) {
        let budget = Budget {
            max_unavailable: Amount::Clusters(max_unavailable),
            max_surge: Amount::Clusters(max_surge),
            ..Budget::default()
        };
        let mut fleet = Fleet::new(wanted, budget);
        for event in &events {
            fleet.happen(event);
        }
        for _ in 0..60 {
            fleet.roll(usize::MAX);
            (0..CLUSTERS * 2).for_each(|i| fleet.on(i, |toy| toy.report(true)));
            fleet.toys.retain(|t| !t.member.deleting);
            // Nobody looks at the clock unless the plan asked for it.
            if fleet.plan().look_again.is_some() {
                fleet.happen(&Event::Time);
            }
        }
        prop_assert_eq!(fleet.plan().steps, BTreeMap::new());
        prop_assert_eq!(fleet.toys.len(), wanted as usize);
        prop_assert!(fleet.toys.iter().all(|t| t.version == fleet.version && t.works));
    }
}
