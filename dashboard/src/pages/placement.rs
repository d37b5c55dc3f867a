//! One placement: its steps, what holds what back, every cluster, and who was not picked and why.

use fleet_api::placement::{BindingSpec, PlacementSpec, PlacementStatus, PlacementType, RolloutStrategyType};
use fleet_core::explain::{self, Fleet};
use maud::{Markup, html};

use super::{Page, Site, parts};
use crate::{
    hub::Mark,
    view::{About, Name, Turned, View},
};

/// Clusters on one page.
const CLUSTERS: usize = 100;
/// Members that were not picked, on one page.
const OTHERS: usize = 50;

pub(super) fn page(site: &Site<'_>, name: &Name, turned: Turned) -> Page {
    let hub = site.hub;
    let mut gathering = hub.gather();
    gathering.placement(name);
    let objects = &gathering.objects;
    let fleet = objects.fleet(&name.namespace, hub.clock.now());
    let chain = explain::placement(&fleet, &name.name);
    let body = html! {
        h1 { span.kind { (name.word("ClusterResourcePlacement", "ResourcePlacement")) } " " (name.shown()) }
        nav.tabs aria-label="This placement" {
            a href=(View::placement(name.clone()).url()) aria-current="page" { "Overview" }
            a href=(View::Differences(name.clone()).url()) { "Differences" }
            a href=(View::Snapshots(name.clone()).url()) { "Snapshots" }
            a href=(View::Timeline(Some(About::Placement(name.clone()))).url()) { "Timeline" }
        }
        (parts::bar(&chain))
        section.card aria-labelledby="why" { h2 id="why" { "Why it stands where it stands" } (parts::chain(site, &chain)) }
        @if let Some(placement) = fleet.placement(&name.name) {
            (wanted(placement.spec, placement.status))
            (runs(&fleet, name))
            (clusters(site, &fleet, name, turned))
            (others(site, &fleet, name, turned))
        }
    };
    Page {
        title: format!("Placement {}", name.shown()),
        command: format!(
            "kubectl fleet why {}/{}{}",
            name.word("crp", "rp"),
            name.name,
            name.flag()
        ),
        body,
    }
}

fn wanted(spec: &PlacementSpec, status: Option<&PlacementStatus>) -> Markup {
    let policy = match spec.policy.as_ref() {
        None => "all clusters".to_owned(),
        Some(policy) => match policy.placement_type {
            PlacementType::PickFixed => format!("the clusters {}", policy.cluster_names.join(", ")),
            PlacementType::PickN => format!("{} clusters", policy.number_of_clusters.unwrap_or_default()),
            PlacementType::PickAll => "all clusters that fit".to_owned(),
        },
    };
    let rollout = match spec.rollout_type() {
        RolloutStrategyType::External => "by update runs",
        RolloutStrategyType::RollingUpdate => "by the hub, within its budget",
    };
    let selected = status
        .map(|status| status.selected_resources.as_slice())
        .unwrap_or_default();
    html! {
        dl.facts {
            dt { "Picks" } dd { (policy) }
            dt { "Rolled out" } dd { (rollout) }
            @if let Some(status) = status {
                dt { "Resource snapshot" } dd { (status.observed_resource_index) }
            }
            dt { "Objects" }
            dd {
                details {
                    summary { (selected.len()) " selected" }
                    ul.plain {
                        @for it in selected.iter().take(200) {
                            li { (it.kind) " " @if !it.namespace.is_empty() { (it.namespace) "/" } (it.name) }
                        }
                        @if selected.len() > 200 { li { "and " (selected.len() - 200) " more" } }
                    }
                }
            }
        }
    }
}

fn runs(fleet: &Fleet<'_>, name: &Name) -> Markup {
    let own: Vec<_> = fleet
        .runs
        .iter()
        .filter(|run| run.spec.placement_name == name.name)
        .collect();
    html! {
        @if !own.is_empty() {
            p.runs {
                "Update runs: "
                @for run in own {
                    (parts::link(&View::Run(Name::new(name.namespace.as_str(), run.name())), run.name())) " "
                }
            }
        }
    }
}

fn clusters(site: &Site<'_>, fleet: &Fleet<'_>, name: &Name, turned: Turned) -> Markup {
    let column = site.hub.grid.column(site.hub, name);
    let mut cells: Vec<_> = column.cells.iter().collect();
    cells.sort_by(|(a, one), (b, two)| two.mark.cmp(&one.mark).then_with(|| a.cmp(b)));
    let (page, pages, shown) = parts::paged(&cells, turned.clusters, CLUSTERS);
    html! {
        section aria-labelledby="clusters" {
            h2 id="clusters" { (parts::many(cells.len(), "cluster")) }
            @if cells.is_empty() { (parts::empty(site, "It is on no cluster.", "")) }
            @else {
                div.scroll {
                    table.list {
                        thead { tr { th { "Cluster" } th { "State" } th { "What holds it back" } th { "Snapshot" } th { "Overrides" } } }
                        tbody {
                            @for (cluster, cell) in shown {
                                @let sign = parts::of_mark(cell.mark);
                                @let binding = fleet.binding(&name.name, cluster);
                                tr id={ "c-" (cluster) } {
                                    td { (parts::link(&View::Member(cluster.to_string()), cluster)) }
                                    td {
                                        a href=(View::On(name.clone(), cluster.to_string()).url()) { (parts::badge(sign, "")) }
                                    }
                                    td {
                                        @if cell.mark == Mark::Done { "" }
                                        @else { (held(fleet, name, cluster, &cell.says)) }
                                    }
                                    td { @if let Some(binding) = binding { (binding.spec.resource_snapshot_name) } }
                                    td { @if let Some(binding) = binding { (overrides(binding.spec)) } }
                                }
                            }
                        }
                    }
                }
                (parts::pager(page, pages, "clusters", |clusters| {
                    View::Placement(name.clone(), Turned { clusters, ..turned }).url()
                }))
            }
        }
    }
}

fn held(fleet: &Fleet<'_>, name: &Name, cluster: &str, says: &str) -> Markup {
    let chain = explain::placement_on(fleet, &name.name, cluster);
    html! {
        @match chain.cause() {
            Some(cause) => { (cause.text) },
            None => { (says) },
        }
    }
}

/// The overrides in force on a cluster, as snapshots.
pub(super) fn overrides(spec: &BindingSpec) -> Markup {
    html! {
        @if spec.cluster_resource_override_snapshots.is_empty() && spec.resource_override_snapshots.is_empty() { "none" }
        @for name in &spec.cluster_resource_override_snapshots { code { (name) } " " }
        @for it in &spec.resource_override_snapshots { code { (it.namespace) "/" (it.name) } " " }
    }
}

/// The members that were not picked, by the scheduler's own filters: the placement's status has but the first twenty.
fn others(site: &Site<'_>, fleet: &Fleet<'_>, name: &Name, turned: Turned) -> Markup {
    let not_picked = fleet
        .members
        .iter()
        .filter_map(|member| member.metadata.name.as_deref());
    let bound: std::collections::HashSet<&str> = fleet
        .bindings_of(&name.name)
        .map(|binding| binding.spec.target_cluster.as_str())
        .collect();
    let not_picked: Vec<&str> = not_picked.filter(|cluster| !bound.contains(cluster)).collect();
    let (page, pages, shown) = parts::paged(&not_picked, turned.others, OTHERS);
    html! {
        @if !not_picked.is_empty() {
            section aria-labelledby="others" {
                h2 id="others" { "Not picked: " (parts::many(not_picked.len(), "member")) }
                div.scroll {
                    table.list {
                        thead { tr { th { "Member" } th { "Why" } th { "Next" } } }
                        tbody {
                            @for cluster in shown {
                                @let chain = explain::placement_on(fleet, &name.name, cluster);
                                tr id={ "n-" (cluster) } {
                                    td { (parts::link(&View::Member((*cluster).to_owned()), cluster)) }
                                    @if let Some(cause) = chain.cause() {
                                        td { (cause.text) }
                                        td { (parts::command(site, &cause.next)) }
                                    } @else { td {} td {} }
                                }
                            }
                        }
                    }
                }
                (parts::pager(page, pages, "members", |others| {
                    View::Placement(name.clone(), Turned { others, ..turned }).url()
                }))
            }
        }
    }
}
