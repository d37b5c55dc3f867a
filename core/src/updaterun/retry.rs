//! Another try of what an earlier run did not bring to its end.

use fleet_api::annotations::ROLLOUT;
use fleet_api::conditions::update_run::{Abort, Succeeded};
use fleet_api::conditions::{self, Status};
use fleet_api::names;
use fleet_api::placement::{ClusterUpdatingStatus, StageStatus, UpdateRunOptions, UpdateRunStatus};

use super::options::Options;
use super::rollback;
use super::stages;
use super::state::ClusterEntry as _;
use super::world::{Phase, Run};

/// What a run whose strategy is gone takes over of the settings of the run that it tries again, `before`: else nobody would
/// know of its budget any more. What was for that one run alone is not for this one. Gates are named after their run, so
/// that they cannot be taken over; they are not passed by either.
pub(super) fn inherited(run: &Run<'_>, before: Option<Run<'_>>) -> Result<Option<UpdateRunOptions>, Abort> {
    let Some((before, recorded)) = before.and_then(|before| Some((before, before.status.options.as_ref()?))) else {
        return Ok(None);
    };
    let own_gates = format!("{ROLLOUT}gates");
    if !recorded.gates.is_empty() && !run.annotations.is_some_and(|own| own.contains_key(&own_gates)) {
        return Err(Abort::Retry {
            why: format!(
                "the update run {} had gates, and its update strategy is gone: write them on this run",
                before.name
            ),
        });
    }
    Ok(Some(UpdateRunOptions {
        unassigned_clusters: String::new(),
        unassigned: Vec::new(),
        ignore_windows: false,
        not_before: String::new(),
        gates: Vec::new(),
        retry_of: String::new(),
        plan: String::new(),
        ..recorded.clone()
    }))
}

/// The index of the snapshots, which are those of the run that is tried again, and never others. `found` are index and
/// hash of those that are there.
pub(super) fn snapshot(run: &Run<'_>, found: Option<(&str, Option<&str>)>, index: String) -> Result<String, Abort> {
    let key = run.key(&run.spec.placement_name);
    match found {
        Some((there, Some(_))) if there == index => Ok(index),
        Some((there, None)) if there == index => Err(Abort::NoMasterSnapshot { key }),
        _ => Err(Abort::NoSnapshots {
            index: index.parse().unwrap_or_default(),
            key,
        }),
    }
}

/// The plan of the run `name`, reduced to clusters that did not succeed, and the index of its snapshots. Nothing is left in
/// the end: that was for the other run to do, or is for the next.
pub(super) fn record(
    run: &Run<'_>,
    (name, other): (&str, Option<Run<'_>>),
    status: &mut UpdateRunStatus,
) -> Result<String, Abort> {
    let refuse = |why: String| Abort::Retry { why };
    let other = other.ok_or_else(|| refuse(format!("there is no update run {name} to try again")))?;
    if other.spec.placement_name != run.spec.placement_name {
        return Err(refuse(format!(
            "the update run {name} is about placement {}, not {}",
            other.spec.placement_name, run.spec.placement_name
        )));
    }
    if other.phase() != Phase::Finished {
        return Err(refuse(format!("the update run {name} has not ended yet")));
    }
    let was = other.status;
    let (Some(strategy), index) = (&was.staged_update_strategy_snapshot, &was.resource_snapshot_index_used) else {
        return Err(refuse(format!("the update run {name} never had a plan")));
    };
    if index.is_empty() {
        return Err(refuse(format!("the update run {name} never had a plan")));
    }
    let asked = &run.spec.resource_snapshot_index;
    if !asked.is_empty() && asked != index {
        return Err(refuse(format!(
            "the update run {name} rolled out the resource snapshot {index}, not {asked}"
        )));
    }
    if was.apply_strategy != status.apply_strategy {
        return Err(refuse(format!(
            "the placement has another apply strategy than the update run {name} had"
        )));
    }
    status.staged_update_strategy_snapshot = Some(strategy.clone());
    let taken_back = was_rolled_back(was);
    status.stages_status = was
        .stages_status
        .iter()
        .zip(&strategy.stages)
        .map(|(stage, spec)| StageStatus {
            stage_name: stage.stage_name.clone(),
            clusters: stage
                .clusters
                .iter()
                .filter(|cluster| taken_back && cluster.previous.is_some() || !cluster.is_updated())
                .map(anew)
                .collect(),
            before_stage_task_status: stages::tasks(&spec.before_stage_tasks, || {
                names::before_stage_approval(run.name, &spec.name)
            }),
            after_stage_task_status: stages::tasks(&spec.after_stage_tasks, || {
                names::after_stage_approval(run.name, &spec.name)
            }),
            ..StageStatus::default()
        })
        .collect();
    status.deletion_stage_status = Some(stages::deletion([]));
    Ok(index.clone())
}

fn anew(cluster: &ClusterUpdatingStatus) -> ClusterUpdatingStatus {
    ClusterUpdatingStatus {
        cluster_name: cluster.cluster_name.clone(),
        resource_override_snapshots: cluster.resource_override_snapshots.clone(),
        cluster_resource_override_snapshots: cluster.cluster_resource_override_snapshots.clone(),
        ..ClusterUpdatingStatus::default()
    }
}

/// Whether a run that has ended took back what it had done, or some of it: then clusters that had succeeded have not, in the
/// end. A run that could not go on says why in the words of its stage, and has left them what they have.
fn was_rolled_back(status: &UpdateRunStatus) -> bool {
    let end = conditions::find(&status.conditions, Succeeded::TYPE).filter(|end| Status::of(end) == Status::False);
    let options = Options::of(status.options.as_ref()).unwrap_or_default();
    let why = rollback::trigger(status, &options);
    end.zip(why).is_some_and(|(end, why)| end.message != why)
}
