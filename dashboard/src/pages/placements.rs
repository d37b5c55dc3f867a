//! All placements, those in trouble first.

use fleet_api::{
    kind::Kind as _,
    placement::{ClusterResourcePlacement, ResourcePlacement},
};
use maud::{Markup, html};

use super::{Page, Site, parts};
use crate::{
    hub::{Mark, Stand},
    view::View,
};

/// Placements on one page.
const SHOWN: usize = 100;

pub(super) fn page(site: &Site<'_>, page: usize) -> Page {
    let stands = site.hub.stands();
    let (page, pages, shown) = parts::paged(&stands, page, SHOWN);
    let body = html! {
        h1 { "Placements" }
        @if stands.is_empty() {
            (none(site))
        } @else {
            div.scroll {
                table.list {
                    thead { tr { th { "Placement" } th { "Namespace" } th { "Clusters" } th { "How they stand" } } }
                    tbody {
                        @for stand in shown {
                            @let Stand { name, column, .. } = stand;
                            tr id={ "p-" (name.shown()) } {
                                td { (parts::link(&View::placement(name.clone()), &name.name)) }
                                td { (name.namespace) }
                                td.number { (column.cells.len()) }
                                td {
                                    @if let Some(own) = stand.beyond_clusters() {
                                        (parts::badge(parts::of_mark(own.mark), &own.says)) " "
                                    }
                                    @if column.cells.is_empty() { (parts::badge(parts::WAITING, "on no cluster")) }
                                    @for mark in Mark::ALL.into_iter().rev() {
                                        @if column.count(mark) > 0 {
                                            @let sign = parts::of_mark(mark);
                                            (parts::badge(sign, &format!("{} {}", column.count(mark), sign.2))) " "
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
            (parts::pager(page, pages, "placements", |page| View::Placements(page).url()))
        }
    };
    Page {
        title: "Placements".into(),
        command: format!("kubectl fleet status{}", site.hub.flag()),
        body,
    }
}

/// That there are none, or that nobody knows.
pub(super) fn none(site: &Site<'_>) -> Markup {
    let kinds = [ClusterResourcePlacement::CRD.plural, ResourcePlacement::CRD.plural];
    let says = "There are no placements yet.";
    parts::none(site, &kinds, says, "kubectl apply -f docs/examples/demo/web.yaml")
}
