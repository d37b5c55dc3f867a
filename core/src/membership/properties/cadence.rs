//! When a change of properties is reported: what matters to placement at once, the rest with the next heartbeat.

use jiff::{SignedDuration, Timestamp};

/// Reports that are not heartbeats are at least this far apart.
const APART: SignedDuration = SignedDuration::from_secs(1);

/// What changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nodes, capacity, namespaces, a condition: people wait for it.
    Structural,
    /// What is left on the nodes: changes with every pod, and may wait.
    Available,
}

/// Remembers what has to be said, and says when.
#[derive(Debug, Clone, Copy, Default)]
pub struct Cadence {
    last: Option<Timestamp>,
    pending: bool,
}

impl Cadence {
    /// Something changed.
    pub fn changed(&mut self, change: Change) {
        self.pending |= change == Change::Structural;
    }

    /// When to report next, besides heartbeats: now or later than now, or not at all.
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        if !self.pending {
            return None;
        }
        Some(self.last.map_or(now, |last| (last + APART).max(now)))
    }

    /// A report with the newest values is on its way, for whatever reason.
    pub fn reported(&mut self, now: Timestamp) {
        *self = Self {
            last: Some(now),
            pending: false,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_structural_change_is_reported_at_once_but_at_most_every_second() {
        let at = |ms| Timestamp::from_millisecond(ms).expect("time");
        let mut cadence = Cadence::default();
        assert_eq!(cadence.due(at(0)), None);
        cadence.changed(Change::Available);
        assert_eq!(cadence.due(at(0)), None, "goes with the heartbeat");
        cadence.changed(Change::Structural);
        assert_eq!(cadence.due(at(5)), Some(at(5)));
        cadence.reported(at(5));
        assert_eq!(cadence.due(at(6)), None);
        cadence.changed(Change::Structural);
        assert_eq!(cadence.due(at(6)), Some(at(1005)));
        assert_eq!(cadence.due(at(2000)), Some(at(2000)));
    }
}
