//! Writes Works: creates, then patches wave by wave, then what they replace is deleted.

use std::collections::BTreeSet;

use fleet_api::{annotations, cluster::AgentType, names::ClusterName, placement::Scope};
use fleet_core::{
    text::cut,
    work::{Agent, Patch, Plan, WantedWork, WorkFailure, starts_with_finalizer},
};
use fleet_runtime::Key;
use futures::future::join_all;
use kube::ResourceExt as _;

use crate::{
    cache::{in_namespace, works::HubWork},
    pipeline::Pipeline,
    recovery,
    writer::{Part, WriteError},
};

/// The longest answer of the API server that is kept; it may quote what it was sent.
const SAID_MAX: usize = 1024;

/// Why a Work was not written.
pub(super) enum Refusal {
    /// Somebody else wrote it meanwhile, say another replica a report: decide anew.
    Conflict(WriteError),
    /// The API server refused; for the user.
    Failed(WorkFailure),
    /// The hub went back in time: nothing of this cluster is deleted until somebody has said to go on.
    Held,
}

/// Carries a plan out, step by step. Each step is written as far as it can be, and its first failure is returned: what
/// comes after it takes objects out of Works, which may not be in their new ones then.
pub(super) async fn works<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    cluster: &ClusterName,
    plan: &Plan,
) -> Result<(), Refusal> {
    let creates = plan.creates.iter();
    settled(creates.map(|wanted| create(ctx, placement, cluster, wanted))).await?;
    let waves: BTreeSet<usize> = plan.patches.iter().map(|change| change.wave).collect();
    for wave in waves {
        let patches = plan.patches.iter().filter(|change| change.wave == wave);
        settled(patches.map(|change| patch(ctx, placement, cluster, change))).await?;
    }
    settled(plan.deletes.iter().map(|name| delete(ctx, placement, cluster, name))).await
}

/// All of a step, side by side.
async fn settled(step: impl Iterator<Item = impl Future<Output = Result<(), Refusal>>>) -> Result<(), Refusal> {
    join_all(step).await.into_iter().collect()
}

async fn create<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    cluster: &ClusterName,
    wanted: &WantedWork,
) -> Result<(), Refusal> {
    let namespace = cluster.namespace();
    let key = in_namespace(&namespace, &wanted.name);
    let finalizer = has_agent(ctx, cluster);
    let make = || Some(wanted.to_json(&namespace, finalizer));
    let store = &ctx.shared.works.store;
    match ctx
        .shared
        .writer
        .create(store, &key, placement, make)
        .await
        .map_err(refused)?
    {
        Some(_) => {
            tracing::info!(member = %cluster, work = wanted.name, "Created the Work");
            Ok(())
        }
        // The cache is behind; the watch brings it, and with it the next look.
        None => Err(Refusal::Failed(WorkFailure::Write(format!(
            "works.placement.kubernetes-fleet.io {:?} already exists",
            wanted.name
        )))),
    }
}

async fn patch<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    cluster: &ClusterName,
    change: &Patch,
) -> Result<(), Refusal> {
    let key = in_namespace(&cluster.namespace(), &change.wanted.name);
    let body = |found: &HubWork| {
        // Reports move the version all the time and touch nothing of this: the newest one counts.
        let change = Patch {
            resource_version: found.resource_version(),
            ..change.clone()
        };
        found.metadata.deletion_timestamp.is_none().then(|| change.to_json())
    };
    let store = &ctx.shared.works.store;
    let written = ctx
        .shared
        .writer
        .patch_raw(store, &key, placement, Part::Object, body)
        .await;
    if written.map_err(refused)?.is_some() {
        tracing::info!(member = %cluster, work = change.wanted.name, "Changed the Work");
    }
    Ok(())
}

pub(super) async fn delete<S: Scope>(
    ctx: &Pipeline<S>,
    placement: &Key,
    cluster: &ClusterName,
    name: &str,
) -> Result<(), Refusal> {
    if recovery::is_held(&ctx.shared.internals, cluster, ctx.now()) {
        return Err(Refusal::Held);
    }
    let key = in_namespace(&cluster.namespace(), name);
    let store = &ctx.shared.works.store;
    let uid = store.get(&key).and_then(|work| work.uid());
    if ctx
        .shared
        .writer
        .delete(store, &key, placement, uid.as_deref(), None)
        .await
        .map_err(refused)?
    {
        tracing::info!(member = %cluster, work = name, "Deleted the Work");
    }
    Ok(())
}

fn refused(error: WriteError) -> Refusal {
    if error.is_conflict() {
        Refusal::Conflict(error)
    } else {
        Refusal::Failed(WorkFailure::Write(cut(&error.said(), SAID_MAX).into_owned()))
    }
}

/// Whether an agent is there that will take the cleanup finalizer off again.
fn has_agent<S: Scope>(ctx: &Pipeline<S>, cluster: &ClusterName) -> bool {
    let internal = ctx
        .shared
        .internals
        .get(&in_namespace(&cluster.namespace(), cluster.as_str()));
    let member = ctx.shared.members.get(&Key::cluster(cluster.as_str()));
    let beat = member.as_ref().and_then(|member| {
        let agent = member.status.as_ref()?.agent(&AgentType::MemberAgent)?;
        agent.last_received_heartbeat.as_ref().map(|time| time.0)
    });
    let agent = Agent {
        session: internal
            .as_ref()
            .and_then(|internal| internal.annotations().get(annotations::MEMBER_SESSION))
            .map(String::as_str),
        last_heartbeat: beat,
        leaving: member.is_none_or(|member| member.metadata.deletion_timestamp.is_some()),
    };
    starts_with_finalizer(&agent, ctx.shared.settings.unhealthy_threshold, ctx.now())
}
