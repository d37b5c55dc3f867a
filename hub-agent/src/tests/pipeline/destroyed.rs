//! Nothing is destroyed on the word of a cache, nor by a hub that went back in time; and nothing is left over.

use fleet_api::{annotations, labels, placement::BindingState};

use super::*;

impl Hub {
    /// The names of the Works that are not going.
    fn works(&self) -> Vec<String> {
        let works = self.api.all("works").0.into_iter();
        let staying = works.filter(|work| work["metadata"]["deletionTimestamp"].is_null());
        staying
            .map(|work| work["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    fn delete_binding(&self, cluster: &str) -> Key {
        let key = Key::of(&*self.binding(cluster));
        let going = json!({ "metadata": { "name": key.name(), "deletionTimestamp": "2026-01-01T00:00:00Z" } });
        self.api.put("clusterresourcebindings", going);
        key
    }

    /// Writes an annotation of the InternalMemberCluster.
    pub(super) fn mark(&self, cluster: &str, annotation: &str, at: &str) {
        let meta = json!({ "name": cluster, "annotations": { annotation: at } });
        let path = format!(
            "/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-{cluster}/internalmemberclusters"
        );
        self.api
            .put(&path, json!({ "metadata": meta, "spec": { "state": "Join" } }));
        self.sync();
    }
}

/// A Work that says of which binding it is.
fn work_of(binding: &str) -> Value {
    let labels = json!({ labels::PARENT_BINDING: binding, labels::PARENT_PLACEMENT: "crp" });
    let meta = json!({ "name": "late", "labels": labels });
    json!({ "metadata": meta, "spec": { "workload": { "manifests": [] } } })
}

#[tokio::test(start_paused = true)]
async fn a_work_that_came_after_its_binding_had_gone_is_removed() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    let key = hub.delete_binding("a");
    // Nobody but the one who lets it go: the scheduler would pick the cluster again.
    hub.sync();
    work::pass(&hub.work, &key).await.unwrap();
    hub.sync();
    assert!(hub.api.get("clusterresourcebindings", key.name()).is_none());
    hub.api.put("namespaces/fleet-member-a/works", work_of(key.name()));
    hub.sync();
    work::pass(&hub.work, &key).await.unwrap();
    assert!(!hub.works().contains(&"late".to_owned()));
    assert_eq!(hub.works().len(), CLUSTERS.len() - 1, "those of bindings stay");
}

#[tokio::test(start_paused = true)]
async fn a_work_that_came_before_its_binding_stays() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.api
        .put("namespaces/fleet-member-a/works", work_of("restored-later"));
    hub.sync();
    work::pass(&hub.work, &Key::cluster("restored-later")).await.unwrap();
    assert!(hub.works().contains(&"late".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_only_the_cache_misses_keeps_its_works() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    let key = Key::of(&*hub.binding("a"));
    // Its watch fails, and the list before that did not have it.
    let bindings = &hub.ctx.family.bindings;
    bindings.feed(Event::Restarted);
    bindings.feed(Event::ListDone { version: 1_000_000 });
    work::pass(&hub.work, &key).await.unwrap();
    assert_eq!(hub.works().len(), CLUSTERS.len());
}

#[tokio::test(start_paused = true)]
async fn a_binding_waits_for_works_that_no_cache_shows() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    let key = hub.delete_binding("a");
    hub.sync();
    // The cache of Works is empty, as one whose watch failed before it had begun.
    let works = &hub.ctx.shared.works.store;
    works.feed(Event::Restarted);
    works.feed(Event::ListDone { version: 1_000_000 });
    let outcome = work::pass(&hub.work, &key).await;
    assert!(matches!(outcome, Err(Error::Behind(_))), "{outcome:?}");
    assert!(
        matches!(decide_anew(outcome), Ok(Next::At(_))),
        "an ordinary wait is no failed pass"
    );
    let binding = hub.api.get("clusterresourcebindings", key.name());
    assert!(binding.is_some(), "it is not released");
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_only_the_cache_knows_deletes_no_works() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    let live = hub.binding("a");
    let key = Key::of(&*live);
    let mut going = (*live).clone();
    going.metadata.deletion_timestamp = Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    going.metadata.resource_version = Some("1000000".to_owned());
    hub.ctx.family.bindings.feed(Event::Applied(going));
    let outcome = work::pass(&hub.work, &key).await;
    assert!(matches!(outcome, Err(Error::Behind(_))), "{outcome:?}");
    assert_eq!(hub.works().len(), CLUSTERS.len());
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_went_back_in_time_deletes_no_works_until_it_has_recovered() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.mark("a", annotations::WENT_BACK_AT, "2026-01-02T00:00:00Z");
    let keys = [hub.delete_binding("a"), hub.delete_binding("b")];
    hub.sync();
    for key in &keys {
        work::pass(&hub.work, key).await.unwrap();
    }
    assert_eq!(
        hub.works().len(),
        CLUSTERS.len() - 1,
        "only that of the member that is not marked"
    );
    hub.mark("a", annotations::RECOVERED_AT, "2026-01-02T00:00:01Z");
    work::pass(&hub.work, &keys[0]).await.unwrap();
    assert_eq!(hub.works().len(), CLUSTERS.len() - 2);
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_went_back_in_time_leaves_no_cluster_until_it_has_recovered() {
    let fixed = |clusters: &[&str]| json!({ "policy": { "placementType": "PickFixed", "clusterNames": clusters } });
    let hub = Hub::new(&fixed(&CLUSTERS)).await;
    let rounds = async || {
        for _ in 0..20 {
            hub.round().await;
            hub.report();
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
    };
    rounds().await;
    hub.mark("b", annotations::WENT_BACK_AT, "2026-01-02T00:00:00Z");
    let narrower = json!({ "metadata": { "name": "crp" }, "spec": fixed(&["a"]) });
    hub.api.put("clusterresourceplacements", narrower);
    hub.sync();
    rounds().await;
    assert!(
        hub.ctx.family.bindings_on.get(&"c".to_owned()).is_empty(),
        "that member is not marked"
    );
    let held = hub.binding("b");
    assert_eq!(held.spec.state, BindingState::Unscheduled);
    assert_eq!(held.metadata.deletion_timestamp, None);
    hub.mark("b", annotations::RECOVERED_AT, "2026-01-02T00:00:01Z");
    rounds().await;
    assert_eq!(hub.api.all("clusterresourcebindings").0.len(), 1);
}
