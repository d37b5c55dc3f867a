//! The whole fleet at a glance: what needs somebody, and members and placements as a matrix, failures first.

use std::{
    cmp::Reverse,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use fleet_api::{
    cluster::{MemberCluster, Taint},
    kind::Kind as _,
};
use fleet_core::membership::eligibility::eligibility;
use maud::{Markup, html};

use super::{
    Page, Site, mend,
    parts::{self, DONE, DRIFTED, FAILED, NOT_YET, WAITING},
};
use crate::{
    hub::{Cell, Hub, Mark, Stand},
    view::{Filter, Name, View},
};

/// Members and placements on one page of the matrix. More is neither read nor drawn without stutter.
const MEMBERS: usize = 50;
const PLACEMENTS: usize = 30;
/// What members are called in lists of kinds.
pub(super) const MEMBERS_KIND: [&str; 1] = [MemberCluster::CRD.plural];

struct Row {
    name: String,
    group: String,
    /// Whether placements may be put on it, as far as is known.
    usable: bool,
    cordoned: bool,
    worst: Option<Mark>,
}

impl Row {
    /// The less, the sooner somebody should look.
    fn rank(&self) -> (bool, Reverse<Option<Mark>>) {
        (self.usable, Reverse(self.worst))
    }
}

pub(super) fn page(site: &Site<'_>, filter: &Filter) -> Page {
    let hub = site.hub;
    let stands = hub.stands();
    let rows = rows(hub, filter, &stands);
    let body = html! {
        h1.unseen { "Fleet" }
        (tiles(hub, &stands))
        @if hub.members.is_empty() {
            (parts::none(site, &MEMBERS_KIND, "The fleet has no members yet.", "kubectl fleet join <name>"))
        }
        (mend::list(site, &stands))
        (controls(hub, filter))
        (matrix(site, filter, &stands, &rows))
    };
    Page {
        title: "Fleet".into(),
        command: format!("kubectl fleet status{}", site.hub.flag()),
        body,
    }
}

/// The members that the filter wants: in groups, in each the troubled first, and the group of the first of all at the top.
fn rows(hub: &Hub, filter: &Filter, stands: &[Stand]) -> Vec<Row> {
    let now = hub.clock.now();
    let text = filter.text.to_lowercase();
    let fits = |name: &str| name.to_lowercase().contains(&text);
    let worst = |name: &str| {
        let cells = stands.iter().filter_map(|it| it.column.cells.get(name));
        cells.map(|cell| cell.mark).max()
    };
    let of_member = |member: Arc<MemberCluster>| {
        let name = member.metadata.name.clone().unwrap_or_default();
        let labels = member.metadata.labels.as_ref();
        let label = labels.and_then(|labels| labels.get(&filter.group));
        Row {
            group: label.cloned().unwrap_or_default(),
            usable: eligibility(&member, now).is_ok(),
            cordoned: member.spec.taints.contains(&Taint::cordon()),
            worst: worst(&name),
            name,
        }
    };
    let mut rows: Vec<Row> = hub.members.all().into_iter().map(of_member).collect();
    if hub.kinds.unread(&MEMBERS_KIND).is_some() {
        rows.extend(unread(hub, stands).into_iter().map(|name| Row {
            group: String::new(),
            usable: true,
            cordoned: false,
            worst: worst(&name),
            name,
        }));
    }
    // A filter that names placements alone shows those, and every member.
    let every = !rows.iter().any(|row| fits(&row.name)) && stands.iter().any(|it| matches(&it.name, &text));
    rows.retain(|row| every || fits(&row.name));
    rows.retain(|row| !filter.trouble || !row.usable || row.worst.is_some_and(|mark| mark > Mark::Done));
    let mut first = HashMap::new();
    for row in &rows {
        let rank = first.entry(row.group.clone()).or_insert_with(|| row.rank());
        *rank = row.rank().min(*rank);
    }
    rows.sort_by_cached_key(|row| {
        let group = (first.get(&row.group).copied(), row.group.is_empty(), row.group.clone());
        (group, row.rank(), row.name.clone())
    });
    rows
}

/// The clusters that bindings name, where members themselves may not be read.
fn unread(hub: &Hub, stands: &[Stand]) -> BTreeSet<String> {
    let named = stands.iter().flat_map(|it| it.column.cells.keys());
    let named = named.filter(|cluster| hub.member(cluster).is_none());
    named.map(std::string::ToString::to_string).collect()
}

fn matches(name: &Name, text: &str) -> bool {
    !text.is_empty() && name.shown().to_lowercase().contains(text)
}

fn tiles(hub: &Hub, stands: &[Stand]) -> Markup {
    let members = hub.members.len();
    let now = hub.clock.now();
    let unusable = hub
        .members
        .all()
        .iter()
        .filter(|it| eligibility(it, now).is_err())
        .count();
    let worst = |mark| stands.iter().filter(|it| it.worst() == mark).count();
    let drifted: usize = stands.iter().map(|it| it.column.count(Mark::Drifted)).sum();
    let runs = super::runs::counts(hub);
    html! {
        ul.tiles {
            (tile(&View::Members(0), members, "member", &[(FAILED, unusable, "not usable"), (DONE, members - unusable, "usable")]))
            (tile(&View::Placements(0), stands.len(), "placement", &[
                (FAILED, worst(Mark::Failed), "failed"), (DRIFTED, worst(Mark::Drifted), "drifted"),
                (WAITING, worst(Mark::Waiting), "under way"), (DONE, worst(Mark::Done), "done"),
            ]))
            (tile(&View::Placements(0), drifted, "drift", &[(DRIFTED, drifted, "found on members"), (DONE, usize::from(drifted == 0), "none")]))
            (tile(&View::Runs(0), runs.all(), "run", &[
                (FAILED, runs.failed, "failed"), (FAILED, runs.stuck, "stuck"), (WAITING, runs.waiting, "waiting"),
                (WAITING, runs.going, "under way"), (NOT_YET, runs.resting, "not going on"),
            ]))
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

fn matrix(site: &Site<'_>, filter: &Filter, stands: &[Stand], rows: &[Row]) -> Markup {
    let text = filter.text.to_lowercase();
    let named: Vec<_> = stands.iter().filter(|it| matches(&it.name, &text)).cloned().collect();
    let wanted = if named.is_empty() { stands } else { &named };
    let shown: Vec<_> = wanted
        .iter()
        .filter(|it| !filter.trouble || !it.is_fine())
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
            (nothing(site, filter, columns.is_empty()))
        } @else {
            section.matrix aria-label="Members and placements" tabindex="0" {
                table {
                    caption.unseen { "How every placement stands on every member, failures first" }
                    thead {
                        tr {
                            th scope="col" { "Member" }
                            @for stand in columns {
                                @let Stand { name, column, .. } = stand;
                                th.up scope="col" {
                                    a href=(View::placement(name.clone()).url()) title=(name.shown()) {
                                        span { (name.shown()) }
                                    }
                                    @if let Some(own) = stand.beyond_clusters() { span title=(own.says) { (parts::sign(parts::of_mark(own.mark))) } }
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

fn member(row: &Row, columns: &[Stand]) -> Markup {
    let view = View::Member(row.name.clone());
    html! {
        tr id={ "m-" (row.name) } {
            th scope="row" {
                @if !row.usable { (parts::sign(FAILED)) " " }
                a href=(view.url()) { (row.name) }
                @if row.cordoned { " " span.badge { "cordoned" } }
            }
            @for Stand { name, column, .. } in columns {
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

fn nothing(site: &Site<'_>, filter: &Filter, placements: bool) -> Markup {
    if *filter != Filter::default() {
        return parts::empty(site, "Nothing fits the filter.", "");
    }
    if placements {
        super::placements::none(site)
    } else {
        let says = "There are no members to place anything on.";
        parts::none(site, &MEMBERS_KIND, says, "kubectl fleet join <name>")
    }
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
