use fleet_testkit::{Fault, Server};
use serde_json::json;

use super::*;

const CLUSTER: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1";
const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const MARKS: [&str; 3] = ["√", "‼", "×"];

async fn look(server: &Server) -> Report {
    let mut report = Report::default();
    fleet::check(&server.client(), &mut report).await;
    report.conclude();
    report
}

#[tokio::test]
async fn a_fleet_that_is_well_is_well() {
    let report = look(&Server::new()).await;
    assert!(report.healthy);
    assert_eq!(
        report.lines_with(MARKS),
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
    let server = Server::new();
    server.put(
        &format!("{CLUSTER}/memberclusters/east"),
        json!({ "spec": { "identity": { "kind": "User", "name": "east" } } }),
    );
    let condition = json!({
        "type": "ClusterResourcePlacementApplied", "status": "False", "reason": "ApplyFailed", "message": "",
        "observedGeneration": 1, "lastTransitionTime": "2026-01-09T01:53:53Z",
    });
    server.put(
        &format!("{PLACEMENT}/clusterresourceplacements/web"),
        json!({ "metadata": { "generation": 1 }, "spec": { "resourceSelectors": [] }, "status": { "conditions": [condition] } }),
    );
    server.put(
        &format!("{PLACEMENT}/namespaces/fleet-member-gone/works/w"),
        json!({ "spec": { "workload": {} } }),
    );
    let report = look(&server).await;
    assert!(!report.healthy);
    let text = report.lines_with(MARKS);
    for line in [
        "  × crp/web: ClusterResourcePlacementApplied ApplyFailed\n      next: kubectl fleet why crp/web\n",
        "  ‼ Work fleet-member-gone/w is for a member that the fleet does not have\n",
        "  × east: ",
    ] {
        assert!(text.contains(line), "{line}: {text}");
    }
    let short = Report { short: true, ..report };
    assert!(!short.lines_with(MARKS).contains('√'));
}

#[tokio::test]
async fn what_may_not_be_read_is_said_and_not_guessed() {
    let server = Server::new();
    server.fail(Fault::new("/clusterresourceplacementdisruptionbudgets", 403));
    let report = look(&server).await;
    assert!(report.healthy, "nothing is known to be broken");
    assert!(
        report
            .lines_with(MARKS)
            .contains("disruption budgets\n  ‼ cannot be told: ")
    );
}
