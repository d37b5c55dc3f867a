//! All placements, those in trouble first.

use maud::html;

use super::{Page, Site, fleet, parts};
use crate::{hub::Mark, view::View};

pub(super) fn page(site: &Site<'_>) -> Page {
    let columns = fleet::columns(site.hub);
    let body = html! {
        h1 { "Placements" }
        @if columns.is_empty() {
            (parts::empty("There are no placements yet.", "kubectl apply -f docs/examples/demo/web.yaml"))
        } @else {
            div.scroll {
                table.list {
                    thead { tr { th { "Placement" } th { "Namespace" } th { "Clusters" } th { "How they stand" } } }
                    tbody {
                        @for (name, column) in &columns {
                            tr {
                                td { (parts::link(&View::Placement(name.clone(), 0), &name.name)) }
                                td { (name.namespace) }
                                td.number { (column.cells.len()) }
                                td {
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
        }
    };
    Page {
        title: "Placements".into(),
        command: "kubectl fleet status".into(),
        body,
    }
}
