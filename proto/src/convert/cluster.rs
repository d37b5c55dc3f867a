//! What a member says about itself: agent status, properties, Events.

use fleet_api::{
    cluster::{PropertyValue, ResourceUsage},
    events::EventType,
};
use fleet_core::session::cluster::{AgentReport, PropertiesReport};
use k8s_openapi::apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::Time};

use super::{OnWire as _, ms, on_wire};
use crate::invalid::{Invalid, Problem, bounded, cut, generation, list, map, name, required_time, text, uid, word};
use crate::{limits, pb};

/// What an Event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventObject {
    /// The member's own InternalMemberCluster.
    InternalMemberCluster,
    /// One of its Works.
    Work,
}

on_wire!(EventObject = EventObject as "object" { InternalMemberCluster, Work });
on_wire!(EventType = EventType as "type" { Normal, Warning });

/// Something that people should see on the hub.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub object: EventObject,
    /// The Work's name; empty for the InternalMemberCluster.
    pub work_name: String,
    /// The object's uid.
    pub object_uid: String,
    /// How serious.
    pub type_: EventType,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
}

impl TryFrom<pb::AgentStatus> for AgentReport {
    type Error = Invalid;

    fn try_from(wire: pb::AgentStatus) -> Result<Self, Invalid> {
        let pb::AgentStatus {
            imc_uid,
            imc_generation,
            conditions,
        } = wire;
        Ok(Self {
            imc_uid: uid("imc_uid", imc_uid)?,
            imc_generation: generation("imc_generation", imc_generation)?,
            conditions: list("conditions", conditions, limits::CONDITIONS)?,
        })
    }
}

impl From<AgentReport> for pb::AgentStatus {
    fn from(plain: AgentReport) -> Self {
        let AgentReport {
            imc_uid,
            imc_generation,
            conditions,
        } = plain;
        Self {
            imc_uid,
            imc_generation,
            conditions: conditions.into_iter().map(Into::into).collect(),
        }
    }
}

impl TryFrom<pb::Properties> for PropertiesReport {
    type Error = Invalid;

    fn try_from(wire: pb::Properties) -> Result<Self, Invalid> {
        let pb::Properties {
            imc_uid,
            imc_generation,
            properties,
            usage,
            namespaces,
            conditions,
            collected,
        } = wire;
        bounded("properties", properties.len(), limits::PROPERTIES)?;
        let total = properties
            .iter()
            .map(|(key, value)| key.len() + value.value.len())
            .sum();
        bounded("properties in bytes", total, limits::PROPERTIES_BYTES)?;
        let properties = properties
            .into_iter()
            .map(|(key, value)| {
                let key = word("properties key", key, limits::KEY_BYTES)?;
                let value = PropertyValue::try_from(value).map_err(|e| e.within(&format!("properties[{key}]")))?;
                Ok((key, value))
            })
            .collect::<Result<_, Invalid>>()?;
        let namespaces = namespaces
            .map(|pb::Namespaces { owner_by_name }| {
                map(
                    "namespaces",
                    owner_by_name,
                    limits::NAMESPACES,
                    limits::NAME_BYTES,
                    limits::NAME_BYTES,
                )
            })
            .transpose()?;
        Ok(Self {
            imc_uid: uid("imc_uid", imc_uid)?,
            imc_generation: generation("imc_generation", imc_generation)?,
            properties,
            usage: usage
                .map(|u| ResourceUsage::try_from(u).map_err(|e| e.within("usage")))
                .transpose()?,
            namespaces,
            conditions: list("conditions", conditions, limits::CONDITIONS)?,
            collected,
        })
    }
}

impl From<PropertiesReport> for pb::Properties {
    fn from(plain: PropertiesReport) -> Self {
        let PropertiesReport {
            imc_uid,
            imc_generation,
            properties,
            usage,
            namespaces,
            conditions,
            collected,
        } = plain;
        Self {
            imc_uid,
            imc_generation,
            properties: properties.into_iter().map(|(key, value)| (key, value.into())).collect(),
            usage: usage.map(Into::into),
            namespaces: namespaces.map(|owner_by_name| pb::Namespaces { owner_by_name }),
            conditions: conditions.into_iter().map(Into::into).collect(),
            collected,
        }
    }
}

impl TryFrom<pb::PropertyValue> for PropertyValue {
    type Error = Invalid;

    fn try_from(wire: pb::PropertyValue) -> Result<Self, Invalid> {
        let pb::PropertyValue { value, observed_at_ms } = wire;
        Ok(Self {
            value: text("value", value, limits::PROPERTY_BYTES)?,
            observation_time: Time(required_time("observed_at_ms", observed_at_ms)?),
        })
    }
}

impl From<PropertyValue> for pb::PropertyValue {
    fn from(plain: PropertyValue) -> Self {
        let PropertyValue {
            value,
            observation_time,
        } = plain;
        Self {
            value,
            observed_at_ms: ms(observation_time.0),
        }
    }
}

impl TryFrom<pb::ResourceUsage> for ResourceUsage {
    type Error = Invalid;

    fn try_from(wire: pb::ResourceUsage) -> Result<Self, Invalid> {
        let pb::ResourceUsage {
            capacity,
            allocatable,
            available,
            observed_at_ms,
        } = wire;
        let sums = |field, values| {
            let (entries, key, value) = (limits::RESOURCES, limits::KEY_BYTES, limits::QUANTITY_BYTES);
            let values = map(field, values, entries, key, value)?;
            Ok(values.into_iter().map(|(name, sum)| (name, Quantity(sum))).collect())
        };
        Ok(Self {
            capacity: sums("capacity", capacity)?,
            allocatable: sums("allocatable", allocatable)?,
            available: sums("available", available)?,
            observation_time: Some(Time(required_time("observed_at_ms", observed_at_ms)?)),
        })
    }
}

impl From<ResourceUsage> for pb::ResourceUsage {
    fn from(plain: ResourceUsage) -> Self {
        let ResourceUsage {
            capacity,
            allocatable,
            available,
            observation_time,
        } = plain;
        let sums = |values: std::collections::BTreeMap<String, Quantity>| {
            values.into_iter().map(|(name, sum)| (name, sum.0)).collect()
        };
        Self {
            capacity: sums(capacity),
            allocatable: sums(allocatable),
            available: sums(available),
            observed_at_ms: observation_time.map_or(0, |at| ms(at.0)),
        }
    }
}

impl TryFrom<pb::Event> for Event {
    type Error = Invalid;

    fn try_from(wire: pb::Event) -> Result<Self, Invalid> {
        let pb::Event {
            object,
            work_name,
            object_uid,
            r#type,
            reason,
            message,
        } = wire;
        let object = EventObject::from_wire(object)?;
        let work_name = match object {
            EventObject::Work => name("work_name", work_name)?,
            EventObject::InternalMemberCluster if work_name.is_empty() => work_name,
            EventObject::InternalMemberCluster => {
                return Err(Invalid::new(
                    "work_name",
                    Problem::Malformed("given although the Event is not about a Work"),
                ));
            }
        };
        Ok(Self {
            object,
            work_name,
            object_uid: uid("object_uid", object_uid)?,
            type_: EventType::from_wire(r#type)?,
            // The API server's own limit for Events.
            reason: word("reason", reason, 128)?,
            message: cut(message, 1024),
        })
    }
}

impl From<Event> for pb::Event {
    fn from(plain: Event) -> Self {
        let Event {
            object,
            work_name,
            object_uid,
            type_,
            reason,
            message,
        } = plain;
        Self {
            object: object.to_wire(),
            work_name,
            object_uid,
            r#type: type_.to_wire(),
            reason,
            message,
        }
    }
}
