//! One pass over a run that has a plan.

use fleet_api::conditions;
use fleet_api::conditions::Words as _;
use fleet_api::conditions::update_run::{Abort, Progressing, Succeeded};
use fleet_api::conditions::update_stage::Progressing as StageProgressing;
use fleet_api::events::{Event as _, UpdateRunEvent};
use fleet_api::placement::{ClusterUpdatingStatus, Stage, StageStatus, UpdateRunState, UpdateRunStatus};

use super::clusters::{self, Flight};
use super::deletion::{self, Begin};
use super::initialize::{by_cluster, drop_waits_of_approvals};
use super::pass::{Pass, Signature, Verdict, abort_of};
use super::spans::{Moment, Spans};
use super::state::{self, ClusterEntry as _, Pen, StageEntry as _};
use super::step::{Step, sentence};
use super::validate::{self, Position, max_concurrency};
use super::world::{Memory, Phase, Run, World};
use super::{events, patience, stop, tasks};

/// The next step of a run.
///
/// # Expected flow
///
/// Call it when the run is [`Active`](Phase::Active), with the [`Memory`] of the step before, on every event of the run, its
/// approval requests, its placement with policy snapshots, bindings and the recorded snapshot, and at `look_again`. In other
/// phases it answers with nothing to do. The caches must have caught up with the run's own writes.
pub fn advance(run: &Run<'_>, world: &World<'_>, memory: &Memory, at: Moment) -> Step {
    if run.phase() != Phase::Active {
        let memory = memory.clone();
        return Step {
            memory,
            ..Step::default()
        };
    }
    let signature = Signature {
        annotation: run.annotation(),
        sentence: sentence(&run.status.resource_snapshot_index_used, run.name),
    };
    let mut pass = Pass {
        run: *run,
        world,
        pen: Pen {
            generation: run.generation,
            now: at.now,
        },
        signature: &signature,
        memory: memory.clone(),
        step: Step::default(),
        at,
        spans: Spans::default(),
        bindings: by_cluster(world.bindings),
    };
    let mut status = run.status.clone();
    state::observe(&mut status, run.generation);
    if let Some(strategy) = &mut status.staged_update_strategy_snapshot {
        drop_waits_of_approvals(strategy);
    }
    if let Some(verdict) = pass.judge(&mut status) {
        pass.conclude(&mut status, verdict);
        pass.tell_not_included();
        pass.keep_spans();
    } else {
        // Nothing is written while an edit of the placement may still be taken back.
        status.clone_from(run.status);
    }
    let Pass { memory, mut step, .. } = pass;
    step.memory = memory;
    step.events.extend(events::between(run.status, &status));
    step.status = (status != *run.status).then_some(status);
    step
}

impl Pass<'_> {
    /// What the pass comes to; none if the placement differs from what is recorded, but not for long enough.
    fn judge(&mut self, status: &mut UpdateRunStatus) -> Option<Verdict> {
        if let Err(abort) = validate::placement(&self.run, self.world, &self.memory) {
            return match patience(&mut self.memory.edited_since, validate::PATIENCE, self.at) {
                Some(until) => {
                    self.step.look_at(until);
                    None
                }
                None => Some(Verdict::Failed(abort)),
            };
        }
        self.memory.edited_since = None;
        self.memory.placement_uid = self.world.placement.map(|placement| placement.uid.to_owned());
        let stopping = self.run.spec.state == UpdateRunState::Stop;
        Some(match validate::progress(&self.run, self.world) {
            Err(abort) => Verdict::Failed(abort),
            Ok(Position::Done) => Verdict::Ended,
            Ok(Position::Deletion) => {
                let mut stage = status.deletion_stage_status.take().unwrap_or_default();
                let verdict = if stopping {
                    stop::deletion(self, &mut stage)
                } else {
                    self.delete(&mut stage)
                };
                status.deletion_stage_status = Some(stage);
                verdict
            }
            Ok(Position::Stage(index)) => {
                let mut stage = std::mem::take(&mut status.stages_status[index]);
                let strategy = status.staged_update_strategy_snapshot.as_ref();
                let spec = strategy
                    .map(|strategy| strategy.stages[index].clone())
                    .unwrap_or_default();
                let verdict = if stopping {
                    let max = max_concurrency(&spec, &stage);
                    stop::stage(self, &mut stage, max)
                } else {
                    self.update(&mut stage, &spec)
                };
                status.stages_status[index] = stage;
                verdict
            }
        })
    }

    /// A stage of the strategy.
    fn update(&mut self, stage: &mut StageStatus, spec: &Stage) -> Verdict {
        if stage.clusters.is_empty() {
            stage.skip(self.pen);
            return Verdict::StageEnded;
        }
        let verdict = self.try_update(stage, spec);
        verdict.unwrap_or_else(|abort| {
            stage.fail(self.pen, &abort);
            Verdict::Failed(abort)
        })
    }

    fn try_update(&mut self, stage: &mut StageStatus, spec: &Stage) -> Result<Verdict, Abort> {
        if !tasks::before(self, stage)? {
            self.pen.set(&mut stage.conditions, &StageProgressing::WaitingBefore);
            let stage = stage.stage_name.clone();
            return Ok(Verdict::Doing(Progressing::WaitingBefore { stage }));
        }
        let max = max_concurrency(spec, stage)?;
        let mut flight = clusters::look(self, stage, max);
        if let Some(abort) = abort_of(&mut flight.aborts) {
            return Err(abort);
        }
        clusters::start(self, stage, max, &mut flight);
        if !flight.is_empty() {
            stage.start(self.pen);
            return Ok(self.under_way(stage, &flight));
        }
        // As a stage without clusters: nobody waits for tasks about nothing.
        if !stage.clusters.iter().any(ClusterUpdatingStatus::is_updated) {
            stage.skip(self.pen);
            return Ok(Verdict::StageEnded);
        }
        if tasks::after(self, stage, spec)? {
            stage.succeed(self.pen);
            return Ok(Verdict::StageEnded);
        }
        self.pen.set(&mut stage.conditions, &StageProgressing::WaitingAfter);
        let stage = stage.stage_name.clone();
        Ok(Verdict::Doing(Progressing::WaitingAfter { stage }))
    }

    /// The deletion stage.
    fn delete(&mut self, stage: &mut StageStatus) -> Verdict {
        let mut flight = deletion::look(self, stage, Begin::Yes);
        if let Some(abort) = abort_of(&mut flight.aborts) {
            stage.fail(self.pen, &abort);
            return Verdict::Failed(abort);
        }
        if flight.is_empty() {
            stage.succeed(self.pen);
            return Verdict::Ended;
        }
        stage.start(self.pen);
        self.under_way(stage, &flight)
    }

    /// What a run with clusters under way says: that it goes on, or for whom it has waited too long.
    fn under_way(&mut self, stage: &StageStatus, flight: &Flight) -> Verdict {
        let (threshold, now) = (self.world.stuck_threshold, self.now());
        if let Some(end) = flight.next_threshold(threshold, now) {
            self.step.look_at(end);
        }
        let stuck = flight.stuck(threshold, now);
        if stuck.is_empty() {
            return Verdict::Doing(Progressing::Progressing);
        }
        let words = Progressing::Stuck {
            clusters: stuck.iter().map(|busy| busy.cluster.clone()).collect(),
            stage: stage.stage_name.clone(),
        };
        let said = conditions::find(&self.run.status.conditions, Progressing::TYPE);
        if said.is_none_or(|said| said.message != words.message()) {
            let event = clusters::stuck_event(&words.message(), &stuck, self);
            self.step.tell(event);
        }
        Verdict::Doing(words)
    }

    fn conclude(&mut self, status: &mut UpdateRunStatus, verdict: Verdict) {
        let list = &mut status.conditions;
        match verdict {
            Verdict::Doing(state) => self.pen.set(list, &state),
            Verdict::StageEnded => {
                self.pen.set(list, &Progressing::Progressing);
                self.step.look_again = Some(self.now());
            }
            Verdict::Ended => {
                self.pen.set(list, &Progressing::Succeeded);
                self.pen.set(list, &Succeeded::Succeeded);
                self.step.look_again = None;
            }
            Verdict::Failed(abort) => {
                self.pen.set(list, &Progressing::Failed);
                let error = abort.message();
                self.pen.set(list, &Succeeded::Failed { error });
                self.step.look_again = None;
            }
        }
    }

    /// Clusters that were picked after the plan was made, or picked again after they were skipped: once per change.
    fn tell_not_included(&mut self) {
        const SUBJECT: &str = "not included";
        let stages = self.run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
        let planned = stages.filter(|cluster| cluster.outcome() != Some(true) || cluster.is_updated());
        let planned: std::collections::BTreeSet<_> = planned.map(|cluster| cluster.cluster_name.as_str()).collect();
        let picked = self.bindings.iter().filter(|(_, binding)| binding.is_picked());
        let clusters: Vec<_> = picked
            .filter(|(cluster, _)| !planned.contains(*cluster))
            .map(|(cluster, _)| (*cluster).to_owned())
            .collect();
        if clusters.is_empty() {
            self.memory.told.remove(SUBJECT);
            return;
        }
        let event = UpdateRunEvent::ClustersNotIncluded { clusters };
        if self.memory.tells(SUBJECT, event.message()) {
            self.step.tell(event);
        }
    }
}
