//! What a session's newest reports and beats amount to, given the objects as they are.

use fleet_api::cluster::{AgentType, InternalMemberCluster, InternalMemberClusterStatus};
use fleet_core::{
    membership::heartbeat,
    session::{
        Answer, Decision, Outcome,
        beat::{Beats, Write},
        cluster::{self as decide, AgentReport, PropertiesReport},
        condition::clamped,
    },
};
use jiff::Timestamp;
use tokio::time::Instant;

use super::ClusterReports;

#[derive(Default)]
pub(super) struct State {
    pub(super) beats: Beats,
    /// When the oldest beat came that is not stored, in steady time, to measure.
    pub(super) arrived: Option<Timestamp>,
    pub(super) agent: Option<Kept<AgentReport>>,
    pub(super) properties: Option<Kept<PropertiesReport>>,
    pub(super) repairs: u32,
    pub(super) repair_at: Option<Instant>,
}

/// A report, kept for repairs after it was answered.
pub(super) struct Kept<R> {
    /// None: the hub's own.
    pub(super) seq: Option<u64>,
    pub(super) report: R,
}

/// What a pass found to do.
#[derive(Debug)]
pub(super) struct Plan {
    /// Reports that need no write.
    pub(super) answers: Vec<(u64, Answer)>,
    /// Reports that are answered once the status is written.
    pub(super) included: Vec<(u64, Answer)>,
    pub(super) status: InternalMemberClusterStatus,
    pub(super) due: Write,
    /// Whether the status says something new, and not only that the member lives.
    pub(super) content: bool,
    pub(super) repair: bool,
    pub(super) repair_at: Option<Instant>,
    pub(super) read_again: bool,
}

impl ClusterReports {
    /// What to do about the newest reports and beats, given the object as it is. `live`: it was just read.
    pub(super) fn plan(&self, imc: &InternalMemberCluster, live: bool) -> Plan {
        let deps = &self.shared.deps;
        let mut state = self.state.lock();
        // Whatever is written later says when the newest sign of life came, and not when it was written.
        let said_at = state.beats.newest().unwrap_or_else(|| deps.clock.now());
        let mut plan = Plan {
            answers: vec![],
            included: vec![],
            status: imc.status.clone().unwrap_or_default(),
            due: Write::Nothing,
            content: false,
            repair: false,
            repair_at: None,
            read_again: false,
        };
        let may_repair = state.repair_at.is_none_or(|at| at <= Instant::now());
        let mut work = imc.clone();
        let mut content = false;
        let agent = state.agent.as_ref().map(|kept| {
            let decision = decide::agent_status(&work, &AgentType::MemberAgent, &kept.report, said_at);
            (kept.seq, decision)
        });
        if let Some((seq, decision)) = agent {
            content |= plan.take(seq, decision, &mut work, live, may_repair, state.repair_at);
        }
        let properties = state.properties.as_ref().map(|kept| {
            let decision = decide::properties(&work, &kept.report, said_at);
            (kept.seq, decision)
        });
        if let Some((seq, decision)) = properties {
            content |= plan.take(seq, decision, &mut work, live, may_repair, state.repair_at);
        }
        plan.content = content;
        if content {
            state.beats.content_changed();
        }
        let leading = *deps.leading.borrow();
        let period = heartbeat::period(imc.spec.heartbeat_period_seconds);
        plan.due = state.beats.due(leading, period, deps.clock.steady());
        if matches!(plan.due, Write::Member(_)) && !self.has_entry() {
            // There is nothing on the MemberCluster yet to put a time on.
            let Write::Member(beat) = plan.due else { return plan };
            plan.due = Write::Both(beat);
        }
        if let Write::Both(beat) | Write::Internal(beat) = plan.due {
            if let Some(kept) = state
                .properties
                .as_ref()
                .filter(|kept| kept.report.imc_uid == self.live.imc_uid)
            {
                refresh(&mut work, &kept.report, said_at);
            }
            let status = work.status.get_or_insert_default();
            decide::stamp(status, &AgentType::MemberAgent, beat.at);
        }
        plan.status = work.status.unwrap_or_default();
        plan
    }
}

impl Plan {
    /// Takes a decision in; true if it changes the status.
    fn take(
        &mut self,
        seq: Option<u64>,
        decision: Decision<InternalMemberClusterStatus>,
        work: &mut InternalMemberCluster,
        live: bool,
        may_repair: bool,
        repair_at: Option<Instant>,
    ) -> bool {
        match (decision, seq) {
            (Decision::Answer(answer), Some(seq)) => self.answers.push((seq, answer)),
            (Decision::ReadAgain, Some(seq)) if live => {
                let reason = "computed for a generation that does not exist";
                self.answers.push((seq, Answer::because(Outcome::Invalid, reason)));
            }
            (Decision::ReadAgain, Some(_)) => self.read_again = true,
            (Decision::Answer(_) | Decision::ReadAgain, None) => {}
            (Decision::Write { write, then }, Some(seq)) => {
                work.status = Some(write);
                self.included.push((seq, then));
                return true;
            }
            // Somebody has overwritten what was stored before.
            (Decision::Write { write, .. }, None) if may_repair => {
                work.status = Some(write);
                self.repair = true;
                return true;
            }
            (Decision::Write { .. }, None) => self.repair_at = repair_at,
        }
        false
    }
}

/// Brings observation times up to date, which alone are not worth a write.
fn refresh(imc: &mut InternalMemberCluster, report: &PropertiesReport, now: Timestamp) {
    if !report.collected {
        return;
    }
    let status = imc.status.get_or_insert_default();
    for (name, value) in &mut status.properties {
        if let Some(said) = report.properties.get(name).filter(|said| said.value == value.value) {
            value.observation_time = clamped(said.observation_time.0, now);
        }
    }
    if let (Some(usage), Some(said)) = (&mut status.resource_usage, &report.usage)
        && let Some(at) = &said.observation_time
    {
        usage.observation_time = Some(clamped(at.0, now));
    }
}
