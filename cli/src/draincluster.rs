//! `kubectl fleet draincluster`: flags, lines and exit status are those of KubeFleet's plugin, so that scripts go on working.
//! `kubectl fleet drain` says more.

mod follow;

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::{Context as _, Result};
use fleet_api::{
    labels::PARENT_PLACEMENT,
    placement::{ClusterResourceBinding, ClusterResourcePlacement, PlacementType, ResourceBinding},
};
use futures::{StreamExt as _, stream};
use tokio::time::Instant;

use crate::{
    cordon,
    evictions::{self, Eviction},
    hub::Hub,
    old,
    problem::Problem,
    terminal::{self, Say},
};

/// Requests at once.
const TOGETHER: usize = 8;

/// Drain a member cluster with the lines of KubeFleet's plugin.
///
/// `kubectl fleet drain` says what holds a drain up. Exit status: 0 done, 1 anything else.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubectl fleet draincluster --cluster-name east --hub-cluster-context hub")]
pub(crate) struct Args {
    #[command(flatten)]
    target: old::Target,
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let old::Ready { hub, cluster, timeout } = args.target.ready().await?;
    drain(&hub, &cluster, timeout, &terminal::log).await
}

async fn drain(hub: &Hub, cluster: &str, timeout: Duration, say: Say<'_>) -> Result<()> {
    let drain = Drain {
        hub,
        cluster,
        deadline: Instant::now() + timeout,
        say,
    };
    let failed = || format!("failed to drain member cluster {cluster}");
    let is_drained = old::in_time(drain.deadline, Box::pin(drain.pass()))
        .await
        .with_context(failed)?;
    let not = |is_drained: bool| if is_drained { "" } else { "not " };
    say(&format!(
        "drain was {}successful for cluster {cluster}",
        not(is_drained)
    ));
    // What the scheduler decided before it saw the cordon.
    say("retrying drain to ensure all resources propagated from hub cluster are evicted");
    let failed = || format!("failed to drain cluster on retry {cluster}");
    let is_drained = old::in_time(drain.deadline, Box::pin(drain.pass()))
        .await
        .with_context(failed)?;
    say(&format!(
        "drain retry was {}successful for cluster {cluster}",
        not(is_drained)
    ));
    drain.name_what_cannot_be_evicted().await;
    say(&format!(
        "reminder: uncordon the cluster {cluster} to remove cordon taint if needed"
    ));
    Ok(())
}

struct Drain<'a> {
    hub: &'a Hub,
    cluster: &'a str,
    deadline: Instant,
    say: Say<'a>,
}

/// A placement, as far as it could be read.
type Read = Result<Option<ClusterResourcePlacement>, Problem>;

impl Drain<'_> {
    /// Takes off what is there; whether all of it could be.
    async fn pass(&self) -> Result<bool> {
        let Self { hub, cluster, say, .. } = self;
        let cordoned = cordon::add(hub, cluster).await.map_err(anyhow::Error::from);
        cordoned.with_context(|| format!("failed to cordon member cluster {cluster}"))?;
        say(&format!(
            "Successfully cordoned member cluster {cluster} by adding cordon taint"
        ));

        let names = self.placements().await?;
        if names.is_empty() {
            say(&format!(
                "There are currently no resources propagated to {cluster} from fleet using ClusterResourcePlacement resources"
            ));
            return Ok(true);
        }
        let read = async |name: String| {
            let placement = hub.find::<ClusterResourcePlacement>(&name).await;
            (name, placement)
        };
        let placements: BTreeMap<String, Read> =
            stream::iter(names).map(read).buffer_unordered(TOGETHER).collect().await;
        let (fixed, others): (BTreeMap<_, _>, BTreeMap<_, _>) =
            placements.into_iter().partition(|(_, it)| is_fixed(it));
        for name in fixed.keys() {
            self.name_fixed(name);
        }
        let version = match hub.version::<Eviction>().await {
            Ok(version) => Some(version),
            // Roles that were made for KubeFleet's plugin need not allow more than to read each by its name.
            Err(problem) if problem.is_forbidden() => None,
            Err(problem) => {
                return Err(problem).context("failed to list cluster resource placement evictions");
            }
        };
        let (made, refused) = self.create(others.keys()).await?;
        let are_executed = self.follow(version, made, &others).await?;
        Ok(are_executed && fixed.is_empty() && !refused)
    }

    /// The placements that have something there.
    async fn placements(&self) -> Result<BTreeSet<String>> {
        let is_there = |binding: &ClusterResourceBinding| {
            binding.spec.target_cluster == self.cluster && binding.metadata.deletion_timestamp.is_none()
        };
        let bindings = self.hub.list("", is_there).await;
        let bindings = bindings.context("failed to list cluster resource bindings")?;
        let placement_of = |binding: ClusterResourceBinding| {
            let labels = binding.metadata.labels.unwrap_or_default();
            let name = labels.get(PARENT_PLACEMENT).cloned();
            let binding = binding.metadata.name.unwrap_or_default();
            name.with_context(|| format!("failed to get CRP name from binding {binding}"))
        };
        bindings.items.into_iter().map(placement_of).collect()
    }

    fn name_fixed(&self, placement: &str) {
        (self.say)(&format!(
            "CRP {placement} has the placement type PickFixed and cannot be evicted: remove member cluster {} from its \
             clusterNames",
            self.cluster
        ));
    }

    /// Makes an eviction of each; whether one was refused because its placement is PickFixed, which only shows then to those
    /// who may not read placements.
    async fn create(&self, placements: impl Iterator<Item = &String>) -> Result<(Vec<Eviction>, bool)> {
        let placements: Vec<_> = placements.collect();
        let create = async |placement: &String| {
            let made = evictions::create(self.hub, placement, self.cluster, None).await;
            (placement.clone(), made)
        };
        let (mut made, mut is_refused) = (Vec::new(), false);
        let mut created = stream::iter(placements).map(create).buffered(TOGETHER);
        while let Some((placement, eviction)) = created.next().await {
            match eviction {
                Err(error) if old::is_about_pick_fixed(&error) => {
                    self.name_fixed(&placement);
                    is_refused = true;
                }
                // Its resources go with it.
                Err(error) if old::is_about_deletion(&error, &placement) => (self.say)(&format!(
                    "CRP {placement} is being deleted: its resources are removed from member cluster {}",
                    self.cluster
                )),
                eviction => {
                    let eviction = eviction?;
                    (self.say)(&format!("Created {}", evictions::title(&eviction)));
                    made.push(eviction);
                }
            }
        }
        Ok((made, is_refused))
    }

    /// Names the namespaced placements that stay. KubeFleet's plugin does not look for them: who may not either hears
    /// nothing of them.
    async fn name_what_cannot_be_evicted(&self) {
        let is_there = |binding: &ResourceBinding| {
            binding.spec.target_cluster == self.cluster && binding.metadata.deletion_timestamp.is_none()
        };
        let Ok(Ok(bindings)) = tokio::time::timeout_at(self.deadline, self.hub.list("", is_there)).await else {
            return;
        };
        let key = |binding: &ResourceBinding| {
            let meta = &binding.metadata;
            let placement = meta.labels.as_ref().and_then(|labels| labels.get(PARENT_PLACEMENT));
            let placement = placement.or(meta.name.as_ref()).cloned().unwrap_or_default();
            (meta.namespace.clone().unwrap_or_default(), placement)
        };
        let placements: BTreeSet<_> = bindings.items.iter().map(key).collect();
        for (namespace, name) in placements {
            (self.say)(&format!(
                "ResourcePlacement {namespace}/{name} keeps its resources on member cluster {}: namespaced placements cannot be \
                 evicted",
                self.cluster
            ));
        }
    }
}

fn is_fixed(placement: &Read) -> bool {
    let placement = placement.as_ref().ok().and_then(Option::as_ref);
    placement.is_some_and(|it| it.spec.placement_type() == PlacementType::PickFixed)
}

#[cfg(test)]
mod tests;
