//! Which writes a heartbeat causes. Usually one; two when content changed; none within a burst.

use jiff::{SignedDuration, Timestamp};

/// With this many beats that change nothing, the InternalMemberCluster is refreshed too.
const REFRESH_EVERY: u32 = 5;

/// A heartbeat, or a report, which is as good a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    /// When it came, by the hub's clock: what people read.
    pub at: Timestamp,
    /// When it came in steady time, which no setting of that clock moves: what waits are measured by.
    pub steady: Timestamp,
}

/// The beats of one member on one replica.
#[derive(Debug, Clone, Copy, Default)]
pub struct Beats {
    received: Option<Beat>,
    /// The last that was written, in steady time.
    written: Option<Timestamp>,
    since_refresh: u32,
    content: bool,
}

/// What to write about a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Nothing now; at this steady time, if nothing else has been written by then.
    Later(Timestamp),
    /// Nothing at all: no beat came since the last write.
    Nothing,
    /// Its time on the MemberCluster: people and the scheduler read it there, and the member's watch is not woken.
    Member(Beat),
    /// On the InternalMemberCluster, then on the MemberCluster.
    Both(Beat),
    /// On the InternalMemberCluster; the leader copies it.
    Internal(Beat),
}

impl Beats {
    /// One more.
    pub fn received(&mut self, beat: Beat) {
        self.received = Some(beat);
    }

    /// When the newest came, by the hub's clock.
    pub fn newest(&self) -> Option<Timestamp> {
        self.received.map(|beat| beat.at)
    }

    /// What it says differs from what is stored.
    pub fn content_changed(&mut self) {
        self.content = true;
    }

    /// What to write now, in steady time. Beats that came close together count once, with the time of the last.
    pub fn due(&self, leader: bool, period: SignedDuration, now: Timestamp) -> Write {
        let Some(received) = self.received else {
            return Write::Nothing;
        };
        if !self.content {
            match self.written {
                Some(written) if received.steady <= written => return Write::Nothing,
                Some(written) => {
                    let earliest = written + period / 2;
                    if now < earliest {
                        return Write::Later(earliest);
                    }
                }
                None => {}
            }
        }
        if !leader {
            Write::Internal(received)
        } else if self.content || self.since_refresh + 1 >= REFRESH_EVERY {
            Write::Both(received)
        } else {
            Write::Member(received)
        }
    }

    /// The API server has accepted it.
    pub fn stored(&mut self, write: Write) {
        match write {
            Write::Later(_) | Write::Nothing => {}
            Write::Member(beat) => {
                self.written = Some(beat.steady);
                self.since_refresh += 1;
            }
            Write::Both(beat) | Write::Internal(beat) => {
                *self = Self {
                    received: self.received,
                    written: Some(beat.steady),
                    since_refresh: 0,
                    content: false,
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PERIOD: SignedDuration = SignedDuration::from_secs(60);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).expect("time")
    }

    fn beat(seconds: i64) -> Beat {
        Beat {
            at: at(seconds),
            steady: at(seconds),
        }
    }

    #[test]
    fn a_clock_that_is_set_back_delays_nothing() {
        let mut beats = Beats::default();
        beats.received(beat(7_200));
        beats.stored(beats.due(true, PERIOD, at(7_200)));
        // An hour back; the beats go on.
        let next = Beat {
            at: at(3_660),
            steady: at(7_260),
        };
        beats.received(next);
        assert_eq!(beats.due(true, PERIOD, at(7_260)), Write::Member(next));
    }

    #[test]
    fn a_beat_is_one_write_and_every_fifth_two() {
        let mut beats = Beats::default();
        let mut writes = vec![];
        for i in 0..10 {
            beats.received(beat(i * 57));
            let write = beats.due(true, PERIOD, at(i * 57));
            beats.stored(write);
            writes.push(matches!(write, Write::Both(_)));
        }
        assert_eq!(
            writes,
            [false, false, false, false, true, false, false, false, false, true]
        );
    }

    #[test]
    fn a_burst_after_a_stall_counts_once() {
        let mut beats = Beats::default();
        beats.received(beat(0));
        beats.stored(beats.due(true, PERIOD, at(0)));
        for second in 1..20 {
            beats.received(beat(second));
            assert_eq!(beats.due(true, PERIOD, at(second)), Write::Later(at(30)));
        }
        assert_eq!(
            beats.due(true, PERIOD, at(30)),
            Write::Member(beat(19)),
            "with the time of the last"
        );
        beats.stored(Write::Member(beat(19)));
        assert_eq!(
            beats.due(true, PERIOD, at(90)),
            Write::Nothing,
            "a timer alone is no sign of life"
        );
    }

    #[test]
    fn content_is_written_at_once_and_first_to_the_internal_member_cluster() {
        let mut beats = Beats::default();
        beats.received(beat(0));
        beats.stored(Write::Member(beat(0)));
        beats.received(beat(1));
        beats.content_changed();
        assert_eq!(beats.due(true, PERIOD, at(1)), Write::Both(beat(1)));
        beats.stored(Write::Both(beat(1)));
        assert_eq!(beats.due(true, PERIOD, at(2)), Write::Nothing);
        beats.received(beat(70));
        assert_eq!(
            beats.due(false, PERIOD, at(70)),
            Write::Internal(beat(70)),
            "only the leader writes MemberClusters"
        );
    }

    proptest! {
        #[test]
        fn every_beat_is_visible_within_half_a_period(gaps in prop::collection::vec(0..90i64, 1..60)) {
            let mut beats = Beats::default();
            let (mut now, mut timer, mut shown) = (0, None::<Timestamp>, None::<Timestamp>);
            let mut received: Option<Timestamp> = None;
            for gap in gaps {
                let next = now + gap;
                if let Some(due) = timer.filter(|due| *due <= at(next)) {
                    if let write @ (Write::Member(t) | Write::Both(t)) = beats.due(true, PERIOD, due) {
                        beats.stored(write);
                        shown = Some(t.at);
                    }
                    timer = None;
                    prop_assert_eq!(shown, received);
                }
                now = next;
                beats.received(beat(now));
                received = Some(at(now));
                match beats.due(true, PERIOD, at(now)) {
                    Write::Later(due) => {
                        prop_assert!(due <= at(now) + PERIOD / 2);
                        timer = Some(due);
                    }
                    write @ (Write::Member(t) | Write::Both(t)) => {
                        beats.stored(write);
                        shown = Some(t.at);
                    }
                    Write::Nothing | Write::Internal(_) => {}
                }
            }
        }
    }
}
