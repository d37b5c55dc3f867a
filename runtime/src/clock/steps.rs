//! When the system's clock was put forward or back: what was stamped before is neither older nor younger for that.

use std::collections::VecDeque;

use jiff::{SignedDuration, Timestamp};

/// Less is how clocks are corrected all the time.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// More than a clock that anybody relies on is set while a process lives; the oldest are forgotten.
const MOST: usize = 32;

/// The steps of a clock, noticed by comparing it with steady time at each look.
#[derive(Debug)]
pub(super) struct Steps {
    /// The clock and steady time at the last look.
    last: Option<(Timestamp, Timestamp)>,
    forward: VecDeque<Step>,
    /// By how much each time.
    back: VecDeque<SignedDuration>,
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
            back: VecDeque::new(),
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
            if self.back.len() == MOST {
                self.back.pop_front();
            }
            self.back.push_back(step.abs());
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

    /// What the clock as it is now would have shown when it showed `stamp`. What is yet to come was stamped before the clock
    /// was set back; if nobody here has seen that, it may be another clock that is ahead, and the stamp stays as it is.
    pub(super) fn dated(&self, stamp: Timestamp) -> Timestamp {
        let moved = |by: SignedDuration| stamp.saturating_add(by).unwrap_or(stamp);
        let Some((wall, _)) = self.last else { return stamp };
        if stamp.duration_since(wall) <= TOLERANCE {
            return moved(self.since(stamp));
        }
        let mut steps = self.back.iter().rev().scan(SignedDuration::ZERO, |sum, by| {
            *sum = sum.saturating_sub(*by);
            Some(moved(*sum))
        });
        steps.find(|at| at.duration_since(wall) <= TOLERANCE).unwrap_or(stamp)
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
    fn what_was_stamped_before_the_clock_was_set_back_is_no_younger_for_that() {
        // An hour back at 1010, and 20 seconds later.
        let steps = looked(&[(1_000_000, 0), (996_410, 10), (996_430, 30)]);
        assert_eq!(steps.dated(at(1_000_005)), at(996_405), "it was 25 seconds ago");
        assert_eq!(steps.dated(at(996_420)), at(996_420), "stamped since");
        // Twice.
        let steps = looked(&[(1_000_000, 0), (996_410, 10), (992_820, 20)]);
        assert_eq!(steps.dated(at(996_415)), at(992_815));
        assert_eq!(steps.dated(at(1_000_005)), at(992_805));
        // And put right again.
        let steps = looked(&[(1_000_000, 0), (996_410, 10), (1_000_020, 20)]);
        assert_eq!(steps.dated(at(1_000_005)), at(1_000_005));
        assert_eq!(steps.dated(at(996_412)), at(1_000_012));
        // By a clock that is not ours, or before we were there.
        let steps = looked(&[(1000, 0), (1050, 50)]);
        assert_eq!(steps.dated(at(9000)), at(9000));
    }

    #[test]
    fn they_are_bounded() {
        let readings: Vec<_> = (0..100).map(|n| (1000 + n * 3600, n)).collect();
        assert_eq!(looked(&readings).forward.len(), MOST);
    }
}
