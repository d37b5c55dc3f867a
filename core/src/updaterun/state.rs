//! Reading and writing the conditions of a run's status. Each is set once in a pass, to what it is in the end, so that
//! `lastTransitionTime` moves only when the stored status does.

use fleet_api::conditions::update_run::{Abort, failed_clusters};
use fleet_api::conditions::update_stage::{ClusterStarted, ClusterSucceeded, Progressing, Succeeded};
use fleet_api::conditions::{self, ConditionState, Status, Words as _};
use fleet_api::placement::{ClusterUpdatingStatus, StageStatus, UpdateRunStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::step::whole_seconds;

/// With which generation and time conditions are written in a pass.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pen {
    pub(super) generation: i64,
    pub(super) now: Timestamp,
}

impl Pen {
    pub(super) fn set(self, list: &mut Vec<Condition>, state: &impl ConditionState) {
        conditions::set(list, state, self.generation, self.now);
    }
}

/// The status of the condition of this type, whatever generation it has: within a run all have that of the last write.
pub(super) fn status_of(list: &[Condition], type_name: &str) -> Option<Status> {
    conditions::find(list, type_name).map(Status::of)
}

pub(super) fn is_true(list: &[Condition], type_name: &str) -> bool {
    status_of(list, type_name) == Some(Status::True)
}

/// Makes every condition in the status speak of `generation`, also those of what ended earlier.
pub(super) fn observe(status: &mut UpdateRunStatus, generation: i64) {
    conditions::observe(&mut status.conditions, generation);
    let stages = status.stages_status.iter_mut().chain(&mut status.deletion_stage_status);
    for stage in stages {
        conditions::observe(&mut stage.conditions, generation);
        for cluster in &mut stage.clusters {
            conditions::observe(&mut cluster.conditions, generation);
        }
        let tasks = stage.before_stage_task_status.iter_mut();
        for task in tasks.chain(&mut stage.after_stage_task_status) {
            conditions::observe(&mut task.conditions, generation);
        }
    }
}

/// A cluster's entry.
pub(super) trait ClusterEntry {
    fn is_started(&self) -> bool;
    /// `Succeeded`, if it is True or False.
    fn outcome(&self) -> Option<bool>;
    fn started_at(&self) -> Option<Timestamp>;
    fn start(&mut self, pen: Pen, at: Timestamp);
    fn end(&mut self, pen: Pen, state: &ClusterSucceeded);
    /// Whether it has been updated, and not skipped.
    fn is_updated(&self) -> bool;
    /// Whether it was skipped since the placement no longer picked it.
    fn has_left(&self) -> bool;
}

impl ClusterEntry for ClusterUpdatingStatus {
    fn is_started(&self) -> bool {
        is_true(&self.conditions, ClusterStarted::TYPE)
    }

    fn outcome(&self) -> Option<bool> {
        match status_of(&self.conditions, ClusterSucceeded::TYPE) {
            Some(Status::True) => Some(true),
            Some(Status::False) => Some(false),
            Some(Status::Unknown) | None => None,
        }
    }

    fn started_at(&self) -> Option<Timestamp> {
        let started = conditions::find(&self.conditions, ClusterStarted::TYPE)?;
        (Status::of(started) == Status::True).then_some(started.last_transition_time.0)
    }

    fn start(&mut self, pen: Pen, at: Timestamp) {
        conditions::set(&mut self.conditions, &ClusterStarted::Started, pen.generation, at);
    }

    fn end(&mut self, pen: Pen, state: &ClusterSucceeded) {
        pen.set(&mut self.conditions, state);
    }

    fn is_updated(&self) -> bool {
        conditions::find(&self.conditions, ClusterSucceeded::TYPE)
            .is_some_and(|c| Status::of(c) == Status::True && c.reason == ClusterSucceeded::Succeeded.reason())
    }

    fn has_left(&self) -> bool {
        conditions::find(&self.conditions, ClusterSucceeded::TYPE)
            .is_some_and(|c| c.reason == ClusterSucceeded::SkippedNotSelected.reason())
    }
}

/// A stage's entry.
pub(super) trait StageEntry {
    /// Its time runs.
    fn begin(&mut self, pen: Pen);
    fn start(&mut self, pen: Pen);
    fn succeed(&mut self, pen: Pen);
    /// Says that it has succeeded, and which of its clusters have not.
    fn tell_success(&mut self, pen: Pen);
    fn skip(&mut self, pen: Pen);
    fn fail(&mut self, pen: Pen, abort: &Abort);
}

impl StageEntry for StageStatus {
    fn begin(&mut self, pen: Pen) {
        self.start_time.get_or_insert_with(|| whole_seconds(pen.now));
    }

    fn start(&mut self, pen: Pen) {
        self.begin(pen);
        pen.set(&mut self.conditions, &Progressing::Started);
    }

    fn succeed(&mut self, pen: Pen) {
        self.begin(pen);
        self.end_time.get_or_insert_with(|| whole_seconds(pen.now));
        pen.set(&mut self.conditions, &Progressing::Succeeded);
        self.tell_success(pen);
    }

    fn tell_success(&mut self, pen: Pen) {
        let failed: Vec<_> = failed(self).map(ToOwned::to_owned).collect();
        let detail = if failed.is_empty() {
            String::new()
        } else {
            failed_clusters(&failed)
        };
        pen.set(&mut self.conditions, &Succeeded::Succeeded.with_detail(detail));
    }

    fn skip(&mut self, pen: Pen) {
        self.begin(pen);
        self.end_time.get_or_insert_with(|| whole_seconds(pen.now));
        pen.set(&mut self.conditions, &Progressing::Skipped);
        pen.set(&mut self.conditions, &Succeeded::Skipped);
    }

    fn fail(&mut self, pen: Pen, abort: &Abort) {
        self.end_time.get_or_insert_with(|| whole_seconds(pen.now));
        pen.set(&mut self.conditions, &Progressing::Failed);
        let error = abort.message();
        pen.set(&mut self.conditions, &Succeeded::Failed { error });
    }
}

/// The names of a stage's failed clusters.
pub(super) fn failed(stage: &StageStatus) -> impl Iterator<Item = &str> {
    let failed = stage.clusters.iter().filter(|cluster| cluster.outcome() == Some(false));
    failed.map(|cluster| cluster.cluster_name.as_str())
}
