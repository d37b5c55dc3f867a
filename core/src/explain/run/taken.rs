//! Who gave a cluster other content while a run was updating it. The run's conditions do not say.

use fleet_api::annotations;
use fleet_api::conditions::binding::RolloutStarted;
use fleet_api::conditions::update_stage::{ClusterStarted, ClusterSucceeded};
use fleet_api::conditions::{self, Status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::super::aborts;
use super::super::chain::Cause;
use super::super::fleet::{Fleet, Run};
use super::super::names::Names;
use crate::updaterun::{self, may_have_given};

/// The words by which a run says that it has ended so.
const WORDS: &str = "is not up-to-date with the desired status";

/// The cause of the end of a run that `failed` speaks of, if a cluster was taken over and it is known by whom: the hub
/// agent's Event says it for an hour, the cluster's binding until it is started again.
pub(super) fn cause(fleet: &Fleet<'_>, run: &Run<'_>, failed: &Condition, names: &Names<'_>) -> Option<Cause> {
    if !failed.message.contains(WORDS) {
        return None;
    }
    let event = fleet.event(super::kind(names), run.name(), "UpdateRunPreempted");
    let told = event.and_then(|event| event.message.clone());
    let other = match &told {
        Some(told) => told
            .split_once(" by update run ")
            .map(|(_, rest)| rest.split(' ').next().unwrap_or_default()),
        None => on_binding(fleet, run, failed),
    };
    let other = other.map(|other| Names {
        run: other,
        ..names.clone()
    });
    let text = match (&told, &other) {
        (Some(told), _) => told.clone(),
        (None, Some(other)) => other.fill("{run} took a cluster over while this run was updating it"),
        (None, None) => return None,
    };
    let next = match &other {
        Some(other) => other.fill("kubectl fleet why {run}{n}"),
        None => names.fill("kubectl fleet why {placement}{n}"),
    };
    Some(aborts::never_again(&text, next))
}

/// The run that the binding of a failed cluster names, if it was there first and may have given it what it names. One that
/// came later has only repaired it; what somebody edits by hand keeps the name of the run before.
fn on_binding<'a>(fleet: &Fleet<'a>, run: &Run<'a>, failed: &Condition) -> Option<&'a str> {
    let stages = run.status?.stages_status.iter();
    let clusters = stages.flat_map(|stage| &stage.clusters).filter(|cluster| {
        conditions::find(&cluster.conditions, ClusterSucceeded::TYPE)
            .is_some_and(|ended| Status::of(ended) == Status::False)
    });
    let mut others = clusters.filter_map(|cluster| {
        let binding = fleet.binding(&run.spec.placement_name, &cluster.cluster_name)?;
        let started = binding.fresh(RolloutStarted::TYPE)?;
        let first = started.last_transition_time.0 <= failed.last_transition_time.0;
        let began = conditions::find(&cluster.conditions, ClusterStarted::TYPE)?;
        let (given, since) = (&binding.spec.resource_snapshot_name, began.last_transition_time.0);
        let known = fleet
            .run(binding.run())
            .map(|it| updaterun::Run::of(it.meta, it.spec, it.status));
        let known = known.filter(|known| known.annotation() == binding.annotation(annotations::UPDATE_RUN));
        let may = known.is_none_or(|known| may_have_given(&known, given, since));
        Some(binding.run()).filter(|other| first && may && !other.is_empty() && *other != run.name())
    });
    others.next()
}
