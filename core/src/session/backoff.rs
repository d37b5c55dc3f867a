//! When a member knocks again, and when it beats.

use jiff::SignedDuration;

/// While the cluster is not a member, at most this far apart.
const NOT_MEMBER_CAP: SignedDuration = SignedDuration::from_secs(5);
/// Otherwise at most this far, or one heartbeat period if that is shorter.
const CAP: SignedDuration = SignedDuration::from_secs(15);
const FIRST: SignedDuration = SignedDuration::from_millis(200);

/// Growing, jittered waits between attempts.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The wait after another failure. `random` is uniform in 0..1: the wait lies between half and the whole of what is
    /// due, so that a thousand members that lost the same hub do not return in one instant.
    pub fn failed(&mut self, not_member: bool, period: SignedDuration, random: f64) -> SignedDuration {
        let cap = if not_member { NOT_MEMBER_CAP } else { CAP.min(period) };
        let grown = FIRST * 2_i32.pow(self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        scaled(grown.min(cap), 0.5 + 0.5 * random.clamp(0.0, 1.0))
    }

    /// A session was accepted and lasted: the next failure starts anew.
    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

/// The wait until the next heartbeat: the period ±5 %, so that members do not synchronise.
pub fn until_next_beat(period: SignedDuration, random: f64) -> SignedDuration {
    scaled(period, 0.95 + 0.1 * random.clamp(0.0, 1.0))
}

#[allow(clippy::cast_possible_truncation, reason = "at most ten minutes")]
fn scaled(duration: SignedDuration, factor: f64) -> SignedDuration {
    SignedDuration::from_millis((duration.as_secs_f64() * 1000.0 * factor) as i64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn waits_grow_to_their_cap_and_start_anew() {
        let mut backoff = Backoff::default();
        let minute = SignedDuration::from_secs(60);
        let waits: Vec<i64> = (0..9)
            .map(|_| i64::try_from(backoff.failed(false, minute, 1.0).as_millis()).expect("short"))
            .collect();
        assert_eq!(waits, [200, 400, 800, 1600, 3200, 6400, 12800, 15000, 15000]);
        assert_eq!(backoff.failed(true, minute, 1.0), SignedDuration::from_secs(5));
        assert_eq!(
            backoff.failed(false, SignedDuration::from_secs(3), 1.0),
            SignedDuration::from_secs(3)
        );
        backoff.succeeded();
        assert_eq!(backoff.failed(false, minute, 0.0), SignedDuration::from_millis(100));
    }

    proptest! {
        #[test]
        fn waits_stay_within_their_bounds(failures in 0..200u32, not_member: bool, period in 1..600i64, random in 0.0..1.0f64) {
            let mut backoff = Backoff { failures };
            let period = SignedDuration::from_secs(period);
            let wait = backoff.failed(not_member, period, random);
            let cap = if not_member { NOT_MEMBER_CAP } else { CAP.min(period) };
            prop_assert!(wait <= cap && wait >= SignedDuration::from_millis(100));
            let beat = until_next_beat(period, random);
            prop_assert!(beat >= period * 94 / 100 && beat <= period * 106 / 100);
        }
    }
}
