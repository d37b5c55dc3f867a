//! The life of a MemberCluster on the hub: what joining needs is kept there, what the member reports is copied, and what
//! is left of it is removed when it goes. The decisions are `fleet_core::membership`; here they are carried out.
//!
//! Watches MemberClusters, InternalMemberClusters, and the labelled Namespaces, Roles and RoleBindings. Writes all of
//! these, MemberCluster status, and finalizers of Works in namespaces that go. Runs on the leader only.

mod gone;
mod join;
mod leave;
mod status;
mod window;
mod works;

use std::{collections::HashMap, sync::Arc};

use fleet_api::{
    cluster::{AgentStatus, MemberCluster},
    conditions::{self, member_cluster::Healthy},
    names::ClusterName,
};
use fleet_core::membership::{heartbeat::Grace, join::JoinSettings, status::StatusSettings};
use fleet_runtime::{
    Key,
    cache::Change,
    clock::Clock,
    controller::{self, Measures},
    events::Recorder,
    queue::{Next, Queue},
};
use jiff::{SignedDuration, Timestamp};
use kube::Client;
use parking_lot::Mutex;
use prometheus_client::metrics::{family::Family, gauge::Gauge};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{
        Caches,
        works::{HubWork, Works},
    },
    writer::{WriteError, Writer},
};

/// What a pass works with.
#[derive(Clone)]
pub(crate) struct Membership {
    /// For what the caches do not show.
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) works: Works,
    pub(crate) writer: Writer,
    pub(crate) events: Recorder,
    pub(crate) clock: Clock,
    pub(crate) settings: MembershipSettings,
    pub(crate) results: Results,
    pub(crate) seen: Arc<Mutex<HashMap<Key, MemberMemory>>>,
}

/// What was seen of a member that its objects no longer tell.
#[derive(Clone, Default)]
pub(crate) struct MemberMemory {
    /// The uid of the InternalMemberCluster that the MemberCluster was last judged by.
    internal: Option<String>,
    /// Its namespace was going: once it is not there any more, it is gone.
    namespace_going: bool,
    /// It was told that nothing is cleaned up after it yet.
    told_held: bool,
    /// What was told to be wrong with its window.
    window: Option<String>,
}

/// What the flags and the channel say.
#[derive(Clone)]
pub(crate) struct MembershipSettings {
    pub(crate) networking: bool,
    /// The namespace of ClusterProfiles, if they are exported.
    pub(crate) profiles_in: Option<String>,
    pub(crate) force_delete_wait: SignedDuration,
    pub(crate) unhealthy_threshold: SignedDuration,
    pub(crate) grace: Grace,
    /// `host:port` for members, if there is one.
    pub(crate) endpoint: Option<String>,
    /// The channel's CA, PEM, as soon as there is one.
    pub(crate) ca: watch::Receiver<Option<String>>,
}

impl MembershipSettings {
    fn join(&self) -> JoinSettings {
        use base64::{Engine, engine::general_purpose::STANDARD};
        JoinSettings {
            networking: self.networking,
            export_profiles: self.profiles_in.is_some(),
            channel_endpoint: self.endpoint.clone(),
            channel_ca: self.ca.borrow().as_ref().map(|pem| STANDARD.encode(pem.as_bytes())),
        }
    }

    /// For a member since whose last heartbeat the clock was put forward by `put_forward`.
    fn status(&self, put_forward: SignedDuration) -> StatusSettings {
        StatusSettings {
            networking: self.networking,
            unhealthy_threshold: self.unhealthy_threshold,
            grace: self.grace.put_forward(put_forward),
        }
    }
}

/// Members that joined and left, under upstream's names. Gauges that only grow: the library would add a suffix to the
/// names of counters, and dashboards know these.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    joined: Family<[(&'static str, &'static str); 1], Gauge>,
    left: Family<[(&'static str, &'static str); 1], Gauge>,
}

impl Results {
    const SUCCESS: [(&'static str, &'static str); 1] = [("result", "success")];

    /// Registers both.
    pub(crate) fn new(metrics: &fleet_runtime::metrics::Metrics) -> Self {
        let new = Self::default();
        metrics.register(|registry| {
            registry.register("join_result_counter", "Clusters that joined", new.joined.clone());
            registry.register("leave_result_counter", "Clusters that left", new.left.clone());
        });
        new
    }

    pub(crate) fn count_joined(&self) {
        self.joined.get_or_create(&Self::SUCCESS).inc();
    }

    pub(crate) fn count_left(&self) {
        self.left.get_or_create(&Self::SUCCESS).inc();
    }
}

/// Why a pass failed. Users see it in `ReadyToJoin`; the pass is repeated with a growing delay.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("could not read {kind} {name}")]
    Read {
        kind: &'static str,
        name: String,
        source: kube::Error,
    },
    #[error("{0}")]
    Overdue(String),
}

/// Runs the controller for one term of leadership.
pub(crate) async fn run(ctx: Membership, measures: Measures, stop: CancellationToken) {
    let queue = Queue::<Key>::default();
    let caches = ctx.caches.clone();
    // A subscription begins with what is there, so namespaces whose MemberCluster went while nobody watched are found too.
    let feeds = async {
        tokio::join!(
            controller::feed(caches.members.subscribe(), queue.clone(), member_changed),
            controller::feed(caches.internals.subscribe(), queue.clone(), |change| by_namespace(
                change.key.namespace()
            )),
            controller::feed(caches.namespaces.subscribe(), queue.clone(), |change| by_namespace(
                Some(change.key.name())
            )),
            controller::feed(caches.roles.subscribe(), queue.clone(), |change| by_namespace(
                change.key.namespace()
            )),
            controller::feed(caches.role_bindings.subscribe(), queue.clone(), |change| by_namespace(
                change.key.namespace()
            )),
            controller::feed(ctx.works.store.subscribe(), queue.clone(), |change| held_up(
                &ctx.caches,
                change
            )),
            new_ca(&ctx, &queue),
        )
    };
    let passes = controller::run(
        queue.clone(),
        controller::Options::new("member-cluster"),
        measures,
        stop,
        {
            let ctx = ctx.clone();
            move |key| pass(ctx.clone(), key)
        },
    );
    tokio::select! {
        () = passes => {}
        _ = feeds => {}
    }
}

/// One look at a member.
pub(crate) async fn pass(ctx: Membership, key: Key) -> Result<Next, Error> {
    let Some(mc) = ctx.caches.members.get(&key) else {
        ctx.seen.lock().remove(&key);
        return gone::pass(&ctx, &key).await;
    };
    if mc.metadata.deletion_timestamp.is_some() {
        leave::pass(&ctx, &key, &mc).await
    } else {
        window::tell_unreadable(&ctx, &key, &mc);
        join::pass(&ctx, &key, &mc).await
    }
}

/// The CA is on every InternalMemberCluster: a new one concerns all.
async fn new_ca(ctx: &Membership, queue: &Queue<Key>) {
    let mut ca = ctx.settings.ca.clone();
    while ca.changed().await.is_ok() {
        for member in ctx.caches.members.all() {
            queue.add(Key::of(&*member));
        }
    }
    std::future::pending::<()>().await;
}

fn by_namespace(namespace: Option<&str>) -> Option<Key> {
    namespace
        .and_then(ClusterName::of_namespace)
        .map(|cluster| Key::cluster(cluster.as_str().to_owned()))
}

/// A Work keeps a namespace from going; elsewhere it is no concern of membership.
fn held_up(caches: &Caches, change: &Change<HubWork>) -> Option<Key> {
    let key = by_namespace(change.key.namespace()).filter(|_| change.new.is_some())?;
    let namespace = Key::cluster(change.key.namespace()?);
    let going = caches.namespaces.get(&namespace)?.metadata.deletion_timestamp.is_some();
    going.then_some(key)
}

/// A heartbeat alone moves no more than a timer, which looks by itself when it is due; unless the cluster was lost.
fn member_changed(change: &Change<MemberCluster>) -> Option<Key> {
    let quiet = |agents: &[AgentStatus]| {
        agents
            .iter()
            .map(|a| (a.type_.clone(), a.conditions.clone()))
            .collect::<Vec<_>>()
    };
    let matters = change.differs(|mc| {
        let m = &mc.metadata;
        (
            m.uid.clone(),
            m.generation,
            m.deletion_timestamp.clone(),
            m.labels.clone(),
            m.finalizers.clone(),
            window::of(mc).cloned(),
        )
    }) || change.differs(|mc| {
        mc.status
            .as_ref()
            .map(|s| (s.conditions.clone(), quiet(&s.agent_status)))
    });
    let lost = change.new.as_ref().is_some_and(|mc| {
        let status = mc.status.as_ref();
        status.is_some_and(|s| conditions::find(&s.conditions, Healthy::TYPE).is_some_and(|c| c.status != "True"))
    });
    (matters || lost).then(|| change.key.clone())
}

impl Membership {
    /// Changes what is remembered of a member.
    fn remember(&self, key: &Key, change: impl FnOnce(&mut MemberMemory)) {
        change(self.seen.lock().entry(key.clone()).or_default());
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The pass after this one: at `at`, or when something changes.
    pub(crate) fn next(&self, at: Option<Timestamp>) -> Next {
        at.map_or(Next::Wait, |at| Next::At(self.clock.wake_at(at)))
    }
}
