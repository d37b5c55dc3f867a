//! The clock is set while a placement is on its way.

use fleet_api::finalizers;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_leaves_every_cluster_to_be_chosen() {
    for hours in [2, -2] {
        // A moment after every cluster's last beat.
        let clock = Clock::manual(Clock::system().now() + SignedDuration::from_secs(10));
        let hub = Hub::new_at(&json!({}), clock.clone()).await;
        clock.step(SignedDuration::from_hours(hours));
        hub.settle().await;
        let bindings = hub.ctx.family.bindings_of.get(&Key::cluster("crp"));
        assert_eq!(bindings.len(), CLUSTERS.len(), "{hours}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_goes_is_let_go_though_the_clock_was_set_back() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    let key = Key::of(&*hub.binding("a"));
    let later = Clock::system().now() + SignedDuration::from_hours(2);
    let going = json!({ "metadata": { "name": key.name(), "deletionTimestamp": later.to_string() } });
    hub.api.put("clusterresourcebindings", going);
    hub.sync();
    scheduler::pass(&hub.scheduler, &Key::cluster("crp")).await.unwrap();
    let binding = hub.api.get("clusterresourcebindings", key.name()).unwrap();
    assert_eq!(binding["metadata"]["finalizers"], json!([finalizers::WORK]));
}
