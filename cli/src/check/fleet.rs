//! The members, what is placed on them, and what holds it up. Rows are those of `kubectl fleet status`.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::{
    annotations::{CHANNEL_CA, CHANNEL_ENDPOINT},
    cluster::{InternalMemberCluster, InternalMemberClusterSpec, MemberCluster},
    kind::{Kind, SpecKind as _},
    labels::PARENT_BINDING,
    names::{FLEET_SYSTEM_NAMESPACE, MEMBER_NAMESPACE_PREFIX},
    placement::{
        ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget, PlacementType,
        ResourceBinding, ResourcePlacement, Work,
    },
};
use fleet_core::explain::{self, Family, MemberRow, Objects, Verdict as Step};
use jiff::Timestamp;
use kube::{ResourceExt, core::ObjectMeta};

use super::CheckResults;
use crate::{
    hub::{Ask, Hub},
    problem::Problem,
    reading::{LARGE_PAGE, SMALL_PAGE},
};

const MEMBERS: &str = "members";
const VERSIONS: &str = "agent versions";
const CHANNEL: &str = "channel";
const PLACEMENTS: &str = "placements";
const BUDGETS: &str = "disruption budgets";
const ORPHANS: &str = "orphans";

pub(super) async fn check(hub: &Hub, now: Timestamp, report: &mut CheckResults) {
    let members = listed::<MemberCluster>(hub, MEMBERS, LARGE_PAGE, report).await;
    let internals = metadata::<InternalMemberCluster>(hub).await;
    let internals = internals.unwrap_or_else(|problem| {
        report.unread(CHANNEL, &problem);
        Vec::new()
    });
    let wide = listed::<ClusterResourcePlacement>(hub, PLACEMENTS, SMALL_PAGE, report).await;
    let narrow = listed::<ResourcePlacement>(hub, PLACEMENTS, SMALL_PAGE, report).await;
    let names: Option<BTreeSet<_>> = members
        .as_ref()
        .map(|members| members.iter().map(ResourceExt::name_any).collect());
    let (has_wide, has_narrow) = (wide.is_some(), narrow.is_some());
    let bare = |meta: &ObjectMeta| InternalMemberCluster::from_spec(meta.clone(), InternalMemberClusterSpec::default());
    let objects = Objects {
        members: members.unwrap_or_default(),
        internals: internals.iter().map(bare).collect(),
        cluster: Family {
            placements: wide.unwrap_or_default(),
            ..Family::default()
        },
        namespaced: Family {
            placements: narrow.unwrap_or_default(),
            ..Family::default()
        },
        ..Objects::default()
    };
    if names.is_some() {
        of_members(&objects, now, report);
    }
    channel(&internals, report);
    placements(&objects, has_wide && has_narrow, now, report);
    let known = has_wide.then_some(objects.cluster.placements.as_slice());
    budgets(hub, known, report).await;
    orphans(hub, names, report).await;
}

fn of_members(objects: &Objects, now: Timestamp, report: &mut CheckResults) {
    let rows = explain::member_rows(&objects.fleet("", now));
    if rows.is_empty() {
        return report.warn(
            MEMBERS,
            "the fleet has none",
            "kubectl fleet join NAME --member-cluster-context CONTEXT",
        );
    }
    let well = rows.iter().filter(|row| row.verdict == Step::Done).count();
    if well > 0 {
        report.ok(
            MEMBERS,
            format!("{well} of {} have joined and are heard of", rows.len()),
        );
    }
    for row in rows.iter().filter(|row| row.verdict != Step::Done) {
        let hint = format!("kubectl fleet why membercluster/{}", row.name);
        report.fail(MEMBERS, format!("{}: {}", row.name, row.health), hint);
    }
    versions(&rows, report);
}

/// What only one of two agents knows is not done. Of members that have never connected nothing is known.
fn versions(rows: &[MemberRow], report: &mut CheckResults) {
    let known = || rows.iter().filter(|row| !row.agent.is_empty());
    let mut is_one = true;
    for row in known().filter(|row| row.agent != row.hub_agent) {
        is_one = false;
        let text = format!(
            "{}: its agent is version {}, the hub agent {}",
            row.name, row.agent, row.hub_agent
        );
        let hint = format!(
            "helm --kube-context {} upgrade member-agent deploy/charts/member-agent -n {FLEET_SYSTEM_NAMESPACE} --reuse-values",
            row.name
        );
        report.warn(VERSIONS, text, hint);
    }
    let all: BTreeSet<_> = known().map(|row| row.agent.as_str()).collect();
    match all.first() {
        Some(version) if is_one && all.len() == 1 => report.ok(VERSIONS, format!("all agents are version {version}")),
        // Members may have heard of the hub's upgrade one after the other.
        Some(_) if is_one => {
            let all: Vec<_> = all.into_iter().collect();
            let text = format!("members speak with hub agents of versions {}", all.join(", "));
            report.warn(VERSIONS, text, "kubectl fleet status -o wide");
        }
        _ => {}
    }
}

/// All members must connect to the same place and trust the same CA, unless the hub is about to change it.
fn channel(internals: &[ObjectMeta], report: &mut CheckResults) {
    let mut by_value: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for internal in internals {
        let annotations = internal.annotations.as_ref();
        let annotation = |key| annotations.and_then(|all| all.get(key)).map_or("", String::as_str);
        let value = (annotation(CHANNEL_ENDPOINT), annotation(CHANNEL_CA));
        let name = internal.name.as_deref().unwrap_or_default();
        by_value.entry(value).or_default().push(name);
    }
    match by_value.first_key_value() {
        None => {}
        Some(((endpoint, _), _)) if by_value.len() == 1 => {
            let endpoint = if endpoint.is_empty() {
                "as their charts say"
            } else {
                endpoint
            };
            report.ok(
                CHANNEL,
                format!("all members are told the same endpoint and CA ({endpoint})"),
            );
        }
        Some(_) => {
            let odd = by_value.values().min_by_key(|names| names.len());
            let names = odd.map(|names| names.join(", ")).unwrap_or_default();
            let text = format!(
                "members are told {} different endpoints or CAs; in the minority: {names}",
                by_value.len()
            );
            report.warn(
                CHANNEL,
                text,
                format!("kubectl get internalmemberclusters -A -o jsonpath='{{.items[*].metadata.annotations}}' # {CHANNEL_CA}"),
            );
        }
    }
}

fn placements(objects: &Objects, are_all: bool, now: Timestamp, report: &mut CheckResults) {
    let mut rows = Vec::new();
    for namespace in objects.namespaces() {
        rows.extend(explain::placement_rows(&objects.fleet(namespace, now)));
    }
    let well = rows.iter().filter(|row| row.verdict == Step::Done).count();
    if well > 0 || (rows.is_empty() && are_all) {
        report.ok(PLACEMENTS, format!("{well} of {} are as they should be", rows.len()));
    }
    for row in rows.into_iter().filter(|row| row.verdict != Step::Done) {
        let behind = if row.behind.is_empty() {
            String::new()
        } else {
            format!(" ({})", row.behind)
        };
        let text = format!("{}: {}{behind}", row.name, row.text);
        if row.verdict == Step::Failed {
            report.fail(PLACEMENTS, text, row.next);
        } else {
            report.warn(PLACEMENTS, text, row.next);
        }
    }
}

/// Budgets that block everything, whatever happens. Of a budget whose placement nobody knows nothing can be said.
async fn budgets(hub: &Hub, placements: Option<&[ClusterResourcePlacement]>, report: &mut CheckResults) {
    let budgets = listed::<ClusterResourcePlacementDisruptionBudget>(hub, BUDGETS, LARGE_PAGE, report).await;
    let Some(budgets) = budgets else { return };
    let Some(placements) = placements else {
        return report.warn(
            BUDGETS,
            "cannot be told without the placements",
            "kubectl auth can-i list clusterresourceplacements.placement.kubernetes-fleet.io",
        );
    };
    let by_name: BTreeMap<_, _> = placements.iter().map(|it| (it.name_any(), it)).collect();
    let mut blocked = 0;
    for budget in &budgets {
        let name = budget.name_any();
        let Some(placement) = by_name.get(&name) else { continue };
        let policy = placement.spec.policy.as_ref();
        let wanted = policy.and_then(|policy| match policy.placement_type {
            PlacementType::PickN => policy.number_of_clusters,
            PlacementType::PickFixed => i32::try_from(policy.cluster_names.len()).ok(),
            PlacementType::PickAll => None,
        });
        if let Some(why) = explain::budget_never_allows(&budget.spec, wanted) {
            blocked += 1;
            let hint = format!("kubectl edit clusterresourceplacementdisruptionbudget {name}");
            report.warn(BUDGETS, format!("{name} allows no eviction at all: {why}"), hint);
        }
    }
    if blocked == 0 {
        report.ok(BUDGETS, format!("{0} of {0} let evictions through", budgets.len()));
    }
}

/// Works that no binding asks for, and namespaces of members that the fleet does not have.
async fn orphans(hub: &Hub, members: Option<BTreeSet<String>>, report: &mut CheckResults) {
    let (works, wide, narrow) = tokio::join!(
        metadata::<Work>(hub),
        metadata::<ClusterResourceBinding>(hub),
        metadata::<ResourceBinding>(hub),
    );
    let (works, wide, narrow) = match (works, wide, narrow) {
        (Ok(works), Ok(wide), Ok(narrow)) => (works, wide, narrow),
        (Err(problem), ..) | (_, Err(problem), _) | (.., Err(problem)) => return report.unread(ORPHANS, &problem),
    };
    let bindings = wide.iter().chain(&narrow);
    let bindings: BTreeSet<_> = bindings.filter_map(|meta| meta.name.as_deref()).collect();
    let mut found = 0;
    for work in works.iter().filter(|work| work.deletion_timestamp.is_none()) {
        let (namespace, name) = (
            work.namespace.as_deref().unwrap_or_default(),
            work.name.as_deref().unwrap_or_default(),
        );
        let Some(cluster) = namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX) else {
            continue;
        };
        let text = match work.labels.as_ref().and_then(|all| all.get(PARENT_BINDING)) {
            _ if members.as_ref().is_some_and(|members| !members.contains(cluster)) => {
                format!("Work {namespace}/{name} is for a member that the fleet does not have")
            }
            Some(binding) if !bindings.contains(binding.as_str()) => {
                format!("Work {namespace}/{name} belongs to no binding")
            }
            // Somebody has made it by hand.
            _ => continue,
        };
        found += 1;
        report.warn(ORPHANS, text, format!("kubectl get work {name} -n {namespace} -o yaml"));
    }
    if found == 0 {
        report.ok(ORPHANS, "every Work has its binding and its member");
    }
}

/// All objects of a kind; none if they cannot be read, which is said. A hub may lack the kinds of namespaced placements.
async fn listed<K: Kind>(hub: &Hub, check: &'static str, page: u32, report: &mut CheckResults) -> Option<Vec<K>> {
    let ask = Ask {
        page: Some(page),
        ..Ask::default()
    };
    match hub.ask(ask, |_: &K| true).await {
        Ok(listed) => {
            for odd in listed.odd {
                let hint = format!("kubectl get {}.{} --all-namespaces -o yaml", K::CRD.plural, K::GROUP);
                report.warn(check, odd, hint);
            }
            Some(listed.items)
        }
        Err(problem) if problem.is_unserved() && K::CRD.plural == ResourcePlacement::CRD.plural => Some(Vec::new()),
        Err(problem) => {
            report.unread(check, &problem);
            None
        }
    }
}

/// The metadata of all objects of a kind; none of a kind that the hub does not have.
async fn metadata<K: Kind>(hub: &Hub) -> Result<Vec<ObjectMeta>, Problem> {
    let ask = Ask {
        page: Some(LARGE_PAGE),
        ..Ask::default()
    };
    match hub.ask_metadata::<K>(ask).await {
        Err(problem) if problem.is_unserved() && K::CRD.plural == ResourceBinding::CRD.plural => Ok(Vec::new()),
        answer => answer,
    }
}
