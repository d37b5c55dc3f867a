//! Why a placement is not, or not wholly, on one cluster: from the pick to availability.

use fleet_api::annotations;
use fleet_api::conditions::Status;
use fleet_api::conditions::placement::Step as Stage;
use fleet_api::placement::{ApplyStrategyType, BindingState, BindingStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::chain::{Cause, Chain, Step, Verdict};
use super::fleet::{Binding, Fleet, Placement};
use super::names::Names;
use super::names::spoken;
use super::{drift, manifest, member, orphans, reasons, refusals, rollout, scheduling};
use crate::window::Windows;

/// Explains a placement on one cluster.
pub fn placement_on(fleet: &Fleet<'_>, name: &str, cluster: &str) -> Chain {
    let names = Names {
        placement: name,
        cluster,
        ..fleet.names()
    };
    let mut chain = Chain::new(names.fill("{placement} on {cluster}"));
    let Some(placement) = fleet.placement(name) else {
        let mut text = names.fill("there is no {placement}");
        let left = orphans::on(fleet, cluster);
        if let Some(first) = left.first() {
            text = format!(
                "{text}, but {} on {cluster}, first {first}",
                orphans::sentence(left.len())
            );
        }
        chain.push(Step::failed(
            "Found",
            Cause::new(text, names.fill("kubectl get crp; kubectl get rp -A")),
        ));
        return chain;
    };
    chain.push(Step::done("Found", ""));
    let binding = fleet.binding(name, cluster);
    chain.push(picked(fleet, &placement, binding.as_ref(), &names));
    let Some(binding) = binding else {
        return chain;
    };
    for stage in Stage::expected(reports_diff(&placement)) {
        let step = if binding.deleting() || binding.spec.state == BindingState::Unscheduled {
            leaving(fleet, &binding, &names)
        } else {
            one(fleet, &placement, &binding, *stage, &names)
        };
        chain.push(step);
    }
    if let Some(status) = binding.status {
        drifts(fleet, status, &names, &mut chain);
    }
    chain
}

/// Whether a placement compares instead of applying.
pub(super) fn reports_diff(placement: &Placement<'_>) -> bool {
    let strategy = placement
        .spec
        .strategy
        .as_ref()
        .and_then(|strategy| strategy.apply_strategy.as_ref());
    strategy.is_some_and(|strategy| strategy.type_ == ApplyStrategyType::ReportDiff)
}

fn picked(fleet: &Fleet<'_>, placement: &Placement<'_>, binding: Option<&Binding<'_>>, names: &Names<'_>) -> Step {
    let name = Stage::Scheduled.on_cluster();
    if let Some(binding) = binding {
        return Step::done(name, binding.spec.cluster_decision.reason.clone())
            .since(binding.meta.creation_timestamp.as_ref());
    }
    match scheduling::unpicked(fleet, placement, names.cluster) {
        Some(cause) => Step::failed(name, cause),
        None => Step::waiting(
            name,
            Cause::new(
                names.fill("the scheduler has not decided about {cluster} yet"),
                "kubectl -n fleet-system logs deploy/hub-agent",
            ),
        ),
    }
}

/// The placement no longer picks the cluster; what is there is being removed, or waits to be.
fn leaving(fleet: &Fleet<'_>, binding: &Binding<'_>, names: &Names<'_>) -> Step {
    let name = "Removed";
    if let Some(trouble) = member::trouble(fleet, names.cluster).and_then(|step| step.cause) {
        let text = format!(
            "the placement is being removed from {}, but: {}",
            names.cluster, trouble.text
        );
        return Step::waiting(name, Cause::new(text, trouble.next));
    }
    let (text, next) = if binding.deleting() {
        (
            "the placement is being removed from {cluster}",
            "kubectl get works -n fleet-member-{cluster} -l kubernetes-fleet.io/parent-CRP={name}",
        )
    } else if is_closed(fleet, names.cluster) {
        (
            "{cluster} is no longer picked; what is there is removed when its window opens",
            "kubectl get membercluster {cluster} -o yaml",
        )
    } else {
        (
            "{cluster} is no longer picked; what is there is removed when the rollout lets it go",
            "kubectl fleet why {placement}{n}",
        )
    };
    Step::waiting(name, Cause::new(names.fill(text), names.fill(next)))
}

/// Whether a cluster may not be changed now. One that leaves the fleet is let go at any time.
fn is_closed(fleet: &Fleet<'_>, cluster: &str) -> bool {
    let stays = fleet.member(cluster).map(|member| &member.metadata);
    let stays = stays.filter(|metadata| metadata.deletion_timestamp.is_none());
    let window = stays.and_then(|metadata| metadata.annotations.as_ref()?.get(annotations::WINDOW));
    window.is_some_and(|text| !Windows::parse(text).is_ok_and(|windows| windows.is_open(fleet.now)))
}

/// One step of the binding.
fn one(fleet: &Fleet<'_>, placement: &Placement<'_>, binding: &Binding<'_>, stage: Stage, names: &Names<'_>) -> Step {
    let name = stage.on_cluster();
    let condition = binding.fresh(name);
    let met = condition.filter(|condition| Status::of(condition) == Status::True);
    if stage == Stage::RolloutStarted {
        return rollout::step(fleet, placement, binding, met.or(condition), names);
    }
    if let Some(condition) = met {
        return reasons::step(name, condition, names);
    }
    let message = condition
        .map(|condition| refusals::bare(&condition.message))
        .unwrap_or_default();
    let known = match stage {
        Stage::Overridden => refusals::of_overrides(message, names),
        Stage::WorkSynchronized => refusals::on_hub(message, names),
        Stage::Applied | Stage::Available | Stage::DiffReported => {
            return on_member(fleet, binding, stage, condition, names);
        }
        Stage::Scheduled | Stage::RolloutStarted => None,
    };
    match (known, condition) {
        (Some(cause), condition) => {
            Step::failed(name, cause).since(condition.map(|condition| &condition.last_transition_time))
        }
        (None, Some(condition)) => {
            let bare = Condition {
                message: message.to_owned(),
                ..condition.clone()
            };
            reasons::step(name, &bare, names)
        }
        (None, None) => Step::waiting(
            name,
            Cause::new(
                "the hub agent has not come to it yet",
                "kubectl -n fleet-system logs deploy/hub-agent",
            ),
        ),
    }
}

/// What the member has to do. A member that does not answer outranks what it has said before.
fn on_member(
    fleet: &Fleet<'_>,
    binding: &Binding<'_>,
    stage: Stage,
    condition: Option<&Condition>,
    names: &Names<'_>,
) -> Step {
    let name = stage.on_cluster();
    let since = condition.map(|condition| &condition.last_transition_time);
    if let Some(trouble) = member::trouble(fleet, names.cluster)
        && let Some(cause) = trouble.cause
    {
        let text = format!("{}: {}", names.cluster, cause.text);
        return Step::unmet(name, trouble.verdict, Cause::new(text, cause.next)).since(since);
    }
    let status = binding.status;
    let failed = status.and_then(|status| manifest::first_failed(fleet, status, name, names));
    if let Some(cause) = failed {
        return Step::unmet(name, usual(condition), cause).since(since);
    }
    match condition {
        Some(condition) => reasons::step(name, condition, names),
        None => Step::waiting(
            name,
            Cause::new(
                names.fill("{cluster} has not reported yet"),
                names.fill("kubectl fleet why membercluster/{cluster}"),
            ),
        ),
    }
}

fn usual(condition: Option<&Condition>) -> Verdict {
    let known = condition.and_then(|condition| reasons::meaning(&condition.reason));
    known.map_or(Verdict::Waiting, |meaning| meaning.verdict)
}

/// Drifts that stop nothing: they are overwritten, or only reported.
fn drifts(fleet: &Fleet<'_>, status: &BindingStatus, names: &Names<'_>, chain: &mut Chain) {
    if chain.first_unmet().is_some() {
        return;
    }
    for drifted in status.drifted_placements.iter().take(3) {
        let id = drifted.resource();
        let words = drift::words(fleet, names.cluster, &id, &drifted.observed_drifts);
        let since = fleet.ago(drifted.first_drifted_observed_time.0);
        chain.note(
            format!("{} has drifted, for {since}: {words}", spoken(&id)),
            names.fill("kubectl fleet diff {placement} {cluster}{n}"),
        );
    }
}
