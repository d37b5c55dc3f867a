//! All members, those in trouble first.

use std::collections::HashMap;

use fleet_api::cluster::{AgentType, MemberCluster, Taint};
use fleet_core::membership::eligibility::eligibility;
use maud::html;

use super::{Page, Site, fleet, member, parts};
use crate::{hub::Mark, view::View};

/// Members on one page.
const SHOWN: usize = 100;

pub(super) fn page(site: &Site<'_>, page: usize) -> Page {
    let hub = site.hub;
    let now = hub.clock.now();
    let stands = hub.stands();
    let mut placed: HashMap<&str, [usize; 2]> = HashMap::new();
    for (cluster, cell) in stands.iter().flat_map(|it| &it.column.cells) {
        let counts = placed.entry(cluster).or_default();
        counts[0] += 1;
        counts[1] += usize::from(cell.mark > Mark::Waiting);
    }
    let mut all = hub.members.all();
    let name = |member: &MemberCluster| member.metadata.name.clone().unwrap_or_default();
    all.sort_by_cached_key(|member| (eligibility(member, now).is_ok(), name(member)));
    let (page, pages, shown) = parts::paged(&all, page, SHOWN);
    let body = html! {
        h1 { "Members" }
        @if all.is_empty() { (parts::none(site, &fleet::MEMBERS_KIND, "The fleet has no members yet.", "kubectl fleet join <name>")) }
        @else {
            div.scroll {
                table.list {
                    thead { tr { th { "Member" } th { "State" } th { "Last heartbeat" } th { "CPU free" } th { "Memory free" } th { "Placements" } } }
                    tbody {
                        @for member in shown {
                            @let own = name(member);
                            @let counts = placed.get(own.as_str()).copied().unwrap_or_default();
                            @let status = member.status.as_ref();
                            @let agent = status.and_then(|status| status.agent(&AgentType::MemberAgent));
                            tr id={ "m-" (own) } {
                                td { (parts::link(&View::Member(own.clone()), &own)) }
                                td {
                                    @match eligibility(member, now) {
                                        Ok(_) => (parts::badge(parts::DONE, "usable")),
                                        Err(why) => (parts::badge(parts::FAILED, &member::short(why))),
                                    }
                                    @if member.spec.taints.contains(&Taint::cordon()) { " " span.badge { "cordoned" } }
                                }
                                td { @if let Some(last) = agent.and_then(|it| it.last_received_heartbeat.as_ref()) { (parts::when(last)) } }
                                @for kind in ["cpu", "memory"] {
                                    td { @if let Some(usage) = status.and_then(|it| it.resource_usage.as_ref()) { (member::plot(usage, kind)) } }
                                }
                                td.number {
                                    (counts[0])
                                    @if counts[1] > 0 { " " (parts::badge(parts::FAILED, &format!("{} in trouble", counts[1]))) }
                                }
                            }
                        }
                    }
                }
            }
            (parts::pager(page, pages, "members", |page| View::Members(page).url()))
        }
    };
    Page {
        title: "Members".into(),
        command: format!("kubectl fleet status{}", site.hub.flag()),
        body,
    }
}
