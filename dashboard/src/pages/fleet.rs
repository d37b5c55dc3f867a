//! The whole fleet at a glance: what needs somebody, and members and placements as a matrix, failures first.

use std::{collections::BTreeSet, sync::Arc};

use fleet_api::cluster::MemberCluster;
use fleet_core::membership::eligibility::eligibility;
use maud::{Markup, html};

use super::{
    Page, Site, mend,
    parts::{self, DONE, DRIFTED, FAILED, WAITING},
};
use crate::{
    hub::{Cell, Column, Hub, Mark},
    view::{Filter, Name, View},
};

/// Members and placements on one page of the matrix. More is neither read nor drawn without stutter.
const MEMBERS: usize = 50;
const PLACEMENTS: usize = 30;

struct Row {
    member: Arc<MemberCluster>,
    name: String,
    group: String,
    /// Whether placements may be put on it.
    usable: bool,
    worst: Option<Mark>,
}

pub(super) fn page(site: &Site<'_>, filter: &Filter) -> Page {
    let hub = site.hub;
    let columns = columns(hub);
    let rows = rows(hub, filter, &columns);
    let body = html! {
        h1.unseen { "Fleet" }
        (tiles(hub, &columns))
        @if hub.members.is_empty() && hub.kinds.reception().starting.is_empty() {
            (parts::empty("The fleet has no members yet.", "kubectl fleet join <name>"))
        }
        (mend::list(site, &columns))
        (controls(hub, filter))
        (matrix(filter, &columns, &rows))
    };
    Page {
        title: "Fleet".into(),
        command: "kubectl fleet status".into(),
        body,
    }
}

/// All placements with their columns, those in trouble first.
pub(super) fn columns(hub: &Hub) -> Vec<(Name, Arc<Column>)> {
    let names = hub.placements();
    hub.grid.keep(&names);
    let mut columns: Vec<_> = names
        .into_iter()
        .map(|name| {
            let column = hub.grid.column(hub, &name);
            (name, column)
        })
        .collect();
    let trouble = |column: &Column| [Mark::Failed, Mark::Drifted, Mark::Waiting].map(|mark| column.count(mark));
    columns.sort_by(|a, b| trouble(&b.1).cmp(&trouble(&a.1)).then_with(|| a.0.cmp(&b.0)));
    columns
}

/// The members that the filter wants: in groups, in each the troubled first.
fn rows(hub: &Hub, filter: &Filter, columns: &[(Name, Arc<Column>)]) -> Vec<Row> {
    let now = hub.clock.now();
    let text = filter.text.to_lowercase();
    // A filter that names placements shows those, and every member.
    let of_placements = columns.iter().any(|(name, _)| matches(name, &text));
    let mut rows: Vec<Row> = hub
        .members
        .all()
        .into_iter()
        .map(|member| {
            let name = member.metadata.name.clone().unwrap_or_default();
            let label = member
                .metadata
                .labels
                .as_ref()
                .and_then(|labels| labels.get(&filter.group));
            let worst = columns
                .iter()
                .filter_map(|(_, column)| column.cells.get(name.as_str()))
                .map(|cell| cell.mark);
            Row {
                group: label.cloned().unwrap_or_default(),
                usable: eligibility(&member, now).is_ok(),
                worst: worst.max(),
                name,
                member,
            }
        })
        .filter(|row| text.is_empty() || row.name.to_lowercase().contains(&text) || of_placements)
        .filter(|row| !filter.trouble || !row.usable || row.worst.is_some_and(|mark| mark > Mark::Done))
        .collect();
    rows.sort_by(|a, b| {
        let key = |row: &Row| (row.usable, std::cmp::Reverse(row.worst));
        let groups = (a.group.is_empty(), &a.group).cmp(&(b.group.is_empty(), &b.group));
        groups
            .then_with(|| key(a).cmp(&key(b)))
            .then_with(|| a.name.cmp(&b.name))
    });
    rows
}

fn matches(name: &Name, text: &str) -> bool {
    !text.is_empty() && name.shown().to_lowercase().contains(text)
}

fn tiles(hub: &Hub, columns: &[(Name, Arc<Column>)]) -> Markup {
    let members = hub.members.len();
    let silent = hub
        .members
        .all()
        .iter()
        .filter(|it| eligibility(it, hub.clock.now()).is_err())
        .count();
    let worst = |mark| {
        let is = |column: &Column| Mark::ALL.into_iter().rev().find(|mark| column.count(*mark) > 0) == Some(mark);
        columns.iter().filter(|(_, column)| is(column)).count()
    };
    let drifted: usize = columns.iter().map(|(_, column)| column.count(Mark::Drifted)).sum();
    let (ahead, waiting) = super::runs::counts(hub);
    html! {
        ul.tiles {
            (tile(&View::Members(0), members, "member", &[(FAILED, silent, "not usable"), (DONE, members - silent, "usable")]))
            (tile(&View::Placements, columns.len(), "placement", &[
                (FAILED, worst(Mark::Failed), "failed"), (DRIFTED, worst(Mark::Drifted), "drifted"),
                (WAITING, worst(Mark::Waiting), "under way"), (DONE, worst(Mark::Done), "done"),
            ]))
            (tile(&View::Placements, drifted, "drift", &[(DRIFTED, drifted, "found on members"), (DONE, usize::from(drifted == 0), "none")]))
            (tile(&View::Runs, ahead, "run", &[(WAITING, waiting, "waiting"), (WAITING, ahead - waiting, "under way")]))
        }
    }
}

fn tile(view: &View, count: usize, what: &str, parts: &[(parts::Sign, usize, &str)]) -> Markup {
    html! {
        li {
            a href=(view.url()) {
                span.count { (count) } " " span.what { (what) @if count != 1 { "s" } }
                span.parts {
                    @for (sign, count, word) in parts {
                        @if *count > 0 {
                            (parts::badge(*sign, &if *word == "none" { (*word).to_owned() } else { format!("{count} {word}") })) " "
                        }
                    }
                }
            }
        }
    }
}

fn controls(hub: &Hub, filter: &Filter) -> Markup {
    let members = hub.members.all();
    let labels = members.iter().filter_map(|it| it.metadata.labels.as_ref());
    let keys: BTreeSet<&String> = labels.flat_map(|labels| labels.keys()).collect();
    html! {
        form.controls method="get" action="/" role="search" {
            label { "Name " input type="search" name="q" value=(filter.text) placeholder="member or placement" data-hotkey="/"; }
            label {
                "Group by "
                select name="group" {
                    option value="" selected[filter.group.is_empty()] { "nothing" }
                    @for key in &keys { option value=(key) selected[**key == filter.group] { (key) } }
                }
            }
            label {
                "Show "
                select name="show" {
                    option value="" selected[!filter.trouble] { "everything" }
                    option value="trouble" selected[filter.trouble] { "only trouble" }
                }
            }
            button { "Filter" }
            @if *filter != Filter::default() { " " a href="/" { "Clear" } }
        }
    }
}

fn matrix(filter: &Filter, columns: &[(Name, Arc<Column>)], rows: &[Row]) -> Markup {
    let text = filter.text.to_lowercase();
    let named: Vec<_> = columns
        .iter()
        .filter(|(name, _)| matches(name, &text))
        .cloned()
        .collect();
    let wanted = if named.is_empty() { columns } else { &named };
    let shown: Vec<_> = wanted
        .iter()
        .filter(|(_, column)| !filter.trouble || column.at_least(Mark::Waiting) > 0 || column.cells.is_empty())
        .cloned()
        .collect();
    let (column_page, column_pages, columns) = parts::paged(&shown, filter.placements, PLACEMENTS);
    let (row_page, row_pages, rows) = parts::paged(rows, filter.members, MEMBERS);
    let turn = |members, placements| {
        View::Fleet(Filter {
            members,
            placements,
            ..filter.clone()
        })
        .url()
    };
    let span = columns.len() + 1;
    html! {
        @if rows.is_empty() || columns.is_empty() {
            (nothing(filter, columns.is_empty()))
        } @else {
            section.matrix aria-label="Members and placements" tabindex="0" {
                table {
                    caption.unseen { "How every placement stands on every member, failures first" }
                    thead {
                        tr {
                            th scope="col" { "Member" }
                            @for (name, column) in columns {
                                th.up scope="col" {
                                    a href=(View::Placement(name.clone(), 0).url()) title=(name.shown()) {
                                        span { (name.shown()) }
                                    }
                                    span.count { (column.count(Mark::Done)) "/" (column.cells.len()) }
                                }
                            }
                        }
                    }
                    @for group in rows.chunk_by(|a, b| a.group == b.group) {
                        tbody {
                            @if !filter.group.is_empty() {
                                tr.group {
                                    th colspan=(span) scope="rowgroup" {
                                        (filter.group) " = " @if group[0].group.is_empty() { "(no label)" } @else { (group[0].group) }
                                    }
                                }
                            }
                            @for row in group { (member(row, columns)) }
                        }
                    }
                }
            }
        }
        (parts::pager(row_page, row_pages, "members", |page| turn(page, column_page)))
        (parts::pager(column_page, column_pages, "placements", |page| turn(row_page, page)))
        (legend())
    }
}

fn member(row: &Row, columns: &[(Name, Arc<Column>)]) -> Markup {
    let view = View::Member(row.name.clone());
    let cordoned = row.member.spec.taints.contains(&fleet_api::cluster::Taint::cordon());
    html! {
        tr id={ "m-" (row.name) } {
            th scope="row" {
                @if !row.usable { (parts::sign(FAILED)) " " }
                a href=(view.url()) { (row.name) }
                @if cordoned { " " span.badge { "cordoned" } }
            }
            @for (name, column) in columns {
                @match column.cells.get(row.name.as_str()) {
                    Some(found) => td { (cell(name, &row.name, found)) },
                    None => td.none { span aria-hidden="true" { " " } span.unseen { "not placed" } },
                }
            }
        }
    }
}

fn cell(name: &Name, cluster: &str, cell: &Cell) -> Markup {
    let sign = parts::of_mark(cell.mark);
    let says = format!("{} on {cluster}: {}", name.shown(), cell.says);
    html! {
        a class={ "cell " (sign.0) } href=(View::On(name.clone(), cluster.to_owned()).url()) title=(says) {
            span aria-hidden="true" { (sign.1) }
            span.unseen { (sign.2) ", " (says) }
        }
    }
}

fn nothing(filter: &Filter, placements: bool) -> Markup {
    if *filter != Filter::default() {
        return parts::empty("Nothing fits the filter.", "");
    }
    let (says, next) = if placements {
        (
            "There are no placements yet.",
            "kubectl apply -f docs/examples/demo/web.yaml",
        )
    } else {
        (
            "There are no members to place anything on.",
            "kubectl fleet join <name>",
        )
    };
    parts::empty(says, next)
}

fn legend() -> Markup {
    html! {
        p.legend {
            @for mark in Mark::ALL {
                @let sign = parts::of_mark(mark);
                (parts::badge(sign, ""))
                " "
            }
            span { "· a click on a sign says why" }
        }
    }
}
