//! When the next heartbeat is due.

use std::time::Duration;

use fleet_core::session::backoff::until_next_beat;
use jiff::SignedDuration;
use tokio::time::Instant;

/// Beats at a fixed rate with a jitter of 5 %, whatever else is slow.
#[derive(Debug)]
pub(super) struct Beats {
    period: Duration,
    last: Instant,
    next: Instant,
}

impl Beats {
    /// The first beat is due at once.
    pub(super) fn new(period: Duration, now: Instant) -> Self {
        Self {
            period,
            last: now,
            next: now,
        }
    }

    /// When the next beat is due.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// A beat goes out. The next is counted from when this one was due, so that delays do not add up; after a stall it is
    /// counted from now, so that they do not come in a burst.
    pub(super) fn beat(&mut self, now: Instant) {
        let wait = jittered(self.period);
        self.last = now;
        self.next = if self.next + wait > now {
            self.next + wait
        } else {
            now + wait
        };
    }

    /// The period is another one now, which counts from the last beat on.
    pub(super) fn set_period(&mut self, period: Duration, now: Instant) {
        if self.period != period {
            self.period = period;
            // The first beat is not put off by it.
            if self.next > self.last {
                self.next = (self.last + jittered(period)).max(now);
            }
        }
    }
}

fn jittered(period: Duration) -> Duration {
    let period = SignedDuration::try_from(period).expect("at most ten minutes");
    until_next_beat(period, fastrand::f64()).unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(20);

    #[tokio::test(start_paused = true)]
    async fn beats_keep_their_rate() {
        let begin = Instant::now();
        let mut beats = Beats::new(PERIOD, begin);
        assert_eq!(beats.next(), begin);
        let mut before = begin;
        for _ in 0..200 {
            // Each is sent a little late.
            tokio::time::sleep_until(beats.next() + Duration::from_millis(300)).await;
            let due = beats.next();
            assert!(
                due == begin || (due - before).abs_diff(PERIOD) <= PERIOD / 20,
                "{:?}",
                due - before
            );
            before = due;
            beats.beat(Instant::now());
        }
        let mean = (before - begin) / 199;
        assert!(mean.abs_diff(PERIOD) < Duration::from_millis(200), "{mean:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_stall_there_is_no_burst() {
        let mut beats = Beats::new(PERIOD, Instant::now());
        beats.beat(Instant::now());
        tokio::time::advance(PERIOD * 10).await;
        beats.beat(Instant::now());
        assert!(beats.next() >= Instant::now() + PERIOD * 9 / 10);
    }

    #[tokio::test(start_paused = true)]
    async fn another_period_counts_at_once() {
        let mut beats = Beats::new(Duration::from_mins(10), Instant::now());
        beats.set_period(Duration::from_mins(5), Instant::now());
        assert_eq!(beats.next(), Instant::now(), "the first is not put off");
        beats.beat(Instant::now());
        tokio::time::advance(Duration::from_secs(10)).await;
        beats.set_period(PERIOD, Instant::now());
        let wait = beats.next() - Instant::now();
        assert!(
            wait <= Duration::from_secs(11) && wait >= Duration::from_secs(9),
            "{wait:?}"
        );
        tokio::time::advance(Duration::from_mins(1)).await;
        beats.set_period(Duration::from_secs(1), Instant::now());
        assert_eq!(beats.next(), Instant::now(), "overdue already");
    }
}
