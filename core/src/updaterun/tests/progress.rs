//! A status that contradicts itself ends the run.

use fleet_api::conditions::update_stage::{ClusterStarted, Progressing, Succeeded};
use fleet_api::conditions::{self};
use fleet_api::placement::UpdateRunStatus;
use serde_json::json;

use super::hub::{Hub, at, strategy};

#[track_caller]
fn ends(tamper: impl Fn(&mut UpdateRunStatus), text: &str) {
    let mut hub = Hub::new(&["a", "b", "c"]);
    for (cluster, stage) in [("a", "one"), ("b", "two"), ("c", "two")] {
        hub.member(cluster, &[("stage", stage)]);
    }
    let stage = |name: &str| json!({ "name": name, "labelSelector": { "matchLabels": { "stage": name } } });
    hub.strategy = Some(strategy(json!([stage("one"), stage("two")])));
    hub.settle();
    hub.available("a");
    hub.settle();
    tamper(&mut hub.run.status);
    hub.settle();
    assert_eq!(
        hub.message("Succeeded"),
        format!("cannot continue the updateRun: {text}")
    );
}

#[test]
fn what_is_lost_cannot_be_made_up() {
    const UNEXP: &str = "unexpected behavior which cannot be handled by the controller";
    let unexpected = |text: &str| format!("{UNEXP}: {text}");
    ends(
        |status| status.staged_update_strategy_snapshot = None,
        &unexpected("the updateRun has nil updateStrategySnapshot"),
    );
    ends(
        |status| status.stages_status.clear(),
        &unexpected("the updateRun has nil stagesStatus"),
    );
    ends(
        |status| status.deletion_stage_status = None,
        &unexpected("the updateRun has nil deletionStageStatus"),
    );
    ends(
        |status| status.stages_status.truncate(1),
        "the number of stages in the updateRun has changed, new: 2, existing: 1",
    );
    ends(
        |status| status.stages_status[1].stage_name = "zwei".into(),
        "index `1` stage name in the updateRun has changed, new: two, existing: zwei",
    );
    ends(
        |status| status.stages_status[0].clusters[0].conditions.clear(),
        &unexpected("cluster `a` in the finished stage `one` has not succeeded"),
    );
    ends(
        |status| status.stages_status[0].conditions.clear(),
        &unexpected("the updating stage `two` is not right after the last finished stage with index `-1`"),
    );
    ends(
        |status| _ = conditions::remove(&mut status.stages_status[0].conditions, "Succeeded"),
        &unexpected("the stage `two` is updating, but there is already a stage with index `0` updating"),
    );
    ends(
        |status| {
            conditions::remove(&mut status.stages_status[0].conditions, "Succeeded");
            conditions::set(&mut status.stages_status[1].conditions, &Succeeded::Succeeded, 1, at(0));
        },
        &unexpected("the finished stage `1` is after the updating stage `0`"),
    );
    ends(
        |status| {
            status.stages_status[0].conditions.clear();
            conditions::set(&mut status.stages_status[1].conditions, &Succeeded::Succeeded, 1, at(0));
            for cluster in &mut status.stages_status[1].clusters {
                conditions::set(&mut cluster.conditions, &Succeeded::Succeeded, 1, at(0));
            }
        },
        &unexpected("the finished stage `two` is not right after the last finished stage with index `-1`"),
    );
    ends(
        |status| {
            let list = &mut status.stages_status[1].clusters[1].conditions;
            conditions::set(list, &ClusterStarted::Started, 1, at(0));
        },
        &unexpected("the number of updating clusters `2` in the updating stage `two` exceeds maxConcurrency `1`"),
    );
    ends(
        |status| {
            let error = "why".to_owned();
            conditions::set(
                &mut status.stages_status[1].conditions,
                &Succeeded::Failed { error },
                1,
                at(0),
            );
        },
        "the stage `two` has failed, err: why",
    );
    ends(
        |status| {
            let deletion = status.deletion_stage_status.as_mut().unwrap();
            conditions::set(&mut deletion.conditions, &Progressing::Started, 1, at(0));
        },
        &unexpected(
            "the delete stage is active, but there are still stages updating, updatingStageIndex: 1, \
             lastFinishedStageIndex: 0",
        ),
    );
    ends(
        |status| {
            let stages = &mut status.staged_update_strategy_snapshot.as_mut().unwrap().stages;
            stages[1].max_concurrency = k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::String("x".into());
        },
        &unexpected("the maxConcurrency `x` of the stage `two` is neither a positive number nor a percentage"),
    );
    ends(
        |status| {
            let error = "why".to_owned();
            let list = &mut status.stages_status[1].clusters[0].conditions;
            conditions::set(list, &Succeeded::Failed { error }, 1, at(0));
        },
        "the cluster `b` in the stage two has failed",
    );
}
