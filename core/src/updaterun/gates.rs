//! Gates: conditions of objects on the hub that a stage waits for, as it does for its tasks.

use fleet_api::annotations::ROLLOUT;
use fleet_api::conditions::update_run::Abort;
use fleet_api::conditions::update_stage::Succeeded;
use fleet_api::events::{Event as _, UpdateRunEvent};
use fleet_api::placement::{Gate, StageStatus, UpdateRunStatus};

use super::gate_object::GateObject;
use super::options::{self, Options, Source, Sources};
use super::pass::{Halt, Pass};
use super::rollback;
use super::state::is_true;
use super::step::whole_seconds;
use super::world::Run;

/// Gives the gates of a new plan their names, and refuses those that belong nowhere.
pub(super) fn place(run: &Run<'_>, sources: &Sources, status: &mut UpdateRunStatus) -> Result<(), Abort> {
    let strategy = status.staged_update_strategy_snapshot.as_ref();
    let stages = strategy.map(|strategy| strategy.stages.as_slice()).unwrap_or_default();
    let stages: Vec<_> = stages.iter().map(|stage| stage.name.as_str()).collect();
    let Some(recorded) = &mut status.options else {
        return Ok(());
    };
    options::place_gates(&mut recorded.gates, run.name, run.namespace, &stages).map_err(|why| {
        let source = sources.get("gates").copied().unwrap_or(Source::Run);
        source.invalid(run, &format!("{ROLLOUT}gates"), why)
    })
}

/// A gate's object, as messages show it.
pub fn shown(gate: &Gate) -> String {
    if gate.namespace.is_empty() {
        format!("{} {}", gate.kind, gate.name)
    } else {
        format!("{} {}/{}", gate.kind, gate.namespace, gate.name)
    }
}

/// Whether the recorded gates can be of this run. Only a status that was edited by hand has others.
pub(super) fn check(run: &Run<'_>) -> Result<(), Abort> {
    let recorded = run.status.options.as_ref();
    if recorded.is_none_or(|recorded| options::are_sound_gates(&recorded.gates, run.namespace)) {
        Ok(())
    } else {
        Err(Abort::StatusLost { field: "options" })
    }
}

/// The gates whose objects matter now, with their places in the list: those of the stage at hand that have not passed.
/// None while the run takes back what it did.
pub fn open<'a>(run: &Run<'a>) -> Vec<(usize, &'a Gate)> {
    let status = run.status;
    let Some(recorded) = status.options.as_ref().filter(|_| check(run).is_ok()) else {
        return Vec::new();
    };
    let options = Options::of(Some(recorded)).unwrap_or_default();
    let is_open = |stage: &&StageStatus| !is_true(&stage.conditions, Succeeded::TYPE);
    let stage = status.stages_status.iter().find(is_open);
    let Some(stage) = stage.filter(|_| rollback::trigger(status, &options).is_none()) else {
        return Vec::new();
    };
    let gates = recorded.gates.iter().enumerate();
    let open = gates.filter(|(_, gate)| gate.stage == stage.stage_name && gate.passed.is_none());
    open.collect()
}

impl Pass<'_> {
    fn gates_of(&self, stage: &str) -> Vec<(usize, Gate)> {
        let gates = self
            .recorded
            .iter()
            .flat_map(|options| options.gates.iter().enumerate());
        let open = gates.filter(|(_, gate)| gate.stage == stage && gate.passed.is_none());
        open.map(|(place, gate)| (place, gate.clone())).collect()
    }

    fn gate_object(&self, place: usize) -> Option<&GateObject> {
        self.world.gates.get(place).and_then(Option::as_ref)
    }

    /// Whether a gate of the stage that has not passed says that the run has to stop.
    pub(super) fn check_gates(&self, stage: &str) -> Result<(), Halt> {
        for (place, gate) in self.gates_of(stage) {
            let object = self.gate_object(place).filter(|_| !gate.fail_on.is_empty());
            if let Some(says) = object.and_then(|object| object.holds(&gate.fail_on)) {
                return Err(Halt::Trip(Abort::GateFailed {
                    gate: shown(&gate),
                    stage: stage.to_owned(),
                    why: format!("{}=True {}", says.type_, says.reason).trim_end().to_owned(),
                }));
            }
        }
        Ok(())
    }

    /// Whether the gates before or after the stage have passed. One that has is not looked at again.
    pub(super) fn pass_gates(&mut self, stage: &str, when: &str) -> bool {
        let mut all = true;
        for (place, gate) in self.gates_of(stage) {
            if gate.when != when {
                continue;
            }
            let why = match self.gate_object(place) {
                Some(object) if object.holds(&gate.condition).is_some() => {
                    self.gate_has_passed(place, &gate);
                    continue;
                }
                Some(object) => match object.unwatched {
                    Some(why) => why.to_owned(),
                    None => format!("{} is not True", gate.condition),
                },
                None => "there is no such object".to_owned(),
            };
            all = false;
            let event = UpdateRunEvent::GateWaiting {
                stage: stage.to_owned(),
                gate: shown(&gate),
                why,
            };
            if self.memory.tells(&format!("gate {place}"), event.message()) {
                self.step.tell(event);
            }
        }
        all
    }

    fn gate_has_passed(&mut self, place: usize, gate: &Gate) {
        let now = whole_seconds(self.now());
        if let Some(recorded) = self.recorded.as_mut().and_then(|options| options.gates.get_mut(place)) {
            recorded.passed = Some(now);
        }
        self.step.tell(UpdateRunEvent::GatePassed {
            stage: gate.stage.clone(),
            gate: shown(gate),
        });
    }
}
