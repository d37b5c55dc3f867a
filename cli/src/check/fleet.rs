//! The members, what is placed on them, and what holds it up.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::{
    annotations::{CHANNEL_CA, CHANNEL_ENDPOINT},
    cluster::{InternalMemberCluster, MemberCluster},
    conditions::{self, Status},
    guard::Guarded,
    kind::Kind,
    labels::PARENT_BINDING,
    names::MEMBER_NAMESPACE_PREFIX,
    placement::{
        ClusterResourceBinding, ClusterResourcePlacement, ClusterResourcePlacementDisruptionBudget, PlacementStatus,
        PlacementType, ResourceBinding, ResourcePlacement, Work,
    },
};
use fleet_core::explain::{self, Fleet, Verdict as Step};
use kube::{
    Api, Client, ResourceExt,
    api::ListParams,
    core::{ObjectMeta, PartialObjectMeta},
};

use super::Report;
use crate::{problem::Problem, terminal::now};

const MEMBERS: &str = "members";
const CHANNEL: &str = "channel";
const PLACEMENTS: &str = "placements";
const BUDGETS: &str = "disruption budgets";
const ORPHANS: &str = "orphans";
/// Lines of one kind; the rest is counted.
const LINES_MAX: usize = 20;
const PAGE: u32 = 500;

/// A line that is not well: text and hint.
type Bad = (String, String);

pub(super) async fn check(client: &Client, report: &mut Report) {
    let members = match list::<MemberCluster>(client).await {
        Ok(members) => members,
        Err(problem) => return report.unread(MEMBERS, &problem),
    };
    let internals = list::<InternalMemberCluster>(client).await;
    let internals = internals.unwrap_or_else(|problem| {
        report.unread(CHANNEL, &problem);
        Vec::new()
    });
    of_members(&members, &internals, report);
    channel(&internals, report);
    placements(client, report).await;
    budgets(client, report).await;
    orphans(client, &members, report).await;
}

fn of_members(members: &[MemberCluster], internals: &[InternalMemberCluster], report: &mut Report) {
    let mut fleet = Fleet::new("", now());
    fleet.members = members.iter().collect();
    fleet.internals = internals.iter().collect();
    let chains = members
        .iter()
        .map(|member| (member.name_any(), explain::member(&fleet, &member.name_any())));
    let mut bad = Vec::new();
    for (name, chain) in chains {
        let unmet = chain
            .steps
            .iter()
            .find(|step| matches!(step.verdict, Step::Failed | Step::Waiting));
        if let Some(cause) = unmet.and_then(|step| step.cause.as_ref()) {
            bad.push((format!("{name}: {}", cause.text), cause.next.clone()));
        }
    }
    if members.is_empty() {
        return report.warn(
            MEMBERS,
            "the fleet has none",
            "kubectl fleet join NAME --member-cluster-context CONTEXT",
        );
    }
    let well = members.len() - bad.len();
    if well > 0 {
        report.ok(
            MEMBERS,
            format!("{well} of {} have joined and are heard of", members.len()),
        );
    }
    all_bad(MEMBERS, bad, report);
}

/// All members must connect to the same place and trust the same CA, unless the hub is about to change it.
fn channel(internals: &[InternalMemberCluster], report: &mut Report) {
    let mut by_value: BTreeMap<(&str, &str), Vec<String>> = BTreeMap::new();
    for internal in internals {
        let annotation = |key| internal.annotations().get(key).map(String::as_str).unwrap_or_default();
        let value = (annotation(CHANNEL_ENDPOINT), annotation(CHANNEL_CA));
        by_value.entry(value).or_default().push(internal.name_any());
    }
    match by_value.len() {
        0 => {}
        1 => {
            let ((endpoint, _), _) = by_value.first_key_value().expect("there is one");
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
        several => {
            let odd = by_value.values().min_by_key(|names| names.len());
            let names = odd.map(|names| names.join(", ")).unwrap_or_default();
            let text = format!("members are told {several} different endpoints or CAs; in the minority: {names}");
            report.warn(
                CHANNEL,
                text,
                format!("kubectl get internalmemberclusters -A -o jsonpath='{{.items[*].metadata.annotations}}' # {CHANNEL_CA}"),
            );
        }
    }
}

async fn placements(client: &Client, report: &mut Report) {
    let wide = list::<ClusterResourcePlacement>(client).await;
    let narrow = list::<ResourcePlacement>(client).await;
    let mut bad = Vec::new();
    let mut all = 0;
    match wide {
        Ok(found) => {
            all += found.len();
            let each = found
                .iter()
                .filter_map(|it| in_trouble(&it.metadata, it.status.as_ref(), "crp"));
            bad.extend(each);
        }
        Err(problem) => report.unread(PLACEMENTS, &problem),
    }
    match narrow {
        Ok(found) => {
            all += found.len();
            let each = found
                .iter()
                .filter_map(|it| in_trouble(&it.metadata, it.status.as_ref(), "rp"));
            bad.extend(each);
        }
        Err(problem) if problem.is_unserved() => {}
        Err(problem) => report.unread(PLACEMENTS, &problem),
    }
    let well = all - bad.len();
    if well > 0 || all == 0 {
        report.ok(PLACEMENTS, format!("{well} of {all} are as they should be"));
    }
    all_bad(PLACEMENTS, bad, report);
}

fn in_trouble(meta: &ObjectMeta, status: Option<&PlacementStatus>, word: &str) -> Option<Bad> {
    let generation = meta.generation.unwrap_or_default();
    let list = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let fresh = list
        .iter()
        .filter(|condition| conditions::fresh(list, &condition.type_, generation).is_some());
    let failing = fresh
        .into_iter()
        .find(|condition| Status::of(condition) == Status::False)?;
    let name = meta.name.clone().unwrap_or_default();
    let namespace = meta
        .namespace
        .as_ref()
        .map(|namespace| format!(" -n {namespace}"))
        .unwrap_or_default();
    let text = format!("{word}/{name}{namespace}: {} {}", failing.type_, failing.reason);
    Some((text, format!("kubectl fleet why {word}/{name}{namespace}")))
}

async fn budgets(client: &Client, report: &mut Report) {
    let budgets = match list::<ClusterResourcePlacementDisruptionBudget>(client).await {
        Ok(budgets) => budgets,
        Err(problem) => return report.unread(BUDGETS, &problem),
    };
    let placements = list::<ClusterResourcePlacement>(client).await.unwrap_or_default();
    let mut bad = Vec::new();
    for budget in &budgets {
        let name = budget.name_any();
        let placement = placements.iter().find(|it| it.name_any() == name);
        let policy = placement.and_then(|it| it.spec.policy.as_ref());
        let wanted = policy.and_then(|policy| match policy.placement_type {
            PlacementType::PickN => policy.number_of_clusters,
            PlacementType::PickFixed => i32::try_from(policy.cluster_names.len()).ok(),
            PlacementType::PickAll => None,
        });
        if let Some(why) = explain::budget_never_allows(&budget.spec, wanted) {
            let hint = format!("kubectl edit clusterresourceplacementdisruptionbudget {name}");
            bad.push((format!("{name} allows no eviction at all: {why}"), hint));
        }
    }
    if bad.is_empty() {
        report.ok(
            BUDGETS,
            format!("{} of {} let evictions through", budgets.len(), budgets.len()),
        );
    }
    for (text, hint) in bad {
        report.warn(BUDGETS, text, hint);
    }
}

/// Works that no binding asks for, and namespaces of members that the fleet does not have.
async fn orphans(client: &Client, members: &[MemberCluster], report: &mut Report) {
    let (works, wide, narrow) = tokio::join!(
        metadata::<Work>(client),
        metadata::<ClusterResourceBinding>(client),
        metadata::<ResourceBinding>(client),
    );
    let narrow = match narrow {
        Err(problem) if problem.is_unserved() => Ok(Vec::new()),
        answer => answer,
    };
    let (works, wide, narrow) = match (works, wide, narrow) {
        (Ok(works), Ok(wide), Ok(narrow)) => (works, wide, narrow),
        (Err(problem), ..) | (_, Err(problem), _) | (.., Err(problem)) => return report.unread(ORPHANS, &problem),
    };
    let bindings: BTreeSet<_> = wide
        .iter()
        .chain(&narrow)
        .filter_map(|meta| meta.name.as_deref())
        .collect();
    let members: BTreeSet<_> = members.iter().map(ResourceExt::name_any).collect();
    let mut bad = Vec::new();
    for work in works.iter().filter(|work| work.deletion_timestamp.is_none()) {
        let (namespace, name) = (
            work.namespace.clone().unwrap_or_default(),
            work.name.clone().unwrap_or_default(),
        );
        let Some(cluster) = namespace.strip_prefix(MEMBER_NAMESPACE_PREFIX) else {
            continue;
        };
        let hint = format!("kubectl get work {name} -n {namespace} -o yaml");
        let binding = work.labels.as_ref().and_then(|all| all.get(PARENT_BINDING));
        match binding {
            _ if !members.contains(cluster) => {
                bad.push((
                    format!("Work {namespace}/{name} is for a member that the fleet does not have"),
                    hint,
                ));
            }
            Some(binding) if !bindings.contains(binding.as_str()) => {
                bad.push((format!("Work {namespace}/{name} belongs to no binding"), hint));
            }
            // Somebody has made it by hand.
            _ => {}
        }
    }
    if bad.is_empty() {
        report.ok(ORPHANS, "every Work has its binding and its member");
    }
    for (text, hint) in bad.into_iter().take(LINES_MAX) {
        report.warn(ORPHANS, text, hint);
    }
}

fn all_bad(check: &'static str, bad: Vec<Bad>, report: &mut Report) {
    let more = bad.len().saturating_sub(LINES_MAX);
    for (text, hint) in bad.into_iter().take(LINES_MAX) {
        report.fail(check, text, hint);
    }
    if more > 0 {
        report.fail(check, format!("and {more} more"), "kubectl fleet check -o json");
    }
}

async fn list<K: Kind>(client: &Client) -> Result<Vec<K>, Problem> {
    let api: Api<Guarded<K>> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api
            .list(&params)
            .await
            .map_err(|error| Problem::new::<K>("list", error))?;
        found.extend(page.items.into_iter().filter_map(|Guarded(object)| object.ok()));
        let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
            return Ok(found);
        };
        params = params.continue_token(&next);
    }
}

async fn metadata<K: Kind>(client: &Client) -> Result<Vec<ObjectMeta>, Problem> {
    let api: Api<Guarded<K>> = Api::all(client.clone());
    let mut params = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let page = api
            .list_metadata(&params)
            .await
            .map_err(|error| Problem::new::<K>("list", error))?;
        found.extend(page.items.into_iter().map(|it: PartialObjectMeta<_>| it.metadata));
        let Some(next) = page.metadata.continue_.filter(|token| !token.is_empty()) else {
            return Ok(found);
        };
        params = params.continue_token(&next);
    }
}
