//! The life of a member on the hub, look by look, over an API server in memory: joining, a clock that steps, leaving, forced
//! deletion, and the ClusterProfile that follows.

use std::sync::Arc;

use fleet_api::{annotations, names::field_managers};
use fleet_core::membership::heartbeat::Grace;
use fleet_runtime::{
    Key,
    cache::{Era, Store},
    clock::Clock,
    events::Recorder,
    health::Health,
    metrics::Metrics,
    shutdown::Tasks,
    writes::Writes,
};
use fleet_testkit::Server;
use jiff::{SignedDuration, Timestamp};
use kube::Resource;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{
    cache::{Caches, works::Works},
    inventory, membership,
    writer::Writer,
};

const MEMBER: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/east";
const INTERNAL: &str =
    "/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-east/internalmemberclusters/east";
const NAMESPACE: &str = "/api/v1/namespaces/fleet-member-east";
const PROFILE: &str = "/apis/multicluster.x-k8s.io/v1alpha1/namespaces/fleet-system/clusterprofiles/east";

const THRESHOLD: SignedDuration = SignedDuration::from_secs(60);
const FORCE_AFTER: SignedDuration = SignedDuration::from_mins(15);

/// A hub with the MemberCluster `east`.
struct Hub {
    server: Server,
    clock: Clock,
    membership: membership::Membership,
    inventory: inventory::ClusterInventory,
    _tasks: Tasks,
}

impl Hub {
    async fn new() -> Self {
        let (server, began) = (Server::new(), Timestamp::from_second(1_800_000_000).unwrap());
        server.set_time(began);
        let identity = json!({ "kind": "User", "name": "east", "apiGroup": "rbac.authorization.k8s.io" });
        server.put(
            MEMBER,
            json!({ "spec": { "identity": identity, "heartbeatPeriodSeconds": 15 } }),
        );
        let (client, metrics) = (server.client(), Metrics::new());
        let clock = Clock::manual(began + SignedDuration::from_mins(10));
        let mut tasks = Tasks::new(CancellationToken::new());
        let caches = Caches::start(&client, &Era::default(), Some("fleet-system"), &mut tasks);
        caches.synced(&Health::default()).await;
        let works = Works::default();
        let writes = Writes::new("hub", &metrics);
        let (events, _) = Recorder::new(client.clone(), writes.clone(), clock.clone(), "hub", &metrics);
        let as_manager = |manager| Writer::new(client.clone(), writes.clone(), manager);
        let inventory = inventory::ClusterInventory {
            members: caches.members.clone(),
            profiles: caches.profiles.clone().unwrap(),
            namespace: "fleet-system".to_owned(),
            writer: as_manager(inventory::FIELD_MANAGER),
            clock: clock.clone(),
            threshold: THRESHOLD,
            grace: Grace::NONE,
        };
        let membership = membership::Membership {
            writer: as_manager(field_managers::MEMBER_CLUSTER),
            client,
            caches,
            works,
            events,
            clock: clock.clone(),
            settings: membership::MembershipSettings {
                networking: false,
                profiles_in: Some("fleet-system".to_owned()),
                force_delete_wait: FORCE_AFTER,
                unhealthy_threshold: THRESHOLD,
                grace: Grace::NONE,
                endpoint: None,
                ca: watch::channel(None).1,
            },
            results: membership::Results::default(),
            seen: Arc::default(),
        };
        Self {
            server,
            clock,
            membership,
            inventory,
            _tasks: tasks,
        }
    }

    /// Looks until nothing is written any more.
    async fn settle(&self) {
        let key = Key::cluster("east");
        for _ in 0..20 {
            self.shown().await;
            let before = self.server.version();
            membership::pass(self.membership.clone(), key.clone()).await.unwrap();
            inventory::pass(self.inventory.clone(), key.clone()).await.unwrap();
            if self.server.version() == before {
                return;
            }
        }
        panic!("it goes on for ever: {:?}", self.server.writes());
    }

    /// Waits until the stores have everything that is there.
    async fn shown(&self) {
        let caches = &self.membership.caches;
        self.reached(&caches.members).await;
        self.reached(&caches.internals).await;
        self.reached(&caches.namespaces).await;
        self.reached(&caches.roles).await;
        self.reached(&caches.role_bindings).await;
        self.reached(&self.inventory.profiles).await;
    }

    async fn reached<K: Resource + Send + Sync + 'static>(&self, store: &Store<K>) {
        let version = self.server.version();
        while store.progress() < version {
            // A watch that has just begun has missed the last one.
            self.server.bookmark();
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }

    /// The member says this about itself, now.
    fn report(&self, joined: &str) {
        self.server.edit(INTERNAL, |imc| {
            let generation = &imc["metadata"]["generation"];
            let condition = |type_name: &str, status: &str| {
                json!({ "type": type_name, "status": status, "reason": "R", "message": "",
                        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z" })
            };
            let conditions = [condition("Joined", joined), condition("Healthy", "True")];
            let beat = self.clock.now_secs().to_string();
            let agent = json!({ "type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": beat });
            imc["status"] = json!({ "agentStatus": [agent] });
        });
    }

    async fn joined() -> Self {
        let hub = Self::new().await;
        hub.settle().await;
        hub.report("True");
        hub.settle().await;
        hub
    }

    async fn asked_to_leave() -> Self {
        let hub = Self::joined().await;
        hub.server.delete(MEMBER);
        hub.settle().await;
        assert_eq!(hub.get(INTERNAL)["spec"]["state"], "Leave");
        hub
    }

    fn get(&self, path: &str) -> Value {
        self.server.get(path).unwrap_or_default()
    }

    /// A condition of the MemberCluster or of its profile.
    fn says(&self, path: &str, type_name: &str) -> String {
        let conditions = self.get(path)["status"]["conditions"].clone();
        let conditions = conditions.as_array().cloned().unwrap_or_default();
        let said = conditions.iter().find(|condition| condition["type"] == type_name);
        let text = said.and_then(|said| said["status"].as_str());
        text.unwrap_or_default().to_owned()
    }

    fn says_all(&self) -> [String; 3] {
        [
            self.says(MEMBER, "Joined"),
            self.says(MEMBER, "Healthy"),
            self.says(PROFILE, "ControlPlaneHealthy"),
        ]
    }

    fn pass_time(&self, time: SignedDuration) {
        self.clock.set(self.clock.now() + time);
    }
}

#[tokio::test]
async fn a_cluster_joins_and_its_profile_follows() {
    let hub = Hub::new().await;
    hub.settle().await;
    assert_eq!(hub.get(INTERNAL)["spec"]["state"], "Join");
    assert_eq!(hub.server.all("roles").len(), 1);
    assert_eq!(hub.server.all("rolebindings").len(), 1);
    assert_ne!(hub.says(MEMBER, "Joined"), "True");
    assert_eq!(hub.get(PROFILE), Value::Null, "it has not joined");

    hub.report("True");
    hub.settle().await;
    assert_eq!(hub.says_all(), ["True", "True", "True"]);
    assert_eq!(hub.get(PROFILE)["spec"]["displayName"], "east");

    // What somebody takes away is made again.
    hub.server.delete(PROFILE);
    hub.settle().await;
    assert_eq!(hub.says_all(), ["True", "True", "True"]);
}

#[tokio::test]
async fn a_clock_that_steps_makes_nobody_silent() {
    let hub = Hub::joined().await;
    let hours = SignedDuration::from_hours(2);
    for by in [hours, -hours, -hours, hours] {
        hub.clock.step(by);
        hub.settle().await;
        assert_eq!(hub.says_all(), ["True", "True", "True"], "{by:?}");
    }
    hub.pass_time(THRESHOLD + SignedDuration::from_secs(1));
    hub.settle().await;
    let [joined, healthy, profile] = hub.says_all();
    assert_eq!(joined, "True");
    assert_ne!(healthy, "True", "time that passes does");
    assert_ne!(profile, "True");
    hub.report("True");
    hub.settle().await;
    assert_eq!(hub.says_all(), ["True", "True", "True"]);
}

#[tokio::test]
async fn a_member_that_leaves_takes_all_of_its_own_with_it() {
    let hub = Hub::asked_to_leave().await;
    assert_eq!(hub.get(PROFILE), Value::Null, "nobody may choose it any more");
    assert!(hub.server.get(NAMESPACE).is_some(), "it has not answered");
    hub.report("False");
    hub.settle().await;
    assert_eq!(hub.get(NAMESPACE), Value::Null);
    assert_eq!(hub.get(MEMBER), Value::Null);
}

#[tokio::test]
async fn a_silent_member_is_removed_when_its_time_is_up_and_no_clock_shortens_it() {
    let hub = Hub::asked_to_leave().await;
    let hours = SignedDuration::from_hours(2);
    hub.clock.step(hours);
    hub.settle().await;
    assert!(hub.server.get(NAMESPACE).is_some(), "no time has passed");
    hub.clock.step(-hours);
    hub.pass_time(FORCE_AFTER - SignedDuration::from_secs(1));
    hub.settle().await;
    assert!(hub.server.get(NAMESPACE).is_some(), "it has a second left");
    hub.pass_time(SignedDuration::from_secs(2));
    hub.settle().await;
    assert_eq!(hub.get(NAMESPACE), Value::Null);
    assert_eq!(hub.get(MEMBER), Value::Null);
}

#[tokio::test]
async fn what_was_deleted_before_the_hub_went_back_in_time_is_cleaned_up_after_somebodys_word() {
    let hub = Hub::asked_to_leave().await;
    let asked: Timestamp = hub.get(MEMBER)["metadata"]["deletionTimestamp"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let mark = |annotation: &str, at: Timestamp| {
        hub.server.edit(INTERNAL, |imc| {
            imc["metadata"]["annotations"][annotation] = json!(at.to_string());
        });
    };
    let second = SignedDuration::from_secs(1);
    mark(annotations::WENT_BACK_AT, asked + second);
    hub.report("False");
    hub.settle().await;
    assert!(
        hub.server.get(NAMESPACE).is_some(),
        "it has left, and the hub may have forgotten what was placed since"
    );
    hub.pass_time(FORCE_AFTER + second);
    hub.settle().await;
    assert!(hub.server.get(NAMESPACE).is_some(), "nor is it forced");
    mark(annotations::RECOVERED_AT, asked + second + second);
    hub.settle().await;
    assert_eq!(hub.get(MEMBER), Value::Null);
}

#[tokio::test]
async fn a_member_that_says_the_hub_went_back_in_time_can_be_taken_out() {
    let hub = Hub::joined().await;
    // As a Hello that names a newer Work leaves it.
    let at = hub.clock.now() - SignedDuration::from_hours(1);
    hub.server.edit(INTERNAL, |imc| {
        imc["metadata"]["annotations"][annotations::WENT_BACK_AT] = json!(at.to_string());
    });
    hub.server.delete(MEMBER);
    hub.settle().await;
    hub.pass_time(FORCE_AFTER + SignedDuration::from_secs(1));
    hub.settle().await;
    assert_eq!(hub.get(NAMESPACE), Value::Null);
    assert_eq!(hub.get(MEMBER), Value::Null);
}
