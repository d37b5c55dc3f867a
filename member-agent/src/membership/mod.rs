//! What the hub asks of this cluster, read from its InternalMemberCluster, and what the agent does about it.
//!
//! ```text
//! Join    ─► barrier open,   Joined=True
//! Leave   ─► barrier closed, no round in flight ─► ApplierStopped ─► Joined=False
//! absent  ─► barrier closed: a pause, and nothing is removed
//! other   ─► nothing
//! ```

mod watch;

use std::{sync::Arc, time::Duration};

use fleet_api::{
    annotations::{CHANNEL_CA, CHANNEL_ENDPOINT},
    cluster::{ClusterState, InternalMemberCluster},
};
use fleet_core::session::recovery::Recovery;
use tokio::sync::watch::{Receiver, Sender};

pub use self::watch::{follow, store, watch};
use crate::applier::Applier;

/// The heartbeat period until an InternalMemberCluster says another.
const DEFAULT_PERIOD: Duration = Duration::from_mins(1);

/// An InternalMemberCluster, as far as the agent acts on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imc {
    /// Its uid: another one is another membership.
    pub uid: String,
    /// Its generation.
    pub generation: i64,
    /// What the hub asks.
    pub wanted: WantedState,
    /// How often to say that we are alive.
    pub period: Duration,
    /// Where the channel is.
    pub endpoint: Option<String>,
    /// Its CA, base64 of PEM.
    pub ca: Option<String>,
    /// Whether the hub went back in time, and has recovered.
    pub recovery: Recovery,
}

/// What the hub asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WantedState {
    /// Belong to the fleet.
    Join,
    /// Leave the fleet.
    Leave,
    /// A word that this build does not know.
    Unknown(String),
}

/// What is known of the InternalMemberCluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownImc {
    /// The hub has not been read yet.
    NotYet,
    /// The hub was read, and there is none.
    Absent,
    /// There is one.
    Present(Arc<Imc>),
}

impl KnownImc {
    /// The InternalMemberCluster, if there is one.
    pub fn imc(&self) -> Option<&Arc<Imc>> {
        match self {
            Self::Present(imc) => Some(imc),
            Self::NotYet | Self::Absent => None,
        }
    }

    /// How often to say that we are alive.
    pub fn period(&self) -> Duration {
        self.imc().map_or(DEFAULT_PERIOD, |imc| imc.period)
    }
}

impl From<&InternalMemberCluster> for Imc {
    fn from(object: &InternalMemberCluster) -> Self {
        let annotation = |key| {
            let annotations = object.metadata.annotations.as_ref()?;
            annotations.get(key).filter(|value| !value.is_empty()).cloned()
        };
        let wanted = match &object.spec.state {
            ClusterState::Join => WantedState::Join,
            ClusterState::Leave => WantedState::Leave,
            ClusterState::Unknown(word) => WantedState::Unknown(word.to_string()),
        };
        // The schema says 1 to 600; a hub without it must not make us beat without a pause, or never.
        let seconds = object.spec.heartbeat_period_seconds.clamp(1, 600);
        Self {
            uid: object.metadata.uid.clone().unwrap_or_default(),
            generation: object.metadata.generation.unwrap_or_default(),
            wanted,
            period: Duration::from_secs(seconds.unsigned_abs().into()),
            endpoint: annotation(CHANNEL_ENDPOINT),
            ca: annotation(CHANNEL_CA),
            recovery: Recovery::of(object.metadata.annotations.as_ref()),
        }
    }
}

/// Why we must not apply although the InternalMemberCluster says Join: the hub said so, under this uid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Barred {
    /// The InternalMemberCluster that it is about; a new one is a new start.
    pub imc_uid: String,
    /// In words.
    pub why: String,
}

/// What the agent is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// Nothing is asked of it, or nothing may be done.
    Idle,
    /// The barrier is open.
    Joined(Arc<Imc>),
    /// The barrier is closed because the hub asked us to leave, and no round is in flight.
    Stopped(Arc<Imc>),
}

#[derive(Debug, PartialEq, Eq)]
enum Stance {
    Join(Arc<Imc>),
    Leave(Arc<Imc>),
    Pause,
    Unchanged,
}

fn stance(seen: &KnownImc, barred: Option<&Barred>) -> Stance {
    match seen {
        KnownImc::NotYet => Stance::Unchanged,
        KnownImc::Absent => Stance::Pause,
        KnownImc::Present(imc) => match &imc.wanted {
            WantedState::Join if barred.is_some_and(|barred| barred.imc_uid == imc.uid) => Stance::Pause,
            WantedState::Join => Stance::Join(imc.clone()),
            WantedState::Leave => Stance::Leave(imc.clone()),
            WantedState::Unknown(_) => Stance::Unchanged,
        },
    }
}

/// Opens and closes the barrier as the hub asks, for ever.
pub async fn run(
    mut seen: Receiver<KnownImc>,
    mut barred: Receiver<Option<Barred>>,
    applier: Arc<dyn Applier>,
    phase: Sender<Phase>,
) {
    loop {
        let next = stance(&seen.borrow_and_update(), barred.borrow_and_update().as_ref());
        let next = match next {
            Stance::Unchanged => {
                if let Some(WantedState::Unknown(state)) = seen.borrow().imc().map(|imc| &imc.wanted) {
                    tracing::warn!(
                        state,
                        "The hub asks for a state that this agent does not know: nothing is done"
                    );
                }
                None
            }
            Stance::Join(imc) => {
                applier.open(&imc.uid, imc.recovery);
                Some(Phase::Joined(imc))
            }
            // Nobody may read that we have stopped before we have.
            Stance::Leave(imc) => {
                applier.close().await;
                Some(Phase::Stopped(imc))
            }
            Stance::Pause => {
                applier.close().await;
                Some(Phase::Idle)
            }
        };
        if let Some(next) = next {
            phase.send_if_modified(|current| {
                let changed = *current != next;
                if changed {
                    log(current, &next);
                    *current = next;
                }
                changed
            });
        }
        tokio::select! {
            Ok(()) = seen.changed() => {}
            Ok(()) = barred.changed() => {}
            // Both senders are gone: the process is ending.
            else => return std::future::pending().await,
        }
    }
}

fn log(before: &Phase, now: &Phase) {
    match (before, now) {
        (Phase::Joined(a), Phase::Joined(b)) if a.uid == b.uid => {}
        (_, Phase::Joined(imc)) => tracing::info!(uid = imc.uid, "The hub asks this cluster to join"),
        (_, Phase::Stopped(imc)) => {
            tracing::info!(uid = imc.uid, "The hub asks this cluster to leave: nothing is applied");
        }
        (_, Phase::Idle) => tracing::info!("Paused: nothing is applied, and nothing is removed"),
    }
}

#[cfg(test)]
impl Imc {
    pub(crate) fn for_tests(uid: &str, generation: i64) -> Self {
        Self {
            uid: uid.into(),
            generation,
            wanted: WantedState::Join,
            period: Duration::from_mins(1),
            endpoint: None,
            ca: None,
            recovery: Recovery::default(),
        }
    }
}

#[cfg(test)]
mod tests;
