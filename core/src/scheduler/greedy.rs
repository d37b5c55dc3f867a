//! Picking one cluster after another when each pick changes the scores of the next.
//!
//! Upstream runs a whole cycle with its writes for each pick. Here all picks are made in memory, with the same
//! arithmetic, and in less than one look at each cluster per pick: clusters with the same domains form a group, in which
//! only the best one can be next, and groups whose domains are equally full share a verdict.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::plugins::topology_spread::{Spread, Violation};
use super::world::Cluster;

/// The picks, and what the last round said about the rest. Candidates are named by their position.
#[derive(Debug)]
pub(super) struct Picks {
    /// The picked candidates in the order of picking, each with its score at that moment.
    pub(super) picked: Vec<(usize, i32)>,
    /// All others, with their score or what forbids them.
    pub(super) rest: Vec<(usize, Result<i32, Violation>)>,
}

type Domains = Vec<Option<usize>>;
type Counts = Vec<Option<i32>>;

/// Candidates with the same domains, best first.
struct Group {
    domains: Domains,
    members: Vec<usize>,
    next: usize,
}

impl Group {
    fn head(&self) -> Option<usize> {
        self.members.get(self.next).copied()
    }
}

struct Round<'s, 'a> {
    spread: &'s mut Spread<'a>,
    groups: Vec<Group>,
    /// Which groups are in a domain: constraint and domain → groups.
    by_domain: HashMap<(usize, usize), Vec<usize>>,
    /// Groups by how full their domains are, in each the one with the best head first.
    equals: BTreeMap<Counts, BTreeSet<(usize, usize)>>,
}

/// Picks up to `wanted` of `candidates`, which come best first as far as everything but the spread is concerned.
pub(super) fn pick(spread: &mut Spread<'_>, candidates: &[&Cluster<'_>], wanted: usize) -> Picks {
    let mut round = Round::new(spread, candidates);
    let mut picked = Vec::new();
    let mut last = None;
    while picked.len() < wanted {
        last = round.best();
        let Some((candidate, group, score)) = last else { break };
        round.take(group);
        picked.push((candidate, score));
    }
    // What users read about the rest is what the last round saw, before its own pick.
    if let Some((_, group, _)) = last {
        round.spread.take_back(&round.groups[group].domains);
    }
    let rest = round.rest();
    Picks { picked, rest }
}

impl<'s, 'a> Round<'s, 'a> {
    fn new(spread: &'s mut Spread<'a>, candidates: &[&Cluster<'_>]) -> Self {
        let mut ids: HashMap<Domains, usize> = HashMap::new();
        let mut round = Self {
            spread,
            groups: Vec::new(),
            by_domain: HashMap::new(),
            equals: BTreeMap::new(),
        };
        for (candidate, cluster) in candidates.iter().enumerate() {
            let domains = round.spread.domains(cluster);
            let id = *ids.entry(domains).or_insert_with_key(|domains| {
                let id = round.groups.len();
                round.groups.push(Group {
                    domains: domains.clone(),
                    members: Vec::new(),
                    next: 0,
                });
                for (constraint, domain) in domains.iter().enumerate() {
                    if let Some(domain) = *domain {
                        round.by_domain.entry((constraint, domain)).or_default().push(id);
                    }
                }
                id
            });
            round.groups[id].members.push(candidate);
        }
        for id in 0..round.groups.len() {
            round.enter(id);
        }
        round
    }

    /// The best candidate of all, its group and its score. Of equal scores the one that came first.
    fn best(&self) -> Option<(usize, usize, i32)> {
        let verdicts = self.equals.iter().filter_map(|(counts, groups)| {
            let (candidate, group) = *groups.first()?;
            let score = self.spread.judge(counts).ok()?;
            Some((candidate, group, score))
        });
        verdicts.max_by(|(a, _, x), (b, _, y)| x.cmp(y).then(b.cmp(a)))
    }

    /// Picks the head of `group`. Every group that shares a domain with it now stands elsewhere.
    fn take(&mut self, group: usize) {
        let domains = self.groups[group].domains.clone();
        let mut moved: BTreeSet<usize> = BTreeSet::from([group]);
        for (constraint, domain) in domains.iter().enumerate() {
            if let Some(domain) = *domain {
                moved.extend(self.by_domain.get(&(constraint, domain)).into_iter().flatten());
            }
        }
        for id in &moved {
            self.leave(*id);
        }
        self.groups[group].next += 1;
        self.spread.add(&domains);
        for id in moved {
            self.enter(id);
        }
    }

    fn enter(&mut self, id: usize) {
        let group = &self.groups[id];
        if let Some(head) = group.head() {
            self.equals
                .entry(self.spread.counts(&group.domains))
                .or_default()
                .insert((head, id));
        }
    }

    fn leave(&mut self, id: usize) {
        let group = &self.groups[id];
        let counts = self.spread.counts(&group.domains);
        let (Some(head), Some(equals)) = (group.head(), self.equals.get_mut(&counts)) else {
            return;
        };
        equals.remove(&(head, id));
        if equals.is_empty() {
            self.equals.remove(&counts);
        }
    }

    fn rest(&self) -> Vec<(usize, Result<i32, Violation>)> {
        let of_group = |group: &Group| {
            let verdict = self.spread.judge(&self.spread.counts(&group.domains));
            group.members[group.next..]
                .iter()
                .map(move |candidate| (*candidate, verdict))
                .collect::<Vec<_>>()
        };
        let mut rest: Vec<_> = self.groups.iter().flat_map(of_group).collect();
        rest.sort_unstable_by_key(|(candidate, _)| *candidate);
        rest
    }
}
