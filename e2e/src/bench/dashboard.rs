//! The dashboard with many members and placements, on a hub where nobody else works: all objects are only there.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_api::kind::Kind;
use fleet_api::placement::{ClusterResourceBinding, ClusterResourcePlacement};
use futures::stream::{self, TryStreamExt as _};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::audit::Log;
use super::figures::{Aim, Row, count, mib};
use super::usage::Watched;
use super::{Part, Settings, progress};
use crate::agents::{self, NAMESPACE};
use crate::fleet::Fleet;

/// Placements, each on every member.
const PLACEMENTS: usize = 100;
/// Requests at once.
const TOGETHER: usize = 64;
/// Changes that are timed.
const CHANGES: usize = 20;
/// Pages that are opened and closed, one after the other: a day of somebody who looks often.
const STREAMS: usize = 200;
const ACCOUNT: &str = "onlooker";

/// Fills the hub, and looks at it.
pub async fn measure(fleet: &Fleet, settings: Settings) -> Result<Vec<Row>> {
    let client = fleet.client("hub").await?;
    progress(&format!(
        "{PLACEMENTS} placements on {} members are written",
        settings.members
    ));
    fill(&client, settings.members).await?;
    let kubeconfig = account(fleet, &client).await?;
    let begun = Instant::now();
    let mut child = Command::new(agents::program("kubectl-fleet")?)
        .args(["dashboard", "--no-open"])
        .env("KUBECONFIG", kubeconfig)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut links = BufReader::new(child.stdout.take().context("it says nothing")?).lines();
    let link = links.next_line().await?.context("it ended without a link")?;
    let site = Site::enter(&link).await?;
    let mut live = site.live("/").await?;
    let all = format!("/{}</span>", settings.members);
    live.until(|page| page.matches(&all).count() >= 30).await?;
    let ready = begun.elapsed();
    let mut served = Vec::new();
    for _ in 0..CHANGES {
        let asked = Instant::now();
        ensure!(site.get("/").await?.contains("member-0000"), "the page has no members");
        served.push(asked.elapsed());
    }
    let mut seen = Vec::new();
    for number in 0..CHANGES {
        seen.push(changed(&client, &mut live, number).await?);
    }
    let log = Log::of_hub(fleet)?;
    let pid = i32::try_from(child.id().context("it has ended")?)?;
    let (watched, mark) = (Watched::of("dashboard", pid)?, log.mark()?);
    progress("an open page, and nothing happens");
    tokio::time::sleep(settings.window).await;
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let asked = log
        .since(mark, &user)?
        .iter()
        .filter(|request| !request.is_watch())
        .count();
    let usage = watched.end()?;
    progress("an open page, and nothing but heartbeats");
    let watched = Watched::of("dashboard", pid)?;
    tokio::select! {
        ended = beat(&client, settings.members) => match ended? {},
        () = tokio::time::sleep(settings.window) => {}
    }
    let beaten = watched.end()?;
    progress(&format!("{STREAMS} pages are opened and closed"));
    for _ in 0..STREAMS {
        site.live("/").await?.until(|_| true).await?;
    }
    let grown = Watched::of("dashboard", pid)?.end()?;
    let row = |what: &str, value, unit| Row::new(Part::Dashboard, what, value, unit);
    let median = |mut times: Vec<Duration>| {
        times.sort();
        times[times.len() / 2].as_secs_f64()
    };
    Ok(vec![
        row("from start to a page with everything", ready.as_secs_f64(), "s"),
        // No browser takes part: what it needs to paint comes on top.
        row("the fleet's page served, median", median(served), "s").aim(Aim::Below(1.0)),
        row(
            "a change written and in an open page, median",
            median(seen) * 1000.0,
            "ms",
        )
        .aim(Aim::Below(200.0)),
        row("resident memory", mib(usage.memory.resident), "MiB").aim(Aim::Below(150.0)),
        row("CPU at rest, with an open page", usage.cpu_percent, "% of a core"),
        row(
            "CPU while all members beat once a minute",
            beaten.cpu_percent,
            "% of a core",
        ),
        row(
            "resident memory after 200 open pages",
            mib(grown.memory.resident),
            "MiB",
        )
        .aim(Aim::Below(150.0)),
        row("requests to the API server at rest, beyond watches", count(asked), "").aim(Aim::AtMost(0.0)),
    ])
}

/// From the write of a binding's status until the page has it.
async fn changed(client: &Client, live: &mut Live, number: usize) -> Result<Duration> {
    let bindings: Api<ClusterResourceBinding> = Api::all(client.clone());
    // The page shows the placements in trouble first: this one moves there and back.
    let (status, reason) = if number.is_multiple_of(2) {
        ("False", "NotAllWorkHaveBeenApplied")
    } else {
        ("True", "AllWorkHaveBeenApplied")
    };
    let applied = json!({ "status": { "conditions": way(status, reason) } });
    let written = Instant::now();
    bindings
        .patch_status(
            "placement-099-member-0000",
            &PatchParams::default(),
            &Patch::Merge(applied),
        )
        .await?;
    let is_red = |page: &str| page.contains("cell failed\" href=\"/placements/placement-099/on/member-0000\"");
    live.until(|page| is_red(page) == (status == "False")).await?;
    Ok(written.elapsed())
}

/// Heartbeats of all members in turn, each once a minute. Ends only with an error.
async fn beat(client: &Client, members: usize) -> Result<std::convert::Infallible> {
    let api: Api<MemberCluster> = Api::all(client.clone());
    let mut next = tokio::time::interval(Duration::from_mins(1) / u32::try_from(members.max(1))?);
    for number in (0..members.max(1)).cycle() {
        next.tick().await;
        let status = json!({ "status": { "agentStatus": agent() } });
        api.patch_status(
            &format!("member-{number:04}"),
            &PatchParams::default(),
            &Patch::Merge(status),
        )
        .await?;
    }
    anyhow::bail!("there are no members")
}

fn said(type_: &str, status: &str, reason: &str) -> Value {
    json!({ "type": type_, "status": status, "reason": reason, "message": "as it was", "observedGeneration": 1,
            "lastTransitionTime": second() })
}

fn second() -> String {
    super::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// What the agent of a member that is well says.
fn agent() -> Value {
    let conditions = [
        said("Joined", "True", "InternalMemberClusterJoined"),
        said("Healthy", "True", "InternalMemberClusterHealthy"),
    ];
    json!([{ "type": "MemberAgent", "lastReceivedHeartbeat": second(), "conditions": conditions }])
}

fn way(applied: &str, reason: &str) -> Value {
    json!([
        said("RolloutStarted", "True", "RolloutStarted"),
        said("Overridden", "True", "NoOverrideSpecified"),
        said("WorkSynchronized", "True", "AllWorkSynced"),
        said("Applied", applied, reason),
        said("Available", "True", "AllWorkAreAvailable"),
    ])
}

async fn fill(client: &Client, members: usize) -> Result<()> {
    let names: Vec<String> = (0..members).map(|at| format!("member-{at:04}")).collect();
    let objects = names.iter().map(|name| {
        (
            name.clone(),
            json!({ "spec": { "identity": { "kind": "User", "name": name }, "heartbeatPeriodSeconds": 600 } }),
        )
    });
    let joined = [
        said("ReadyToJoin", "True", "MemberClusterReadyToJoin"),
        said("Joined", "True", "MemberClusterJoined"),
    ];
    let well = json!({ "status": { "conditions": joined, "agentStatus": agent() } });
    put::<MemberCluster>(client, objects, Some(&well)).await?;
    let placements: Vec<String> = (0..PLACEMENTS).map(|at| format!("placement-{at:03}")).collect();
    let selectors = json!([{ "group": "", "version": "v1", "kind": "Namespace", "name": "nothing" }]);
    let spec = json!({ "spec": { "resourceSelectors": selectors, "policy": { "placementType": "PickAll" } } });
    let steps = [
        "Scheduled",
        "RolloutStarted",
        "Overridden",
        "WorkSynchronized",
        "Applied",
        "Available",
    ];
    let done = steps.map(|step| said(&format!("ClusterResourcePlacement{step}"), "True", step));
    let done = json!({ "status": { "conditions": done } });
    let objects = placements.iter().map(|name| (name.clone(), spec.clone()));
    put::<ClusterResourcePlacement>(client, objects, Some(&done)).await?;
    let bindings = placements
        .iter()
        .flat_map(|placement| names.iter().map(move |member| (placement, member)));
    let bindings = bindings.map(|(placement, member)| {
        let decision = json!({ "clusterName": member, "selected": true, "reason": "picked" });
        let object = json!({
            "metadata": { "labels": { "kubernetes-fleet.io/parent-CRP": placement } },
            "spec": {
                "state": "Bound", "resourceSnapshotName": format!("{placement}-0-snapshot"), "targetCluster": member,
                "schedulingPolicySnapshotName": format!("{placement}-0"), "clusterDecision": decision,
            },
        });
        (format!("{placement}-{member}"), object)
    });
    let status = json!({ "status": { "conditions": way("True", "AllWorkHaveBeenApplied") } });
    put::<ClusterResourceBinding>(client, bindings, Some(&status)).await
}

async fn put<K: Kind>(
    client: &Client,
    objects: impl Iterator<Item = (String, Value)>,
    status: Option<&Value>,
) -> Result<()> {
    let kind = ApiResource::erase::<K>(&());
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    stream::iter(objects.map(anyhow::Ok))
        .try_for_each_concurrent(TOGETHER, |(name, object)| {
            let (api, kind) = (&api, &kind);
            async move {
                let mut new: DynamicObject = DynamicObject::new(&name, kind).data(json!({ "spec": object["spec"] }));
                new.metadata.labels = serde_json::from_value(object["metadata"]["labels"].clone())?;
                api.create(&PostParams::default(), &new).await?;
                if let Some(status) = status {
                    api.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
                        .await?;
                }
                Ok(())
            }
        })
        .await
}

/// An account of its own, so that its requests can be told from ours.
async fn account(fleet: &Fleet, client: &Client) -> Result<std::path::PathBuf> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if namespaces.get_opt(NAMESPACE).await?.is_none() {
        let namespace = serde_json::from_value(json!({ "metadata": { "name": NAMESPACE } }))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
    }
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": ACCOUNT } }))?;
    Api::namespaced(client.clone(), NAMESPACE)
        .create(&PostParams::default(), &account)
        .await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": ACCOUNT },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE }],
    }))?;
    Api::all(client.clone())
        .create(&PostParams::default(), &binding)
        .await?;
    agents::kubeconfig_of(fleet, "hub", ACCOUNT, ACCOUNT).await
}

/// The dashboard, as a browser that was let in speaks to it.
struct Site {
    address: String,
    cookie: String,
}

impl Site {
    async fn enter(link: &str) -> Result<Self> {
        let (address, path) = link
            .strip_prefix("http://")
            .and_then(|rest| rest.split_once('/'))
            .context("a link")?;
        let mut site = Self {
            address: address.to_owned(),
            cookie: String::new(),
        };
        let answer = site.get(&format!("/{path}")).await?;
        let cookie = answer
            .lines()
            .find_map(|line| line.strip_prefix("set-cookie: "))
            .context("no cookie")?;
        cookie
            .split(';')
            .next()
            .unwrap_or_default()
            .clone_into(&mut site.cookie);
        Ok(site)
    }

    async fn ask(&self, path: &str) -> Result<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nCookie: {}\r\nConnection: close\r\n\r\n",
            self.address, self.cookie
        );
        stream.write_all(request.as_bytes()).await?;
        Ok(stream)
    }

    async fn get(&self, path: &str) -> Result<String> {
        let mut answer = String::new();
        self.ask(path).await?.read_to_string(&mut answer).await?;
        Ok(answer)
    }

    async fn live(&self, path: &str) -> Result<Live> {
        let stream = self.ask(&format!("/live?at={path}")).await?;
        Ok(Live {
            stream: BufReader::new(stream),
        })
    }
}

/// An open page.
struct Live {
    stream: BufReader<TcpStream>,
}

impl Live {
    /// Waits for a fragment that is as wanted.
    async fn until(&mut self, mut wanted: impl FnMut(&str) -> bool) -> Result<()> {
        const PATIENCE: Duration = Duration::from_mins(3);
        let wait = async {
            let mut line = Vec::new();
            loop {
                line.clear();
                ensure!(
                    self.stream.read_until(b'\n', &mut line).await? > 0,
                    "the stream has ended"
                );
                let text = String::from_utf8_lossy(&line);
                if text.strip_prefix("data: ").is_some_and(&mut wanted) {
                    return Ok(());
                }
            }
        };
        tokio::time::timeout(PATIENCE, wait)
            .await
            .context("the page never was as wanted")?
    }
}
