//! How long something has lasted. Stored times are the wall clock's, which is put forward and back; a wait must not end an
//! hour early for that, nor an hour late.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

/// Less is how clocks are corrected all the time.
const TOLERANCE: SignedDuration = SignedDuration::from_secs(2);

/// An instant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// By the clock on the wall: what is written down.
    pub now: Timestamp,
    /// By time that only ever goes on, in this process: what is measured with.
    pub steady: Timestamp,
}

/// When what the stored status dates by the wall clock began in steady time. A process that has just begun knows only the
/// stored times.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Spans(BTreeMap<String, Span>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    /// The stored time: another one is another span.
    stamp: Timestamp,
    /// In steady time.
    since: Timestamp,
}

impl Spans {
    /// `stamp`, put right for how far the clock was set since then. The span of `subject` is kept in `seen`: those that nobody
    /// asks for are forgotten.
    pub(super) fn since(&self, subject: String, stamp: Timestamp, at: Moment, seen: &mut Self) -> Timestamp {
        let known = self.0.get(&subject).filter(|span| span.stamp == stamp);
        let since = known.map_or_else(|| first_seen(stamp, at), |span| span.since);
        seen.0.insert(subject, Span { stamp, since });
        let told = earlier(at.now, at.steady.duration_since(since));
        let stepped = told.duration_since(stamp).abs() > TOLERANCE;
        if stepped { told } else { stamp }
    }

    /// Adds what was seen to what is known.
    pub(super) fn absorb(&mut self, mut seen: Self) {
        self.0.append(&mut seen.0);
    }
}

/// A time that is yet to come was stored before the clock was set back.
fn first_seen(stamp: Timestamp, at: Moment) -> Timestamp {
    earlier(at.steady, at.now.duration_since(stamp).max(SignedDuration::ZERO))
}

fn earlier(instant: Timestamp, span: SignedDuration) -> Timestamp {
    instant.saturating_sub(span).unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// What a stamp of second 1000 counts as at each reading of both clocks, one after the other.
    fn told(readings: &[(i64, i64)]) -> Vec<i64> {
        let mut spans = Spans::default();
        let told = readings.iter().map(|(now, steady)| {
            let mut seen = Spans::default();
            let moment = Moment {
                now: at(*now),
                steady: at(*steady),
            };
            let since = spans.since("it".into(), at(1000), moment, &mut seen);
            spans = seen;
            since.as_second()
        });
        told.collect()
    }

    #[test]
    fn a_clock_that_goes_evenly_changes_nothing() {
        assert_eq!(told(&[(1000, 5), (1061, 65), (4600, 3605)]), [1000, 1000, 1000]);
    }

    #[test]
    fn a_step_moves_what_is_measured_with_it() {
        assert_eq!(told(&[(1010, 10), (4611, 11)]), [1000, 4600], "forward");
        assert_eq!(told(&[(1010, 10), (511, 11)]), [1000, 500], "back");
    }

    #[test]
    fn after_a_restart_a_time_to_come_counts_from_now() {
        assert_eq!(told(&[(400, 3), (410, 13)]), [400, 400]);
    }
}
