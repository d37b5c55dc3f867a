//! Whether a changed selection is snapshotted now or waits for more changes.

use jiff::{SignedDuration, Timestamp};

/// What the flags say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// `--resource-snapshot-creation-minimum-interval`, if given.
    pub minimum_interval: Option<SignedDuration>,
    /// `--resource-changes-collection-duration`, if given.
    pub collection: Option<SignedDuration>,
}

/// The documented default of the first flag, for when only the other is given.
const MINIMUM_INTERVAL: SignedDuration = SignedDuration::from_secs(30);
/// The documented default of the second flag, for when only the other is given.
const COLLECTION: SignedDuration = SignedDuration::from_secs(15);

/// Without flags: how long after a snapshot the next change counts as part of a burst. Long enough to collect a
/// `kubectl apply` of many files, short enough not to be noticed by somebody who edits by hand.
const QUIET: SignedDuration = SignedDuration::from_secs(2);
/// Without flags: the longest time between two snapshots of one burst. Twice the longest wait, so that a burst which
/// goes on stays one.
const BURST_GAP: SignedDuration = SignedDuration::from_secs(60);
/// Without flags: the longest wait, which is what everybody waits for with upstream's defaults.
const WAIT_MAX: SignedDuration = SignedDuration::from_secs(30);

/// Clocks of API servers may be ahead of ours by that.
const SKEW: SignedDuration = SignedDuration::from_secs(5);

/// What to do about a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Make the snapshot.
    Now,
    /// Look again at this time, and until then go on with the current snapshot.
    Wait {
        /// When.
        until: Timestamp,
        /// The time of detection to write to the current snapshot, if it is not there yet.
        record: Option<Timestamp>,
    },
}

/// Whether a changed selection may be snapshotted. `created` are the creation times of the masters, newest first; the
/// first is the current one. `detected` is the recorded time of detection, if it can be read.
///
/// A flag that is given is obeyed to the letter; with both 0 nothing waits. Without flags a change after a quiet time goes
/// out at once and only bursts wait: 2 s, then 4, 8, 16 and at most 30 as long as the burst goes on.
pub fn decide(flags: Flags, created: &[Timestamp], detected: Option<Timestamp>, now: Timestamp) -> Decision {
    let Some(latest) = created.first().copied() else {
        return Decision::Now;
    };
    // What is yet to come was stored before the clock was set back: long ago, as far as anybody can tell.
    let is_past = |at: &Timestamp| at.duration_since(now) <= SKEW;
    let latest = Some(latest).filter(is_past).unwrap_or(Timestamp::MIN);
    let detected = detected.filter(is_past);
    let after = |at: Timestamp, wait: SignedDuration| at.saturating_add(wait).unwrap_or(Timestamp::MAX);
    let (until, record) = match (flags.minimum_interval, flags.collection) {
        (None, None) => {
            let gaps = created.windows(2).map(|pair| pair[0].duration_since(pair[1]));
            let recent = gaps.take_while(|gap| *gap <= BURST_GAP).count();
            let wait = QUIET.as_secs() << recent.min(8);
            (after(latest, SignedDuration::from_secs(wait).min(WAIT_MAX)), None)
        }
        (interval, collection) => {
            let (interval, collection) = (interval.unwrap_or(MINIMUM_INTERVAL), collection.unwrap_or(COLLECTION));
            if interval.is_zero() && collection.is_zero() {
                return Decision::Now;
            }
            let since = detected.unwrap_or(now);
            let until = after(since, collection).max(after(latest, interval));
            (until, detected.is_none().then_some(now))
        }
    };
    if until <= now {
        Decision::Now
    } else {
        Decision::Wait { until, record }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[expect(clippy::unnecessary_wraps, reason = "a flag that is given")]
    fn secs(n: i64) -> Option<SignedDuration> {
        Some(SignedDuration::from_secs(n))
    }

    fn wait(until: i64, record: Option<i64>) -> Decision {
        Decision::Wait {
            until: at(until),
            record: record.map(at),
        }
    }

    #[test]
    fn the_first_snapshot_never_waits() {
        assert_eq!(
            decide(
                Flags {
                    minimum_interval: secs(30),
                    collection: secs(15)
                },
                &[],
                None,
                at(0)
            ),
            Decision::Now
        );
    }

    #[test]
    fn flags_are_obeyed_to_the_letter() {
        let flags = |minimum_interval, collection| Flags {
            minimum_interval,
            collection,
        };
        for (flags, created, detected, now, expected) in [
            // max(detected + 15, created + 30)
            (flags(secs(30), secs(15)), 0, None, 10, wait(30, Some(10))),
            (flags(secs(30), secs(15)), 0, Some(10), 20, wait(30, None)),
            (flags(secs(30), secs(15)), 0, Some(10), 30, Decision::Now),
            (flags(secs(30), secs(15)), 0, None, 100, wait(115, Some(100))),
            (flags(secs(30), secs(0)), 0, None, 100, Decision::Now),
            (flags(secs(0), secs(15)), 0, None, 100, wait(115, Some(100))),
            (flags(secs(0), secs(0)), 100, None, 100, Decision::Now),
            // One given: the other one is what the documents say.
            (flags(None, secs(5)), 0, None, 10, wait(30, Some(10))),
        ] {
            assert_eq!(
                decide(flags, &[at(created)], detected.map(at), at(now)),
                expected,
                "{flags:?} {now}"
            );
        }
    }

    #[test]
    fn a_clock_that_was_set_back_holds_nothing_up() {
        let flags = Flags {
            minimum_interval: secs(30),
            collection: secs(15),
        };
        let hour = 3_600;
        for flags in [Flags::default(), flags] {
            for by in [2 * hour, -2 * hour] {
                let now = at(10 * hour + by);
                let (created, mut detected) = ([at(10 * hour)], Some(at(10 * hour)));
                let mut looked = now;
                for _ in 0..3 {
                    match decide(flags, &created, detected, looked) {
                        Decision::Now => break,
                        Decision::Wait { until, record } => {
                            detected = record.or(detected);
                            looked = until;
                        }
                    }
                }
                assert!(
                    looked.duration_since(now) <= SignedDuration::from_secs(30),
                    "{flags:?} {by}"
                );
                assert_eq!(
                    decide(flags, &created, detected, looked),
                    Decision::Now,
                    "{flags:?} {by}"
                );
            }
        }
    }

    #[test]
    fn without_flags_only_bursts_wait() {
        let flags = Flags::default();
        assert_eq!(decide(flags, &[at(0)], None, at(100)), Decision::Now);
        assert_eq!(decide(flags, &[at(100)], None, at(100)), wait(102, None));
        assert_eq!(decide(flags, &[at(100)], None, at(102)), Decision::Now);
        // Again and again: longer and longer, up to a bound.
        assert_eq!(decide(flags, &[at(102), at(100)], None, at(103)), wait(106, None));
        let burst: Vec<_> = (0..8).map(|i| at(100 - i)).collect();
        assert_eq!(decide(flags, &burst, None, at(101)), wait(130, None));
        // Old snapshots are no burst.
        assert_eq!(decide(flags, &[at(1000), at(500)], None, at(1001)), wait(1002, None));
    }
}
