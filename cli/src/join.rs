//! `kubectl fleet join`: the whole join recipe in one command. Every step can be repeated; nothing is replaced that
//! is already as it should be.

mod credential;

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, bail};
use base64::{Engine, engine::general_purpose::STANDARD};
use fleet_api::{
    annotations::RENEW_TOKEN,
    cluster::{MemberCluster, MemberClusterSpec},
    kind::SpecKind,
    names::{ClusterName, FLEET_SYSTEM_NAMESPACE},
};
use fleet_core::session::token::LIFETIME_MIN;
use jiff::SignedDuration;
use k8s_openapi::api::{core::v1::Secret, rbac::v1::Subject};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams},
};
use serde::{Serialize, de::DeserializeOwned};

use crate::clusters::{self, Cluster};

const FIELD_MANAGER: &str = "kubectl-fleet";
/// The member's Secret with the hub token, as the chart expects it.
const TOKEN_SECRET: &str = "hub-kubeconfig-secret";
/// Where earlier releases and KubeFleet's recipe put it.
const FORMER_NAMESPACE: &str = "default";
const HEARTBEAT_PERIOD_SECONDS: i32 = 15;

/// Let a cluster join the fleet.
///
/// On the hub: a ServiceAccount with a token that it may renew itself, and the MemberCluster that names it. On the member:
/// the Secret with that token, which the member agent keeps from ending. Prints the values of the member-agent chart.
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
    /// The namespace of the member agent's release, where its token is kept
    #[arg(long, default_value = FLEET_SYSTEM_NAMESPACE)]
    member_namespace: String,
    /// How long a token lives. The member agent renews it after half of that time, so that it may be cut off from the hub
    /// for the other half. The hub may grant less
    #[arg(long, default_value = "720h", value_parser = lifetime, conflicts_with = "unbounded_token")]
    token_lifetime: SignedDuration,
    /// Make a token that never ends, in a Secret on the hub, as older recipes do
    #[arg(long)]
    unbounded_token: bool,
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

fn lifetime(text: &str) -> Result<SignedDuration, String> {
    let lifetime: SignedDuration = text.parse().map_err(|_| "want a duration, such as 720h".to_owned())?;
    if lifetime < LIFETIME_MIN {
        return Err("an API server issues no token for less than 10m".to_owned());
    }
    Ok(lifetime)
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
    namespace: String,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let Args {
        name,
        hub_cluster_context,
        member_cluster_context,
        hub_url,
        heartbeat_period_seconds,
        labels,
        member_namespace,
        token_lifetime,
        unbounded_token,
        output,
    } = args;
    let cluster: ClusterName = name.parse()?;
    let hub = clusters::connect(hub_cluster_context.as_deref()).await?;
    let member = clusters::connect(Some(&member_cluster_context)).await?;
    if hub.server == member.server && hub_cluster_context.as_deref() != Some(member_cluster_context.as_str()) {
        eprintln!("note: hub and member are the same cluster ({})", hub.server);
    }

    let lifetime = (!unbounded_token).then_some(token_lifetime);
    let token = credential::issue(&hub.client, &cluster, lifetime).await?;
    member_cluster(&hub.client, &cluster, heartbeat_period_seconds, labels).await?;
    let renew = lifetime.map(|_| BTreeMap::from([(RENEW_TOKEN.to_owned(), "true".to_owned())]));
    let secret = Secret {
        metadata: ObjectMeta {
            annotations: renew,
            ..named(TOKEN_SECRET)
        },
        data: Some(BTreeMap::from([("token".to_owned(), token)])),
        ..Secret::default()
    };
    credential::ensure_namespace(&member.client, &member_namespace).await?;
    apply(&Api::namespaced(member.client.clone(), &member_namespace), &secret).await?;
    eprintln!("member: Secret {member_namespace}/{TOKEN_SECRET} holds the hub token");
    if member_namespace != FORMER_NAMESPACE {
        let former = Api::<Secret>::namespaced(member.client, FORMER_NAMESPACE);
        if let Ok(Some(_)) = former.get_opt(TOKEN_SECRET).await {
            eprintln!(
                "note: Secret {FORMER_NAMESPACE}/{TOKEN_SECRET} on the member is not needed any more once the chart has \
                 these values"
            );
        }
    }

    // A CA is long, and stays on its line.
    let lines = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let text = serde_saphyr::to_string_with_options(&values(&hub, hub_url, &cluster, member_namespace), lines)?;
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

fn values(hub: &Cluster, hub_url: Option<String>, cluster: &ClusterName, namespace: String) -> Values {
    Values {
        config: ValuesConfig {
            provider: "secret",
            hub_url: hub_url.unwrap_or_else(|| hub.server.clone()),
            hub_ca: hub.ca.as_deref().map(|pem| STANDARD.encode(pem)).unwrap_or_default(),
            member_cluster_name: cluster.to_string(),
        },
        secret: ValuesSecret {
            name: TOKEN_SECRET,
            namespace,
        },
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
