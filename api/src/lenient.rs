//! Decoding that forgives what other writers get wrong.
//!
//! One odd field must not cost us the object around it: `null` stands for "not set", also where a list, a map, a time
//! or a field with a default is expected. (`Option` fields do this by themselves.)

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::{
    api::resource::Quantity,
    apis::meta::v1::{Condition, Time},
};
use serde::{Deserialize, Deserializer};

/// `null` is the type's default.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::<T>::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// Amounts by name. The API server takes numbers for them too, and gives them back as it got them.
pub(crate) fn quantities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Quantity>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Amount {
        Text(String),
        Number(serde_json::Number),
    }
    let amounts = Option::<BTreeMap<String, Amount>>::deserialize(deserializer)?.unwrap_or_default();
    let quantity = |amount| match amount {
        Amount::Text(text) => Quantity(text),
        Amount::Number(number) => Quantity(number.to_string()),
    };
    Ok(amounts
        .into_iter()
        .map(|(name, amount)| (name, quantity(amount)))
        .collect())
}

/// The time of something whose time nobody wrote down.
pub(crate) fn epoch() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

/// `null` is [`epoch`].
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
    Option::<Time>::deserialize(deserializer).map(|time| time.unwrap_or_else(epoch))
}

/// Conditions, each of which may lack anything but still tells what it has.
pub(crate) fn conditions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Condition>, D::Error> {
    let conditions = Option::<Vec<OddCondition>>::deserialize(deserializer)?.unwrap_or_default();
    Ok(conditions.into_iter().map(Condition::from).collect())
}

/// One such condition.
pub(crate) fn condition<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Condition, D::Error> {
    OddCondition::deserialize(deserializer).map(Condition::from)
}

/// [`Condition`], whose own decoder refuses a missing or null `lastTransitionTime`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OddCondition {
    last_transition_time: Option<Time>,
    message: Option<String>,
    observed_generation: Option<i64>,
    reason: Option<String>,
    status: Option<String>,
    #[serde(rename = "type")]
    type_: Option<String>,
}

impl From<OddCondition> for Condition {
    fn from(odd: OddCondition) -> Self {
        Self {
            last_transition_time: odd.last_transition_time.unwrap_or_else(epoch),
            message: odd.message.unwrap_or_default(),
            observed_generation: odd.observed_generation,
            reason: odd.reason.unwrap_or_default(),
            status: odd.status.unwrap_or_default(),
            type_: odd.type_.unwrap_or_default(),
        }
    }
}

/// A module per field whose default is not its type's: `value` for serde and the schema, `deserialize` so that `null`
/// means the same as absent.
macro_rules! field_default {
    ($name:ident: $type:ty = $value:expr) => {
        pub(super) mod $name {
            #[allow(unused_imports, reason = "only types that are not built in need it")]
            use super::*;

            pub(in super::super) fn value() -> $type {
                $value
            }

            pub(in super::super) fn deserialize<'de, D: serde::Deserializer<'de>>(
                deserializer: D,
            ) -> Result<$type, D::Error> {
                Ok(<Option<$type> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_else(value))
            }
        }
    };
}
pub(crate) use field_default;
