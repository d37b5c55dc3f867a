//! Outcomes as labels of metrics.

use fleet_core::session::Outcome;

/// The outcome as a label, for those that change nothing.
pub(crate) fn refusal_word(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Persisted => None,
        Outcome::Unchanged => Some("unchanged"),
        Outcome::Superseded => Some("superseded"),
        Outcome::UidMismatch => Some("uid_mismatch"),
        Outcome::Gone => Some("gone"),
        Outcome::NotDeleting => Some("not_deleting"),
        Outcome::Invalid => Some("invalid"),
        Outcome::RetryLater => Some("retry_later"),
        Outcome::TooLarge => Some("too_large"),
    }
}
