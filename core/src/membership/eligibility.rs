//! Whether a cluster may be chosen for new placements, why not, and until when that is so.

use std::time::Duration;

use fleet_api::cluster::{AgentType, MemberCluster};
use fleet_api::conditions::decision::Ineligible;
use fleet_api::conditions::{Status, find, member_agent};
use jiff::{SignedDuration, Timestamp};

use super::heartbeat::{add, just_after, period};

/// The age of a heartbeat that never came: as old as can be, which upstream shows as this.
const NEVER: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// How long silence or sickness is overlooked: five minutes, or three periods where those are longer.
pub fn limit(period_seconds: i32) -> SignedDuration {
    SignedDuration::from_mins(5).max(period(period_seconds) * 3)
}

/// Until when the cluster may be chosen if nothing is heard from it, or why it may not, which never ends by time alone.
///
/// The first test that fails decides. Only the member agent's word counts, whatever generation it speaks of.
pub fn eligibility(mc: &MemberCluster, now: Timestamp) -> Result<Timestamp, Ineligible> {
    eligibility_dated(mc, now, |stamp| stamp)
}

/// The same for who has seen the clock being set: `dated` tells what it would have shown, as it is now, at a stored time.
pub fn eligibility_dated(
    mc: &MemberCluster,
    now: Timestamp,
    dated: impl Fn(Timestamp) -> Timestamp,
) -> Result<Timestamp, Ineligible> {
    if mc.metadata.deletion_timestamp.is_some() {
        return Err(Ineligible::Left);
    }
    let agent = mc
        .status
        .as_ref()
        .and_then(|s| s.agent(&AgentType::MemberAgent))
        .ok_or(Ineligible::NotOnline)?;
    let last = agent.last_received_heartbeat.as_ref().map(|t| dated(t.0));
    let last = last.ok_or(Ineligible::HeartbeatLost(NEVER))?;
    let limit = limit(mc.spec.heartbeat_period_seconds);
    let silent = now.duration_since(last);
    if silent > limit {
        return Err(Ineligible::HeartbeatLost(silent.unsigned_abs()));
    }
    let joined = find(&agent.conditions, member_agent::Joined::TYPE);
    if joined.is_none_or(|c| Status::of(c) != Status::True) {
        return Err(Ineligible::NotJoined);
    }
    let healthy = find(&agent.conditions, member_agent::Healthy::TYPE).ok_or(Ineligible::NoHealth)?;
    let mut until = just_after(add(last, limit));
    if Status::of(healthy) != Status::True {
        let since = dated(healthy.last_transition_time.0);
        let sick = now.duration_since(since);
        if sick > limit {
            return Err(Ineligible::Unhealthy(sick.unsigned_abs()));
        }
        until = until.min(just_after(add(since, limit)));
    }
    Ok(until)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::{Fixture as _, agent, at, condition, member};
    use super::*;

    fn mc(last: Option<i64>, joined: Option<&str>, healthy: Option<(&str, i64)>) -> MemberCluster {
        let mut agent = agent(last);
        agent.conditions.extend(joined.map(|s| condition("Joined", s, 0)));
        agent
            .conditions
            .extend(healthy.map(|(s, since)| condition("Healthy", s, since)));
        member("c1").reporting(agent)
    }

    fn is_eligible(mc: &MemberCluster, now: Timestamp) -> bool {
        eligibility(mc, now).is_ok()
    }

    #[track_caller]
    fn text(mc: &MemberCluster, now: i64, expected: &str) {
        let why = eligibility(mc, at(now)).expect_err("ineligible");
        assert_eq!(why.to_string(), expected);
    }

    #[test]
    fn a_clock_that_is_set_disconnects_nobody() {
        let mc = mc(Some(1_000), Some("True"), Some(("False", 900)));
        for by in [7_200, -7_200] {
            let (now, dated) = (at(1_010 + by), |stamp: Timestamp| stamp + SignedDuration::from_secs(by));
            let until = eligibility_dated(&mc, now, dated).expect("eligible");
            assert_eq!(until, dated(eligibility(&mc, at(1_010)).expect("eligible")), "{by}");
        }
    }

    #[test]
    fn every_row_has_its_words() {
        const NOT: &str = "cluster is not connected to the fleet: ";
        let fine = || mc(Some(0), Some("True"), Some(("True", 0)));
        text(&fine().deleting(5), 9, "cluster has left the fleet");
        text(&member("c1"), 0, &format!("{NOT}member agent not online yet"));
        text(
            &fine(),
            301,
            &format!("{NOT}no recent heartbeat signals (last received 5.02 minutes ago)"),
        );
        text(
            &mc(Some(0), None, Some(("True", 0))),
            1,
            &format!("{NOT}member agent not joined yet"),
        );
        text(
            &mc(Some(0), Some("False"), Some(("True", 0))),
            1,
            &format!("{NOT}member agent not joined yet"),
        );
        text(
            &mc(Some(0), Some("True"), None),
            1,
            &format!("{NOT}health condition from member agent is not available"),
        );
        text(
            &mc(Some(400), Some("True"), Some(("False", 0))),
            450,
            &format!("{NOT}unhealthy for a prolonged period of time (last transitioned 7.50 minutes ago)"),
        );
    }

    #[test]
    fn the_first_row_that_matches_decides() {
        let stale_and_sick = mc(Some(0), Some("False"), Some(("False", 0)));
        text(&stale_and_sick.clone().deleting(1), 999, "cluster has left the fleet");
        assert!(matches!(
            eligibility(&stale_and_sick, at(999)),
            Err(Ineligible::HeartbeatLost(_))
        ));
        text(
            &mc(None, None, None),
            1,
            "cluster is not connected to the fleet: no recent heartbeat signals (last received 153722867.28 minutes ago)",
        );
    }

    #[test]
    fn eligibility_ends_at_the_instant_it_names() {
        for mc in [
            mc(Some(100), Some("True"), Some(("True", 0))),
            mc(Some(100), Some("True"), Some(("False", 50))),
            mc(Some(100), Some("True"), Some(("Unknown", 150))),
        ] {
            let until = eligibility(&mc, at(200)).expect("eligible at 200");
            assert!(is_eligible(&mc, until - SignedDuration::from_millis(1)));
            assert!(!is_eligible(&mc, until));
        }
    }

    #[test]
    fn long_periods_have_longer_limits() {
        let mut slow = mc(Some(0), Some("True"), Some(("True", 0)));
        slow.spec.heartbeat_period_seconds = 600;
        assert!(is_eligible(&slow, at(1800)));
        assert!(!is_eligible(&slow, at(1801)));
        assert_eq!(limit(60), SignedDuration::from_mins(5));
    }
}
