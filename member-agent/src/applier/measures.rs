//! What is counted and timed of rounds.

use std::{collections::BTreeSet, fmt, sync::Arc};

use fleet_api::{
    conditions::{self, Status},
    placement::{ManifestCondition, WorkStatus},
};
use fleet_runtime::metrics::{self, Metrics};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::{ConstGauge, Gauge},
        histogram::Histogram,
    },
};
use tokio::time::Instant;

/// Counters of rounds and manifests, by what came of them; how long Works take; what does not get on.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    works: Family<WorkLabels, Counter>,
    manifests: Family<ManifestLabels, Counter>,
    stages: Family<StageLabel, Histogram>,
    held: Gauge,
    stuck: Gauge,
    stuck_works: Arc<Mutex<BTreeSet<String>>>,
}

/// How far a generation of a Work has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Everything is applied.
    Applied,
    /// Everything is available.
    Available,
    /// The hub has stored the first report.
    Persisted,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StageLabel {
    stage: &'static str,
}

#[allow(clippy::struct_field_names, reason = "the labels that existing dashboards know")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct WorkLabels {
    apply_status: String,
    availability_status: String,
    diff_reporting_status: String,
}

#[allow(clippy::struct_field_names, reason = "the labels that existing dashboards know")]
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ManifestLabels {
    apply_status: String,
    availability_status: String,
    diff_reporting_status: String,
    drift_detection_status: &'static str,
    diff_detection_status: &'static str,
}

impl Measures {
    /// Registers everything. `orphans` counts the AppliedWorks without a Work, when asked.
    pub(super) fn new(metrics: &Metrics, orphans: impl Fn() -> usize + Send + Sync + 'static) -> Self {
        let new = Self {
            works: Family::default(),
            manifests: Family::default(),
            stages: Family::new_with_constructor(metrics::seconds),
            held: Gauge::default(),
            stuck: Gauge::default(),
            stuck_works: Arc::default(),
        };
        metrics.register(|registry| {
            registry.register(
                "fleet_work_applier_stage_seconds",
                "Time from seeing a generation of a Work until it is applied, available, stored by the hub",
                new.stages.clone(),
            );
            registry.register(
                "fleet_work_applier_held",
                "1 while nothing is touched because the hub went back in time",
                new.held.clone(),
            );
            registry.register(
                "fleet_work_applier_stuck_cleanups",
                "Deleted Works whose objects do not go",
                new.stuck.clone(),
            );
            registry.register_collector(Box::new(Orphans(Box::new(orphans))));
            registry.register(
                "fleet_work_processing_requests",
                "Rounds over Works, by what came of them",
                new.works.clone(),
            );
            registry.register(
                "fleet_manifest_processing_requests",
                "Manifests in rounds, by what came of them",
                new.manifests.clone(),
            );
        });
        new
    }

    /// A round ended with this status.
    pub(super) fn round(&self, status: &WorkStatus) {
        let [apply_status, availability_status, diff_reporting_status] = words(&status.conditions);
        let labels = WorkLabels {
            apply_status,
            availability_status,
            diff_reporting_status,
        };
        self.works.get_or_create(&labels).inc();
        for entry in &status.manifest_conditions {
            self.manifests.get_or_create(&labels_of(entry)).inc();
        }
    }
}

impl Measures {
    /// A generation that was seen at `since` has come this far.
    pub(super) fn stage(&self, stage: Stage, since: Instant) {
        let stage = match stage {
            Stage::Applied => "applied",
            Stage::Available => "available",
            Stage::Persisted => "persisted",
        };
        let label = StageLabel { stage };
        self.stages.get_or_create(&label).observe(since.elapsed().as_secs_f64());
    }

    /// Whether nothing is touched because the hub went back in time.
    pub(super) fn hold(&self, held: bool) {
        self.held.set(i64::from(held));
    }

    /// Whether the clean-up of a Work gets on.
    pub(super) fn stuck(&self, work: &str, is_stuck: bool) {
        let mut works = self.stuck_works.lock();
        if is_stuck {
            works.insert(work.to_owned());
        } else {
            works.remove(work);
        }
        self.stuck.set(i64::try_from(works.len()).unwrap_or(i64::MAX));
    }
}

/// Counted when scraped.
struct Orphans(Box<dyn Fn() -> usize + Send + Sync>);

impl fmt::Debug for Orphans {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Orphans")
    }
}

impl Collector for Orphans {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let gauge = ConstGauge::new(i64::try_from((self.0)()).unwrap_or(i64::MAX));
        let (name, help) = ("fleet_work_applier_orphans", "AppliedWorks that have no Work");
        gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
    }
}

fn labels_of(entry: &ManifestCondition) -> ManifestLabels {
    let found = |found: bool| if found { "Found" } else { "NotFound" };
    let [apply_status, availability_status, diff_reporting_status] = words(&entry.conditions);
    ManifestLabels {
        apply_status,
        availability_status,
        diff_reporting_status,
        drift_detection_status: found(entry.drift_details.is_some()),
        diff_detection_status: found(entry.diff_details.is_some()),
    }
}

fn words(list: &[Condition]) -> [String; 3] {
    ["Applied", "Available", "DiffReported"].map(|name| match conditions::find(list, name) {
        None => "Skipped".to_owned(),
        Some(condition) if Status::of(condition) == Status::Unknown => "Unknown".to_owned(),
        Some(condition) => condition.reason.clone(),
    })
}
