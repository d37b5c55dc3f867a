//! When a changed status is written.
//!
//! A placement's status is the most expensive object of the pipeline, and every cluster's every step changes it. So what
//! somebody may be waiting for goes out at once, and the rest is collected for a moment that grows with the cost of the
//! write. Times are durations since any fixed moment.

use std::collections::BTreeSet;
use std::time::Duration;

use fleet_api::conditions::placement::Step;
use fleet_api::conditions::{self, Status};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::Common;

/// The window of an idle hub: less than a person notices.
const WINDOW_MIN: Duration = Duration::from_millis(50);
/// However expensive the write, users wait no longer.
const WINDOW_MAX: Duration = Duration::from_secs(1);
/// The share of the time that one placement's status may keep the API server busy, inverted.
const WINDOW_FACTOR: u32 = 10;

/// How long something undecided is not worth a write: mostly it is decided before anybody has read it.
const PASSING: Duration = Duration::from_millis(250);

/// What is remembered of a placement between its writes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pace {
    /// Until when only turns go out.
    closes: Option<Duration>,
    /// The steps whose turns went out since the last quiet moment: one that flaps waits like the rest.
    turned: BTreeSet<Step>,
    /// Since when the status has been one that passes by itself.
    passing: Option<Duration>,
    /// Steps that were not true at some moment since the last write, seen or not.
    dipped: BTreeSet<Step>,
}

/// What to do about a status that differs from the one that is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Write it.
    Now,
    /// Look again then.
    At(Duration),
}

impl Pace {
    /// Looks at a status that should be written.
    pub fn look(&mut self, context: &Common<'_>, before: &[Condition], after: &[Condition], now: Duration) -> Due {
        self.note(context, after);
        let turns = turns(context, before, after);
        if turns.iter().any(|step| !self.turned.contains(step)) {
            return Due::Now;
        }
        let mut due = self.closes.unwrap_or_default();
        if is_passing(context, after) {
            due = due.max(*self.passing.get_or_insert(now) + PASSING);
        } else {
            self.passing = None;
        }
        if due <= now { Due::Now } else { Due::At(due) }
    }

    /// Takes note of a status that is not written, since it is what is stored.
    pub fn unchanged(&mut self) {
        self.passing = None;
        self.dipped.clear();
    }

    /// Takes note of a write that was answered at `now` after it `took` so long. Gives the steps that have become true
    /// with it: each is worth an Event, also if it lost its truth for too short a time to be shown.
    pub fn wrote(
        &mut self,
        context: &Common<'_>,
        (before, after): (&[Condition], &[Condition]),
        now: Duration,
        took: Duration,
    ) -> Vec<Step> {
        let quiet = self.closes.is_none_or(|closes| closes <= now.saturating_sub(took));
        if quiet {
            self.turned.clear();
        }
        self.turned.extend(turns(context, before, after));
        self.closes = Some(now + (took * WINDOW_FACTOR).clamp(WINDOW_MIN, WINDOW_MAX));
        self.passing = None;
        let holds = |list, step: &Step| conditions::is_true(list, step.on_placement(context.scope), context.generation);
        let news = |step: &&Step| holds(after, step) && (!holds(before, step) || self.dipped.contains(step));
        let all = std::iter::once(&Step::Scheduled).chain(context.steps());
        let news: Vec<Step> = all.filter(news).copied().collect();
        self.dipped.clear();
        news
    }

    fn note(&mut self, context: &Common<'_>, after: &[Condition]) {
        let holds = |step: &Step| conditions::is_true(after, step.on_placement(context.scope), context.generation);
        let unmet = context.steps().iter().filter(|step| !holds(step));
        self.dipped.extend(unmet);
    }
}

/// The steps that somebody may be waiting for: those that have become true, and failures that were not there.
fn turns(context: &Common<'_>, before: &[Condition], after: &[Condition]) -> Vec<Step> {
    let status = |list, step: &Step| {
        let condition = conditions::fresh(list, step.on_placement(context.scope), context.generation);
        condition.map_or(Status::Unknown, Status::of)
    };
    let waited_for = |step: &&Step| {
        let (old, new) = (status(before, step), status(after, step));
        let turned = old != new;
        // Applying, being available and reporting differences are false while they go on, which is no news.
        let fails = matches!(step, Step::Scheduled | Step::Overridden | Step::WorkSynchronized);
        turned && (new == Status::True || new == Status::False && fails)
    };
    let all = std::iter::once(&Step::Scheduled).chain(context.steps());
    all.filter(waited_for).copied().collect()
}

/// Whether the status says that something is being decided.
fn is_passing(context: &Common<'_>, after: &[Condition]) -> bool {
    let undecided = |step: &Step| {
        let condition = conditions::fresh(after, step.on_placement(context.scope), context.generation);
        condition.is_some_and(|condition| Status::of(condition) == Status::Unknown)
    };
    std::iter::once(&Step::Scheduled).chain(context.steps()).any(undecided)
}

#[cfg(test)]
mod tests {
    use fleet_api::names::Scope;
    use jiff::Timestamp;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn context(generation: i64) -> Common<'static> {
        Common {
            scope: Scope::Cluster,
            generation,
            external: false,
            reports_diff: false,
            latest: None,
            entry_bytes_max: 0,
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn list(said: &[(Step, &str)], generation: i64) -> Vec<Condition> {
        let make = |(step, status): &(Step, &str)| Condition {
            type_: step.on_placement(Scope::Cluster).to_owned(),
            status: (*status).to_owned(),
            reason: "R".to_owned(),
            message: String::new(),
            observed_generation: Some(generation),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
        };
        said.iter().map(make).collect()
    }

    /// Everything true up to the last, which has this status.
    fn up_to(last: Step, status: &str) -> Vec<Condition> {
        let mut said: Vec<_> = Step::ALL
            .into_iter()
            .take_while(|step| *step != last)
            .map(|step| (step, "True"))
            .collect();
        said.push((last, status));
        list(&said, 1)
    }

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    #[test]
    fn what_somebody_waits_for_goes_out_at_once_and_counts_wait() {
        let (context, mut pace) = (context(1), Pace::default());
        let scheduled = up_to(Step::RolloutStarted, "Unknown");
        assert_eq!(pace.look(&context, &[], &scheduled, ms(10)), Due::Now);
        assert_eq!(
            pace.wrote(&context, (&[], &scheduled), ms(20), ms(10)),
            [Step::Scheduled]
        );
        // One cluster fewer is undecided: nobody waits for that, and it passes.
        assert_eq!(pace.look(&context, &scheduled, &scheduled, ms(30)), Due::At(ms(280)));
        let synchronized = up_to(Step::Applied, "False");
        assert_eq!(pace.look(&context, &scheduled, &synchronized, ms(40)), Due::Now);
        pace.wrote(&context, (&scheduled, &synchronized), ms(50), ms(10));
        // Counts: when the window of that write ends, and not earlier for being looked at often.
        for at in [60, 100, 149] {
            assert_eq!(
                pace.look(&context, &synchronized, &synchronized, ms(at)),
                Due::At(ms(150))
            );
        }
        assert_eq!(pace.look(&context, &synchronized, &synchronized, ms(150)), Due::Now);
    }

    #[test]
    fn a_window_is_ten_times_the_last_write_within_bounds() {
        let (context, state) = (context(1), up_to(Step::Available, "False"));
        for (took, window) in [(1, 50), (10, 100), (60, 600), (500, 1000)] {
            let mut pace = Pace::default();
            pace.wrote(&context, (&state, &state), ms(1000), ms(took));
            assert_eq!(
                pace.look(&context, &state, &state, ms(1001)),
                Due::At(ms(1000 + window)),
                "{took}"
            );
        }
    }

    #[test]
    fn a_condition_that_flaps_goes_out_once_per_window() {
        let (context, mut pace) = (context(1), Pace::default());
        let (up, down) = (up_to(Step::Available, "True"), up_to(Step::Available, "False"));
        assert_eq!(pace.look(&context, &down, &up, ms(0)), Due::Now);
        pace.wrote(&context, (&down, &up), ms(10), ms(10));
        assert_eq!(pace.look(&context, &up, &down, ms(20)), Due::At(ms(110)));
        assert_eq!(pace.look(&context, &up, &down, ms(110)), Due::Now);
        pace.wrote(&context, (&up, &down), ms(120), ms(10));
        // The window before had ended when this was sent, so it may turn again.
        assert_eq!(pace.look(&context, &down, &up, ms(130)), Due::Now);
        pace.wrote(&context, (&down, &up), ms(140), ms(10));
        pace.wrote(&context, (&up, &down), ms(150), ms(5));
        assert_eq!(pace.look(&context, &down, &up, ms(160)), Due::At(ms(200)));
    }

    #[test]
    fn a_new_generation_is_not_worth_a_write_while_it_is_being_decided() {
        let (context, mut pace) = (context(2), Pace::default());
        let before = up_to(Step::Available, "True");
        let mut pending = before.clone();
        pending[0].status = "Unknown".to_owned();
        pending[0].observed_generation = Some(2);
        assert_eq!(pace.look(&context, &before, &pending, ms(0)), Due::At(ms(250)));
        assert_eq!(pace.look(&context, &before, &pending, ms(200)), Due::At(ms(250)));
        assert_eq!(pace.look(&context, &before, &pending, ms(250)), Due::Now);
    }

    #[test]
    fn a_rollout_that_was_too_quick_to_be_shown_is_announced_all_the_same() {
        let (context, mut pace) = (context(1), Pace::default());
        let (done, undecided) = (up_to(Step::Available, "True"), up_to(Step::RolloutStarted, "Unknown"));
        assert_eq!(pace.look(&context, &done, &undecided, ms(0)), Due::At(ms(250)));
        assert_eq!(pace.look(&context, &done, &done, ms(100)), Due::Now);
        let news = pace.wrote(&context, (&done, &done), ms(110), ms(10));
        assert_eq!(news, Step::WHEN_APPLYING);
        assert!(pace.wrote(&context, (&done, &done), ms(210), ms(10)).is_empty());
    }

    #[test]
    fn failures_to_schedule_override_or_write_go_out_at_once() {
        let context = context(1);
        for step in [Step::Scheduled, Step::Overridden, Step::WorkSynchronized] {
            let mut pace = Pace::default();
            let before = up_to(step, "Unknown");
            pace.wrote(&context, (&before, &before), ms(0), ms(100));
            assert_eq!(
                pace.look(&context, &before, &up_to(step, "False"), ms(1)),
                Due::Now,
                "{step:?}"
            );
        }
    }
}
