//! What is said of a binding after the scheduler has written to it.

use fleet_api::conditions;
use fleet_api::conditions::binding::RolloutStarted;
use fleet_api::placement::{BindingSpec, BindingState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use crate::updaterun::{Binding, restamp};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn said(run: &str, generation: i64) -> Vec<Condition> {
    let state = RolloutStarted::StartedByRun {
        index: "3".into(),
        run: run.into(),
    };
    vec![conditions::to_condition(&state, generation, at(10))]
}

fn of(update_run: Option<&str>, conditions: &[Condition], state: BindingState) -> Option<(String, i64, i64)> {
    let spec = BindingSpec {
        state,
        resource_snapshot_name: "crp-3-snapshot".into(),
        ..BindingSpec::default()
    };
    let binding = Binding {
        name: "b",
        uid: "u",
        generation: 5,
        deleting: false,
        update_run,
        spec: &spec,
        conditions,
    };
    let said = restamp("crp", &binding, at(99))?;
    let run = said.message.rsplit(' ').next().unwrap_or_default().to_owned();
    Some((run, said.observed_generation?, said.last_transition_time.0.as_second()))
}

#[test]
fn a_binding_keeps_sentence_and_time() {
    let again = |run: &str, at: i64| Some((run.to_owned(), 5, at));
    let bound = || BindingState::Bound;
    assert_eq!(of(Some("r/uid"), &said("r", 4), bound()), again("r", 10));
    assert_eq!(of(None, &said("before", 4), bound()), again("before", 10));
    // The start was cut short before its stamp.
    assert_eq!(of(Some("r/uid"), &said("older", 4), bound()), again("r", 99));
    assert_eq!(of(Some("r/uid"), &[], bound()), again("r", 99));
}

#[test]
fn only_a_run_starts_what_was_not_started() {
    assert_eq!(
        of(Some("r/uid"), &said("r", 5), BindingState::Bound),
        None,
        "it is said"
    );
    assert_eq!(of(None, &[], BindingState::Bound), None);
    assert_eq!(of(Some(""), &said("r", 4), BindingState::Bound), None, "picked again");
    assert_eq!(of(Some("r/uid"), &said("r", 4), BindingState::Scheduled), None);
    assert_eq!(of(Some("r/uid"), &said("r", 4), BindingState::Unscheduled), None);
}
