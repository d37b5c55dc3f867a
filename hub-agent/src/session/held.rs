//! A Work as the hub keeps it: everything that decides about a report, and no manifests.
//!
//! Manifests are most of a Work and nobody on the hub reads them back: a foreign edit shows as a generation that we did
//! not write. What remains of each is its identity and its size, which the checks and the trimming of reports need.

use std::borrow::Cow;

use fleet_api::{
    guard::Guarded,
    labels,
    placement::{ApplyStrategy, ReportBackStrategy, Work, WorkSpec, WorkStatus, Workload},
    raw::RawJson,
};
use fleet_core::work::content_hash;
use fleet_runtime::{
    Key,
    cache::{Index, Selection, Store},
};
use k8s_openapi::NamespaceResourceScope;
use kube::{Api, Client, Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer};
use serde_json::{json, value::RawValue};

/// A Work without its manifests.
#[derive(Clone, Debug)]
pub struct HeldWork {
    /// Its metadata.
    pub metadata: ObjectMeta,
    /// What each manifest is, in order.
    pub manifests: Box<[ManifestIdentity]>,
    /// Bytes of the whole spec as the API server sent it.
    pub spec_bytes: usize,
    /// A hash of the manifests, by which a foreign edit is noticed and our own recognised after a restart.
    pub hash: Box<str>,
    /// How the manifests are applied.
    pub apply_strategy: Option<ApplyStrategy>,
    /// Whether status is to be reported back.
    pub report_back: Option<ReportBackStrategy>,
    /// Its status as the API server sent it.
    pub status: Option<RawJson>,
}

/// What identifies a manifest. Empty strings where it says nothing; all empty if it cannot be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ManifestIdentity {
    /// Group and version.
    pub api_version: Box<str>,
    /// Kind.
    pub kind: Box<str>,
    /// Namespace.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
    /// Bytes of its text.
    pub bytes: usize,
}

/// The store of all Works and its index by namespace.
#[derive(Clone, Debug)]
pub struct Works {
    /// Every Work.
    pub store: Store<HeldWork>,
    /// By namespace.
    pub by_namespace: Index<HeldWork, String>,
    /// By the binding that they were made for.
    pub by_binding: Index<HeldWork, Key>,
}

impl Default for Works {
    fn default() -> Self {
        let mut builder = Store::builder("works");
        let by_namespace = builder.index(|work: &HeldWork| work.metadata.namespace.iter().cloned().collect());
        let by_binding = builder.index(|work: &HeldWork| work.binding().into_iter().collect());
        Self {
            store: builder.build(),
            by_namespace,
            by_binding,
        }
    }
}

impl Works {
    /// Keeps the store like the API server. Never ends.
    pub fn watch(&self, client: Client) -> impl Future<Output = ()> + Send + 'static {
        let api: Api<Guarded<HeldWork>> = Api::all(client);
        self.store
            .clone()
            .watch(api, Selection::default(), |guarded| guarded.0.map_err(|odd| odd.error))
    }
}

impl HeldWork {
    /// The binding that it was made for, if its labels say so.
    pub fn binding(&self) -> Option<Key> {
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
    pub fn read_status(&self) -> Option<WorkStatus> {
        self.status.as_ref().and_then(|status| status.parse().ok())
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

    /// The Work that decisions are made about: each manifest is a stand-in of the same identity and the same size.
    pub(super) fn stand_in(&self) -> Work {
        let mut manifests: Vec<RawJson> = self.manifests.iter().map(ManifestIdentity::stand_in).collect();
        // What else is in the spec, roughly: the limit that it counts towards leaves room for more.
        let listed: usize = self.manifests.iter().map(|m| m.bytes).sum();
        if let Some((last, rest)) = self.manifests.last().zip(self.spec_bytes.checked_sub(listed))
            && let Some(stand_in) = manifests.last_mut()
        {
            *stand_in = last.padded(last.bytes + rest);
        }
        Work {
            metadata: self.metadata.clone(),
            spec: WorkSpec {
                workload: Workload { manifests },
                report_back_strategy: self.report_back.clone(),
                ..WorkSpec::default()
            },
            status: self.read_status(),
        }
    }

    /// The same for decisions that look at metadata alone.
    pub(super) fn outline(&self) -> Work {
        Work {
            metadata: self.metadata.clone(),
            spec: WorkSpec::default(),
            status: None,
        }
    }
}

impl ManifestIdentity {
    fn of(text: &RawValue) -> Self {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Manifest<'a> {
            #[serde(borrow, default)]
            api_version: Cow<'a, str>,
            #[serde(borrow, default)]
            kind: Cow<'a, str>,
            #[serde(borrow, default)]
            metadata: Option<Metadata<'a>>,
        }
        #[derive(Deserialize, Default)]
        struct Metadata<'a> {
            #[serde(borrow, default)]
            name: Option<Cow<'a, str>>,
            #[serde(borrow, default)]
            namespace: Option<Cow<'a, str>>,
        }
        let bytes = text.get().len();
        let Ok(manifest) = serde_json::from_str::<Manifest<'_>>(text.get()) else {
            return Self {
                bytes,
                ..Self::default()
            };
        };
        let metadata = manifest.metadata.unwrap_or_default();
        Self {
            api_version: manifest.api_version.into(),
            kind: manifest.kind.into(),
            namespace: metadata.namespace.unwrap_or_default().into(),
            name: metadata.name.unwrap_or_default().into(),
            bytes,
        }
    }

    fn stand_in(&self) -> RawJson {
        self.padded(self.bytes)
    }

    fn padded(&self, bytes: usize) -> RawJson {
        let text = json!({
            "apiVersion": self.api_version,
            "kind": self.kind,
            "metadata": { "name": self.name, "namespace": self.namespace },
        })
        .to_string();
        // Spaces after the brace are JSON too.
        let padding = " ".repeat(bytes.saturating_sub(text.len()));
        let padded = format!("{{{padding}{}", text.strip_prefix('{').unwrap_or("}"));
        RawJson::from_text(padded).unwrap_or_else(|_| RawJson::from(json!({})))
    }
}

impl<'de> Deserialize<'de> for HeldWork {
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
        Ok(Self {
            metadata: wire.metadata,
            hash: hash(&manifests).into(),
            manifests: manifests.into_iter().map(ManifestIdentity::of).collect(),
            spec_bytes: text.len(),
            apply_strategy: spec.apply_strategy,
            report_back: spec.report_back_strategy,
            status: wire.status.filter(|status| status.as_str() != "null"),
        })
    }
}

impl Resource for HeldWork {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        Work::kind(&())
    }

    fn group((): &()) -> Cow<'_, str> {
        Work::group(&())
    }

    fn version((): &()) -> Cow<'_, str> {
        Work::version(&())
    }

    fn plural((): &()) -> Cow<'_, str> {
        Work::plural(&())
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"{"apiVersion":"placement.kubernetes-fleet.io/v1beta1","kind":"Work",
        "metadata":{"name":"w","namespace":"fleet-member-a","uid":"u","generation":2},
        "spec":{"workload":{"manifests":[
            {"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":"n"},"spec":{"big":"xxxxxxxxxxxxxxxxxxxxxxxxxx"}},
            {"apiVersion":7}]}},
        "status":{"conditions":[],"fromTheFuture":1}}"#;

    #[test]
    fn identities_and_sizes_remain() {
        let held: HeldWork = serde_json::from_str(TEXT).unwrap();
        assert_eq!(held.manifests.len(), 2);
        assert_eq!(&*held.manifests[0].api_version, "apps/v1");
        assert_eq!(&*held.manifests[0].name, "d");
        assert_eq!(&*held.manifests[1].kind, "", "odd ones have no identity");
        let full: Work = serde_json::from_str(TEXT).unwrap();
        let stand_in = held.stand_in();
        assert_eq!(
            stand_in.spec.workload.manifests[0].as_str().len(),
            full.spec.workload.manifests[0].as_str().len()
        );
        let size = |spec: &WorkSpec| serde_json::to_string(spec).unwrap().len();
        assert!(
            size(&stand_in.spec) >= size(&full.spec),
            "never smaller than the original"
        );
        assert_eq!(held.status.unwrap().as_str(), r#"{"conditions":[],"fromTheFuture":1}"#);
    }

    #[test]
    fn a_work_with_nothing_in_it_is_read() {
        for text in [
            r#"{"metadata":{"name":"w"}}"#,
            r#"{"metadata":{"name":"w"},"spec":null,"status":null}"#,
            r#"{"metadata":{"name":"w"},"spec":{"workload":{"manifests":null}}}"#,
        ] {
            let held: HeldWork = serde_json::from_str(text).unwrap();
            assert!(held.manifests.is_empty() && held.status.is_none(), "{text}");
            held.stand_in();
        }
    }
}
