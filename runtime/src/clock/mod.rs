//! Wall-clock time, the only place that asks the system for it.
//!
//! Decisions take the time as a value; the shell gets it from a [`Clock`], so that a test can say what time it is.
//! Waiting and measuring use [`Clock::steady`] or tokio's monotonic time instead, which nobody sets back.

mod steps;

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::time::Instant;

use self::steps::Steps;

/// What became of the system's clock since the process began.
static SYSTEM_STEPS: Mutex<Steps> = Mutex::new(Steps::new());

const NAP_MAX: Duration = Duration::from_mins(2);

/// How long to sleep before looking again whether it is `at` by now.
fn nap(now: Timestamp, at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(now))
        .unwrap_or_default()
        .min(NAP_MAX)
}

/// Tells the time. Cheap to clone; clones of a manual clock share their hands.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<Mutex<Hands>>),
}

/// What a manual clock shows.
#[derive(Debug)]
struct Hands {
    wall: Timestamp,
    steady: Timestamp,
    steps: Steps,
}

impl Hands {
    fn look(&mut self) {
        self.steps.look(self.wall, self.steady);
    }
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until [`Clock::set`] moves it.
    pub fn manual(start: Timestamp) -> Self {
        let mut hands = Hands {
            wall: start,
            steady: start,
            steps: Steps::new(),
        };
        hands.look();
        Self(Source::Manual(Arc::new(Mutex::new(hands))))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Source::System => {
                #[expect(clippy::disallowed_methods, reason = "everybody else gets the time from here")]
                let now = Timestamp::now();
                SYSTEM_STEPS.lock().look(now, self.steady());
                now
            }
            Source::Manual(hands) => hands.lock().wall,
        }
    }

    /// The time now, cut to whole seconds as times in the API are.
    pub fn now_secs(&self) -> Timestamp {
        Timestamp::from_second(self.now().as_second()).expect("a timestamp's own second is in range")
    }

    /// By how much the clock was put forward since it showed `stamp`, as far as this process has seen. What was stamped
    /// then is younger by this than it seems.
    pub fn put_forward_since(&self, stamp: Timestamp) -> SignedDuration {
        match &self.0 {
            Source::System => SYSTEM_STEPS.lock().since(stamp),
            Source::Manual(hands) => hands.lock().steps.since(stamp),
        }
    }

    /// What the clock as it is now would have shown when it showed `stamp`, as far as this process has seen it being set: what
    /// was stamped before is neither older nor younger for that.
    pub fn dated(&self, stamp: Timestamp) -> Timestamp {
        match &self.0 {
            Source::System => SYSTEM_STEPS.lock().dated(stamp),
            Source::Manual(hands) => hands.lock().steps.dated(stamp),
        }
    }

    /// Time that only ever goes on, whatever becomes of the system's clock, for what measures and waits. It counts from
    /// 1970 at the process's first question, so that nobody takes it for the time of day. A manual clock's own time.
    pub fn steady(&self) -> Timestamp {
        static FIRST: OnceLock<Instant> = OnceLock::new();
        match &self.0 {
            Source::System => {
                let passed = FIRST.get_or_init(Instant::now).elapsed();
                Timestamp::UNIX_EPOCH.saturating_add(passed).unwrap_or(Timestamp::MAX)
            }
            Source::Manual(hands) => hands.lock().steady,
        }
    }

    /// When to look again whether the clock shows `at` by now: then, and never later than in two minutes. It may be put
    /// forward meanwhile, and a machine that is suspended counts no time at all.
    pub fn wake_at(&self, at: Timestamp) -> Instant {
        Instant::now() + nap(self.now(), at)
    }

    /// Lets time pass on a manual clock until it shows `to`. A system clock stays what it is.
    pub fn set(&self, to: Timestamp) {
        if let Source::Manual(hands) = &self.0 {
            let mut hands = hands.lock();
            let passed = to.duration_since(hands.wall);
            hands.steady = hands.steady.saturating_add(passed).unwrap_or(hands.steady);
            hands.wall = to;
            hands.look();
        }
    }

    /// Puts a manual clock forward, or back, while no time passes.
    pub fn step(&self, by: SignedDuration) {
        if let Source::Manual(hands) = &self.0 {
            let mut hands = hands.lock();
            hands.wall = hands.wall.saturating_add(by).unwrap_or(hands.wall);
            hands.look();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_time_only_goes_on() {
        let clock = Clock::system();
        let (first, second) = (clock.steady(), clock.steady());
        assert!(first <= second && first < Timestamp::from_second(1_000_000).unwrap());
    }

    #[test]
    fn nobody_sleeps_through_a_clock_that_is_put_forward() {
        let at = |second| Timestamp::from_second(second).unwrap();
        for (until, seconds) in [(990, 0), (1000, 0), (1030, 30), (1120, 120), (90_000, 120)] {
            assert_eq!(nap(at(1000), at(until)), Duration::from_secs(seconds), "{until}");
        }
    }

    #[test]
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let copy = clock.clone();
        clock.set(Timestamp::from_millisecond(61_500).unwrap());
        assert_eq!(copy.now(), Timestamp::from_millisecond(61_500).unwrap());
        assert_eq!(copy.now_secs(), Timestamp::from_second(61).unwrap());
    }

    #[test]
    fn a_clock_that_is_put_forward_makes_nothing_older() {
        let start = Timestamp::from_second(1000).unwrap();
        let clock = Clock::manual(start);
        clock.step(SignedDuration::from_hours(1));
        assert_eq!(clock.put_forward_since(start), SignedDuration::from_hours(1));
        assert_eq!(clock.put_forward_since(clock.now()), SignedDuration::ZERO);
        assert_eq!(clock.steady(), start, "no time has passed");
    }
}
