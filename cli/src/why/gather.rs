//! What each kind of question needs from the hub, and the explanation made from it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use fleet_api::{
    cluster::MemberCluster,
    labels::{PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE},
    names::Scope as Which,
    placement::{
        ApprovalRequest, ClusterApprovalRequest, ClusterResourceBinding, ClusterResourcePlacement,
        ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction, ClusterScoped,
        ClusterStagedUpdateRun, Namespaced, ResourceBinding, ResourcePlacement, StagedUpdateRun, Work,
    },
};
use fleet_core::explain::{self, Chain, Objects};
use jiff::Timestamp;
use kube::core::ObjectMeta;

use super::on_member;
use crate::{
    hub::{Ask, Hub},
    problem::{Failure, Problem},
    reading::{LARGE_PAGE, Reader},
    subject::{Key, Subject},
};

/// The family of a placement, without members.
pub(crate) async fn family(reader: &Reader<'_>, key: &Key) -> Result<Objects, Problem> {
    let mut objects = Objects::default();
    match key.scope() {
        Which::Cluster => objects.cluster = reader.placement::<ClusterScoped>("", &key.name).await?,
        Which::Namespaced => {
            objects.namespaced = reader.placement::<Namespaced>(&key.namespace, &key.name).await?;
        }
    }
    Ok(objects)
}

/// A placement, or a placement on a cluster: nine requests.
pub(super) async fn placement(
    reader: &Reader<'_>,
    key: &Key,
    cluster: Option<&str>,
    member: Option<&Hub>,
    now: Timestamp,
) -> Result<Chain> {
    let own = format!("{PARENT_PLACEMENT}={}", key.name);
    let members = async {
        match cluster {
            None => reader.members().await,
            Some(cluster) => reader.member(cluster).await,
        }
    };
    let works = async {
        match cluster {
            None => Ok(Vec::new()),
            Some(_) => reader.work_names(cluster, &own).await,
        }
    };
    let (mut objects, (members, internals), works) = futures::try_join!(Box::pin(family(reader, key)), members, works)?;
    (objects.members, objects.internals, objects.works) = (members, internals, works);
    objects.members_unread = reader.lacks_members();
    let Some(cluster) = cluster else {
        return Ok(explain::placement(&objects.fleet(&key.namespace, now), &key.name));
    };
    if let Some(member) = member {
        objects.live = on_member::drifted(reader, &objects, key, cluster, member, now).await;
    }
    let fleet = objects.fleet(&key.namespace, now);
    Ok(explain::placement_on(&fleet, &key.name, cluster))
}

/// An update run: ten requests.
pub(super) async fn run(reader: &Reader<'_>, key: &Key, now: Timestamp) -> Result<Chain> {
    let placement = match key.scope() {
        Which::Cluster => reader
            .one::<ClusterStagedUpdateRun>("", &key.name)
            .await?
            .map(|run| run.spec.placement_name),
        Which::Namespaced => {
            let run = reader.one::<StagedUpdateRun>(&key.namespace, &key.name).await?;
            run.map(|run| run.spec.placement_name)
        }
    };
    let mut objects = Objects::default();
    if let Some(placement) = placement {
        let about = format!("involvedObject.name={}", key.name);
        let events = async { Ok(reader.events(&key.namespace, &about).await) };
        let placement = Key::new(&key.namespace, &placement);
        let (found, (members, internals), events) =
            futures::try_join!(Box::pin(family(reader, &placement)), reader.members(), events)?;
        objects = found;
        (objects.members, objects.internals, objects.events) = (members, internals, events);
        objects.members_unread = reader.lacks_members();
    }
    Ok(explain::run(&objects.fleet(&key.namespace, now), &key.name))
}

/// A member: seven requests, and what its agent says if it can be reached.
pub(super) async fn member(reader: &Reader<'_>, name: &str, member: Option<&Hub>, now: Timestamp) -> Result<Chain> {
    let about = format!("involvedObject.name={name}");
    let rest = async { Ok::<_, Problem>((reader.terminating(name).await, reader.events("", &about).await)) };
    let (found, works, rest) = futures::try_join!(reader.member(name), reader.work_names(Some(name), ""), rest)?;
    let (members, internals) = found;
    let (terminating, events) = rest;
    // Only now: a Work is made after its placement, and goes before it.
    let gone = gone(reader, &works).await?;
    let mut readyz = BTreeMap::new();
    if let Some(member) = member {
        readyz.extend(
            on_member::readyz(reader, member, name)
                .await
                .map(|says| (name.to_owned(), says)),
        );
    }
    let objects = Objects {
        gone,
        readyz,
        members,
        internals,
        works,
        members_unread: reader.lacks_members(),
        terminating,
        events,
        ..Objects::default()
    };
    Ok(explain::member(&objects.fleet("", now), name))
}

/// The placements of Works that do not exist; none if it cannot be told.
async fn gone(reader: &Reader<'_>, works: &[Work]) -> Result<BTreeSet<(String, String)>, Problem> {
    let mut parents: BTreeSet<_> = works.iter().map(|work| parent(&work.metadata)).collect();
    parents.retain(|(_, name)| !name.is_empty());
    if parents.is_empty() {
        return Ok(parents);
    }
    let ask = Ask {
        page: Some(LARGE_PAGE),
        ..Ask::default()
    };
    let (wide, namespaced) = futures::try_join!(
        reader.may_metadata::<ClusterResourcePlacement>(ask),
        reader.may_metadata::<ResourcePlacement>(ask),
    )?;
    for known in wide.into_iter().chain(namespaced) {
        parents.remove(&(known.namespace.unwrap_or_default(), known.name.unwrap_or_default()));
    }
    let (wide, namespaced) = (
        reader.lacks::<ClusterResourcePlacement>(),
        reader.lacks::<ResourcePlacement>(),
    );
    parents.retain(|(namespace, _)| if namespace.is_empty() { !wide } else { !namespaced });
    Ok(parents)
}

/// The placement of a Work, by namespace and name.
fn parent(metadata: &ObjectMeta) -> (String, String) {
    (
        label(metadata, PARENT_PLACEMENT_NAMESPACE).to_owned(),
        label(metadata, PARENT_PLACEMENT).to_owned(),
    )
}

/// Whether there is no such placement.
pub(super) async fn is_gone(reader: &Reader<'_>, key: &Key) -> Result<bool, Problem> {
    let is_there = match key.scope() {
        Which::Cluster => reader.has::<ClusterResourcePlacement>("", &key.name).await,
        Which::Namespaced => reader.has::<ResourcePlacement>(&key.namespace, &key.name).await,
    };
    Ok(!is_there? && !key.name.is_empty())
}

/// An eviction: eight requests.
pub(super) async fn eviction(reader: &Reader<'_>, name: &str, now: Timestamp) -> Result<Chain> {
    let found = reader.one::<ClusterResourcePlacementEviction>("", name).await?;
    let mut objects = Objects::default();
    if let Some(eviction) = found {
        let key = Key::new("", &eviction.spec.placement_name);
        let budget = async {
            let fields = format!("metadata.name={}", key.name);
            let ask = Ask {
                fields: &fields,
                ..Ask::default()
            };
            reader
                .may::<ClusterResourcePlacementDisruptionBudget>(ask, |_| true)
                .await
        };
        let (found, budgets) = futures::try_join!(Box::pin(family(reader, &key)), budget)?;
        objects = found;
        objects.budgets = budgets;
        objects.evictions = vec![eviction];
    }
    Ok(explain::eviction(&objects.fleet("", now), name))
}

/// The first kind of the fleet that has an object of this name.
pub(super) async fn named(reader: &Reader<'_>, namespace: &str, name: &str) -> Result<Subject> {
    let (wide, namespaced) = (Key::new("", name), Key::new(namespace, name));
    if reader.one::<ClusterResourcePlacement>("", name).await?.is_some() {
        return Ok(Subject::Placement(wide));
    }
    if reader.has::<ResourcePlacement>(namespace, name).await? {
        return Ok(Subject::Placement(namespaced));
    }
    if reader.has::<ClusterStagedUpdateRun>("", name).await? {
        return Ok(Subject::Run(wide));
    }
    if reader.has::<StagedUpdateRun>(namespace, name).await? {
        return Ok(Subject::Run(namespaced));
    }
    if reader.has::<MemberCluster>("", name).await? {
        return Ok(Subject::Member(name.to_owned()));
    }
    if reader.has::<ClusterResourcePlacementEviction>("", name).await? {
        return Ok(Subject::Eviction(name.to_owned()));
    }
    Err(nothing(name))
}

/// Nothing has this name.
pub(super) fn nothing(name: &str) -> anyhow::Error {
    Failure::error(
        format!(
            "no placement, update run, member or eviction is called {name:?} (other objects need their kind: deployment/{name})"
        ),
        "kubectl fleet status",
    )
}

/// The run that an approval request was made for.
pub(super) async fn run_of_approval(reader: &Reader<'_>, key: &Key) -> Result<Key> {
    let spec = match key.scope() {
        Which::Cluster => reader
            .one::<ClusterApprovalRequest>("", &key.name)
            .await?
            .map(|it| it.spec),
        Which::Namespaced => reader
            .one::<ApprovalRequest>(&key.namespace, &key.name)
            .await?
            .map(|it| it.spec),
    };
    match spec {
        Some(spec) => Ok(Key::new(&key.namespace, &spec.parent_stage_rollout)),
        None => Err(missing(
            "approval request",
            &key.name,
            "kubectl get careq; kubectl get areq -A",
        )),
    }
}

/// The placement and the cluster of a binding.
pub(super) async fn placement_of_binding(reader: &Reader<'_>, key: &Key) -> Result<(Key, String)> {
    let found = match key.scope() {
        Which::Cluster => {
            let found = reader.one::<ClusterResourceBinding>("", &key.name).await?;
            found.map(|it| (it.metadata, it.spec.target_cluster))
        }
        Which::Namespaced => {
            let found = reader.one::<ResourceBinding>(&key.namespace, &key.name).await?;
            found.map(|it| (it.metadata, it.spec.target_cluster))
        }
    };
    match found {
        Some((metadata, cluster)) => Ok((Key::new(&key.namespace, label(&metadata, PARENT_PLACEMENT)), cluster)),
        None => Err(missing(
            "binding",
            &key.name,
            "kubectl get clusterresourcebindings,resourcebindings -A",
        )),
    }
}

/// The placement of a Work.
pub(super) async fn placement_of_work(reader: &Reader<'_>, cluster: &str, name: &str) -> Result<Key> {
    let namespace = crate::reading::member_namespace(cluster);
    match reader.one::<Work>(&namespace, name).await? {
        Some(work) => Ok(key_of(&work)),
        None => Err(missing("Work", name, &format!("kubectl get works -n {namespace}"))),
    }
}

/// The placement of a Work.
pub(super) fn key_of(work: &Work) -> Key {
    let (namespace, name) = parent(&work.metadata);
    Key::new(&namespace, &name)
}

fn label<'a>(metadata: &'a ObjectMeta, key: &str) -> &'a str {
    let found = metadata.labels.as_ref().and_then(|labels| labels.get(key));
    found.map(String::as_str).unwrap_or_default()
}

fn missing(what: &str, name: &str, next: &str) -> anyhow::Error {
    Failure::error(format!("there is no {what} {name}"), next)
}
