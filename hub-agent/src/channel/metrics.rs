//! What the channel counts. No label carries a member's name: their number has no bound.

use fleet_runtime::metrics::{Metrics, seconds};
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    answer: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfType {
    r#type: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Because {
    reason: &'static str,
}

/// The channel's families. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measures {
    /// Open sessions.
    pub(crate) sessions: Gauge,
    hellos: Family<Answered, Counter>,
    messages: Family<OfType, Counter>,
    persisted: Family<OfKind, Counter>,
    refused: Family<Because, Counter>,
    closed: Family<Because, Counter>,
    held_back: Family<Because, Counter>,
    heartbeat: Option<Histogram>,
}

impl Measures {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        let heartbeat = seconds();
        let new = Self {
            heartbeat: Some(heartbeat.clone()),
            ..Self::default()
        };
        metrics.register(|registry| {
            let registry = registry.sub_registry_with_prefix("fleet_channel");
            registry.register("sessions", "Members connected to this replica", new.sessions.clone());
            registry.register("hellos", "Attempts to open a session by answer", new.hellos.clone());
            registry.register("messages", "Messages of members by type", new.messages.clone());
            registry.register(
                "persisted",
                "Writes that members' messages caused, by kind",
                new.persisted.clone(),
            );
            registry.register(
                "refused",
                "Messages that changed nothing, by reason",
                new.refused.clone(),
            );
            registry.register(
                "held_back",
                "Times that something of a member had to wait, by reason",
                new.held_back.clone(),
            );
            registry.register("closed", "Sessions closed by the hub, by reason", new.closed.clone());
            registry.register(
                "heartbeat_write_seconds",
                "Time from a heartbeat's arrival until it was stored",
                heartbeat,
            );
        });
        new
    }

    pub(crate) fn hello(&self, answer: &'static str) {
        self.hellos.get_or_create(&Answered { answer }).inc();
    }

    pub(crate) fn message(&self, r#type: &'static str) {
        self.messages.get_or_create(&OfType { r#type }).inc();
    }

    pub(crate) fn persisted(&self, kind: &'static str) {
        self.persisted.get_or_create(&OfKind { kind }).inc();
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&Because { reason }).inc();
    }

    pub(crate) fn closed(&self, reason: &'static str) {
        self.closed.get_or_create(&Because { reason }).inc();
    }

    pub(crate) fn held_back(&self, reason: &'static str) {
        self.held_back.get_or_create(&Because { reason }).inc();
    }

    /// A heartbeat was stored so long after it came.
    pub(crate) fn heartbeat_stored(&self, after: jiff::SignedDuration) {
        if let Some(histogram) = &self.heartbeat {
            histogram.observe(after.as_secs_f64().max(0.0));
        }
    }
}
