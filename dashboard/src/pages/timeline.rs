//! What has happened: Events, and when conditions last changed, in one list.

use fleet_api::{
    cluster::MemberCluster,
    kind::{HasSpec as _, HasStatus as _},
    placement::{ClusterScoped, Namespaced, Scope},
};
use fleet_core::explain::happened;
use fleet_runtime::Key;
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Event, apimachinery::pkg::apis::meta::v1::Condition};
use maud::html;

use super::{Page, Site, parts};
use crate::{
    hub::{Family, Hub, family_key, name},
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
    let events = hub.events.all();
    all.extend(
        events
            .iter()
            .filter(|event| concerns(event, about))
            .filter_map(|event| of_event(event)),
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
        None => ("Timeline".into(), "kubectl fleet events".into()),
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
    conditions(list, &own.shown(), &View::Placement(own.clone(), 0), all);
}

fn run<S: Scope>(family: &Family<S>, about: &Name, all: &mut Vec<Entry>) {
    let Some(found) = family.runs.get(&family_key(about)) else {
        return;
    };
    let view = View::Run(about.clone());
    let Some(status) = found.status() else { return };
    conditions(&status.conditions, &about.shown(), &view, all);
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

/// Whether an Event is about this. Those of a placement's bindings and snapshots name them, and belong to it.
fn concerns(event: &Event, about: Option<&About>) -> bool {
    let object = &event.involved_object;
    let kind = object.kind.as_deref().unwrap_or_default();
    let is = |kinds: &[&str], wanted: &Name| {
        kinds.contains(&kind)
            && object.name.as_deref() == Some(&wanted.name)
            && object.namespace.as_deref().unwrap_or_default() == wanted.namespace
    };
    match about {
        None => true,
        Some(About::Placement(name)) => is(&["ClusterResourcePlacement", "ResourcePlacement"], name),
        Some(About::Run(name)) => is(&["ClusterStagedUpdateRun", "StagedUpdateRun"], name),
        Some(About::Member(name)) => {
            let own = Name::new("", name.as_str());
            let inside = Name::new(format!("fleet-member-{name}"), name.as_str());
            is(&["MemberCluster"], &own) || is(&["InternalMemberCluster"], &inside)
        }
    }
}

fn of_event(event: &Event) -> Option<Entry> {
    let object = &event.involved_object;
    let own = Name::new(
        object.namespace.clone().unwrap_or_default(),
        object.name.clone().unwrap_or_default(),
    );
    let view = match object.kind.as_deref().unwrap_or_default() {
        "ClusterResourcePlacement" | "ResourcePlacement" => Some(View::Placement(own.clone(), 0)),
        "ClusterStagedUpdateRun" | "StagedUpdateRun" => Some(View::Run(own.clone())),
        "MemberCluster" | "InternalMemberCluster" => Some(View::Member(own.name.clone())),
        _ => None,
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
