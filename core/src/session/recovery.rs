//! A hub that went back in time: its etcd was restored from an older backup.
//!
//! What such a hub wants is what it wanted then, and what was placed since it has forgotten. So whoever notices holds
//! still until somebody has looked, and says so with an annotation. Nothing is decided by a message or kept in memory
//! alone: the proofs are what members have written down, and annotations of the InternalMemberCluster.

use std::collections::BTreeMap;

use fleet_api::annotations::{RECOVERED_AT, WENT_BACK_AT};
use jiff::{SignedDuration, Timestamp};

use crate::apply::inventory::Attempt;

/// How far a clock may run ahead. A stamp beyond that would end holds that nobody has looked at.
const AHEAD_MAX: SignedDuration = SignedDuration::from_mins(10);

/// What an InternalMemberCluster says about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovery {
    /// When the hub agent noticed.
    pub went_back_at: Option<Timestamp>,
    /// When somebody has looked and said to go on.
    pub recovered_at: Option<Timestamp>,
}

impl Recovery {
    /// What the annotations say. What is no time counts as nothing.
    pub fn of(annotations: Option<&BTreeMap<String, String>>) -> Self {
        let time = |key| annotations?.get(key)?.parse().ok();
        Self {
            went_back_at: time(WENT_BACK_AT),
            recovered_at: time(RECOVERED_AT),
        }
    }

    /// Whether somebody has said to go on after this time.
    pub fn covers(&self, at: Timestamp, now: Timestamp) -> bool {
        self.recovered_at
            .is_some_and(|recovered| recovered > at && recovered.duration_since(now) <= AHEAD_MAX)
    }

    /// Whether the hub agent has noticed, and nobody has said to go on since.
    pub fn is_held(&self, now: Timestamp) -> bool {
        self.went_back_at.is_some_and(|at| !self.covers(at, now))
    }

    /// Whether a member whose deletion was asked for at `asked` is not cleaned up after. Who asked for it after the hub
    /// agent noticed has said to go on: a member cannot stay by saying that the hub went back in time.
    pub fn holds_removal(&self, asked: Option<Timestamp>, now: Timestamp) -> bool {
        let both = asked.zip(self.went_back_at);
        self.is_held(now) && both.is_none_or(|(asked, noticed)| asked < noticed)
    }
}

/// Whether the Work with this uid, generation and spec is older than the attempt that was written down. A generation
/// only grows, and one generation has one spec.
pub fn went_back(record: &Attempt, uid: &str, generation: i64, spec_digest: impl FnOnce() -> String) -> bool {
    !record.work_uid.is_empty()
        && record.work_uid == uid
        && (generation < record.generation
            || generation == record.generation && differs(&record.spec_digest, &spec_digest()))
}

/// Whether two digests are of different specs. Another agent may have made one of another text; they say nothing then.
fn differs(recorded: &str, now: &str) -> bool {
    let format = |digest: &str| digest.split_once(':').map(|(format, _)| format.to_owned());
    !recorded.is_empty() && format(recorded) == format(now) && recorded != now
}

/// Whether a Work goes on where the attempt that was written down ended. If not, what it does not name may be something
/// that the hub has forgotten: another Work has the name, or somebody has said that the hub was restored since.
pub fn goes_on(record: &Attempt, uid: &str, recovery: &Recovery, now: Timestamp) -> bool {
    let since = record.at.unwrap_or(Timestamp::MIN);
    record.work_uid.is_empty() || record.work_uid == uid && !recovery.covers(since, now)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn record(generation: i64, digest: &str) -> Attempt {
        Attempt {
            work_uid: "u".into(),
            generation,
            spec_digest: digest.into(),
            at: Some(at(100)),
        }
    }

    #[test]
    fn a_lower_generation_or_another_spec_of_the_same_one_is_the_past() {
        for (case, uid, generation, digest, back) in [
            ("the same", "u", 5, "d", false),
            ("a change", "u", 6, "e", false),
            ("the past", "u", 4, "e", true),
            ("the past, as it is now", "u", 4, "d", true),
            ("the past, and changed again", "u", 5, "e", true),
            ("another Work", "v", 1, "e", false),
            ("what another agent has written down", "u", 5, "v1:e", false),
        ] {
            assert_eq!(
                went_back(&record(5, "d"), uid, generation, || digest.to_owned()),
                back,
                "{case}"
            );
        }
        assert!(
            !went_back(&Attempt::default(), "", 0, String::new),
            "nothing was written down"
        );
    }

    #[test]
    fn a_hold_ends_with_a_newer_word_that_is_not_from_the_future() {
        let recovery = |recovered: Option<i64>| Recovery {
            went_back_at: Some(at(200)),
            recovered_at: recovered.map(at),
        };
        for (case, recovered, held) in [
            ("nobody has looked", None, true),
            ("somebody, before", Some(150), true),
            ("at the same time", Some(200), true),
            ("after", Some(201), false),
            ("in the future, by a little", Some(900), false),
            ("in the future", Some(1_000), true),
        ] {
            assert_eq!(recovery(recovered).is_held(at(300)), held, "{case}");
        }
        assert!(!Recovery::default().is_held(at(300)));
    }

    #[test]
    fn digests_are_compared_if_they_are_of_one_format() {
        for (recorded, now, back) in [
            ("v1:d", "v1:d", false),
            ("v1:d", "v1:e", true),
            ("v1:d", "v2:e", false),
            ("d", "v1:e", false),
            ("", "v1:e", false),
        ] {
            assert_eq!(
                went_back(&record(5, recorded), "u", 5, || now.to_owned()),
                back,
                "{recorded} {now}"
            );
        }
    }

    #[test]
    fn who_deletes_a_member_after_the_hub_went_back_has_said_to_go_on() {
        let recovery = |recovered: Option<i64>| Recovery {
            went_back_at: Some(at(200)),
            recovered_at: recovered.map(at),
        };
        for (case, recovered, asked, held) in [
            ("asked before", None, Some(199), true),
            ("asked when it was noticed", None, Some(200), false),
            ("asked after", None, Some(201), false),
            ("asked before, and looked at", Some(201), Some(199), false),
            ("not asked", None, None, true),
        ] {
            assert_eq!(
                recovery(recovered).holds_removal(asked.map(at), at(300)),
                held,
                "{case}"
            );
        }
        assert!(!Recovery::default().holds_removal(Some(at(1)), at(300)));
    }

    #[test]
    fn what_was_written_down_before_the_recovery_does_not_go_on() {
        let recovered = Recovery {
            went_back_at: None,
            recovered_at: Some(at(150)),
        };
        let none = Recovery::default();
        assert!(goes_on(&record(5, "d"), "u", &none, at(200)));
        assert!(
            !goes_on(&record(5, "d"), "u", &recovered, at(200)),
            "written down before"
        );
        assert!(
            !goes_on(&record(5, "d"), "v", &none, at(200)),
            "another Work has the name"
        );
        let since = Attempt {
            at: Some(at(150)),
            ..record(5, "d")
        };
        assert!(goes_on(&since, "u", &recovered, at(200)));
        assert!(goes_on(&Attempt::default(), "u", &recovered, at(200)), "nothing was");
    }

    #[test]
    fn annotations_that_are_no_times_say_nothing() {
        let list = BTreeMap::from([
            (RECOVERED_AT.to_owned(), "yesterday".to_owned()),
            (WENT_BACK_AT.to_owned(), "2026-01-02T03:04:05Z".to_owned()),
        ]);
        let read = Recovery::of(Some(&list));
        assert_eq!(read.recovered_at, None);
        assert_eq!(
            read.went_back_at.map(|t| t.to_string()).as_deref(),
            Some("2026-01-02T03:04:05Z")
        );
    }
}
