//! What a member's agent says about itself and its cluster, merged into the InternalMemberCluster.

use std::collections::BTreeMap;

use fleet_api::cluster::{
    AgentStatus, AgentType, InternalMemberCluster, InternalMemberClusterStatus, PropertyValue, ResourceUsage,
};
use fleet_api::conditions::{Status, find, member_agent, properties::REPORTED_BY_MEMBERS};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::condition::{ReportedCondition, clamped, whole_second};
use super::{Answer, Decision, Outcome};
use crate::membership::heartbeat;

/// Joined and Healthy of one agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentReport {
    /// The InternalMemberCluster it was computed for.
    pub imc_uid: String,
    /// Its generation then.
    pub imc_generation: i64,
    /// The agent's conditions.
    pub conditions: Vec<ReportedCondition>,
}

/// What the cluster says about itself.
#[derive(Debug, Clone, PartialEq)]
pub struct PropertiesReport {
    /// The InternalMemberCluster it was computed for.
    pub imc_uid: String,
    /// Its generation then.
    pub imc_generation: i64,
    /// Whether there are values; otherwise only the conditions count.
    pub collected: bool,
    /// By name.
    pub properties: BTreeMap<String, PropertyValue>,
    /// None leaves the stored ones.
    pub usage: Option<ResourceUsage>,
    /// None leaves the stored ones.
    pub namespaces: Option<BTreeMap<String, String>>,
    /// About the collection.
    pub conditions: Vec<ReportedCondition>,
}

/// Stamps a heartbeat of this agent at the hub's time. Never backwards, unless the time that is there lies in the future.
pub fn stamp(status: &mut InternalMemberClusterStatus, agent: &AgentType, now: Timestamp) {
    let entry = entry(status, agent);
    let stamped = whole_second(now);
    if heartbeat::replaces(entry.last_received_heartbeat.as_ref().map(|t| t.0), stamped.0) {
        entry.last_received_heartbeat = Some(stamped);
    }
}

/// Merges an agent's own conditions. An entry has exactly `Joined` and `Healthy`.
pub fn agent_status(
    imc: &InternalMemberCluster,
    agent: &AgentType,
    report: &AgentReport,
    now: Timestamp,
) -> Decision<InternalMemberClusterStatus> {
    if let Some(early) = stale(imc, &report.imc_uid, report.imc_generation) {
        return early;
    }
    let known = [member_agent::Joined::TYPE, member_agent::Healthy::TYPE];
    if let Some(other) = report.conditions.iter().find(|c| !known.contains(&c.type_.as_str())) {
        return Decision::answer(Outcome::Invalid, format!("an agent has no condition {}", other.type_));
    }
    let before = imc.status.clone().unwrap_or_default();
    let stored = before.agent(agent).map(|a| a.conditions.as_slice()).unwrap_or_default();
    let left_since = find(stored, member_agent::Joined::TYPE)
        .filter(|c| Status::of(c) == Status::False)
        .and_then(|c| c.observed_generation)
        .unwrap_or(0);
    if report.imc_generation < left_since {
        return Decision::answer(Outcome::Unchanged, "said before the cluster left");
    }
    let mut conditions = stored.to_vec();
    for said in &report.conditions {
        let merged = ReportedCondition {
            observed_generation: report.imc_generation,
            ..said.clone()
        }
        .merged(stored, now);
        match conditions.iter_mut().find(|c| c.type_ == merged.type_) {
            Some(old) => *old = merged,
            None => conditions.push(merged),
        }
    }
    let mut after = before.clone();
    entry(&mut after, agent).conditions = conditions;
    if after == before {
        return Decision::answer(Outcome::Unchanged, "");
    }
    stamp(&mut after, agent, now);
    Decision::write(after)
}

/// Merges what a cluster says about itself: values replace, conditions are set by type and never removed.
pub fn properties(
    imc: &InternalMemberCluster,
    report: &PropertiesReport,
    now: Timestamp,
) -> Decision<InternalMemberClusterStatus> {
    if let Some(early) = stale(imc, &report.imc_uid, report.imc_generation) {
        return early;
    }
    let before = imc.status.clone().unwrap_or_default();
    let mut after = before.clone();
    if report.collected {
        after.properties = report
            .properties
            .iter()
            .map(|(name, p)| {
                let observation_time = clamped(p.observation_time.0, now);
                (
                    name.clone(),
                    PropertyValue {
                        value: p.value.clone(),
                        observation_time,
                    },
                )
            })
            .collect();
        if let Some(usage) = &report.usage {
            let observation_time = usage.observation_time.as_ref().map(|t| clamped(t.0, now));
            after.resource_usage = Some(ResourceUsage {
                observation_time,
                ..usage.clone()
            });
        }
        if let Some(namespaces) = &report.namespaces {
            after.namespaces.clone_from(namespaces);
        }
    }
    let mut refused = vec![];
    for said in &report.conditions {
        if !REPORTED_BY_MEMBERS.contains(&said.type_.as_str()) {
            refused.push(said.type_.as_str());
            continue;
        }
        let merged = ReportedCondition {
            observed_generation: report.imc_generation,
            ..said.clone()
        }
        .merged(&before.conditions, now);
        match after.conditions.iter_mut().find(|c| c.type_ == merged.type_) {
            Some(old) => *old = merged,
            None => after.conditions.push(merged),
        }
    }
    // The rest of the report is still true; a newer member may know conditions that this hub does not.
    let reason = if refused.is_empty() {
        String::new()
    } else {
        format!("ignored conditions {}", refused.join(", "))
    };
    if same_content(&before, &after) {
        return Decision::Answer(Answer::because(Outcome::Unchanged, reason));
    }
    Decision::Write {
        write: after,
        then: Answer::because(Outcome::Persisted, reason),
    }
}

/// Whether two statuses differ at most in observation and heartbeat times. Such a difference goes with the next
/// heartbeat that is written anyway.
pub fn same_content(a: &InternalMemberClusterStatus, b: &InternalMemberClusterStatus) -> bool {
    let timeless = |status: &InternalMemberClusterStatus| {
        let mut status = status.clone();
        let never = || Time(Timestamp::UNIX_EPOCH);
        status
            .properties
            .values_mut()
            .for_each(|p| p.observation_time = never());
        status.resource_usage.iter_mut().for_each(|u| u.observation_time = None);
        status
            .agent_status
            .iter_mut()
            .for_each(|a| a.last_received_heartbeat = None);
        status
    };
    timeless(a) == timeless(b)
}

fn stale<T>(imc: &InternalMemberCluster, uid: &str, generation: i64) -> Option<Decision<T>> {
    if imc.metadata.uid.as_deref() != Some(uid) {
        return Some(Decision::answer(
            Outcome::UidMismatch,
            "the InternalMemberCluster is another one now",
        ));
    }
    (generation > imc.metadata.generation.unwrap_or_default()).then_some(Decision::ReadAgain)
}

fn entry<'a>(status: &'a mut InternalMemberClusterStatus, agent: &AgentType) -> &'a mut AgentStatus {
    let at = status
        .agent_status
        .iter()
        .position(|a| a.type_ == *agent)
        .unwrap_or_else(|| {
            status.agent_status.push(AgentStatus {
                type_: agent.clone(),
                ..AgentStatus::default()
            });
            status.agent_status.len() - 1
        });
    &mut status.agent_status[at]
}

#[cfg(test)]
mod tests;
