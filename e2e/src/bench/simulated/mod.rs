//! Simulated members: scripted clients of the real channel, each with a connection of its own. They share one identity,
//! a ServiceAccount that all their MemberClusters name.

mod works;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_api::cluster::{PropertyValue, ResourceUsage};
use fleet_api::conditions::Status;
use fleet_api::{annotations, conditions};
use fleet_core::session::Outcome;
use fleet_core::session::backoff::Backoff;
use fleet_core::session::cluster::PropertiesReport;
use fleet_proto::convert::{Hello, HubMessage, MemberMessage};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::PostParams;
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use self::works::Works;
use super::hub::Hub;
use super::{HEARTBEAT, now, progress};
use crate::agents::NAMESPACE;
use crate::members::last_beat;
use crate::scripted_member::{Address, ScriptedMember, condition, hello};

/// Their identity.
pub(super) const ACCOUNT: &str = "simulated-members";
/// The label by which placements find them.
const LABEL: &str = "simulated";
/// Their names begin with that.
const PREFIX: &str = "sim-";
/// The label that says in which stage a cluster is.
pub(super) const STAGE: &str = "bench-stage";
/// The stages of update runs that they are in, one after the other.
pub const STAGES: [&str; 3] = ["first", "second", "third"];
/// MemberClusters created at once.
const CREATES: usize = 16;
/// Connecting, with a hub agent that is busy with a thousand others.
const OPENING: Duration = Duration::from_mins(1);
/// All of them, on a slow machine.
const JOINING: Duration = Duration::from_mins(8);

/// The members that exist, and what is known of them.
pub struct Members {
    client: Client,
    token: Arc<str>,
    board: Arc<Board>,
    works: Arc<Works>,
    tasks: Mutex<JoinSet<()>>,
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Members")
            .field("board", &self.board)
            .finish_non_exhaustive()
    }
}

/// What has been seen of all members.
#[derive(Debug, Default)]
pub struct Board(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    members: HashMap<String, Seat>,
    delays: Vec<f64>,
    ended: usize,
    trouble: Option<String>,
}

#[derive(Debug, Default)]
struct Seat {
    spawned: bool,
    connected: bool,
    joined: bool,
    /// A beat whose time nobody has seen on the MemberCluster yet.
    sent: Option<Timestamp>,
}

impl Board {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat<T>(&self, name: &str, change: impl FnOnce(&mut Seat) -> T) -> T {
        change(self.seen().members.entry(name.to_owned()).or_default())
    }

    /// A beat is about to be sent. One that nobody has seen yet stays the one to wait for.
    fn beats(&self, name: &str) {
        self.seat(name, |seat| seat.sent.get_or_insert_with(now).to_owned());
    }

    /// The watch shows a MemberCluster.
    fn shows(&self, mc: &MemberCluster) {
        if !mc.name_any().starts_with(PREFIX) {
            return;
        }
        let (now, mut seen) = (now(), self.seen());
        let generation = mc.metadata.generation.unwrap_or_default();
        let joined = mc
            .status
            .as_ref()
            .is_some_and(|s| conditions::is_true(&s.conditions, "Joined", generation));
        let seat = seen.members.entry(mc.name_any()).or_default();
        seat.joined = joined;
        // The API has whole seconds.
        let shown = |sent: &Timestamp| last_beat(mc).is_some_and(|at| at.as_second() >= sent.as_second());
        if let Some(sent) = seat.sent.take_if(|sent| shown(sent)) {
            seen.delays.push(now.duration_since(sent).as_secs_f64());
        }
    }

    fn ends(&self, name: &str, why: &str) {
        let mut seen = self.seen();
        seen.members.entry(name.to_owned()).or_default().connected = false;
        seen.ended += 1;
        seen.trouble = Some(format!("{name}: {why}"));
    }

    /// Members with an open session.
    pub fn connected(&self) -> usize {
        self.seen().members.values().filter(|seat| seat.connected).count()
    }

    /// Members that the hub calls joined.
    pub fn joined(&self) -> usize {
        self.seen().members.values().filter(|seat| seat.joined).count()
    }

    /// Forgets what has been collected, and beats that are on their way.
    pub fn clear(&self) {
        self.take();
        for seat in self.seen().members.values_mut() {
            seat.sent = None;
        }
    }

    /// Takes what has been collected: delays from sending a beat until a watcher of MemberClusters saw it, in seconds and
    /// in order; and how many sessions have ended.
    pub fn take(&self) -> (Vec<f64>, usize) {
        let mut seen = self.seen();
        let mut delays = std::mem::take(&mut seen.delays);
        delays.sort_by(f64::total_cmp);
        (delays, std::mem::take(&mut seen.ended))
    }

    /// The last thing that went wrong.
    pub fn trouble(&self) -> String {
        self.seen().trouble.clone().unwrap_or_else(|| "nothing".to_owned())
    }
}

impl Members {
    /// None yet, but their identity, and a watch of what becomes of them.
    pub async fn new(hub: &Hub) -> Result<Self> {
        let client = hub.client.clone();
        let accounts = Api::<ServiceAccount>::namespaced(client.clone(), NAMESPACE);
        let account = serde_json::from_value(json!({"metadata": {"name": ACCOUNT}}))?;
        accounts.create(&PostParams::default(), &account).await?;
        let request = TokenRequest {
            spec: TokenRequestSpec {
                expiration_seconds: Some(24 * 3600),
                ..TokenRequestSpec::default()
            },
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(ACCOUNT, &PostParams::default(), &request)
            .await?;
        let token = answer.status.map(|s| s.token).context("the hub issued no token")?;
        let (board, works, mut tasks) = (Arc::<Board>::default(), Arc::<Works>::default(), JoinSet::new());
        tasks.spawn(follow(client.clone(), board.clone()));
        tasks.spawn(works.clone().follow(client.clone()));
        Ok(Self {
            client,
            token: token.into(),
            board,
            works,
            tasks: Mutex::new(tasks),
        })
    }

    /// The token of their identity.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// From now on content with this text in it works on these members alone; without a text everything works again.
    pub fn break_version(&self, text: &str, works_on: &[&str]) {
        self.works.break_version(text, works_on);
    }

    /// What is known of them.
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// Creates members until there are so many, and waits until the hub calls all of them joined.
    pub async fn join(&self, up_to: usize) -> Result<Duration> {
        let from = self.board.seen().members.len();
        progress(&format!("members {} to {up_to} join", from + 1));
        let begun = Instant::now();
        let joining = async {
            tokio::try_join!(self.create(from..up_to), self.open(up_to))?;
            while self.board.joined() < up_to {
                sleep(Duration::from_millis(50)).await;
            }
            Ok(begun.elapsed())
        };
        match timeout(JOINING, joining).await {
            Ok(took) => took,
            Err(_) => bail!(
                "{} of {up_to} members joined in {} s; last trouble: {}",
                self.board.joined(),
                JOINING.as_secs(),
                self.board.trouble()
            ),
        }
    }

    async fn create(&self, range: std::ops::Range<usize>) -> Result<()> {
        let api = Api::<MemberCluster>::all(self.client.clone());
        let identity = json!({"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE});
        let spec = json!({"identity": identity, "heartbeatPeriodSeconds": HEARTBEAT.as_secs()});
        stream::iter(range.map(|n| {
            let labels = json!({LABEL: "yes", STAGE: STAGES[n % STAGES.len()]});
            let metadata = json!({"name": format!("{PREFIX}{n:05}"), "labels": labels});
            let object = json!({"metadata": metadata, "spec": spec.clone()});
            let api = api.clone();
            async move {
                let object = serde_json::from_value::<MemberCluster>(object)?;
                api.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            }
        }))
        .buffer_unordered(CREATES)
        .try_collect::<()>()
        .await
        .context("cannot create MemberClusters")
    }

    /// Starts a member as soon as the hub announces the channel to it, as a real one waits for its InternalMemberCluster.
    async fn open(&self, up_to: usize) -> Result<()> {
        let api = Api::<InternalMemberCluster>::all(self.client.clone());
        let mut objects = Box::pin(
            watcher(api, watcher::Config::default())
                .default_backoff()
                .applied_objects(),
        );
        let mut spawned = self.board.seen().members.values().filter(|s| s.spawned).count();
        while spawned < up_to {
            let Some(Ok(imc)) = objects.next().await else { continue };
            let Some(address) = address(&imc) else { continue };
            let name = imc.name_any();
            if name.starts_with(PREFIX)
                && !self
                    .board
                    .seat(&name, |seat| std::mem::replace(&mut seat.spawned, true))
            {
                spawned += 1;
                let member = Member {
                    name,
                    address,
                    token: self.token.clone(),
                    board: self.board.clone(),
                    works: self.works.clone(),
                };
                self.tasks
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .spawn(member.live());
            }
        }
        Ok(())
    }
}

/// A policy that picks all of them.
pub fn everywhere() -> Value {
    with_label(LABEL, "yes")
}

/// A policy that picks all with this label.
pub fn with_label(key: &str, value: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {key: value}}});
    let required = json!({"clusterSelectorTerms": [term]});
    let affinity = json!({"clusterAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    json!({"placementType": "PickAll", "affinity": affinity})
}

/// Where the hub says that the channel is.
pub(super) fn address(imc: &InternalMemberCluster) -> Option<Address> {
    let annotations = imc.metadata.annotations.as_ref()?;
    let ca = STANDARD.decode(annotations.get(annotations::CHANNEL_CA)?).ok()?;
    Some(Address {
        endpoint: annotations.get(annotations::CHANNEL_ENDPOINT)?.clone(),
        ca: String::from_utf8(ca).ok()?,
    })
}

async fn follow(client: Client, board: Arc<Board>) {
    let api = Api::<MemberCluster>::all(client);
    let mut objects = Box::pin(
        watcher(api, watcher::Config::default())
            .default_backoff()
            .applied_objects(),
    );
    while let Some(object) = objects.next().await {
        if let Ok(mc) = object {
            board.shows(&mc);
        }
    }
}

/// One of them.
struct Member {
    name: String,
    address: Address,
    token: Arc<str>,
    board: Arc<Board>,
    works: Arc<Works>,
}

impl Member {
    /// Its life: sessions, and waits between them that grow as a real agent's.
    async fn live(self) {
        let (name, board) = (&self.name, &self.board);
        let mut backoff = Backoff::default();
        let period = SignedDuration::try_from(HEARTBEAT).unwrap_or(SignedDuration::MAX);
        loop {
            let ended = self.session().await;
            if board.seat(name, |seat| seat.connected) {
                backoff.succeeded();
            }
            let own = backoff.failed(false, period, fastrand::f64()).unsigned_abs();
            let wait = match ended {
                Ok(retry_after) => {
                    board.ends(name, "the hub closed the session");
                    retry_after.max(own)
                }
                Err(error) => {
                    board.ends(name, &format!("{error:#}"));
                    own
                }
            };
            sleep(wait).await;
        }
    }

    async fn session(&self) -> Result<Duration> {
        let (name, board) = (&self.name, &self.board);
        let (known, mut works) = self.works.open(name);
        let opening = async {
            let mut member = ScriptedMember::dial(&self.address, Some(&self.token)).await?;
            let hello = Hello {
                works: known,
                ..hello(name)
            };
            let accept = member.open(hello).await?;
            anyhow::Ok((member, accept))
        };
        let (mut member, accept) = timeout(OPENING, opening).await.context("no session in time")??;
        board.seat(name, |seat| seat.connected = true);
        board.beats(name);
        member.beat().await;
        let status = member.agent_status(vec![
            condition("Joined", Status::True, "InternalMemberClusterJoined"),
            condition("Healthy", Status::True, "InternalMemberClusterHealthy"),
        ]);
        let properties = properties(&member);
        for report in [status, properties] {
            let outcome = member.ask(report).await?;
            if !matches!(outcome, Outcome::Persisted | Outcome::Unchanged) {
                bail!("not stored: {outcome:?}");
            }
        }
        for report in self.works.reports(name, &accept.resend_works) {
            member.say(report).await;
        }
        let mut due = Instant::now();
        loop {
            due += HEARTBEAT.mul_f64(0.95 + 0.1 * fastrand::f64());
            loop {
                tokio::select! {
                    message = member.next() => match message? {
                        Some(HubMessage::Reject(reject)) => return Ok(Duration::from_millis(reject.retry_after_ms)),
                        None => return Ok(Duration::ZERO),
                        Some(_) => {}
                    },
                    Some(work) = works.recv() => {
                        if let Some(report) = self.works.report(name, &work) {
                            member.say(report).await;
                        }
                    }
                    () = sleep_until(due) => break,
                }
            }
            board.beats(name);
            member.beat().await;
        }
    }
}

/// Of the size that a real member's are.
fn properties(member: &ScriptedMember) -> MemberMessage {
    let observed_at = Time(now());
    let property = |name: &str, value: &str| {
        let value = value.to_owned();
        (
            name.to_owned(),
            PropertyValue {
                value,
                observation_time: observed_at.clone(),
            },
        )
    };
    let sums = |cpu: &str, memory: &str| {
        BTreeMap::from(
            [("cpu", cpu), ("memory", memory), ("pods", "330")].map(|(k, v)| (k.to_owned(), Quantity(v.to_owned()))),
        )
    };
    let namespaces = [
        "default",
        "kube-node-lease",
        "kube-public",
        "kube-system",
        "fleet-system",
    ];
    MemberMessage::Properties(PropertiesReport {
        imc_uid: member.imc_uid.clone(),
        imc_generation: member.imc_generation,
        properties: [
            property("kubernetes-fleet.io/node-count", "3"),
            property("k8s.io/k8s-version", "v1.36.3"),
        ]
        .into(),
        usage: Some(ResourceUsage {
            capacity: sums("24", "96Gi"),
            allocatable: sums("24", "96Gi"),
            available: sums("20", "90Gi"),
            observation_time: Some(observed_at.clone()),
        }),
        namespaces: Some(namespaces.map(|name| (name.to_owned(), String::new())).into()),
        conditions: vec![condition(
            "ClusterPropertyCollectionSucceeded",
            Status::True,
            "PropertyCollectionSucceeded",
        )],
        collected: true,
    })
}
