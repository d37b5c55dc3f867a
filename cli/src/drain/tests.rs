use std::time::Duration;

use clap::Parser as _;
use fleet_api::conditions::eviction::{Executed, Valid};
use fleet_testkit::Fault;
use serde_json::{Value, json};

use super::*;
use crate::{
    output::Shown as _,
    problem,
    testing::{Answer, CLUSTERS, Fake, PLACEMENT_API},
};

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn options(line: &str) -> Options {
    let words = ["drain", "east"].into_iter().chain(line.split_whitespace());
    Line::try_parse_from(words).expect(line).args.options
}

fn pick_n(clusters: usize) -> Value {
    json!({ "placementType": "PickN", "numberOfClusters": clusters })
}

/// The table, without what is random in names, and how it ended.
async fn drained(hub: &Fake, line: &str) -> (String, Result<Exit>) {
    let client = Hub::new(hub.server.client());
    let (options, say) = (options(line), hub.say());
    let (report, ended) = hub
        .run(drain(&client, "east", &options, std::future::pending(), &say))
        .await;
    (report.table().to_string(), ended)
}

fn exit(ended: Result<Exit>) -> Exit {
    ended.unwrap_or_else(|error| problem::exit_of(&error))
}

/// A placement that may go, one that its budget keeps, one whose policy names the cluster, one of a namespace.
fn mixed() -> Fake {
    let fixed = json!({ "placementType": "PickFixed", "clusterNames": ["east"] });
    let blocked = Executed::OverBudget { available: 2, total: 3 };
    let hub = Fake::new()
        .place("db", &pick_n(3), &["east", "north"], Answer::Blocked(blocked))
        .place("fixed", &fixed, &["east"], Answer::Silence)
        .place("web", &json!(null), &["east", "west"], Answer::Executed);
    hub.bind("db", "west", "Bound", false);
    hub.put(
        "clusterresourceplacementdisruptionbudgets/db",
        json!({ "spec": { "minAvailable": 2 } }),
    );
    hub.put(
        "namespaces/team/resourcebindings/app-east",
        json!({
            "metadata": { "labels": { "kubernetes-fleet.io/parent-CRP": "app" } },
            "spec": {
                "state": "Bound", "targetCluster": "east", "resourceSnapshotName": "s", "schedulingPolicySnapshotName": "p",
                "clusterDecision": { "clusterName": "east", "selected": true, "reason": "" },
            },
        }),
    );
    hub
}

#[tokio::test(start_paused = true)]
async fn what_holds_each_placement_up_is_in_the_table() {
    let hub = mixed();
    let (table, ended) = drained(&hub, "").await;
    let wanted = "\
PLACEMENT   CLUSTER   OUTCOME   HELD UP BY
db          east      blocked   budget minAvailable: 2: needs 3 available, has 2
                                not available: west (NotReportedYet)
fixed       east      stays     PickFixed: take the cluster out of its clusterNames
web         east      evicted
team/app    east      stays     a ResourcePlacement cannot be evicted: change or delete it
";
    assert_eq!(table, wanted);
    assert_eq!(exit(ended), Exit::Left);
    assert_eq!(
        hub.said(),
        [
            "member cluster east is cordoned",
            "db: Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, \
             totalPlacements: 3",
            "web: Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified",
            "east is not drained: left 3",
        ]
    );
    assert_eq!(
        hub.evictions(),
        ["drain-eviction-db-east-########", "drain-eviction-web-east-########"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_says_the_same_and_writes_nothing() {
    let hub = mixed();
    let (table, ended) = drained(&hub, "--dry-run").await;
    let wanted = "\
PLACEMENT   CLUSTER   OUTCOME            HELD UP BY
db          east      would be blocked   budget minAvailable: 2: needs 3 available, has 2
                                         not available: west (NotReportedYet)
fixed       east      stays              PickFixed: take the cluster out of its clusterNames
web         east      would be evicted
team/app    east      stays              a ResourcePlacement cannot be evicted: change or delete it
";
    assert_eq!(table, wanted);
    assert_eq!(exit(ended), Exit::Left);
    assert!(hub.server.writes().is_empty());
}

#[tokio::test(start_paused = true)]
async fn json_has_what_the_table_has_in_numbers() {
    let hub = mixed();
    let client = Hub::new(hub.server.client());
    let (report, _) = drain(
        &client,
        "east",
        &options("--dry-run"),
        std::future::pending(),
        &hub.say(),
    )
    .await;
    let report = serde_json::to_value(&report).expect("it is JSON");
    assert_eq!(
        (
            &report["cluster"],
            &report["dryRun"],
            &report["cordoned"],
            &report["complete"]
        ),
        (&json!("east"), &json!(true), &json!(false), &json!(false))
    );
    assert_eq!(
        report["placements"][0],
        json!({
            "kind": "ClusterResourcePlacement", "name": "db", "cluster": "east", "outcome": "wouldBeBlocked",
            "message": "Eviction is blocked by specified ClusterResourcePlacementDisruptionBudget, availablePlacements: 2, \
                        totalPlacements: 3",
            "heldUpBy": [{
                "type": "budget", "limit": "minAvailable: 2", "needed": 3, "available": 2, "total": 3,
                "unavailable": [{ "cluster": "west", "reason": "NotReportedYet" }],
            }],
        })
    );
    assert_eq!(
        report["placements"][3],
        json!({
            "kind": "ResourcePlacement", "namespace": "team", "name": "app", "cluster": "east", "outcome": "stays",
            "heldUpBy": [{ "type": "namespaced" }],
        })
    );
}

#[tokio::test(start_paused = true)]
async fn a_second_drain_is_harmless_and_cleanup_leaves_no_evictions() {
    let hub = Fake::new().place("web", &json!(null), &["east", "west"], Answer::Executed);
    let (table, ended) = drained(&hub, "").await;
    assert_eq!(
        table,
        "PLACEMENT   CLUSTER   OUTCOME   HELD UP BY\nweb         east      evicted\n"
    );
    assert_eq!(exit(ended), Exit::Done);
    let (table, ended) = drained(&hub, "--cleanup").await;
    assert_eq!((table.as_str(), exit(ended)), ("", Exit::Done));
    assert_eq!(
        hub.said()[3..],
        ["member cluster east is cordoned already", "nothing is placed on east"]
    );
    assert!(hub.evictions().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_is_there_is_not_made_again() {
    let hub = Fake::new().place("web", &json!(null), &["east"], Answer::Silence);
    let (_, ended) = drained(&hub, "--timeout 1s").await;
    assert_eq!(exit(ended), Exit::TimedOut);
    let (table, ended) = drained(&hub, "--timeout 1s").await;
    let wanted = "\
PLACEMENT   CLUSTER   OUTCOME     HELD UP BY
web         east      undecided   the hub agent has not answered: does it run, and with --enable-eviction-apis?
";
    assert_eq!((table.as_str(), exit(ended)), (wanted, Exit::TimedOut));
    assert_eq!(hub.evictions(), ["drain-eviction-web-east-########"]);
    let said = hub.said();
    assert_eq!(
        said[said.len() - 2],
        "the time is up, and east is not drained: see --timeout"
    );
    let back = "evictions that the hub may still carry out; to take them back: kubectl delete crpe drain-eviction-web-east-########";
    assert_eq!(said[said.len() - 1], back);
}

#[tokio::test(start_paused = true)]
async fn waiting_says_what_for_and_an_interruption_says_what_is_left() {
    let hub = Fake::new().place("web", &pick_n(1), &["east"], Answer::Waits);
    hub.put(
        "clusterresourceplacementdisruptionbudgets/web",
        json!({ "spec": { "maxUnavailable": 0 } }),
    );
    let client = Hub::new(hub.server.client());
    let (options, say) = (options("--wait --timeout 10m"), hub.say());
    let interrupted = tokio::time::sleep(Duration::from_secs(3));
    let (report, ended) = hub.run(drain(&client, "east", &options, interrupted, &say)).await;
    let wanted = "\
PLACEMENT   CLUSTER   OUTCOME   HELD UP BY
web         east      waiting   budget maxUnavailable: 0: allows no eviction
";
    assert_eq!(report.table().to_string(), wanted);
    assert_eq!(exit(ended), Exit::Left);
    assert_eq!(
        hub.said(),
        [
            "member cluster east is cordoned",
            "web: waiting for its budget maxUnavailable: 0: allows no eviction",
            "interrupted before east was drained",
            "evictions that the hub may still carry out; to take them back: kubectl delete crpe drain-eviction-web-east-########",
        ]
    );
    // The hub was told for how long.
    let made = &hub.server.all("clusterresourceplacementevictions")[0];
    assert_eq!(
        made["metadata"]["annotations"]["rollout.kubernetes-fleet.io/wait"],
        "600s"
    );
    // The next drain finds it waiting, and says so.
    let interrupted = tokio::time::sleep(Duration::from_secs(3));
    let (report, _) = hub.run(drain(&client, "east", &options, interrupted, &say)).await;
    assert_eq!(report.table().to_string(), wanted);
    let waiting = |line: &&String| line.contains("waiting for its budget");
    assert_eq!(hub.said().iter().filter(waiting).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_waited_for_is_told_anew_when_it_is_something_else() {
    let hub = Fake::new()
        .place("db", &pick_n(2), &["east", "west"], Answer::Waits)
        .place("web", &pick_n(1), &["east"], Answer::Waits);
    let limit = |name: &str, spec: &Value| {
        hub.put(
            &format!("clusterresourceplacementdisruptionbudgets/{name}"),
            json!({ "spec": spec }),
        );
    };
    limit("db", &json!({ "minAvailable": 2 }));
    limit("web", &json!({ "maxUnavailable": 0 }));
    let client = Hub::new(hub.server.client());
    let (options, say) = (options("--wait --timeout 10m"), hub.say());
    let interrupted = async {
        tokio::time::sleep(Duration::from_secs(25)).await;
        hub.bind("db", "west", "Bound", false);
        tokio::time::sleep(Duration::from_secs(25)).await;
    };
    _ = hub.run(drain(&client, "east", &options, interrupted, &say)).await;
    assert_eq!(
        hub.said()[1..4],
        [
            "db: waiting for its budget minAvailable: 2: needs 3 available, has 2",
            "web: waiting for its budget maxUnavailable: 0: allows no eviction",
            "db: waiting for its budget minAvailable: 2: needs 3 available, has 1; not available: west (NotReportedYet)",
        ]
    );
    assert_eq!(hub.said()[4], "interrupted before east was drained");
}

#[tokio::test(start_paused = true)]
async fn with_wait_it_is_done_when_the_cluster_has_removed_everything() {
    let held = |hub: &Fake| {
        hub.server.edit(
            &format!("{PLACEMENT_API}/clusterresourcebindings/web-east"),
            |binding| {
                binding["metadata"]["finalizers"] = json!(["example.com/held"]);
            },
        );
    };
    let hub = Fake::new().place("web", &json!(null), &["east"], Answer::Executed);
    held(&hub);
    let let_go = async {
        tokio::time::sleep(Duration::from_secs(30)).await;
        hub.server.edit(
            &format!("{PLACEMENT_API}/clusterresourcebindings/web-east"),
            |binding| {
                binding["metadata"]["finalizers"] = json!([]);
            },
        );
    };
    let ((table, ended), ()) = tokio::join!(drained(&hub, "--wait"), let_go);
    assert_eq!(
        table,
        "PLACEMENT   CLUSTER   OUTCOME   HELD UP BY\nweb         east      removed\n"
    );
    assert_eq!(exit(ended), Exit::Done);

    let hub = Fake::new().place("web", &json!(null), &["east"], Answer::Executed);
    held(&hub);
    let lost = "Member cluster has sent no heartbeat since 2026-01-09T01:53:53Z";
    hub.server.edit(&format!("{CLUSTERS}/east"), |cluster| {
        cluster["status"] = json!({ "conditions": [{
            "type": "Healthy", "status": "Unknown", "reason": "MemberClusterHeartbeatLost", "message": lost,
            "lastTransitionTime": "2026-01-09T01:53:53Z",
        }] });
    });
    let (table, ended) = drained(&hub, "--wait").await;
    let wanted = format!(
        "PLACEMENT   CLUSTER   OUTCOME    HELD UP BY\n\
         web         east      removing   {lost}: its resources are removed once it is heard again\n"
    );
    assert_eq!((table, exit(ended)), (wanted, Exit::TimedOut));
    assert_eq!(
        hub.said()[0],
        format!("note: {lost}; what is evicted goes once it is heard again")
    );
}

#[tokio::test(start_paused = true)]
async fn an_update_run_that_has_yet_to_come_is_named() {
    let hub = Fake::new().place("web", &json!(null), &[], Answer::Blocked(Executed::NotPlaced));
    hub.bind("web", "east", "Scheduled", false);
    let stage = |cluster: &Value| json!({ "stageName": "prod", "clusters": [cluster] });
    let over = json!([{
        "type": "Succeeded", "status": "True", "reason": "Played", "message": "", "lastTransitionTime": "2026-01-09T01:53:53Z",
    }]);
    let run = |name: &str, status: &Value| {
        let spec = json!({ "placementName": "web", "stagedRolloutStrategyName": "s" });
        hub.put(
            &format!("clusterstagedupdateruns/{name}"),
            json!({ "spec": spec, "status": status }),
        );
    };
    run(
        "ahead",
        &json!({ "stagesStatus": [stage(&json!({ "clusterName": "east" }))] }),
    );
    run(
        "elsewhere",
        &json!({ "stagesStatus": [stage(&json!({ "clusterName": "west" }))] }),
    );
    run(
        "done-there",
        &json!({ "stagesStatus": [stage(&json!({ "clusterName": "east", "conditions": over }))] }),
    );
    run(
        "over",
        &json!({ "conditions": over, "stagesStatus": [stage(&json!({ "clusterName": "east" }))] }),
    );
    let (table, ended) = drained(&hub, "").await;
    let wanted = "\
PLACEMENT   CLUSTER   OUTCOME   HELD UP BY
web         east      blocked   nothing is placed there yet
                                update run ahead will place it there (stage prod)
";
    assert_eq!((table.as_str(), exit(ended)), (wanted, Exit::Left));
}

#[tokio::test(start_paused = true)]
async fn what_vanishes_meanwhile_counts_as_done_and_what_admission_refuses_is_named() {
    let gone = Answer::Invalid(Valid::PlacementDeleting);
    let hub = Fake::new().place("going", &json!(null), &["east"], gone).place(
        "odd",
        &json!(null),
        &["east"],
        Answer::Silence,
    );
    hub.server.answer(|method, path, body| {
        let is_create = method == "POST" && path.ends_with("clusterresourceplacementevictions");
        let is_odd = body["spec"]["placementName"] == "odd";
        let message = "admission webhook \"e\" denied the request: no";
        let refusal = || {
            (
                403,
                json!({ "kind": "Status", "status": "Failure", "code": 403, "message": message }),
            )
        };
        (is_create && is_odd).then(refusal)
    });
    let (table, ended) = drained(&hub, "").await;
    let wanted = "\
PLACEMENT   CLUSTER   OUTCOME   HELD UP BY
going       east      gone
odd         east      refused   admission webhook \"e\" denied the request: no
";
    assert_eq!((table.as_str(), exit(ended)), (wanted, Exit::Left));
}

#[tokio::test(start_paused = true)]
async fn what_came_back_before_the_cordon_was_seen_goes_again() {
    let hub = Fake::new().place("web", &json!(null), &["east"], Answer::ExecutedBeside("web"));
    let (table, ended) = drained(&hub, "").await;
    let wanted = "PLACEMENT   CLUSTER   OUTCOME   HELD UP BY\nweb         east      evicted\n";
    assert_eq!((table.as_str(), exit(ended)), (wanted, Exit::Done));
    assert_eq!(hub.evictions().len(), 2);

    // It has gone before, and comes while another goes.
    let hub = Fake::new()
        .place("db", &json!(null), &["east"], Answer::ExecutedBeside("web"))
        .place("web", &json!(null), &[], Answer::Executed);
    let of_east = |name: &str| format!("{PLACEMENT_API}/clusterresourcebindings/{name}");
    hub.bind("web", "east", "Bound", true);
    let mut old = hub.server.get(&of_east("web-east")).expect("it is there");
    hub.server.delete(&of_east("web-east"));
    old["metadata"]["name"] = json!("web-old");
    old["metadata"]["finalizers"] = json!(["example.com/held"]);
    hub.server.put(&of_east("web-old"), old);
    hub.server.delete(&of_east("web-old"));
    let (table, ended) = drained(&hub, "").await;
    let wanted = "\
PLACEMENT   CLUSTER   OUTCOME   HELD UP BY
db          east      evicted
web         east      evicted
";
    assert_eq!((table.as_str(), exit(ended)), (wanted, Exit::Done));

    // Whoever tolerates the cordon is there for good.
    let tolerant = json!({ "placementType": "PickAll", "tolerations": [{ "operator": "Exists" }] });
    let hub = Fake::new().place("web", &tolerant, &["east"], Answer::ExecutedBeside("web"));
    let (table, ended) = drained(&hub, "").await;
    assert!(
        table.contains("stays     it was placed there again: it tolerates the cordon"),
        "{table}"
    );
    assert_eq!((hub.evictions().len(), exit(ended)), (1, Exit::Left));
}

/// Refuses evictions of a placement as the webhook does of one that is being deleted.
fn refuse_deleting(hub: &Fake, placement: &'static str) {
    hub.server.answer(move |method, path, body| {
        let is_create = method == "POST" && path.ends_with("clusterresourceplacementevictions");
        let message = format!(
            "admission webhook \"fleet.clusterresourceplacementeviction.validating\" denied the request: cluster resource \
             placement {placement} is being deleted"
        );
        let refusal = json!({ "kind": "Status", "status": "Failure", "code": 403, "reason": "Forbidden", "message": message });
        (is_create && body["spec"]["placementName"] == placement).then_some((403, refusal))
    });
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_is_being_deleted_is_gone_also_where_admission_says_so() {
    let hub = Fake::new().place("web", &json!(null), &["east"], Answer::Silence);
    let path = format!("{PLACEMENT_API}/clusterresourceplacements/web");
    hub.server
        .edit(&path, |it| it["metadata"]["finalizers"] = json!(["example.com/held"]));
    hub.server.delete(&path);
    refuse_deleting(&hub, "web");
    let (table, ended) = drained(&hub, "").await;
    let wanted = "PLACEMENT   CLUSTER   OUTCOME   HELD UP BY\nweb         east      gone\n";
    assert_eq!((table.as_str(), exit(ended)), (wanted, Exit::Done));
}

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_gone_half_way_is_an_error_after_what_is_known() {
    let hub = mixed();
    hub.server
        .fail(Fault::new("clusterresourceplacementevictions", 503).after(3));
    let (table, ended) = drained(&hub, "").await;
    assert!(table.contains("db          east      undecided"), "{table}");
    let error = ended.expect_err("nobody answers");
    assert_eq!(problem::exit_of(&error), Exit::Error);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_is_refused_and_a_cluster_that_is_not_there_is_an_error() {
    let hub = mixed();
    hub.server.fail(Fault::new("memberclusters/east", 403).writes());
    let (_, ended) = drained(&hub, "").await;
    let error = ended.expect_err("it is refused");
    assert_eq!(problem::exit_of(&error), Exit::Refused);
    assert_eq!(
        format!("{error:#}"),
        "failed to cordon member cluster east: as the test wants it"
    );
    hub.server.recover();
    hub.server.delete(&format!("{CLUSTERS}/east"));
    let (table, ended) = drained(&hub, "").await;
    assert_eq!(table, "");
    let error = ended.expect_err("it is not there");
    let words = "there is no MemberCluster \"east\" (`kubectl get memberclusters` lists them)";
    assert_eq!(format!("{error:#}"), words);
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_does_not_say_whose_it_is_is_named() {
    let hub = Fake::new();
    hub.bind("web", "east", "Bound", true);
    hub.server.edit(
        &format!("{PLACEMENT_API}/clusterresourcebindings/web-east"),
        |binding| {
            binding["metadata"]["labels"] = json!({});
        },
    );
    let (table, ended) = drained(&hub, "").await;
    assert!(
        table.contains("ClusterResourceBinding web-east does not say whose it is"),
        "{table}"
    );
    assert_eq!(exit(ended), Exit::Left);
}
