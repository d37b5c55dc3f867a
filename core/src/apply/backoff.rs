//! When to try again: transient errors, and objects that somebody else keeps changing back.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::json::{list, text};
use super::prepare::FIELD_MANAGER;

/// So many overwrites within [`WINDOW`] are a fight.
const OVERWRITES_MAX: usize = 3;
const WINDOW: SignedDuration = SignedDuration::from_secs(60);
const HOLD_MIN: SignedDuration = SignedDuration::from_secs(10);
const HOLD_MAX: SignedDuration = SignedDuration::from_secs(300);

/// How often one object had to be overwritten because somebody else had changed it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Overwrites {
    generation: i64,
    recent: Vec<Timestamp>,
    holds: u32,
    hold: Option<Hold>,
}

/// An object is left alone for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// Until then.
    pub until: Timestamp,
    /// Who else writes it, as far as its managed fields tell.
    pub manager: Option<String>,
}

impl Overwrites {
    /// Notes an overwrite of `live` (as it was before) for this generation of the Work. From the third within a minute
    /// on the object is held, ever longer; a new generation, or a long calm, starts over.
    pub fn note(&mut self, generation: i64, live: &Value, now: Timestamp) -> Option<Hold> {
        let calm = |hold: &Hold| now.duration_since(hold.until) > HOLD_MAX;
        let calm = self.hold.as_ref().is_some_and(calm);
        if generation != self.generation || calm {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
        self.recent.retain(|time| now.duration_since(*time) < WINDOW);
        self.recent.push(now);
        // Once in a fight, the first overwrite after a hold shows that it goes on.
        if self.recent.len() < OVERWRITES_MAX && self.holds == 0 {
            return None;
        }
        let until = now + (HOLD_MIN * 2_i32.pow(self.holds.min(8))).min(HOLD_MAX);
        self.holds += 1;
        self.hold = Some(Hold {
            until,
            manager: other_manager(live),
        });
        self.hold.clone()
    }

    /// The hold that is on the object, for this generation of the Work.
    pub fn hold(&self, generation: i64, now: Timestamp) -> Option<&Hold> {
        let hold = self.hold.as_ref().filter(|_| generation == self.generation);
        hold.filter(|hold| hold.until > now)
    }
}

/// The field manager other than us that wrote last. Writers of the status do not count; those of the scale do.
pub fn other_manager(live: &Value) -> Option<String> {
    list(live, &["metadata", "managedFields"])
        .iter()
        .filter(|entry| text(entry, &["subresource"]) != "status" && text(entry, &["manager"]) != FIELD_MANAGER)
        // RFC 3339 in UTC and whole seconds: the order of the texts is the order of the times.
        .max_by_key(|entry| text(entry, &["time"]))
        .map(|entry| text(entry, &["manager"]).to_owned())
}

/// How often a call is made within a round before its error is shown.
pub const ATTEMPTS_MAX: u32 = 4;
const RETRY_MIN: SignedDuration = SignedDuration::from_millis(50);
const RETRY_MAX: SignedDuration = SignedDuration::from_secs(2);

/// How long to wait before the call is made again, after `attempt` calls (from 1) ended with this HTTP status (0: none
/// came). Nothing if another try would not help, or enough were made. `jitter` is a random number from 0 to 1. A
/// conflict is worth another try only without a lock, where it comes from a race inside the API server.
pub fn retry(
    attempt: u32,
    code: u16,
    locked: bool,
    retry_after: Option<SignedDuration>,
    jitter: f64,
) -> Option<SignedDuration> {
    let transient = matches!(code, 0 | 429 | 500 | 502 | 503 | 504) || code == 409 && !locked;
    if !transient || attempt >= ATTEMPTS_MAX {
        return None;
    }
    let backoff = (RETRY_MIN * 2_i32.pow(attempt.min(10))).min(RETRY_MAX);
    let spread = SignedDuration::try_from_secs_f64(backoff.as_secs_f64() * (0.5 + jitter.clamp(0.0, 1.0) / 2.0));
    let wait = spread.unwrap_or(backoff).max(retry_after.unwrap_or_default());
    // Longer than this, and the round should rather report and come back.
    (wait <= RETRY_MAX * 5).then_some(wait)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_second(secs).unwrap()
    }

    #[test]
    fn the_third_overwrite_in_a_minute_holds_ever_longer_up_to_five_minutes() {
        let live = json!({"metadata": {"managedFields": [
            {"manager": "kubectl-edit", "time": "2026-01-01T00:00:00Z"},
            {"manager": "autoscaler", "time": "2026-01-01T00:00:09Z"},
            {"manager": "kubelet", "time": "2026-01-01T00:01:00Z", "subresource": "status"},
            {"manager": FIELD_MANAGER, "time": "2026-01-01T00:02:00Z"},
        ]}});
        let mut overwrites = Overwrites::default();
        assert_eq!(overwrites.note(1, &live, at(0)), None);
        assert_eq!(overwrites.note(1, &live, at(10)), None);
        let mut now = 20;
        let mut holds = Vec::new();
        for _ in 0..7 {
            let hold = overwrites.note(1, &live, at(now)).unwrap();
            assert_eq!(hold.manager.as_deref(), Some("autoscaler"));
            holds.push(hold.until.as_second() - now);
            now = hold.until.as_second();
        }
        assert_eq!(holds, [10, 20, 40, 80, 160, 300, 300]);
        let hold = overwrites.hold(1, at(now - 1)).unwrap();
        assert_eq!(hold.until, at(now));
        assert_eq!(overwrites.hold(1, at(now)), None, "it is over");
        // A new generation starts over.
        assert_eq!(overwrites.hold(2, at(now - 1)), None);
        assert_eq!(overwrites.note(2, &live, at(now)), None);
    }

    #[test]
    fn an_autoscaler_is_named_too() {
        let live = json!({"metadata": {"managedFields": [
            {"manager": FIELD_MANAGER, "time": "2026-01-01T00:00:00Z"},
            {"manager": "autoscaler", "time": "2026-01-01T00:00:01Z", "subresource": "scale"},
            {"manager": "controller", "time": "2026-01-01T00:00:02Z", "subresource": "status"},
        ]}});
        assert_eq!(other_manager(&live).as_deref(), Some("autoscaler"));
    }

    #[test]
    fn slow_changes_are_no_fight_and_calm_ends_one() {
        let mut overwrites = Overwrites::default();
        for minute in 0..10 {
            assert_eq!(overwrites.note(1, &json!({}), at(minute * 60)), None);
        }
        let mut overwrites = Overwrites::default();
        overwrites.note(1, &json!({}), at(0));
        overwrites.note(1, &json!({}), at(1));
        assert_eq!(
            overwrites.note(1, &json!({}), at(2)),
            Some(Hold {
                until: at(12),
                manager: None
            })
        );
        assert_eq!(overwrites.note(1, &json!({}), at(1000)), None);
    }

    #[test]
    fn only_transient_errors_are_tried_again() {
        let wait = |attempt, code, locked| retry(attempt, code, locked, None, 1.0).map(|wait| wait.as_millis());
        assert_eq!(wait(1, 503, false), Some(100));
        assert_eq!(wait(3, 429, false), Some(400));
        assert_eq!(wait(4, 503, false), None);
        assert_eq!(wait(1, 409, false), Some(100));
        assert_eq!(wait(1, 409, true), None);
        for code in [400, 403, 404, 422] {
            assert_eq!(wait(1, code, false), None);
        }
        let asked = |secs| retry(1, 429, false, Some(SignedDuration::from_secs(secs)), 0.0);
        assert_eq!(asked(3), Some(SignedDuration::from_secs(3)));
        assert_eq!(asked(60), None);
    }
}
