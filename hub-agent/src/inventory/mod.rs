//! The inventory: one ClusterProfile for each joined member, for tools that choose clusters without knowing the fleet.
//!
//! Watches MemberClusters and ClusterProfiles; writes ClusterProfiles, their status, and one finalizer of MemberClusters.
//! Runs on the leader only.

use fleet_api::{
    cluster::MemberCluster,
    conditions::{self, cluster_profile::ControlPlaneHealthy},
    finalizers, patch,
    raw::RawJson,
};
use fleet_core::membership::{
    heartbeat::{self, Grace},
    profile::{Export, Facts, ProfileContent, export},
};
use fleet_runtime::{
    Key,
    cache::Store,
    clock::Clock,
    controller::{self, Measures},
    queue::{Next, Queue},
};
use jiff::SignedDuration;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::cluster_profile::{AccessProvider, ClusterProfile, ClusterProfileStatus, Endpoint, Property, Version},
    writer::{Part, WriteError, Writer, without_finalizers},
};

/// The manager that profiles name, and the provider of access. Upstream's, which consumers know.
const MANAGER: &str = "KubeFleet";
const MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
/// The field manager of its writes.
pub(crate) const FIELD_MANAGER: &str = "cluster-inventory-controller";

/// What a pass works with.
#[derive(Clone)]
pub(crate) struct ClusterInventory {
    pub(crate) members: Store<MemberCluster>,
    pub(crate) profiles: Store<ClusterProfile>,
    pub(crate) namespace: String,
    pub(crate) writer: Writer,
    pub(crate) clock: Clock,
    pub(crate) threshold: SignedDuration,
    pub(crate) grace: Grace,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("could not compare the states of the ClusterProfile")]
    Compare(#[from] serde_json::Error),
}

/// Runs the controller for one term of leadership.
pub(crate) async fn run(ctx: ClusterInventory, measures: Measures, stop: CancellationToken) {
    let queue = Queue::<Key>::default();
    let feeds = async {
        tokio::join!(
            // Heartbeat times move a timer only, which looks by itself when it is due; but one ends a silence.
            controller::feed(ctx.members.subscribe(), queue.clone(), |change| {
                let matters = change.differs(|mc| {
                    let m = &mc.metadata;
                    (m.generation, m.deletion_timestamp.clone(), m.finalizers.clone())
                }) || change.differs(|mc| mc.status.as_ref().map(|s| (s.conditions.clone(), values(s))))
                    || change.new.is_none()
                    || ctx.is_shown_unhealthy(&change.key);
                matters.then(|| change.key.clone())
            }),
            controller::feed(ctx.profiles.subscribe(), queue.clone(), |change| {
                Some(Key::cluster(change.key.name().to_owned()))
            }),
        )
    };
    let passes = controller::run(
        queue.clone(),
        controller::Options::new("cluster-inventory"),
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

/// What a profile shows of a status; observation times are not part of it.
fn values(
    status: &fleet_api::cluster::MemberClusterStatus,
) -> (
    Vec<(String, String)>,
    Vec<k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition>,
) {
    let properties = status
        .properties
        .iter()
        .map(|(name, p)| (name.clone(), p.value.clone()))
        .collect();
    let agents = status.agent_status.iter().flat_map(|a| a.conditions.clone()).collect();
    (properties, agents)
}

/// One look at a member.
pub(crate) async fn pass(ctx: ClusterInventory, key: Key) -> Result<Next, Error> {
    let mc = ctx.members.get(&key);
    let now = ctx.clock.now();
    let last = mc.as_deref().map(heartbeat::last_of);
    let put_forward = last.map(|last| ctx.clock.put_forward_since(last));
    let grace = ctx.grace.put_forward(put_forward.unwrap_or_default());
    match export(mc.as_deref(), ctx.threshold, &grace, now) {
        Export::LeaveAlone(_) => Ok(Next::Wait),
        Export::Delete { release } => {
            delete(&ctx, &key).await?;
            if release {
                self::release(&ctx, &key).await?;
            }
            Ok(Next::Wait)
        }
        Export::Ensure(wanted) => {
            // The membership controller puts the finalizer on; until then a profile could be left behind.
            if !wanted.add_finalizer {
                ensure(&ctx, &key, &wanted).await?;
            }
            let next = wanted.look_again.map(|at| ctx.clock.wake_at(at));
            Ok(next.map_or(Next::Wait, Next::At))
        }
    }
}

impl ClusterInventory {
    /// Whether the profile says that the cluster is not well.
    fn is_shown_unhealthy(&self, member: &Key) -> bool {
        let profile = self.profiles.get(&self.key(member));
        let status = profile.as_ref().and_then(|profile| profile.status.as_ref());
        let said = status.and_then(|status| conditions::find(&status.conditions, ControlPlaneHealthy::TYPE));
        said.is_some_and(|condition| condition.status != "True")
    }

    fn key(&self, member: &Key) -> Key {
        Key::namespaced(self.namespace.clone(), member.name().to_owned())
    }
}

async fn delete(ctx: &ClusterInventory, member: &Key) -> Result<(), Error> {
    let key = ctx.key(member);
    let found = ctx.profiles.get(&key);
    let Some(ours) = found.filter(|profile| profile.spec.cluster_manager.name == MANAGER) else {
        return Ok(());
    };
    let uid = ours.metadata.uid.as_deref();
    if ctx.writer.delete(&ctx.profiles, &key, member, uid, None).await? {
        tracing::info!(member = %member, "Removed the cluster profile");
    }
    Ok(())
}

/// Takes our finalizer off the MemberCluster. The membership controller does so with its own, in one write; what is left
/// is one that it has released before the profile was gone.
async fn release(ctx: &ClusterInventory, member: &Key) -> Result<(), Error> {
    let patch = |mc: &MemberCluster| {
        let held = mc.metadata.finalizers.as_deref().unwrap_or_default();
        if held.iter().any(|f| f == finalizers::MEMBER_CLUSTER) {
            return None;
        }
        without_finalizers(mc, &[finalizers::CLUSTER_PROFILE])
    };
    ctx.writer
        .patch(&ctx.members, member, member, Part::Object, patch)
        .await?;
    Ok(())
}

/// Creates the profile or takes it back to what it should say.
async fn ensure(ctx: &ClusterInventory, member: &Key, wanted: &ProfileContent) -> Result<(), Error> {
    let key = ctx.key(member);
    let make = || {
        let as_it_should = ctx.profiles.get(&key).is_some_and(|profile| {
            let label = profile.metadata.labels.as_ref().and_then(|l| l.get(MANAGER_LABEL));
            profile.spec.display_name == wanted.display_name && label.is_some_and(|l| l == MANAGER)
        });
        let profile = || {
            json!({
                "apiVersion": "multicluster.x-k8s.io/v1alpha1",
                "kind": "ClusterProfile",
                "metadata": { "name": member.name(), "labels": { MANAGER_LABEL: MANAGER } },
                "spec": { "displayName": wanted.display_name, "clusterManager": { "name": MANAGER } },
            })
        };
        (!as_it_should).then(|| Ok(RawJson::from(profile())))
    };
    if ctx.writer.apply(&ctx.profiles, &key, member, make).await?.is_some() {
        tracing::info!(member = %member, "Wrote the cluster profile");
    }

    let now = ctx.clock.now();
    let patch = |found: &ClusterProfile| {
        let before = found.status.clone().unwrap_or_default();
        let after = status(&before, wanted, found.metadata.generation.unwrap_or_default(), now);
        patch::between_statuses(&before, &after)
    };
    ctx.writer
        .try_patch(&ctx.profiles, &key, member, Part::Status, patch)
        .await?;
    Ok(())
}

fn status(
    before: &ClusterProfileStatus,
    wanted: &ProfileContent,
    generation: i64,
    now: jiff::Timestamp,
) -> ClusterProfileStatus {
    let mut status = before.clone();
    let health: &ControlPlaneHealthy = &wanted.health;
    conditions::set(&mut status.conditions, health, generation, now);
    if let Some(Facts {
        version,
        server,
        certificate_authority_data,
        properties,
    }) = &wanted.facts
    {
        if version.is_some() {
            status.version = Some(Version {
                kubernetes: version.clone(),
            });
        }
        status.access_providers = vec![AccessProvider {
            name: MANAGER.to_owned(),
            cluster: Endpoint {
                server: server.clone(),
                certificate_authority_data: certificate_authority_data.clone(),
            },
        }];
        let property = |(name, value): (&String, &String)| Property {
            name: name.clone(),
            value: value.clone(),
        };
        status.properties = properties.iter().map(property).collect();
    }
    status
}
