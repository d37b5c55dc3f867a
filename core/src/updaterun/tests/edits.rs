//! Edits of the placement by its user end a run, if they last.

use serde_json::json;

use super::hub::{Hub, at};

const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun";
const ABORT: &str = "cannot continue the updateRun";
const USER: &str = "failed to process the request due to a client error";

#[track_caller]
fn ends(edit: impl Fn(&mut Hub), text: &str) {
    ends_of(&json!({ "placementType": "PickN" }), Some("2"), edit, text);
}

/// With this policy to begin with, which picks `a` and `b`.
#[track_caller]
fn ends_of(policy: &serde_json::Value, number: Option<&str>, edit: impl Fn(&mut Hub), text: &str) {
    let mut hub = Hub::new(&["a", "b"]);
    hub.set_policy(policy.clone(), number);
    hub.settle();
    let (before, stage) = (hub.clone(), hub.stage(0));
    edit(&mut hub);
    hub.available("a");
    hub.written();
    hub.settle();
    assert_eq!(hub.look_again, Some(at(15)));
    hub.later(14);
    assert_eq!(hub.written(), "", "nothing is started while it may be taken back");
    // Taken back, the run goes on.
    let mut undone = hub.clone();
    undone.placement.clone_from(&before.placement);
    undone.policies.clone_from(&before.policies);
    undone.settle();
    assert_eq!(undone.written(), "write b; stamp b; status");
    assert_eq!(undone.memory.edited_since, None);
    hub.later(1);
    assert_eq!(hub.message("Succeeded"), text);
    assert_eq!(hub.said()[1], "Progressing=False UpdateRunFailed");
    assert_eq!(hub.stage(0), stage, "stages stay as they were");
    assert_eq!(hub.written(), "status");
}

#[test]
fn a_placement_that_is_gone_ends_the_run() {
    let text = format!("{VALID}: {USER}: parent placement not found");
    ends(|hub| hub.placement = None, &text);
    ends(|hub| hub.place("another-uid"), &text);
    let deleting = |hub: &mut Hub| {
        let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0));
        hub.placement.as_mut().unwrap().metadata.deletion_timestamp = Some(now);
    };
    ends(deleting, &text);
    // One that was made anew is another one, whatever it asks for.
    let other_type = |hub: &mut Hub| {
        hub.place("another-uid");
        hub.placement.as_mut().unwrap().spec.strategy = None;
    };
    ends(other_type, &text);
}

#[test]
fn after_a_restart_the_snapshots_owner_tells_that_the_placement_is_another() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    hub.memory = crate::updaterun::Memory::default();
    hub.place("another-uid");
    hub.settle();
    hub.later(15);
    assert_eq!(
        hub.message("Succeeded"),
        format!("{VALID}: {USER}: parent placement not found")
    );
}

#[test]
fn an_edited_strategy_or_policy_ends_the_run() {
    ends(
        |hub| hub.placement.as_mut().unwrap().spec.strategy = None,
        &format!(
            "{VALID}: {USER}: parent placement does not have an external rollout strategy, current strategy: \
             RollingUpdate"
        ),
    );
    let diff = json!({ "type": "External", "applyStrategy": { "type": "ReportDiff" } });
    let dump = |type_: &str| {
        format!(
            r#"{{"type":"{type_}","comparisonOption":"PartialComparison","whenToApply":"Always","whenToTakeOver":"Always"}}"#
        )
    };
    ends(
        |hub| hub.placement.as_mut().unwrap().spec.strategy = serde_json::from_value(diff.clone()).unwrap(),
        &format!(
            "{ABORT}: {USER}: the applyStrategy in the updateRun is outdated, latest: {}, recorded: {}",
            dump("ReportDiff"),
            dump("ClientSideApply")
        ),
    );
    ends(
        |hub| {
            let labels = hub.policies[0].metadata.labels.as_mut().unwrap();
            labels.insert("kubernetes-fleet.io/policy-index".into(), "1".into());
        },
        &format!("{ABORT}: the policy snapshot index used in the updateRun is outdated, latest: 1, recorded: 0"),
    );
    ends(
        |hub| hub.set_policy(json!({ "placementType": "PickN" }), Some("3")),
        &format!("{ABORT}: the cluster count initialized in the updateRun is outdated, latest: 3, recorded: 2"),
    );
    let fixed = |clusters: &[&str]| json!({ "placementType": "PickFixed", "clusterNames": clusters });
    for (clusters, count) in [(vec!["a"], 1), (vec!["a", "b", "c"], 3)] {
        ends_of(
            &fixed(&["a", "b", "a"]),
            None,
            |hub| hub.set_policy(fixed(&clusters), None),
            &format!(
                "{ABORT}: the cluster count initialized in the updateRun is outdated, latest: {count}, recorded: 2"
            ),
        );
    }
    ends(
        |hub| hub.policies.clear(),
        &format!("{VALID}: no latest policy snapshot found for placement /web"),
    );
}

#[test]
fn a_lost_snapshot_ends_the_run_at_once() {
    let mut hub = Hub::new(&["a"]);
    hub.settle();
    hub.snapshots.clear();
    hub.settle();
    assert_eq!(
        hub.message("Succeeded"),
        format!("{ABORT}: the resource snapshot web-1-snapshot used in the updateRun no longer exists")
    );
    assert_eq!(hub.stage(0), "Progressing=True StageUpdatingStarted | a: Started");
}
