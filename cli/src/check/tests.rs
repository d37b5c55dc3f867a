use fleet_testkit::{Fault, Server};
use serde_json::json;

use super::*;
use crate::{
    output::Shown as _,
    testing::shown::{assert_fits, assert_golden, hub, narrow, now, piped},
};

const CLUSTER: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1";
const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";

async fn look(server: &Server) -> CheckResults {
    let mut report = CheckResults::default();
    fleet::check(&Hub::new(server.client()), now(), &mut report).await;
    report.conclude();
    report
}

fn text(report: &CheckResults) -> String {
    report.text(&Style {
        unicode: true,
        ..Style::default()
    })
}

#[tokio::test]
async fn a_fleet_that_is_well_is_well() {
    let report = look(&Server::new()).await;
    assert!(report.healthy);
    assert_eq!(
        text(&report),
        "\
members
  ‼ the fleet has none
      next: kubectl fleet join NAME --member-cluster-context CONTEXT
placements
  √ 0 of 0 are as they should be
disruption budgets
  √ 0 of 0 let evictions through
orphans
  √ every Work has its binding and its member
3 well, 1 to look at, 0 broken
"
    );
}

#[tokio::test]
async fn what_is_broken_is_named_with_what_to_do() {
    let server = hub();
    server.put(
        &format!("{PLACEMENT}/namespaces/fleet-member-gone/works/w"),
        json!({ "spec": { "workload": {} } }),
    );
    let report = look(&server).await;
    assert!(!report.healthy);
    assert_golden("check.txt", &piped(&report));
    assert_fits(&report.text(&narrow()), 40);
    let short = CheckResults { short: true, ..report };
    assert!(!text(&short).contains('√'));
}

/// Half an installation: a CRD is missing, KubeFleet's webhook is still there, one of two replicas is ready.
#[tokio::test]
async fn what_is_installed_is_told_part_by_part() {
    let server = Server::new();
    let mut crds = fleet_api::crds::all();
    crds.pop();
    for crd in crds {
        let name = crd.metadata.name.clone().unwrap_or_default();
        let mut crd = serde_json::to_value(crd).expect("a CRD is JSON");
        crd["status"] = json!({
            "storedVersions": ["v1beta1"],
            "conditions": [{ "type": "Established", "status": "True", "lastTransitionTime": null, "reason": "", "message": "" }],
        });
        server.put(
            &format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}"),
            crd,
        );
    }
    let hook = json!({
        "name": "fleet.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None", "clientConfig": {},
    });
    server.put(
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/fleet-validating-webhook-configuration",
        json!({ "webhooks": [hook] }),
    );
    let system = "namespaces/fleet-system";
    server.put(
        &format!("/apis/coordination.k8s.io/v1/{system}/leases/136224848560.hub.fleet.azure.com"),
        json!({ "spec": { "holderIdentity": "hub-agent-0", "renewTime": format!("{:.6}", crate::terminal::now()) } }),
    );
    server.put(
        &format!("/apis/apps/v1/{system}/deployments/hub-agent"),
        json!({
            "spec": {
                "replicas": 2, "selector": {},
                "template": { "spec": {
                    "serviceAccountName": "hub-agent-sa", "containers": [{ "name": "hub-agent", "args": [] }],
                } },
            },
            "status": { "readyReplicas": 1 },
        }),
    );
    server.answer(|_, path, body| {
        if path == "/version" {
            let version = json!({
                "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "", "buildDate": "",
                "goVersion": "", "compiler": "", "platform": "",
            });
            return Some((200, version));
        }
        path.ends_with("/subjectaccessreviews").then(|| {
            let is_allowed = body["spec"]["resourceAttributes"]["resource"] != "tokenreviews";
            let answer = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": body["spec"],
                "status": { "allowed": is_allowed },
            });
            (201, answer)
        })
    });
    let mut report = CheckResults::default();
    assert!(hub::check(&server.client(), &mut report).await);
    installation::check(&server.client(), false, &mut report).await;
    report.conclude();
    assert_golden("check-installation.txt", &piped(&report));
}

#[tokio::test]
async fn a_member_agent_of_another_version_is_named() {
    let server = hub();
    let versions = json!({
        "kubernetes-fleet.io/member-agent-version": "0.0.9", "kubernetes-fleet.io/hub-agent-version": "0.1.0",
    });
    server.put(
        &format!("{CLUSTER}/namespaces/fleet-member-north/internalmemberclusters/north"),
        json!({ "metadata": { "annotations": versions }, "spec": { "state": "Join" } }),
    );
    let text = text(&look(&server).await);
    assert!(
        text.contains("agent versions\n  ‼ north: its agent is version 0.0.9, the hub agent 0.1.0\n"),
        "{text}"
    );
    assert!(!text.contains("all agents are version"), "{text}");
}

#[tokio::test]
async fn a_placement_that_nobody_has_looked_at_is_not_well() {
    let server = Server::new();
    let bare = json!({ "metadata": { "generation": 1 }, "spec": { "resourceSelectors": [] } });
    let scheduled = |generation: i64, status: &str| {
        json!({
            "metadata": { "generation": 2 }, "spec": { "resourceSelectors": [] }, "status": { "conditions": [{
                "type": "ClusterResourcePlacementScheduled", "status": status, "reason": "x", "message": "",
                "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }] },
        })
    };
    for (name, object) in [
        ("new", bare),
        ("old", scheduled(1, "True")),
        ("open", scheduled(2, "Unknown")),
    ] {
        server.put(&format!("{PLACEMENT}/clusterresourceplacements/{name}"), object);
    }
    server.put(
        &format!("{PLACEMENT}/clusterresourceplacements/odd"),
        json!({ "spec": { "resourceSelectors": 7 } }),
    );
    let text = text(&look(&server).await);
    for line in [
        "  ‼ crp/new: ",
        "  ‼ crp/old: ",
        "  ‼ crp/open: ",
        "  ‼ ClusterResourcePlacement odd cannot be read: ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    assert!(!text.contains("as they should be"), "{text}");
}

#[tokio::test]
async fn what_may_not_be_read_is_said_and_not_guessed() {
    let server = Server::new();
    server.put(
        &format!("{PLACEMENT}/clusterresourceplacementdisruptionbudgets/web"),
        json!({ "spec": { "maxUnavailable": 1 } }),
    );
    server.fail(Fault::new("/clusterresourceplacements", 403));
    let report = look(&server).await;
    assert!(report.healthy, "nothing is known to be broken");
    let text = text(&report);
    assert!(text.contains("placements\n  ‼ cannot be told: "), "{text}");
    assert!(
        text.contains("disruption budgets\n  ‼ cannot be told without the placements\n"),
        "{text}"
    );
    assert!(
        !text.contains("Status {") && !text.contains("no eviction at all"),
        "{text}"
    );
}

/// The text is cut, what programs read is not.
#[tokio::test]
async fn many_lines_are_counted_for_people_and_kept_for_programs() {
    let server = Server::new();
    for number in 0..50 {
        server.put(
            &format!("{CLUSTER}/memberclusters/m{number:02}"),
            json!({ "spec": { "identity": { "kind": "User", "name": "m" } } }),
        );
    }
    let report = look(&server).await;
    let members = report.lines.iter().filter(|line| line.check == "members").count();
    assert_eq!(members, 50);
    let text = text(&report);
    assert!(
        text.contains("  × m19: ") && !text.contains("  × m20: ") && text.contains("  × and 30 more\n"),
        "{text}"
    );
}

#[test]
fn errors_are_said_in_words() {
    let mut report = CheckResults::default();
    let answer =
        |code, words: &str| kube::Error::Api(kube::core::Status::failure(words, "Whatever").with_code(code).boxed());
    let right = "get lease/x -n fleet-system";
    report.unread_core("hub agent", "kubectl", right, &answer(403, "forbidden"));
    report.unread_core("member", "kubectl --context east", right, &answer(500, "etcd is away"));
    assert_eq!(
        text(&report),
        "\
hub agent
  ‼ cannot be told: no right to get lease/x -n fleet-system
      next: kubectl auth can-i get lease/x -n fleet-system
member
  ‼ cannot be told: etcd is away
      next: kubectl --context east cluster-info
0 well, 2 to look at, 0 broken
"
    );
}

/// A member whose agent lacks a right and whose chart names another CA of the channel than the hub announces.
#[tokio::test]
async fn a_member_is_looked_at_from_its_own_side() {
    use base64::{Engine as _, engine::general_purpose::STANDARD};
    let (hub, member) = (Server::new(), Server::new());
    hub.put(
        &format!("{CLUSTER}/namespaces/fleet-member-east/internalmemberclusters/east"),
        json!({
            "metadata": { "annotations": {
                "kubernetes-fleet.io/channel-ca": STANDARD.encode("new CA"), "kubernetes-fleet.io/channel-endpoint": "hub:8443",
            } },
            "spec": { "state": "Join" },
        }),
    );
    let crd = "appliedworks.placement.kubernetes-fleet.io";
    let group = "placement.kubernetes-fleet.io";
    member.put(
        &format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{crd}"),
        json!({ "spec": {
            "group": group, "scope": "Cluster", "names": { "kind": "AppliedWork", "plural": "appliedworks" }, "versions": [],
        } }),
    );
    let system = "namespaces/fleet-system";
    member.put(
        &format!(
            "/apis/coordination.k8s.io/v1/{system}/leases/{}",
            fleet_api::names::MEMBER_LEASE
        ),
        json!({ "spec": { "renewTime": format!("{:.6}", crate::terminal::now()) } }),
    );
    let variable = |name: &str, value: &str| json!({ "name": name, "value": value });
    let container = json!({ "name": "member-agent", "env": [
        variable("MEMBER_CLUSTER_NAME", "east"),
        variable("HUB_CERTIFICATE_AUTHORITY", &STANDARD.encode("the hub's CA\n")),
        variable("HUB_CHANNEL_CA", &STANDARD.encode("old CA")),
    ] });
    member.put(
        &format!("/apis/apps/v1/{system}/deployments/member-agent"),
        json!({ "spec": {
            "selector": {},
            "template": { "spec": { "serviceAccountName": "member-agent-sa", "containers": [container] } },
        } }),
    );
    member.answer(|_, path, body| {
        let is_review = path.ends_with("/subjectaccessreviews");
        is_review.then(|| {
            let spec = &body["spec"];
            assert_eq!(spec["user"], "system:serviceaccount:fleet-system:member-agent-sa");
            let is_allowed = spec["resourceAttributes"]["resource"] != "nodes";
            let answer = json!({
                "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec,
                "status": { "allowed": is_allowed },
            });
            (201, answer)
        })
    });
    let hub = KnownCluster {
        client: hub.client(),
        watches: hub.client(),
        server: String::new(),
        ca: Some("the hub's CA".to_owned()),
        namespace: String::new(),
    };
    let mut report = CheckResults::default();
    member::check(&member.client(), "east", &hub, &mut report).await;
    let lines = report.lines.iter();
    let lines: Vec<_> = lines.map(|line| format!("{:?} {}", line.verdict, line.text)).collect();
    assert_eq!(
        lines,
        [
            "Ok east has the CRD appliedworks.placement.kubernetes-fleet.io",
            "Ok the agent of east runs",
            "Failed the agent of east may not: list nodes",
            "Ok east trusts the hub's CA",
            "Failed the chart of east names another CA of the channel than the hub announces",
        ]
    );
}
