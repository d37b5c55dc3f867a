//! Opening a session: who is calling, may it, and its place in the InternalMemberCluster.

use std::{sync::Arc, time::Duration};

use fleet_api::{
    annotations,
    cluster::{AgentType, InternalMemberCluster, MemberCluster},
    events::Event as _,
    names::{ClusterName, Scope},
};
use fleet_core::{
    membership::heartbeat,
    session::{
        digest::{digest, to_resend},
        epoch::SessionId,
        hello::{Verdict, World, common_protocol, judge},
        identity::Caller,
    },
};
use fleet_proto::{
    OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION,
    convert::{Accept, Hello, RejectCode},
};
use fleet_runtime::{
    Key,
    events::Severity,
    logs,
    writes::{Lane, Target},
};
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use rustls::pki_types::CertificateDer;
use serde_json::json;

use super::{
    authenticate,
    convert::{claim, code, known},
    registry::{Close, Live, imc_key},
    server::Shared,
    write::{Failure, after_conflict},
};

/// Two replicas may accept the same member at once; each try lets one of them win.
const TRIES: usize = 5;
/// Works told to be reported again at Accept. The rest differ from what the member sees, and it sends them by itself.
const RESEND_MAX: usize = 5_000;

/// What a caller proves itself with. Its Debug form shows no secret.
pub(super) struct Credential {
    token: Option<String>,
    certificate: Option<CertificateDer<'static>>,
}

impl Credential {
    pub(super) fn new(token: Option<String>, certificate: Option<CertificateDer<'static>>) -> Self {
        Self { token, certificate }
    }

    /// Who it is, and until when. The API server lets a token live on for a while; here it ends when it says.
    pub(super) async fn judge(&self, shared: &Shared) -> Result<authenticate::Caller, Close> {
        let judged = if let Some(token) = &self.token {
            // Anybody who reaches the port can ask; the API server should not feel it.
            let Ok(_turn) = shared.reviews.acquire().await else {
                return Err(Close::new(RejectCode::Unavailable, "the hub agent stops"));
            };
            authenticate::by_token(&shared.deps.client, token).await
        } else if let Some(certificate) = &self.certificate {
            authenticate::by_certificate(certificate)
        } else {
            Err(authenticate::Error::NoCredential)
        };
        let caller = judged.map_err(|error| match &error {
            authenticate::Error::Review(cause) => {
                tracing::warn!(error = %logs::chain(cause), "A token could not be reviewed");
                Close::new(RejectCode::Unavailable, error.to_string())
            }
            _ => Close::new(RejectCode::Unauthenticated, error.to_string()),
        })?;
        if caller.expires.is_some_and(|at| at <= shared.deps.clock.now()) {
            return Err(Close::new(RejectCode::Unauthenticated, "the credential has expired"));
        }
        Ok(caller)
    }
}

/// A session that is stored as the member's current one.
pub(super) struct Opened {
    pub(super) live: Arc<Live>,
    pub(super) accept: Accept,
}

/// Judges a Hello and stores the session.
pub(super) async fn open(shared: &Arc<Shared>, caller: &authenticate::Caller, hello: &Hello) -> Result<Opened, Close> {
    let deps = &shared.deps;
    if !(deps.members.is_synced() && deps.internals.is_synced() && deps.namespaces.is_synced()) {
        return Err(Close::new(RejectCode::Unavailable, "the hub agent is still starting"));
    }
    let caller = Caller {
        user: caller.user.clone(),
        groups: caller.groups.clone(),
    };
    let cluster = ClusterName::new(hello.member_cluster.clone());
    for _ in 0..TRIES {
        let (id, imc) = decide(shared, &caller, hello)?;
        // The verdict was an acceptance, so the name is one.
        let Ok(cluster) = cluster.clone() else {
            return Err(Close::new(RejectCode::PermissionDenied, ""));
        };
        match store(shared, &cluster, &id, &imc, hello, &caller).await {
            Some(Ok(imc)) => {
                let imc = deps.internals.wrote(imc);
                let live = Live::new(id, imc.metadata.uid.clone().unwrap_or_default(), caller, cluster);
                let resend_works = to_report_again(shared, hello, live.cluster.namespace()).await;
                let accept = accept(shared, hello, &live, &imc, resend_works);
                return Ok(Opened {
                    live: Arc::new(live),
                    accept,
                });
            }
            // Somebody else was quicker, or something about the member has changed: judge again.
            None => {}
            Some(Err(error)) => match Failure::of(&error) {
                Failure::Conflict => after_conflict(&deps.internals, imc.metadata.resource_version.as_deref()).await,
                Failure::Gone => {
                    return Err(Close::new(RejectCode::NotMember, "the InternalMemberCluster is gone"));
                }
                Failure::TooLarge(why) | Failure::Invalid(why) | Failure::Unavailable(why) => {
                    tracing::warn!(
                        member = hello.member_cluster,
                        error = why,
                        "A session could not be stored"
                    );
                    return Err(Close::new(
                        RejectCode::Unavailable,
                        "the hub's API server did not store the session",
                    ));
                }
            },
        }
    }
    Err(Close::new(
        RejectCode::Unavailable,
        "the InternalMemberCluster is being changed by many",
    ))
}

/// The verdict as things stand now.
fn decide(shared: &Shared, caller: &Caller, hello: &Hello) -> Result<(SessionId, Arc<InternalMemberCluster>), Close> {
    let deps = &shared.deps;
    let mc = deps.members.get(&Key::cluster(hello.member_cluster.as_str()));
    let cluster = ClusterName::new(hello.member_cluster.clone()).ok();
    let imc = cluster
        .as_ref()
        .and_then(|cluster| deps.internals.get(&imc_key(cluster)));
    let namespace = cluster
        .as_ref()
        .and_then(|c| deps.namespaces.get(&Key::cluster(c.namespace())));
    let world = World {
        caller,
        mc: mc.as_deref(),
        namespace_alive: namespace.is_some_and(|ns| ns.metadata.deletion_timestamp.is_none()),
        imc: imc.as_deref(),
        heartbeat_stale: is_stale(shared, mc.as_deref(), imc.as_deref()),
        oldest_protocol: OLDEST_PROTOCOL_VERSION,
    };
    match (judge(&claim(hello), &world), imc) {
        (Verdict::Accept(id), Some(imc)) => Ok((id, imc)),
        (Verdict::Accept(_), None) => Err(Close::new(RejectCode::NotMember, "")),
        (
            Verdict::Reject {
                refusal,
                message,
                event,
            },
            _,
        ) => {
            if let (Some(event), Some(mc)) = (event, mc) {
                deps.events.record(
                    fleet_api::events::MemberClusterEvent::component(Scope::Cluster),
                    &*mc,
                    Severity::Warning,
                    event.reason(),
                    event.message(),
                );
            }
            Err(Close::new(code(refusal), message))
        }
    }
}

/// Whether the stored heartbeat, wherever the later one is, is older than the silence limit.
fn is_stale(shared: &Shared, mc: Option<&MemberCluster>, imc: Option<&InternalMemberCluster>) -> bool {
    let of = AgentType::MemberAgent;
    let on_member = mc.and_then(|mc| mc.status.as_ref()?.agent(&of)?.last_received_heartbeat.clone());
    let on_internal = imc.and_then(|imc| imc.status.as_ref()?.agent(&of)?.last_received_heartbeat.clone());
    let Some(last) = on_member.into_iter().chain(on_internal).map(|time| time.0).max() else {
        return true;
    };
    let period = heartbeat::period(mc.map_or(60, |mc| mc.spec.heartbeat_period_seconds));
    let limit = heartbeat::silence_limit(shared.deps.settings.unhealthy_threshold, period);
    shared.deps.clock.now().duration_since(last) > limit
}

/// Writes the session's annotation. `None` if what was decided no longer holds when its turn came.
async fn store(
    shared: &Shared,
    cluster: &ClusterName,
    id: &SessionId,
    judged: &Arc<InternalMemberCluster>,
    hello: &Hello,
    caller: &Caller,
) -> Option<kube::Result<InternalMemberCluster>> {
    let key = imc_key(cluster);
    let api: Api<InternalMemberCluster> = Api::namespaced(shared.deps.client.clone(), &cluster.namespace());
    let request = || {
        let (now, imc) = decide(shared, caller, hello).ok()?;
        if now != *id || imc.metadata.resource_version != judged.metadata.resource_version {
            return None;
        }
        let patch = json!({ "metadata": {
            "uid": imc.metadata.uid,
            "resourceVersion": imc.metadata.resource_version,
            "annotations": { annotations::MEMBER_SESSION: id.to_string() },
        } });
        let (api, name) = (&api, cluster.as_str());
        Some(async move { api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await })
    };
    let target = Target::new("InternalMemberCluster", key.clone());
    // Among the heartbeats: after an outage a fleet must be able to return while placements are busy.
    shared.deps.writes.write(Lane::Heartbeat, target, &key, request).await
}

/// The Works whose stored status is not what the member last sent. Beside the other tasks: a member may have thousands.
async fn to_report_again(shared: &Arc<Shared>, hello: &Hello, namespace: String) -> Vec<String> {
    // Before the Works are known, everything would look lost.
    if hello.works.is_empty() || !shared.deps.works.is_synced() {
        return Vec::new();
    }
    let (works, known) = (shared.deps.works.clone(), known(&hello.works));
    let compare = move || {
        let stored = |name: &str| {
            let work = works.get(&Key::namespaced(namespace.as_str(), name))?;
            let status = work.read_status().as_ref().map(digest);
            Some((work.metadata.uid.clone().unwrap_or_default(), status))
        };
        to_resend(&known, stored).take(RESEND_MAX).map(str::to_owned).collect()
    };
    tokio::task::spawn_blocking(compare).await.unwrap_or_default()
}

fn accept(
    shared: &Shared,
    hello: &Hello,
    live: &Live,
    imc: &InternalMemberCluster,
    resend_works: Vec<String>,
) -> Accept {
    Accept {
        session: live.id.session,
        protocol_version: common_protocol(hello.protocol_version, PROTOCOL_VERSION),
        hub_time: shared.deps.clock.now(),
        imc_uid: live.imc_uid.clone(),
        imc_generation: imc.metadata.generation.unwrap_or_default(),
        limits: shared.deps.settings.limits,
        resend_works,
        build_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}

/// Fills in the labels that a member's platform gave it, once this replica leads: only the leader writes MemberClusters.
/// They are for people and schedulers, so failures are tried again without hurry.
pub(super) async fn fill_labels(shared: &Shared, member: &str, labels: &std::collections::BTreeMap<String, String>) {
    let deps = &shared.deps;
    let key = Key::cluster(member);
    let api: Api<MemberCluster> = Api::all(deps.client.clone());
    let mut leading = deps.leading.clone();
    loop {
        if leading.wait_for(|leading| *leading).await.is_err() {
            return;
        }
        let request = || {
            let mc = deps.members.get(&key)?;
            let fillable: serde_json::Map<_, _> =
                fleet_core::membership::validate::fillable_labels(labels, mc.metadata.labels.as_ref())
                    .map(|(key, value)| (key.to_owned(), json!(value)))
                    .collect();
            if fillable.is_empty() {
                return None;
            }
            let patch = json!({ "metadata": { "labels": fillable, "resourceVersion": mc.metadata.resource_version } });
            let api = &api;
            Some(async move { api.patch(member, &PatchParams::default(), &Patch::Merge(patch)).await })
        };
        let target = Target::new("MemberCluster", key.clone());
        match deps.writes.write(Lane::Objects, target, &key, request).await {
            None => return,
            Some(Ok(mc)) => {
                deps.members.wrote(mc);
                return;
            }
            Some(Err(error)) => {
                tracing::debug!(member, error = %logs::chain(&error), "Platform labels not filled in");
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        }
    }
}
