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
