//! What to do about a lease, as a function of what was seen of it.
//!
//! Clocks of different machines are never compared. Who waits for a lease to run out measures, with its own monotonic
//! clock, the time since it last saw the record *change*; what times the record carries does not matter.

use std::time::Duration;

use tokio::time::Instant;

/// The part of a Lease that decisions need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Empty: released.
    pub(super) holder: String,
    pub(super) transitions: i32,
    /// How long the holder asked others to wait.
    pub(super) duration: Duration,
}

/// A record, and since when it has been what it is.
#[derive(Clone, Debug)]
pub(super) struct Observed {
    pub(super) record: Record,
    pub(super) version: String,
    pub(super) changed: Instant,
    /// The API server went back in time, and somebody may lead by what it said before, whoever the record names.
    pub(super) restored: bool,
}

impl Observed {
    /// Notes what was just read. The wait begins anew only if it is a different version.
    pub(super) fn note(before: Option<Self>, record: Record, version: String, now: Instant, restored: bool) -> Self {
        match before {
            Some(before) if before.version == version => before,
            _ => Self {
                record,
                version,
                changed: now,
                restored,
            },
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// There is none: make it.
    Create,
    /// It is ours: renew it.
    Renew { transitions: i32 },
    /// It is free or has run out: take it.
    Take { transitions: i32 },
    /// Somebody else has it, until then at least.
    Wait { until: Instant },
}

/// What `me` does, who leads or does not.
pub(super) fn decide(observed: Option<&Observed>, me: &str, leads: bool, now: Instant) -> Action {
    let Some(Observed {
        record,
        changed,
        restored,
        ..
    }) = observed
    else {
        return Action::Create;
    };
    let expires = *changed + record.duration;
    if record.holder == me && (leads || !restored) {
        Action::Renew {
            transitions: record.transitions,
        }
    } else if record.holder.is_empty() && !restored || expires <= now {
        Action::Take {
            transitions: record.transitions.saturating_add(1),
        }
    } else {
        Action::Wait { until: expires }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(15);

    fn observed(holder: &str, changed: Instant) -> Observed {
        let record = Record {
            holder: holder.to_owned(),
            transitions: 3,
            duration: LEASE,
        };
        Observed {
            record,
            version: "7".to_owned(),
            changed,
            restored: false,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_case_has_its_action() {
        let seen = Instant::now();
        let at = |secs| seen + Duration::from_secs(secs);
        let wait = Action::Wait { until: seen + LEASE };
        for (case, holder, now, action) in [
            ("ours", "me", 0, Action::Renew { transitions: 3 }),
            (
                "ours, though it has run out",
                "me",
                60,
                Action::Renew { transitions: 3 },
            ),
            ("released", "", 0, Action::Take { transitions: 4 }),
            ("another's, just seen", "you", 0, wait.clone()),
            ("another's, almost run out", "you", 14, wait),
            ("another's, run out", "you", 15, Action::Take { transitions: 4 }),
        ] {
            assert_eq!(
                decide(Some(&observed(holder, seen)), "me", false, at(now)),
                action,
                "{case}"
            );
        }
        assert_eq!(decide(None, "me", false, seen), Action::Create);
    }

    #[tokio::test(start_paused = true)]
    async fn a_record_from_a_backup_makes_nobody_a_leader_before_others_have_stopped() {
        let seen = Instant::now();
        for holder in ["me", "", "you"] {
            let restored = Observed {
                restored: true,
                ..observed(holder, seen)
            };
            let early = decide(Some(&restored), "me", false, seen);
            assert_eq!(early, Action::Wait { until: seen + LEASE }, "{holder:?}");
            let late = decide(Some(&restored), "me", false, seen + LEASE);
            assert_eq!(late, Action::Take { transitions: 4 }, "{holder:?}");
        }
        let mine = Observed {
            restored: true,
            ..observed("me", seen)
        };
        assert_eq!(
            decide(Some(&mine), "me", true, seen),
            Action::Renew { transitions: 3 },
            "who leads and is named goes on"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_change_starts_the_wait_anew() {
        let first = Instant::now();
        let later = first + Duration::from_secs(10);
        let before = observed("you", first);
        let same = Observed::note(
            Some(before.clone()),
            before.record.clone(),
            "7".to_owned(),
            later,
            false,
        );
        assert_eq!(same.changed, first);
        let renewed = Observed::note(Some(before.clone()), before.record, "8".to_owned(), later, false);
        assert_eq!(renewed.changed, later);
    }
}
