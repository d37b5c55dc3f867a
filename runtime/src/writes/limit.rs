//! How many writes may be in flight.
//!
//! Sixteen is where two cores were measured to be fastest, so that is the start, and the point to which the limit comes
//! back. Above it the limit grows as long as requests do not take twice as long as they do at sixteen; 429 halves it.

use std::time::Duration;

use tokio::time::Instant;

/// Where it starts.
pub(super) const START: usize = 16;
/// Each write in flight is a connection, about 40 KiB.
const MAX: usize = 128;
/// Low enough to end any overload, high enough that one slow request does not stop the rest.
const MIN: usize = 2;

#[derive(Debug)]
pub(super) struct Limit {
    current: usize,
    /// Completions since the last step.
    completed: usize,
    /// Per lane, since sizes differ by a factor of thirty: the usual seconds with few and with many in flight.
    lanes: [Lane; super::Lane::COUNT],
    cut: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    few: f64,
    many: f64,
}

/// What a finished request tells.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) lane: super::Lane,
    pub(super) started: Instant,
    pub(super) took: Duration,
    /// How many were in flight when it started, itself included.
    pub(super) in_flight: usize,
    pub(super) throttled: bool,
}

impl Limit {
    pub(super) fn new() -> Self {
        Self {
            current: START,
            completed: 0,
            lanes: [Lane::default(); super::Lane::COUNT],
            cut: None,
        }
    }

    pub(super) fn get(&self) -> usize {
        self.current
    }

    pub(super) fn observe(&mut self, sample: Sample, now: Instant) {
        if sample.throttled {
            // Those that started before the last cut were sent by the old limit; they say nothing about the new one.
            if self.cut.is_none_or(|cut| sample.started >= cut) {
                self.current = (self.current / 2).max(MIN);
                self.cut = Some(now);
                self.completed = 0;
            }
            return;
        }
        let lane = &mut self.lanes[sample.lane as usize];
        let mean = if sample.in_flight <= START {
            &mut lane.few
        } else {
            &mut lane.many
        };
        let secs = sample.took.as_secs_f64();
        *mean = if *mean == 0.0 { secs } else { *mean * 0.9 + secs * 0.1 };
        // Only a limit that is felt is moved, once for each full set of requests.
        if sample.in_flight < self.current {
            return;
        }
        self.completed += 1;
        if self.completed < self.current {
            return;
        }
        self.completed = 0;
        let slow = lane.few > 0.0 && lane.many > 2.0 * lane.few;
        if self.current > START && slow {
            self.current -= 1;
            // Judged anew at the lower limit.
            lane.many = 0.0;
        } else if self.current < MAX {
            self.current += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::writes::Lane;

    fn rounds(limit: &mut Limit, rounds: usize, took: impl Fn(usize) -> u64) {
        for _ in 0..rounds {
            let in_flight = limit.get();
            for _ in 0..in_flight {
                let took = Duration::from_millis(took(in_flight));
                let sample = Sample {
                    lane: Lane::Objects,
                    started: Instant::now(),
                    took,
                    in_flight,
                    throttled: false,
                };
                limit.observe(sample, Instant::now());
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_grows_while_the_server_keeps_up() {
        let mut limit = Limit::new();
        rounds(&mut limit, 40, |_| 10);
        assert_eq!(limit.get(), START + 40);
        rounds(&mut limit, 400, |_| 10);
        assert_eq!(limit.get(), MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn it_stays_near_where_requests_take_twice_as_long() {
        let mut limit = Limit::new();
        rounds(&mut limit, 400, |in_flight| if in_flight > 32 { 40 } else { 10 });
        assert!((28..=40).contains(&limit.get()), "{}", limit.get());
    }

    #[tokio::test(start_paused = true)]
    async fn too_many_requests_halve_it_once_per_cut() {
        let mut limit = Limit::new();
        let before = Instant::now();
        tokio::time::advance(Duration::from_millis(5)).await;
        let throttled = |started| Sample {
            lane: Lane::Status,
            started,
            took: Duration::from_millis(1),
            in_flight: 16,
            throttled: true,
        };
        for _ in 0..10 {
            limit.observe(throttled(before), Instant::now());
        }
        assert_eq!(limit.get(), 8, "all of them were sent before the cut");
        for _ in 0..10 {
            tokio::time::advance(Duration::from_millis(5)).await;
            limit.observe(throttled(Instant::now()), Instant::now());
        }
        assert_eq!(limit.get(), MIN);
        rounds(&mut limit, 14, |_| 10);
        assert_eq!(limit.get(), START, "it recovers");
    }
}
