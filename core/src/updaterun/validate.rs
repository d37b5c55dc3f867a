//! Whether a run may go on, and with which stage.
//!
//! The plan is not made again: clusters that join, leave or are relabelled do not end a run. What does is its user's edit of
//! the placement, if it lasts, and a status that contradicts itself.

use fleet_api::conditions::update_run::Abort;
use fleet_api::conditions::update_stage::{Progressing, Succeeded};
use fleet_api::conditions::{self, Status};
use fleet_api::placement::{ApplyStrategy, ClusterUpdatingStatus, Stage, StageStatus, UpdateRunStatus};
use jiff::SignedDuration;

use super::number;
use super::pass::snapshot_name;
use super::placement::{self, ALL};
use super::state::{ClusterEntry as _, is_true, status_of};
use super::world::{Memory, Run, World};

/// How long an edit of the placement must last before it ends a run. A user may take it back, and objects that are
/// written one after the other look inconsistent in between.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(15);

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Position {
    /// In this stage of the strategy, begun or not.
    Stage(usize),
    /// In the deletion stage, begun or not.
    Deletion,
    /// All stages are done.
    Done,
}

/// Whether the placement is still the one that the plan was made for. What this says counts only if it lasts.
pub(super) fn placement(run: &Run<'_>, world: &World<'_>, memory: &Memory) -> Result<(), Abort> {
    let strategy = same_placement(world, memory)?;
    let recorded = run.status.apply_strategy.as_ref();
    if recorded != Some(&strategy) {
        return Err(Abort::ApplyStrategyChanged {
            is: dump(Some(&strategy)),
            was: dump(recorded),
        });
    }
    let policy = placement::latest_policy(run, world.policies)?;
    let was = &run.status.policy_snapshot_index_used;
    // As upstream, the count is read before the index is compared.
    let is = placement::cluster_count(run, policy)?;
    if policy.index != was {
        return Err(Abort::PolicyIndexChanged {
            is: policy.index.to_owned(),
            was: was.clone(),
        });
    }
    let was = run.status.policy_observed_cluster_count.unwrap_or_default();
    if is != ALL && is != was {
        return Err(Abort::ClusterCountChanged { is, was });
    }
    Ok(())
}

/// The apply strategy of the placement, which is the one that the run was seen with. That is all that a run needs which
/// takes back what it did.
pub(super) fn same_placement(world: &World<'_>, memory: &Memory) -> Result<ApplyStrategy, Abort> {
    // After a restart the snapshot's owner tells whether the placement was deleted and made anew in the meantime.
    let owner = world.snapshot.and_then(|snapshot| snapshot.placement_uid);
    let known = memory.placement_uid.as_deref().or(owner);
    let same = world
        .placement
        .filter(|placement| known.is_none_or(|known| known == placement.uid));
    placement::apply_strategy(same)
}

fn dump(strategy: Option<&ApplyStrategy>) -> String {
    serde_json::to_string(&strategy).unwrap_or_default()
}

/// Where the run stands, unless what it has recorded is lost or contradicts itself.
/// With `failures` counted a cluster that has failed is done.
pub(super) fn progress(run: &Run<'_>, world: &World<'_>, failures: bool) -> Result<Position, Abort> {
    let status = run.status;
    if world.snapshot.is_none() {
        let name = snapshot_name(run);
        return Err(Abort::SnapshotGone { name });
    }
    let stages = recorded_stages(status)?;
    let (mut last, mut updating) = (None, None);
    for (index, (stage, spec)) in status.stages_status.iter().zip(stages).enumerate() {
        match status_of(&stage.conditions, Succeeded::TYPE) {
            Some(Status::True) => {
                finished(index, stage, last, updating, failures)?;
                last = Some(index);
            }
            Some(Status::False) => {
                return Err(Abort::StageFailed {
                    stage: stage.stage_name.clone(),
                    error: message(stage),
                });
            }
            Some(Status::Unknown) | None => {
                if conditions::find(&stage.conditions, Progressing::TYPE).is_some() {
                    in_progress(index, stage, spec, (last, updating), failures)?;
                    updating = Some(index);
                }
            }
        }
    }
    let deletion = status.deletion_stage_status.as_ref();
    let deletion = deletion.ok_or(Abort::StatusLost {
        field: "deletionStageStatus",
    })?;
    let next = updating.unwrap_or_else(|| last.map_or(0, |last| last + 1));
    let ended = status_of(&deletion.conditions, Succeeded::TYPE).filter(|status| *status != Status::Unknown);
    if next < status.stages_status.len() {
        if ended.is_some() || is_true(&deletion.conditions, Progressing::TYPE) {
            return Err(Abort::DeletingTooEarly {
                updating: signed(updating),
                last: signed(last),
            });
        }
        return Ok(Position::Stage(next));
    }
    match ended {
        Some(Status::True) => Ok(Position::Done),
        Some(_) => Err(Abort::DeleteStageFailed {
            error: message(deletion),
        }),
        None => Ok(Position::Deletion),
    }
}

/// The strategy's stages as recorded, one for each entry of the status.
fn recorded_stages(status: &UpdateRunStatus) -> Result<&[Stage], Abort> {
    let strategy = status.staged_update_strategy_snapshot.as_ref();
    let strategy = strategy.ok_or(Abort::StatusLost {
        field: "updateStrategySnapshot",
    })?;
    let (is, was) = (strategy.stages.len(), status.stages_status.len());
    if was == 0 && is > 0 {
        return Err(Abort::StatusLost { field: "stagesStatus" });
    }
    if is != was {
        return Err(Abort::StageCountChanged { is, was });
    }
    for (index, (stage, recorded)) in strategy.stages.iter().zip(&status.stages_status).enumerate() {
        if stage.name != recorded.stage_name {
            return Err(Abort::StageNameChanged {
                index,
                is: stage.name.clone(),
                was: recorded.stage_name.clone(),
            });
        }
    }
    Ok(&strategy.stages)
}

fn is_done(cluster: &ClusterUpdatingStatus, failures: bool) -> bool {
    cluster.outcome() == Some(true) || failures && cluster.outcome() == Some(false)
}

fn finished(
    index: usize,
    stage: &StageStatus,
    last: Option<usize>,
    updating: Option<usize>,
    failures: bool,
) -> Result<(), Abort> {
    if let Some(updating) = updating {
        return Err(Abort::FinishedAfterUpdating { index, updating });
    }
    if let Some(cluster) = stage.clusters.iter().find(|cluster| !is_done(cluster, failures)) {
        return Err(Abort::UnfinishedInFinished {
            cluster: cluster.cluster_name.clone(),
            stage: stage.stage_name.clone(),
        });
    }
    if !follows(index, last) {
        return Err(Abort::FinishedOutOfOrder {
            stage: stage.stage_name.clone(),
            last: signed(last),
        });
    }
    Ok(())
}

fn in_progress(
    index: usize,
    stage: &StageStatus,
    spec: &Stage,
    (last, updating): (Option<usize>, Option<usize>),
    failures: bool,
) -> Result<(), Abort> {
    let name = || stage.stage_name.clone();
    if let Some(updating) = updating {
        return Err(Abort::SeveralUpdating {
            stage: name(),
            updating,
        });
    }
    if !follows(index, last) {
        return Err(Abort::UpdatingOutOfOrder {
            stage: name(),
            last: signed(last),
        });
    }
    let max = max_concurrency(spec, stage)?;
    let under_way = stage
        .clusters
        .iter()
        .filter(|c| c.is_started() && !is_done(c, failures));
    let count = under_way.count();
    if count > max {
        return Err(Abort::TooManyUpdating {
            count,
            stage: name(),
            max,
        });
    }
    Ok(())
}

/// How many clusters of the stage may be updated at once. A share is of those recorded, whatever became of them.
pub(super) fn max_concurrency(spec: &Stage, stage: &StageStatus) -> Result<usize, Abort> {
    number::concurrency(&spec.max_concurrency, stage.clusters.len()).ok_or_else(|| Abort::InvalidConcurrency {
        value: number::shown(&spec.max_concurrency),
        stage: stage.stage_name.clone(),
    })
}

fn follows(index: usize, last: Option<usize>) -> bool {
    index == last.map_or(0, |last| last + 1)
}

/// As upstream prints indexes: -1 for none.
fn signed(index: Option<usize>) -> i64 {
    index.and_then(|index| i64::try_from(index).ok()).unwrap_or(-1)
}

fn message(stage: &StageStatus) -> String {
    let condition = conditions::find(&stage.conditions, Succeeded::TYPE);
    condition.map(|condition| condition.message.clone()).unwrap_or_default()
}
