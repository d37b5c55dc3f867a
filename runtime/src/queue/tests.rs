use futures::FutureExt;

use super::*;

fn queue() -> Queue<&'static str> {
    Queue::default()
}

fn now(queue: &Queue<&'static str>) -> Option<&'static str> {
    queue.take().now_or_never().map(|taken| taken.key)
}

#[tokio::test(start_paused = true)]
async fn what_nobody_works_on_any_more_is_wanted_again() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    assert_eq!(now(&queue), Some("a"));
    queue.add("a");
    assert_eq!(now(&queue), Some("b"));
    assert_eq!(now(&queue), None, "both are under way");
    queue.take_back();
    let mut again = [now(&queue), now(&queue)];
    again.sort_unstable();
    assert_eq!(again, [Some("a"), Some("b")]);
    queue.done(&"a", Next::Wait);
    assert_eq!(now(&queue), None, "once");
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_once_and_is_worked_on_once() {
    let queue = queue();
    queue.add("a");
    queue.add("b");
    queue.add("a");
    assert_eq!(queue.len(), 2);
    assert_eq!(now(&queue), Some("a"));
    queue.add("a");
    assert_eq!(now(&queue), Some("b"));
    assert_eq!(now(&queue), None, "a is in flight");
    queue.done(&"a", Next::Wait);
    assert_eq!(now(&queue), Some("a"), "it was added meanwhile");
    queue.done(&"a", Next::Wait);
    queue.done(&"b", Next::Wait);
    assert_eq!(now(&queue), None);
    assert!(
        queue.0.state.lock().keys.is_empty(),
        "nothing is left of a key that is done"
    );
}

#[tokio::test(start_paused = true)]
async fn the_higher_priority_goes_first_and_a_failure_keeps_its_own() {
    let queue = queue();
    queue.set_priority_of_timers(-1);
    queue.add_after("timer", Duration::from_millis(1));
    queue.add("a");
    queue.add_with_priority("urgent", 100);
    queue.add("b");
    queue.add_with_priority("b", 7);
    queue.add_with_priority("urgent", 3);
    tokio::time::advance(Duration::from_millis(2)).await;
    for expected in ["urgent", "b", "a", "timer"] {
        assert_eq!(now(&queue), Some(expected));
    }
    // Failed, it goes before what came in the meantime with less.
    queue.failed(&"urgent");
    queue.done(&"a", Next::Wait);
    tokio::time::advance(Duration::from_secs(1)).await;
    queue.add_with_priority("a", 99);
    assert_eq!([now(&queue), now(&queue)], [Some("urgent"), Some("a")]);
}

#[tokio::test(start_paused = true)]
async fn timers_fire_at_their_instant_and_the_earlier_wins() {
    let (queue, start) = (queue(), Instant::now());
    queue.add_after("a", Duration::from_millis(1500));
    queue.add_after("a", Duration::from_millis(700));
    queue.add_after("a", Duration::from_secs(3));
    queue.add_after("b", Duration::from_millis(701));
    assert_eq!(queue.take().await.key, "a");
    assert_eq!(start.elapsed(), Duration::from_millis(700));
    queue.done(&"a", Next::At(start + Duration::from_secs(10)));
    assert_eq!(queue.take().await.key, "b");
    queue.done(&"b", Next::Wait);
    assert_eq!(queue.take().await.key, "a");
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_change_does_not_wait_for_the_timer_and_ends_it() {
    let queue = queue();
    queue.add_after("a", Duration::from_mins(1));
    queue.add("a");
    assert_eq!(now(&queue), Some("a"));
    queue.done(&"a", Next::Wait);
    tokio::time::advance(Duration::from_secs(61)).await;
    assert_eq!(now(&queue), None);
}

#[tokio::test(start_paused = true)]
async fn failures_wait_longer_each_time_until_one_pass_succeeds() {
    let queue = queue();
    queue.add("a");
    let mut last = Duration::ZERO;
    for failures in 1..5 {
        assert_eq!(queue.take().await.key, "a");
        let start = Instant::now();
        assert_eq!(queue.failed(&"a"), failures);
        let taken = queue.take().await;
        assert!(start.elapsed() > last, "{:?} after {last:?}", start.elapsed());
        assert!(
            taken.waited < Duration::from_millis(5),
            "back-off is no waiting in the queue"
        );
        last = start.elapsed();
        queue.done(&"a", Next::Wait);
        queue.add("a");
        // A success forgets; so fail again as often as before.
        for _ in 0..failures {
            assert_eq!(queue.take().await.key, "a");
            queue.failed(&"a");
            queue.add("a");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn people_see_what_each_key_waits_for() {
    let (queue, dump) = (Queue::<String>::default(), crate::dump::Dump::default());
    queue.show_in(&dump, "demo");
    queue.add("failing".to_owned());
    let taken = queue.take().await;
    queue.failed(&taken.key);
    queue.add("working".to_owned());
    queue.take().await;
    queue.add("working".to_owned());
    queue.add_after("later".to_owned(), Duration::from_secs(5));
    queue.add("ready".to_owned());

    let all = dump.read("queues/demo", "").unwrap();
    let shown = &all["queues"]["demo"];
    assert_eq!((&shown["ready"], &shown["timers"]), (&1.into(), &2.into()));
    let key = |at: usize| {
        let key = &shown["keys"]["shown"][at];
        let seconds = key["seconds"].as_f64();
        (key["name"].as_str().unwrap(), key["waits"].as_str().unwrap(), seconds)
    };
    let (name, waits, seconds) = key(0);
    assert_eq!((name, waits), ("failing", "for a time to come"));
    assert!(seconds.is_some_and(|seconds| seconds > 0.0));
    assert_eq!(shown["keys"]["shown"][0]["failures"], 1);
    assert_eq!(key(1), ("later", "for a time to come", Some(5.0)));
    assert_eq!(key(2), ("ready", "for its turn", Some(0.0)));
    assert_eq!(key(3), ("working", "its pass is under way", None));
    assert_eq!(shown["keys"]["shown"][3]["wantedAgain"], true);
    drop(queue);
    assert_eq!(dump.read("", "").unwrap()["queues"], serde_json::json!({}));
}
