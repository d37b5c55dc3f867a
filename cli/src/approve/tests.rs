use clap::Parser as _;
use fleet_testkit::Server;
use serde_json::json;

use super::*;

#[derive(Debug, clap::Parser)]
struct Line {
    #[command(flatten)]
    args: Args,
}

fn parsed(line: &str) -> Args {
    let words = std::iter::once("approve").chain(line.split_whitespace());
    Line::try_parse_from(words).expect("it is a command line").args
}

#[test]
fn what_is_approved_is_named_as_scripts_do() {
    let rows = [
        ("clusterapprovalrequest --name r", "ClusterApprovalRequest \"r\""),
        ("--name=r CAREQ", "ClusterApprovalRequest \"r\""),
        (
            "ApprovalRequest --name r -n team",
            "ApprovalRequest \"r\" in namespace \"team\"",
        ),
        (
            "areq --namespace team --name r",
            "ApprovalRequest \"r\" in namespace \"team\"",
        ),
    ];
    for (line, title) in rows {
        let target = Target::of(&parsed(line)).expect(line);
        assert_eq!(target.title(), title, "{line}");
    }
}

#[test]
fn what_is_missing_or_too_much_is_said_in_the_known_words() {
    let rows = [
        ("", "resource kind is required"),
        ("--name r", "resource kind is required"),
        ("careq areq --name r", "accepts 1 arg(s), received 2"),
        ("run --name r", "unsupported resource kind \"run\""),
        ("careq", "resource name is required"),
        (
            "careq --name r -n team",
            "clusterapprovalrequest is cluster-scoped and does not accept a namespace",
        ),
        (
            "areq --name r",
            "namespace is required for approvalrequest (use --namespace or -n flag)",
        ),
    ];
    for (line, error) in rows {
        let refused = Target::of(&parsed(line)).expect_err(line);
        assert_eq!(refused.to_string(), error, "{line}");
    }
}

#[test]
fn older_spellings_and_durations_are_understood() {
    let args = parsed("careq --name r --hubClusterContext hub --timeout 1m30s");
    assert_eq!(args.globals.context.as_deref(), Some("hub"));
    assert_eq!(args.timeout, Duration::from_secs(90));
    let args = parsed("careq --name r --hub-cluster-context hub");
    assert_eq!(args.globals.context.as_deref(), Some("hub"));
    assert_eq!(args.timeout, Duration::from_mins(5));
    assert!(old::timeout("-1s").is_err() && old::timeout("soon").is_err());
}

fn request(status: &serde_json::Value) -> DynamicObject {
    serde_json::from_value(json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterApprovalRequest",
        "metadata": { "name": "r-after-s", "generation": 1, "resourceVersion": "7" },
        "spec": { "parentStageRollout": "r", "targetStage": "s" },
        "status": status,
    }))
    .expect("it is an object")
}

fn condition(generation: i64, status: &str) -> serde_json::Value {
    json!({
        "type": "Approved", "status": status, "reason": "Played", "message": "by hand", "observedGeneration": generation,
        "lastTransitionTime": "2026-01-09T01:53:53Z",
    })
}

#[test]
fn an_approval_is_for_the_generation_that_the_request_has() {
    let now: Timestamp = "2026-02-01T00:00:00Z".parse().expect("a time");
    let rows = [
        (json!(null), "2026-02-01T00:00:00Z"),
        (json!({ "conditions": [condition(1, "False")] }), "2026-02-01T00:00:00Z"),
        // An approval of another generation counts for nothing; this one is the same, only right.
        (json!({ "conditions": [condition(0, "True")] }), "2026-01-09T01:53:53Z"),
    ];
    for (status, since) in rows {
        let mut object = request(&status);
        approve(&mut object, Scope::Cluster, now).expect("its status can be read");
        let wanted = json!([{
            "type": "Approved", "status": "True", "reason": "ClusterApprovalRequestApproved",
            "message": "ClusterApprovalRequest has been approved", "observedGeneration": 1, "lastTransitionTime": since,
        }]);
        assert_eq!(object.data["status"]["conditions"], wanted);
        // Pinned to what was read.
        assert_eq!(object.metadata.resource_version.as_deref(), Some("7"));
    }
}

#[test]
fn a_namespaced_request_has_words_of_its_own_and_others_conditions_stay() {
    let accepted = json!({
        "type": "ApprovalAccepted", "status": "True", "reason": "ApprovalRequestApprovalAccepted", "message": "",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-09T01:53:53Z",
    });
    let mut object = request(&json!({ "conditions": [accepted] }));
    approve(&mut object, Scope::Namespaced, Timestamp::UNIX_EPOCH).expect("its status can be read");
    let conditions = object.data["status"]["conditions"].as_array().expect("a list");
    let reasons: Vec<_> = conditions
        .iter()
        .map(|c| c["reason"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(reasons, ["ApprovalRequestApprovalAccepted", "ApprovalRequestApproved"]);
}

#[tokio::test]
async fn what_is_approved_and_what_is_not_there_is_said_in_the_known_words() {
    let server = Server::new();
    let requests = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/team/approvalrequests";
    server.put(
        &format!("{requests}/r"),
        json!({ "spec": { "parentStageRollout": "r", "targetStage": "s" } }),
    );
    let hub = Hub::new(server.client());
    let target = |name: &str| Target {
        name: name.to_owned(),
        namespace: Some("team".to_owned()),
    };
    target("r").approve(&hub).await.expect("it is approved");
    assert_eq!(server.written(), [format!("PUT {requests}/r/status")]);
    let stored = server.get(&format!("{requests}/r")).expect("it is there");
    assert_eq!(stored["status"]["conditions"][0]["reason"], "ApprovalRequestApproved");
    let error = target("none").approve(&hub).await.expect_err("it is not there");
    let words = "failed to get ApprovalRequest \"none\" in namespace \"team\": no such object";
    assert_eq!(format!("{error:#}"), words);
}
