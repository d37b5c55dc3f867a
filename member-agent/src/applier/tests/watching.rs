//! Whom a change wakes.

use fleet_core::apply::identify::ObjectKey;
use fleet_runtime::{cache::Era, queue::Queue};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::ApiResource;

use super::super::{member_api::kinds::Kinds, watches::Watches};
use super::*;

fn key() -> ObjectKey {
    ObjectKey {
        group: String::new(),
        kind: "ConfigMap".to_owned(),
        namespace: "app".to_owned(),
        name: "c".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_work_writes_is_news_to_another_that_looks_at_the_same_object() {
    let member = cluster();
    let queue = Queue::default();
    let watches = Watches::new(
        member.client(),
        Era::default(),
        Kinds::new(member.client()),
        queue.clone(),
    );
    let resource = || ApiResource::erase::<ConfigMap>(&());
    for work in ["writes", "compares"] {
        watches.follow(work, vec![(resource(), key())], &[]).await;
        watches.noted(work, &key(), 0);
    }
    member.put(&config_path("c"), config("c", &json!({})));
    // The answer to the write comes before the event of the watch, or after it.
    let written = member.get(&config_path("c")).unwrap()["metadata"]["resourceVersion"].clone();
    watches.noted("writes", &key(), written.as_str().unwrap().parse().unwrap());
    settle().await;
    assert!(watches.take_changed("writes").is_empty(), "it is its own");
    assert_eq!(watches.take_changed("compares").len(), 1);
    watches.forget("compares");
    assert!(watches.take_changed("compares").is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_available_when_its_manifest_says_so_is_judged_again_when_it_changes() {
    const GADGET: &str = "/apis/e.com/v1/namespaces/app/gadgets/g";
    let mut stage = Stage::new();
    stage.member.serve("/apis/e.com/v1", "gadgets", "Gadget", true);
    let mut gadget = json!({
        "apiVersion": "e.com/v1", "kind": "Gadget",
        "metadata": {"name": "g", "namespace": "app", "annotations": {
            "rollout.kubernetes-fleet.io/available-when": "self.status.phase == 'Ready'"}},
    });
    stage.show(1, &json!({}), &json!({}), std::slice::from_ref(&gadget));
    stage.pass().await;
    let not_yet = vec![("Applied".into(), Status::True), ("Available".into(), Status::False)];
    assert_eq!(stage.conditions(), not_yet);
    settle().await;
    while !stage.applier.queue.is_empty() {
        stage.applier.queue.take().await;
        stage.applier.queue.done(&"w".to_owned(), Next::Wait);
    }
    for (phase, expected) in [("Ready", good()), ("Broken", not_yet)] {
        stage.member.edit(GADGET, |live| live["status"]["phase"] = json!(phase));
        settle().await;
        assert_eq!(stage.applier.queue.take().await.key, "w", "{phase}");
        stage.pass().await;
        assert_eq!(stage.conditions(), expected, "{phase}");
        stage.applier.queue.done(&"w".to_owned(), Next::Wait);
    }
    // The annotation alone is a change.
    gadget["metadata"]["annotations"]["rollout.kubernetes-fleet.io/available-when"] = json!("has(self.status.phase)");
    stage.show(2, &json!({}), &json!({}), &[gadget]);
    stage.pass().await;
    assert_eq!(stage.conditions(), good());
}
