//! Growing delays.

use std::time::Duration;

/// Delays that double from `min` to `max`, each shortened by a random part of up to a quarter, so that many who failed
/// together do not come back together.
#[derive(Clone, Copy, Debug)]
pub struct Backoff {
    /// The first delay.
    pub min: Duration,
    /// The longest delay.
    pub max: Duration,
}

impl Backoff {
    /// The delay after so many failures in a row; the first is 1.
    pub fn delay(&self, failures: u32) -> Duration {
        let doubled = self
            .min
            .saturating_mul(1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX));
        doubled.min(self.max).mul_f64(1.0 - fastrand::f64() / 4.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_longest() {
        let backoff = Backoff {
            min: Duration::from_millis(100),
            max: Duration::from_mins(1),
        };
        for (failures, most) in [
            (0, 100),
            (1, 100),
            (2, 200),
            (4, 800),
            (11, 60_000),
            (40, 60_000),
            (u32::MAX, 60_000),
        ] {
            let delay = backoff.delay(failures);
            assert!(delay <= Duration::from_millis(most), "{failures}: {delay:?}");
            assert!(delay >= Duration::from_millis(most * 3 / 4), "{failures}: {delay:?}");
        }
    }
}
