//! Whose turn it is: slots, lanes, groups, and one write per object.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use super::{
    Lane, Target,
    limit::{Limit, Sample},
};
use crate::key::Key;

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
mod tests {
    use std::time::Duration;

    use futures::FutureExt;

    use super::*;
    use crate::writes::limit::START;

    fn target(name: &str) -> Target {
        Target::new("works", Key::cluster(name))
    }

    type Turn = std::pin::Pin<Box<dyn Future<Output = Slot>>>;

    fn ask(turns: &Arc<Turns>, lane: Lane, name: &str, group: &str) -> Turn {
        let mut turn: Turn = Box::pin(turns.clone().take(lane, target(name), Key::cluster(group)));
        // Polled once, so that it is in the queue.
        assert!((&mut turn).now_or_never().is_none(), "nobody has a turn yet");
        turn
    }

    /// Takes every slot.
    fn full(turns: &Arc<Turns>) -> Vec<Slot> {
        let take = |n| {
            turns
                .clone()
                .take(Lane::Objects, target(&format!("full-{n}")), Key::cluster("full"))
        };
        (0..START).map(|n| take(n).now_or_never().unwrap()).collect()
    }

    /// Frees one slot after another, and says in which order the waiting get theirs.
    fn order(mut waiting: Vec<(&'static str, Turn)>, mut slots: Vec<Slot>) -> Vec<&'static str> {
        let mut order = Vec::new();
        while !waiting.is_empty() {
            drop(slots.pop().unwrap());
            let at = waiting.iter_mut().position(|(_, turn)| match turn.now_or_never() {
                Some(slot) => {
                    slots.push(slot);
                    true
                }
                None => false,
            });
            order.push(waiting.remove(at.expect("a free slot is given to somebody")).0);
        }
        order
    }

    #[tokio::test(start_paused = true)]
    async fn lanes_go_in_order_and_groups_take_turns() {
        let turns = Arc::new(Turns::new());
        let slots = full(&turns);
        let waiting = vec![
            ("status", ask(&turns, Lane::Status, "s", "p")),
            ("big 1", ask(&turns, Lane::Objects, "b1", "big")),
            ("big 2", ask(&turns, Lane::Objects, "b2", "big")),
            ("big 3", ask(&turns, Lane::Objects, "b3", "big")),
            ("small", ask(&turns, Lane::Objects, "s1", "small")),
        ];
        assert_eq!(order(waiting, slots), ["big 1", "small", "big 2", "big 3", "status"]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_lane_starves() {
        let turns = Arc::new(Turns::new());
        let slots = full(&turns);
        let mut waiting = vec![("event", ask(&turns, Lane::Events, "e", "p"))];
        tokio::time::advance(Duration::from_millis(1)).await;
        for n in 0..40 {
            waiting.push(("object", ask(&turns, Lane::Objects, &format!("o{n}"), "p")));
        }
        let order = order(waiting, slots);
        assert!(
            order.iter().position(|name| *name == "event").unwrap() < 32,
            "{order:?}"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn roll_ups_take_an_eighth_of_the_time_while_others_wait() {
        let turns = Arc::new(Turns::new());
        let mut slots = full(&turns);
        let mut first = ask(&turns, Lane::Rollup, "first", "p");
        let mut second = ask(&turns, Lane::Rollup, "second", "p");
        tokio::time::advance(Duration::from_millis(1)).await;
        let mut objects: Vec<Turn> = (0..200)
            .map(|n| ask(&turns, Lane::Objects, &format!("o{n}"), "p"))
            .collect();
        // One of these turns belongs to whoever waits longest.
        let mut round = || {
            for _ in 0..FAIR {
                drop(slots.pop());
                let granted = objects.iter_mut().position(|turn| match turn.now_or_never() {
                    Some(slot) => {
                        slots.push(slot);
                        true
                    }
                    None => false,
                });
                granted.map(|at| objects.remove(at));
            }
        };
        round();
        let held = (&mut first).now_or_never().expect("it has waited longest");
        round();
        assert!((&mut second).now_or_never().is_none(), "one is in flight");
        tokio::time::advance(Duration::from_millis(100)).await;
        drop(held);
        tokio::time::advance(Duration::from_millis(699)).await;
        round();
        assert!(
            (&mut second).now_or_never().is_none(),
            "others' turn, seven times as long"
        );
        tokio::time::advance(Duration::from_millis(2)).await;
        round();
        assert!((&mut second).now_or_never().is_some());
        let mut third = ask(&turns, Lane::Rollup, "third", "p");
        objects.clear();
        slots.clear();
        assert!((&mut third).now_or_never().is_some(), "nobody else waits");
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_is_written_by_one_at_a_time_in_any_lane() {
        let turns = Arc::new(Turns::new());
        let mut first = Some(turns.clone().take(Lane::Status, target("a"), Key::cluster("p")).await);
        let mut second = ask(&turns, Lane::Objects, "a", "p");
        let mut third = ask(&turns, Lane::Heartbeat, "a", "p");
        drop(first.take());
        let held = (&mut third).now_or_never().expect("heartbeats go first");
        assert!((&mut second).now_or_never().is_none());
        drop(held);
        assert!(second.now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_have_slots_of_their_own() {
        let turns = Arc::new(Turns::new());
        let _slots = full(&turns);
        let beats: Vec<Slot> = (0..HEARTBEATS)
            .map(|n| {
                turns
                    .clone()
                    .take(Lane::Heartbeat, target(&format!("c{n}")), Key::cluster("p"))
            })
            .map(|turn| turn.now_or_never().unwrap())
            .collect();
        let mut late = ask(&turns, Lane::Heartbeat, "late", "p");
        drop(beats);
        assert!((&mut late).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn who_goes_away_loses_nobody_elses_turn() {
        let turns = Arc::new(Turns::new());
        let slots = full(&turns);
        let gone: Vec<Turn> = (0..5000)
            .map(|n| ask(&turns, Lane::Objects, &format!("g{n}"), "p"))
            .collect();
        let mut stays = ask(&turns, Lane::Objects, "stays", "p");
        drop(gone);
        drop(slots);
        drop((&mut stays).now_or_never().expect("it is its turn"));
        // One that was granted but never looked.
        let slots = full(&turns);
        let unseen = ask(&turns, Lane::Objects, "unseen", "p");
        drop(slots);
        drop(unseen);
        let state = turns.0.lock();
        assert_eq!((state.used, state.busy.len(), state.lanes[0].count), ([0, 0], 0, 0));
    }
}
