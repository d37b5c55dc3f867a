//! What a plan needs, in which order, with which words.

use fleet_api::conditions::policy_snapshot::Scheduled;
use fleet_api::conditions::to_condition;
use fleet_api::placement::{BindingState, NamespacedName, UpdateRunState};
use serde_json::json;

use super::hub::{Hub, at, strategy};
use crate::overrides::choose::Lists;
use crate::updaterun::Plan;

const VALID: &str = "cannot continue the updateRun: failed to validate the updateRun";
const USER: &str = "failed to process the request due to a client error";
const UNEXP: &str = "unexpected behavior which cannot be handled by the controller";

/// Fields of the status that are there, besides the conditions.
fn fields(hub: &Hub) -> String {
    let status = serde_json::to_value(&hub.run.status).unwrap();
    let mut names: Vec<_> = status.as_object().unwrap().keys().cloned().collect();
    names.retain(|name| name != "conditions");
    names.sort_unstable();
    names.join(" ")
}

/// Fails at once, or only when nothing helped for ten seconds.
#[track_caller]
fn fails(mut hub: Hub, patient: bool, text: &str, has: &str) {
    hub.settle();
    if patient {
        assert_eq!(hub.said(), Vec::<String>::new(), "nothing is written before");
        assert_eq!(hub.look_again, Some(at(10)));
        hub.later(9);
        assert_eq!(hub.said(), Vec::<String>::new());
        hub.later(1);
    }
    assert_eq!(hub.said(), ["Initialized=False UpdateRunInitializedFailed"]);
    assert_eq!(hub.message("Initialized"), text);
    assert_eq!(fields(&hub), has);
    assert_eq!(hub.written(), "status");
    assert_eq!(hub.told(), [format!("Warning UpdateRunInitializedFailed: {text}")]);
    // Whatever happens now.
    hub.set_state(UpdateRunState::Stop);
    hub.later(100);
    assert_eq!(hub.written(), "");
}

#[test]
fn the_placement_must_be_there_and_external() {
    let mut hub = Hub::new(&["a"]);
    hub.placement = None;
    fails(hub, true, &format!("{VALID}: {USER}: parent placement not found"), "");
    let mut hub = Hub::new(&["a"]);
    hub.placement.as_mut().unwrap().metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
    fails(hub, true, &format!("{VALID}: {USER}: parent placement not found"), "");
    let mut hub = Hub::new(&["a"]);
    hub.placement.as_mut().unwrap().spec.strategy = None;
    let text = "parent placement does not have an external rollout strategy, current strategy: RollingUpdate";
    fails(hub, false, &format!("{VALID}: {USER}: {text}"), "");
}

#[test]
fn what_comes_within_ten_seconds_is_waited_for() {
    let mut hub = Hub::new(&["a"]);
    let placement = hub.placement.take();
    hub.settle();
    hub.placement = placement;
    let strategy = hub.strategy.take();
    hub.later(6);
    assert_eq!(hub.look_again, Some(at(10)), "one span, whatever is missing");
    hub.strategy = strategy;
    hub.later(3);
    assert_eq!(hub.said()[0], "Initialized=True UpdateRunInitializedSuccessfully");
}

#[test]
fn the_policy_must_be_known() {
    let has = "appliedStrategy";
    let mut hub = Hub::new(&["a"]);
    hub.policies.clear();
    fails(
        hub,
        true,
        &format!("{VALID}: no latest policy snapshot found for placement /web"),
        has,
    );
    let mut hub = Hub::new(&["a"]);
    hub.policies.push(hub.policies[0].clone());
    let text = "multiple active policy snapshots found for placement /web: got 2, want 1";
    fails(hub, false, &format!("{VALID}: {UNEXP}: {text}"), has);
    let mut hub = Hub::new(&["a"]);
    let labels = hub.policies[0].metadata.labels.as_mut().unwrap();
    labels.remove("kubernetes-fleet.io/policy-index");
    let text = "policy snapshot `/web-0` does not have a policy index label";
    fails(hub, false, &format!("{VALID}: {UNEXP}: {text}"), has);
}

#[test]
fn pick_n_must_say_how_many() {
    let annotation = "annotation kubernetes-fleet.io/number-of-clusters";
    for (value, error) in [
        (None, format!("cannot find {annotation}")),
        (
            Some("many"),
            format!("invalid {annotation}: many is not a valid count: strconv.Atoi: parsing \"many\": invalid syntax"),
        ),
        (
            Some("-1"),
            format!("invalid {annotation}: -1 is not a valid count: it is negative"),
        ),
    ] {
        let mut hub = Hub::new(&["a"]);
        hub.set_policy(json!({ "placementType": "PickN" }), value);
        let text = format!(
            "{VALID}, {UNEXP}: {error}: the policy snapshot `/web-0` doesn't have valid cluster count \
                            annotation"
        );
        fails(hub, false, &text, "appliedStrategy policySnapshotIndexUsed");
    }
}

#[test]
fn the_policy_must_be_scheduled() {
    let text = format!("{VALID}: policy snapshot `web-0` not fully scheduled yet");
    let has = "appliedStrategy policyObservedClusterCount policySnapshotIndexUsed";
    let mut hub = Hub::new(&["a"]);
    hub.policies[0].status.conditions.clear();
    let mut failed = hub.clone();
    failed.later(0);
    failed.later(10);
    assert_eq!(failed.run.status.policy_observed_cluster_count, Some(-1));
    fails(hub, true, &text, has);
    let mut hub = Hub::new(&["a"]);
    hub.policies[0].touch();
    fails(hub, true, &text, has);
    let mut hub = Hub::new(&["a"]);
    hub.policies[0].status.conditions = vec![to_condition(&Scheduled::Unfulfilled { clusters: 1 }, 1, at(0))];
    fails(hub, false, &text, has);
}

#[test]
fn there_must_be_as_many_bindings_as_the_policy_says() {
    let has = "appliedStrategy policyObservedClusterCount policySnapshotIndexUsed";
    let text = "no scheduled or to-be-deleted bindings found for the latest policy snapshot /web-0";
    fails(Hub::new(&[]), true, &format!("{VALID}: {text}"), has);
    let mut hub = Hub::new(&["a"]);
    hub.set_policy(json!({ "placementType": "PickN" }), Some("10"));
    let text = "the number of selected bindings 1 is not equal to the observed cluster count 10";
    fails(hub, true, &format!("{VALID}: {UNEXP}: {text}"), has);
    // A name given twice is one cluster.
    let mut hub = Hub::new(&["a", "b"]);
    hub.set_policy(
        json!({ "placementType": "PickFixed", "clusterNames": ["a", "b", "a"] }),
        None,
    );
    hub.settle();
    assert_eq!(hub.run.status.policy_observed_cluster_count, Some(2));
}

#[test]
fn bindings_of_an_older_policy_are_waited_for_without_end() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.binding("b").spec.scheduling_policy_snapshot_name = "web-old".into();
    hub.settle();
    assert_eq!(hub.look_again, Some(at(10)));
    hub.later(10);
    hub.later(1000);
    assert_eq!(hub.said(), Vec::<String>::new());
    assert_eq!(
        hub.told(),
        [
            "Warning UpdateRunInitializationWaiting: Waiting for the scheduler to look again at binding(s) of an older \
             policy: web-b-002"
        ]
    );
    hub.unschedule("b");
    hub.settle();
    assert_eq!(
        hub.run.status.deletion_stage_status.as_ref().unwrap().clusters[0].cluster_name,
        "b"
    );
}

#[test]
fn of_several_bindings_the_greatest_name_counts_and_deleting_ones_do_not() {
    let mut hub = Hub::new(&["a", "b"]);
    hub.unschedule("a");
    hub.pick("a");
    hub.binding("b").metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
    hub.settle();
    assert_eq!(hub.stage(0), "Progressing=True StageUpdatingStarted | a: Started");
    assert_eq!(hub.stage(1), "");
    assert_eq!(hub.binding("a").spec.state, BindingState::Bound);
}

#[test]
fn stages_are_checked_one_by_one() {
    let sel = || json!({});
    let strategy_has =
        "appliedStrategy policyObservedClusterCount policySnapshotIndexUsed stagedUpdateStrategySnapshot";
    let tasks = |when: &str, error: &str| {
        format!("{VALID}: {USER}: the {when} stage tasks are invalid, updateStrategy: `/plan`, stage: s, err: {error}")
    };
    let user = |text: &str| format!("{VALID}: {USER}: {text}");
    let approval = || json!({ "type": "Approval" });
    let wait = |time: serde_json::Value| json!({ "type": "TimedWait", "waitTime": time });
    for (stages, text) in [
        (
            json!([{ "name": "s" }, { "name": "s" }]),
            user("the stage name `s` appears more than once, updateStrategy: `/plan`"),
        ),
        (
            json!([{ "name": "s", "beforeStageTasks": [approval(), approval()] }]),
            tasks("before", "beforeStageTasks can have at most one task"),
        ),
        (
            json!([{ "name": "s", "beforeStageTasks": [wait(json!("1s"))] }]),
            tasks(
                "before",
                "task 0 of type TimedWait is not allowed in beforeStageTasks, allowed type: Approval",
            ),
        ),
        (
            json!([{ "name": "s", "beforeStageTasks": [{ "type": "Approval", "waitTime": "1s" }] }]),
            tasks("before", "task 0 of type Approval cannot have wait duration set"),
        ),
        (
            json!([{ "name": "s", "afterStageTasks": [approval(), approval()] }]),
            tasks(
                "after",
                "afterStageTasks cannot have two tasks of the same type: Approval",
            ),
        ),
        (
            json!([{ "name": "s", "afterStageTasks": [approval(), wait(json!(null))] }]),
            tasks("after", "task 1 of type TimedWait has wait duration set to nil"),
        ),
        (
            json!([{ "name": "s", "afterStageTasks": [wait(json!("0s"))] }]),
            tasks("after", "task 0 of type TimedWait has wait duration <= 0"),
        ),
        (
            json!([{ "name": "s", "labelSelector":
                { "matchExpressions": [{ "key": "a", "operator": "Like" }] } }]),
            user(
                "the stage label selector is invalid, updateStrategy: `/plan`, stage: s, err: \"Like\" is not a valid \
                 label selector operator",
            ),
        ),
        (
            json!([{ "name": "s", "labelSelector": sel() }, { "name": "t", "labelSelector": sel() }]),
            user("cluster `c00` appears in more than one stages"),
        ),
        (
            json!([{ "name": "s", "labelSelector": sel(), "sortingLabelKey": "order" }]),
            user(
                "the sorting label `order:` on cluster `c00` is not valid: strconv.Atoi: parsing \"\": invalid syntax",
            ),
        ),
    ] {
        let mut hub = Hub::new(&["c00"]);
        hub.strategy = Some(strategy(stages));
        fails(hub, false, &text, strategy_has);
    }
    let mut hub = Hub::new(&["a"]);
    hub.strategy = None;
    let has = "appliedStrategy policyObservedClusterCount policySnapshotIndexUsed";
    fails(hub, true, &user("referenced updateStrategy not found: `/plan`"), has);
}

#[test]
fn every_cluster_must_be_in_a_stage() {
    let names: Vec<_> = (0..12).map(|i| format!("c{i:02}")).collect();
    let mut hub = Hub::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
    hub.strategy = Some(strategy(json!([{ "name": "none" }])));
    let shown = names[..10].join(", ");
    let text =
        format!("{VALID}: {USER}: some clusters are not placed in any stage, total 12, showing up to 10: {shown}");
    let has = "appliedStrategy policyObservedClusterCount policySnapshotIndexUsed stagedUpdateStrategySnapshot \
               stagesStatus";
    fails(hub, false, &text, has);
}

#[test]
fn clusters_are_sorted_by_label_then_name() {
    let mut hub = Hub::new(&["a", "b", "c", "d"]);
    for (cluster, order) in [("a", "9"), ("b", "9"), ("c", "10"), ("d", "-1")] {
        hub.member(cluster, &[("order", order)]);
    }
    hub.strategy = Some(strategy(
        json!([{ "name": "s", "labelSelector": {}, "sortingLabelKey": "order" }]),
    ));
    hub.run.spec.state = UpdateRunState::Initialize;
    hub.settle();
    assert_eq!(hub.stage(0), " | d:  | a:  | b:  | c: ");
}

#[test]
fn the_snapshot_must_be_there() {
    let has = "appliedStrategy deletionStageStatus policyObservedClusterCount policySnapshotIndexUsed \
               stagedUpdateStrategySnapshot stagesStatus";
    for (index, text) in [
        (
            "abc",
            "invalid resource snapshot index `abc` provided, expected an integer >= 0",
        ),
        (
            "-1",
            "invalid resource snapshot index `-1` provided, expected an integer >= 0",
        ),
        ("5", "no resourceSnapshots with index `5` found for placement `/web`"),
        ("007", "no resourceSnapshots with index `7` found for placement `/web`"),
    ] {
        let mut hub = Hub::new(&["a"]);
        hub.run.spec.resource_snapshot_index = index.into();
        fails(hub, false, &format!("{VALID}: {USER}: {text}"), has);
    }
    let mut hub = Hub::new(&["a"]);
    hub.snapshots.insert("1".into(), None);
    let text = "no master resourceSnapshot found for placement /web";
    fails(hub, false, &format!("{VALID}: {UNEXP}: {text}"), has);
    let mut hub = Hub::new(&["a"]);
    hub.run.spec.resource_snapshot_index.clear();
    assert_eq!(hub.planning().plan, Plan::TakeSnapshot);
    // Parts may still come.
    let mut hub = Hub::new(&["a"]);
    hub.incomplete = Some("two parts are missing".into());
    let mut comes = hub.clone();
    fails(hub, true, &format!("{VALID}: two parts are missing"), has);
    comes.settle();
    assert_eq!(comes.said(), Vec::<String>::new());
    comes.incomplete = None;
    comes.settle();
    assert_eq!(comes.said()[0], "Initialized=True UpdateRunInitializedSuccessfully");
}

#[test]
fn overrides_are_recorded_once_and_written_to_bindings() {
    let mut hub = Hub::new(&["a", "b"]);
    let lists = Lists {
        cluster_wide: vec!["cro-0".into()],
        namespaced: vec![NamespacedName {
            name: "ro-0".into(),
            namespace: "app".into(),
        }],
    };
    hub.overrides.insert("b".into(), Ok(lists.clone()));
    hub.settle();
    hub.overrides.clear();
    hub.available("a");
    hub.settle();
    let spec = &hub.binding("b").spec;
    assert_eq!(spec.cluster_resource_override_snapshots, lists.cluster_wide);
    assert_eq!(spec.resource_override_snapshots, lists.namespaced);
    let mut hub = Hub::new(&["a"]);
    hub.overrides.insert("a".into(), Err("bad rule".into()));
    let has = "appliedStrategy deletionStageStatus policyObservedClusterCount policySnapshotIndexUsed \
               resourceSnapshotIndexUsed stagedUpdateStrategySnapshot stagesStatus";
    fails(hub, false, &format!("{VALID}: bad rule"), has);
}

#[test]
fn tasks_are_listed_and_an_approval_has_no_wait() {
    let mut hub = Hub::new(&["a"]);
    hub.run.spec.state = UpdateRunState::Initialize;
    let tasks = json!([{ "type": "TimedWait", "waitTime": "1h" }, { "type": "Approval", "waitTime": "1h" }]);
    hub.strategy = Some(strategy(json!([{ "name": "s", "labelSelector": {},
        "beforeStageTasks": [{ "type": "Approval" }], "afterStageTasks": tasks }])));
    hub.settle();
    let stage = serde_json::to_value(&hub.run.status.stages_status[0]).unwrap();
    assert_eq!(
        stage,
        json!({ "stageName": "s", "clusters": [{ "clusterName": "a" }],
            "beforeStageTaskStatus": [{ "type": "Approval", "approvalRequestName": "run-before-s" }],
            "afterStageTaskStatus":
                [{ "type": "TimedWait" }, { "type": "Approval", "approvalRequestName": "run-after-s" }] })
    );
    let recorded = hub.run.status.staged_update_strategy_snapshot.as_ref().unwrap();
    assert_eq!(recorded.stages[0].after_stage_tasks[1].wait_time, None);
    let deletion = serde_json::to_value(&hub.run.status.deletion_stage_status).unwrap();
    assert_eq!(
        deletion,
        json!({ "stageName": "kubernetes-fleet.io/deleteStage", "clusters": [] })
    );
    assert_eq!(hub.said(), ["Initialized=True UpdateRunInitializedSuccessfully"]);
    // Only initialized: nothing is checked.
    hub.placement = None;
    hub.strategy = None;
    hub.written();
    hub.later(1000);
    assert_eq!(hub.written(), "");
}
