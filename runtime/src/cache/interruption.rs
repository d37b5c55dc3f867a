//! Why a stream does not go on.

use std::time::Duration;

use kube::core::Status;

use super::Reason;
use crate::logs;

/// How long a request may take to be answered.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_mins(1);

/// A stream that does not go on by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interruption {
    /// How many in a row, with this one.
    pub failures: u32,
    /// Why, in one word.
    pub reason: Reason,
    /// Why, in full.
    pub message: String,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum WatchFailure {
    #[error("could not list")]
    List(#[source] kube::Error),
    #[error("could not watch")]
    Watch(#[source] kube::Error),
    #[error("the server ended the watch: {}", .0.message)]
    Ended(Box<Status>),
    #[error("the server did not answer within {}s", ANSWER_TIMEOUT.as_secs())]
    Timeout,
    #[error("the list has no version")]
    NoVersion,
    #[error("the watch ended as soon as it began")]
    Short,
    #[error("the server is at version {now}, behind {held}, which it has shown: it was restored from a backup")]
    Back { now: String, held: String },
}

impl WatchFailure {
    fn status(&self) -> Option<&Status> {
        match self {
            Self::List(kube::Error::Api(status)) | Self::Watch(kube::Error::Api(status)) | Self::Ended(status) => {
                Some(status)
            }
            _ => None,
        }
    }

    /// Whether the version to go on from is of no use any more.
    pub(super) fn expired(&self) -> bool {
        matches!(self, Self::NoVersion) || self.status().is_some_and(|status| status.code == 410)
    }

    pub(super) fn interrupts(&self, failures: u32) -> Interruption {
        let reason = match self.status().map(|status| status.code) {
            Some(401) => Reason::Unauthorized,
            Some(403) => Reason::Forbidden,
            Some(404) => Reason::NotFound,
            _ => Reason::Unavailable,
        };
        Interruption {
            failures,
            reason,
            message: logs::chain(self).to_string(),
        }
    }
}

/// What is no event of this kind. The client takes anything else for a status, and any object is one that says nothing.
pub(super) fn is_undecodable(error: &kube::Error) -> bool {
    match error {
        kube::Error::SerdeError(_) => true,
        kube::Error::Api(status) => status.code == 0 && status.message.is_empty() && status.reason.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_says_nothing_about_a_fault_is_an_odd_object() {
        let line = r#"{"type":"ADDED","object":{"metadata":{"name":"x"},"status":{"conditions":null}}}"#;
        let odd: Status = serde_json::from_str(line).unwrap();
        assert!(is_undecodable(&kube::Error::Api(Box::new(odd))));
        let gone: Status = serde_json::from_str(r#"{"code":410,"message":"too old","reason":"Expired"}"#).unwrap();
        assert!(!is_undecodable(&kube::Error::Api(Box::new(gone))));
    }
}
