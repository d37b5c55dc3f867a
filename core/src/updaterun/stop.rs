//! Stopping: what is under way is waited for, nothing new is begun. It ends at the latest when everything that is still
//! under way is stuck.

use fleet_api::conditions::Words as _;
use fleet_api::conditions::update_run::{self, Abort, first_names};
use fleet_api::conditions::update_stage::Progressing as StageProgressing;
use fleet_api::placement::{StageStatus, UpdateRunStatus};
use jiff::Timestamp;

use super::clusters::{self, Flight};
use super::deletion::{self, Begin};
use super::pass::{Pass, Verdict, abort_of};
use super::state::{Pen, StageEntry as _};

/// A stop of a stage of the strategy.
pub(super) fn stage(pass: &mut Pass<'_>, stage: &mut StageStatus, max: Result<usize, Abort>) -> Verdict {
    let flight = match max {
        Ok(max) => clusters::look(pass, stage, max),
        Err(abort) => Flight::failed(vec![abort]),
    };
    let name = stage.stage_name.as_str();
    if flight.aborts.is_empty()
        && let Err(halt) = pass.check_gates(name).and_then(|()| pass.check_budget(stage))
    {
        return pass.halt(stage, halt);
    }
    conclude(pass, stage, flight)
}

/// A stop of the deletion stage.
pub(super) fn deletion(pass: &mut Pass<'_>, stage: &mut StageStatus) -> Verdict {
    let flight = deletion::look(pass, stage, Begin::No);
    if flight.aborts.is_empty()
        && let Err(halt) = pass.check_budget(stage)
    {
        return pass.halt(stage, halt);
    }
    conclude(pass, stage, flight)
}

fn conclude(pass: &mut Pass<'_>, stage: &mut StageStatus, mut flight: Flight) -> Verdict {
    if let Some(abort) = abort_of(&mut flight.aborts) {
        stage.fail(pass.pen, &abort);
        return Verdict::Failed(abort);
    }
    let (threshold, now) = (pass.threshold(), pass.now());
    if flight.is_empty() {
        pass.pen.set(&mut stage.conditions, &StageProgressing::Stopped);
        return Verdict::Doing(update_run::Progressing::Stopped);
    }
    flight.count_settling();
    if flight.all_stuck(threshold, now) {
        let stuck = flight.stuck(threshold, now);
        let names: Vec<_> = stuck.iter().map(|busy| busy.cluster.clone()).collect();
        let words = StageProgressing::Stopped.with_detail(format!("still updating: {}", first_names(&names)));
        pass.pen.set(&mut stage.conditions, &words);
        let sentence = format!(
            "The update run was stopped with clusters still updating in stage {}",
            stage.stage_name
        );
        let event = clusters::stuck_event(&sentence, &stuck, pass);
        pass.step.tell(event);
        return Verdict::Doing(update_run::Progressing::Stopped);
    }
    if let Some(end) = flight.next_threshold(threshold, now) {
        pass.step.look_at(end);
    }
    pass.pen.set(&mut stage.conditions, &StageProgressing::Stopping);
    Verdict::Doing(update_run::Progressing::Stopping)
}

/// A run that was created with `state: Stop`: its first stage has stopped with the plan, in one write.
pub(super) fn at_creation(generation: i64, status: &mut UpdateRunStatus, now: Timestamp) {
    let pen = Pen { generation, now };
    let first = status
        .stages_status
        .iter_mut()
        .chain(&mut status.deletion_stage_status)
        .next();
    if let Some(stage) = first {
        pen.set(&mut stage.conditions, &StageProgressing::Stopped);
    }
    pen.set(&mut status.conditions, &update_run::Progressing::Stopped);
}
