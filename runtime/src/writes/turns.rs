//! Whose turn it is: slots, lanes, groups, and one write per object.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use tokio::{sync::oneshot, time::Instant};

use super::{
    Lane, Target,
    limit::{Limit, Sample},
};
use crate::{
    dump::{self, Look},
    key::Key,
};

/// Slots for heartbeats. A thousand members every 15 s are 67 a second, and a busy API server answers in 100 ms: with
/// fewer slots they would fall behind, members would look lost, and the writes that say so would make it worse.
const HEARTBEATS: usize = 16;
/// Every so many turns, the longest waiting goes first.
const FAIR: u32 = 32;
/// While others wait, roll-ups pause for so many times as long as the last one took.
const ROLLUP_PAUSE: u32 = 7;

#[derive(Debug)]
pub(super) struct Turns(Mutex<State>);

#[derive(Debug)]
struct State {
    limit: Limit,
    /// Slots in use: shared, heartbeats.
    used: [usize; 2],
    busy: HashSet<Target>,
    lanes: [Waiting; Lane::COUNT],
    /// Those whose object is being written.
    blocked: HashMap<Target, VecDeque<Waiter>>,
    turn: u32,
    rollups: Rollups,
}

/// The share of time that roll-ups take.
#[derive(Debug, Default)]
struct Rollups {
    in_flight: usize,
    /// They go last until then.
    pause: Option<Instant>,
}

impl Rollups {
    /// Whether it is others' turn, if there are any.
    fn pause(&self, now: Instant) -> bool {
        self.in_flight > 0 || self.pause.is_some_and(|until| now < until)
    }
}

/// The waiters of a lane, by group.
#[derive(Debug, Default)]
struct Waiting {
    groups: HashMap<Key, VecDeque<Waiter>>,
    order: VecDeque<Key>,
    count: usize,
}

#[derive(Debug)]
struct Waiter {
    lane: Lane,
    target: Target,
    group: Key,
    since: Instant,
    grant: oneshot::Sender<Slot>,
}

/// The right to write one object. Dropping it passes the turn on.
#[derive(Debug)]
pub(super) struct Slot {
    turns: Option<Arc<Turns>>,
    lane: Lane,
    target: Target,
    in_flight: usize,
    since: Instant,
}

impl Slot {
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(turns) = self.turns.take() {
            turns.0.lock().release(self.lane, &self.target, self.since);
            turns.grant();
        }
    }
}

impl Turns {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            limit: Limit::new(),
            used: [0; 2],
            busy: HashSet::new(),
            lanes: Default::default(),
            blocked: HashMap::new(),
            turn: 0,
            rollups: Rollups::default(),
        }))
    }

    pub(super) async fn take(self: Arc<Self>, lane: Lane, target: Target, group: Key) -> Slot {
        let (grant, granted) = oneshot::channel();
        self.0.lock().wait(Waiter {
            lane,
            target,
            group,
            since: Instant::now(),
            grant,
        });
        self.grant();
        granted.await.expect("a waiter is granted or dropped with its queue")
    }

    pub(super) fn observe(&self, sample: Sample) {
        // Heartbeats are not limited by it, so they tell nothing about it, except that the server has too much to do.
        if sample.lane != Lane::Heartbeat || sample.throttled {
            self.0.lock().limit.observe(sample, Instant::now());
        }
    }

    pub(super) fn limit(&self) -> usize {
        self.0.lock().limit.get()
    }

    pub(super) fn waiting(&self) -> [usize; Lane::COUNT] {
        let state = self.0.lock();
        Lane::ALL.map(|lane| state.lanes[lane as usize].count)
    }

    /// For people who debug: what is being written, and how much waits.
    pub(super) fn show(&self, look: &mut Look) -> Value {
        let state = self.0.lock();
        let waiting = Lane::ALL.map(|lane| (lane.word().to_owned(), state.lanes[lane as usize].count.into()));
        let under_way = state.busy.iter().map(|target| (&target.key, &target.kind));
        json!({
            "limit": state.limit.get(),
            "waiting": Map::from_iter(waiting),
            "waitingForTheSameObject": state.blocked.values().map(VecDeque::len).sum::<usize>(),
            "underWay": look.list(under_way, |kind| dump::fields(json!({ "kind": kind }))),
        })
    }

    /// Gives out what is free. Grants are sent outside the lock: a waiter that has gone gives its slot back at once.
    fn grant(self: &Arc<Self>) {
        loop {
            let mut state = self.0.lock();
            let Some((waiter, in_flight)) = state.next() else {
                return;
            };
            drop(state);
            let Waiter {
                lane, target, grant, ..
            } = waiter;
            let slot = Slot {
                turns: Some(self.clone()),
                lane,
                target,
                in_flight,
                since: Instant::now(),
            };
            if let Err(mut slot) = grant.send(slot) {
                // Not by dropping it, which would come back here for each waiter that has gone.
                slot.turns = None;
                self.0.lock().release(slot.lane, &slot.target, slot.since);
            }
        }
    }
}

fn pool(lane: Lane) -> usize {
    usize::from(lane == Lane::Heartbeat)
}

impl State {
    fn wait(&mut self, waiter: Waiter) {
        if self.busy.contains(&waiter.target) {
            self.blocked.entry(waiter.target.clone()).or_default().push_back(waiter);
        } else {
            self.lanes[waiter.lane as usize].push(waiter);
        }
    }

    fn release(&mut self, lane: Lane, target: &Target, since: Instant) {
        self.used[pool(lane)] -= 1;
        if lane == Lane::Rollup {
            self.rollups.in_flight -= 1;
            self.rollups.pause = Some(Instant::now() + since.elapsed() * ROLLUP_PAUSE);
        }
        self.busy.remove(target);
        // All of them: the lanes differ, and whoever comes second is blocked again.
        for waiter in self.blocked.remove(target).unwrap_or_default() {
            self.lanes[waiter.lane as usize].push(waiter);
        }
    }

    /// The waiter whose turn it is, with its slot and its object taken.
    fn next(&mut self) -> Option<(Waiter, usize)> {
        loop {
            let lane = self.next_lane()?;
            let waiter = self.lanes[lane as usize].pop()?;
            if self.busy.contains(&waiter.target) {
                self.blocked.entry(waiter.target.clone()).or_default().push_back(waiter);
                continue;
            }
            self.turn = self.turn.wrapping_add(1);
            self.busy.insert(waiter.target.clone());
            self.used[pool(lane)] += 1;
            self.rollups.in_flight += usize::from(lane == Lane::Rollup);
            return Some((waiter, self.used[pool(lane)]));
        }
    }

    fn next_lane(&self) -> Option<Lane> {
        let waiting = |lane: &Lane| self.lanes[*lane as usize].count > 0;
        if self.used[1] < HEARTBEATS && waiting(&Lane::Heartbeat) {
            return Some(Lane::Heartbeat);
        }
        if self.used[0] >= self.limit.get() {
            return None;
        }
        let paused = self.rollups.pause(Instant::now());
        let mut lanes = Lane::ALL
            .into_iter()
            .filter(|lane| *lane != Lane::Heartbeat && !(paused && *lane == Lane::Rollup))
            .filter(waiting);
        let next = if self.turn % FAIR == FAIR - 1 {
            lanes.min_by_key(|lane| self.lanes[*lane as usize].since())
        } else {
            lanes.next()
        };
        next.or_else(|| waiting(&Lane::Rollup).then_some(Lane::Rollup))
    }
}

impl Waiting {
    fn push(&mut self, waiter: Waiter) {
        self.count += 1;
        let group = self.groups.entry(waiter.group.clone()).or_default();
        if group.is_empty() {
            self.order.push_back(waiter.group.clone());
        }
        group.push_back(waiter);
    }

    fn pop(&mut self) -> Option<Waiter> {
        let group = self.order.pop_front()?;
        let waiters = self.groups.get_mut(&group)?;
        let waiter = waiters.pop_front();
        if waiters.is_empty() {
            self.groups.remove(&group);
        } else {
            self.order.push_back(group);
        }
        self.count -= 1;
        waiter
    }

    /// Since when the next of this lane waits.
    fn since(&self) -> Option<Instant> {
        self.groups.get(self.order.front()?)?.front().map(|waiter| waiter.since)
    }
}

#[cfg(test)]
mod tests;
