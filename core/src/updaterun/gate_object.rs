//! What is known of an object that a gate is about.

use serde::Deserialize;

/// An object that a gate is about, as far as it matters.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GateObject {
    /// Its generation.
    pub generation: i64,
    /// What it says of itself.
    pub conditions: Vec<GateCondition>,
    /// Why nobody knows what it says, if so.
    pub unwatched: Option<&'static str>,
}

/// A condition of some object. Kinds differ in what else they have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GateCondition {
    /// Its type.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why.
    pub reason: String,
    /// The generation that it speaks of, where the kind says so.
    pub observed_generation: Option<i64>,
}

impl GateObject {
    /// The condition of this type, if it is true of what the object is today.
    pub(super) fn holds(&self, type_name: &str) -> Option<&GateCondition> {
        let current = |condition: &&GateCondition| {
            condition.type_ == type_name
                && condition.status == "True"
                && condition.observed_generation.is_none_or(|of| of == self.generation)
        };
        self.conditions.iter().find(current)
    }
}
