//! What a member says about itself: heartbeat, agent status, properties, Events.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{Condition, ms, wire_enum};
use crate::invalid::{
    Invalid, Problem, bounded, cut, generation, list, map, name, required_time, text, time, uid, word,
};
use crate::{limits, pb};

/// "I am alive."
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heartbeat {
    /// The InternalMemberCluster that the member sees; empty if it sees none.
    pub imc_uid: String,
    /// Its generation.
    pub imc_generation: i64,
    /// How far the member's watch of Works is.
    pub newest_work_resource_version: String,
}

/// Joined and Healthy of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentStatus {
    /// The InternalMemberCluster that it was computed for.
    pub imc_uid: String,
    /// The generation that it was computed for.
    pub imc_generation: i64,
    /// The agent's conditions.
    pub conditions: Vec<Condition>,
}

/// What the cluster says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Properties {
    /// The InternalMemberCluster that it was computed for.
    pub imc_uid: String,
    /// The generation that it was computed for.
    pub imc_generation: i64,
    /// Properties by name.
    pub properties: BTreeMap<String, PropertyValue>,
    /// Sums over nodes and pods; none leaves the stored ones.
    pub usage: Option<ResourceUsage>,
    /// Owner by namespace; none leaves the stored ones.
    pub namespaces: Option<BTreeMap<String, String>>,
    /// About the collection.
    pub conditions: Vec<Condition>,
    /// Whether there is anything but conditions.
    pub collected: bool,
}

/// A property and when it was observed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PropertyValue {
    /// Its value.
    pub value: String,
    /// On the member's clock.
    pub observed_at: Timestamp,
}

/// Sums over nodes and pods, as quantities by resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceUsage {
    /// What the nodes have.
    pub capacity: BTreeMap<String, String>,
    /// What pods may use of it.
    pub allocatable: BTreeMap<String, String>,
    /// What no pod has asked for.
    pub available: BTreeMap<String, String>,
    /// On the member's clock.
    pub observed_at: Timestamp,
}

wire_enum! {
    /// What an Event is about.
    EventObject = EventObject as "object" {
        /// The member's own InternalMemberCluster.
        InternalMemberCluster,
        /// One of its Works.
        Work,
    }
}

wire_enum! {
    /// How serious an Event is.
    Severity = EventType as "type" {
        /// As it should be.
        Normal,
        /// Somebody should look.
        Warning,
    }
}

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
    pub severity: Severity,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// How often.
    pub count: u32,
    /// The last time, on the member's clock.
    pub last_seen: Option<Timestamp>,
}

impl TryFrom<pb::Heartbeat> for Heartbeat {
    type Error = Invalid;

    fn try_from(wire: pb::Heartbeat) -> Result<Self, Invalid> {
        let pb::Heartbeat {
            imc_uid,
            imc_generation,
            newest_work_resource_version,
        } = wire;
        Ok(Self {
            // A member whose watch is broken has seen no InternalMemberCluster and still lives.
            imc_uid: text("imc_uid", imc_uid, limits::UID_BYTES)?,
            imc_generation: generation("imc_generation", imc_generation)?,
            newest_work_resource_version: text(
                "newest_work_resource_version",
                newest_work_resource_version,
                limits::WORD_BYTES,
            )?,
        })
    }
}

impl From<Heartbeat> for pb::Heartbeat {
    fn from(plain: Heartbeat) -> Self {
        let Heartbeat {
            imc_uid,
            imc_generation,
            newest_work_resource_version,
        } = plain;
        Self {
            imc_uid,
            imc_generation,
            newest_work_resource_version,
        }
    }
}

impl TryFrom<pb::AgentStatus> for AgentStatus {
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

impl From<AgentStatus> for pb::AgentStatus {
    fn from(plain: AgentStatus) -> Self {
        let AgentStatus {
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

impl TryFrom<pb::Properties> for Properties {
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

impl From<Properties> for pb::Properties {
    fn from(plain: Properties) -> Self {
        let Properties {
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
            observed_at: required_time("observed_at_ms", observed_at_ms)?,
        })
    }
}

impl From<PropertyValue> for pb::PropertyValue {
    fn from(plain: PropertyValue) -> Self {
        let PropertyValue { value, observed_at } = plain;
        Self {
            value,
            observed_at_ms: ms(observed_at),
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
            map(
                field,
                values,
                limits::RESOURCES,
                limits::KEY_BYTES,
                limits::QUANTITY_BYTES,
            )
        };
        Ok(Self {
            capacity: sums("capacity", capacity)?,
            allocatable: sums("allocatable", allocatable)?,
            available: sums("available", available)?,
            observed_at: required_time("observed_at_ms", observed_at_ms)?,
        })
    }
}

impl From<ResourceUsage> for pb::ResourceUsage {
    fn from(plain: ResourceUsage) -> Self {
        let ResourceUsage {
            capacity,
            allocatable,
            available,
            observed_at,
        } = plain;
        Self {
            capacity,
            allocatable,
            available,
            observed_at_ms: ms(observed_at),
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
            count,
            last_seen_ms,
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
            severity: Severity::from_wire(r#type)?,
            // The API server's own limit for Events.
            reason: word("reason", reason, 128)?,
            message: cut(message, 1024),
            count: count.max(1),
            last_seen: time("last_seen_ms", last_seen_ms)?,
        })
    }
}

impl From<Event> for pb::Event {
    fn from(plain: Event) -> Self {
        let Event {
            object,
            work_name,
            object_uid,
            severity,
            reason,
            message,
            count,
            last_seen,
        } = plain;
        Self {
            object: object.to_wire(),
            work_name,
            object_uid,
            r#type: severity.to_wire(),
            reason,
            message,
            count,
            last_seen_ms: last_seen.map_or(0, ms),
        }
    }
}
