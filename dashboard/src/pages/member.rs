//! One member: whether it is usable and why not, what it has, what is on it, and how to take it out of use.

use std::sync::Arc;

use fleet_api::{
    cluster::{AgentType, MemberCluster, ResourceUsage, Taint},
    conditions::decision::Ineligible,
    labels,
    placement::{ClusterScoped, Namespaced, Scope},
};
use fleet_core::{explain, membership::properties::Quantity};
use k8s_openapi::apimachinery::pkg::api::resource;
use maud::{Markup, html};

use super::{Page, Site, parts};
use crate::{
    Act,
    hub::{Cell, Family, Hub, parent_name},
    view::{About, Name, View},
};

type Amounts = std::collections::BTreeMap<String, resource::Quantity>;

/// What is drawn of long lists; the rest is counted.
const SHOWN_MAX: usize = 200;

pub(super) fn page(site: &Site<'_>, name: &str) -> Page {
    let hub = site.hub;
    let mut gathering = hub.gather();
    gathering.member(name);
    let fleet = gathering.objects.fleet("", hub.clock.now());
    let chain = explain::member(&fleet, name);
    let member = hub.member(name);
    let body = html! {
        h1 { span.kind { "MemberCluster" } " " (name) }
        nav.tabs aria-label="This member" {
            a href=(View::Member(name.to_owned()).url()) aria-current="page" { "Overview" }
            a href=(View::Timeline(Some(About::Member(name.to_owned()))).url()) { "Timeline" }
        }
        @if member.is_some() { (parts::buttons(site, &acts(hub, name))) }
        section.card aria-labelledby="why" { h2 id="why" { "Health" } (parts::chain(site, &chain)) }
        @if let Some(member) = &member { (facts(member)) }
        (placements(site, name))
        (works(hub, name))
    };
    Page {
        title: format!("Member {name}"),
        command: format!("kubectl fleet why membercluster/{name}"),
        body,
    }
}

/// What can be done about a member now.
pub(super) fn acts(hub: &Hub, name: &str) -> Vec<Act> {
    let Some(member) = hub.member(name) else {
        return Vec::new();
    };
    let cordon = if member.spec.taints.contains(&Taint::cordon()) {
        Act::Uncordon(name.to_owned())
    } else {
        Act::Cordon(name.to_owned())
    };
    vec![cordon, Act::Drain(name.to_owned())]
}

/// Why it takes nothing, in a word or two.
pub(super) fn short(why: Ineligible) -> String {
    match why {
        Ineligible::Left => "leaving",
        Ineligible::NotOnline => "never connected",
        Ineligible::HeartbeatLost(_) => "silent",
        Ineligible::NotJoined => "not joined",
        Ineligible::NoHealth => "health unknown",
        Ineligible::Unhealthy(_) => "unhealthy",
    }
    .to_owned()
}

fn facts(member: &MemberCluster) -> Markup {
    let status = member.status.as_ref();
    let agent = status.and_then(|status| status.agent(&AgentType::MemberAgent));
    let usage = status.and_then(|status| status.resource_usage.as_ref());
    html! {
        section.columns {
            div.card {
                h2 { "Capacity" }
                @match usage {
                    Some(usage) => {
                        dl.facts {
                            @for kind in usage.capacity.keys() { dt { (kind) } dd { (plot(usage, kind)) } }
                        }
                    },
                    None => p { "Not reported yet." },
                }
            }
            div.card {
                h2 { "Agent" }
                dl.facts {
                    dt { "Last heartbeat" }
                    dd {
                        @match agent.and_then(|it| it.last_received_heartbeat.as_ref()) {
                            Some(last) => (parts::when(last)),
                            None => "never",
                        }
                    }
                    dt { "Every" } dd { (member.spec.heartbeat_period_seconds) " s" }
                    dt { "Identity" } dd { (member.spec.identity.kind) " " (member.spec.identity.name) }
                    dt { "Taints" }
                    dd {
                        @if member.spec.taints.is_empty() { "none" }
                        @for it in &member.spec.taints { code { (it.key) "=" (it.value) ":" (it.effect.as_str()) } " " }
                    }
                }
            }
            div.card {
                h2 { "Labels and properties" }
                dl.facts {
                    @for (key, value) in member.metadata.labels.iter().flatten().take(SHOWN_MAX) { dt { (key) } dd { (value) } }
                    @for (key, value) in status.iter().flat_map(|it| &it.properties).take(SHOWN_MAX) {
                        dt { (key) } dd { (few(&value.value)) }
                    }
                }
            }
        }
    }
}

/// The beginning of a value: certificates are values too.
fn few(value: &str) -> String {
    const CHARS: usize = 80;
    if value.chars().count() <= CHARS {
        return value.to_owned();
    }
    value.chars().take(CHARS).chain("…".chars()).collect()
}

/// How much of something is in use, drawn and in words.
pub(super) fn plot(usage: &ResourceUsage, kind: &str) -> Markup {
    let amount = |list: &Amounts| {
        let text = list.get(kind)?.0.clone();
        let amount: Quantity = text.parse().ok()?;
        Some((amount.nanos(), text))
    };
    let all = amount(&usage.allocatable).or_else(|| amount(&usage.capacity));
    match (amount(&usage.available), all) {
        (Some((free, text)), Some((all, of))) => parts::meter(all - free, all, &format!("{text} free of {of}")),
        (None, Some((_, of))) => html! { (of) },
        _ => html! {},
    }
}

fn placements(site: &Site<'_>, name: &str) -> Markup {
    let hub = site.hub;
    let mut all = on::<ClusterScoped>(&hub.cluster, name);
    all.extend(on::<Namespaced>(&hub.namespaced, name));
    all.sort_by(|(a, one), (b, two)| two.mark.cmp(&one.mark).then_with(|| a.cmp(b)));
    html! {
        section aria-labelledby="placements" {
            h2 id="placements" { (parts::many(all.len(), "placement")) " on it" }
            @if all.is_empty() { (parts::empty(site, "Nothing is placed on it.", "")) }
            ul.plain {
                @for (placement, cell) in all.iter().take(SHOWN_MAX) {
                    li id={ "p-" (placement.shown()) } {
                        a href=(View::On(placement.clone(), name.to_owned()).url()) {
                            (parts::badge(parts::of_mark(cell.mark), &placement.shown()))
                        }
                        " " span.says { (cell.says) }
                    }
                }
                @if all.len() > SHOWN_MAX { li { "and " (all.len() - SHOWN_MAX) " more" } }
            }
        }
    }
}

fn on<S: Scope>(family: &Family<S>, cluster: &str) -> Vec<(Name, Arc<Cell>)> {
    let bindings = family.bindings_on.get(&cluster.to_owned());
    let named = bindings
        .iter()
        .filter_map(|it| Some((parent_name(it)?, it.cell().clone())));
    named.collect()
}

fn works(hub: &Hub, name: &str) -> Markup {
    let works = hub.works_on(name);
    html! {
        @if !works.is_empty() {
            section aria-labelledby="works" {
                h2 id="works" { (parts::many(works.len(), "Work")) }
                details {
                    summary { "The manifests travel in these" }
                    ul.plain {
                        @for work in works.iter().take(SHOWN_MAX) {
                            @let labelled = work.metadata.labels.as_ref();
                            li {
                                code { (work.metadata.name.as_deref().unwrap_or_default()) }
                                @if let Some(placement) = labelled.and_then(|it| it.get(labels::PARENT_PLACEMENT)) { " of " (placement) }
                                @if work.metadata.deletion_timestamp.is_some() { " " (parts::badge(parts::WAITING, "being removed")) }
                            }
                        }
                        @if works.len() > SHOWN_MAX { li { "and " (works.len() - SHOWN_MAX) " more" } }
                    }
                }
            }
        }
    }
}
