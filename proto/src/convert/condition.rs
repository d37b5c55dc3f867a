//! Conditions as a member reports them: without a transition time, which is the hub's to keep.

use fleet_api::conditions::Status;
use fleet_core::session::condition::ReportedCondition;

use super::{OnWire as _, on_wire};
use crate::invalid::{Invalid, Problem, cut, generation, word};
use crate::{limits, pb};

on_wire!(Status = ConditionStatus as "status" { True, False, Unknown });

impl TryFrom<pb::Condition> for ReportedCondition {
    type Error = Invalid;

    fn try_from(wire: pb::Condition) -> Result<Self, Invalid> {
        let pb::Condition {
            r#type,
            status,
            reason,
            message,
            observed_generation,
        } = wire;
        let reason = word("reason", reason, limits::REASON_BYTES)?;
        if !is_reason(&reason) {
            return Err(Invalid::new("reason", Problem::Malformed("not a CamelCase word")));
        }
        Ok(Self {
            type_: word("type", r#type, limits::KEY_BYTES)?,
            status: Status::from_wire(status)?,
            reason,
            message: cut(message, limits::TEXT_BYTES),
            observed_generation: generation("observed_generation", observed_generation)?,
        })
    }
}

impl From<ReportedCondition> for pb::Condition {
    fn from(plain: ReportedCondition) -> Self {
        let ReportedCondition {
            type_,
            status,
            reason,
            message,
            observed_generation,
        } = plain;
        Self {
            r#type: type_,
            status: status.to_wire(),
            reason,
            message,
            observed_generation,
        }
    }
}

/// `^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$`, which the API server demands: one bad reason would block the whole status.
fn is_reason(reason: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    reason.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && reason.bytes().next_back().is_some_and(word)
        && reason.bytes().all(|b| word(b) || b == b',' || b == b':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_has_the_form_that_the_api_server_demands() {
        for good in ["A", "Applied", "a_", "A:b", "A,b1"] {
            assert!(is_reason(good), "{good}");
        }
        for bad in ["", "1a", "a:", "a b", "_a", "é"] {
            assert!(!is_reason(bad), "{bad}");
        }
    }

    #[test]
    fn a_long_message_is_cut_and_the_rest_of_the_report_kept() {
        let wire = pb::Condition {
            r#type: "Applied".into(),
            status: 2,
            reason: "No".into(),
            message: "é".repeat(20_000),
            observed_generation: 0,
        };
        let condition = ReportedCondition::try_from(wire).expect("valid");
        assert_eq!(condition.message.len(), 32_768);
    }

    #[test]
    fn a_status_that_nobody_knows_is_refused() {
        let wire = |status| pb::Condition {
            r#type: "A".into(),
            status,
            reason: "A".into(),
            ..Default::default()
        };
        assert_eq!(
            ReportedCondition::try_from(wire(0)).expect_err("unset").to_string(),
            "status: missing"
        );
        assert_eq!(
            ReportedCondition::try_from(wire(9)).expect_err("new").to_string(),
            "status: unknown value 9"
        );
    }
}
