//! The slow full resync of a Work, and how urgent a Work is. What watches see does not wait for either.

use jiff::SignedDuration;

/// The numbers behind the delays, in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Delays {
    /// How many rounds have the fixed delay.
    pub fixed_attempts: u32,
    /// The fixed delay.
    pub fixed_secs: f64,
    /// The first delay after that.
    pub slow_initial_secs: f64,
    /// How it grows at first.
    pub slow_base: f64,
    /// Until it is this long.
    pub slow_max_secs: f64,
    /// How it grows then.
    pub fast_base: f64,
    /// The longest delay.
    pub fast_max_secs: f64,
    /// Whether Works that are available or compared grow fast at once.
    pub skip_to_fast: bool,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            fixed_attempts: 1,
            fixed_secs: 5.0,
            slow_initial_secs: 2.0,
            slow_base: 1.2,
            slow_max_secs: 15.0,
            fast_base: 1.5,
            fast_max_secs: 900.0,
            skip_to_fast: true,
        }
    }
}

impl Delays {
    /// The same with invalid numbers replaced.
    pub fn valid(mut self) -> Self {
        if !(1..=40).contains(&self.fixed_attempts) {
            self.fixed_attempts = 1;
        }
        if self.fixed_secs.is_nan() || self.fixed_secs < 2.0 {
            self.fixed_secs = 2.0;
        }
        if !(1.05 <= self.slow_base && self.slow_base <= self.fast_base && self.fast_base <= 100.0) {
            (self.slow_base, self.fast_base) = (1.2, 1.2);
        }
        let ordered = 2.0 <= self.slow_initial_secs
            && self.slow_initial_secs <= self.slow_max_secs
            && self.slow_max_secs <= self.fast_max_secs
            && self.fast_max_secs <= 3600.0;
        if !ordered {
            (self.slow_initial_secs, self.slow_max_secs, self.fast_max_secs) = (2.0, 30.0, 900.0);
        }
        self
    }
}

/// How long one Work has been quiet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Quiet {
    generation: i64,
    results: Vec<(String, String)>,
    rounds: u32,
    last_secs: f64,
}

impl Quiet {
    /// When to look at the Work again. `results` are the reasons of each manifest (applied or compared; available);
    /// a new generation or another reason starts over, another message does not. `good`: the Work is available or
    /// compared.
    pub fn next(
        &mut self,
        delays: &Delays,
        generation: i64,
        results: Vec<(String, String)>,
        good: bool,
    ) -> SignedDuration {
        if generation != self.generation || results != self.results {
            *self = Self {
                generation,
                results,
                rounds: 0,
                last_secs: 0.0,
            };
        }
        let (last, fast) = (self.last_secs, self.last_secs * delays.fast_base);
        let slow = last * delays.slow_base;
        let secs = if self.rounds < delays.fixed_attempts {
            delays.fixed_secs
        } else if self.rounds == delays.fixed_attempts {
            delays.slow_initial_secs
        } else if last >= delays.fast_max_secs {
            delays.fast_max_secs
        } else if delays.skip_to_fast && good || last >= delays.slow_max_secs || slow > delays.slow_max_secs {
            fast
        } else {
            slow
        };
        self.last_secs = secs.min(delays.fast_max_secs);
        self.rounds = (self.rounds + 1).min(199);
        SignedDuration::try_from_secs_f64(self.last_secs).unwrap_or(SignedDuration::from_secs(900))
    }
}

/// The priority of timers.
pub const TIMER_PRIORITY: i64 = -1;
/// The priority of what cannot wait: creations, deletions, and updates of Works that are not well.
pub const URGENT: i64 = 100;

/// The priority of an update of a healthy Work of this age: old ones can wait. `a` and `b` are the line's coefficients.
pub fn update_priority(age: SignedDuration, a: i64, b: i64) -> i64 {
    a.saturating_mul(age.as_mins()).saturating_add(b).clamp(0, URGENT)
}

/// The priority of a Work in the initial list. After a restart there are many, and most need nothing.
pub fn listed_priority(status_is_current: bool) -> i64 {
    if status_is_current { TIMER_PRIORITY } else { URGENT }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(good: bool, count: usize) -> Vec<f64> {
        let mut quiet = Quiet::default();
        let round = |secs: f64| (secs * 100.0).round() / 100.0;
        (0..count)
            .map(|_| round(quiet.next(&Delays::default(), 1, vec![], good).as_secs_f64()))
            .collect()
    }

    #[test]
    fn the_default_series() {
        let failing = [
            5.0, 2.0, 2.4, 2.88, 3.46, 4.15, 4.98, 5.97, 7.17, 8.6, 10.32, 12.38, 14.86, 22.29, 33.44, 50.15, 75.23,
            112.84, 169.27, 253.9, 380.85, 571.27, 856.91, 900.0, 900.0,
        ];
        assert_eq!(series(false, 25), failing);
        let good = [
            5.0, 2.0, 3.0, 4.5, 6.75, 10.13, 15.19, 22.78, 34.17, 51.26, 76.89, 115.33, 173.0, 259.49, 389.24, 583.86,
            875.79, 900.0,
        ];
        assert_eq!(series(true, 18), good);
    }

    #[test]
    fn a_new_generation_or_result_starts_over() {
        let mut quiet = Quiet::default();
        let results = |word: &str| vec![(word.to_owned(), String::new())];
        let mut next = |generation, word| {
            quiet
                .next(&Delays::default(), generation, results(word), false)
                .as_secs()
        };
        assert_eq!(
            [next(1, "a"), next(1, "a"), next(1, "b"), next(1, "b"), next(2, "b")],
            [5, 2, 5, 2, 5]
        );
    }

    #[test]
    fn invalid_numbers_are_replaced() {
        let odd = Delays {
            fixed_attempts: 0,
            fixed_secs: f64::NAN,
            slow_base: 3.0,
            fast_base: 2.0,
            slow_max_secs: 1.0,
            ..Delays::default()
        };
        let expected = Delays {
            fixed_secs: 2.0,
            slow_base: 1.2,
            fast_base: 1.2,
            slow_max_secs: 30.0,
            ..Delays::default()
        };
        assert_eq!(odd.valid(), expected);
        assert_eq!(Delays::default().valid(), Delays::default());
    }

    #[test]
    fn old_healthy_works_can_wait() {
        let priority = |minutes: i64| update_priority(SignedDuration::from_mins(minutes), -3, 100);
        assert_eq!([priority(0), priority(5), priority(33), priority(34)], [100, 85, 1, 0]);
        assert_eq!((listed_priority(true), listed_priority(false)), (-1, 100));
    }
}
