//! The process's one queue of writes to an API server.
//!
//! A write waits for its turn *before* its body is computed: states that change while it waits become one write without
//! any timer, and when nothing waits nothing is delayed. Whoever writes keeps its own error handling; this queue only says
//! when.
//!
//! # Guarantees
//! - One write per object is in flight, whatever the lane.
//! - Lanes go first to last, but every 32nd turn belongs to whoever waits longest, so that no lane starves.
//! - Roll-ups take no more than an eighth of the time while others wait: one of a hundred clusters costs the server as
//!   much as thirty bindings, and what it says is old when the next binding is written.
//! - Inside a lane the groups (placements, say) take turns: one with a thousand clusters does not delay one with three.
//! - Heartbeats have slots of their own.

mod limit;
mod turns;

use std::{borrow::Cow, future::Future, sync::Arc, time::Duration};

use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};
use tokio::time::Instant;

use self::{limit::Sample, turns::Turns};
use crate::{
    dump::Section,
    key::Key,
    metrics::{self, Metrics},
};

/// A write that was not answered by then has an unknown outcome. Less than a lease, more than any server needs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// How urgent a write is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// What others wait for: snapshots, bindings, Works, finalizers.
    Objects,
    /// What members report about Works. Before the bindings' status, which then says all of it at once.
    Reports,
    /// Status of bindings and of what else is small.
    Status,
    /// Status of placements and runs: large, and better late than twice.
    Rollup,
    /// Events. May be dropped by whoever fills the lane.
    Events,
    /// Heartbeats, which do not share slots with the rest.
    Heartbeat,
}

impl Lane {
    const COUNT: usize = 6;
    const ALL: [Self; Self::COUNT] = [
        Self::Objects,
        Self::Reports,
        Self::Status,
        Self::Rollup,
        Self::Events,
        Self::Heartbeat,
    ];

    fn word(self) -> &'static str {
        match self {
            Self::Objects => "objects",
            Self::Reports => "reports",
            Self::Status => "status",
            Self::Rollup => "rollup",
            Self::Events => "events",
            Self::Heartbeat => "heartbeat",
        }
    }
}

impl EncodeLabelValue for Lane {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), std::fmt::Error> {
        self.word().encode(encoder)
    }
}

/// Which object is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Its kind, as a plural: `works`.
    pub kind: Cow<'static, str>,
    /// Its name.
    pub key: Key,
}

impl Target {
    /// The object of this kind and name.
    pub fn new(kind: impl Into<Cow<'static, str>>, key: Key) -> Self {
        let kind = kind.into();
        Self { kind, key }
    }
}

/// The queue. Cheap to clone; clones share it.
#[derive(Clone, Debug)]
pub struct Writes {
    turns: Arc<Turns>,
    measures: Measures,
}

#[derive(Clone, Debug)]
struct Measures {
    waited: Family<Labels, Histogram>,
    took: Family<Labels, Histogram>,
    results: Family<Results, Counter>,
    waiting: Family<Labels, Gauge>,
    limit: Gauge,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Labels {
    lane: Lane,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Results {
    lane: Lane,
    result: &'static str,
}

impl Writes {
    /// An empty queue. `name` (`hub`, `member`) prefixes its metrics, as a process may write to two API servers.
    pub fn new(name: &str, metrics: &Metrics) -> Self {
        let measures = Measures {
            waited: Family::new_with_constructor(metrics::seconds),
            took: Family::new_with_constructor(metrics::seconds),
            results: Family::default(),
            waiting: Family::default(),
            limit: Gauge::default(),
        };
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix(format!("fleet_{name}_writes"));
            let Measures {
                waited,
                took,
                results,
                waiting,
                limit,
            } = &measures;
            registry.register("wait_seconds", "Time that writes waited for their turn", waited.clone());
            registry.register("request_seconds", "Time from request to answer", took.clone());
            registry.register("requests", "Writes by result", results.clone());
            registry.register("waiting", "Writes that wait for their turn", waiting.clone());
            registry.register("limit", "How many writes may be in flight", limit.clone());
        });
        let turns = Arc::new(Turns::new());
        let part = format!("writes to the {name}'s API server");
        metrics.dump().add(Section::Queues, &part, &turns, Turns::show);
        Self { turns, measures }
    }

    /// Writes an object when its turn comes. `body` is called then: it reads the newest state and gives the request, or
    /// `None` if there is nothing left to write, which `write` returns.
    ///
    /// `group` is what takes turns inside the lane, normally the placement. Cancelling while it waits is harmless.
    ///
    /// # Errors
    /// What the server answered. A request without an answer gives [`kube::Error::Service`]: its outcome is unknown, and
    /// the watch will tell.
    pub async fn write<T, F, R>(&self, lane: Lane, target: Target, group: &Key, body: F) -> Option<kube::Result<T>>
    where
        F: FnOnce() -> Option<R>,
        R: Future<Output = kube::Result<T>>,
    {
        let queued = Instant::now();
        let slot = self.turns.clone().take(lane, target, group.clone()).await;
        let labels = Labels { lane };
        let request = body()?;
        let started = Instant::now();
        self.measures
            .waited
            .get_or_create(&labels)
            .observe((started - queued).as_secs_f64());
        let result = match tokio::time::timeout(ANSWER_TIMEOUT, request).await {
            Ok(result) => result,
            Err(elapsed) => Err(kube::Error::Service(Box::new(elapsed))),
        };
        let took = started.elapsed();
        let word = word(&result);
        self.measures.took.get_or_create(&labels).observe(took.as_secs_f64());
        self.measures
            .results
            .get_or_create(&Results { lane, result: word })
            .inc();
        let throttled = word == "throttled";
        let sample = Sample {
            lane,
            started,
            took,
            in_flight: slot.in_flight(),
            throttled,
        };
        self.turns.observe(sample);
        self.measures
            .limit
            .set(i64::try_from(self.turns.limit()).unwrap_or(i64::MAX));
        drop(slot);
        for (lane, waiting) in Lane::ALL.into_iter().zip(self.turns.waiting()) {
            self.measures
                .waiting
                .get_or_create(&Labels { lane })
                .set(i64::try_from(waiting).unwrap_or(i64::MAX));
        }
        Some(result)
    }
}

/// The result as a label.
fn word<T>(result: &kube::Result<T>) -> &'static str {
    match result {
        Ok(_) => "success",
        Err(kube::Error::Api(status)) => match status.code {
            409 => "conflict",
            429 => "throttled",
            404 => "not_found",
            401 | 403 => "forbidden",
            500.. => "server_error",
            _ => "refused",
        },
        Err(_) => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use parking_lot::Mutex;

    use super::*;

    fn target(name: &str) -> Target {
        Target::new("works", Key::cluster(name))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_is_computed_when_its_turn_comes() {
        let writes = Writes::new("hub", &Metrics::new());
        let state = Arc::new(AtomicUsize::new(1));
        let sent = Arc::new(Mutex::new(Vec::new()));
        let write = || {
            let (writes, state, sent) = (writes.clone(), state.clone(), sent.clone());
            tokio::spawn(async move {
                let body = || {
                    let body = state.load(Ordering::SeqCst);
                    if sent.lock().last() == Some(&body) {
                        return None; // somebody else has sent it
                    }
                    sent.lock().push(body);
                    Some(async {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                        Ok(())
                    })
                };
                writes
                    .write(Lane::Status, target("a"), &Key::cluster("p"), body)
                    .await
                    .is_some()
            })
        };
        let first = write();
        tokio::task::yield_now().await;
        let (second, third) = (write(), write());
        tokio::task::yield_now().await;
        state.store(5, Ordering::SeqCst);
        let answers = [first.await.unwrap(), second.await.unwrap(), third.await.unwrap()];
        assert_eq!(answers, [true, true, false], "the second has what the third wanted");
        assert_eq!(*sent.lock(), [1, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn no_answer_is_an_unknown_outcome() {
        let metrics = Metrics::new();
        let writes = Writes::new("hub", &metrics);
        let body = || Some(std::future::pending::<kube::Result<()>>());
        let result = writes.write(Lane::Objects, target("a"), &Key::cluster("p"), body).await;
        assert!(matches!(result, Some(Err(kube::Error::Service(_)))));
        let text = metrics.encode();
        let line = r#"fleet_hub_writes_requests_total{lane="objects",result="unknown"} 1"#;
        assert!(text.contains(line), "{text}");
    }
}
