//! What a stage waits for besides its tasks: conditions of objects on the hub.

use fleet_api::placement::{Gate, StageStatus};

use super::super::chain::{Cause, Step};
use super::super::fleet::Run;
use super::super::shell::quoted;
use crate::updaterun::shown_gate;

/// The stage's gates before or after its clusters. `over` if nothing asks for them any more.
pub(super) fn steps(run: &Run<'_>, stage: &StageStatus, when: &str, over: bool) -> Vec<Step> {
    let options = run.status.and_then(|status| status.options.as_ref());
    let gates = options.into_iter().flat_map(|options| &options.gates);
    let gates = gates.filter(|gate| gate.stage == stage.stage_name && gate.when == when);
    gates.map(|gate| step(gate, over)).collect()
}

/// The first of them that has not passed.
pub(in crate::explain) fn waiting(run: &Run<'_>, stage: &StageStatus, when: &str) -> Option<Cause> {
    let options = run.status.and_then(|status| status.options.as_ref());
    let mut gates = options.into_iter().flat_map(|options| &options.gates);
    let gate = gates.find(|gate| gate.stage == stage.stage_name && gate.when == when && gate.passed.is_none());
    gate.map(cause)
}

fn step(gate: &Gate, over: bool) -> Step {
    let name = format!("gate {} stage {}", gate.when, gate.stage);
    if over || gate.passed.is_some() {
        return Step::done(name, "").since(gate.passed.as_ref());
    }
    Step::waiting(name, cause(gate))
}

fn cause(gate: &Gate) -> Cause {
    let namespace = match gate.namespace.as_str() {
        "" => String::new(),
        namespace => format!(" -n {}", quoted(namespace)),
    };
    let text = format!("waits until {} is True of {}", gate.condition, shown_gate(gate));
    let kind = gate.kind.to_lowercase();
    let next = format!(
        "kubectl get {} {}{namespace} -o yaml",
        quoted(&kind),
        quoted(&gate.name)
    );
    Cause::new(text, next)
}
