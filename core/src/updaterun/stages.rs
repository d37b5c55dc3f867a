//! Which cluster is updated in which stage, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use fleet_api::conditions::update_run::{Abort, InvalidTask};
use fleet_api::names;
use fleet_api::placement::{
    ClusterUpdatingStatus, Stage, StageStatus, StageTask, StageTaskStatus, StageTaskType, UpdateStrategySpec,
};

use super::number;
use super::world::Run;
use crate::scheduler::Selector;

/// The labels of the fleet's member clusters, by name.
pub type Members<'a> = BTreeMap<&'a str, &'a BTreeMap<String, String>>;

/// The stages with their clusters, or the first thing that is wrong with them. Which `targets` are in none is for the
/// caller to judge.
pub(super) fn assign(
    run: &Run<'_>,
    strategy: &UpdateStrategySpec,
    members: &Members<'_>,
    targets: &BTreeSet<&str>,
) -> Result<Vec<StageStatus>, Abort> {
    let key = run.key(&run.spec.staged_rollout_strategy_name);
    let (mut seen, mut placed) = (BTreeSet::new(), BTreeSet::new());
    let mut stages = Vec::new();
    for stage in &strategy.stages {
        // Two stages of one name would share their approvals.
        if !seen.insert(stage.name.as_str()) {
            return Err(Abort::DuplicateStage {
                key,
                stage: stage.name.clone(),
            });
        }
        check_tasks(&key, stage)?;
        let clusters = clusters(&key, stage, members, targets, &mut placed)?;
        stages.push(StageStatus {
            stage_name: stage.name.clone(),
            clusters: clusters.into_iter().map(entry).collect(),
            before_stage_task_status: tasks(&stage.before_stage_tasks, || {
                names::before_stage_approval(run.name, &stage.name)
            }),
            after_stage_task_status: tasks(&stage.after_stage_tasks, || {
                names::after_stage_approval(run.name, &stage.name)
            }),
            ..StageStatus::default()
        });
    }
    Ok(stages)
}

/// The stage that removes the placement from these clusters, which are sorted.
pub(super) fn deletion<'a>(clusters: impl IntoIterator<Item = &'a str>) -> StageStatus {
    of(names::DELETE_STAGE, clusters)
}

/// A stage without tasks, with these clusters in this order.
pub(super) fn of<'a>(name: &str, clusters: impl IntoIterator<Item = &'a str>) -> StageStatus {
    StageStatus {
        stage_name: name.to_owned(),
        clusters: clusters.into_iter().map(entry).collect(),
        ..StageStatus::default()
    }
}

fn entry(cluster: &str) -> ClusterUpdatingStatus {
    ClusterUpdatingStatus {
        cluster_name: cluster.to_owned(),
        ..ClusterUpdatingStatus::default()
    }
}

/// The clusters of one stage in the order of their update. Whether members are healthy does not matter here.
fn clusters<'a>(
    key: &str,
    stage: &Stage,
    members: &Members<'a>,
    targets: &BTreeSet<&str>,
    placed: &mut BTreeSet<&'a str>,
) -> Result<Vec<&'a str>, Abort> {
    let Some(selector) = &stage.label_selector else {
        return Ok(Vec::new());
    };
    let selector = Selector::new(selector).map_err(|error| Abort::StageSelector {
        key: key.to_owned(),
        stage: stage.name.clone(),
        error: error.to_string(),
    })?;
    let mut chosen = Vec::new();
    for (cluster, labels) in members {
        if !targets.contains(cluster) || !selector.matches(labels) {
            continue;
        }
        if !placed.insert(cluster) {
            return Err(Abort::ClusterInSeveralStages {
                cluster: (*cluster).to_owned(),
            });
        }
        chosen.push((sorting_value(stage, cluster, labels)?, *cluster));
    }
    chosen.sort_unstable();
    Ok(chosen.into_iter().map(|(_, cluster)| cluster).collect())
}

/// By what the cluster is sorted, before its name. A missing label is refused like one that is no number.
fn sorting_value(stage: &Stage, cluster: &str, labels: &BTreeMap<String, String>) -> Result<i64, Abort> {
    let Some(label) = stage.sorting_label_key.as_ref().filter(|label| !label.is_empty()) else {
        return Ok(0);
    };
    let value = labels.get(label).map(String::as_str).unwrap_or_default();
    number::parse(value).map_err(|error| Abort::SortingLabel {
        label: label.clone(),
        value: value.to_owned(),
        cluster: cluster.to_owned(),
        error: error.to_owned(),
    })
}

/// The status of a stage's tasks, before anything has become of them.
pub(super) fn tasks(tasks: &[StageTask], request: impl Fn() -> String) -> Vec<StageTaskStatus> {
    let status = |task: &StageTask| StageTaskStatus {
        type_: task.type_.clone(),
        approval_request_name: if task.type_ == StageTaskType::Approval {
            request()
        } else {
            String::new()
        },
        conditions: Vec::new(),
    };
    tasks.iter().map(status).collect()
}

fn check_tasks(key: &str, stage: &Stage) -> Result<(), Abort> {
    let (key, name) = (key.to_owned(), stage.name.clone());
    if let Err(error) = check_before(&stage.before_stage_tasks) {
        let stage = name;
        return Err(Abort::BeforeStageTasks { key, stage, error });
    }
    check_after(&stage.after_stage_tasks).map_err(|error| Abort::AfterStageTasks {
        key,
        stage: name,
        error,
    })
}

fn check_before(tasks: &[StageTask]) -> Result<(), InvalidTask> {
    if tasks.len() > 1 {
        return Err(InvalidTask::SeveralBefore);
    }
    for (index, task) in tasks.iter().enumerate() {
        if task.type_ != StageTaskType::Approval {
            return Err(InvalidTask::NotAllowedBefore {
                index,
                task_type: task.type_.as_str().to_owned(),
            });
        }
        if task.wait_time.is_some() {
            return Err(InvalidTask::ApprovalWithWait { index });
        }
    }
    Ok(())
}

fn check_after(tasks: &[StageTask]) -> Result<(), InvalidTask> {
    let mut types = BTreeSet::new();
    for task in tasks {
        if !types.insert(&task.type_) {
            return Err(InvalidTask::SameTypeTwice {
                task_type: task.type_.as_str().to_owned(),
            });
        }
    }
    for (index, task) in tasks.iter().enumerate() {
        if task.type_ != StageTaskType::TimedWait {
            continue;
        }
        let wait = task.wait_time.as_deref().and_then(number::duration);
        let wait = wait.ok_or(InvalidTask::NoWait { index })?;
        if !wait.is_positive() {
            return Err(InvalidTask::NoPositiveWait { index });
        }
    }
    Ok(())
}
