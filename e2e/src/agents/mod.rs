//! The product's agents on a local fleet: real processes under the ServiceAccounts and rights that the charts install,
//! with the arguments and environment that the charts give them. Members join by `kubectl fleet join`.

pub mod chart;
mod webhooks;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_api::conditions;
use futures::future::try_join_all;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use crate::binaries;
use crate::cluster::{kubeconfig, ports};
use crate::fleet::Fleet;
use crate::process::{Ready, Spec};
use crate::wait;

pub use chart::Chart;
pub use webhooks::{until_served_under, webhook_address, with_webhooks, with_webhooks_and};

/// Where both charts install.
pub const NAMESPACE: &str = "fleet-system";
/// The hub agent's process.
pub const HUB_AGENT: &str = "hub/hub-agent";
/// The process of the hub's API server.
pub const API_SERVER: &str = "hub/kube-apiserver";
/// The Lease of the hub agents.
const LEASE: &str = "136224848560.hub.fleet.azure.com";
/// What a test must not wait minutes for; a killed leader is replaced in seconds.
const HASTE: [&str; 5] = [
    "--leader-lease-duration=7s",
    "--leader-renew-deadline=4s",
    "--leader-retry-period=1s",
    "--cluster-unhealthy-threshold=30s",
    "--force-delete-wait-time=30s",
];
/// Longer than any fleet lives.
const TOKEN_SECONDS: i64 = 7 * 24 * 3600;

/// The process of a member's agent.
pub fn member_agent(cluster: &str) -> String {
    format!("{cluster}/member-agent")
}

/// Makes sure that the hub agent runs, and that every member has joined. Safe to repeat.
pub async fn ensure(fleet: &Fleet, progress: impl Fn(&str)) -> Result<()> {
    let helm = binaries::find_or_build_helm().await?;
    let running = fleet.status().await?;
    let runs = |name: &str| running.iter().any(|p| p.name == name && p.state.pid().is_some());
    if !runs(HUB_AGENT) {
        start_hub_agent(fleet, &helm, HUB_AGENT, &[]).await?;
        progress("hub-agent runs");
    }
    let members = fleet.members().map(|m| m.name.clone()).collect::<Vec<_>>();
    let (helm, runs, progress) = (&helm, &runs, &progress);
    try_join_all(members.iter().map(|member| async move {
        if !runs(&member_agent(member)) {
            join(fleet, helm, member).await?;
        }
        joined(fleet, member).await?;
        progress(&format!("{member} has joined"));
        Ok::<_, anyhow::Error>(())
    }))
    .await?;
    Ok(())
}

/// Installs the hub's chart and starts an agent as its Deployment would; further replicas have another process name.
pub async fn start_hub_agent(fleet: &Fleet, helm: &Path, process: &str, further_args: &[String]) -> Result<()> {
    start_hub_agent_with(fleet, helm, process, &json!({}), further_args).await
}

/// The same with values of the chart besides those that a local fleet needs.
pub async fn start_hub_agent_with(
    fleet: &Fleet,
    helm: &Path,
    process: &str,
    further_values: &Value,
    further_args: &[String],
) -> Result<()> {
    let chart = Chart::new(helm, "hub-agent");
    let (advertised, webhooks) = (stable_port(fleet, "channel")?, stable_port(fleet, "webhook")?);
    let rendered = chart.install(fleet, "hub", &hub_values(fleet, further_values)?).await?;
    let (health, metrics) = (ports::free_port()?, ports::free_port()?);
    std::fs::write(port_file(fleet, process, "metrics"), metrics.to_string())?;
    // The first replica serves at the advertised address; others at an address of their own.
    let first = process == HUB_AGENT;
    let port = if first { advertised } else { ports::free_port()? };
    let webhook_port = if first { webhooks } else { ports::free_port()? };
    let account = rendered.service_account()?;
    let kubeconfig = kubeconfig_of(fleet, "hub", &account, &account).await?;
    let mut args = rendered.args()?;
    args.extend(HASTE.map(str::to_owned));
    args.extend([
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--channel-bind-address=127.0.0.1:{port}"),
        format!("--webhook-bind-address=127.0.0.1:{webhook_port}"),
        format!("--webhook-advertise-address=127.0.0.1:{webhooks}"),
        "--webhook-client-connection-type=url".to_owned(),
        format!("--health-probe-bind-address=127.0.0.1:{health}"),
        format!("--metrics-bind-address=127.0.0.1:{metrics}"),
    ]);
    args.extend_from_slice(further_args);
    std::fs::write(port_file(fleet, process, "channel"), port.to_string())?;
    fleet
        .start_process(Spec {
            name: process.to_owned(),
            program: program("hub-agent")?,
            args: last_wins(args),
            env: rendered.env(NAMESPACE)?,
            log: fleet.log_path(process),
            ready: Ready::Http {
                server: format!("http://127.0.0.1:{health}"),
                path: "/readyz".into(),
                ca: None,
            },
            ready_within: std::time::Duration::from_mins(1),
        })
        .await
}

/// The values of the hub's chart that a local fleet needs, and further ones.
pub fn hub_values(fleet: &Fleet, further: &Value) -> Result<Value> {
    let advertised = stable_port(fleet, "channel")?;
    let values = json!({
        "channel": {"advertiseAddress": format!("127.0.0.1:{advertised}"), "service": {"type": "ClusterIP"}},
        // Concerns managed members only, of which a local fleet has none.
        "denyModifyMemberClusterLabels": true,
        // Scenarios about what is selected of workloads of the hub's own, and about who writes their status.
        "hubWorkloadNamespaces": ["contents-*", "endpoints-*", "report-workload-*"],
        // Most scenarios are about what becomes of an object, also of one that is refused at the door: see `with_webhooks`.
        "enableWebhook": false,
        // Off in a new release; a right that single scenarios need and others go without.
        "reportBack": {"originalResource": true},
    });
    Ok(fleet_api::patch::applied(values, further))
}

/// Tells a story with a hub agent that has further flags. Afterwards it is as it was.
pub async fn with_hub_flags(
    fleet: &Fleet,
    flags: &[impl AsRef<str>],
    story: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    with_hub_values(fleet, &json!({}), flags, story).await
}

/// The same with other values of the chart too.
pub async fn with_hub_values(
    fleet: &Fleet,
    values: &Value,
    flags: &[impl AsRef<str>],
    story: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let helm = binaries::find_or_build_helm().await?;
    let flags: Vec<_> = flags.iter().map(|flag| flag.as_ref().to_owned()).collect();
    fleet.stop_process(HUB_AGENT).await?;
    start_hub_agent_with(fleet, &helm, HUB_AGENT, values, &flags).await?;
    let outcome = story().await;
    fleet.stop_process(HUB_AGENT).await?;
    start_hub_agent(fleet, &helm, HUB_AGENT, &[]).await?;
    outcome
}

/// Waits until a hub agent leads that is not this one; gives its identity.
pub async fn until_leader(fleet: &Fleet, not: &str) -> Result<String> {
    let holder = |lease: &Lease| lease.spec.as_ref().and_then(|spec| spec.holder_identity.clone());
    let leases = Api::<Lease>::namespaced(fleet.client("hub").await?, NAMESPACE);
    let lease = wait::until_present(leases, LEASE, "held by another", |lease| {
        holder(lease).is_some_and(|holder| !holder.is_empty() && holder != not)
    })
    .await?;
    holder(&lease).context("waited for it")
}

fn port_file(fleet: &Fleet, process: &str, of: &str) -> PathBuf {
    fleet
        .dir()
        .join("conf")
        .join(format!("{}.{of}-port", process.replace('/', "-")))
}

/// Where a replica of the hub agent serves members.
pub fn hub_channel(fleet: &Fleet, process: &str) -> Result<String> {
    let port = std::fs::read_to_string(port_file(fleet, process, "channel"))?;
    Ok(format!("127.0.0.1:{}", port.trim()))
}

/// What an agent measures, in Prometheus' text form.
pub async fn metrics(fleet: &Fleet, process: &str) -> Result<String> {
    let port: u16 = std::fs::read_to_string(port_file(fleet, process, "metrics"))?
        .trim()
        .parse()?;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    stream
        .write_all(b"GET /metrics HTTP/1.1\r\nHost: hub\r\nConnection: close\r\n\r\n")
        .await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Joins a member: `kubectl fleet join`, then the member's chart, then the agent as its Deployment would run it.
pub async fn join(fleet: &Fleet, helm: &Path, member: &str) -> Result<()> {
    let values = run_join(fleet, member, member).await?;
    start_member_agent(fleet, helm, member, &member_agent(member), &values).await
}

/// `kubectl fleet join`; gives the chart's values. `name` is the MemberCluster's.
pub async fn run_join(fleet: &Fleet, member: &str, name: &str) -> Result<Value> {
    let kubeconfig = fleet
        .state()
        .kubeconfig
        .as_deref()
        .context("the fleet has no kubeconfig of its own")?;
    let hub = &fleet.cluster("hub")?.context;
    let output = Command::new(program("kubectl-fleet")?)
        .env("KUBECONFIG", kubeconfig)
        .args([
            "join",
            name,
            "--hub-cluster-context",
            hub,
            "--member-cluster-context",
            &fleet.cluster(member)?.context,
        ])
        .args(["--heartbeat-period-seconds", "15"])
        .kill_on_drop(true)
        .output()
        .await?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "kubectl fleet join {name}: {}",
        complaint.trim()
    );
    Ok(serde_saphyr::from_slice(&output.stdout)?)
}

/// Installs the member's chart and starts an agent as its Deployment would.
pub async fn start_member_agent(fleet: &Fleet, helm: &Path, member: &str, process: &str, values: &Value) -> Result<()> {
    let rendered = Chart::new(helm, "member-agent").install(fleet, member, values).await?;
    fleet
        .start_process(member_spec(fleet, member, process, &rendered).await?)
        .await
}

/// What one more agent runs with, on a cluster where the chart is installed already.
pub async fn member_agent_spec(fleet: &Fleet, member: &str, process: &str, values: &Value) -> Result<Spec> {
    let helm = binaries::find_or_build_helm().await?;
    let rendered = Chart::new(&helm, "member-agent").render(values).await?;
    member_spec(fleet, member, process, &rendered).await
}

async fn member_spec(fleet: &Fleet, member: &str, process: &str, rendered: &chart::Rendered) -> Result<Spec> {
    let (health, metrics) = (ports::free_port()?, ports::free_port()?);
    std::fs::write(port_file(fleet, process, "metrics"), metrics.to_string())?;
    let file = process.rsplit('/').next().unwrap_or(process);
    let kubeconfig = kubeconfig_of(fleet, member, &rendered.service_account()?, file).await?;
    let mut args = rendered.args()?;
    args.extend([
        format!("--kubeconfig={}", kubeconfig.display()),
        format!("--hub-health-probe-bind-address=127.0.0.1:{health}"),
        format!("--hub-metrics-bind-address=127.0.0.1:{metrics}"),
        "--health-probe-bind-address=0".to_owned(),
        "--metrics-bind-address=0".to_owned(),
    ]);
    Ok(Spec {
        name: process.to_owned(),
        program: program("member-agent")?,
        args: last_wins(args),
        env: rendered.env(NAMESPACE)?,
        log: fleet.log_path(process),
        // Alive, not ready: ready means joined, which is the hub's to say.
        ready: Ready::Http {
            server: format!("http://127.0.0.1:{health}"),
            path: "/healthz".into(),
            ca: None,
        },
        ready_within: std::time::Duration::from_mins(1),
    })
}

/// The hub's API server as members reach it: its URL, and its CA as base64 of PEM.
pub fn hub_address(fleet: &Fleet) -> Result<(String, String)> {
    let entry = cluster_entry(fleet, "hub")?;
    let text = |key: &str| entry[key].as_str().map(str::to_owned);
    let server = text("server").context("no server")?;
    Ok((server, text("certificate-authority-data").context("no CA")?))
}

/// Waits until the hub says that a member has joined.
pub async fn joined(fleet: &Fleet, name: &str) -> Result<MemberCluster> {
    let api = Api::<MemberCluster>::all(fleet.client("hub").await?);
    wait::until_present(api, name, "Joined", |mc: &MemberCluster| {
        let generation = mc.metadata.generation.unwrap_or_default();
        mc.status
            .as_ref()
            .is_some_and(|s| conditions::is_true(&s.conditions, "Joined", generation))
    })
    .await
}

/// A kubeconfig for a ServiceAccount, with a token that the cluster issued for it.
pub async fn kubeconfig_of(fleet: &Fleet, cluster: &str, account: &str, file: &str) -> Result<PathBuf> {
    let accounts = Api::<ServiceAccount>::namespaced(fleet.client(cluster).await?, NAMESPACE);
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(TOKEN_SECONDS),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &request)
        .await?;
    let token = answer.status.map(|s| s.token).context("the cluster issued no token")?;
    let entry = cluster_entry(fleet, cluster)?;
    let path = fleet
        .dir()
        .join("conf")
        .join(cluster)
        .join(format!("{file}.kubeconfig"));
    kubeconfig::write(
        &path,
        &json!({
            "apiVersion": "v1", "kind": "Config", "current-context": account,
            "clusters": [{"name": account, "cluster": entry}],
            "users": [{"name": account, "user": {"token": token}}],
            "contexts": [{"name": account, "context": {"cluster": account, "user": account}}],
        }),
    )?;
    Ok(path)
}

fn cluster_entry(fleet: &Fleet, cluster: &str) -> Result<Value> {
    let all = fleet.kubeconfig()?;
    let context = &fleet.cluster(cluster)?.context;
    let entry = all
        .clusters
        .into_iter()
        .find(|c| c.name == *context)
        .and_then(|c| c.cluster);
    Ok(serde_json::to_value(
        entry.with_context(|| format!("no cluster {context} in the kubeconfig"))?,
    )?)
}

/// A port that is the same for the life of a fleet: every restart of the hub agent must come back to it.
fn stable_port(fleet: &Fleet, of: &str) -> Result<u16> {
    let path = fleet.dir().join("conf").join(format!("{of}-port"));
    if let Ok(text) = std::fs::read_to_string(&path) {
        return Ok(text.trim().parse()?);
    }
    let port = ports::free_port()?;
    std::fs::write(&path, port.to_string()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(port)
}

/// One of the product's programs, beside this one (`target/debug`) or in `FLEET_AGENT_BIN_DIR`.
pub fn program(name: &str) -> Result<PathBuf> {
    let dirs = if let Some(dir) = std::env::var_os("FLEET_AGENT_BIN_DIR") {
        vec![PathBuf::from(dir)]
    } else {
        // A test's program is one directory further down.
        let here = std::env::current_exe()?;
        here.ancestors().skip(1).take(2).map(Path::to_owned).collect()
    };
    let found = dirs.iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    found.with_context(|| {
        format!(
            "there is no {name} in {}: run `cargo build --workspace`",
            dirs[0].display()
        )
    })
}

/// A flag given twice is an error to the agents; the chart's value gives way to ours.
fn last_wins(args: Vec<String>) -> Vec<String> {
    let name = |arg: &str| arg.split('=').next().unwrap_or_default().to_owned();
    let mut out: Vec<String> = Vec::new();
    for arg in args {
        out.retain(|before| name(before) != name(&arg));
        out.push(arg);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_flag_replaces_an_earlier_one() {
        let args = ["--a=1", "--b=2", "--a=3"].map(str::to_owned).to_vec();
        assert_eq!(last_wins(args), ["--b=2", "--a=3"]);
    }
}
