//! When silence means that a member is lost, and what a change of the hub's leader does to that judgement.

use fleet_api::cluster::{AgentStatus, AgentType, MemberCluster};
use fleet_api::conditions::member_cluster::Healthy;
use fleet_api::conditions::{Status, find, member_agent};
use jiff::{SignedDuration, Timestamp};

/// Since when this process judges, and how long before that nobody did.
///
/// While no hub agent runs, nobody receives heartbeats. A member that was fresh when the previous leader was last alive
/// gets one period (and a tenth) from the new one before its silence counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grace {
    /// When this process became the leader.
    pub leader_since: Timestamp,
    /// When the previous leader last renewed its Lease. Without leader election: the newest heartbeat stored for any
    /// member, which is when somebody was last there to receive one.
    pub previous_renewed: Option<Timestamp>,
    /// By how much the clock was put forward since the last heartbeat: time in which nobody was silent.
    pub put_forward: SignedDuration,
}

impl Grace {
    /// No grace: always judged by the heartbeat alone.
    pub const NONE: Self = Self {
        leader_since: Timestamp::MIN,
        previous_renewed: None,
        put_forward: SignedDuration::ZERO,
    };

    /// For a member since whose last heartbeat the clock was put forward by `by`.
    #[must_use]
    pub fn put_forward(self, by: SignedDuration) -> Self {
        Self {
            put_forward: by,
            ..self
        }
    }

    /// The instant after which a member with this last heartbeat is lost.
    pub fn lost_after(&self, last: Timestamp, limit: SignedDuration, period: SignedDuration) -> Timestamp {
        let due = add(last, limit.saturating_add(self.put_forward));
        let was_fresh = self.previous_renewed.is_some_and(|renewed| renewed <= due);
        if !was_fresh {
            return due;
        }
        due.max(add(self.leader_since, period + period / 10))
    }
}

/// How far ahead of the hub's clock a heartbeat's time may lie: replicas differ a little. Beyond that it was made by a clock
/// that was wrong, and would hide a silence until the right one has caught up.
pub const AHEAD: SignedDuration = SignedDuration::from_secs(30);

/// Whether a heartbeat received at `new` replaces the stored time: it is later, or what is stored lies in the future.
pub fn replaces(stored: Option<Timestamp>, new: Timestamp) -> bool {
    stored.is_none_or(|stored| new > stored || is_ahead(stored, new))
}

/// Whether a time lies in the future, beyond what is tolerated.
pub fn is_ahead(time: Timestamp, now: Timestamp) -> bool {
    time > add(now, AHEAD)
}

/// The last heartbeat that a MemberCluster knows of; the end of time if none.
pub fn last_of(mc: &MemberCluster) -> Timestamp {
    let agent = mc
        .status
        .as_ref()
        .and_then(|status| status.agent(&AgentType::MemberAgent));
    let last = agent.and_then(|agent| agent.last_received_heartbeat.as_ref());
    last.map_or(Timestamp::MAX, |last| last.0)
}

/// How long a member may be silent. At least two periods, so that one beat that is late by its own jitter is no loss,
/// whatever threshold the operator chose.
pub fn silence_limit(threshold: SignedDuration, period: SignedDuration) -> SignedDuration {
    threshold.max(period * 2)
}

/// The heartbeat period as a duration. Whatever is stored, it lies between one second and ten minutes.
pub fn period(seconds: i32) -> SignedDuration {
    SignedDuration::from_secs(i64::from(seconds.clamp(1, 600)))
}

/// The MemberCluster's `Healthy`, and when it changes by time alone.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// What to say.
    pub state: Healthy,
    /// When to look again.
    pub look_again: Option<Timestamp>,
}

/// Judges by the age of the last heartbeat first, then by what the agent said about its API server.
pub fn health(
    agent: Option<&AgentStatus>,
    period_seconds: i32,
    threshold: SignedDuration,
    grace: &Grace,
    now: Timestamp,
) -> Health {
    let timeless = |state| Health {
        state,
        look_again: None,
    };
    let Some(agent) = agent else {
        return timeless(Healthy::NotReported);
    };
    let Some(last) = agent.last_received_heartbeat.as_ref().map(|t| t.0) else {
        return timeless(Healthy::NotReported);
    };
    let period = period(period_seconds);
    let limit = silence_limit(threshold, period);
    let lost_after = grace.lost_after(last, limit, period);
    if now > lost_after {
        return timeless(Healthy::HeartbeatLost { last });
    }
    let state = match find(&agent.conditions, member_agent::Healthy::TYPE) {
        None => Healthy::NotReported,
        Some(condition) => match Status::of(condition) {
            Status::True => Healthy::Healthy,
            Status::False => Healthy::Unhealthy {
                error: condition.message.clone(),
            },
            Status::Unknown => Healthy::NotReported,
        },
    };
    Health {
        state,
        look_again: Some(just_after(lost_after)),
    }
}

/// The first instant at which "longer than" holds; timers and clocks here have milliseconds.
pub(crate) fn just_after(at: Timestamp) -> Timestamp {
    add(at, SignedDuration::from_millis(1))
}

pub(crate) fn add(at: Timestamp, by: SignedDuration) -> Timestamp {
    at.saturating_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("time")
    }

    const THRESHOLD: SignedDuration = SignedDuration::from_secs(60);

    fn agent(last: i64, healthy: &str) -> AgentStatus {
        AgentStatus {
            type_: "MemberAgent".into(),
            conditions: vec![Condition {
                type_: "Healthy".into(),
                status: healthy.into(),
                reason: "R".into(),
                message: "probe".into(),
                observed_generation: None,
                last_transition_time: Time(at(0)),
            }],
            last_received_heartbeat: Some(Time(at(last))),
        }
    }

    #[test]
    fn silence_is_noticed_to_the_instant() {
        let fresh = health(Some(&agent(100, "True")), 15, THRESHOLD, &Grace::NONE, at(160));
        assert_eq!(fresh.state, Healthy::Healthy);
        let look = fresh.look_again.expect("a timer");
        assert_eq!(look, at(160) + SignedDuration::from_millis(1));
        let lost = health(Some(&agent(100, "True")), 15, THRESHOLD, &Grace::NONE, look);
        assert_eq!(
            lost,
            Health {
                state: Healthy::HeartbeatLost { last: at(100) },
                look_again: None
            }
        );
    }

    #[test]
    fn a_clock_that_is_put_forward_makes_nobody_silent() {
        let hour = SignedDuration::from_hours(1);
        let grace = Grace::NONE.put_forward(hour);
        let judged = |now| health(Some(&agent(100, "True")), 15, THRESHOLD, &grace, at(now));
        assert_eq!(judged(3700).state, Healthy::Healthy);
        assert_eq!(
            judged(3761).state,
            Healthy::HeartbeatLost { last: at(100) },
            "silence counts all the same"
        );
    }

    #[test]
    fn a_time_in_the_future_is_replaced_and_a_later_one_otherwise() {
        for (stored, new, replaced) in [
            (None, 100, true),
            (Some(99), 100, true),
            (Some(100), 100, false),
            (Some(120), 100, false),
            (Some(130), 100, false),
            (Some(131), 100, true),
        ] {
            assert_eq!(replaces(stored.map(at), at(new)), replaced, "{stored:?} {new}");
        }
    }

    #[test]
    fn a_threshold_below_the_period_does_not_make_a_cluster_flap() {
        let judged = health(Some(&agent(0, "True")), 60, THRESHOLD, &Grace::NONE, at(63));
        assert_eq!(judged.state, Healthy::Healthy);
    }

    #[test]
    fn an_unhealthy_api_server_is_told_apart_from_silence() {
        let judged = health(Some(&agent(0, "False")), 15, THRESHOLD, &Grace::NONE, at(1));
        assert_eq!(judged.state, Healthy::Unhealthy { error: "probe".into() });
        assert_eq!(
            health(None, 15, THRESHOLD, &Grace::NONE, at(1)).state,
            Healthy::NotReported
        );
    }

    #[test]
    fn a_new_leader_gives_members_that_were_fresh_one_period_to_speak() {
        // The old leader died at 100, the new one came at 1000.
        let grace = Grace {
            leader_since: at(1000),
            previous_renewed: Some(at(100)),
            ..Grace::NONE
        };
        let judged = |last, now| health(Some(&agent(last, "True")), 20, THRESHOLD, &grace, at(now)).state;
        assert_eq!(judged(95, 1022), Healthy::Healthy, "fresh then, so it has until 1022");
        assert_eq!(judged(95, 1023), Healthy::HeartbeatLost { last: at(95) });
        assert_eq!(
            judged(10, 1001),
            Healthy::HeartbeatLost { last: at(10) },
            "was stale already"
        );
    }

    proptest! {
        #[test]
        fn grace_only_ever_delays_and_never_beyond_one_period(
            last in 0..5_000i64, since in 0..5_000i64, renewed in prop::option::of(0..5_000i64), period in 1..600i64,
        ) {
            let limit = SignedDuration::from_secs(60);
            let period = SignedDuration::from_secs(period);
            let grace = Grace { leader_since: at(since), previous_renewed: renewed.map(at), ..Grace::NONE };
            let plain = Grace::NONE.lost_after(at(last), limit, period);
            let with = grace.lost_after(at(last), limit, period);
            prop_assert!(with >= plain);
            prop_assert!(with <= plain.max(at(since) + period + period / 10));
        }
    }
}
