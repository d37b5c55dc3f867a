//! Writes that failed.

use std::borrow::Cow;

use fleet_runtime::Key;

use super::{WriteFailure, Written, kind};

/// A write that failed. Its pass is repeated with a growing delay.
#[derive(Debug, thiserror::Error)]
#[error("could not {verb} {kind} {name}")]
pub(crate) struct WriteError {
    pub(crate) verb: &'static str,
    pub(crate) kind: Cow<'static, str>,
    pub(crate) name: Box<str>,
    pub(crate) source: kube::Error,
}

impl WriteError {
    /// Whether somebody else was faster. The store knows by now what they wrote: decide anew, at once.
    pub(crate) fn is_conflict(&self) -> bool {
        WriteFailure::of(&self.source) == WriteFailure::Conflict
    }

    /// Whether the same write may go through later: the API server has not said that it will not have it.
    pub(crate) fn may_pass(&self) -> bool {
        self.code().is_none_or(|code| matches!(code, 409 | 429) || code >= 500)
    }

    /// What the API server said, in its words.
    pub(crate) fn said(&self) -> String {
        match &self.source {
            kube::Error::Api(status) => status.message.clone(),
            other => other.to_string(),
        }
    }

    /// The code of its answer, if there was one.
    pub(crate) fn code(&self) -> Option<u16> {
        match &self.source {
            kube::Error::Api(status) => Some(status.code),
            _ => None,
        }
    }
}

pub(super) fn failed<K: Written>(verb: &'static str, key: &Key, source: kube::Error) -> WriteError {
    WriteError {
        verb,
        kind: kind::<K>(),
        name: key.to_string().into(),
        source,
    }
}
