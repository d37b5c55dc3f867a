//! A status that somebody else has edited: what can be told again is, and what cannot is believed.

use fleet_api::conditions;
use fleet_api::placement::{UpdateRunState, UpdateRunStatus};
use serde_json::json;

use super::hub::{Hub, strategy};

/// What a run under way says after its status was edited, with `a` done and `b` just started.
#[track_caller]
fn repaired(tamper: impl Fn(&mut UpdateRunStatus)) {
    let mut hub = Hub::new(&["a", "b", "c"]);
    hub.settle();
    hub.available("a");
    hub.settle().written();
    let before = hub.run.status.clone();
    tamper(&mut hub.run.status);
    assert_ne!(hub.run.status, before, "otherwise this shows nothing");
    hub.settle();
    assert_eq!(hub.run.status, before);
    assert_eq!(hub.written(), "status", "no binding is written again");
}

#[test]
fn what_stored_objects_tell_is_said_again() {
    let lost = |list: &mut Vec<_>, type_name: &str| assert!(conditions::remove(list, type_name), "{type_name}");
    repaired(|status| lost(&mut status.conditions, "Progressing"));
    repaired(|status| status.conditions[1].reason = "Forged".into());
    repaired(|status| status.conditions[1].message = "forged".into());
    repaired(|status| status.conditions[0].observed_generation = Some(7));
    // That a cluster was started, and when, is on its binding.
    repaired(|status| lost(&mut status.stages_status[0].clusters[1].conditions, "Started"));
    repaired(|status| status.stages_status[0].clusters[1].conditions[0].observed_generation = None);
    repaired(|status| status.stages_status[0].conditions[0].reason = "Forged".into());
}

#[test]
fn that_a_cluster_is_done_is_found_out_again_unless_that_makes_too_many() {
    let tampered = |max: u32| {
        let mut hub = Hub::new(&["a", "b"]);
        hub.strategy = Some(strategy(
            json!([{ "name": "all", "labelSelector": {}, "maxConcurrency": max }]),
        ));
        hub.settle();
        hub.available("a");
        hub.settle();
        conditions::remove(&mut hub.run.status.stages_status[0].clusters[0].conditions, "Succeeded");
        hub.settle();
        hub
    };
    let hub = tampered(2);
    assert!(
        hub.stage(0).ends_with("a: Started, Succeeded | b: Started"),
        "{}",
        hub.stage(0)
    );
    assert!(
        tampered(1)
            .message("Succeeded")
            .ends_with("the number of updating clusters `2` in the updating stage `all` exceeds maxConcurrency `1`")
    );
}

#[test]
fn a_stage_that_is_said_to_have_failed_has() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    let mut forged = hub.run.status.stages_status[0].conditions[0].clone();
    (forged.type_, forged.status, forged.message) = ("Succeeded".into(), "False".into(), "by hand".into());
    hub.run.status.stages_status[0].conditions.push(forged);
    hub.settle();
    assert_eq!(
        hub.message("Succeeded"),
        "cannot continue the updateRun: the stage `all` has failed, err: by hand"
    );
}

#[test]
fn a_status_that_is_lost_makes_the_plan_anew_and_starts_nothing_twice() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.settle().written();
    hub.run.status = UpdateRunStatus::default();
    hub.settle();
    assert_eq!(hub.written(), "status; status", "the plan, and that a is under way");
    assert!(hub.stage(0).ends_with("a: Started | b: "), "{}", hub.stage(0));
}

#[test]
fn a_finished_run_is_left_alone_whatever_is_written_into_it() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    hub.available("a");
    hub.settle().written();
    hub.run.status.conditions[1].message = "forged".into();
    hub.run.status.stages_status.clear();
    hub.set_state(UpdateRunState::Stop);
    hub.later(1000);
    assert_eq!(hub.written(), "");
}
