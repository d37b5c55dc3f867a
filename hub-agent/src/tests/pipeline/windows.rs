//! Rolling updates of clusters that may be changed only at certain times.

use fleet_api::{annotations, placement::BindingState};

use super::*;

const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";

/// A window that opens in an hour or two.
fn shut() -> Value {
    let hour = Clock::system().now().as_second() / 3600;
    json!(format!(
        "Mon-Sun {:02}:00-{:02}:00 UTC",
        (hour + 2) % 24,
        (hour + 3) % 24
    ))
}

/// A placement that is available everywhere; `b` is closed.
async fn closed() -> Hub {
    let all_at_once = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": "100%" } });
    let hub = Hub::new(&json!({ "strategy": all_at_once })).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    hub.window("b", &shut());
    hub
}

impl Hub {
    fn window(&self, cluster: &str, window: &Value) {
        let annotation = json!({ annotations::WINDOW: window });
        self.api.put(
            MEMBERS,
            json!({ "metadata": { "name": cluster, "annotations": annotation } }),
        );
        self.sync();
    }

    /// What the placement's user wants now.
    fn edit_placement(&self, spec: &Value) {
        self.api.put(
            "clusterresourceplacements",
            json!({ "metadata": { "name": "crp" }, "spec": spec }),
        );
        self.sync();
    }

    /// Why a cluster is held back, if it is.
    fn held_back(&self, cluster: &str) -> Option<String> {
        let binding = self.binding(cluster);
        let list = &binding.status.as_ref()?.conditions;
        let said = conditions::fresh(list, "RolloutStarted", binding.metadata.generation?)?;
        (said.status == "False").then(|| said.message.clone())
    }

    fn is_held_for_its_window(&self, cluster: &str) {
        let said = self.held_back(cluster).unwrap_or_default();
        let start = "The resources cannot be updated to the latest because of the rollout strategy; waiting for the window \
                     of cluster b, next at ";
        assert!(said.starts_with(start), "{said}");
    }

    /// Which apply strategy and which snapshot a cluster has.
    fn content(&self, cluster: &str) -> (String, String) {
        let binding = self.binding(cluster);
        let strategy = serde_json::to_value(&binding.spec.apply_strategy).unwrap();
        let strategy = strategy["type"].as_str().unwrap_or_default().to_owned();
        (strategy, binding.spec.resource_snapshot_name.clone())
    }
}

fn having(strategy: &str, snapshot: &str) -> (String, String) {
    (strategy.to_owned(), snapshot.to_owned())
}

#[tokio::test(start_paused = true)]
async fn a_closed_cluster_says_until_when_it_waits_and_an_edit_of_its_window_wakes_the_rollout() {
    let hub = closed().await;
    hub.api.put("/api/v1/namespaces/app/configmaps", config_map("two"));
    // The watch of ConfigMaps is not there, so another process has to see it.
    let hub = Hub::start(hub.api.clone()).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    for (cluster, snapshot) in [
        ("a", "crp-1-snapshot"),
        ("b", "crp-0-snapshot"),
        ("c", "crp-1-snapshot"),
    ] {
        assert_eq!(hub.content(cluster), having("ClientSideApply", snapshot), "{cluster}");
    }
    hub.is_held_for_its_window("b");
    let placement = Key::cluster("crp");
    let next = rollout::pass(&hub.rollout, &placement).await.unwrap();
    assert!(matches!(next, Next::At(_)), "it looks again when the window opens");

    // Somebody cannot wait.
    let queue = hub.rollout.queue.clone();
    while !queue.is_empty() {
        let taken = queue.take().await;
        queue.done(&taken.key, Next::Wait);
    }
    let edited = async {
        tokio::task::yield_now().await;
        hub.window("b", &json!("Mon-Sun 00:00-24:00 UTC"));
        queue.take().await.key
    };
    tokio::select! {
        biased;
        () = rollout::feed(&hub.rollout) => panic!("nothing feeds the rollout any more"),
        woken = edited => assert_eq!(woken, placement),
    }
    hub.settle().await;
    assert_eq!(hub.content("b"), having("ClientSideApply", "crp-1-snapshot"));
    assert_eq!(hub.held_back("b"), None);
}

#[tokio::test(start_paused = true)]
async fn an_edit_of_the_apply_strategy_waits_for_the_window_too() {
    let hub = closed().await;
    hub.edit_placement(&json!({ "strategy": { "applyStrategy": { "type": "ServerSideApply" } } }));
    hub.settle().await;
    for cluster in ["a", "c"] {
        assert_eq!(
            hub.content(cluster),
            having("ServerSideApply", "crp-0-snapshot"),
            "{cluster}"
        );
    }
    assert_eq!(hub.content("b"), having("ClientSideApply", "crp-0-snapshot"));
    hub.is_held_for_its_window("b");
    let works = hub.api.all("works").0;
    let of_b = works
        .iter()
        .find(|work| work["metadata"]["namespace"] == "fleet-member-b")
        .unwrap();
    assert_eq!(of_b["spec"]["applyStrategy"]["type"], "ClientSideApply");
    hub.window("b", &Value::Null);
    hub.settle().await;
    assert_eq!(hub.content("b"), having("ServerSideApply", "crp-0-snapshot"));
    assert_eq!(hub.held_back("b"), None);
}

#[tokio::test(start_paused = true)]
async fn a_closed_cluster_is_left_when_it_opens_or_when_it_leaves_the_fleet() {
    for leaves in [false, true] {
        let hub = closed().await;
        hub.edit_placement(&json!({ "policy": { "placementType": "PickFixed", "clusterNames": ["a", "c"] } }));
        hub.settle().await;
        let binding = hub.binding("b");
        assert_eq!(binding.spec.state, BindingState::Unscheduled);
        assert!(binding.metadata.deletion_timestamp.is_none(), "it is kept: {binding:?}");
        if leaves {
            let going = json!({ "name": "b", "deletionTimestamp": "2026-01-01T00:00:00Z" });
            hub.api.put(MEMBERS, json!({ "metadata": going }));
            hub.sync();
        } else {
            hub.window("b", &Value::Null);
        }
        hub.settle().await;
        let on = hub.ctx.family.bindings_on.get(&"b".to_owned());
        let kept = on.iter().any(|binding| binding.metadata.deletion_timestamp.is_none());
        assert!(!kept, "{leaves}: {on:?}");
    }
}
