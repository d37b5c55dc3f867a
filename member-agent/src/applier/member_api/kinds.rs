//! Which kinds this cluster serves, read group version by group version, as manifests name them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use fleet_api::raw::RawJson;
use fleet_runtime::{client::answered, logs};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Api, Client, api::ListParams, core::ApiResource};
use parking_lot::Mutex;
use serde::Deserialize;

/// A kind as a manifest names it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::applier) struct Gvk {
    pub(in crate::applier) group: String,
    pub(in crate::applier) version: String,
    pub(in crate::applier) kind: String,
}

impl Gvk {
    /// The kind of a manifest, if it can be read.
    pub(in crate::applier) fn of(manifest: &RawJson) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head {
            api_version: String,
            kind: String,
        }
        let Head { api_version, kind } = manifest.parse().ok()?;
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind,
        })
    }

    fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }
}

/// A kind as this cluster serves it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::applier) struct Kind {
    pub(in crate::applier) resource: ApiResource,
    pub(in crate::applier) namespaced: bool,
}

type Served = BTreeMap<String, Kind>;

/// What is known of the kinds of this cluster. Cheap to clone.
#[derive(Clone)]
pub(in crate::applier) struct Kinds {
    client: Client,
    /// By group version: its kinds, or why they are not known.
    known: Arc<Mutex<BTreeMap<String, Result<Served, String>>>>,
}

impl Kinds {
    pub(in crate::applier) fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
        }
    }

    /// Reads what is not known yet of the kinds that these manifests have. A kind that was missing is looked for again.
    pub(in crate::applier) async fn learn(&self, wanted: impl IntoIterator<Item = Gvk>) {
        let missing: BTreeSet<(String, String)> = wanted
            .into_iter()
            // It becomes a URL, and nothing else is a group or version.
            .filter(|gvk| is_plain(&gvk.group) && is_plain(&gvk.version) && self.find(gvk).is_err())
            .map(|gvk| (gvk.group.clone(), gvk.version))
            .collect();
        self.ask(missing).await;
    }

    async fn ask(&self, versions: BTreeSet<(String, String)>) {
        for (group, version) in versions {
            let api_version = if group.is_empty() {
                version.clone()
            } else {
                format!("{group}/{version}")
            };
            let answer = if group.is_empty() {
                answered(self.client.list_core_api_resources(&version)).await
            } else {
                answered(self.client.list_api_group_resources(&api_version)).await
            };
            let served = match answer {
                Ok(list) => Ok(served(&group, &version, list.resources)),
                Err(kube::Error::Api(status)) if status.code == 404 => Ok(Served::new()),
                Err(error) => Err(logs::chain(&error).to_string()),
            };
            let mut known = self.known.lock();
            // What others need stays known although one kind could not be looked for.
            if served.is_ok() || !matches!(known.get(&api_version), Some(Ok(_))) {
                known.insert(api_version, served);
            }
        }
    }

    /// Reads kinds again about which there is doubt. What is not answered stays as it was known.
    pub(in crate::applier) async fn learn_again(&self, doubted: Vec<Gvk>) {
        let versions: BTreeSet<(String, String)> = doubted.into_iter().map(|gvk| (gvk.group, gvk.version)).collect();
        self.ask(versions).await;
    }

    /// Where a kind is served that is not in the version that is known of it.
    pub(in crate::applier) async fn elsewhere(&self, gvk: &Gvk) -> Elsewhere {
        if gvk.group.is_empty() {
            let known = self.known.lock();
            return match known.get(&gvk.version) {
                Some(Ok(_)) => Elsewhere::Nowhere,
                _ => Elsewhere::Unknown,
            };
        }
        let Ok(groups) = answered(self.client.list_api_groups()).await else {
            return Elsewhere::Unknown;
        };
        let Some(group) = groups.groups.into_iter().find(|group| group.name == gvk.group) else {
            return self.unlisted(&gvk.group).await;
        };
        for version in group.versions {
            let other = Gvk {
                version: version.version,
                ..gvk.clone()
            };
            self.learn([other.clone()]).await;
            if let Ok(kind) = self.find(&other) {
                return Elsewhere::Served(kind);
            }
            if !matches!(self.known.lock().get(&other.api_version()), Some(Ok(_))) {
                return Elsewhere::Unknown;
            }
        }
        Elsewhere::Nowhere
    }

    /// A group that is not listed is gone, unless its API server only does not answer.
    async fn unlisted(&self, group: &str) -> Elsewhere {
        let services: Api<APIService> = Api::all(self.client.clone());
        let Ok(services) = answered(services.list(&ListParams::default())).await else {
            return Elsewhere::Unknown;
        };
        let of_group = |service: &APIService| {
            let spec = service.spec.as_ref();
            spec.is_some_and(|spec| spec.group.as_deref() == Some(group))
        };
        if services.items.iter().any(of_group) {
            Elsewhere::Unknown
        } else {
            Elsewhere::Nowhere
        }
    }

    /// The kind, as far as it was learnt.
    pub(in crate::applier) fn find(&self, gvk: &Gvk) -> Result<Kind, String> {
        let api_version = gvk.api_version();
        match self.known.lock().get(&api_version) {
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(served)) if served.contains_key(&gvk.kind) => Ok(served[&gvk.kind].clone()),
            _ => Err(format!(
                "no matches for kind \"{}\" in version \"{api_version}\"",
                gvk.kind
            )),
        }
    }

    /// The API server does not serve what is known of this kind's version.
    pub(in crate::applier) fn forget(&self, gvk: &Gvk) {
        self.known.lock().remove(&gvk.api_version());
    }
}

/// Where a kind is served.
pub(in crate::applier) enum Elsewhere {
    /// In another version.
    Served(Kind),
    /// Its definition is gone, and its objects with it.
    Nowhere,
    /// That cannot be told now.
    Unknown,
}

fn is_plain(part: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    part.chars().all(plain) && !part.contains("..")
}

fn served(
    group: &str,
    version: &str,
    resources: Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::APIResource>,
) -> Served {
    resources
        .into_iter()
        // Subresources are no kinds of their own.
        .filter(|resource| !resource.name.contains('/'))
        .map(|resource| {
            let kind = Kind {
                resource: ApiResource {
                    group: group.to_owned(),
                    version: version.to_owned(),
                    api_version: if group.is_empty() {
                        version.to_owned()
                    } else {
                        format!("{group}/{version}")
                    },
                    kind: resource.kind.clone(),
                    plural: resource.name,
                },
                namespaced: resource.namespaced,
            };
            (resource.kind, kind)
        })
        .collect()
}
