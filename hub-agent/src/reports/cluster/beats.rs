//! Heartbeats that change nothing: their time on the MemberCluster.

use fleet_api::cluster::{AgentStatus, AgentType, MemberCluster};
use fleet_core::{
    membership::heartbeat,
    session::{
        beat::{Beat, Write},
        condition::whole_second,
        trim::count,
    },
};
use serde_json::json;

use super::ClusterReports;
use crate::writer::{Edit, ToDo, WriteFailure};

impl ClusterReports {
    /// Whether the MemberCluster has an entry of this agent.
    pub(super) fn has_entry(&self) -> bool {
        let mc = self.shared.deps.members.get(&self.member);
        mc.is_some_and(|mc| entry(&mc).is_some())
    }

    /// A beat that changed nothing: its time alone, on the MemberCluster.
    pub(super) async fn write_member(&self, due: Beat) -> Result<bool, WriteFailure> {
        let deps = &self.shared.deps;
        let decide = |mc: Option<&MemberCluster>, _| {
            let leads = *deps.leading.borrow();
            let mine = leads && deps.internals.get(&self.imc).is_some_and(|imc| self.is_mine(&imc));
            let entry = mc.filter(|_| mine).and_then(|mc| Some((mc, entry(mc)?)));
            // Not the leader any more, or the entry has gone: decide anew.
            let Some((mc, (index, agent))) = entry else {
                return ToDo::Nothing(None);
            };
            // Beats that came while this one waited.
            let newest = match self.due_now(mc) {
                Write::Member(newest) => newest,
                _ => due,
            };
            let time = whole_second(newest.at);
            if !heartbeat::replaces(agent.last_received_heartbeat.as_ref().map(|t| t.0), time.0) {
                return ToDo::Nothing(Some(newest));
            }
            if let Err(wait) = self.ask(|budget, now| budget.beat(count(&mc.status), now)) {
                return ToDo::later(wait);
            }
            let op = if agent.last_received_heartbeat.is_some() {
                "replace"
            } else {
                "add"
            };
            let operations = json!([
                { "op": "replace", "path": "/metadata/resourceVersion", "value": mc.metadata.resource_version },
                { "op": op, "path": format!("/status/agentStatus/{index}/lastReceivedHeartbeat"), "value": time },
            ]);
            ToDo::Write(Edit::StatusFields(operations), Some(newest))
        };
        let about = self.about(&deps.members, &self.member);
        let (stored, written) = match deps.writer.decide(&about, decide).await {
            Ok(decided) => decided,
            Err(WriteFailure::Conflict) => return Ok(true),
            Err(WriteFailure::Gone) => return Ok(false),
            Err(failure) => return Err(failure),
        };
        if written.is_some() {
            self.shared.measures.persisted("member_cluster");
        }
        if let Some(beat) = stored {
            self.stored(Write::Member(beat), false);
        }
        Ok(true)
    }

    fn due_now(&self, mc: &MemberCluster) -> Write {
        let period = heartbeat::period(mc.spec.heartbeat_period_seconds);
        self.state
            .lock()
            .beats
            .due(true, period, self.shared.deps.clock.steady())
    }
}

/// The agent's entry, and its place in the list.
fn entry(mc: &MemberCluster) -> Option<(usize, &AgentStatus)> {
    let agents = &mc.status.as_ref()?.agent_status;
    let mut found = agents.iter().enumerate();
    found.find(|(_, agent)| agent.type_ == AgentType::MemberAgent)
}
