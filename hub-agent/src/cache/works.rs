//! A Work as the hub keeps it: everything that decides about a report, and no manifests.
//!
//! Manifests are most of a Work and nobody on the hub reads them back: a foreign edit shows as a generation that we did
//! not write. What remains of each is its identity, and of all their size, which the checks and the trimming of reports need.

use std::sync::OnceLock;

use fleet_api::{
    guard::Guarded,
    labels, part_of,
    placement::{ApplyStrategy, ReportBackStrategy, ReportBackStrategyType, Work, WorkSpec, WorkStatus, Workload},
    raw::RawJson,
};
use fleet_core::{
    session::{
        digest::{Digest, digest},
        trim::{self, shrink},
        work::{ManifestIdentity, StoredWork},
    },
    work::content_hash,
};
use fleet_runtime::{
    Key,
    cache::{Era, Index, Selection, Store},
};
use kube::{Api, Client, core::ObjectMeta};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// A Work without its manifests.
#[derive(Clone, Debug)]
pub(crate) struct HubWork {
    /// Its metadata.
    pub(crate) metadata: ObjectMeta,
    /// What each manifest is, in order.
    pub(crate) manifests: Box<[ManifestIdentity]>,
    /// Bytes of the whole spec as the API server sent it.
    pub(crate) spec_bytes: usize,
    /// A hash of the manifests, by which a foreign edit is noticed and our own recognised after a restart.
    pub(crate) hash: Box<str>,
    /// How the manifests are applied.
    pub(crate) apply_strategy: Option<ApplyStrategy>,
    /// Whether status is to be reported back.
    pub(crate) report_back: Option<ReportBackStrategy>,
    /// Its status as the API server sent it, unless that is a very large one: of it what can be kept.
    pub(crate) status: Option<RawJson>,
    /// Bytes of the status that the API server sent.
    pub(crate) status_bytes: usize,
    /// The digest of that, once somebody has asked.
    digest: OnceLock<Option<Digest>>,
}

/// Bytes that are kept of a status. What reports bring is bounded by the sum before it is written; this bounds what is there
/// already, whoever wrote it, when an agent starts.
const STATUS_KEPT: usize = 256 * 1024;

/// The store of all Works and its index by namespace.
#[derive(Clone, Debug)]
pub(crate) struct Works {
    /// Every Work.
    pub(crate) store: Store<HubWork>,
    /// By namespace.
    pub(crate) by_namespace: Index<HubWork, String>,
    /// By the binding that they were made for.
    pub(crate) by_binding: Index<HubWork, Key>,
}

impl Default for Works {
    fn default() -> Self {
        let mut builder = Store::builder("works");
        let by_namespace = builder.index(|work: &HubWork| work.metadata.namespace.iter().cloned().collect());
        let by_binding = builder.index(|work: &HubWork| work.binding().into_iter().collect());
        Self {
            store: builder.build(),
            by_namespace,
            by_binding,
        }
    }
}

impl Works {
    /// Keeps the store like the API server. Never ends.
    pub(crate) fn watch(&self, client: Client, era: &Era) -> impl Future<Output = ()> + Send + 'static {
        let api: Api<Guarded<HubWork>> = Api::all(client);
        self.store
            .clone()
            .watch(api, Selection::all(era), |guarded| guarded.0.map_err(|odd| odd.error))
    }
}

impl HubWork {
    /// The binding that it was made for, if its labels say so.
    pub(crate) fn binding(&self) -> Option<Key> {
        let labels = self.metadata.labels.as_ref()?;
        let name = labels.get(labels::PARENT_BINDING)?.as_str();
        Some(match labels.get(labels::PARENT_PLACEMENT_NAMESPACE) {
            Some(namespace) => Key::namespaced(namespace.as_str(), name),
            None => Key::cluster(name),
        })
    }

    /// The placement that it was made for, if its labels say so.
    pub(crate) fn placement(&self) -> Option<Key> {
        let labels = self.metadata.labels.as_ref()?;
        let name = labels.get(labels::PARENT_PLACEMENT)?.as_str();
        Some(match labels.get(labels::PARENT_PLACEMENT_NAMESPACE) {
            Some(namespace) => Key::namespaced(namespace.as_str(), name),
            None => Key::cluster(name),
        })
    }

    /// Its status, as far as it can be read: whatever somebody wrote there, the next report replaces it.
    pub(crate) fn read_status(&self) -> Option<WorkStatus> {
        self.status.as_ref().and_then(|status| status.parse().ok())
    }

    /// The digest of its status. Computed once, however often a member says Hello.
    pub(crate) fn status_digest(&self) -> Option<Digest> {
        *self.digest.get_or_init(|| self.read_status().as_ref().map(digest))
    }

    /// The Work as its binding's decisions need it: without manifests, whose hash stands for them.
    pub(crate) fn without_manifests(&self) -> Work {
        Work {
            metadata: self.metadata.clone(),
            spec: WorkSpec {
                workload: Workload::default(),
                apply_strategy: self.apply_strategy.clone(),
                report_back_strategy: self.report_back.clone(),
            },
            status: self.read_status(),
        }
    }

    /// The Work as reports about it are judged, whose status may have `room`.
    pub(crate) fn stored(&self, room: usize) -> StoredWork<'_> {
        let strategy = self.report_back.as_ref();
        StoredWork {
            metadata: &self.metadata,
            manifests: &self.manifests,
            spec_bytes: self.spec_bytes,
            mirror: strategy.is_some_and(|strategy| strategy.type_ == ReportBackStrategyType::Mirror),
            status: self.read_status(),
            room,
        }
    }

    /// The Work for decisions that look at metadata alone.
    pub(crate) fn outline(&self) -> Work {
        Work {
            metadata: self.metadata.clone(),
            spec: WorkSpec::default(),
            status: None,
        }
    }
}

/// What the status of a Work may come to beside those of the other Works of its member.
pub(crate) fn room(by_namespace: &Index<HubWork, String>, work: &HubWork) -> usize {
    let Some(namespace) = &work.metadata.namespace else {
        return 0;
    };
    let all = by_namespace.get(namespace);
    let others = all.iter().filter(|other| other.metadata.name != work.metadata.name);
    trim::room(others.map(|other| other.status_bytes).sum())
}

/// What is kept of a status, and the digest of the whole if it is more than that.
fn kept(status: RawJson) -> (Option<RawJson>, OnceLock<Option<Digest>>) {
    if status.as_str().len() <= STATUS_KEPT {
        return (Some(status), OnceLock::new());
    }
    let Ok(mut whole) = status.parse::<WorkStatus>() else {
        return (None, OnceLock::new());
    };
    let digest = digest(&whole);
    shrink(STATUS_KEPT, 0, &mut whole);
    (RawJson::from_serialize(&whole).ok(), OnceLock::from(Some(digest)))
}

impl<'de> Deserialize<'de> for HubWork {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Wire {
            #[serde(default)]
            metadata: ObjectMeta,
            #[serde(default)]
            spec: Option<Box<RawValue>>,
            #[serde(default)]
            status: Option<RawJson>,
        }
        #[derive(Deserialize, Default)]
        #[serde(rename_all = "camelCase")]
        struct Spec<'a> {
            #[serde(borrow, default)]
            workload: Option<Manifests<'a>>,
            #[serde(default)]
            apply_strategy: Option<ApplyStrategy>,
            #[serde(default)]
            report_back_strategy: Option<ReportBackStrategy>,
        }
        #[derive(Deserialize, Default)]
        struct Manifests<'a> {
            #[serde(borrow, default)]
            manifests: Option<Vec<&'a RawValue>>,
        }
        let hash = |manifests: &[&RawValue]| {
            let texts = manifests
                .iter()
                .filter_map(|text| RawJson::from_text(text.get().to_owned()).ok());
            content_hash(&texts.collect::<Vec<_>>())
        };
        let wire = Wire::deserialize(deserializer)?;
        let text = wire.spec.as_deref().map_or("null", RawValue::get);
        let spec: Option<Spec<'_>> = serde_json::from_str(text).map_err(serde::de::Error::custom)?;
        let spec = spec.unwrap_or_default();
        let manifests = spec.workload.unwrap_or_default().manifests.unwrap_or_default();
        let status = wire.status.filter(|status| status.as_str() != "null");
        let status_bytes = status.as_ref().map_or(0, |status| status.as_str().len());
        let (status, digest) = status.map(kept).unwrap_or_default();
        Ok(Self {
            metadata: wire.metadata,
            hash: hash(&manifests).into(),
            manifests: manifests.iter().map(|text| ManifestIdentity::of(text.get())).collect(),
            spec_bytes: text.len(),
            apply_strategy: spec.apply_strategy,
            report_back: spec.report_back_strategy,
            status,
            status_bytes,
            digest,
        })
    }
}

part_of!(HubWork, Work, metadata);

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const TEXT: &str = r#"{"apiVersion":"placement.kubernetes-fleet.io/v1beta1","kind":"Work",
        "metadata":{"name":"w","namespace":"fleet-member-a","uid":"u","generation":2},
        "spec":{"workload":{"manifests":[
            {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n"},"spec":{"big":"xxxxxxxxxxxxxxxxxxxxxxxxxx"}},
            {"apiVersion":7}]}},
        "status":{"conditions":[],"fromTheFuture":1}}"#;

    #[test]
    fn identities_and_sizes_remain() {
        let held: HubWork = serde_json::from_str(TEXT).unwrap();
        assert_eq!(held.manifests.len(), 2);
        assert_eq!(&*held.manifests[0].api_version, "apps/v1");
        assert_eq!(&*held.manifests[0].name, "d");
        assert_eq!(&*held.manifests[1].kind, "", "odd ones have no identity");
        let spec = TEXT.split_once(r#""spec":"#).unwrap().1.split_once("]}}").unwrap().0;
        assert_eq!(held.spec_bytes, spec.len() + "]}}".len());
        assert_eq!(held.status.unwrap().as_str(), r#"{"conditions":[],"fromTheFuture":1}"#);
    }

    #[test]
    fn a_work_with_nothing_in_it_is_read() {
        for text in [
            r#"{"metadata":{"name":"w"}}"#,
            r#"{"metadata":{"name":"w"},"spec":null,"status":null}"#,
            r#"{"metadata":{"name":"w"},"spec":{"workload":{"manifests":null}}}"#,
        ] {
            let held: HubWork = serde_json::from_str(text).unwrap();
            assert!(held.manifests.is_empty() && held.status.is_none(), "{text}");
            held.stored(0);
        }
    }

    #[test]
    fn a_second_hello_decodes_no_status_again() {
        let mut held: HubWork = serde_json::from_str(TEXT).unwrap();
        let first = held.status_digest();
        assert_eq!(first, held.read_status().as_ref().map(digest));
        assert!(first.is_some());
        // Nothing is left to decode.
        held.status = None;
        assert_eq!(held.status_digest(), first);
    }

    #[test]
    fn of_a_very_large_status_what_it_says_is_kept_and_its_digest() {
        let drifts: Vec<_> = (0..60)
            .map(|i| json!({ "path": format!("/data/{i}"), "valueInMember": "m".repeat(10_000), "valueInHub": "h".repeat(10_000) }))
            .collect();
        let time = "2026-01-01T00:00:00Z";
        let status = json!({
            "conditions": [{ "type": "Applied", "status": "False", "reason": "R", "message": "m", "lastTransitionTime": time }],
            "manifestConditions": [{ "identifier": { "ordinal": 0, "name": "d" }, "conditions": [],
                "driftDetails": { "observationTime": time, "observedInMemberClusterGeneration": 1,
                    "firstDriftedObservedTime": time, "observedDrifts": drifts } }],
        });
        let whole: WorkStatus = serde_json::from_value(status.clone()).unwrap();
        let text = json!({ "metadata": { "name": "w", "namespace": "n" }, "status": status }).to_string();
        // As after a restart: hundreds of them, all at once.
        let all: Vec<HubWork> = (0..300).map(|_| serde_json::from_str(&text).unwrap()).collect();
        let kept: usize = all
            .iter()
            .map(|work| work.status.as_ref().unwrap().as_str().len())
            .sum();
        assert!(kept < 16 << 20, "{kept}");
        assert!(all[0].status_bytes > 1_200_000, "the sum counts what is stored");
        assert_eq!(all[0].status_digest(), Some(digest(&whole)));
        let said = all[0].read_status().unwrap();
        assert_eq!(said.conditions, whole.conditions);
        let drift = said.manifest_conditions[0].drift_details.as_ref().unwrap();
        assert_eq!(drift.observed_drifts[0].path, "/data/0 and 59 more path(s)");
    }
}
