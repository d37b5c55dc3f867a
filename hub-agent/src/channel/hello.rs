//! Opening a session: who is calling, may it, and its place in the InternalMemberCluster.

use std::sync::Arc;

use fleet_api::{
    annotations,
    cluster::{AgentType, InternalMemberCluster, MemberCluster},
    events::Event as _,
    names::{ClusterName, Scope},
};
use fleet_core::{
    membership::heartbeat,
    session::{
        budget::Budget,
        digest::to_resend,
        epoch::SessionId,
        hello::{Verdict, World, common_protocol, judge},
        identity::Caller,
        recovery::Recovery,
        trim::count,
    },
};
use fleet_proto::{
    OLDEST_PROTOCOL_VERSION, PROTOCOL_VERSION,
    convert::{Accept, Hello, RejectCode},
};
use fleet_runtime::{Key, events::Severity, logs, writes::Lane};
use rustls::pki_types::CertificateDer;
use serde_json::json;

use super::{
    allowance::Allowance,
    authenticate,
    behind::is_behind,
    close::{Close, starting},
    guests::Source,
    registry::{Live, imc_key},
    shared::Shared,
};
use crate::{
    recovery,
    writer::{About, Edit, ToDo, WriteFailure},
};

/// Works told to be reported again at Accept. The rest differ from what the member sees, and it sends them by itself.
const RESEND_MAX: usize = 5_000;

/// What a caller proves itself with. Its Debug form shows no secret.
pub(super) struct Credential {
    token: Option<String>,
    /// The client certificate and those that lead to its CA.
    chain: Vec<CertificateDer<'static>>,
    source: Option<Source>,
}

impl Credential {
    pub(super) fn new(token: Option<String>, chain: Vec<CertificateDer<'static>>, source: Option<Source>) -> Self {
        Self { token, chain, source }
    }

    /// Whether it is a client certificate that counts.
    pub(super) fn is_certificate(&self) -> bool {
        self.token.is_none() && !self.chain.is_empty()
    }

    /// Who it is, and until when. The API server lets a token live on for a while; here it ends when it says.
    pub(super) async fn judge(&self, shared: &Shared) -> Result<authenticate::Caller, Close> {
        let judged = if let Some(token) = &self.token {
            // Anybody who reaches the port can ask; the API server should not feel it.
            shared.reviews.by_token(&shared.deps.client, token, self.source).await
        } else {
            let trusted = shared.tls.borrow().as_ref().and_then(|tls| tls.clients.clone());
            authenticate::by_chain(&self.chain, trusted.as_deref(), shared.deps.clock.now())
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
        return Err(starting());
    }
    let caller = named(caller);
    let cluster = ClusterName::new(hello.member_cluster.clone());
    let imc = cluster.as_ref().ok().and_then(|c| deps.internals.get(&imc_key(c)));
    decide(shared, &caller, hello, imc.as_deref())?;
    // The verdict was an acceptance, so the name is one.
    let cluster = cluster.map_err(|_| Close::new(RejectCode::PermissionDenied, ""))?;
    let allowance = one_more(shared, hello)?;
    // Only of a member: this may ask the API server.
    let went_back = is_behind(shared, hello, &cluster).await;
    let (id, imc) = store(shared, &allowance, &cluster, hello, &caller, went_back).await?;
    let imc_uid = imc.metadata.uid.clone().unwrap_or_default();
    let live = Live::new(id, imc_uid, caller, cluster, allowance);
    let resend_works = to_report_again(shared, hello, live.cluster.namespace()).await;
    let accept = accept(shared, hello, &live, &imc, resend_works);
    Ok(Opened {
        live: Arc::new(live),
        accept,
    })
}

/// Whether somebody who calls by this name may be a member at all, whichever.
pub(super) fn is_somebody(shared: &Shared, caller: &authenticate::Caller) -> bool {
    let by_identity = &shared.deps.members_by_identity;
    named(caller).names().any(|name| by_identity.count(&name) > 0)
}

fn named(caller: &authenticate::Caller) -> Caller {
    Caller {
        user: caller.user.clone(),
        groups: caller.groups.clone(),
    }
}

/// One more session of a member, if it has not had too many.
fn one_more(shared: &Shared, hello: &Hello) -> Result<Arc<Allowance>, Close> {
    let deps = &shared.deps;
    let member = hello.member_cluster.as_str();
    let mc = deps.members.get(&Key::cluster(member));
    let uid = mc.and_then(|mc| mc.metadata.uid.clone()).unwrap_or_default();
    let allowance = shared
        .allowances
        .of(member, &uid, deps.settings.rates, deps.clock.steady());
    match allowance.ask(shared, Budget::session) {
        Ok(()) => Ok(allowance),
        Err(wait) => Err(Close {
            retry_after: wait,
            ..Close::new(RejectCode::Unavailable, "too many sessions in a short time")
        }),
    }
}

/// The verdict as things stand now.
fn decide<'a>(
    shared: &Shared,
    caller: &Caller,
    hello: &Hello,
    imc: Option<&'a InternalMemberCluster>,
) -> Result<(SessionId, &'a InternalMemberCluster), Close> {
    let deps = &shared.deps;
    let mc = deps.members.get(&Key::cluster(hello.member_cluster.as_str()));
    let cluster = ClusterName::new(hello.member_cluster.clone()).ok();
    let namespace = cluster
        .as_ref()
        .and_then(|c| deps.namespaces.get(&Key::cluster(c.namespace())));
    let world = World {
        caller,
        mc: mc.as_deref(),
        namespace_alive: namespace.is_some_and(|ns| ns.metadata.deletion_timestamp.is_none()),
        imc,
        heartbeat_stale: is_stale(shared, mc.as_deref(), imc),
        oldest_protocol: OLDEST_PROTOCOL_VERSION,
    };
    match (judge(&hello.claim(), &world), imc) {
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
            Err(Close::new(refusal.into(), message))
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
    let put_forward = shared.deps.clock.put_forward_since(last);
    shared.deps.clock.now().duration_since(last) > limit.saturating_add(put_forward)
}

/// Writes the session's annotation, if the verdict still is an acceptance when its turn has come. Two replicas may accept
/// the same member at once; each try lets one of them win.
async fn store(
    shared: &Shared,
    allowance: &Allowance,
    cluster: &ClusterName,
    hello: &Hello,
    caller: &Caller,
    went_back: bool,
) -> Result<(SessionId, Arc<InternalMemberCluster>), Close> {
    let (deps, key) = (&shared.deps, imc_key(cluster));
    let about = About {
        store: &deps.internals,
        key: &key,
        group: &key,
        // Among the heartbeats: after an outage a fleet must be able to return while placements are busy.
        lane: Lane::Heartbeat,
    };
    let decide = |imc: Option<&InternalMemberCluster>, _| {
        let (id, imc) = match decide(shared, caller, hello, imc) {
            Ok(accepted) => accepted,
            Err(close) => return ToDo::Nothing(Err(close)),
        };
        let mut patch = json!({ "metadata": {
            "uid": imc.metadata.uid,
            "resourceVersion": imc.metadata.resource_version,
            "annotations": {
                annotations::MEMBER_SESSION: id.to_string(),
                annotations::MEMBER_AGENT_VERSION: hello.build_version,
                annotations::HUB_AGENT_VERSION: env!("CARGO_PKG_VERSION"),
            },
        } });
        // The whole object is stored again, with all that the member has said of itself.
        if let Err(wait) = allowance.ask(shared, |budget, now| budget.beat(count(imc), now)) {
            return ToDo::Nothing(Err(Close {
                retry_after: wait,
                ..Close::new(RejectCode::Unavailable, "held back: the member has too much written")
            }));
        }
        let now = deps.clock.now();
        if went_back && !Recovery::of(imc.metadata.annotations.as_ref()).is_held(now) {
            patch["metadata"]["annotations"][annotations::WENT_BACK_AT] = json!(recovery::stamp(now));
        }
        ToDo::Write(Edit::Object(patch), Ok(id))
    };
    let member = hello.member_cluster.as_str();
    let why = match deps.writer.decide(&about, decide).await {
        Ok((id, imc)) => {
            let gone = || Close::new(RejectCode::NotMember, "");
            return id.and_then(|id| Ok((id, imc.ok_or_else(gone)?)));
        }
        Err(WriteFailure::Conflict) => {
            let why = "the InternalMemberCluster is being changed by many";
            return Err(Close::new(RejectCode::Unavailable, why));
        }
        Err(WriteFailure::Gone) => return Err(Close::new(RejectCode::NotMember, "the InternalMemberCluster is gone")),
        Err(WriteFailure::Held(_)) => return Err(Close::new(RejectCode::Unavailable, "held back")),
        Err(WriteFailure::TooLarge(why) | WriteFailure::Invalid(why) | WriteFailure::Unavailable(why)) => why,
    };
    tracing::warn!(member, error = why, "A session could not be stored");
    let why = "the hub's API server did not store the session";
    Err(Close::new(RejectCode::Unavailable, why))
}

/// The Works whose stored status is not what the member last sent. Beside the other tasks: a member may have thousands.
async fn to_report_again(shared: &Arc<Shared>, hello: &Hello, namespace: String) -> Vec<String> {
    // Before the Works are known, everything would look lost.
    if hello.works.is_empty() || !shared.deps.works.is_synced() {
        return Vec::new();
    }
    let (works, known) = (shared.deps.works.clone(), hello.works.clone());
    let compare = move || {
        let stored = |name: &str| {
            let work = works.get(&Key::namespaced(namespace.as_str(), name))?;
            Some((work.metadata.uid.clone().unwrap_or_default(), work.status_digest()))
        };
        to_resend(&known, stored).take(RESEND_MAX).map(str::to_owned).collect()
    };
    let Ok(_turn) = shared.comparisons.acquire().await else {
        return Vec::new();
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
        hub_time: Some(shared.deps.clock.now()),
        imc_uid: live.imc_uid.clone(),
        imc_generation: imc.metadata.generation.unwrap_or_default(),
        limits: shared.deps.settings.limits,
        resend_works,
        build_version: env!("CARGO_PKG_VERSION").to_owned(),
    }
}
