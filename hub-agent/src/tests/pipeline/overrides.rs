//! Overrides: whom a change of one wakes, and which of its snapshots counts.

use std::time::Duration;

use fleet_api::labels;
use fleet_runtime::cache::Odd;

use super::*;

/// A snapshot of the override `name`, about one object.
pub(super) fn snapshot(name: &str, index: u64, selectors: &str, object: &Value, placement: &Value) -> Value {
    let rule = json!({ "clusterSelector": { "clusterSelectorTerms": [] }, "overrideType": "Delete" });
    json!({
        "metadata": {
            "name": format!("{name}-{index}"),
            "labels": { labels::PARENT_OVERRIDE: name, labels::OVERRIDE_INDEX: index.to_string() },
        },
        "spec": { "overrideHash": "", "overrideSpec": {
            "placement": placement, selectors: [object], "policy": { "overrideRules": [rule] },
        } },
    })
}

pub(super) fn cluster_wide(name: &str, index: u64, object: &Value, placement: &Value) -> Value {
    snapshot(name, index, "clusterResourceSelectors", object, placement)
}

pub(super) fn namespace(name: &str) -> Value {
    json!({ "group": "", "version": "v1", "kind": "Namespace", "name": name })
}

impl Hub {
    /// Another placement, of the namespace `elsewhere`.
    fn put_other(&self) {
        let object = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "elsewhere" } });
        self.api.put(
            "clusterresourcesnapshots",
            json!({
                "metadata": { "name": "other-0-snapshot", "labels": { labels::PARENT_PLACEMENT: "other" } },
                "spec": { "selectedResources": [object] },
            }),
        );
        self.sync();
    }

    pub(super) fn put_snapshot(&self, snapshot: Value) {
        self.api.put("clusterresourceoverridesnapshots", snapshot);
        let stores = &self.ctx.shared.overrides;
        self.list(&stores.cluster_wide_snapshots, "clusterresourceoverridesnapshots");
    }

    /// The placements that the rollout is to look at.
    async fn woken(&self) -> Vec<String> {
        let (mut names, queue) = (Vec::new(), &self.rollout.queue);
        while let Ok(taken) = tokio::time::timeout(Duration::from_secs(1), queue.take()).await {
            queue.done(&taken.key, Next::Wait);
            names.push(taken.key.to_string());
        }
        names.sort();
        names.dedup();
        names
    }
}

#[tokio::test(start_paused = true)]
async fn an_override_wakes_only_the_placements_that_it_concerns() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.put_other();
    let rollout = hub.rollout.clone();
    let feed = tokio::spawn(async move { rollout::feed(&rollout).await });
    assert_eq!(hub.woken().await, ["crp", "other"], "what is there at the start");

    hub.put_snapshot(cluster_wide("a", 0, &namespace("app"), &json!(null)));
    assert_eq!(hub.woken().await, ["crp"]);
    hub.put_snapshot(cluster_wide("b", 0, &namespace("nowhere"), &json!(null)));
    assert_eq!(hub.woken().await, Vec::<String>::new(), "nobody places it");
    hub.put_snapshot(cluster_wide("c", 0, &namespace("app"), &json!({ "name": "other" })));
    assert_eq!(
        hub.woken().await,
        Vec::<String>::new(),
        "it names a placement without it"
    );
    hub.put_snapshot(cluster_wide("a", 1, &namespace("elsewhere"), &json!(null)));
    assert_eq!(
        hub.woken().await,
        ["crp", "other"],
        "the one that it was about has to lose it"
    );

    let deployment = json!({ "group": "apps", "version": "v1", "kind": "Deployment", "name": "web" });
    let narrow = snapshot("a", 0, "resourceSelectors", &deployment, &json!(null));
    hub.api.put("namespaces/elsewhere/resourceoverridesnapshots", narrow);
    let stores = &hub.ctx.shared.overrides;
    hub.list(&stores.namespaced_snapshots, "resourceoverridesnapshots");
    assert_eq!(hub.woken().await, ["other"]);
    feed.abort();
}

#[tokio::test(start_paused = true)]
async fn bindings_name_the_newest_snapshot_of_an_override_if_it_is_about_them() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    let named = || {
        let binding = hub.binding("a");
        binding.spec.cluster_resource_override_snapshots.clone()
    };
    let stores = &hub.ctx.shared.overrides;
    hub.api.put(
        "clusterresourceoverrides",
        json!({ "metadata": { "name": "o" }, "spec": { "policy": {} } }),
    );
    hub.list(&stores.cluster_wide, "clusterresourceoverrides");
    hub.put_snapshot(cluster_wide("gone", 0, &namespace("app"), &json!(null)));
    hub.put_snapshot(cluster_wide("o", 0, &namespace("app"), &json!(null)));
    hub.put_snapshot(cluster_wide("o", 1, &namespace("app"), &json!(null)));
    hub.report();
    hub.settle().await;
    assert_eq!(named(), ["o-1"]);
    hub.put_snapshot(cluster_wide("o", 2, &namespace("elsewhere"), &json!(null)));
    hub.report();
    hub.settle().await;
    assert_eq!(named(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn nobody_knows_the_overrides_on_a_cluster_that_cannot_be_read() {
    let hub = Hub::new(&json!({})).await;
    hub.ctx.shared.members.feed(Event::AppliedOdd(Odd {
        key: Key::cluster("odd"),
        uid: Some("odd".to_owned()),
        version: 1_000_000,
        error: "it has no spec".to_owned(),
    }));
    let name = crate::pipeline::key_of(&Key::cluster("crp")).unwrap();
    let lists = crate::overrides::on_clusters(&hub.ctx, &name, [], &["a", "odd", "gone"]);
    let known: Vec<_> = lists.iter().map(Result::is_ok).collect();
    assert_eq!(known, [true, false, true], "{lists:?}");
}
