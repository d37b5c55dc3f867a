//! The status of users' objects, as their only cluster reports it.

use super::*;

const CONTROLLERS: &str = "/api/v1/namespaces/app/replicationcontrollers";
const SERVICES: &str = "/api/v1/namespaces/app/services";

fn mirrored(policy: &Value) -> Value {
    let report_back = json!({ "type": "Mirror", "destination": "OriginalResource" });
    json!({ "policy": policy, "strategy": { "type": "RollingUpdate", "reportBackStrategy": report_back } })
}

fn one_cluster() -> Value {
    mirrored(&json!({ "placementType": "PickFixed", "clusterNames": ["a"] }))
}

fn object(kind: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": kind, "metadata": { "name": name }, "spec": {} })
}

impl Hub {
    /// A hub whose placement has been applied where it goes, with a ReplicationController, a Service and a PodTemplate.
    async fn reporting(spec: &Value) -> Self {
        let hub = Self::new(spec).await;
        hub.api.put(CONTROLLERS, object("ReplicationController", "web"));
        hub.api.put(SERVICES, object("Service", "front"));
        hub.api
            .put("/api/v1/namespaces/app/podtemplates", object("PodTemplate", "odd"));
        hub.settle().await;
        hub.api.writes();
        hub
    }

    /// Every cluster says that it has applied its Work, and that the object's status is this.
    fn say(&self, kind: &str, name: &str, status: &Value) {
        self.report();
        for work in self.api.all("works").0 {
            let said = json!([{
                "identifier": { "ordinal": 0, "version": "v1", "kind": kind, "namespace": "app", "name": name },
                "conditions": [],
                "backReportedStatus": {
                    "observedStatus": { "apiVersion": "v1", "kind": kind, "status": status },
                    "observationTime": "2026-01-01T00:00:00Z",
                },
            }]);
            let namespace = work["metadata"]["namespace"].as_str().unwrap();
            let mut full = work["status"].clone();
            full["manifestConditions"] = said;
            let status = json!({ "metadata": { "name": work["metadata"]["name"] }, "status": full });
            self.api.put(&format!("namespaces/{namespace}/works"), status);
        }
        self.sync();
    }

    fn shown(&self) -> Value {
        self.api.get(CONTROLLERS, "web").unwrap()["status"].clone()
    }

    fn complaint(&self) -> String {
        let told = self.report.memory.told.last(&Key::cluster("crp"));
        told.as_ref().map(fleet_api::events::Event::message).unwrap_or_default()
    }
}

fn count(ready: &str) -> Value {
    json!({ "readyReplicas": ready })
}

#[tokio::test(start_paused = true)]
async fn the_original_follows_its_only_cluster_at_one_write_for_each_news() {
    let hub = Hub::reporting(&one_cluster()).await;
    hub.say("ReplicationController", "web", &count("1.2.3.4"));
    hub.settle().await;
    assert_eq!(hub.shown(), count("1.2.3.4"));
    hub.api.writes();
    let (reads, key) = (hub.api.reads(), Key::cluster("crp"));
    check(reporting::pass(&hub.report, &key).await);
    assert_eq!(hub.api.writes(), Vec::<String>::new());
    assert_eq!(hub.api.reads(), reads, "without news nothing is asked");
    hub.say("ReplicationController", "web", &json!({ "replicas": 0 }));
    check(reporting::pass(&hub.report, &key).await);
    assert_eq!(hub.shown(), json!({ "replicas": 0 }), "what is gone there goes here");
    assert_eq!(hub.api.writes(), ["PATCH replicationcontrollers/status"]);
    assert_eq!(hub.complaint(), "");

    let next = Hub::start(hub.api.clone()).await;
    next.settle().await;
    assert_eq!(
        next.api.writes(),
        Vec::<String>::new(),
        "after a restart it is compared, not written"
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_not_applied_or_not_asked_for_stays_where_it_is() {
    let hub = Hub::reporting(&one_cluster()).await;
    hub.say("ReplicationController", "other", &count("1.2.3.4"));
    hub.settle().await;
    assert_eq!(hub.shown(), json!(null), "it is not selected");

    let to_work = json!({ "strategy": { "type": "RollingUpdate",
        "reportBackStrategy": { "type": "Mirror", "destination": "WorkAPI" } } });
    for spec in [json!({}), to_work] {
        let hub = Hub::reporting(&spec).await;
        hub.say("ReplicationController", "web", &count("1.2.3.4"));
        hub.settle().await;
        assert_eq!((hub.shown(), hub.complaint()), (json!(null), String::new()), "{spec}");
    }
}

#[tokio::test(start_paused = true)]
async fn several_clusters_report_nothing_and_the_user_is_told() {
    let hub = Hub::reporting(&mirrored(&json!({ "placementType": "PickN", "numberOfClusters": 2 }))).await;
    hub.say("ReplicationController", "web", &count("1.2.3.4"));
    hub.settle().await;
    assert_eq!(hub.shown(), json!(null));
    assert_eq!(
        hub.complaint(),
        "the scheduling policy in use is of the PickN type, but the number of target clusters is not set to 1; cannot \
         back-report status to original resources; use PickFixed with one cluster, PickN with numberOfClusters 1, or the \
         destination WorkAPI"
    );
    let one = json!({ "metadata": { "name": "crp" }, "spec": { "policy": { "numberOfClusters": 1 } } });
    hub.api.put("clusterresourceplacements", one);
    hub.sync();
    hub.settle().await;
    hub.say("ReplicationController", "web", &count("1.2.3.4"));
    hub.settle().await;
    assert_eq!((hub.shown(), hub.complaint()), (count("1.2.3.4"), String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_missing_right_is_named_and_used_once_it_is_given() {
    let hub = Hub::reporting(&one_cluster()).await;
    hub.api.set_forbidden(Some("replicationcontrollers/status"));
    hub.say("ReplicationController", "web", &count("1.2.3.4"));
    let refused = reporting::pass(&hub.report, &Key::cluster("crp")).await;
    assert!(matches!(refused, Err(Error::NotYet(_))), "it is tried again");
    assert_eq!(
        hub.complaint(),
        "Cannot report status back to ReplicationController \"web\" in namespace \"app\": the hub agent may not: you cannot PATCH \
         replicationcontrollers/status; install its chart with reportBack.originalResource=true, or grant \"patch\" on replicationcontrollers/status"
    );
    hub.api.set_forbidden(None);
    hub.settle().await;
    assert_eq!((hub.shown(), hub.complaint()), (count("1.2.3.4"), String::new()));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_others_trust_is_not_written_and_that_is_said() {
    let hub = Hub::reporting(&one_cluster()).await;
    hub.say(
        "Service",
        "front",
        &json!({ "loadBalancer": { "ingress": [{ "ip": "1.2.3.4" }] } }),
    );
    let reads = hub.api.reads();
    check(reporting::pass(&hub.report, &Key::cluster("crp")).await);
    assert_eq!((hub.api.writes(), hub.api.reads()), (vec![], reads));
    assert_eq!(hub.api.get(SERVICES, "front").unwrap()["status"], json!(null));
    assert_eq!(
        hub.complaint(),
        "Cannot report status back to Service \"front\" in namespace \"app\": others on the hub trust the status of this \
         kind, so it is never written; use the destination WorkAPI"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_without_status_subresource_costs_nothing_and_is_named() {
    let hub = Hub::reporting(&one_cluster()).await;
    hub.say("PodTemplate", "odd", &json!({ "phase": "Fine" }));
    let reads = hub.api.reads();
    check(reporting::pass(&hub.report, &Key::cluster("crp")).await);
    assert_eq!((hub.api.writes(), hub.api.reads()), (vec![], reads));
    assert_eq!(
        hub.complaint(),
        "Cannot report status back to PodTemplate \"odd\" in namespace \"app\": its kind has no status subresource on the \
         hub; add one to its CustomResourceDefinition, or use the destination WorkAPI"
    );
}

#[tokio::test(start_paused = true)]
async fn who_writes_over_a_reported_status_is_named_and_not_fought() {
    let hub = Hub::reporting(&one_cluster()).await;
    hub.say("ReplicationController", "web", &count("1.2.3.4"));
    hub.settle().await;
    let fields = json!([{ "manager": "cloud", "subresource": "status", "time": "2026-01-01T00:00:00Z" }]);
    hub.api.put(
        CONTROLLERS,
        json!({ "metadata": { "name": "web", "managedFields": fields }, "status": count("9.9.9.9") }),
    );
    hub.api.writes();
    let key = Key::cluster("crp");
    check(reporting::pass(&hub.report, &key).await);
    assert_eq!((hub.shown(), hub.api.writes()), (count("9.9.9.9"), vec![]));
    hub.say("ReplicationController", "web", &count("5.6.7.8"));
    check(reporting::pass(&hub.report, &key).await);
    assert_eq!(hub.shown(), count("5.6.7.8"), "the member's next word counts");
    assert_eq!(
        hub.complaint(),
        "cloud also writes the status of ReplicationController \"web\" in namespace \"app\" on the hub; let only one of the two do so"
    );
}
