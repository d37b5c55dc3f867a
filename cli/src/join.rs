//! `kubectl fleet join`: the whole join recipe in one command. Every step can be repeated; nothing is replaced that
//! is already as it should be.

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use fleet_api::{
    cluster::{MemberCluster, MemberClusterSpec},
    kind::SpecKind,
    names::{ClusterName, FLEET_SYSTEM_NAMESPACE},
};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    ByteString,
    api::{
        core::v1::{Namespace, Secret, ServiceAccount},
        rbac::v1::Subject,
    },
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, WatchEvent, WatchParams},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::clusters::{self, Cluster};

const FIELD_MANAGER: &str = "kubectl-fleet";
/// The member's Secret with the hub token, as the chart expects it.
const TOKEN_SECRET: &str = "hub-kubeconfig-secret";
const TOKEN_SECRET_NAMESPACE: &str = "default";
const HEARTBEAT_PERIOD_SECONDS: i32 = 15;
/// The token controller answers within a second; a minute means that it does not run.
const TOKEN_WAIT: Duration = Duration::from_mins(1);

/// Let a cluster join the fleet.
///
/// On the hub: a ServiceAccount with a token, and the MemberCluster that names it. On the member: the Secret with that
/// token. Prints the values of the member-agent chart.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  kubectl fleet join east --hub-cluster-context hub --member-cluster-context east > values.yaml\n  \
                        helm install member-agent deploy/charts/member-agent -n fleet-system --create-namespace -f values.yaml"
)]
pub(crate) struct Args {
    /// The member's name in the fleet
    #[arg(value_name = "NAME")]
    name: String,
    /// The kubeconfig context of the hub [default: the current one]
    #[arg(long)]
    hub_cluster_context: Option<String>,
    /// The kubeconfig context of the member
    #[arg(long)]
    member_cluster_context: String,
    /// The hub's API server as the member reaches it [default: the one in the kubeconfig]
    #[arg(long)]
    hub_url: Option<String>,
    /// How often the member says that it is alive [default: 15, or as it is]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=600))]
    heartbeat_period_seconds: Option<i32>,
    /// Labels for the MemberCluster, for placements to select by (key=value, repeatable)
    #[arg(long = "label", value_parser = label)]
    labels: Vec<(String, String)>,
    /// Write the chart values to this file instead of stdout
    #[arg(long, short)]
    output: Option<PathBuf>,
}

fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("want key=value".to_owned()),
    }
}

/// The values of the member-agent chart.
#[derive(Debug, Serialize)]
struct Values {
    config: ValuesConfig,
    secret: ValuesSecret,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ValuesConfig {
    provider: &'static str,
    #[serde(rename = "hubURL")]
    hub_url: String,
    #[serde(rename = "hubCA")]
    hub_ca: String,
    member_cluster_name: String,
}

#[derive(Debug, Serialize)]
struct ValuesSecret {
    name: &'static str,
    namespace: &'static str,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let Args {
        name,
        hub_cluster_context,
        member_cluster_context,
        hub_url,
        heartbeat_period_seconds,
        labels,
        output,
    } = args;
    let cluster: ClusterName = name.parse()?;
    let hub = clusters::connect(hub_cluster_context.as_deref()).await?;
    let member = clusters::connect(Some(&member_cluster_context)).await?;
    if hub.server == member.server && hub_cluster_context.as_deref() != Some(member_cluster_context.as_str()) {
        eprintln!("note: hub and member are the same cluster ({})", hub.server);
    }

    let token = hub_identity(&hub.client, &cluster).await?;
    member_cluster(&hub.client, &cluster, heartbeat_period_seconds, labels).await?;
    let secret = Secret {
        metadata: named(TOKEN_SECRET),
        data: Some(BTreeMap::from([("token".to_owned(), token)])),
        ..Secret::default()
    };
    apply(&Api::namespaced(member.client, TOKEN_SECRET_NAMESPACE), &secret).await?;
    eprintln!("member: Secret {TOKEN_SECRET_NAMESPACE}/{TOKEN_SECRET} holds the hub token");

    let text = serde_yaml_ng::to_string(&values(&hub, hub_url, &cluster))?;
    match output {
        None => print!("{text}"),
        Some(path) => {
            std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
            eprintln!("chart values: {}", path.display());
        }
    }
    eprintln!("next: install the member-agent chart on the member with these values");
    Ok(())
}

fn values(hub: &Cluster, hub_url: Option<String>, cluster: &ClusterName) -> Values {
    Values {
        config: ValuesConfig {
            provider: "secret",
            hub_url: hub_url.unwrap_or_else(|| hub.server.clone()),
            hub_ca: hub.ca.as_deref().map(|pem| STANDARD.encode(pem)).unwrap_or_default(),
            member_cluster_name: cluster.to_string(),
        },
        secret: ValuesSecret {
            name: TOKEN_SECRET,
            namespace: TOKEN_SECRET_NAMESPACE,
        },
    }
}

/// The member's ServiceAccount on the hub, and its token once the hub has issued one.
async fn hub_identity(hub: &Client, cluster: &ClusterName) -> Result<ByteString> {
    let (identity, name) = (cluster.service_account(), cluster.token_secret());
    apply(
        &Api::all(hub.clone()),
        &Namespace {
            metadata: named(FLEET_SYSTEM_NAMESPACE),
            ..Namespace::default()
        },
    )
    .await?;
    let account = ServiceAccount {
        metadata: named(&identity),
        ..ServiceAccount::default()
    };
    apply(&Api::namespaced(hub.clone(), FLEET_SYSTEM_NAMESPACE), &account).await?;
    let secret = Secret {
        metadata: ObjectMeta {
            annotations: Some(BTreeMap::from([(
                "kubernetes.io/service-account.name".to_owned(),
                identity.clone(),
            )])),
            ..named(&name)
        },
        type_: Some("kubernetes.io/service-account-token".to_owned()),
        ..Secret::default()
    };
    let secrets = Api::<Secret>::namespaced(hub.clone(), FLEET_SYSTEM_NAMESPACE);
    apply(&secrets, &secret).await?;
    eprintln!("hub: ServiceAccount {FLEET_SYSTEM_NAMESPACE}/{identity}, token in Secret {name}");
    tokio::time::timeout(TOKEN_WAIT, issued(&secrets, &name)).await.unwrap_or_else(|_| {
        bail!("the hub has not filled Secret {FLEET_SYSTEM_NAMESPACE}/{name} with a token: does its controller manager run?")
    })
}

async fn issued(secrets: &Api<Secret>, name: &str) -> Result<ByteString> {
    let token = |s: &Secret| {
        s.data
            .as_ref()
            .and_then(|d| d.get("token"))
            .filter(|t| !t.0.is_empty())
            .cloned()
    };
    loop {
        // The watch starts with the Secret as it is now.
        let only = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = secrets.watch(&only, "0").await?.boxed();
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(secret) | WatchEvent::Modified(secret) = event
                && let Some(token) = token(&secret)
            {
                return Ok(token);
            }
        }
    }
}

async fn member_cluster(
    hub: &Client,
    cluster: &ClusterName,
    heartbeat_period_seconds: Option<i32>,
    labels: Vec<(String, String)>,
) -> Result<()> {
    let identity = Subject {
        kind: "ServiceAccount".to_owned(),
        name: cluster.service_account(),
        namespace: Some(FLEET_SYSTEM_NAMESPACE.to_owned()),
        api_group: Some(String::new()),
    };
    let clusters = Api::<MemberCluster>::all(hub.clone());
    let existing = clusters
        .get_opt(cluster.as_str())
        .await
        .context("cannot read MemberClusters on the hub: are the CRDs installed?")?;
    let Some(existing) = existing else {
        let spec = MemberClusterSpec {
            identity,
            heartbeat_period_seconds: heartbeat_period_seconds.unwrap_or(HEARTBEAT_PERIOD_SECONDS),
            taints: Vec::new(),
            delete_options: None,
        };
        let metadata = ObjectMeta {
            labels: Some(labels.into_iter().collect()),
            ..named(cluster.as_str())
        };
        apply(&clusters, &MemberCluster::from_spec(metadata, spec)).await?;
        eprintln!("hub: MemberCluster {cluster}");
        return Ok(());
    };
    if existing.meta().deletion_timestamp.is_some() {
        bail!("MemberCluster {cluster} is being deleted; wait until it is gone, then join again");
    }
    let other = &existing.spec.identity;
    if (&other.kind, &other.name, &other.namespace) != (&identity.kind, &identity.name, &identity.namespace) {
        bail!(
            "MemberCluster {cluster} exists with another identity ({} {}): choose another name, or delete it first",
            other.kind,
            other.name
        );
    }
    // What somebody has set since stays; only what was asked for now changes.
    let mut wanted = existing.clone();
    wanted.metadata.labels.get_or_insert_default().extend(labels);
    wanted.spec.heartbeat_period_seconds = heartbeat_period_seconds.unwrap_or(wanted.spec.heartbeat_period_seconds);
    if let Some(patch) = fleet_api::patch::between(&existing, &wanted)? {
        let params = PatchParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PatchParams::default()
        };
        let patch = Patch::Merge(fleet_api::patch::pinned(patch, &existing));
        let answer = clusters.patch(cluster.as_str(), &params, &patch).await;
        answer.with_context(|| format!("cannot change MemberCluster {cluster}"))?;
    }
    eprintln!("hub: MemberCluster {cluster} exists");
    Ok(())
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    }
}

/// Server-side apply of what we own; fields of others stay.
async fn apply<K>(api: &Api<K>, object: &K) -> Result<()>
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let mut body = serde_json::to_value(object)?;
    body["apiVersion"] = K::api_version(&()).into();
    body["kind"] = K::kind(&()).into();
    api.patch(
        &object.name_any(),
        &PatchParams::apply(FIELD_MANAGER).force(),
        &Patch::Apply(body),
    )
    .await
    .with_context(|| format!("cannot write {} {}", K::kind(&()), object.name_any()))?;
    Ok(())
}
