//! Rolling update: which clusters get the latest resources now, which wait, which are left.
//!
//! [`plan`] takes the bindings of one placement as they are and names a step for each that is not where it should be,
//! with the reason. The shell performs the steps and decides nothing; it plans afresh after every event, so a plan that
//! was carried out only in part does no harm.
//!
//! ```text
//! Scheduled ──Bind (maxSurge)──► Bound ──Update (maxUnavailable; free when not serving)──► Bound
//!                                Unscheduled ──Remove (maxUnavailable; free when not serving)──► deleted
//! ```
//!
//! Edits of the apply strategy reach every binding at once, beside the budget, but wait for a cluster's window; those of
//! `reportBackStrategy` and `deleteStrategy` are not in bindings at all and go straight to Works (`crate::work`).

mod blocked;
mod budget;
mod observe;
mod readiness;
#[cfg(test)]
mod sequences;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

pub use blocked::{Blocked, Waiting, renew_after};
pub use budget::{Amount, Budget, Target};
pub use observe::{Goal, apply_strategy, is_started};
pub use readiness::{Readiness, readiness};

/// Everything that a rolling update is decided from.
#[derive(Debug, Clone)]
pub struct World<'a> {
    /// How many clusters the placement is meant for.
    pub target: Target,
    /// What the strategy allows.
    pub budget: &'a Budget,
    /// Whether there is a snapshot to roll out; without one nothing is bound, updated or removed.
    pub has_snapshot: bool,
    /// The placement's bindings, in any order.
    pub members: &'a [Member],
}

/// A binding's state, as in its spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Picked, and nothing sent yet.
    Scheduled,
    /// Holds the resources.
    Bound,
    /// Holds the resources until it is removed.
    Unscheduled,
}

/// How what a binding names compares with what it should name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Content {
    /// The latest snapshot, and the overrides of today.
    Current,
    /// Another snapshot, or other overrides.
    Outdated,
    /// What it should name cannot be told, for this reason (an invalid rule, say). The other clusters go on.
    Unknown(String),
}

/// One binding, with all that has a part in the decision.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts about one binding, each with its own source"
)]
pub struct Member {
    /// The binding's name; their order is the order of the rollout.
    pub binding: String,
    /// The binding's namespace, empty for cluster-scoped ones.
    pub namespace: String,
    /// Its cluster.
    pub cluster: String,
    /// Its state.
    pub state: State,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has ever named a snapshot, i.e. something may be on the cluster.
    pub holds_content: bool,
    /// What it names.
    pub content: Content,
    /// How its cluster fares.
    pub readiness: Readiness,
    /// Whether it reports differences instead of applying. Such a cluster holds nothing, so it does not use up surge.
    pub reports_diff: bool,
    /// `RolloutStarted` for this generation.
    pub started: Option<bool>,
    /// Whether its apply strategy differs from the placement's.
    pub strategy_differs: bool,
    /// Whether its MemberCluster exists. A cluster that has left keeps no promise and costs none.
    pub cluster_exists: bool,
    /// Why its cluster may not be changed now, if it may not.
    pub closed: Option<Closed>,
}

/// A cluster whose window is not open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closed {
    /// When it opens; none if that cannot be told.
    pub next: Option<Timestamp>,
    /// In words.
    pub why: String,
}

/// What to do with one binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// First resources for this cluster: write state Bound with snapshot and overrides, then `RolloutStarted` True.
    Bind,
    /// Newer resources: write snapshot and overrides, then `RolloutStarted` True.
    Update(Cost),
    /// Delete the binding.
    Remove(Cost),
    /// Not now: write `RolloutStarted` False with the reason. Never for an Unscheduled binding.
    Hold(Blocked),
    /// An Unscheduled binding that stays for now. Nothing is written.
    Keep(Blocked),
    /// It is up to date, only its `RolloutStarted` does not say so for this generation: write it.
    Restamp,
    /// Only the apply strategy is written.
    PushStrategy,
}

/// What a change costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// A cluster that is available or may be: it was taken from the budget.
    Available,
    /// The cluster is not available anyway.
    Nothing,
}

/// A step of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// The cluster, for messages.
    pub cluster: String,
    /// What to do.
    pub action: Action,
    /// Write the placement's apply strategy into the binding as well, in the same request.
    pub push_strategy: bool,
}

/// What to do now, and when to look again if nothing happens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// By binding name. Bindings that are where they should be are left out.
    pub steps: BTreeMap<String, Step>,
    /// When the first settling cluster will count as available, if somebody waits for that. Everything else is an
    /// event.
    pub look_again: Option<Timestamp>,
    /// The figures behind it.
    pub counts: Counts,
}

/// The figures of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Clusters whose availability is to be kept.
    pub reachable: u32,
    /// Available clusters, also those about to go.
    pub ready: u32,
    /// Available clusters about to go.
    pub going: u32,
    /// Clusters that hold the resources or will.
    pub can_be_ready: u32,
    /// How many available clusters may be taken now; negative when too few are available already.
    pub may_take: i64,
    /// How many clusters may be added now.
    pub may_add: i64,
}

/// One step for each binding that is not where it should be. Equal worlds give equal plans.
///
/// # Guarantees
///
/// Carrying out the plan, wholly or in part, takes at most `maxUnavailable` of the clusters that have to be kept, and
/// leads to at most `maxSurge` clusters beyond the target that hold the resources. Clusters that are known not to serve
/// may always be updated or left: that costs nobody anything. One that may serve, though nobody can tell yet, costs.
pub fn plan(world: &World<'_>) -> Plan {
    let mut members: Vec<&Member> = world.members.iter().collect();
    members.sort_by(|a, b| a.binding.cmp(&b.binding));

    let counts = count(world, &members);
    let clashes = blocked::clashes(&members);
    let mut plan = Plan {
        counts,
        ..Plan::default()
    };
    if world.has_snapshot {
        let waiting = Waiting::new(world, &counts, &members);
        let mut purse = Purse {
            may_take: counts.may_take,
            may_add: counts.may_add,
            waiting: &waiting,
        };
        // Those who leave go before those who change: what they free is not coming back, what a change takes is.
        for state in [State::Unscheduled, State::Bound, State::Scheduled] {
            for member in members.iter().filter(|m| m.state == state && !m.deleting) {
                if let Some(action) = decide(member, clashes.get(member.binding.as_str()), &mut purse) {
                    plan.add(member, action);
                }
            }
        }
        plan.look_again = next_look(&plan, &members);
    }
    for member in members.iter().filter(|m| m.strategy_differs && !m.deleting) {
        plan.push_strategy(member);
    }
    plan
}

/// For a placement whose rollout is `External`: the bindings whose `RolloutStarted` may be stamped again.
///
/// Only update runs start rollouts there, but the scheduler writes to bindings too, and each write makes all conditions
/// stale. Where no run is at work on the placement, a binding that had been started still is.
pub fn restamp_external(members: &[Member], stale_and_true: impl Fn(&Member) -> bool) -> Vec<&str> {
    let started = members
        .iter()
        .filter(|m| m.state == State::Bound && !m.deleting && m.started.is_none());
    started
        .filter(|m| stale_and_true(m))
        .map(|m| m.binding.as_str())
        .collect()
}

impl Plan {
    fn add(&mut self, member: &Member, action: Action) {
        let step = Step {
            cluster: member.cluster.clone(),
            action,
            push_strategy: false,
        };
        self.steps.insert(member.binding.clone(), step);
    }

    fn push_strategy(&mut self, member: &Member) {
        // From `ReportDiff` to another one it would change the cluster at once.
        if member.closed.is_some() {
            return;
        }
        match self.steps.get_mut(&member.binding) {
            // It is going to be deleted; a write before that would only make its conditions stale.
            Some(Step {
                action: Action::Remove(_),
                ..
            }) => {}
            Some(step) => step.push_strategy = true,
            // A Scheduled one that nothing holds gets it with its first resources.
            None if member.state == State::Scheduled => {}
            None => self.add(member, Action::PushStrategy),
        }
    }
}

/// What is left of the budget while the plan is made.
struct Purse<'a> {
    may_take: i64,
    may_add: i64,
    waiting: &'a Waiting,
}

fn decide(member: &Member, clash: Option<&Blocked>, purse: &mut Purse<'_>) -> Option<Action> {
    let free = !member.holds_content || !member.cluster_exists || member.readiness.is_free();
    match member.state {
        State::Unscheduled => Some(match clash {
            Some(clash) => Action::Keep(clash.clone()),
            None if member.holds_content
                && member.cluster_exists
                && let Some(closed) = &member.closed =>
            {
                Action::Keep(Blocked::Window(closed.why.clone()))
            }
            None if free => Action::Remove(Cost::Nothing),
            None if purse.take() => Action::Remove(Cost::Available),
            None => Action::Keep(Blocked::MaxUnavailable(purse.waiting.clone())),
        }),
        State::Bound => match (&member.content, clash) {
            (Content::Current, _)
                if member.strategy_differs
                    && let Some(closed) = &member.closed =>
            {
                Some(Action::Hold(Blocked::Window(closed.why.clone())))
            }
            (Content::Current, _) => (member.started != Some(true)).then_some(Action::Restamp),
            (_, Some(clash)) => Some(Action::Hold(clash.clone())),
            (Content::Unknown(why), None) => Some(Action::Hold(Blocked::Overrides(why.clone()))),
            // Before the budget is asked: who waits for the clock takes nothing from others.
            (Content::Outdated, None) if let Some(closed) = &member.closed => {
                Some(Action::Hold(Blocked::Window(closed.why.clone())))
            }
            (Content::Outdated, None) if free => Some(Action::Update(Cost::Nothing)),
            (Content::Outdated, None) if purse.take() => Some(Action::Update(Cost::Available)),
            (Content::Outdated, None) => Some(Action::Hold(Blocked::MaxUnavailable(purse.waiting.clone()))),
        },
        State::Scheduled => Some(match (&member.content, clash) {
            (_, Some(clash)) => Action::Hold(clash.clone()),
            (Content::Unknown(why), None) => Action::Hold(Blocked::Overrides(why.clone())),
            (_, None) if let Some(closed) = &member.closed => Action::Hold(Blocked::Window(closed.why.clone())),
            (_, None) if purse.add() => Action::Bind,
            (_, None) => Action::Hold(Blocked::MaxSurge(purse.waiting.clone())),
        }),
    }
}

impl Purse<'_> {
    fn take(&mut self) -> bool {
        self.may_take -= 1;
        self.may_take >= 0
    }

    fn add(&mut self) -> bool {
        self.may_add -= 1;
        self.may_add >= 0
    }
}

fn count(world: &World<'_>, members: &[&Member]) -> Counts {
    let number =
        |of: &dyn Fn(&Member) -> bool| u32::try_from(members.iter().filter(|m| of(m)).count()).unwrap_or(u32::MAX);
    // Clusters, not bindings: one that waits for its predecessor to go has two.
    let picked = members.iter().filter(|m| m.state != State::Unscheduled);
    let picked: BTreeSet<&str> = picked.map(|m| m.cluster.as_str()).collect();
    let picked = u32::try_from(picked.len()).unwrap_or(u32::MAX);
    let holding = |m: &Member| m.state != State::Scheduled && m.holds_content && m.cluster_exists;
    let ready = number(&|m| holding(m) && m.readiness.is_ready());
    let going = number(&|m| holding(m) && m.readiness.is_ready() && m.deleting);
    let can_be_ready = number(&|m| holding(m) && m.readiness.can_be_ready() && !m.reports_diff);

    let (wanted, reachable) = (world.target.wanted(picked), world.target.reachable(picked));
    let floor = i64::from(reachable) - i64::from(world.budget.max_unavailable.of(reachable));
    let ceiling = i64::from(wanted) + i64::from(world.budget.max_surge.of(wanted));
    Counts {
        reachable,
        ready,
        going,
        can_be_ready,
        may_take: i64::from(ready) - i64::from(going) - floor,
        may_add: ceiling - i64::from(can_be_ready),
    }
}

/// A timer only if a binding is held back by a window, which opens, or by the budget: then the first settled cluster makes
/// room.
fn next_look(plan: &Plan, members: &[&Member]) -> Option<Timestamp> {
    let held = plan
        .steps
        .values()
        .any(|step| matches!(&step.action, Action::Hold(why) | Action::Keep(why) if why.is_budget()));
    let deadlines = members
        .iter()
        .filter(|m| m.state != State::Scheduled)
        .filter_map(|m| match m.readiness {
            Readiness::Settling { until } => Some(until),
            _ => None,
        });
    let waits = |member: &&&Member| {
        let step = plan.steps.get(&member.binding);
        step.is_some_and(|step| matches!(&step.action, Action::Hold(why) | Action::Keep(why) if why.is_window()))
    };
    let openings = members.iter().filter(waits);
    let openings = openings.filter_map(|member| member.closed.as_ref()?.next);
    let settled = held.then(|| deadlines.min()).flatten();
    openings.chain(settled).min()
}
