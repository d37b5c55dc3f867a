//! `kubectl fleet join`: the whole join recipe in one command. Every step can be repeated; nothing is replaced that
//! is already as it should be.

mod credential;
mod install;
mod values;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use anyhow::{Context, Result};
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
use tokio::time::Instant;

use self::values::{How, how, rendered, values};
use crate::{
    clusters,
    exit::Exit,
    globals::Globals,
    old,
    problem::Failure,
    progress,
    terminal::{self, Say},
};

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
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub(crate) struct Args {
    /// The member's name in the fleet
    #[arg(value_name = "NAME")]
    name: String,
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
    /// Change nothing: say what would become of it, and print the values that would be
    #[arg(long, conflicts_with_all = ["install", "wait"])]
    dry_run: bool,
    /// Install the member agent with these values, by `helm`
    #[arg(long)]
    install: bool,
    /// The chart that --install takes
    #[arg(long, value_name = "CHART", default_value = "deploy/charts/member-agent")]
    chart: String,
    /// Wait until the member has joined
    #[arg(long)]
    wait: bool,
    /// How long to wait, for `helm` too
    #[arg(long, default_value = "5m", value_parser = old::timeout)]
    timeout: Duration,
    /// Write the chart values to this file instead of stdout
    #[arg(long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    /// How to print the chart values: yaml or json
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml", value_parser = how)]
    output: How,
    #[command(flatten)]
    globals: Globals,
}

/// A member's name, as somebody has typed it.
pub(crate) fn cluster(name: &str) -> Result<ClusterName> {
    let parsed: Result<ClusterName, _> = name.parse();
    parsed.map_err(|error| Failure::usage(error.to_string(), ""))
}

/// One that is being deleted cannot be joined.
fn leaving(cluster: &ClusterName) -> anyhow::Error {
    Failure::error(
        format!("MemberCluster {cluster} is being deleted; wait until it is gone, then join again"),
        format!("kubectl fleet leave {cluster} --wait"),
    )
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

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        name,
        member_cluster_context,
        hub_url,
        heartbeat_period_seconds,
        labels,
        member_namespace,
        token_lifetime,
        unbounded_token,
        dry_run,
        install,
        chart,
        wait,
        timeout,
        output_file,
        output,
        globals,
    } = args;
    let (output_file, output) = match (output_file, output) {
        (None, How::File(file)) => {
            terminal::note(&format!(
                "note: `-o` chooses a format now; a file is `--output-file {}`",
                file.display()
            ));
            (Some(file), How::Yaml)
        }
        other => other,
    };
    let cluster = self::cluster(&name)?;
    let hub = clusters::connect_with(&globals).await?;
    let member = clusters::connect_with(&globals.of_member(&member_cluster_context)).await?;
    if hub.server == member.server && globals.context.as_deref() != Some(member_cluster_context.as_str()) {
        eprintln!("note: hub and member are the same cluster ({})", hub.server);
    }

    let url = hub_url.clone().unwrap_or_else(|| hub.server.clone());
    if is_loopback(&url) && hub.server != member.server {
        terminal::note(&format!(
            "note: members are told that the hub is at {url}, which on another machine is that machine itself: --hub-url"
        ));
    }
    if dry_run {
        let say = &terminal::note;
        foreseen(&hub.client, &cluster, &member_namespace, unbounded_token, say).await?;
        let values = values(&hub, hub_url, &cluster, member_namespace);
        values::print(&values, &output, None)?;
        return Ok(Exit::Done);
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
    hand_over(&member.client, &member_namespace, &secret).await?;

    let namespace = member_namespace.clone();
    let values = values(&hub, hub_url, &cluster, member_namespace);
    // Who installs has no use for them on the screen.
    if !install || output_file.is_some() {
        values::print(&values, &output, output_file.as_deref())?;
    }
    let deadline = Instant::now() + timeout;
    if install {
        let release = install::Release {
            context: &member_cluster_context,
            kubeconfig: globals.kubeconfig.as_deref(),
            namespace: &namespace,
            chart: &chart,
        };
        let values = rendered(&values, &How::Yaml)?;
        let installing = progress::shown("installing the member agent", release.install(&values));
        let Ok(installed) = tokio::time::timeout_at(deadline, installing).await else {
            terminal::note("the time is up, and helm has not ended: see --timeout");
            return Ok(Exit::TimedOut);
        };
        installed?;
    } else {
        eprintln!("next: install the member-agent chart on the member with these values");
    }
    if !wait {
        return Ok(Exit::Done);
    }
    let joined = progress::shown("waiting until it has joined", install::joined(&hub, &cluster));
    let Ok(waited) = tokio::time::timeout_at(deadline, joined).await else {
        terminal::note(&format!(
            "the time is up, and {cluster} has not joined: `kubectl fleet why membercluster/{cluster}` says what it waits for"
        ));
        return Ok(Exit::TimedOut);
    };
    waited?;
    eprintln!("{cluster} has joined");
    Ok(Exit::Done)
}

/// Puts the token where the member agent reads it.
async fn hand_over(member: &Client, namespace: &str, secret: &Secret) -> Result<()> {
    credential::ensure_namespace(member, namespace).await?;
    apply(&Api::namespaced(member.clone(), namespace), secret).await?;
    eprintln!("member: Secret {namespace}/{TOKEN_SECRET} holds the hub token");
    if namespace == FORMER_NAMESPACE {
        return Ok(());
    }
    let former = Api::<Secret>::namespaced(member.clone(), FORMER_NAMESPACE);
    if let Ok(Some(_)) = former.get_opt(TOKEN_SECRET).await {
        eprintln!(
            "note: Secret {FORMER_NAMESPACE}/{TOKEN_SECRET} on the member is not needed any more once the chart has these \
             values"
        );
    }
    Ok(())
}

/// Whether a URL leads back to the machine itself.
fn is_loopback(url: &str) -> bool {
    let Ok(uri) = url.parse::<http::Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|address| address.is_loopback())
}

/// What would be written, in words.
async fn foreseen(hub: &Client, cluster: &ClusterName, namespace: &str, unbounded: bool, say: Say<'_>) -> Result<()> {
    let clusters = Api::<MemberCluster>::all(hub.clone());
    let existing = clusters.get_opt(cluster.as_str()).await;
    let existing = existing.context("cannot read MemberClusters on the hub: are the CRDs installed?")?;
    let token = if unbounded {
        "a token that never ends"
    } else {
        "a token that it may renew"
    };
    say(&format!(
        "would apply ServiceAccount {FLEET_SYSTEM_NAMESPACE}/{} on the hub, and issue {token}",
        cluster.service_account()
    ));
    match existing {
        Some(found) if found.meta().deletion_timestamp.is_some() => {
            return Err(leaving(cluster));
        }
        Some(_) => say(&format!(
            "would keep MemberCluster {cluster}, with what is asked for now"
        )),
        None => say(&format!("would create MemberCluster {cluster}")),
    }
    say(&format!("would write Secret {namespace}/{TOKEN_SECRET} on the member"));
    Ok(())
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
        return Err(leaving(cluster));
    }
    let other = &existing.spec.identity;
    if (&other.kind, &other.name, &other.namespace) != (&identity.kind, &identity.name, &identity.namespace) {
        let text = format!(
            "MemberCluster {cluster} exists with another identity ({} {}): choose another name, or delete it first",
            other.kind, other.name
        );
        return Err(Failure::error(
            text,
            format!("kubectl get membercluster {cluster} -o yaml"),
        ));
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

#[cfg(test)]
mod tests;
