//! Wall-clock time, the only place that asks the system for it.
//!
//! Decisions take the time as a value; the shell gets it from a [`Clock`], so that a test can say what time it is.
//! Waiting and measuring use tokio's monotonic time instead, which tests pause.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

/// Tells the time. Cheap to clone; clones of a manual clock share their hands.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(Arc<Mutex<Timestamp>>),
}

impl Clock {
    /// The system's clock.
    pub fn system() -> Self {
        Self(Source::System)
    }

    /// A clock that stands at `start` until [`Clock::set`] moves it.
    pub fn manual(start: Timestamp) -> Self {
        Self(Source::Manual(Arc::new(Mutex::new(start))))
    }

    /// The time now.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            #[expect(clippy::disallowed_methods, reason = "everybody else gets the time from here")]
            Source::System => Timestamp::now(),
            Source::Manual(now) => *now.lock(),
        }
    }

    /// The time now, cut to whole seconds as times in the API are.
    pub fn now_secs(&self) -> Timestamp {
        Timestamp::from_second(self.now().as_second()).expect("a timestamp's own second is in range")
    }

    /// Moves a manual clock. A system clock stays what it is.
    pub fn set(&self, to: Timestamp) {
        if let Source::Manual(now) = &self.0 {
            *now.lock() = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_of_a_manual_clock_move_together() {
        let clock = Clock::manual(Timestamp::UNIX_EPOCH);
        let copy = clock.clone();
        clock.set(Timestamp::from_millisecond(61_500).unwrap());
        assert_eq!(copy.now(), Timestamp::from_millisecond(61_500).unwrap());
        assert_eq!(copy.now_secs(), Timestamp::from_second(61).unwrap());
    }
}
