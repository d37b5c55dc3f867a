//! A member that sends as much as it may and more, and what that costs: for scenarios and benchmarks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use fleet_api::cluster::PropertyValue;
use fleet_api::conditions::Status;
use fleet_api::names::MEMBER_NAMESPACE_PREFIX;
use fleet_api::placement::Work;
use fleet_api::placement::{PatchDetail, WorkResourceIdentifier};
use fleet_core::session::WorkRef;
use fleet_core::session::cluster::PropertiesReport;
use fleet_core::session::merge::{Details, Differences, ManifestReport};
use fleet_core::session::work::{Phase, WorkReport};
use fleet_proto::convert::{FromMember, MemberMessage};
use futures::TryStreamExt as _;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt as _};
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::now;
use crate::scripted_member::{Address, ScriptedMember, condition, hello};

/// The longest value that a difference may have.
const VALUE: usize = 16 * 1024;
/// Differences that make a report of 1.3 MB, which is stored whole.
pub const STORED: usize = 40;
/// Differences that make a report of 3.3 MB, close to the largest message: cut by the hub before it is stored.
pub const LARGEST: usize = 100;

/// Bytes of a manifest that leave little room in a Work: each report about it, however short, stores all of them again.
pub const FAT: usize = 1_200_000;

/// A Work with one manifest of so many bytes in a member's namespace.
pub async fn work(client: &Client, namespace: &str, name: &str, bytes: usize) -> Result<Work> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"},
        "data": {"text": "x".repeat(bytes)},
    });
    let spec = json!({"workload": {"manifests": [map]}});
    let work = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
    let works = Api::<Work>::namespaced(client.clone(), namespace);
    Ok(works.create(&PostParams::default(), &work).await?)
}

/// A report with so many differences, different each time.
pub fn report(work: &Work, differences: usize, round: u64) -> MemberMessage {
    let detail = |i| PatchDetail {
        path: format!("/data/{i}"),
        value_in_member: format!("{round:0VALUE$}"),
        value_in_hub: "h".repeat(VALUE),
    };
    let identifier = WorkResourceIdentifier {
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        resource: "configmaps".to_owned(),
        namespace: "default".to_owned(),
        name: "c".to_owned(),
        ..WorkResourceIdentifier::default()
    };
    let drift = Differences {
        observed_at: now(),
        generation: Some(1),
        details: (0..differences).map(detail).collect(),
    };
    let mut applied = condition("Applied", Status::True, "WorkAppliedCompletely");
    applied.message = format!("round {round}");
    MemberMessage::WorkStatus(WorkReport {
        work: WorkRef {
            name: work.name_any(),
            uid: work.uid().unwrap_or_default(),
        },
        observed_generation: 1,
        phase: Phase::Result,
        conditions: vec![applied],
        manifests: vec![ManifestReport {
            identifier,
            conditions: vec![condition("Applied", Status::True, "Applied")],
            details: (differences > 0).then_some(Details::Drift(drift)),
            mirrored: None,
        }],
    })
}

/// What a member says of its cluster, almost as much of it as it may, different each time.
pub fn properties(member: &ScriptedMember, round: u64) -> MemberMessage {
    let value = format!("{round:0VALUE$}").repeat(7);
    let property = |i| {
        let value = PropertyValue {
            value: value.clone(),
            observation_time: Time(now()),
        };
        (format!("example.com/large-{i}"), value)
    };
    MemberMessage::Properties(PropertiesReport {
        imc_uid: member.imc_uid.clone(),
        imc_generation: member.imc_generation,
        collected: true,
        properties: (0..4).map(property).collect(),
        usage: None,
        namespaces: None,
        conditions: vec![],
    })
}

/// What a flood came to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flood {
    /// Sessions that were accepted.
    pub sessions: u64,
    /// Attempts to open one.
    pub attempts: u64,
    /// Reports that were handed to the network.
    pub reports: u64,
}

/// Sends much about its cluster, short reports about fat Works and the largest about thin ones, reads nothing, and reconnects
/// every few of them, until the time is over.
pub async fn flood(
    address: &Address,
    token: &str,
    member: &str,
    (fat, thin): (&[Work], &[Work]),
    until: Instant,
) -> Flood {
    let (mut flood, mut round) = (Flood::default(), 0);
    while Instant::now() < until {
        flood.attempts += 1;
        let Ok(mut stream) = ScriptedMember::dial(address, Some(token)).await else {
            continue;
        };
        if stream.open(hello(member)).await.is_err() {
            continue;
        }
        flood.sessions += 1;
        let short = fat.iter().map(|work| (work, 0)).cycle().take(20 * fat.len());
        let long = thin.iter().zip([STORED, LARGEST].into_iter().cycle()).cycle().take(4);
        let said = std::iter::once(None).chain(short.chain(long).map(Some));
        for said in said {
            round += 1;
            let message = FromMember {
                seq: round + 1,
                epoch: stream.epoch,
                body: said.map_or_else(
                    || properties(&stream, round),
                    |(work, differences)| report(work, differences, round),
                ),
            };
            let left = until
                .saturating_duration_since(Instant::now())
                .min(Duration::from_secs(2));
            if left.is_zero() || timeout(left, stream.push(message.into())).await.is_err() {
                break;
            }
            flood.reports += 1;
        }
    }
    flood
}

/// Counts what the API server stores for a member: the size of every version of its Works, and of what it says of itself
/// wherever that is copied.
#[derive(Debug)]
pub struct Stored {
    bytes: Arc<AtomicU64>,
    /// End with it.
    _watches: JoinSet<()>,
}

/// Where that is: group, version, kind, and whether it is in the member's namespace.
const KEPT: [(&str, &str, &str, bool); 4] = [
    ("placement.kubernetes-fleet.io", "v1beta1", "Work", true),
    ("cluster.kubernetes-fleet.io", "v1beta1", "InternalMemberCluster", true),
    ("cluster.kubernetes-fleet.io", "v1beta1", "MemberCluster", false),
    ("multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", false),
];

impl Stored {
    /// Begins to count.
    pub async fn count(client: &Client, namespace: &str) -> Result<Self> {
        let member = namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX).unwrap_or(namespace);
        let (bytes, mut watches) = (Arc::<AtomicU64>::default(), JoinSet::new());
        for (group, version, kind, inside) in KEPT {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
            let (api, list, watch) = (
                client.clone(),
                ListParams::default(),
                WatchParams::default().timeout(290),
            );
            let (api, list, watch) = if inside {
                (Api::namespaced_with(api, namespace, &resource), list, watch)
            } else {
                let own = format!("metadata.name={member}");
                (Api::all_with(api, &resource), list.fields(&own), watch.fields(&own))
            };
            watches.spawn(count(api, list, watch, bytes.clone()).await?);
        }
        Ok(Self {
            bytes,
            _watches: watches,
        })
    }

    /// So far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }
}

/// Adds up the versions of these objects from now on.
async fn count(
    api: Api<DynamicObject>,
    list: ListParams,
    watch: WatchParams,
    sum: Arc<AtomicU64>,
) -> Result<impl Future<Output = ()> + Send + 'static> {
    let from = api.list_metadata(&list).await?;
    let version = from.metadata.resource_version.context("a list without a version")?;
    Ok(async move {
        let Ok(stream) = api.watch(&watch, &version).await else {
            return;
        };
        let mut stream = Box::pin(stream);
        while let Ok(Some(event)) = stream.try_next().await {
            if let WatchEvent::Added(object) | WatchEvent::Modified(object) = event {
                let size = serde_json::to_vec(&object).map_or(0, |text| text.len());
                sum.fetch_add(size as u64, Ordering::Relaxed);
            }
        }
    })
}

/// Connections that never say who they are: every other one does not even begin the handshake.
pub async fn strangers(address: &Address, number: usize) -> Result<Vec<Box<dyn Send>>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(address.ca.as_bytes()) {
        roots.add(certificate?)?;
    }
    let mut config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let host = address
        .endpoint
        .rsplit_once(':')
        .map_or("", |(host, _)| host)
        .to_owned();
    let mut held: Vec<Box<dyn Send>> = Vec::new();
    for i in 0..number {
        let tcp = TcpStream::connect(&address.endpoint).await?;
        if i % 2 == 0 {
            held.push(Box::new(tcp));
            continue;
        }
        // The hub may have closed it already, to make room.
        let name = ServerName::try_from(host.clone())?;
        if let Ok(Ok(tls)) = timeout(Duration::from_secs(5), connector.connect(name, tcp)).await {
            held.push(Box::new(tls));
        }
    }
    Ok(held)
}
