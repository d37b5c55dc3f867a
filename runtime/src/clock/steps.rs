//! When the system's clock was put forward: what was stamped before is not older for that.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// Less is how clocks are corrected all the time.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// More than a clock that anybody relies on is put forward while a process lives; the oldest are forgotten.
const MOST: usize = 32;

/// The steps of a clock, noticed by comparing it with steady time at each look.
#[derive(Debug)]
pub(super) struct Steps {
    /// The clock and steady time at the last look.
    last: Option<(Timestamp, Timestamp)>,
    forward: VecDeque<Step>,
}

#[derive(Debug)]
struct Step {
    /// What the clock would have shown.
    from: Timestamp,
    by: SignedDuration,
}

impl Steps {
    pub(super) const fn new() -> Self {
        Self {
            last: None,
            forward: VecDeque::new(),
        }
    }

    /// Looks at the clock.
    pub(super) fn look(&mut self, wall: Timestamp, steady: Timestamp) {
        let Some((last_wall, last_steady)) = self.last.replace((wall, steady)) else {
            return;
        };
        let passed = steady.duration_since(last_steady);
        let step = wall.duration_since(last_wall).saturating_sub(passed);
        if step > TOLERANCE {
            if self.forward.len() == MOST {
                self.forward.pop_front();
            }
            let from = last_wall.saturating_add(passed).unwrap_or(wall);
            self.forward.push_back(Step { from, by: step });
        } else if step < -TOLERANCE {
            self.back(step.abs());
        }
    }

    /// Set back: the newest steps forward are undone.
    fn back(&mut self, mut by: SignedDuration) {
        while let Some(step) = self.forward.back_mut() {
            if by < step.by {
                step.by = step.by.saturating_sub(by);
                return;
            }
            by = by.saturating_sub(step.by);
            self.forward.pop_back();
        }
    }

    /// By how much the clock was put forward since it showed `stamp`.
    pub(super) fn since(&self, stamp: Timestamp) -> SignedDuration {
        let later = self.forward.iter().filter(|step| stamp <= step.from);
        later.fold(SignedDuration::ZERO, |sum, step| sum.saturating_add(step.by))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// Looks at these readings of both clocks.
    fn looked(readings: &[(i64, i64)]) -> Steps {
        let mut steps = Steps::new();
        for (wall, steady) in readings {
            steps.look(at(*wall), at(*steady));
        }
        steps
    }

    #[test]
    fn a_clock_that_goes_evenly_has_no_steps() {
        let steps = looked(&[(1000, 0), (1060, 60), (1062, 61), (5000, 3998)]);
        assert_eq!(steps.since(at(0)), SignedDuration::ZERO);
    }

    #[test]
    fn what_was_stamped_before_a_step_is_told_apart() {
        let steps = looked(&[(1000, 0), (4610, 10)]);
        assert_eq!(steps.since(at(1005)), SignedDuration::from_hours(1));
        assert_eq!(steps.since(at(4611)), SignedDuration::ZERO);
    }

    #[test]
    fn steps_add_up_and_are_undone_by_setting_back() {
        let steps = looked(&[(1000, 0), (1110, 10), (1220, 20)]);
        assert_eq!(steps.since(at(1000)), SignedDuration::from_secs(200));
        assert_eq!(steps.since(at(1115)), SignedDuration::from_secs(100));
        let steps = looked(&[(1000, 0), (1110, 10), (1220, 20), (1080, 30)]);
        assert_eq!(steps.since(at(1000)), SignedDuration::from_secs(50));
        let steps = looked(&[(1000, 0), (1110, 10), (900, 20)]);
        assert_eq!(steps.since(at(1000)), SignedDuration::ZERO, "set back for good");
    }

    #[test]
    fn they_are_bounded() {
        let readings: Vec<_> = (0..100).map(|n| (1000 + n * 3600, n)).collect();
        assert_eq!(looked(&readings).forward.len(), MOST);
    }
}
