//! What happens between a decision and its write, or while nobody can look, must not be overwritten, lost or taken for an
//! end.

use fleet_api::{
    events::PlacementEvent,
    labels,
    placement::{BindingState, ClusterResourceBinding, ResourceOverrideSnapshot},
};
use fleet_core::{
    overrides::LabelledCluster,
    scheduler::{Patch, Unschedule},
    selection::ObjectId,
};
use fleet_runtime::cache::Odd;
use kube::ResourceExt as _;

use super::*;
use crate::{binding, overrides};

/// A placement that is available everywhere.
async fn available(spec: &Value) -> Hub {
    let hub = Hub::new(spec).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    hub.api.writes();
    hub
}

fn budget(max_unavailable: i64) -> Value {
    json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": max_unavailable } } })
}

impl Hub {
    /// Changes a binding as somebody else would.
    fn edit(&self, binding: &str, change: Value) {
        let mut object = change;
        object["metadata"]["name"] = json!(binding);
        self.api.put("clusterresourcebindings", object);
        self.sync();
    }

    fn state(&self, cluster: &str) -> BindingState {
        self.binding(cluster).spec.state.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_touched_while_it_waits_is_ready_again() {
    let hub = available(&budget(0)).await;
    hub.api.put("/api/v1/namespaces/app/configmaps", config_map("two"));
    // The watch of ConfigMaps is not there, so another process has to see it.
    let hub = Hub::start(hub.api.clone()).await;
    hub.settle().await;
    for cluster in CLUSTERS {
        let name = hub.binding(cluster).name_any();
        hub.edit(&name, json!({ "spec": { "schedulingPolicySnapshotName": "crp-9" } }));
    }
    // The scheduler would put it right, and touch them once more.
    hub.settle().await;
    hub.report();
    hub.settle().await;
    for cluster in CLUSTERS {
        let binding = hub.binding(cluster);
        let (list, generation) = (
            &binding.status.as_ref().unwrap().conditions,
            binding.metadata.generation.unwrap(),
        );
        let started = conditions::fresh(list, "RolloutStarted", generation).map(|c| c.status.as_str());
        assert_eq!(started, Some("False"), "{cluster} still waits: {list:?}");
        assert!(
            conditions::is_true(list, "Available", generation),
            "{cluster}: {list:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_is_picked_again_is_not_deleted() {
    let hub = available(&json!({})).await;
    let (binding, placement) = (hub.binding("a"), Key::cluster("crp"));
    let (key, uid) = (Key::of(&*binding), binding.uid());
    let unscheduled: fn(&ClusterResourceBinding) -> bool = |b| b.spec.state == BindingState::Unscheduled;
    let delete = || {
        let (store, writer) = (&hub.ctx.family.bindings, &hub.ctx.shared.writer);
        writer.delete(store, &key, &placement, uid.as_deref(), Some(&unscheduled))
    };
    assert!(!delete().await.unwrap(), "the store knows that it is picked");
    assert_eq!(hub.api.writes(), Vec::<String>::new());
    // Here only the API server does.
    hub.edit(key.name(), json!({ "spec": { "state": "Unscheduled" } }));
    let back = json!({ "metadata": { "name": key.name() }, "spec": { "state": "Bound" } });
    hub.api.put("clusterresourcebindings", back);
    assert!(delete().await.unwrap_err().is_conflict());
    hub.sync();
    assert_eq!(hub.state("a"), BindingState::Bound);
}

#[tokio::test(start_paused = true)]
async fn the_scheduler_does_not_take_back_what_the_rollout_has_bound() {
    let hub = available(&json!({})).await;
    let (binding, placement) = (hub.binding("a"), Key::cluster("crp"));
    let mut decision = binding.spec.cluster_decision.clone();
    decision.reason = "for another reason".to_owned();
    // Decided when it was still Scheduled.
    let patch = Patch {
        binding: binding.name_any(),
        cluster: "a".to_owned(),
        state: BindingState::Scheduled,
        decision,
        restored: false,
    };
    binding::move_to_policy(&hub.ctx, &placement, "crp-0", &[patch])
        .await
        .unwrap();
    hub.sync();
    assert_eq!(hub.state("a"), BindingState::Bound);
    let gone = Unschedule {
        binding: binding.name_any(),
        cluster: "a".to_owned(),
        previous: BindingState::Scheduled,
    };
    binding::unschedule(&hub.ctx, &placement, &[gone]).await.unwrap();
    hub.sync();
    let binding = hub.binding("a");
    let before = binding.annotations().get("kubernetes-fleet.io/previous-binding-state");
    assert_eq!(before.map(String::as_str), Some("Bound"), "{:?}", binding.annotations());
}

#[tokio::test(start_paused = true)]
async fn a_decision_that_was_never_written_is_not_shown_for_ever() {
    let hub = available(&json!({})).await;
    let policy = hub.ctx.latest_policy(&Key::cluster("crp")).unwrap();
    let (key, generation) = (Key::of(&*policy), policy.metadata.generation.unwrap());
    let mut other = policy.status.clone().unwrap();
    other.conditions[0].status = "False".to_owned();
    hub.ctx.signals.decide(&Key::cluster("crp"), &key, generation, other);
    check(scheduler::pass(&hub.scheduler, &Key::cluster("crp")).await);
    assert!(hub.ctx.signals.decision(&key, generation).is_none());
    assert_eq!(hub.api.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_read_keeps_what_it_has() {
    let hub = available(&json!({})).await;
    let members = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
    let object = hub.api.get(members, "a").unwrap();
    let next = Hub::start(hub.api.clone()).await;
    let store = &next.ctx.shared.members;
    let key = Key::cluster("a");
    store.deleted(&key, object["metadata"]["uid"].as_str());
    store.feed(Event::AppliedOdd(Odd {
        key,
        uid: Some("another".to_owned()),
        version: 1_000_000,
        error: "no".to_owned(),
    }));
    for _ in 0..3 {
        check(scheduler::pass(&next.scheduler, &Key::cluster("crp")).await);
        check(rollout::pass(&next.rollout, &Key::cluster("crp")).await);
        check(work::pass(&next.work, &Key::of(&*next.binding("a"))).await);
    }
    let writes = next.api.writes();
    assert!(
        !writes.iter().any(|w| w.contains("bindings") || w.contains("works")),
        "{writes:?}"
    );
    assert_eq!(next.state("a"), BindingState::Bound);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_for_a_cluster_that_is_gone() {
    let hub = available(&json!({})).await;
    let (binding, key) = (hub.binding("a"), Key::cluster("a"));
    let uid = hub.ctx.shared.members.get(&key).and_then(|member| member.uid());
    hub.ctx.shared.members.deleted(&key, uid.as_deref());
    for work in hub.ctx.shared.works.by_binding.get(&Key::of(&*binding)) {
        hub.ctx
            .shared
            .works
            .store
            .deleted(&Key::of(&*work), work.uid().as_deref());
    }
    check(work::pass(&hub.work, &Key::of(&*binding)).await);
    assert_eq!(hub.api.writes(), Vec::<String>::new());
}

/// A snapshot of an override that sets the ConfigMap's value.
fn override_snapshot(uid: &str, version: u64, value: &str) -> ResourceOverrideSnapshot {
    let rule = json!({
        "clusterSelector": { "clusterSelectorTerms": [] },
        "jsonPatchOverrides": [{ "op": "replace", "path": "/data/key", "value": value }],
    });
    let selector = json!({ "group": "", "version": "v1", "kind": "ConfigMap", "name": "settings" });
    let object = json!({
        "metadata": {
            "name": "x-0", "namespace": "app", "uid": uid, "resourceVersion": version.to_string(),
            "labels": { labels::PARENT_OVERRIDE: "x", labels::OVERRIDE_INDEX: "0", labels::IS_LATEST_SNAPSHOT: "true" },
        },
        "spec": {
            "overrideHash": "",
            "overrideSpec": { "resourceSelectors": [selector], "policy": { "overrideRules": [rule] } },
        },
    });
    serde_json::from_str(&object.to_string()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn another_override_of_the_same_name_is_rendered_anew() {
    let hub = available(&json!({})).await;
    let (snapshots, binding) = (&hub.ctx.shared.overrides.namespaced_snapshots, hub.binding("a"));
    let named = json!([{ "name": "x-0", "namespace": "app" }]);
    let mut texts = Vec::new();
    for (n, value) in [(1, "first"), (2, "second")] {
        let made = override_snapshot(&format!("uid-{n}"), 1_000_000 + n, value);
        snapshots.feed(Event::Applied(made));
        hub.edit(
            &binding.name_any(),
            json!({ "spec": { "resourceOverrideSnapshots": named } }),
        );
        check(work::pass(&hub.work, &Key::of(&*binding)).await);
        // As an update run would have it.
        hub.ctx.signals.aim(&Key::cluster("crp"), Goals::External);
        check(work::pass(&hub.work, &Key::of(&*binding)).await);
        hub.sync();
        let works = hub.api.all("works").0;
        let on_a = works
            .iter()
            .find(|w| w["metadata"]["namespace"] == "fleet-member-a")
            .unwrap();
        texts.push(on_a["spec"]["workload"].to_string());
    }
    assert!(
        texts[0].contains("first") && !texts[0].contains("second"),
        "{}",
        texts[0]
    );
    assert!(
        texts[1].contains("second") && !texts[1].contains("first"),
        "{}",
        texts[1]
    );
}

#[tokio::test(start_paused = true)]
async fn snapshots_of_an_override_that_is_going_count_no_more() {
    let hub = available(&json!({})).await;
    let stores = &hub.ctx.shared.overrides;
    stores
        .namespaced_snapshots
        .feed(Event::Applied(override_snapshot("u", 1_000_000, "x")));
    let name = crate::pipeline::key_of(&Key::cluster("crp")).unwrap();
    let text = fleet_api::raw::RawJson::from(json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings", "namespace": "app" },
    }));
    let labels = std::collections::BTreeMap::new();
    let cluster = LabelledCluster {
        name: "a",
        labels: &labels,
    };
    let count = || {
        let scoped = |_: &ObjectId| Some(false);
        let lists = overrides::lists(stores, &name, [&text], &scoped, &[cluster]);
        lists[0].as_ref().unwrap().namespaced.len()
    };
    assert_eq!(count(), 0, "its override is gone");
    let made = |deleting: bool, version: u64| {
        let mut object = json!({
            "metadata": { "name": "x", "namespace": "app", "uid": "x", "resourceVersion": version.to_string(),
                          "finalizers": ["a/b"] },
            "spec": { "resourceSelectors": [], "policy": { "overrideRules": [] } },
        });
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        Event::Applied(serde_json::from_value(object).unwrap())
    };
    stores.namespaced.feed(made(false, 1_000_001));
    assert_eq!(count(), 1);
    stores.namespaced.feed(made(true, 1_000_002));
    assert_eq!(count(), 0, "its override is going");
}

#[tokio::test(start_paused = true)]
async fn what_was_abandoned_stays_although_the_placement_was_made_again() {
    let abandon =
        json!({ "strategy": { "type": "RollingUpdate", "deleteStrategy": { "propagationPolicy": "Abandon" } } });
    let hub = available(&abandon).await;
    let binding = hub.binding("a");
    let deleting = json!({ "metadata": { "name": binding.name_any(), "deletionTimestamp": "2026-01-01T00:01:00Z" } });
    hub.api.put("clusterresourcebindings", deleting);
    let again = json!({ "metadata": { "name": "crp", "uid": "another", "creationTimestamp": "2026-01-01T00:02:00Z" } });
    hub.api.put("clusterresourceplacements", again);
    hub.sync();
    hub.api.writes();
    check(work::pass(&hub.work, &Key::of(&*binding)).await);
    let writes = hub.api.writes();
    assert!(writes.contains(&"DELETE works".to_owned()), "{writes:?}");
    assert!(
        !writes.contains(&"PATCH works".to_owned()),
        "its members would delete: {writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_name_too_long_for_a_label_gets_nothing_and_can_be_deleted() {
    let hub = Hub::new(&json!({})).await;
    let name = "n".repeat(64);
    let spec = json!({ "resourceSelectors": [], "statusReportingScope": "NamespaceAccessible" });
    let object = json!({ "metadata": { "name": name }, "spec": spec });
    hub.api.put("clusterresourceplacements", object);
    hub.sync();
    hub.api.writes();
    let key = Key::cluster(name.as_str());
    assert!(matches!(selection::pass(&hub.selection, &key).await, Err(Error::Held(why)) if why.contains("63")));
    assert_eq!(hub.api.writes(), Vec::<String>::new());
    // With finalizers of another version.
    let held = json!({ "metadata": { "name": name, "finalizers": ["kubernetes-fleet.io/crp-cleanup"],
                                     "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    hub.api.put("clusterresourceplacements", held);
    hub.sync();
    hub.api.writes();
    check(scheduler::pass(&hub.scheduler, &key).await);
    assert_eq!(hub.api.writes(), ["PATCH clusterresourceplacements"]);
}

#[tokio::test(start_paused = true)]
async fn what_the_webhook_would_have_refused_of_a_placement_is_told_once() {
    let twice = json!([{ "key": "a" }, { "key": "a" }]);
    let hub = Hub::new(&json!({ "policy": { "placementType": "PickAll", "tolerations": twice } })).await;
    hub.settle().await;
    let told = |hub: &Hub| hub.selection.memory.wrong.last(&Key::cluster("crp"));
    let why = "the placement policy field is invalid: toleration {Key:a Operator:Equal Value: Effect:} already exists, \
               tolerations must be unique";
    let event = PlacementEvent::Invalid { why: why.to_owned() };
    assert_eq!(told(&hub), Some((1, event)));
    // Another agent sees that it has been looked at.
    let hub = Hub::start(hub.api).await;
    hub.settle().await;
    assert_eq!(told(&hub), None);
    // Until it changes.
    let surge = json!({ "type": "RollingUpdate", "rollingUpdate": { "maxSurge": "5" } });
    hub.api.put(
        "clusterresourceplacements",
        json!({ "metadata": { "name": "crp" }, "spec": { "strategy": surge } }),
    );
    hub.sync();
    hub.settle().await;
    let Some((2, PlacementEvent::Invalid { why })) = told(&hub) else {
        panic!("{:?}", told(&hub));
    };
    assert!(why.contains("maxSurge `5` is invalid"), "{why}");
}
