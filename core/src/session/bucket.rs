//! A token bucket without a clock: how much one session may send.

use jiff::{SignedDuration, Timestamp};

/// Fills at a rate up to a burst; taking too much says how long to wait.
#[derive(Debug, Clone)]
pub struct Bucket {
    per_second: u64,
    burst: u64,
    /// In billionths, so that nothing is lost between close calls.
    level: u128,
    at: Timestamp,
}

const NANO: u128 = 1_000_000_000;

impl Bucket {
    /// A full bucket.
    pub fn new(per_second: u32, burst: u32, now: Timestamp) -> Self {
        Self {
            per_second: u64::from(per_second.max(1)),
            burst: u64::from(burst.max(1)),
            level: u128::from(burst.max(1)) * NANO,
            at: now,
        }
    }

    /// Takes `cost`, or says how long to wait for it. A cost beyond the burst waits for a full bucket and is then let
    /// through, since it would otherwise never be.
    pub fn take(&mut self, cost: u32, now: Timestamp) -> Result<(), SignedDuration> {
        // A clock that was set back adds nothing and takes nothing away.
        let passed = u128::try_from(now.duration_since(self.at).as_nanos()).unwrap_or(0);
        self.at = self.at.max(now);
        let full = u128::from(self.burst) * NANO;
        self.level = self
            .level
            .saturating_add(passed.saturating_mul(u128::from(self.per_second)))
            .min(full);
        let needed = (u128::from(cost) * NANO).min(full);
        if self.level >= needed {
            self.level -= needed;
            return Ok(());
        }
        let wait = (needed - self.level).div_ceil(u128::from(self.per_second));
        Err(SignedDuration::from_nanos(i64::try_from(wait).unwrap_or(i64::MAX)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: i64) -> Timestamp {
        Timestamp::from_millisecond(ms).expect("time")
    }

    #[test]
    fn a_burst_passes_and_then_the_rate_counts() {
        let mut bucket = Bucket::new(10, 3, at(0));
        assert!((0..3).all(|_| bucket.take(1, at(0)).is_ok()));
        assert_eq!(bucket.take(1, at(0)), Err(SignedDuration::from_millis(100)));
        assert_eq!(bucket.take(1, at(100)), Ok(()));
        assert_eq!(
            bucket.take(99, at(400)),
            Ok(()),
            "larger than the burst: once it is full"
        );
        assert!(bucket.take(1, at(0)).is_err(), "a clock that goes back");
    }

    proptest! {
        #[test]
        fn never_more_than_burst_and_rate(steps in prop::collection::vec((0..500i64, 1..5u32), 1..200)) {
            let mut bucket = Bucket::new(10, 20, at(0));
            let (mut now, mut taken) = (0, 0u64);
            for (gap, cost) in steps {
                now += gap;
                match bucket.take(cost, at(now)) {
                    Ok(()) => taken += u64::from(cost),
                    Err(wait) => prop_assert!(wait > SignedDuration::ZERO),
                }
                prop_assert!(taken * 1000 <= 20_000 + 10 * u64::try_from(now).unwrap());
            }
        }
    }
}
