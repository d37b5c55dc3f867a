//! Why a cluster does not get the latest resources yet: the rollout budget, or no update run.

use fleet_api::annotations;
use fleet_api::conditions::Status;
use fleet_api::conditions::placement::Step as Stage;
use fleet_api::names::Scope;
use fleet_api::placement::RolloutStrategyType;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use super::chain::{Cause, Step};
use super::fleet::{Binding, Fleet, Placement, Run, holds};
use super::names::Names;
use super::reasons;
use super::shell::quoted;

/// The step of one cluster.
pub(super) fn step(
    fleet: &Fleet<'_>,
    placement: &Placement<'_>,
    binding: &Binding<'_>,
    condition: Option<&Condition>,
    names: &Names<'_>,
) -> Step {
    let name = Stage::RolloutStarted.on_cluster();
    let met = condition.filter(|condition| Status::of(condition) == Status::True);
    if placement.spec.rollout_type() == RolloutStrategyType::External {
        return match met.filter(|_| !binding.spec.resource_snapshot_name.is_empty()) {
            Some(condition) => {
                let says = match binding.run() {
                    "" => binding.spec.resource_snapshot_name.clone(),
                    run => format!("{}, by {run}", binding.spec.resource_snapshot_name),
                };
                Step::done(name, says).since(Some(&condition.last_transition_time))
            }
            None => Step::waiting(name, without_run(fleet, placement, names)),
        };
    }
    let latest = fleet.latest_snapshot(placement.name());
    if let Some(latest) = latest.filter(|latest| met.is_some() && *latest != binding.spec.resource_snapshot_name) {
        let text = format!(
            "{} still has {}, and the rollout has not come to it with {latest}",
            names.cluster, binding.spec.resource_snapshot_name
        );
        return Step::waiting(name, Cause::new(text, names.fill("kubectl fleet why {placement}{n}")));
    }
    match (met, condition) {
        (Some(condition), _) => {
            Step::done(name, binding.spec.resource_snapshot_name.clone()).since(Some(&condition.last_transition_time))
        }
        (None, Some(condition)) => {
            let (cause, failed) = blocked(condition, names);
            let since = Some(&condition.last_transition_time);
            if failed {
                Step::failed(name, cause)
            } else {
                Step::waiting(name, cause)
            }
            .since(since)
        }
        (None, None) => Step::waiting(
            name,
            Cause::new(
                "the rollout has not decided about the cluster yet",
                "kubectl -n fleet-system logs deploy/hub-agent",
            ),
        ),
    }
}

/// Why the budget holds a cluster back, and whether only an edit helps.
fn blocked(condition: &Condition, names: &Names<'_>) -> (Cause, bool) {
    // The reason stands after the sentence that every blocked binding has.
    let why = condition.message.split_once("; ").map_or("", |(_, why)| why);
    let edit = names.fill("kubectl edit {placement}{n}");
    let all = names.fill("kubectl fleet why {placement}{n}");
    if why.contains("so no available cluster may be updated") {
        return (
            Cause::new(format!("the rollout budget blocks everything: {why}"), edit),
            true,
        );
    }
    if why.starts_with("waiting for the earlier binding") || why.contains("deleting binding") {
        let next = names.fill("kubectl fleet why membercluster/{cluster}");
        return (Cause::new(why, next), false);
    }
    if why.contains("pointing to it") {
        let next = names.fill("kubectl get {crb} -l kubernetes-fleet.io/parent-CRP={name}{n}");
        return (Cause::new(why, next), true);
    }
    if why.starts_with("waiting for the window of ") {
        return (
            Cause::new(why, names.fill("kubectl get membercluster {cluster} -o yaml")),
            false,
        );
    }
    if why.contains(annotations::WINDOW) {
        return (
            Cause::new(why, names.fill("kubectl edit membercluster {cluster}")),
            true,
        );
    }
    if why.starts_with("waiting for ") {
        let first = why.split_once("become available: ").map(|(_, names)| names);
        let first = first.and_then(|names| names.split_once(" (")).map(|(first, _)| first);
        let next = first.map_or(all, |first| {
            let names = Names {
                cluster: first,
                ..names.clone()
            };
            names.fill("kubectl fleet why {placement} {cluster}{n}")
        });
        return (Cause::new(format!("the rollout budget is used up: {why}"), next), false);
    }
    if why.is_empty() {
        return (reasons::cause(condition, names), false);
    }
    (Cause::new(why, edit), false)
}

/// Why an External placement's cluster has nothing: no run, or one that has not come to it.
pub(super) fn without_run(fleet: &Fleet<'_>, placement: &Placement<'_>, names: &Names<'_>) -> Cause {
    let runs = || {
        fleet
            .runs
            .iter()
            .filter(|run| run.spec.placement_name == placement.name())
    };
    let over = |run: &Run<'_>| {
        run.status.is_some_and(|status| {
            let ended = |type_name, as_| {
                fleet_api::conditions::find(&status.conditions, type_name).is_some_and(|c| Status::of(c) == as_)
            };
            ended("Initialized", Status::False)
                || ended("Succeeded", Status::False)
                || holds(&status.conditions, "Succeeded")
        })
    };
    if let Some(run) = runs().find(|run| !over(run)) {
        let names = Names {
            run: run.name(),
            ..names.clone()
        };
        return Cause::new(
            names.fill("update run {run} has not come to it yet"),
            names.fill("kubectl fleet why {run}{n}"),
        );
    }
    let text = match runs().next_back() {
        Some(last) => format!(
            "the strategy is External, and no update run is under way; the last one was {}: create another",
            last.name()
        ),
        None => "the strategy is External: nothing is rolled out until somebody creates an update run".into(),
    };
    Cause::new(text, create_run(names))
}

/// The command that creates a run. Only its user knows which strategy to follow.
pub(super) fn create_run(names: &Names<'_>) -> String {
    let kind = match names.scope() {
        Scope::Cluster => "ClusterStagedUpdateRun",
        Scope::Namespaced => "StagedUpdateRun",
    };
    let (name, flag) = (names.placement, names.fill("{n}"));
    let (prefix, name) = (json!(format!("{name}-")), json!(name));
    let run = format!(
        "{{\"apiVersion\":\"placement.kubernetes-fleet.io/v1beta1\",\"kind\":\"{kind}\",\
         \"metadata\":{{\"generateName\":{prefix}}},\"spec\":{{\"placementName\":{name},\
         \"stagedRolloutStrategyName\":\"<strategy>\",\"state\":\"Run\"}}}}"
    );
    format!("kubectl create{flag} -f - <<< {}", quoted(&run))
}
