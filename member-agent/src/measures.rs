//! What the agent measures about itself, besides what the runtime does.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicI64},
};

use fleet_runtime::metrics::Metrics;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
    },
};
use tokio::time::Instant;

/// The agent's own metrics. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Measures {
    joins: Family<ResultLabel, Gauge>,
    leaves: Family<ResultLabel, Gauge>,
    session: Gauge<i64, AtomicI64>,
    reconnects: Family<ReasonLabel, Counter>,
    behind: Gauge<i64, AtomicI64>,
    unanswered: Gauge<i64, AtomicI64>,
    ages: Ages,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ResultLabel {
    result: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

const SUCCESS: ResultLabel = ResultLabel { result: "success" };

impl Measures {
    /// Registers everything.
    pub fn new(metrics: &Metrics) -> Self {
        let new = Self {
            joins: Family::default(),
            leaves: Family::default(),
            session: Gauge::default(),
            reconnects: Family::default(),
            behind: Gauge::default(),
            unanswered: Gauge::default(),
            ages: Ages::default(),
        };
        metrics.register(|registry| {
            // Gauges that only grow: a counter would be named `…_total`, which existing dashboards do not know.
            registry.register("join_result_counter", "Times this cluster joined", new.joins.clone());
            registry.register("leave_result_counter", "Times this cluster left", new.leaves.clone());
            registry.register(
                "fleet_member_session_accepted",
                "1 while the hub has accepted our session",
                new.session.clone(),
            );
            registry.register(
                "fleet_member_session_ended",
                "Sessions and attempts that ended, by reason",
                new.reconnects.clone(),
            );
            registry.register(
                "fleet_member_imc_generations_behind",
                "How far our InternalMemberCluster is behind the hub's, as of the last Accept",
                new.behind.clone(),
            );
            registry.register(
                "fleet_member_reports_unanswered",
                "Reports that the hub has not answered for good",
                new.unanswered.clone(),
            );
            registry.register_collector(Box::new(new.ages.clone()));
        });
        new
    }

    /// This cluster joined.
    pub fn joined(&self) {
        self.joins.get_or_create(&SUCCESS).inc();
    }

    /// This cluster left.
    pub fn left(&self) {
        self.leaves.get_or_create(&SUCCESS).inc();
    }

    /// The hub accepted a session; its InternalMemberCluster is so many generations ahead of ours.
    pub fn accepted(&self, generations_behind: i64) {
        self.session.set(1);
        self.behind.set(generations_behind.max(0));
    }

    /// A session or an attempt ended.
    pub fn ended(&self, reason: &'static str) {
        self.session.set(0);
        self.reconnects.get_or_create(&ReasonLabel { reason }).inc();
    }

    /// The hub answered a report; so many are left.
    pub fn answered(&self, left: usize) {
        self.unanswered.set(i64::try_from(left).unwrap_or(i64::MAX));
        *self.ages.last_answer.lock() = Some(Instant::now());
    }

    /// When the token for the hub ends, if it does.
    pub fn token_ends(&self, at: Option<Timestamp>) {
        *self.ages.token_ends.lock() = at;
    }

    /// The hub watch is interrupted since now, or works.
    pub fn hub_watch(&self, works: bool) {
        let mut since = self.ages.interrupted.lock();
        match (works, &*since) {
            (true, _) => *since = None,
            (false, None) => *since = Some(Instant::now()),
            (false, Some(_)) => {}
        }
    }
}

/// Ages, computed when scraped.
#[derive(Clone, Debug, Default)]
struct Ages {
    last_answer: Arc<Mutex<Option<Instant>>>,
    interrupted: Arc<Mutex<Option<Instant>>>,
    token_ends: Arc<Mutex<Option<Timestamp>>>,
}

impl Collector for Ages {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let mut gauge = |name, help, seconds: f64| {
            let gauge = ConstGauge::new(seconds);
            gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
        };
        // Before the first answer there is no age: absent is better than a number that looks fine.
        if let Some(at) = *self.last_answer.lock() {
            gauge(
                "fleet_member_session_last_answer_age_seconds",
                "Time since the hub last answered a report",
                at.elapsed().as_secs_f64(),
            )?;
        }
        #[expect(clippy::cast_precision_loss, reason = "seconds of this age fit")]
        if let Some(at) = *self.token_ends.lock() {
            gauge(
                "fleet_member_hub_token_end_timestamp_seconds",
                "When the token for the hub ends; absent if it never does",
                at.as_second() as f64,
            )?;
        }
        let lag = self.interrupted.lock().map_or(0.0, |at| at.elapsed().as_secs_f64());
        gauge(
            "fleet_member_hub_watch_lag_seconds",
            "How long the watch on the hub has been interrupted; 0 while it works",
            lag,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn names_are_those_that_dashboards_know() {
        let metrics = Metrics::new();
        let measures = Measures::new(&metrics);
        measures.joined();
        measures.left();
        measures.accepted(-1);
        measures.answered(3);
        measures.hub_watch(false);
        tokio::time::advance(std::time::Duration::from_secs(4)).await;
        measures.hub_watch(false);
        measures.ended("not_member");
        assert!(!metrics.encode().contains("fleet_member_hub_token_end"));
        measures.token_ends(Some(Timestamp::from_second(1_800_000_000).unwrap()));
        let text = metrics.encode();
        for line in [
            "join_result_counter{result=\"success\"} 1\n",
            "leave_result_counter{result=\"success\"} 1\n",
            "fleet_member_session_accepted 0\n",
            "fleet_member_session_ended_total{reason=\"not_member\"} 1\n",
            "fleet_member_reports_unanswered 3\n",
            "fleet_member_session_last_answer_age_seconds 4.0\n",
            "fleet_member_hub_watch_lag_seconds 4.0\n",
            "fleet_member_hub_token_end_timestamp_seconds 1800000000.0\n",
        ] {
            assert!(text.contains(line), "{line}{text}");
        }
    }
}
