//! Where an object comes from, on each member that has it: which placement, snapshot, overrides and run put it there.

use std::collections::BTreeMap;

use anyhow::Result;
use fleet_api::{
    labels::PARENT_PLACEMENT,
    names::Scope as Which,
    placement::{ClusterScoped, Namespaced, ResourceIdentifier, Scope, Work},
};
use fleet_core::{
    explain::{self, Cause, Chain, Objects, Step},
    selection::ObjectId,
};
use jiff::Timestamp;
use kube::{Resource as _, core::object::HasStatus as _};

use super::{
    answer::{Answer, Origin},
    gather,
    history::History,
    on_member,
};
use crate::{
    hub::{Ask, Hub, ServedKind},
    problem::Problem,
    reading::{LARGE_PAGE, Reader, SMALL_PAGE, member_namespace},
    subject::Key,
};

/// Placements that select one object, or an envelope it may be in. More would be a very odd fleet.
const PLACEMENTS_MAX: usize = 8;
/// Works with their manifests.
const WORKS_PAGE: u32 = 100;
const ENVELOPES: [&str; 2] = ["ResourceEnvelope", "ClusterResourceEnvelope"];

/// The object that is asked about.
pub(super) struct Wanted<'a> {
    /// The kind as kubectl takes it.
    pub(super) kind: &'a str,
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) cluster: Option<&'a str>,
}

/// The object, as far as it is known which kind is meant.
struct Sought<'a> {
    wanted: &'a Wanted<'a>,
    /// None where the hub does not serve the kind: an object in an envelope may be of such a kind.
    kind: Option<ServedKind>,
}

impl Sought<'_> {
    fn is(&self, group: &str, kind: &str, namespace: &str, name: &str) -> bool {
        let Wanted {
            namespace: own,
            name: called,
            ..
        } = self.wanted;
        if name != *called || !(namespace.is_empty() || namespace == *own) {
            return false;
        }
        if let Some(known) = &self.kind {
            return known.resource.group == group && known.resource.kind == kind;
        }
        let asked = self.wanted.kind;
        let (word, of_group) = asked
            .split_once('.')
            .map_or((asked, None), |(word, group)| (word, Some(group)));
        let kind = kind.to_lowercase();
        of_group.is_none_or(|of_group| of_group == group) && (word == kind || word == format!("{kind}s"))
    }

    fn is_id(&self, id: &ResourceIdentifier) -> bool {
        self.is(&id.group, &id.kind, &id.namespace, &id.name)
    }

    pub(super) fn is_object(&self, id: &ObjectId) -> bool {
        self.is(&id.group, &id.kind, &id.namespace, &id.name)
    }

    /// The object as a Work has it.
    fn in_work(&self, work: &Work) -> Option<ResourceIdentifier> {
        let reported = work.status.iter().flat_map(|status| &status.manifest_conditions);
        let mut reported = reported.map(|manifest| &manifest.identifier);
        if let Some(id) = reported.find(|id| self.is(&id.group, &id.kind, &id.namespace, &id.name)) {
            return Some(identifier(&id.group, &id.version, &id.kind, &id.namespace, &id.name));
        }
        let carried = work
            .spec
            .workload
            .manifests
            .iter()
            .filter_map(|manifest| ObjectId::of(manifest).ok());
        let id = carried.into_iter().find(|id| self.is_object(id))?;
        Some(identifier(&id.group, &id.version, &id.kind, &id.namespace, &id.name))
    }

    /// As kubectl takes it.
    fn shown(&self) -> String {
        let Wanted {
            kind, namespace, name, ..
        } = self.wanted;
        let is_namespaced = self.kind.as_ref().is_none_or(|kind| kind.is_namespaced);
        let flag = if is_namespaced {
            format!(" -n {namespace}")
        } else {
            String::new()
        };
        format!("{kind}/{name}{flag}")
    }
}

fn identifier(group: &str, version: &str, kind: &str, namespace: &str, name: &str) -> ResourceIdentifier {
    ResourceIdentifier {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        envelope: None,
    }
}

/// Explains an object; about ten requests.
pub(super) async fn explain(
    reader: &Reader<'_>,
    wanted: &Wanted<'_>,
    member: Option<&Hub>,
    now: Timestamp,
) -> Result<Answer> {
    let kind = reader.hub.kind(wanted.kind).await.unwrap_or_else(|error| {
        reader.hide("kinds", &format!("{error:#}"), "kubectl api-resources");
        None
    });
    let sought = Sought { wanted, kind };
    let (wide, namespaced) = futures::try_join!(selecting::<ClusterScoped>(reader, "", &sought), async {
        match wanted.namespace {
            "" => Ok(Vec::new()),
            namespace => selecting::<Namespaced>(reader, namespace, &sought).await,
        }
    },)?;
    let mut selecting: Vec<_> = wide.into_iter().chain(namespaced).collect();
    if selecting.len() > PLACEMENTS_MAX {
        let more = format!("{} more may have it in an envelope", selecting.len() - PLACEMENTS_MAX);
        reader.hide(
            "placements",
            &more,
            "kubectl get resourceenvelopes,clusterresourceenvelopes -A",
        );
        selecting.truncate(PLACEMENTS_MAX);
    }
    let members = match wanted.cluster {
        Some(cluster) => reader.member(cluster).await?,
        None => reader.members().await?,
    };
    let live = match (member, wanted.cluster) {
        (Some(member), Some(cluster)) => {
            on_member::object(
                reader,
                member,
                cluster,
                on_member::Wanted {
                    kind: wanted.kind,
                    namespace: wanted.namespace,
                    name: wanted.name,
                },
            )
            .await
        }
        _ => None,
    };
    let by_key = async |key: &Key, id: Option<&ResourceIdentifier>, is_left: bool| {
        let mut objects = carried(reader, key, &sought).await?;
        (objects.members, objects.internals) = members.clone();
        objects.members_unread = reader.lacks_members();
        if is_left && gather::is_gone(reader, key).await? {
            objects.gone.insert((key.namespace.clone(), key.name.clone()));
        }
        if let (Some(cluster), Some(Some(live))) = (wanted.cluster, &live) {
            objects.live.push(on_member::live_object(cluster, live));
        }
        let in_works = || objects.works.iter().find_map(|work| sought.in_work(work));
        let Some(id) = id.cloned().or_else(in_works) else {
            return Ok(None); // An envelope that holds something else.
        };
        let lineages = explain::object(&objects.fleet(&key.namespace, now), &id);
        let mut history = History::new(reader, key, &objects);
        let mut origins = Vec::new();
        for lineage in lineages {
            let before = history.before(&lineage.snapshot, |id| sought.is_object(id)).await?;
            origins.push(Origin {
                lineage,
                before,
                live: live.as_ref().map(|live| on_member::described(live.as_ref())),
            });
        }
        Ok::<_, anyhow::Error>(Some(origins))
    };
    let (mut origins, mut by) = (Vec::new(), Vec::new());
    for (key, id) in &selecting {
        if let Some(found) = by_key(key, id.as_ref(), false).await? {
            by.push(key.placement());
            origins.extend(found);
        }
    }
    if let (true, Some(cluster)) = (by.is_empty(), wanted.cluster) {
        // What nothing selects any more may still be there.
        for (key, id) in left_on(reader, cluster, &sought).await? {
            origins.extend(by_key(&key, id.as_ref(), true).await?.into_iter().flatten());
        }
    }
    // What is wrong comes first.
    origins.sort_by_key(|origin| {
        (
            origin.lineage.chain.first_unmet().is_none(),
            origin.lineage.cluster.clone(),
        )
    });
    let chain = chain(&sought, &by, &origins, selecting.first().map(|(key, _)| key));
    let mut answer = Answer::new(chain, reader.hidden(), now);
    answer.origins = origins;
    Ok(answer)
}

/// Whether something selects the object, and whether that has come to a Work.
fn chain(sought: &Sought<'_>, by: &[String], origins: &[Origin], first: Option<&Key>) -> Chain {
    let mut chain = Chain::new(sought.shown());
    let cluster = sought
        .wanted
        .cluster
        .map(|cluster| format!(" {cluster}"))
        .unwrap_or_default();
    if let (true, [origin, ..]) = (by.is_empty(), origins) {
        // The origins say the rest.
        let text = format!(
            "no placement selects {}, but a Work of {} still brings it to {}",
            sought.shown(),
            origin.lineage.placement,
            origin.lineage.cluster
        );
        let cause = origin.lineage.chain.cause();
        let look = || {
            format!(
                "kubectl get work {} -n {} -o yaml",
                origin.lineage.work,
                member_namespace(&origin.lineage.cluster)
            )
        };
        let next = cause.map_or_else(look, |cause| cause.next.clone());
        chain.push(Step::waiting("Selected", Cause::new(text, next)));
        return chain;
    }
    if by.is_empty() {
        let text = format!("no placement selects {}", sought.shown());
        chain.push(Step::failed(
            "Selected",
            Cause::new(text, "kubectl get crp; kubectl get rp -A"),
        ));
        return chain;
    }
    chain.push(Step::done("Selected", format!("by {}", by.join(", "))));
    let on = sought
        .wanted
        .cluster
        .map(|cluster| format!(" for {cluster}"))
        .unwrap_or_default();
    chain.push(if origins.is_empty() {
        let next = first.map_or_else(String::new, |key| {
            key.shown(
                &format!("kubectl fleet why {}", "crp"),
                &format!("kubectl fleet why {}", "rp"),
            )
        });
        let next = match next.split_once(" -n ") {
            Some((why, namespace)) => format!("{why}{cluster} -n {namespace}"),
            None => format!("{next}{cluster}"),
        };
        Step::waiting("Sent", Cause::new(format!("no Work carries it{on} yet"), next))
    } else {
        Step::done("Sent", format!("to {} of the fleet", members(origins.len())))
    });
    chain
}

fn members(count: usize) -> String {
    match count {
        1 => "1 member".to_owned(),
        count => format!("{count} members"),
    }
}

/// The placements that select the object, or an envelope.
async fn selecting<S: Scope>(
    reader: &Reader<'_>,
    namespace: &str,
    sought: &Sought<'_>,
) -> Result<Vec<(Key, Option<ResourceIdentifier>)>, Problem> {
    let ask = Ask {
        namespace,
        page: Some(SMALL_PAGE),
        ..Ask::default()
    };
    let own = |placement: &S::Placement| {
        let selected = placement.status().map(|status| status.selected_resources.as_slice());
        selected.unwrap_or_default().iter().find(|id| sought.is_id(id)).cloned()
    };
    let may_hold = |placement: &S::Placement| {
        let selected = placement.status().map(|status| status.selected_resources.as_slice());
        let mut selected = selected.unwrap_or_default().iter();
        selected.any(|id| ENVELOPES.contains(&id.kind.as_str()))
    };
    let found = reader
        .may::<S::Placement>(ask, |it| own(it).is_some() || may_hold(it))
        .await?;
    let mut found: Vec<_> = found
        .iter()
        .map(|it| {
            let meta = it.meta();
            let key = Key::new(namespace, meta.name.as_deref().unwrap_or_default());
            (key, own(it))
        })
        .collect();
    found.sort_by_key(|(_, id)| id.is_none());
    Ok(found)
}

/// The placements whose Works still carry the object on a member.
async fn left_on(
    reader: &Reader<'_>,
    cluster: &str,
    sought: &Sought<'_>,
) -> Result<BTreeMap<Key, Option<ResourceIdentifier>>, Problem> {
    let namespace = member_namespace(cluster);
    let ask = Ask {
        namespace: &namespace,
        page: Some(WORKS_PAGE),
        ..Ask::default()
    };
    let works = reader.may::<Work>(ask, |work| sought.in_work(work).is_some()).await?;
    let by_placement = works.iter().map(|work| (gather::key_of(work), sought.in_work(work)));
    Ok(by_placement.collect())
}

/// The Works of a placement that carry the object, its bindings and the names of its snapshots.
async fn carried(reader: &Reader<'_>, key: &Key, sought: &Sought<'_>) -> Result<Objects, Problem> {
    let mut objects = Objects::default();
    let own = format!("{PARENT_PLACEMENT}={}", key.name);
    let namespace = sought.wanted.cluster.map(member_namespace).unwrap_or_default();
    let works = Ask {
        namespace: &namespace,
        labels: &own,
        page: Some(WORKS_PAGE),
        ..Ask::default()
    };
    let is_own = |work: &Work| {
        let labels = work.metadata.labels.as_ref();
        let parent = labels.and_then(|labels| labels.get(fleet_api::labels::PARENT_PLACEMENT_NAMESPACE));
        parent.map(String::as_str).unwrap_or_default() == key.namespace && sought.in_work(work).is_some()
    };
    let beside = Ask {
        namespace: &key.namespace,
        labels: &own,
        page: Some(LARGE_PAGE),
        ..Ask::default()
    };
    match key.scope() {
        Which::Cluster => {
            let family = &mut objects.cluster;
            (objects.works, family.bindings, family.snapshots) = futures::try_join!(
                reader.may::<Work>(works, is_own),
                reader.may(beside, |_| true),
                reader.may_metadata::<<ClusterScoped as Scope>::ResourceSnapshot>(beside),
            )?;
        }
        Which::Namespaced => {
            let family = &mut objects.namespaced;
            (objects.works, family.bindings, family.snapshots) = futures::try_join!(
                reader.may::<Work>(works, is_own),
                reader.may(beside, |_| true),
                reader.may_metadata::<<Namespaced as Scope>::ResourceSnapshot>(beside),
            )?;
        }
    }
    Ok(objects)
}
