//! A token bucket without a clock: how much of something one member may use.

use jiff::{SignedDuration, Timestamp};

/// Fills at a rate up to a burst; taking too much says how long to wait.
#[derive(Debug, Clone)]
pub struct Bucket {
    /// So much in `every` seconds.
    rate: u64,
    every: u64,
    burst: u64,
    /// In billionths of a second's share, so that nothing is lost between close calls.
    level: u128,
    at: Timestamp,
}

const NANO: u128 = 1_000_000_000;

impl Bucket {
    /// A full bucket.
    pub fn new(per_second: u32, burst: u32, now: Timestamp) -> Self {
        Self::filling(per_second, 1, burst, now)
    }

    /// A full bucket that fills by the minute.
    pub fn per_minute(rate: u32, burst: u32, now: Timestamp) -> Self {
        Self::filling(rate, 60, burst, now)
    }

    fn filling(rate: u32, every: u64, burst: u32, now: Timestamp) -> Self {
        let mut new = Self {
            rate: u64::from(rate.max(1)),
            every,
            burst: u64::from(burst.max(1)),
            level: 0,
            at: now,
        };
        new.level = new.full();
        new
    }

    /// Takes `cost`, or says how long to wait for it. A cost beyond the burst waits for a full bucket and is then let
    /// through, since it would otherwise never be.
    pub fn take(&mut self, cost: u32, now: Timestamp) -> Result<(), SignedDuration> {
        let wait = self.wait(cost, now);
        if wait.is_positive() {
            return Err(wait);
        }
        self.level -= self.needed(cost);
        Ok(())
    }

    /// How long to wait for `cost`; zero if it is there.
    pub fn wait(&mut self, cost: u32, now: Timestamp) -> SignedDuration {
        // A clock that was set back adds nothing and takes nothing away.
        let passed = u128::try_from(now.duration_since(self.at).as_nanos()).unwrap_or(0);
        self.at = self.at.max(now);
        let filled = self.level.saturating_add(passed.saturating_mul(u128::from(self.rate)));
        self.level = filled.min(self.full());
        let missing = self.needed(cost).saturating_sub(self.level);
        let wait = missing.div_ceil(u128::from(self.rate));
        SignedDuration::from_nanos(i64::try_from(wait).unwrap_or(i64::MAX))
    }

    /// Whether nothing has been taken for so long that a new bucket would be the same.
    pub fn is_full(&mut self, now: Timestamp) -> bool {
        self.wait(0, now);
        self.level == self.full()
    }

    fn full(&self) -> u128 {
        self.scaled(self.burst)
    }

    fn needed(&self, cost: u32) -> u128 {
        self.scaled(u64::from(cost)).min(self.full())
    }

    fn scaled(&self, amount: u64) -> u128 {
        u128::from(amount) * NANO * u128::from(self.every)
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

    #[test]
    fn a_rate_by_the_minute_is_kept_to_the_millisecond() {
        let mut bucket = Bucket::per_minute(12, 2, at(0));
        assert!(bucket.is_full(at(0)));
        assert!((0..2).all(|_| bucket.take(1, at(0)).is_ok()));
        assert_eq!(bucket.wait(1, at(1_000)), SignedDuration::from_secs(4));
        assert_eq!(bucket.take(1, at(5_000)), Ok(()));
        assert!(!bucket.is_full(at(14_999)) && bucket.is_full(at(15_000)));
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
