//! What has happened: Events, and when conditions last changed, in one list.

use std::collections::HashSet;

use fleet_api::{
    cluster::MemberCluster,
    kind::{HasSpec as _, HasStatus as _, Kind as _, Resource as _},
    labels::{PARENT_PLACEMENT, PARENT_PLACEMENT_NAMESPACE},
    names::MEMBER_NAMESPACE_PREFIX,
    placement::{
        ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction, ClusterScoped, Namespaced, Scope,
        Work,
    },
};
use fleet_core::explain::happened;
use fleet_runtime::Key;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::Event,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use maud::html;

use super::{Page, Site, parts};
use crate::{
    hub::{Family, Hub, family_key, name, parent, parent_name},
    view::{About, Name, View},
};

/// Nobody reads further back at once.
const SHOWN_MAX: usize = 200;

struct Entry {
    at: Timestamp,
    what: String,
    view: Option<View>,
    word: String,
    says: String,
    warns: bool,
}

pub(super) fn page(site: &Site<'_>, about: Option<&About>) -> Page {
    let hub = site.hub;
    let mut all = Vec::new();
    match about {
        None => everything(hub, &mut all),
        Some(About::Member(name)) => {
            if let Some(found) = hub.member(name) {
                member(&found, &mut all);
            }
        }
        Some(About::Run(name)) => {
            run::<ClusterScoped>(&hub.cluster, name, &mut all);
            run::<Namespaced>(&hub.namespaced, name, &mut all);
        }
        Some(About::Placement(name)) if name.namespace.is_empty() => placement(&hub.cluster, name, &mut all),
        Some(About::Placement(name)) => placement(&hub.namespaced, name, &mut all),
    }
    let kin = kin(hub, about);
    let events = hub.events.all();
    all.extend(
        events
            .iter()
            .filter(|event| concerns(event, about, &kin))
            .filter_map(|event| of_event(hub, event)),
    );
    all.sort_by(|a, b| b.at.cmp(&a.at).then_with(|| a.what.cmp(&b.what)));
    let (title, command) = words(about);
    let body = html! {
        h1 { (title) }
        @if all.is_empty() {
            (parts::empty(site, "Nothing has happened that the hub remembers. It keeps Events for an hour.", ""))
        }
        ol.timeline {
            @for entry in all.iter().take(SHOWN_MAX) {
                li class=[entry.warns.then_some("warns")] {
                    (parts::at(entry.at)) " "
                    @if entry.warns { (parts::sign(parts::FAILED)) }
                    @match &entry.view {
                        Some(view) => (parts::link(view, &entry.what)),
                        None => (entry.what),
                    }
                    " " strong { (entry.word) } " " span.says { (entry.says) }
                }
            }
        }
        @if all.len() > SHOWN_MAX { p { "and " (all.len() - SHOWN_MAX) " older ones" } }
    };
    Page { title, command, body }
}

fn words(about: Option<&About>) -> (String, String) {
    let command = |kind: &str, name: &Name| format!("kubectl fleet events {kind}/{}{}", name.name, name.flag());
    match about {
        None => ("Timeline".into(), "kubectl get events -A".into()),
        Some(About::Placement(name)) => (
            format!("Timeline of {}", name.shown()),
            command(name.word("crp", "rp"), name),
        ),
        Some(About::Run(name)) => (
            format!("Timeline of {}", name.shown()),
            command(name.word("csur", "sur"), name),
        ),
        Some(About::Member(name)) => (
            format!("Timeline of {name}"),
            command("membercluster", &Name::new("", name.as_str())),
        ),
    }
}

fn everything(hub: &Hub, all: &mut Vec<Entry>) {
    hub.members.all().iter().for_each(|found| member(found, all));
    whole(&hub.cluster, all);
    whole(&hub.namespaced, all);
}

fn whole<S: Scope>(family: &Family<S>, all: &mut Vec<Entry>) {
    for found in family.placements.all() {
        one::<S>(&found, all);
    }
    for found in family.runs.all() {
        run::<S>(family, &name(&Key::of(&*found)), all);
    }
}

/// A placement with its bindings.
fn placement<S: Scope>(family: &Family<S>, about: &Name, all: &mut Vec<Entry>) {
    if let Some(found) = family.placements.get(&family_key(about)) {
        one::<S>(&found, all);
    }
    for binding in family.bindings_of.get(&family_key(about)) {
        let binding = binding.whole();
        let cluster = &binding.spec().target_cluster;
        let list = binding
            .status()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        let view = View::On(about.clone(), cluster.clone());
        conditions(list, &format!("{} on {cluster}", about.shown()), &view, all);
    }
}

fn one<S: Scope>(placement: &S::Placement, all: &mut Vec<Entry>) {
    let own = name(&Key::of(placement));
    let list = placement
        .status()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    conditions(list, &own.shown(), &View::placement(own.clone()), all);
}

fn run<S: Scope>(family: &Family<S>, about: &Name, all: &mut Vec<Entry>) {
    let Some(found) = family.runs.get(&family_key(about)) else {
        return;
    };
    let view = View::Run(about.clone());
    let Some(status) = found.status() else { return };
    conditions(&status.conditions, &about.shown(), &view, all);
    for asked in family.approvals_of.get(&family_key(about)) {
        let what = format!("{} approval {}", about.shown(), Key::of(&*asked).name());
        let list = asked
            .status()
            .map(|status| status.conditions.as_slice())
            .unwrap_or_default();
        conditions(list, &what, &view, all);
    }
    for stage in &status.stages_status {
        let what = format!("{} stage {}", about.shown(), stage.stage_name);
        conditions(&stage.conditions, &what, &view, all);
        for cluster in &stage.clusters {
            conditions(
                &cluster.conditions,
                &format!("{what}, {}", cluster.cluster_name),
                &view,
                all,
            );
        }
    }
}

fn member(member: &MemberCluster, all: &mut Vec<Entry>) {
    let own = member.metadata.name.clone().unwrap_or_default();
    let view = View::Member(own.clone());
    let Some(status) = &member.status else { return };
    conditions(&status.conditions, &own, &view, all);
    for agent in &status.agent_status {
        conditions(
            &agent.conditions,
            &format!("{own} {}", agent.type_.as_str()),
            &view,
            all,
        );
    }
}

fn conditions(list: &[Condition], what: &str, view: &View, all: &mut Vec<Entry>) {
    all.extend(list.iter().map(|condition| Entry {
        at: condition.last_transition_time.0,
        what: what.to_owned(),
        view: Some(view.clone()),
        word: format!("{} is {}", condition.type_, condition.status),
        says: condition.message.clone(),
        warns: false,
    }));
}

/// What belongs to a placement or a run and has Events of its own: kinds and names.
type Kin = HashSet<(String, String)>;

fn kin(hub: &Hub, about: Option<&About>) -> Kin {
    match about {
        Some(About::Placement(name)) if name.namespace.is_empty() => of_placement(&hub.cluster, name),
        Some(About::Placement(name)) => of_placement(&hub.namespaced, name),
        Some(About::Run(name)) if name.namespace.is_empty() => of_run(&hub.cluster, name),
        Some(About::Run(name)) => of_run(&hub.namespaced, name),
        None | Some(About::Member(_)) => Kin::new(),
    }
}

fn of_placement<S: Scope>(family: &Family<S>, name: &Name) -> Kin {
    let key = family_key(name);
    let bindings = family.bindings_of.get(&key);
    let snapshots = family.snapshots_of.get(&key);
    let policies = family.policies_of.get(&key);
    let bindings = bindings.iter().map(|it| (S::Binding::KIND, it.meta()));
    let snapshots = snapshots.iter().map(|it| (S::ResourceSnapshot::KIND, &it.metadata));
    let policies = policies.iter().map(|it| (S::PolicySnapshot::KIND, it.meta()));
    named(bindings.chain(snapshots).chain(policies))
}

fn of_run<S: Scope>(family: &Family<S>, name: &Name) -> Kin {
    let asked = family.approvals_of.get(&family_key(name));
    named(asked.iter().map(|it| (S::ApprovalRequest::KIND, it.meta())))
}

fn named<'a>(all: impl Iterator<Item = (&'static str, &'a ObjectMeta)>) -> Kin {
    let named = all.filter_map(|(kind, meta)| Some((kind.to_owned(), meta.name.clone()?)));
    named.collect()
}

/// Whether an Event is about this, or about what belongs to it.
fn concerns(event: &Event, about: Option<&About>, kin: &Kin) -> bool {
    let object = &event.involved_object;
    let kind = object.kind.as_deref().unwrap_or_default();
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let is = |kinds: &[&str], wanted: &Name| {
        kinds.contains(&kind) && object.name.as_deref() == Some(&wanted.name) && namespace == wanted.namespace
    };
    let is_kin = |wanted: &Name| {
        let own = (kind.to_owned(), object.name.clone().unwrap_or_default());
        namespace == wanted.namespace && kin.contains(&own)
    };
    match about {
        // Others write Events too, about what is none of the fleet's.
        None => object
            .api_version
            .as_deref()
            .is_some_and(|it| it.contains("kubernetes-fleet.io/")),
        Some(About::Placement(name)) => is(&["ClusterResourcePlacement", "ResourcePlacement"], name) || is_kin(name),
        Some(About::Run(name)) => is(&["ClusterStagedUpdateRun", "StagedUpdateRun"], name) || is_kin(name),
        Some(About::Member(name)) => {
            let own = Name::new("", name.as_str());
            let inside = Name::new(format!("fleet-member-{name}"), name.as_str());
            is(&["MemberCluster"], &own) || is(&["InternalMemberCluster"], &inside)
        }
    }
}

fn of_event(hub: &Hub, event: &Event) -> Option<Entry> {
    let object = &event.involved_object;
    let own = Name::new(
        object.namespace.clone().unwrap_or_default(),
        object.name.clone().unwrap_or_default(),
    );
    let view = match object.kind.as_deref().unwrap_or_default() {
        "ClusterResourcePlacement" | "ResourcePlacement" => Some(View::placement(own.clone())),
        "ClusterStagedUpdateRun" | "StagedUpdateRun" => Some(View::Run(own.clone())),
        "MemberCluster" | "InternalMemberCluster" => Some(View::Member(own.name.clone())),
        kind if own.namespace.is_empty() => {
            part_of::<ClusterScoped>(&hub.cluster, kind, &own).or_else(|| of_others(hub, kind, &own))
        }
        kind => part_of::<Namespaced>(&hub.namespaced, kind, &own).or_else(|| of_others(hub, kind, &own)),
    };
    let times = event
        .count
        .filter(|count| *count > 1)
        .map(|count| format!(" (×{count})"))
        .unwrap_or_default();
    Some(Entry {
        at: happened(event)?,
        what: format!("{} {}", object.kind.as_deref().unwrap_or_default(), own.shown()),
        view,
        word: format!("{}{times}", event.reason.as_deref().unwrap_or_default()),
        says: event.message.clone().unwrap_or_default(),
        warns: event.type_.as_deref() == Some("Warning"),
    })
}

/// The page that tells of something that belongs to a placement or a run.
fn part_of<S: Scope>(family: &Family<S>, kind: &str, own: &Name) -> Option<View> {
    let key = family_key(own);
    if kind == S::Binding::KIND {
        let binding = family.bindings.get(&key)?;
        return Some(View::On(parent_name(&binding)?, binding.cluster().to_string()));
    }
    if kind == S::ApprovalRequest::KIND {
        let run = family.approvals.get(&key)?.spec().parent_stage_rollout.clone();
        return Some(View::Run(Name::new(own.namespace.as_str(), run)));
    }
    let placement = if kind == S::ResourceSnapshot::KIND {
        parent(&*family.snapshots.get(&key)?)
    } else if kind == S::PolicySnapshot::KIND {
        parent(&*family.policies.get(&key)?)
    } else {
        return None;
    };
    Some(View::placement(name(placement.first()?)))
}

/// The page that tells of something that is not of one family.
fn of_others(hub: &Hub, kind: &str, own: &Name) -> Option<View> {
    let key = family_key(own);
    if kind == ClusterResourcePlacementEviction::KIND {
        let eviction = hub.evictions.get(&key)?;
        let placement = Name::new("", eviction.spec.placement_name.as_str());
        return Some(View::On(placement, eviction.spec.cluster_name.clone()));
    }
    if kind == ClusterResourcePlacementDisruptionBudget::KIND {
        return Some(View::placement(own.clone()));
    }
    if kind != Work::KIND {
        return None;
    }
    let cluster = own.namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX)?;
    let work = hub.works.get(&key)?;
    let label = |key| {
        work.metadata
            .labels
            .as_ref()
            .and_then(|labels| labels.get(key).cloned())
    };
    let placement = Name::new(
        label(PARENT_PLACEMENT_NAMESPACE).unwrap_or_default(),
        label(PARENT_PLACEMENT)?,
    );
    Some(View::On(placement, cluster.to_owned()))
}
