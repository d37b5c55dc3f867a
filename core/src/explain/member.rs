//! Why a member is not usable: from its MemberCluster to heartbeats and health.

mod connection;
mod leaving;

use std::collections::BTreeSet;

use fleet_api::cluster::{AgentType, InternalMemberCluster, MemberCluster};
use fleet_api::conditions::decision::Ineligible;
use fleet_api::conditions::member_cluster::{Joined, ReadyToJoin};
use fleet_api::conditions::properties;
use fleet_api::conditions::{self, Status, member_agent};
use fleet_api::names::MEMBER_NAMESPACE_PREFIX;
use fleet_api::{annotations, labels};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

pub use connection::unready;

use super::chain::{Cause, Chain, Step};
use super::fleet::{Fleet, get};
use super::names::Names;
use super::{orphans, reasons};
use crate::membership::eligibility::eligibility;
use crate::session::recovery::Recovery;

/// The explanation of a member, without steps.
pub(super) fn begun(name: &str) -> Chain {
    Chain::new(format!("membercluster/{name}"))
}

/// Explains a member.
pub fn member(fleet: &Fleet<'_>, name: &str) -> Chain {
    let mut chain = begun(name);
    let names = Names {
        cluster: name,
        ..fleet.names()
    };
    let Some(member) = fleet.member(name) else {
        if fleet.members_unread {
            let cause = Cause::new("members cannot be read", "kubectl auth can-i list memberclusters");
            chain.push(Step::waiting("Known", cause));
            return chain;
        }
        let text = format!("the fleet has no member {name}");
        chain.push(Step::failed(
            "Known",
            Cause::new(text, names.fill("kubectl fleet join {cluster}")),
        ));
        return chain;
    };
    explained(fleet, member, fleet.internal(name), chain)
}

/// Explains a member that is known, without looking it up: of ten thousand each is looked at once.
pub(super) fn explained(
    fleet: &Fleet<'_>,
    member: &MemberCluster,
    internal: Option<&InternalMemberCluster>,
    mut chain: Chain,
) -> Chain {
    let name = member.metadata.name.as_deref().unwrap_or_default();
    let names = Names {
        cluster: name,
        ..fleet.names()
    };
    chain.push(Step::done("Known", "").since(member.metadata.creation_timestamp.as_ref()));
    if member.metadata.deletion_timestamp.is_some() {
        chain.push(leaving::step(fleet, member, &names));
        return chain;
    }
    chain.push(ready_to_join(fleet, member, &names));
    let held = what_it_holds_back(fleet, name);
    for step in [
        connection::step(fleet, member, &names),
        joined(member, &names),
        healthy(fleet, member, &names),
        recovered(fleet, internal, &names),
    ] {
        chain.push(holding(step, &held));
    }
    notes(fleet, member, internal, &names, &mut chain);
    chain
}

/// The cause why a member takes nothing now; none if it does. For those who wait for it.
pub(super) fn trouble(fleet: &Fleet<'_>, name: &str) -> Option<Step> {
    fleet.member(name)?;
    let chain = member(fleet, name);
    chain.first_unmet().cloned()
}

fn holding(mut step: Step, what: &str) -> Step {
    if let Some(cause) = step.cause.as_mut() {
        what.clone_into(&mut cause.holds_back);
    }
    step
}

/// Placements of all families that are on it: by their bindings, and by its Works where bindings were not read.
fn what_it_holds_back(fleet: &Fleet<'_>, name: &str) -> String {
    let bindings = fleet.bindings.iter().chain(&fleet.others);
    let bindings = bindings.filter(|binding| binding.spec.target_cluster == name);
    let bound = bindings.map(|binding| {
        let namespace = binding.meta.namespace.as_deref().unwrap_or_default();
        (namespace, binding.label(labels::PARENT_PLACEMENT))
    });
    let namespace = format!("{MEMBER_NAMESPACE_PREFIX}{name}");
    let works = fleet.works.iter();
    let works = works.filter(|work| work.metadata.namespace.as_deref() == Some(&namespace));
    let placed = works.map(|work| {
        let label = |key| get(work.metadata.labels.as_ref(), key);
        (
            label(labels::PARENT_PLACEMENT_NAMESPACE),
            label(labels::PARENT_PLACEMENT),
        )
    });
    let placements: BTreeSet<_> = bound.chain(placed).filter(|(_, name)| !name.is_empty()).collect();
    match placements.len() {
        0 => String::new(),
        1 => "1 placement on it".into(),
        count => format!("{count} placements on it"),
    }
}

fn list(member: &MemberCluster) -> &[Condition] {
    member
        .status
        .as_ref()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default()
}

fn ready_to_join(fleet: &Fleet<'_>, member: &MemberCluster, names: &Names<'_>) -> Step {
    let namespace = format!("fleet-member-{}", names.cluster);
    if fleet.terminating.contains(&namespace.as_str()) {
        let text = format!("the namespace {namespace} is being deleted on the hub; it is made again once it is gone");
        return Step::waiting(
            ReadyToJoin::TYPE,
            Cause::new(text, format!("kubectl get namespace {namespace} -o yaml")),
        );
    }
    match conditions::find(list(member), ReadyToJoin::TYPE) {
        Some(condition) => reasons::step(ReadyToJoin::TYPE, condition, names),
        None => Step::waiting(
            ReadyToJoin::TYPE,
            Cause::new(
                "the hub agent has not seen the MemberCluster: is it running?",
                "kubectl -n fleet-system get pods,lease",
            ),
        ),
    }
}

fn agent_condition<'a>(member: &'a MemberCluster, type_name: &str) -> Option<&'a Condition> {
    let agent = member.status.as_ref()?.agent(&AgentType::MemberAgent)?;
    conditions::find(&agent.conditions, type_name)
}

fn joined(member: &MemberCluster, names: &Names<'_>) -> Step {
    // The agent's own word says more than the hub's summary of it.
    let agent = agent_condition(member, member_agent::Joined::TYPE);
    let failed = agent.filter(|condition| Status::of(condition) != Status::True);
    let condition = failed
        .or_else(|| conditions::find(list(member), Joined::TYPE))
        .or(agent);
    match condition {
        Some(condition) => reasons::step(Joined::TYPE, condition, names),
        None => Step::waiting(
            Joined::TYPE,
            Cause::new(
                "the member agent has not said that it has joined",
                names.fill("kubectl fleet check --member-context {cluster}"),
            ),
        ),
    }
}

fn healthy(fleet: &Fleet<'_>, member: &MemberCluster, names: &Names<'_>) -> Step {
    let name = member_agent::Healthy::TYPE;
    let readyz = names.fill("kubectl --context {cluster} get --raw '/readyz?verbose'");
    if let Err(Ineligible::Unhealthy(_)) = eligibility(member, fleet.now) {
        let since = agent_condition(member, name).map(|condition| fleet.ago(condition.last_transition_time.0));
        let text = format!(
            "the member's API server has not been ready for {}: nothing new is placed there",
            since.unwrap_or_default()
        );
        return Step::failed(name, Cause::new(text, readyz));
    }
    match agent_condition(member, name) {
        Some(condition) => reasons::step(name, condition, names),
        None => Step::waiting(name, Cause::new("the member has not said how it is", readyz)),
    }
}

/// Whether nobody has to look first, after the hub went back in time.
fn recovered(fleet: &Fleet<'_>, internal: Option<&InternalMemberCluster>, names: &Names<'_>) -> Step {
    let annotations = internal.and_then(|internal| internal.metadata.annotations.as_ref());
    if !Recovery::of(annotations).is_held(fleet.now) {
        return Step::done("NotHeld", "");
    }
    let meaning = reasons::meaning("HubWentBackInTime");
    let (text, next) = meaning.map_or(("", ""), |meaning| (meaning.text, meaning.next));
    Step::failed("NotHeld", Cause::new(names.fill(text), names.fill(next)))
}

/// The versions of the hub agent and of the member agent that opened the session; empty before the first.
pub(super) fn versions(internal: &InternalMemberCluster) -> (&str, &str) {
    let of = |key| get(internal.metadata.annotations.as_ref(), key);
    (
        of(annotations::HUB_AGENT_VERSION),
        of(annotations::MEMBER_AGENT_VERSION),
    )
}

/// What stops nothing by itself.
fn notes(
    fleet: &Fleet<'_>,
    member: &MemberCluster,
    internal: Option<&InternalMemberCluster>,
    names: &Names<'_>,
    chain: &mut Chain,
) {
    for taint in &member.spec.taints {
        let (text, next) = if taint.is_cordon() {
            (
                "cordoned: nothing new is placed here".to_owned(),
                "kubectl fleet uncordon {cluster}",
            )
        } else {
            let text = format!(
                "tainted {}={}: only placements that tolerate it come here",
                taint.key, taint.value
            );
            (text, "kubectl edit membercluster {cluster}")
        };
        chain.note(text, names.fill(next));
    }
    for type_name in properties::REPORTED_BY_MEMBERS {
        let condition = conditions::find(list(member), type_name);
        let failing = condition.filter(|condition| Status::of(condition) != Status::True);
        if let Some(cause) = failing.map(|condition| reasons::cause(condition, names)) {
            chain.note(cause.text, cause.next);
        }
    }
    if let Some((hub, agent)) = internal.map(versions).filter(|(hub, agent)| hub != agent) {
        let text = format!(
            "the member agent is version {agent}, the hub agent {hub}: what only one of them knows is not done"
        );
        chain.note(text, names.fill("kubectl fleet check --member-context {cluster}"));
    }
    if let Some(event) = fleet.event("MemberCluster", names.cluster, "MemberClusterHeldBack") {
        let text = event.message.clone().unwrap_or_default();
        chain.note(text, names.fill("kubectl describe membercluster {cluster}"));
    }
    let orphans = orphans::on(fleet, names.cluster);
    if let Some(first) = orphans.first() {
        let text = format!("{} on it any more, first {first}", orphans::sentence(orphans.len()));
        chain.note(
            text,
            format!("kubectl get work {first} -n fleet-member-{} -o yaml", names.cluster),
        );
    }
}
