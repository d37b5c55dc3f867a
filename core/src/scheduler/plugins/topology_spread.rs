//! TopologySpreadConstraints: picked clusters spread evenly over the values of a label.
//!
//! Only the counts matter to the rules, so clusters whose domains hold equal counts are judged together: `judge` takes
//! counts, and whoever picks many clusters asks once per combination of counts and not once per cluster.

use std::collections::{BTreeMap, HashMap};

use fleet_api::conditions::decision::Rejection;
use fleet_api::placement::{PlacementPolicy, UnsatisfiableAction};

use crate::scheduler::world::Cluster;

/// What violating a soft constraint costs. More than any number of constraints can make up for.
pub const VIOLATION_PENALTY: i32 = 1000;

/// The constraints of a policy and how full each domain is.
#[derive(Debug)]
pub struct Spread<'a> {
    /// Hard ones first: their verdict ends the judgement.
    constraints: Vec<Constraint<'a>>,
    kind: Kind,
}

/// Which rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What users of the API know: every cluster of the fleet makes a domain, and what a pick does to the whole skew
    /// decides.
    Fleet,
    /// As pods are spread over nodes: only usable clusters make domains, and the picked domain's count above the least
    /// one decides.
    Usable,
}

#[derive(Debug)]
struct Constraint<'a> {
    topology_key: &'a str,
    max_skew: i32,
    hard: bool,
    domains: HashMap<&'a str, usize>,
    counts: Vec<i32>,
    /// How many domains have each count: what keeps the least, second and greatest at hand.
    histogram: BTreeMap<i32, usize>,
}

/// The least, the second and the greatest count of one constraint's domains.
#[derive(Debug, Clone, Copy)]
struct Extremes {
    least: i32,
    second: i32,
    greatest: i32,
}

/// Which constraint forbids a pick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(usize);

impl<'a> Spread<'a> {
    /// The constraints of `policy`; none if there are none. `usable` says which clusters make domains for
    /// [`Kind::Usable`], `picked` which ones count.
    pub fn new(
        policy: &'a PlacementPolicy,
        clusters: &[&'a Cluster<'a>],
        kind: Kind,
        usable: impl Fn(usize) -> bool,
        picked: impl Fn(usize) -> bool,
    ) -> Option<Self> {
        let soft = |action: &UnsatisfiableAction| matches!(action, UnsatisfiableAction::ScheduleAnyway);
        let mut constraints: Vec<_> = policy
            .topology_spread_constraints
            .iter()
            .map(|constraint| Constraint {
                topology_key: &constraint.topology_key,
                max_skew: constraint.max_skew,
                hard: !soft(&constraint.when_unsatisfiable),
                domains: HashMap::new(),
                counts: Vec::new(),
                histogram: BTreeMap::new(),
            })
            .collect();
        if constraints.is_empty() {
            return None;
        }
        constraints.sort_by_key(|constraint| !constraint.hard); // stable: the policy's order within each kind
        for constraint in &mut constraints {
            for (i, cluster) in clusters.iter().enumerate() {
                let taken = picked(i);
                if kind == Kind::Fleet || taken || usable(i) {
                    constraint.count(cluster, taken);
                }
            }
            for count in &constraint.counts {
                *constraint.histogram.entry(*count).or_default() += 1;
            }
        }
        Some(Self { constraints, kind })
    }

    /// The domain of `cluster` for each constraint; none where it lacks the label.
    pub fn domains(&self, cluster: &Cluster<'_>) -> Vec<Option<usize>> {
        let domain = |constraint: &Constraint<'_>| {
            constraint
                .domains
                .get(cluster.labels.get(constraint.topology_key)?.as_str())
                .copied()
        };
        self.constraints.iter().map(domain).collect()
    }

    /// How full these domains are.
    pub fn counts(&self, domains: &[Option<usize>]) -> Vec<Option<i32>> {
        self.constraints
            .iter()
            .zip(domains)
            .map(|(constraint, domain)| domain.map(|d| constraint.counts[d]))
            .collect()
    }

    /// The score of one more pick in domains with these counts, or what forbids it.
    pub fn judge(&self, counts: &[Option<i32>]) -> Result<i32, Violation> {
        let mut score: i32 = 0;
        for (i, (constraint, count)) in self.constraints.iter().zip(counts).enumerate() {
            // A cluster without the label is outside of the spread.
            let Some(count) = *count else { continue };
            let (change, violated) = constraint.effect(count, self.kind);
            score = score.saturating_add(match (violated, constraint.hard) {
                (true, true) => return Err(Violation(i)),
                (true, false) => -VIOLATION_PENALTY,
                (false, _) => -change,
            });
        }
        Ok(score)
    }

    /// Counts a pick in these domains.
    pub fn add(&mut self, domains: &[Option<usize>]) {
        self.change(domains, 1);
    }

    /// Takes a pick in these domains back.
    pub fn take_back(&mut self, domains: &[Option<usize>]) {
        self.change(domains, -1);
    }

    /// The violation in the words that users see.
    pub fn rejection(&self, Violation(i): Violation) -> Rejection {
        let Constraint {
            topology_key, max_skew, ..
        } = self.constraints[i];
        Rejection::Spread {
            key: topology_key.into(),
            max_skew,
        }
    }

    fn change(&mut self, domains: &[Option<usize>], by: i32) {
        for (constraint, domain) in self.constraints.iter_mut().zip(domains) {
            let Some(domain) = *domain else { continue };
            let count = &mut constraint.counts[domain];
            if let Some(with_count) = constraint.histogram.get_mut(count) {
                *with_count -= 1;
                if *with_count == 0 {
                    constraint.histogram.remove(count);
                }
            }
            *count += by;
            *constraint.histogram.entry(*count).or_default() += 1;
        }
    }
}

impl<'a> Constraint<'a> {
    fn count(&mut self, cluster: &'a Cluster<'a>, picked: bool) {
        let Some(value) = cluster.labels.get(self.topology_key) else {
            return;
        };
        let domain = *self.domains.entry(value).or_insert(self.counts.len());
        if domain == self.counts.len() {
            self.counts.push(0);
        }
        self.counts[domain] += i32::from(picked);
    }

    fn extremes(&self) -> Extremes {
        let mut ascending = self.histogram.iter();
        let (least, with_least) = ascending.next().map_or((0, 1), |(count, domains)| (*count, *domains));
        let next = ascending.next().map_or(least, |(count, _)| *count);
        Extremes {
            least,
            second: if with_least > 1 { least } else { next },
            greatest: self.histogram.last_key_value().map_or(least, |(count, _)| *count),
        }
    }

    /// By how much one more in a domain with `count` changes the skew, and whether that violates the constraint.
    fn effect(&self, count: i32, kind: Kind) -> (i32, bool) {
        let Extremes {
            least,
            second,
            greatest,
        } = self.extremes();
        let skew = greatest - least;
        let change = match count {
            _ if skew == 0 => 1,
            _ if count == least && least != second => -1,
            _ if count == greatest => 1,
            _ => 0,
        };
        let violated = match kind {
            Kind::Fleet => skew + change > self.max_skew,
            Kind::Usable => count + 1 - least > self.max_skew,
        };
        (change, violated)
    }
}
