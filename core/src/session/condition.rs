//! Conditions as a member says them, and how they are merged into what is stored.

use fleet_api::conditions::{MESSAGE_MAX, Status};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// A condition without times: those are the hub's to keep.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReportedCondition {
    /// Its type.
    pub type_: String,
    /// Its status.
    pub status: Status,
    /// One word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The generation it speaks of; zero means none.
    pub observed_generation: i64,
}

impl ReportedCondition {
    /// As it is stored. The transition time stays while the status does: rollouts wait by it.
    pub fn merged(&self, stored: &[Condition], now: Timestamp) -> Condition {
        let unmoved = stored
            .iter()
            .find(|c| c.type_ == self.type_ && c.status == self.status.as_str());
        let mut message = self.message.clone();
        message.truncate(message.floor_char_boundary(MESSAGE_MAX));
        Condition {
            type_: self.type_.clone(),
            status: self.status.as_str().into(),
            reason: self.reason.clone(),
            message,
            observed_generation: Some(self.observed_generation).filter(|g| *g != 0),
            last_transition_time: unmoved.map_or(whole_second(now), |c| c.last_transition_time.clone()),
        }
    }
}

/// Times in the API have whole seconds; a finer one would never compare equal to what the server gives back.
pub fn whole_second(at: Timestamp) -> Time {
    Time(Timestamp::from_second(at.as_second()).unwrap_or(at))
}

/// A time on the member's clock, as it may be stored: not in the hub's future.
pub fn clamped(observed: Timestamp, now: Timestamp) -> Time {
    whole_second(observed.min(now))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn said(status: Status) -> ReportedCondition {
        ReportedCondition {
            type_: "Applied".into(),
            status,
            reason: "R".into(),
            message: "m".into(),
            observed_generation: 3,
        }
    }

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).expect("time")
    }

    #[test]
    fn the_transition_time_moves_only_with_the_status() {
        let first = said(Status::False).merged(&[], at(1_700));
        assert_eq!(first.last_transition_time.0, at(1_000));
        let same = said(Status::False).merged(std::slice::from_ref(&first), at(9_000));
        assert_eq!(same.last_transition_time.0, at(1_000));
        let turned = said(Status::True).merged(&[first], at(9_000));
        assert_eq!(turned.last_transition_time.0, at(9_000));
    }

    proptest! {
        #[test]
        fn no_stored_time_lies_in_the_future(observed in 0..99_999i64, now in 0..99_999i64) {
            prop_assert!(clamped(at(observed), at(now)).0 <= at(now));
            prop_assert!(clamped(at(observed), at(now)).0 <= at(observed));
        }
    }
}
