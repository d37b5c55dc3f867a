//! What the agent says about itself and its cluster, and what it makes of the answers.
//!
//! Level-triggered: everything is computed from what is true now, put into the outbox when it differs from what was put
//! last, and put again whenever the hub may have lost it.

use std::sync::Arc;

use fleet_api::{
    conditions::member_agent::{Healthy, Joined},
    events::InternalMemberClusterEvent,
};
use fleet_core::session::{Outcome, cluster::AgentReport, outbox::Settled, seen::Subject};
use fleet_proto::convert::{Ack, MemberMessage};
use fleet_runtime::clock::Clock;

use crate::{
    measures::Measures,
    membership::{Imc, Phase},
    outgoing::{Outgoing, said},
    properties::ClusterReport,
};

/// Without any change, properties are said again with every so many heartbeats, so that their times do not grow old.
const REFRESH_BEATS: u32 = 5;

/// One InternalMemberCluster at one generation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    uid: String,
    generation: i64,
}

impl Version {
    fn of(imc: &Imc) -> Self {
        Self {
            uid: imc.uid.clone(),
            generation: imc.generation,
        }
    }
}

/// The reports about the cluster itself.
#[derive(Debug)]
pub(super) struct Reports {
    outgoing: Arc<Outgoing>,
    measures: Measures,
    clock: Clock,
    phase: Phase,
    health: Option<Healthy>,
    properties: Option<Arc<ClusterReport>>,
    /// What was put last.
    said: Said,
    /// The hub has taken ApplierStopped for this version.
    stopped: Option<Version>,
    /// The hub refused it, and why.
    refused: Option<(Version, String)>,
    /// The hub has stored Joined=False for this version.
    left: Option<Version>,
    /// What people have been told.
    told: Told,
    beats_since_properties: u32,
}

#[derive(Debug, Default)]
struct Said {
    agent: Option<(AgentReport, Joined)>,
    properties: Option<(Version, Arc<ClusterReport>)>,
    stopped: Option<Version>,
}

#[derive(Debug, Default)]
struct Told {
    joined: Option<(Version, &'static str)>,
    healthy: Option<bool>,
}

impl Reports {
    pub(super) fn new(outgoing: Arc<Outgoing>, measures: Measures, clock: Clock) -> Self {
        Self {
            outgoing,
            measures,
            clock,
            phase: Phase::Idle,
            health: None,
            properties: None,
            said: Said::default(),
            stopped: None,
            refused: None,
            left: None,
            told: Told::default(),
            beats_since_properties: 0,
        }
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        if uid(&self.phase) != uid(&phase) {
            // Another membership, or none: what was to be said about the old one is of no use to anybody.
            for subject in [Subject::AgentStatus, Subject::Properties, Subject::Stopped] {
                self.outgoing.forget(&subject);
            }
            self.said = Said::default();
        }
        match &phase {
            Phase::Idle => {}
            Phase::Joined(_) => {
                self.outgoing.forget(&Subject::Stopped);
                self.said.stopped = None;
            }
            Phase::Stopped(_) => {
                self.outgoing.forget(&Subject::Properties);
                self.said.properties = None;
            }
        }
        self.phase = phase;
        self.update();
    }

    pub(super) fn set_health(&mut self, health: Option<Healthy>) {
        self.health = health;
        self.update();
    }

    pub(super) fn set_properties(&mut self, properties: Option<Arc<ClusterReport>>) {
        self.properties = properties;
        self.update();
    }

    /// A heartbeat went out.
    pub(super) fn beat(&mut self) {
        self.beats_since_properties += 1;
    }

    /// A session has begun, or the hub asks: everything is said again. In state Leave that is ApplierStopped first.
    pub(super) fn say_again(&mut self) {
        self.said = Said::default();
        self.stopped = None;
        self.refused = None;
        self.update();
    }

    /// Whether the hub has stored that this cluster left, so that it falls silent.
    pub(super) fn has_left(&self, imc: &Imc) -> bool {
        self.left.as_ref() == Some(&Version::of(imc))
    }

    fn update(&mut self) {
        match self.phase.clone() {
            Phase::Idle => {}
            Phase::Joined(imc) => {
                self.say_agent(&imc, Joined::Joined);
                self.say_properties(&imc);
            }
            Phase::Stopped(imc) => {
                let version = Version::of(&imc);
                if self.said.stopped.as_ref() != Some(&version) {
                    self.said.stopped = Some(version.clone());
                    let message = MemberMessage::ApplierStopped {
                        imc_uid: imc.uid.clone(),
                        imc_generation: imc.generation,
                    };
                    self.outgoing.report(Subject::Stopped, message);
                }
                // Joined=False only after the hub has released the Works.
                if self.stopped.as_ref() == Some(&version) {
                    self.say_agent(&imc, Joined::Left);
                } else if let Some((refused, error)) = &self.refused
                    && *refused == version
                {
                    let error = error.clone();
                    self.say_agent(&imc, Joined::FailedToLeave { error });
                }
            }
        }
    }

    fn say_agent(&mut self, imc: &Imc, joined: Joined) {
        let mut conditions = vec![said(&joined)];
        conditions.extend(self.health.as_ref().map(said));
        let status = AgentReport {
            imc_uid: imc.uid.clone(),
            imc_generation: imc.generation,
            conditions,
        };
        if self.said.agent.as_ref().is_some_and(|(before, _)| *before == status) {
            return;
        }
        self.said.agent = Some((status.clone(), joined));
        self.outgoing
            .report(Subject::AgentStatus, MemberMessage::AgentStatus(status));
    }

    fn say_properties(&mut self, imc: &Imc) {
        let Some(report) = &self.properties else { return };
        let version = Version::of(imc);
        let known = matches!(&self.said.properties, Some((v, before)) if *v == version && before.same_content(report));
        if known && self.beats_since_properties < REFRESH_BEATS {
            return;
        }
        self.beats_since_properties = 0;
        self.said.properties = Some((version, report.clone()));
        let message = report.message(&imc.uid, imc.generation);
        self.outgoing
            .report(Subject::Properties, MemberMessage::Properties(message));
    }

    /// The hub answered. What it could not take, or could not know yet, is said again.
    pub(super) fn answered(&mut self, ack: &Ack) -> Settled {
        let settled = self.outgoing.answered(ack.seq, self.outcome(ack), self.clock.steady());
        self.measures.answered(self.outgoing.unanswered());
        if let Settled::Trim(subject) = &settled {
            tracing::error!(?subject, "The hub finds this report too large");
        }
        let good = matches!(ack.outcome, Outcome::Persisted | Outcome::Unchanged);
        match &settled {
            Settled::Done(Subject::Stopped) => {
                let version = self.said.stopped.clone();
                if good {
                    self.stopped = version;
                    self.refused = None;
                } else if let Some(version) = version {
                    tracing::warn!(outcome = ?ack.outcome, reason = ack.reason, "The hub does not let us leave");
                    self.refused = Some((version, format!("{:?}: {}", ack.outcome, ack.reason)));
                }
                self.update();
            }
            Settled::Done(Subject::AgentStatus) if good => self.stored(ack.outcome == Outcome::Persisted),
            Settled::Done(subject) if !good => {
                tracing::warn!(?subject, outcome = ?ack.outcome, reason = ack.reason, "The hub refused a report");
            }
            _ => {}
        }
        settled
    }

    /// What the outbox should make of an answer. The hub's caches may be behind what we have read: then the report is
    /// right, and only early.
    fn outcome(&self, ack: &Ack) -> Outcome {
        let about_cluster = ack.work.is_none();
        match ack.outcome {
            Outcome::NotDeleting if about_cluster => Outcome::RetryLater,
            Outcome::UidMismatch if about_cluster && self.phase != Phase::Idle => Outcome::RetryLater,
            outcome => outcome,
        }
    }

    /// The hub has our agent status. Where it was news to it, people are told what is new.
    fn stored(&mut self, news: bool) {
        let Some((status, joined)) = &self.said.agent else {
            return;
        };
        let version = Version {
            uid: status.imc_uid.clone(),
            generation: status.imc_generation,
        };
        let uid = version.uid.clone();
        let left = *joined == Joined::Left;
        let event = match joined {
            Joined::Joined => InternalMemberClusterEvent::Joined,
            Joined::Left => InternalMemberClusterEvent::Left,
            Joined::FailedToJoin { .. } => InternalMemberClusterEvent::FailedToJoin,
            Joined::FailedToLeave { .. } => InternalMemberClusterEvent::FailedToLeave,
        };
        if left {
            self.left = Some(version.clone());
        }
        let told = Some((version, fleet_api::events::Event::reason(&event)));
        if self.told.joined != told {
            self.told.joined = told;
            match joined {
                Joined::Joined => {
                    tracing::info!("This cluster belongs to the fleet");
                    self.measures.joined();
                }
                Joined::Left => {
                    tracing::info!("This cluster has left the fleet; what was placed stays");
                    self.measures.left();
                }
                Joined::FailedToJoin { .. } | Joined::FailedToLeave { .. } => {}
            }
            if news {
                self.outgoing.record_on_cluster(&uid, &event);
            }
        }
        let healthy = self.health.as_ref().map(|health| *health == Healthy::Healthy);
        if self.told.healthy != healthy {
            self.told.healthy = healthy;
            let event = match healthy {
                Some(true) => InternalMemberClusterEvent::Healthy,
                Some(false) => InternalMemberClusterEvent::Unhealthy,
                None => return,
            };
            if news {
                self.outgoing.record_on_cluster(&uid, &event);
            }
        }
    }
}

fn uid(phase: &Phase) -> Option<&str> {
    match phase {
        Phase::Idle => None,
        Phase::Joined(imc) | Phase::Stopped(imc) => Some(&imc.uid),
    }
}

#[cfg(test)]
mod tests;
