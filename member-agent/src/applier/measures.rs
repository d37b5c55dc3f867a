//! What is counted of rounds.

use fleet_api::{
    conditions::{self, Status},
    placement::{ManifestCondition, WorkStatus},
};
use fleet_runtime::metrics::Metrics;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
};

/// Counters of rounds and manifests, by what came of them.
#[derive(Clone, Debug)]
pub(super) struct Measures {
    works: Family<WorkLabels, Counter>,
    manifests: Family<ManifestLabels, Counter>,
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
    pub(super) fn new(metrics: &Metrics) -> Self {
        let new = Self {
            works: Family::default(),
            manifests: Family::default(),
        };
        metrics.register(|registry| {
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
