//! Why a pass of a stage failed.

use std::time::Duration;

use fleet_api::names::PlacementKey;
use fleet_runtime::{Key, queue::Next};
use tokio::time::Instant;

use crate::writer::WriteError;

/// Whoever waits for a watch looks again by then, should it not be woken.
const BEHIND: Duration = Duration::from_secs(2);

/// Why a pass failed. Users see what they must in conditions; the pass is repeated with a growing delay.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    #[error(transparent)]
    Write(#[from] WriteError),
    #[error("could not read what the placement selects")]
    Read(#[source] kube::Error),
    #[error("could not compare the states of {0}")]
    Compare(String, #[source] serde_json::Error),
    /// What holds a placement back that users can do nothing about in it, and no condition has words for.
    #[error("{0}")]
    Held(String),
    #[error("{0}")]
    NotYet(String),
    /// The API server has something else than a cache: the watch brings it, and with it the next look.
    #[error("{0}")]
    Behind(&'static str),
}

impl Error {
    /// Whether somebody else was faster, so that all there is to do is to decide anew.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict())
    }
}

/// The key as decisions take it. A name that is too long for a label never gets this far: admission refuses it, and
/// without admission nothing is done with it.
pub(crate) fn key_of(key: &Key) -> Result<PlacementKey, Error> {
    PlacementKey::new(key.namespace(), key.name()).map_err(|error| Error::NotYet(error.to_string()))
}

/// What is no failure: somebody else's write, which the store has by now, and a cache that is behind, which is waited for.
pub(crate) fn decide_anew(outcome: Result<Next, Error>) -> Result<Next, Error> {
    match outcome {
        Err(error) if error.is_conflict() => {
            tracing::debug!(%error, "Deciding anew after a conflict");
            Ok(Next::At(Instant::now()))
        }
        Err(Error::Behind(why)) => {
            tracing::debug!(why, "Waiting for the watch");
            Ok(Next::At(Instant::now() + BEHIND))
        }
        other => other,
    }
}
