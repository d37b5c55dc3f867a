//! The Works of this cluster, read from the hub.

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use fleet_api::{
    annotations,
    conditions::{self, work as words},
    finalizers,
    guard::Guarded,
    names::ClusterName,
    part_of,
    placement::{AppliedWork, ApplyStrategyType, Work, WorkSpec, WorkStatus},
};
use fleet_core::{
    apply::{
        deletion::{HubNamespace, WorkView},
        identify,
    },
    session::{
        WorkRef,
        digest::{Digest, digest},
    },
};
use fleet_runtime::{
    Key,
    backoff::Backoff,
    cache::{Change, Era, Selection, Store, prune},
    client::answered,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    core::{ObjectMeta, PartialObjectMeta},
};
use tokio::time::timeout;

use super::digest::hex_digest;

/// Before the MemberCluster exists the hub refuses us.
const PATIENCE: Backoff = Backoff {
    min: Duration::from_millis(500),
    max: Duration::from_secs(5),
};

/// How long a question about the end of a Work may take.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// A Work without its status: of that only whether it is what we last said.
#[derive(Debug, Clone)]
pub(super) struct HubWork {
    meta: ObjectMeta,
    pub(super) spec: WorkSpec,
    pub(super) stored: Option<Digest>,
    /// The stored status says that this generation is applied and available, or compared.
    pub(super) is_well: bool,
    /// What its manifests are, in short.
    pub(super) content: u64,
}

part_of!(HubWork, Work, meta);

impl From<Work> for HubWork {
    fn from(work: Work) -> Self {
        Self {
            stored: work.status.as_ref().map(digest),
            is_well: is_well(&work),
            content: content(&work.spec),
            meta: work.metadata,
            spec: work.spec,
        }
    }
}

/// Tells one content from another of the same generation, which a hub that was restored from a backup may have.
fn content(spec: &WorkSpec) -> u64 {
    let mut hash = DefaultHasher::new();
    for manifest in &spec.workload.manifests {
        manifest.as_str().hash(&mut hash);
    }
    hash.finish()
}

fn is_well(work: &Work) -> bool {
    let generation = work.metadata.generation.unwrap_or_default();
    let status = work.status.as_ref();
    let is = |condition| status.is_some_and(|status| conditions::is_true(&status.conditions, condition, generation));
    let strategy = work.spec.apply_strategy.as_ref().map(|strategy| &strategy.type_);
    if strategy == Some(&ApplyStrategyType::ReportDiff) {
        is(words::DiffReported::TYPE)
    } else {
        is(words::Applied::TYPE) && is(words::Available::TYPE)
    }
}

impl HubWork {
    pub(super) fn created(&self) -> Option<Timestamp> {
        self.meta.creation_timestamp.as_ref().map(|time| time.0)
    }

    pub(super) fn name(&self) -> &str {
        self.meta.name.as_deref().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.meta.uid.as_deref().unwrap_or_default()
    }

    pub(super) fn generation(&self) -> i64 {
        self.meta.generation.unwrap_or_default()
    }

    /// The Work as messages name it.
    pub(super) fn reference(&self) -> WorkRef {
        WorkRef {
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
        }
    }

    /// The digest of its spec, as it is written down. An agent that knows more fields writes another text of the same
    /// spec, so its digests have another format, with which these are not compared.
    pub(super) fn spec_digest(&self) -> String {
        // What was decoded can be written.
        serde_json::to_string(&self.spec).map_or_else(|_| String::new(), |text| format!("v1:{}", hex_digest(&text)))
    }

    /// The namespaces that its objects may not leave.
    pub(super) fn bounds(&self) -> Vec<&str> {
        self.meta.labels.as_ref().map(identify::bounds).unwrap_or_default()
    }

    pub(super) fn view(&self) -> WorkView {
        let annotation = |key| self.meta.annotations.as_ref().and_then(|list| list.get(key));
        WorkView {
            deleting: self.meta.deletion_timestamp.is_some(),
            has_finalizer: self
                .meta
                .finalizers
                .iter()
                .flatten()
                .any(|finalizer| finalizer == finalizers::WORK),
            abandon: annotation(annotations::DELETE_PROPAGATION).is_some_and(|value| value == annotations::ABANDON),
        }
    }
}

/// The Works of this cluster, and where to ask about them when a cache will not do. Cheap to clone.
#[derive(Clone)]
pub(super) struct Works {
    pub(super) store: Store<HubWork>,
    hub: Client,
    cluster: ClusterName,
}

impl Works {
    pub(super) fn new(hub: Client, cluster: ClusterName) -> Self {
        Self {
            store: Store::<HubWork>::builder("works").prune(prune::<HubWork>).build(),
            hub,
            cluster,
        }
    }

    /// Keeps the store like the hub, for ever.
    pub(super) async fn watch(&self, era: &Era) {
        let api: Api<Guarded<Work>> = Api::namespaced(self.hub.clone(), &self.cluster.namespace());
        let selection = Selection {
            backoff: PATIENCE,
            ..Selection::all(era)
        };
        let decode = |guarded: Guarded<Work>| guarded.0.map(HubWork::from).map_err(|odd| odd.error);
        self.store.clone().watch(api, selection, decode).await;
    }

    pub(super) fn get(&self, name: &str) -> Option<Arc<HubWork>> {
        self.store.get(&Key::namespaced(self.cluster.namespace(), name))
    }

    pub(super) fn all(&self) -> Vec<Arc<HubWork>> {
        self.store.all()
    }

    /// Whether there is a Work of that name, once that can be told.
    pub(super) fn exists(&self, name: &str) -> Result<bool, String> {
        if self.store.is_synced() {
            Ok(self.get(name).is_some())
        } else {
            Err("the Works of this cluster have not been read yet".to_owned())
        }
    }

    /// AppliedWorks without a Work; none before both are known.
    pub(super) fn orphans(&self, applied: &Store<PartialObjectMeta<AppliedWork>>) -> Vec<String> {
        if !(self.store.is_synced() && applied.is_synced()) {
            return Vec::new();
        }
        let all = applied.all();
        let names = all.iter().filter_map(|object| object.metadata.name.clone());
        names.filter(|name| self.get(name).is_none()).collect()
    }

    /// The status that the hub has stored, read now.
    pub(super) async fn stored_status(&self, name: &str) -> kube::Result<WorkStatus> {
        let api: Api<Work> = Api::namespaced(self.hub.clone(), &self.cluster.namespace());
        let work = answered(api.get(name)).await?;
        Ok(work.status.unwrap_or_default())
    }

    /// Whether the Work is being deleted, read now.
    pub(super) async fn is_deleting(&self, work: &HubWork) -> bool {
        let api: Api<Work> = Api::namespaced(self.hub.clone(), &self.cluster.namespace());
        match timeout(ANSWER_TIMEOUT, api.get_metadata(work.name())).await {
            Ok(Ok(now)) => now.metadata.uid.as_deref() == Some(work.uid()) && now.metadata.deletion_timestamp.is_some(),
            Ok(Err(_)) | Err(_) => false,
        }
    }

    /// The namespace of this cluster on the hub, read now.
    pub(super) async fn hub_namespace(&self) -> HubNamespace {
        let api: Api<Namespace> = Api::all(self.hub.clone());
        match timeout(ANSWER_TIMEOUT, api.get(&self.cluster.namespace())).await {
            Ok(Ok(namespace)) => {
                let phase = namespace.status.and_then(|status| status.phase);
                if namespace.metadata.deletion_timestamp.is_some() || phase.as_deref() == Some("Terminating") {
                    HubNamespace::Terminating
                } else {
                    HubNamespace::Active
                }
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => HubNamespace::Gone,
            Ok(Err(kube::Error::Api(status))) if status.code == 403 => HubNamespace::Forbidden,
            Ok(Err(_)) | Err(_) => HubNamespace::Unknown,
        }
    }
}

/// Whether a change can mean something to do: another Work, spec, finalizer or deletion.
pub(super) fn matters(change: &Change<HubWork>) -> bool {
    change.differs(|work| (work.uid().to_owned(), work.generation(), work.content, work.view()))
}
