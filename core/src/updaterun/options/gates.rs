//! Gates as users write them.

use fleet_api::placement::Gate;
use serde::Deserialize;

use crate::text::quote;

/// Each is a watch on the hub.
const GATES_MAX: usize = 8;
/// The longest name that an object may have.
const TEXT_MAX: usize = 253;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Written {
    stage: String,
    when: String,
    api_version: String,
    kind: String,
    name: String,
    #[serde(default)]
    namespace: String,
    condition: String,
    #[serde(default)]
    fail_on: String,
}

/// A JSON list of gates, or what is wrong with it.
pub(super) fn parse(text: &str) -> Result<Vec<Gate>, String> {
    let written: Vec<Written> =
        serde_json::from_str(text).map_err(|error| format!("it is no JSON list of gates: {error}"))?;
    if written.len() > GATES_MAX {
        return Err(format!(
            "it has {} gates, at most {GATES_MAX} are allowed",
            written.len()
        ));
    }
    written.into_iter().map(gate).collect()
}

fn gate(written: Written) -> Result<Gate, String> {
    if written.when != "before" && written.when != "after" {
        return Err(format!("when: {:?} is neither before nor after", written.when));
    }
    let gate = Gate {
        stage: written.stage,
        when: written.when,
        api_version: written.api_version,
        kind: written.kind,
        name: written.name,
        namespace: written.namespace,
        condition: written.condition,
        fail_on: written.fail_on,
        passed: None,
    };
    bounded(&gate).map(|()| gate)
}

/// Whether each text is there and not too long.
fn bounded(gate: &Gate) -> Result<(), String> {
    for (field, text, needed) in [
        ("stage", &gate.stage, true),
        ("apiVersion", &gate.api_version, true),
        ("kind", &gate.kind, true),
        ("name", &gate.name, true),
        ("condition", &gate.condition, true),
        ("namespace", &gate.namespace, false),
        ("failOn", &gate.fail_on, false),
    ] {
        if needed && text.is_empty() || text.len() > TEXT_MAX {
            return Err(format!("{field}: {:?} is empty or too long", quote(text)));
        }
    }
    if gate.api_version.split('/').count() > 2 {
        return Err(format!("apiVersion: {:?} is none such as batch/v1", gate.api_version));
    }
    Ok(())
}

/// Whether it names one object, which a run in `namespace` may read.
fn inside(gate: &Gate, namespace: &str) -> Result<(), String> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.:".contains(c);
    if gate.name.len() > TEXT_MAX || !gate.name.chars().all(plain) {
        return Err(format!("name: {:?} cannot be an object's name", quote(&gate.name)));
    }
    if !gate.namespace.chars().all(plain) {
        return Err(format!(
            "namespace: {:?} cannot be a namespace's name",
            quote(&gate.namespace)
        ));
    }
    if !namespace.is_empty() && gate.namespace != namespace {
        return Err(format!(
            "namespace: {:?} is not {namespace:?}: a namespaced run reads only its own",
            quote(&gate.namespace)
        ));
    }
    Ok(())
}

/// Whether recorded gates are such as [`parse`] and [`place`] leave them: whoever may write a run's status can record
/// others.
pub(in super::super) fn are_sound(gates: &[Gate], namespace: &str) -> bool {
    let sound = |gate: &Gate| bounded(gate).is_ok() && inside(gate, namespace).is_ok();
    gates.len() <= GATES_MAX && gates.iter().all(sound)
}

/// Fills names in, and checks that gates belong to a stage and stay in the run's namespace.
pub(in super::super) fn place(gates: &mut [Gate], run: &str, namespace: &str, stages: &[&str]) -> Result<(), String> {
    for gate in gates {
        if !stages.contains(&gate.stage.as_str()) {
            return Err(format!(
                "there is no stage {:?}; there are {}",
                gate.stage,
                stages.join(", ")
            ));
        }
        gate.name = gate.name.replace("{run}", run).replace("{stage}", &gate.stage);
        if gate.namespace.is_empty() {
            namespace.clone_into(&mut gate.namespace);
        }
        inside(gate, namespace)?;
    }
    Ok(())
}
