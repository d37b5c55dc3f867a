//! Whom a member's report wakes, with the feeds at work.

use std::time::Duration;

use fleet_runtime::queue::Queue;

use super::*;

/// Until the feeds have passed on what they have.
async fn quiet() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

/// The keys that wait, in order; none does afterwards.
async fn taken(queue: &Queue<Key>) -> Vec<Key> {
    quiet().await;
    let mut keys = Vec::new();
    while !queue.is_empty() {
        let key = queue.take().await.key;
        queue.done(&key, Next::Wait);
        keys.push(key);
    }
    keys.sort();
    keys
}

/// Runs a test beside the feeds of the two stages that look at Works, once these have shown what there is.
async fn fed(hub: &Hub, test: impl Future<Output = ()>) {
    let test = async {
        taken(&hub.work.queue).await;
        taken(&hub.bindings.queue).await;
        test.await;
    };
    tokio::select! {
        () = work::feed(&hub.work) => {}
        () = binding_rollup::feed(&hub.bindings) => {}
        () = test => {}
    }
}

fn says(hub: &Hub, cluster: &str, type_name: &str) -> bool {
    let binding = hub.binding(cluster);
    let list = binding.status.as_ref().map(|status| status.conditions.as_slice());
    conditions::is_true(
        list.unwrap_or_default(),
        type_name,
        binding.metadata.generation.unwrap(),
    )
}

#[tokio::test(start_paused = true)]
async fn a_report_renders_nothing() {
    let hub = Hub::new(&json!({})).await;
    // One pass over each: the answer comes before anything is said of the bindings.
    hub.round().await;
    fed(&hub, async {
        hub.report();
        let all = hub.ctx.family.bindings_of.keys(&Key::cluster("crp"));
        assert_eq!(taken(&hub.bindings.queue).await, all);
        assert_eq!(taken(&hub.work.queue).await, []);
        for key in &all {
            check(binding_rollup::pass(&hub.bindings, key).await);
        }
        assert!(CLUSTERS.iter().all(|cluster| says(&hub, cluster, "Available")));
        // What was written shows that it is there, and that is all.
        assert_eq!(taken(&hub.work.queue).await, []);
        hub.api.writes();
        for key in taken(&hub.bindings.queue).await {
            check(binding_rollup::pass(&hub.bindings, &key).await);
        }
        assert_eq!(hub.api.writes(), Vec::<String>::new());
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_work_that_somebody_edits_is_rendered_again() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    let key = Key::of(&*hub.binding("a"));
    let work = hub.ctx.shared.works.by_binding.get(&key)[0].clone();
    let name = work.metadata.name.clone().unwrap();
    let edit = json!({ "metadata": { "name": name }, "spec": { "workload": { "manifests": [] } } });
    fed(&hub, async {
        hub.api.put("namespaces/fleet-member-a/works", edit);
        hub.sync();
        assert_eq!(taken(&hub.work.queue).await, std::slice::from_ref(&key));
        assert_eq!(
            taken(&hub.bindings.queue).await,
            [],
            "not before it is what it should be"
        );
        // As long as that cannot be written, whatever is said of it is worth another try.
        hub.api.set_forbidden(Some("works"));
        assert!(work::pass(&hub.work, &key).await.is_err());
        assert_eq!(taken(&hub.bindings.queue).await, std::slice::from_ref(&key));
        hub.report();
        assert_eq!(taken(&hub.work.queue).await, std::slice::from_ref(&key));
        hub.api.set_forbidden(None);
        check(work::pass(&hub.work, &key).await);
        check(binding_rollup::pass(&hub.bindings, &key).await);
        assert!(says(&hub, "a", "WorkSynchronized"));
    })
    .await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    assert!(says(&hub, "a", "Available"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_of_works_before_a_new_process_has_looked_at_them() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.report();
    let next = Hub::start(hub.api.clone()).await;
    let key = Key::cluster("crp");
    check(selection::pass(&next.selection, &key).await);
    check(rollout::pass(&next.rollout, &key).await);
    next.api.writes();
    let binding = Key::of(&*next.binding("a"));
    check(binding_rollup::pass(&next.bindings, &binding).await);
    assert_eq!(next.api.writes(), Vec::<String>::new());
    check(work::pass(&next.work, &binding).await);
    check(binding_rollup::pass(&next.bindings, &binding).await);
    assert_eq!(next.api.writes(), ["PATCH clusterresourcebindings/status"]);
    assert!(says(&next, "a", "Available"));
}
