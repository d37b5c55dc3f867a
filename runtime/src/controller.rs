//! Runs passes over the keys of a queue: bounded, one per key, every failure logged and counted in one place.

use std::{collections::HashMap, fmt::Display, future::Future, hash::Hash, time::Duration};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use tokio::{task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

pub use crate::grace::GRACE;
use crate::{
    cache::{Change, Changes},
    dump::Dump,
    logs,
    metrics::{self, Metrics},
    queue::{Next, Queue},
    shutdown::panic_text,
};

/// What every controller measures. Registered once per process; cheap to clone.
#[derive(Clone, Debug)]
pub struct Measures {
    passes: Family<Pass, Counter>,
    errors: Family<Name, Counter>,
    most: Family<Name, Gauge>,
    duration: Family<Name, Histogram>,
    waited: Family<Name, Histogram>,
    depth: Family<Name, Gauge>,
    active: Family<Name, Gauge>,
    dump: Dump,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Name {
    controller: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Pass {
    controller: &'static str,
    result: &'static str,
}

impl Measures {
    /// Registers the families.
    pub fn new(metrics: &Metrics) -> Self {
        let new = Self {
            passes: Family::default(),
            errors: Family::default(),
            most: Family::default(),
            duration: Family::new_with_constructor(pass_seconds),
            waited: Family::new_with_constructor(metrics::seconds),
            depth: Family::default(),
            active: Family::default(),
            dump: metrics.dump().clone(),
        };
        metrics.register(|registry| {
            let Self {
                passes,
                errors,
                most,
                duration,
                waited,
                depth,
                active,
                dump: _,
            } = &new;
            registry.register("fleet_workload_reconcile", "Passes by result", passes.clone());
            registry.register("fleet_workload_reconcile_errors", "Passes that failed", errors.clone());
            registry.register(
                "fleet_workload_max_concurrent_reconciles",
                "Passes that may be under way",
                most.clone(),
            );
            registry.register(
                "fleet_workload_reconcile_time_seconds",
                "Time of a pass",
                duration.clone(),
            );
            registry.register("fleet_workload_active_workers", "Passes under way", active.clone());
            registry.register("workqueue_depth", "Keys that are ready and wait", depth.clone());
            registry.register(
                "workqueue_queue_duration_seconds",
                "Time that a ready key waited",
                waited.clone(),
            );
        });
        new
    }

    /// Everything of a controller exists from its start on, so that a rate can be told from the first failure.
    fn begin(&self, options: &Options) {
        let controller = options.name;
        for result in RESULTS {
            drop(self.passes.get_or_create(&Pass { controller, result }));
        }
        let name = Name { controller };
        drop(self.errors.get_or_create(&name));
        let most = i64::try_from(options.concurrency).unwrap_or(i64::MAX);
        self.most.get_or_create(&name).set(most);
    }
}

/// What a pass can come to, in the words that existing dashboards know.
const RESULTS: [&str; 4] = ["success", "error", "requeue", "requeue_after"];

/// The buckets that existing dashboards know.
fn pass_seconds() -> Histogram {
    Histogram::new([
        0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5,
        1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0,
    ])
}

/// How a controller runs.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Appears in logs and as a label.
    pub name: &'static str,
    /// Passes at the same time. Passes that wait for the write queue count, so be generous; writes have their own limit.
    pub concurrency: usize,
    /// How long passes may take to finish once told to stop.
    pub grace: Duration,
}

impl Options {
    /// The usual: 64 passes, [`GRACE`] to finish.
    pub const fn new(name: &'static str) -> Self {
        Self {
            name,
            concurrency: 64,
            grace: GRACE,
        }
    }
}

/// Runs `pass` for every key of the queue until told to stop; then lets passes that are under way finish.
///
/// A pass that fails, or panics, is repeated with a growing delay. Its error is logged when it is the first in a row, then
/// only in detail: what a user must know belongs into a condition.
pub async fn run<Q, F, P, E>(queue: Queue<Q>, options: Options, measures: Measures, stop: CancellationToken, pass: F)
where
    Q: Hash + Eq + Clone + Display + Send + 'static,
    F: Fn(Q) -> P,
    P: Future<Output = Result<Next, E>> + Send + 'static,
    E: std::error::Error + Send + 'static,
{
    let name = Name {
        controller: options.name,
    };
    let (depth, active) = (
        measures.depth.get_or_create(&name).clone(),
        measures.active.get_or_create(&name).clone(),
    );
    measures.begin(&options);
    queue.show_in(&measures.dump, options.name);
    let mut running: JoinSet<(Q, Duration, Result<Next, String>)> = JoinSet::new();
    let mut keys = HashMap::new();
    loop {
        depth.set(i64::try_from(queue.len()).unwrap_or(i64::MAX));
        active.set(i64::try_from(running.len()).unwrap_or(i64::MAX));
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            Some(ended) = running.join_next_with_id() => finish(&queue, options.name, &measures, &mut keys, ended),
            taken = queue.take(), if running.len() < options.concurrency => {
                measures.waited.get_or_create(&name).observe(taken.waited.as_secs_f64());
                let (key, work) = (taken.key.clone(), pass(taken.key.clone()));
                let handle = running.spawn(async move {
                    let start = Instant::now();
                    let result = work.await.map_err(|error| logs::chain(&error).to_string());
                    (key, start.elapsed(), result)
                });
                keys.insert(handle.id(), taken.key);
            }
        }
    }
    let finish_all = async {
        while let Some(ended) = running.join_next_with_id().await {
            finish(&queue, options.name, &measures, &mut keys, ended);
        }
    };
    if tokio::time::timeout(options.grace, finish_all).await.is_err() {
        tracing::warn!(controller = options.name, "Passes were cut off");
    }
    active.set(0);
}

type Ended<Q> = Result<(tokio::task::Id, (Q, Duration, Result<Next, String>)), tokio::task::JoinError>;

fn finish<Q: Hash + Eq + Clone + Display>(
    queue: &Queue<Q>,
    controller: &'static str,
    measures: &Measures,
    keys: &mut HashMap<tokio::task::Id, Q>,
    ended: Ended<Q>,
) {
    let (key, result) = match ended {
        Ok((id, (key, took, result))) => {
            keys.remove(&id);
            measures
                .duration
                .get_or_create(&Name { controller })
                .observe(took.as_secs_f64());
            (key, result)
        }
        // A panic is a bug, but one object's: the others go on.
        Err(error) => {
            let Some(key) = keys.remove(&error.id()) else { return };
            (key, Err(panic_text(error)))
        }
    };
    let result = match result {
        Ok(next) => {
            queue.done(&key, next);
            match next {
                Next::Wait => "success",
                Next::At(at) if at <= Instant::now() => "requeue",
                Next::At(_) => "requeue_after",
            }
        }
        Err(error) => {
            match queue.failed(&key) {
                1 => tracing::warn!(controller, object = %key, error, "Pass failed"),
                failures => tracing::debug!(controller, object = %key, error, failures, "Pass failed again"),
            }
            measures.errors.get_or_create(&Name { controller }).inc();
            "error"
        }
    };
    measures.passes.get_or_create(&Pass { controller, result }).inc();
}

/// Feeds a queue from a store: `keys` says which keys a change concerns, none if it does not matter. Never ends.
pub async fn feed<K, Q, I>(mut changes: Changes<K>, queue: Queue<Q>, keys: impl Fn(&Change<K>) -> I)
where
    Q: Hash + Eq + Clone,
    I: IntoIterator<Item = Q>,
{
    loop {
        let change = changes.next().await;
        for key in keys(&change) {
            queue.add(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failures_and_panics_are_repeated_and_others_go_on() {
        let (queue, stop, metrics) = (Queue::<String>::default(), CancellationToken::new(), Metrics::new());
        let tries = Arc::new(AtomicUsize::new(0));
        let (done, mut finished) = tokio::sync::mpsc::unbounded_channel();
        let pass = {
            let tries = tries.clone();
            move |key: String| {
                let (tries, done) = (tries.clone(), done.clone());
                async move {
                    if key == "bad" {
                        match tries.fetch_add(1, Ordering::SeqCst) {
                            0 => return Err(std::io::Error::other("not yet")),
                            1 => panic!("worse"),
                            _ => {}
                        }
                    }
                    done.send(key).unwrap();
                    Ok(Next::Wait)
                }
            }
        };
        let options = Options {
            concurrency: 1,
            ..Options::new("test")
        };
        let controller = tokio::spawn(run(queue.clone(), options, Measures::new(&metrics), stop.clone(), pass));
        queue.add("bad".to_owned());
        queue.add("good".to_owned());
        assert_eq!(finished.recv().await.as_deref(), Some("good"));
        assert_eq!(finished.recv().await.as_deref(), Some("bad"));
        stop.cancel();
        controller.await.unwrap();
        assert_eq!(tries.load(Ordering::SeqCst), 3);
        let text = metrics.encode();
        for line in [
            r#"fleet_workload_reconcile_total{controller="test",result="error"} 2"#,
            r#"fleet_workload_reconcile_total{controller="test",result="success"} 2"#,
            r#"fleet_workload_reconcile_total{controller="test",result="requeue"} 0"#,
            r#"fleet_workload_reconcile_total{controller="test",result="requeue_after"} 0"#,
            r#"fleet_workload_reconcile_errors_total{controller="test"} 2"#,
            r#"fleet_workload_max_concurrent_reconciles{controller="test"} 1"#,
            r#"fleet_workload_active_workers{controller="test"} 0"#,
            r#"fleet_workload_reconcile_time_seconds_bucket{le="0.35",controller="test"}"#,
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn stopping_lets_a_pass_finish() {
        let (queue, stop) = (Queue::<String>::default(), CancellationToken::new());
        let finished = Arc::new(AtomicUsize::new(0));
        let pass = {
            let (finished, stop) = (finished.clone(), stop.clone());
            move |_| {
                let (finished, stop) = (finished.clone(), stop.clone());
                async move {
                    stop.cancel();
                    tokio::time::sleep(Duration::from_secs(2)).await;
                    finished.fetch_add(1, Ordering::SeqCst);
                    Ok::<_, std::io::Error>(Next::Wait)
                }
            }
        };
        queue.add("a".to_owned());
        run(queue, Options::new("test"), Measures::new(&Metrics::new()), stop, pass).await;
        assert_eq!(finished.load(Ordering::SeqCst), 1);
    }
}
