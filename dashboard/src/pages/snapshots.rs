//! The resource snapshots of a placement: which there are, and which clusters have which.

use std::collections::BTreeMap;

use fleet_api::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use maud::{Markup, html};

use super::{Page, Site, parts};
use crate::{
    compare::{Change, ChangeKind},
    view::{Name, View},
};

/// Clusters that are named for one snapshot.
const NAMED_MAX: usize = 12;

pub(super) fn page(site: &Site<'_>, name: &Name) -> Page {
    let mut gathering = site.hub.gather();
    gathering.placement(name);
    let fleet = gathering.objects.fleet(&name.namespace, site.hub.clock.now());
    let mut on: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for binding in fleet.bindings_of(&name.name) {
        on.entry(&binding.spec.resource_snapshot_name)
            .or_default()
            .push(&binding.spec.target_cluster);
    }
    let label = |meta: &ObjectMeta, key: &str| {
        let labelled = meta.labels.as_ref().and_then(|labels| labels.get(key));
        labelled.cloned().unwrap_or_default()
    };
    let index = |meta: &ObjectMeta| label(meta, labels::RESOURCE_INDEX).parse::<u64>().unwrap_or(0);
    // Large ones come in several parts, of which the first carries the name that bindings use.
    let is_first = |meta: &ObjectMeta| {
        let annotations = meta.annotations.as_ref();
        !annotations.is_some_and(|it| it.contains_key(fleet_api::annotations::SUBINDEX_OF_RESOURCE_SNAPSHOT))
    };
    let mut all: Vec<&ObjectMeta> = fleet.snapshots.iter().copied().filter(|meta| is_first(meta)).collect();
    all.sort_by_key(|meta| std::cmp::Reverse(index(meta)));
    let body = html! {
        h1 { "Snapshots of " (parts::link(&View::placement(name.clone()), &name.shown())) }
        @if all.is_empty() { (parts::empty(site, "No resource snapshot has been taken yet.", "")) }
        @else {
            div.scroll tabindex="0" {
                table.list {
                    thead { tr { th { "Index" } th { "Snapshot" } th { "Content" } th { "Taken" } th { "On" } } }
                    tbody {
                        @for meta in &all {
                            @let own = meta.name.as_deref().unwrap_or_default();
                            @let clusters = on.get(own).map(Vec::as_slice).unwrap_or_default();
                            tr {
                                td.number { (index(meta)) }
                                td {
                                    code { (own) }
                                    @if labels::parse_bool(&label(meta, labels::IS_LATEST_SNAPSHOT)) == Some(true) { " " (parts::badge(parts::DONE, "latest")) }
                                }
                                td {
                                    @if index(meta) > 0 { (parts::link(&View::Changes(name.clone(), index(meta) - 1, index(meta)), "what changed")) }
                                }
                                td { @if let Some(taken) = &meta.creation_timestamp { (parts::when(taken)) } }
                                td {
                                    (parts::many(clusters.len(), "cluster")) " "
                                    span.says {
                                        (clusters.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", "))
                                        @if clusters.len() > NAMED_MAX { " …" }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    Page {
        title: format!("Snapshots of {}", name.shown()),
        command: tree(name),
        body,
    }
}

/// The command that lists them. None shows what they hold without showing Secrets too.
fn tree(name: &Name) -> String {
    format!(
        "kubectl fleet tree {}/{}{}",
        name.word("crp", "rp"),
        name.name,
        name.flag()
    )
}

/// What changes from one snapshot to another.
pub(crate) fn changes(site: &Site<'_>, name: &Name, from: u64, to: u64, found: Result<Vec<Change>, String>) -> Page {
    let body = html! {
        h1 {
            "From snapshot " (from) " to " (to) " of " (parts::link(&View::Snapshots(name.clone()), &name.shown()))
        }
        @match found {
            Err(why) => div.banner.stale role="alert" { (why) },
            Ok(changes) => {
                @if changes.is_empty() { (parts::empty(site, "Both hold the same.", "")) }
                @for change in &changes { (one(change, from, to)) }
            },
        }
    };
    Page {
        title: format!("Changes of {}", name.shown()),
        command: tree(name),
        body,
    }
}

fn one(change: &Change, from: u64, to: u64) -> Markup {
    html! {
        div.difference {
            @match &change.kind {
                ChangeKind::Added => h2 { (parts::badge(parts::DONE, "added")) " " (change.object) },
                ChangeKind::Removed => h2 { (parts::badge(parts::FAILED, "removed")) " " (change.object) },
                ChangeKind::Changed(fields, total) => {
                    h2 { (parts::badge(parts::DRIFTED, "changed")) " " (change.object) }
                    div.scroll tabindex="0" {
                        table.sides {
                            thead { tr { th { "Field" } th { "Snapshot " (from) } th { "Snapshot " (to) } } }
                            tbody {
                                @for field in fields {
                                    tr {
                                        th scope="row" { code { (field.path) } }
                                        // The comparison calls its first side the hub.
                                        td.member { code { (field.value_in_hub) } }
                                        td.hub { code { (field.value_in_member) } }
                                    }
                                }
                            }
                        }
                    }
                    @if fields.len() < *total { p { "and " (total - fields.len()) " more fields" } }
                },
            }
        }
    }
}
