//! The inventory: one ClusterProfile for each joined member, for tools that choose clusters without knowing the fleet.
//!
//! Watches MemberClusters and ClusterProfiles; writes ClusterProfiles, their status, and one finalizer of MemberClusters.
//! Runs on the leader only.

mod cluster_profile;

use fleet_api::{
    cluster::MemberCluster,
    conditions::{self, cluster_profile::ControlPlaneHealthy},
    finalizers, patch,
};
use fleet_core::membership::{
    heartbeat::Grace,
    profile::{Export, Facts, Wanted, export},
};
use fleet_runtime::{
    Key,
    cache::Store,
    clock::Clock,
    controller::{self, Measures},
    queue::{Next, Queue},
    writes::{Lane, Target, Writes},
};
use jiff::SignedDuration;
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tokio_util::sync::CancellationToken;

pub use self::cluster_profile::ClusterProfile;
use self::cluster_profile::{AccessProvider, ClusterProfileStatus, Endpoint, Property, Version};

/// The manager that profiles name, and the provider of access. Upstream's, which consumers know.
const MANAGER: &str = "KubeFleet";
const MANAGER_LABEL: &str = "x-k8s.io/cluster-manager";
const FIELD_MANAGER: &str = "cluster-inventory-controller";

/// What a pass works with.
#[derive(Clone)]
pub(crate) struct Context {
    pub(crate) client: Client,
    pub(crate) members: Store<MemberCluster>,
    pub(crate) profiles: Store<ClusterProfile>,
    pub(crate) namespace: String,
    pub(crate) writes: Writes,
    pub(crate) clock: Clock,
    pub(crate) threshold: SignedDuration,
    pub(crate) grace: Grace,
}

/// Why a pass failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error("could not {0} the ClusterProfile")]
    Profile(&'static str, #[source] kube::Error),
    #[error("could not release the MemberCluster")]
    Member(#[source] kube::Error),
    #[error("could not compare the states of the ClusterProfile")]
    Compare(#[from] serde_json::Error),
}

/// Runs the controller for one term of leadership.
pub(crate) async fn run(ctx: Context, measures: Measures, stop: CancellationToken) {
    let queue = Queue::<Key>::default();
    let feeds = async {
        tokio::join!(
            // Heartbeat times move a timer only, which looks by itself when it is due.
            controller::feed(ctx.members.subscribe(), queue.clone(), |change| {
                let matters = change.differs(|mc| {
                    let m = &mc.metadata;
                    (m.generation, m.deletion_timestamp.clone(), m.finalizers.clone())
                }) || change.differs(|mc| mc.status.as_ref().map(|s| (s.conditions.clone(), values(s))))
                    || change.new.is_none();
                matters.then(|| change.key.clone())
            }),
            controller::feed(ctx.profiles.subscribe(), queue.clone(), |change| {
                Some(Key::cluster(change.key.name().to_owned()))
            }),
        )
    };
    for key in ctx.members.all().iter().map(|mc| Key::of(&**mc)) {
        queue.add(key);
    }
    for profile in ctx.profiles.all() {
        queue.add(Key::cluster(profile.metadata.name.clone().unwrap_or_default()));
    }
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

async fn pass(ctx: Context, key: Key) -> Result<Next, Error> {
    let mc = ctx.members.get(&key);
    let now = ctx.clock.now();
    match export(mc.as_deref(), ctx.threshold, &ctx.grace, now) {
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
            let next = wanted.look_again.map(|at| {
                let wait = std::time::Duration::try_from(at.duration_since(ctx.clock.now())).unwrap_or_default();
                tokio::time::Instant::now() + wait
            });
            Ok(next.map_or(Next::Wait, Next::At))
        }
    }
}

impl Context {
    fn api(&self) -> Api<ClusterProfile> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    fn key(&self, member: &Key) -> Key {
        Key::namespaced(self.namespace.clone(), member.name().to_owned())
    }

    fn target(&self, member: &Key) -> Target {
        Target::new("clusterprofiles", self.key(member))
    }
}

async fn delete(ctx: &Context, member: &Key) -> Result<(), Error> {
    let (api, key) = (ctx.api(), ctx.key(member));
    let params = DeleteParams::default();
    let ours = |profile: &ClusterProfile| profile.spec.cluster_manager.name == MANAGER;
    let body = || {
        ctx.profiles.get(&key).filter(|profile| ours(profile))?;
        let (api, params) = (&api, &params);
        Some(async move { api.delete(member.name(), params).await })
    };
    match ctx.writes.write(Lane::Objects, ctx.target(member), member, body).await {
        None => Ok(()),
        Some(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
        Some(Err(error)) => Err(Error::Profile("delete", error)),
        Some(Ok(_)) => {
            ctx.profiles.deleted(&key, None);
            tracing::info!(member = %member, "Removed the cluster profile");
            Ok(())
        }
    }
}

/// Takes our finalizer off the MemberCluster.
async fn release(ctx: &Context, member: &Key) -> Result<(), Error> {
    let api = Api::<MemberCluster>::all(ctx.client.clone());
    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let body = || {
        let mc = ctx.members.get(member)?;
        let after: Vec<_> = mc
            .metadata
            .finalizers
            .iter()
            .flatten()
            .filter(|f| *f != finalizers::CLUSTER_PROFILE)
            .cloned()
            .collect();
        let patch = patch::pinned(json!({ "metadata": { "finalizers": after } }), &*mc);
        let (api, params) = (&api, &params);
        Some(async move { api.patch(member.name(), params, &Patch::Merge(patch)).await })
    };
    match ctx
        .writes
        .write(
            Lane::Objects,
            Target::new("MemberCluster", member.clone()),
            member,
            body,
        )
        .await
    {
        Some(Ok(mc)) if mc.metadata.finalizers.as_ref().is_none_or(Vec::is_empty) => {
            ctx.members.deleted(member, mc.metadata.uid.as_deref());
            Ok(())
        }
        Some(Ok(mc)) => {
            ctx.members.wrote(mc);
            Ok(())
        }
        Some(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
        Some(Err(error)) => Err(Error::Member(error)),
        None => Ok(()),
    }
}

/// Creates the profile or takes it back to what it should say.
async fn ensure(ctx: &Context, member: &Key, wanted: &Wanted) -> Result<(), Error> {
    let (api, key) = (ctx.api(), ctx.key(member));
    let apply = PatchParams::apply(FIELD_MANAGER).force();
    let body = || {
        let found = ctx.profiles.get(&key);
        let as_it_should = found.is_some_and(|profile| {
            let label = profile.metadata.labels.as_ref().and_then(|l| l.get(MANAGER_LABEL));
            profile.spec.display_name == wanted.display_name && label.is_some_and(|l| l == MANAGER)
        });
        let profile = json!({
            "apiVersion": "multicluster.x-k8s.io/v1alpha1",
            "kind": "ClusterProfile",
            "metadata": { "name": member.name(), "labels": { MANAGER_LABEL: MANAGER } },
            "spec": { "displayName": wanted.display_name, "clusterManager": { "name": MANAGER } },
        });
        let (api, apply) = (&api, &apply);
        (!as_it_should).then_some(async move { api.patch(member.name(), apply, &Patch::Apply(profile)).await })
    };
    match ctx.writes.write(Lane::Objects, ctx.target(member), member, body).await {
        None => {}
        Some(Ok(profile)) => {
            ctx.profiles.wrote(profile);
            tracing::info!(member = %member, "Wrote the cluster profile");
        }
        Some(Err(error)) => return Err(Error::Profile("apply", error)),
    }

    let params = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let now = ctx.clock.now();
    let mut failed = None;
    let body = || {
        let found = ctx.profiles.get(&key)?;
        let before = found.status.clone().unwrap_or_default();
        let after = status(&before, wanted, found.metadata.generation.unwrap_or_default(), now);
        let patch = patch::between(&before, &after)
            .map_err(|error| failed = Some(error))
            .ok()??;
        let patch = patch::pinned(json!({ "status": patch }), &*found);
        let (api, params) = (&api, &params);
        Some(async move { api.patch_status(member.name(), params, &Patch::Merge(patch)).await })
    };
    let answer = ctx.writes.write(Lane::Status, ctx.target(member), member, body).await;
    if let Some(error) = failed {
        return Err(error.into());
    }
    match answer {
        None => Ok(()),
        Some(Ok(profile)) => {
            ctx.profiles.wrote(profile);
            Ok(())
        }
        Some(Err(error)) => Err(Error::Profile("report on", error)),
    }
}

fn status(
    before: &ClusterProfileStatus,
    wanted: &Wanted,
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
