//! Clusters that fail, and how many of them may. Without `max-failures` none ever does.
//!
//! No cluster is started once more than `max-failures` have failed, nor while `maxConcurrency` are under way. So a run breaks at
//! most `max-failures` + `maxConcurrency` clusters.

use fleet_api::conditions::update_run::Abort;
use fleet_api::conditions::update_stage::{ClusterSucceeded, Succeeded};
use fleet_api::conditions::{self, Words as _};
use fleet_api::placement::{ClusterUpdatingStatus, StageStatus, UpdateRunStatus};
use jiff::{SignedDuration, Timestamp};

use super::options::Options;
use super::pass::{Halt, Pass};
use super::standing::{Progress, failing};
use super::state::{ClusterEntry as _, StageEntry as _, failed};
use super::world::Binding;
use super::{later, number};

/// What a run's failure budget has come to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failures<'a> {
    /// The clusters that have failed, whichever their stage.
    pub clusters: Vec<&'a str>,
    /// How many may.
    pub max: usize,
}

/// What the failure budget of a run with this status has come to; none if it has none.
pub fn failures(status: &UpdateRunStatus) -> Option<Failures<'_>> {
    let options = Options::of(status.options.as_ref()).ok()?;
    let planned = status.stages_status.iter().map(|stage| stage.clusters.len()).sum();
    Some(Failures {
        clusters: status.stages_status.iter().flat_map(failed).collect(),
        max: options.max_failures?.of(planned),
    })
}

impl Pass<'_> {
    /// How long a cluster may take to become available; none if it may take for ever.
    pub(super) fn deadline(&self) -> Option<SignedDuration> {
        self.options.max_failures?;
        Some(self.options.cluster_deadline.unwrap_or(self.threshold()))
    }

    /// Whether failed clusters are counted and do not end the run by themselves.
    pub(super) fn counts_failures(&self) -> bool {
        self.options.max_failures.is_some()
    }

    /// How a cluster that has been under way since `since` has failed, if it has. Else it is looked at again in time.
    pub(super) fn is_late(&mut self, since: Timestamp, obstacle: &str) -> Option<ClusterSucceeded> {
        let deadline = self.deadline()?;
        let end = later(since, deadline);
        if end > self.now() {
            self.step.look_at(end);
            return None;
        }
        Some(ClusterSucceeded::NotInTime {
            deadline: number::shown_duration(deadline),
            obstacle: obstacle.to_owned(),
        })
    }

    /// How a cluster that works since then, but not for long enough yet, has failed, if it has. A deadline that nobody has
    /// given leaves it the time that it needs.
    pub(super) fn is_settling_late(&mut self, since: Timestamp, obstacle: &str) -> Option<ClusterSucceeded> {
        self.options.cluster_deadline?;
        self.is_late(since, obstacle)
    }

    /// Until when a cluster that works has to go on doing so before it has succeeded; none if it has.
    pub(super) fn settles(
        &mut self,
        cluster: &str,
        binding: &Binding<'_>,
        done: &str,
        started: Timestamp,
    ) -> Option<Timestamp> {
        let span = self.options.min_success_time;
        if span.is_zero() {
            return None;
        }
        let works = conditions::find(binding.conditions, done)?;
        // It may have worked all along; what counts is this version.
        let stamp = works.last_transition_time.0.max(started);
        let since = self.since(&format!("works {cluster}"), stamp);
        let end = later(since, span);
        if end <= self.now() {
            return None;
        }
        self.step.look_at(end);
        Some(end)
    }

    /// Looks again at the clusters that had succeeded: one that has been unavailable for long enough has failed after all.
    pub(super) fn look_back(&mut self, stages: &mut [StageStatus]) {
        if !self.counts_failures() {
            return;
        }
        for cluster in stages.iter_mut().flat_map(|stage| &mut stage.clusters) {
            if cluster.outcome() == Some(true) && cluster.is_updated() {
                self.look_back_at(cluster);
            }
        }
        for stage in stages {
            let ended = conditions::find(&stage.conditions, Succeeded::TYPE);
            if ended.is_some_and(|ended| ended.reason == Succeeded::Succeeded.reason()) {
                stage.tell_success(self.pen);
            }
        }
    }

    fn look_back_at(&mut self, cluster: &mut ClusterUpdatingStatus) {
        let binding = self.binding(&cluster.cluster_name);
        let content = self.content(cluster);
        let wish = self.wish(&content);
        let (Progress::Busy(obstacle), Some(binding)) = (wish.progress(binding), binding) else {
            return;
        };
        let Some(failing) = failing(binding) else { return };
        let span = self.options.broken_after();
        let since = self.since(
            &format!("broken {}", cluster.cluster_name),
            failing.last_transition_time.0,
        );
        let end = later(since, span);
        if end > self.now() {
            return self.step.look_at(end);
        }
        let span = number::shown_duration(span);
        cluster.end(self.pen, &ClusterSucceeded::BrokenSince { span, obstacle });
    }

    /// Ends the stage once more clusters have failed than may, those of this stage included.
    pub(super) fn check_budget(&self, stage: &StageStatus) -> Result<(), Halt> {
        let Some(max) = self.options.max_failures else {
            return Ok(());
        };
        let max = max.of(self.planned);
        let clusters = self.failed.iter().map(String::as_str).chain(failed(stage));
        let clusters: Vec<_> = clusters.map(ToOwned::to_owned).collect();
        if clusters.len() <= max {
            return Ok(());
        }
        Err(Halt::Trip(Abort::BudgetExhausted { clusters, max }))
    }
}
