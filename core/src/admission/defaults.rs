//! What is filled in where a placement says nothing.
//!
//! The schema fills in most of it; the rest (whole objects that are absent) is filled in here, so that people see what
//! applies. Whoever reads a placement takes absent fields for these values all the same: this may not have been asked.

use fleet_api::placement::{ApplyStrategyType, PlacementSpec, RolloutStrategyType};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

/// The longest spec that gets defaults. As a tree it takes up to sixty times as much.
pub const SPEC_MAX: usize = 64 * 1024;

/// The defaults of a placement's spec.
pub fn placement(spec: &mut PlacementSpec) {
    spec.policy.get_or_insert_default();
    let strategy = spec.strategy.get_or_insert_default();
    if strategy.type_ == RolloutStrategyType::RollingUpdate {
        strategy.rolling_update.get_or_insert_default();
    }
    let apply = strategy.apply_strategy.get_or_insert_default();
    if apply.type_ == ApplyStrategyType::ServerSideApply {
        apply.server_side_apply_config.get_or_insert_default();
    }
}

/// One entry of a JSON patch (RFC 6902) that adds a value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Addition {
    op: &'static str,
    /// Where.
    pub path: String,
    /// What.
    pub value: Value,
}

/// The patch that fills in a placement, given as the text of its spec. Nothing that is there is changed; what cannot be
/// read gets no defaults, and the schema says why it is refused.
///
/// The schema has not been asked yet, so that the text may be anything. One that is too long gets no defaults either.
pub fn patch(spec: &str) -> Vec<Addition> {
    if spec.len() > SPEC_MAX {
        return Vec::new();
    }
    let given = serde_json::from_str::<Value>(spec).ok().filter(Value::is_object);
    let Some(given) = given else { return Vec::new() };
    let Ok(mut spec) = PlacementSpec::deserialize(&given) else {
        return Vec::new();
    };
    placement(&mut spec);
    let mut additions = Vec::new();
    if let Ok(wanted) = serde_json::to_value(&spec) {
        add("/spec", &given, &wanted, &mut additions);
    }
    additions
}

fn add(path: &str, given: &Value, wanted: &Value, additions: &mut Vec<Addition>) {
    match (given, wanted) {
        (Value::Object(given), Value::Object(wanted)) => {
            for (key, value) in wanted {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                match given.get(key) {
                    None | Some(Value::Null) => additions.push(Addition {
                        op: "add",
                        path,
                        value: value.clone(),
                    }),
                    Some(there) => add(&path, there, value, additions),
                }
            }
        }
        (Value::Array(given), Value::Array(wanted)) if given.len() == wanted.len() => {
            for (i, (given, wanted)) in given.iter().zip(wanted).enumerate() {
                add(&format!("{path}/{i}"), given, wanted, additions);
            }
        }
        _ => {}
    }
}
