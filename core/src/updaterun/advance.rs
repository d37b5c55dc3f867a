//! One pass over a run that has a plan.

use fleet_api::conditions;
use fleet_api::conditions::Words as _;
use fleet_api::conditions::update_run::{Abort, Progressing, Succeeded, failed_clusters};
use fleet_api::conditions::update_stage::Progressing as StageProgressing;
use fleet_api::events::{Event as _, UpdateRunEvent};
use fleet_api::placement::{ClusterUpdatingStatus, Stage, StageStatus, UpdateRunState, UpdateRunStatus};

use super::closed::Closed;
use super::clusters::{self, Flight, Order};
use super::deletion::{self, Begin};
use super::initialize::drop_waits_of_approvals;
use super::options::Options;
use super::pass::{Halt, Pass, Signature, Verdict, abort_of, snapshot_name};
use super::spans::{Moment, Spans};
use super::state::{self, ClusterEntry as _, Pen, StageEntry as _, failed};
use super::step::{Step, sentence};
use super::validate::{self, Position, max_concurrency};
use super::world::by_cluster;
use super::world::{Memory, Phase, Run, World};
use super::{events, gates, patience, rollback, stop, tasks};

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
        options: Options::default(),
        recorded: run.status.options.clone(),
        planned: run.status.stages_status.iter().map(|stage| stage.clusters.len()).sum(),
        failed: Vec::new(),
        closed: Closed::default(),
    };
    let mut status = run.status.clone();
    state::observe(&mut status, run.generation);
    if let Some(strategy) = &mut status.staged_update_strategy_snapshot {
        drop_waits_of_approvals(strategy);
    }
    let options = gates::check(run).and_then(|()| Options::of(run.status.options.as_ref()));
    let verdict = match options {
        Ok(options) => {
            pass.options = options;
            pass.judge(&mut status)
        }
        Err(abort) => Some(Verdict::Failed(abort)),
    };
    if let Some(verdict) = verdict {
        pass.conclude(&mut status, verdict);
        status.options.clone_from(&pass.recorded);
        pass.tell_not_included();
        pass.tell_failed_snapshot();
        rollback::tell_ignored(&mut pass);
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
        let trigger = rollback::trigger(status, &self.options).map(ToOwned::to_owned);
        let placement = if trigger.is_some() || self.is_to_roll_back() {
            validate::same_placement(self.world, &self.memory).map(drop)
        } else {
            validate::placement(&self.run, self.world, &self.memory)
        };
        if let Err(abort) = placement {
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
        if let Some(why) = trigger {
            return Some(rollback::go_on(self, status, why));
        }
        let stopping = self.run.spec.state == UpdateRunState::Stop;
        let position = validate::progress(&self.run, self.world, self.counts_failures());
        self.look_back(&mut status.stages_status);
        let others = status.stages_status.iter().enumerate();
        let others = others.filter(|(index, _)| !matches!(position, Ok(Position::Stage(here)) if here == *index));
        self.failed = others
            .flat_map(|(_, stage)| failed(stage))
            .map(ToOwned::to_owned)
            .collect();
        Some(match position {
            Err(abort) => Verdict::Failed(abort),
            Ok(Position::Done) => Verdict::Ended,
            Ok(Position::Deletion) => {
                let mut stage = status.deletion_stage_status.take().unwrap_or_default();
                let verdict = if self.is_to_roll_back() {
                    self.halt(&mut stage, Halt::Trip(Abort::RollbackRequested))
                } else if stopping {
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
                let verdict = if self.is_to_roll_back() {
                    self.halt(&mut stage, Halt::Trip(Abort::RollbackRequested))
                } else if stopping {
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

    /// Whether its user asks a run that can to take back what it did.
    fn is_to_roll_back(&self) -> bool {
        self.options.rollback && self.run.is_to_roll_back()
    }

    /// A stage of the strategy.
    fn update(&mut self, stage: &mut StageStatus, spec: &Stage) -> Verdict {
        if stage.clusters.is_empty() {
            stage.skip(self.pen);
            return Verdict::StageEnded;
        }
        let verdict = self.try_update(stage, spec);
        verdict.unwrap_or_else(|halt| self.halt(stage, halt))
    }

    fn try_update(&mut self, stage: &mut StageStatus, spec: &Stage) -> Result<Verdict, Halt> {
        let name = stage.stage_name.clone();
        self.check_gates(&name)?;
        // Clusters of earlier stages break while this one waits, too.
        self.check_budget(stage)?;
        let approved = tasks::before(self, stage)?;
        // Once the stage has begun nobody asks any more whether it may.
        if !approved || stage.start_time.is_none() && !self.pass_gates(&name, "before") {
            self.pen.set(&mut stage.conditions, &StageProgressing::WaitingBefore);
            let stage = stage.stage_name.clone();
            return Ok(Verdict::Doing(Progressing::WaitingBefore { stage }));
        }
        let max = max_concurrency(spec, stage)?;
        let mut flight = clusters::look(self, stage, max);
        if let Some(abort) = abort_of(&mut flight.aborts) {
            return Err(abort.into());
        }
        self.check_budget(stage)?;
        let sorted = spec.sorting_label_key.as_ref().is_some_and(|label| !label.is_empty());
        let order = if sorted { Order::Kept } else { Order::Free };
        clusters::start(self, stage, order, max, &mut flight);
        if !flight.is_empty() {
            stage.start(self.pen);
            return Ok(self.under_way(stage, &flight));
        }
        if !self.closed.is_empty() {
            return Ok(Verdict::Doing(self.closed.words(&name)));
        }
        // As a stage without clusters: nobody waits for tasks about nothing.
        let was_tried = |cluster: &ClusterUpdatingStatus| cluster.is_updated() || cluster.outcome() == Some(false);
        if !stage.clusters.iter().any(was_tried) {
            stage.skip(self.pen);
            return Ok(Verdict::StageEnded);
        }
        // Also when all its clusters had the version already.
        stage.begin(self.pen);
        let done = tasks::after(self, stage, spec)?;
        if self.pass_gates(&name, "after") && done {
            stage.succeed(self.pen);
            return Ok(Verdict::StageEnded);
        }
        self.pen.set(&mut stage.conditions, &StageProgressing::WaitingAfter);
        let stage = stage.stage_name.clone();
        Ok(Verdict::Doing(Progressing::WaitingAfter { stage }))
    }

    /// The deletion stage.
    fn delete(&mut self, stage: &mut StageStatus) -> Verdict {
        if let Err(halt) = self.check_budget(stage) {
            return self.halt(stage, halt);
        }
        let mut flight = deletion::look(self, stage, Begin::Yes);
        if let Some(abort) = abort_of(&mut flight.aborts) {
            return self.halt(stage, abort.into());
        }
        if flight.is_empty() && !self.closed.is_empty() {
            return Verdict::Doing(self.closed.words(&stage.stage_name));
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
        let (threshold, now) = (self.threshold(), self.now());
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
        let of = rollback::count(status);
        let failed: Vec<_> = status.stages_status.iter().flat_map(failed).collect();
        let failed: Vec<_> = failed.into_iter().map(ToOwned::to_owned).collect();
        let list = &mut status.conditions;
        match verdict {
            Verdict::Doing(state) => self.pen.set(list, &state),
            Verdict::StageEnded => {
                self.pen.set(list, &Progressing::Progressing);
                self.step.look_again = Some(self.now());
            }
            Verdict::Ended => {
                self.pen.set(list, &Progressing::Succeeded);
                let detail = if failed.is_empty() {
                    String::new()
                } else {
                    failed_clusters(&failed)
                };
                self.pen.set(list, &Succeeded::Succeeded.with_detail(detail));
                self.step.look_again = None;
            }
            Verdict::Tripped => {
                let stopping = self.run.spec.state == UpdateRunState::Stop;
                let words = Progressing::RollingBack { restored: 0, of };
                self.pen
                    .set(list, if stopping { &Progressing::Stopping } else { &words });
                self.step.look_again = Some(self.now());
            }
            Verdict::Failed(abort) => {
                self.pen.set(list, &Progressing::Failed);
                let error = abort.message();
                self.pen.set(list, &Succeeded::Failed { error });
                self.step.look_again = None;
            }
        }
    }

    /// An earlier run has taken back what this one rolls out.
    fn tell_failed_snapshot(&mut self) {
        let failed_in = self.world.snapshot.and_then(|snapshot| snapshot.failed_in);
        let Some(run) = failed_in.filter(|run| !run.is_empty() && *run != self.run.name) else {
            return;
        };
        let event = UpdateRunEvent::SnapshotHasFailed {
            snapshot: snapshot_name(&self.run),
            run: run.to_owned(),
        };
        if self.memory.tells("failed snapshot", event.message()) {
            self.step.tell(event);
        }
    }

    /// Clusters that were picked after the plan was made, or picked again after they were skipped: once per change.
    fn tell_not_included(&mut self) {
        const SUBJECT: &str = "not included";
        let recorded = self.recorded.as_ref();
        // Those that it does not retry were never to be its.
        if recorded.is_some_and(|options| !options.retry_of.is_empty()) {
            return;
        }
        let stages = self.run.status.stages_status.iter().flat_map(|stage| &stage.clusters);
        let planned = stages.filter(|cluster| !cluster.has_left());
        let planned: std::collections::BTreeSet<_> = planned.map(|cluster| cluster.cluster_name.as_str()).collect();
        let picked = self.bindings.iter().filter(|(_, binding)| binding.is_picked());
        let clusters: Vec<_> = picked
            .filter(|(cluster, _)| !planned.contains(*cluster))
            .filter(|(cluster, _)| {
                !recorded.is_some_and(|options| options.unassigned.iter().any(|left| left == *cluster))
            })
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
