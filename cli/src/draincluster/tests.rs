use clap::Parser as _;
use fleet_api::conditions::eviction::{Executed, Valid};
use fleet_testkit::Fault;
use serde_json::json;

use super::*;
use crate::testing::{Answer, CLUSTERS, Fake, PLACEMENT_API};

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

const MINUTES: Duration = Duration::from_mins(5);

async fn drained(hub: &Fake) -> Result<()> {
    let client = Hub::new(hub.server.client());
    hub.run(drain(&client, "east", MINUTES, &hub.say())).await
}

#[test]
fn both_spellings_of_the_flags_are_understood_and_what_is_missing_is_said_in_the_known_words() {
    for line in [
        "--hub-cluster-context hub --cluster-name east",
        "--hubClusterContext hub --clusterName=east",
    ] {
        let words = std::iter::once("draincluster").chain(line.split_whitespace());
        let target = Line::try_parse_from(words).expect(line).args.target;
        assert_eq!(target.globals.context.as_deref(), Some("hub"), "{line}");
        assert_eq!(target.cluster_name.as_deref(), Some("east"), "{line}");
        assert_eq!(target.timeout, MINUTES);
    }
    let error = old::required(None, "cluster-name").expect_err("it is missing");
    assert_eq!(error.to_string(), "required flag(s) \"cluster-name\" not set");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_with_nothing_on_it_is_drained_at_once() {
    let hub = Fake::new();
    drained(&hub).await.expect("it is drained");
    assert_eq!(
        hub.said(),
        [
            "Successfully cordoned member cluster east by adding cordon taint",
            "There are currently no resources propagated to east from fleet using ClusterResourcePlacement resources",
            "drain was successful for cluster east",
            "retrying drain to ensure all resources propagated from hub cluster are evicted",
            "Successfully cordoned member cluster east by adding cordon taint",
            "There are currently no resources propagated to east from fleet using ClusterResourcePlacement resources",
            "drain retry was successful for cluster east",
            "reminder: uncordon the cluster east to remove cordon taint if needed",
        ]
    );
    let taints = hub.server.get(&format!("{CLUSTERS}/east")).expect("it is there")["spec"]["taints"].clone();
    assert_eq!(
        taints,
        json!([{ "key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule" }])
    );
    // The second time the taint was there.
    assert_eq!(hub.server.written().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn one_placement_goes_and_one_is_blocked_which_is_no_error() {
    let blocked = Executed::OverBudget { available: 1, total: 1 };
    let all = json!({ "placementType": "PickAll" });
    let hub = Fake::new()
        .place("db", &all, &["east"], Answer::Blocked(blocked))
        .place("web", &all, &["east", "west"], Answer::Executed);
    drained(&hub).await.expect("a budget is no error");
    assert_eq!(
        hub.said(),
        [
            "Successfully cordoned member cluster east by adding cordon taint",
            "Created eviction drain-eviction-db-east-######## for CRP db targeting member cluster east",
            "Created eviction drain-eviction-web-east-######## for CRP web targeting member cluster east",
            "eviction drain-eviction-db-east-######## was not executed successfully for CRP db targeting member cluster east",
            "eviction drain-eviction-web-east-######## was executed successfully for CRP web targeting member cluster east",
            "evicted resource ''/v1/Namespace/''/web propagated by CRP web targeting member cluster east",
            "drain was not successful for cluster east",
            "retrying drain to ensure all resources propagated from hub cluster are evicted",
            "Successfully cordoned member cluster east by adding cordon taint",
            "Created eviction drain-eviction-db-east-######## for CRP db targeting member cluster east",
            "eviction drain-eviction-db-east-######## was not executed successfully for CRP db targeting member cluster east",
            "drain retry was not successful for cluster east",
            "reminder: uncordon the cluster east to remove cordon taint if needed",
        ]
    );
    // They stay.
    let (db, web) = ("drain-eviction-db-east-########", "drain-eviction-web-east-########");
    assert_eq!(hub.evictions(), [db, db, web]);
}

#[tokio::test(start_paused = true)]
async fn placements_without_evictions_are_named_and_the_others_go() {
    let fixed = json!({ "placementType": "PickFixed", "clusterNames": ["east"] });
    let hub = Fake::new().place("fixed", &fixed, &["east"], Answer::Silence).place(
        "web",
        &json!(null),
        &["east"],
        Answer::Executed,
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
    drained(&hub).await.expect("it goes on");
    let said = hub.said();
    let fixed = "CRP fixed has the placement type PickFixed and cannot be evicted: remove member cluster east from its clusterNames";
    assert_eq!(said.iter().filter(|line| *line == fixed).count(), 2, "{said:#?}");
    assert!(
        said.contains(&"drain was not successful for cluster east".to_owned()),
        "{said:#?}"
    );
    let app = "ResourcePlacement team/app keeps its resources on member cluster east: namespaced placements cannot be evicted";
    assert_eq!(said[said.len() - 2], app);
    assert_eq!(hub.evictions(), ["drain-eviction-web-east-########"]);
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_only_admission_knows_to_be_fixed_is_named_too() {
    let all = json!({ "placementType": "PickAll" });
    let hub = Fake::new().place("fixed", &all, &["east"], Answer::Silence);
    hub.server.answer(|method, path, _| {
        let is_create = method == "POST" && path.ends_with("clusterresourceplacementevictions");
        let message = "admission webhook \"e\" denied the request: cluster resource placement policy type PickFixed is not supported";
        is_create.then(|| (403, json!({ "kind": "Status", "status": "Failure", "code": 403, "message": message })))
    });
    drained(&hub).await.expect("it goes on");
    assert!(
        hub.said()
            .iter()
            .any(|line| line.starts_with("CRP fixed has the placement type PickFixed"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_placement_that_admission_knows_to_be_going_counts_as_done() {
    let all = json!({ "placementType": "PickAll" });
    let hub = Fake::new().place("web", &all, &["east"], Answer::Silence);
    hub.server.answer(|method, path, _| {
        let is_create = method == "POST" && path.ends_with("clusterresourceplacementevictions");
        let message = "admission webhook \"e\" denied the request: cluster resource placement web is being deleted";
        is_create.then(|| {
            (
                403,
                json!({ "kind": "Status", "status": "Failure", "code": 403, "message": message }),
            )
        })
    });
    drained(&hub).await.expect("it is drained");
    let said = hub.said();
    assert_eq!(
        said[1..3],
        [
            "CRP web is being deleted: its resources are removed from member cluster east",
            "drain was successful for cluster east",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn an_eviction_whose_target_is_gone_counts_as_done() {
    let all = json!({ "placementType": "PickAll" });
    let gone = Answer::Invalid(Valid::BindingMissing);
    let hub = Fake::new().place("web", &all, &["east"], gone);
    drained(&hub).await.expect("it is drained");
    let line = "eviction drain-eviction-web-east-######## is invalid with reason Failed to find scheduler decision for placement \
                in cluster targeted by eviction for CRP web targeting member cluster east, but drain will succeed";
    let said = hub.said();
    assert_eq!(said[2], line);
    assert_eq!(said[3], "drain was successful for cluster east");
}

#[tokio::test(start_paused = true)]
async fn a_binding_without_its_label_and_a_cluster_that_is_not_there_are_errors() {
    let hub = Fake::new();
    hub.bind("web", "east", "Bound", true);
    hub.server.edit(
        &format!("{PLACEMENT_API}/clusterresourcebindings/web-east"),
        |binding| {
            binding["metadata"]["labels"] = json!({});
        },
    );
    let error = drained(&hub).await.expect_err("whose is it?");
    let words = "failed to drain member cluster east: failed to get CRP name from binding web-east";
    assert_eq!(format!("{error:#}"), words);
    hub.server.delete(&format!("{CLUSTERS}/east"));
    let error = drained(&hub).await.expect_err("there is no such cluster");
    let words = "failed to drain member cluster east: failed to cordon member cluster east: no such object";
    assert_eq!(format!("{error:#}"), words);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_nobody_answers_ends_with_the_time() {
    let all = json!({ "placementType": "PickAll" });
    let hub = Fake::new().place("web", &all, &["east"], Answer::Silence);
    let error = drained(&hub).await.expect_err("nobody answers");
    let said = format!("{error:#}");
    let words = "failed to drain member cluster east: failed to wait for eviction drain-eviction-web-east-";
    assert!(said.starts_with(words), "{said}");
    let end = " for CRP web targeting member cluster east to reach terminal state: context deadline exceeded";
    assert!(said.ends_with(end), "{said}");
}

#[tokio::test(start_paused = true)]
async fn what_the_api_server_refuses_is_said_in_its_words() {
    let hub = Fake::new().place("web", &json!(null), &["east"], Answer::Executed);
    hub.server
        .fail(Fault::new("clusterresourceplacementevictions", 500).writes());
    let error = drained(&hub).await.expect_err("it fails");
    let said = format!("{error:#}");
    let words = "failed to drain member cluster east: failed to create eviction drain-eviction-web-east-";
    assert!(said.starts_with(words), "{said}");
    let end = " for CRP web targeting member cluster east: as the test wants it";
    assert!(said.ends_with(end), "{said}");
    hub.server.recover();
    hub.server.fail(Fault::new("clusterresourcebindings", 500));
    let error = drained(&hub).await.expect_err("it fails");
    let words = "failed to drain member cluster east: failed to list cluster resource bindings: as the test wants it";
    assert_eq!(format!("{error:#}"), words);
}

#[tokio::test(start_paused = true)]
async fn who_may_only_read_evictions_by_name_drains_as_before() {
    let hub = Fake::new().place("web", &json!(null), &["east"], Answer::Executed);
    hub.server.answer(|method, path, _| {
        let is_list = method == "GET" && path.ends_with("/clusterresourceplacementevictions");
        let message = "User \"old\" cannot list resource";
        let refused = || {
            (
                403,
                json!({ "kind": "Status", "status": "Failure", "code": 403, "message": message }),
            )
        };
        is_list.then(refused)
    });
    drained(&hub).await.expect("it is drained");
    assert!(hub.said().contains(&"drain was successful for cluster east".to_owned()));
}
