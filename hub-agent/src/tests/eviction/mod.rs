//! Evictions against an API server in memory: which requests they cost, and what must not happen when watches lag, answers
//! are lost and agents are killed.

mod budgets;
mod faults;
mod waiting;

use std::sync::Arc;

use fleet_api::{
    annotations,
    cluster::InternalMemberCluster,
    placement::{ClusterResourceBinding, ClusterResourcePlacement, EvictionStatus},
};
use fleet_runtime::{
    Key,
    cache::{Era, Event, Store},
    clock::Clock,
    health::Health,
    metrics::Metrics,
    queue::Next,
    shutdown::Tasks,
    writes::{Lane, Target, Writes},
};
use fleet_testkit::Server;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::pipeline::shared;
use crate::{
    cache::{
        evictions::EvictionStores,
        family::{Placements, RunKinds},
    },
    eviction::{self, Evictions, Measures},
    pipeline::{Error, Pipeline, decide_anew},
    writer::Writer,
};

const GROUP: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const NO_BUDGET: &str = "Eviction is allowed, no ClusterResourcePlacementDisruptionBudget specified";

/// The placement `crp` on clusters `a`, `b` and `c`, everywhere available.
fn hub() -> Server {
    let server = Server::new();
    server.set_time(Clock::system().now_secs());
    let policy = json!({ "placementType": "PickN", "numberOfClusters": 3 });
    let selector = json!([{ "group": "", "version": "v1", "kind": "Namespace", "name": "app" }]);
    server.put(
        &path("clusterresourceplacements", "crp"),
        json!({ "spec": { "resourceSelectors": selector, "policy": policy } }),
    );
    for cluster in ["a", "b", "c"] {
        bind(&server, cluster, "True");
    }
    server
}

fn path(plural: &str, name: &str) -> String {
    format!("{GROUP}/{plural}/{name}")
}

fn binding(cluster: &str) -> String {
    path("clusterresourcebindings", &format!("crp-{cluster}"))
}

/// A binding that is Bound, and available or not yet.
fn bind(server: &Server, cluster: &str, available: &str) {
    let now = Clock::system().now_secs().to_string();
    let said = json!({ "type": "Available", "status": available, "reason": "R", "message": "", "observedGeneration": 1,
                       "lastTransitionTime": now });
    server.put(
        &binding(cluster),
        json!({
            "metadata": { "labels": { "kubernetes-fleet.io/parent-CRP": "crp" }, "generation": 1,
                          "finalizers": ["kubernetes-fleet.io/work-cleanup"] },
            "spec": { "state": "Bound", "resourceSnapshotName": "crp-0-snapshot", "targetCluster": cluster,
                      "schedulingPolicySnapshotName": "crp-0",
                      "clusterDecision": { "clusterName": cluster, "selected": true, "reason": "" } },
            "status": { "conditions": [said] },
        }),
    );
}

/// Asks for an eviction of `crp` from a cluster, under the cluster's name.
fn ask(server: &Server, cluster: &str) {
    ask_with(server, cluster, &json!({}));
}

fn ask_with(server: &Server, cluster: &str, annotations: &Value) {
    let spec = json!({ "placementName": "crp", "clusterName": cluster });
    let metadata = json!({ "annotations": annotations });
    server.put(
        &path("clusterresourceplacementevictions", cluster),
        json!({ "metadata": metadata, "spec": spec }),
    );
}

#[expect(clippy::needless_pass_by_value, reason = "called with a literal")]
fn limit(server: &Server, spec: Value) {
    server.put(
        &path("clusterresourceplacementdisruptionbudgets", "crp"),
        json!({ "spec": spec }),
    );
}

fn status(server: &Server, eviction: &str) -> EvictionStatus {
    let stored = server
        .get(&path("clusterresourceplacementevictions", eviction))
        .unwrap();
    serde_json::from_value(stored["status"].clone()).unwrap_or_default()
}

/// `Type=Status: message` of each condition.
fn says(server: &Server, eviction: &str) -> Vec<String> {
    let list = status(server, eviction).conditions;
    list.iter()
        .map(|c| format!("{}={}: {}", c.type_, c.status, c.message))
        .collect()
}

fn is_executed(server: &Server, eviction: &str) -> bool {
    says(server, eviction)
        .iter()
        .any(|said| said.starts_with("Executed=True"))
}

fn is_going(server: &Server, cluster: &str) -> bool {
    let found = server.get(&binding(cluster));
    found.is_none_or(|binding| binding["metadata"]["deletionTimestamp"].is_string())
}

/// An agent that leads, and knows nothing but what the API server has.
struct Agent {
    evictions: Arc<Evictions>,
    stores: EvictionStores,
    placements: Store<ClusterResourcePlacement>,
    bindings: Store<ClusterResourceBinding>,
    internals: Store<InternalMemberCluster>,
    writes: Writes,
    metrics: Metrics,
    stop: CancellationToken,
    tasks: Tasks,
}

impl Agent {
    async fn start(server: &Server) -> Self {
        Self::with_ttl(server, SignedDuration::ZERO).await
    }

    async fn with_ttl(server: &Server, ttl: SignedDuration) -> Self {
        let (client, metrics) = (server.client(), Metrics::new());
        let (stop, era) = (CancellationToken::new(), Era::default());
        let mut tasks = Tasks::new(CancellationToken::new());
        let placements = Placements::start(&client, &era, RunKinds::both(true), &mut tasks);
        let stores = EvictionStores::start(&client, &era, true, &mut tasks);
        placements.synced(&Health::default()).await;
        stores.synced(&Health::default()).await;
        let mut shared = shared(&client, &placements, &metrics);
        let writes = Writes::new("hub", &Metrics::new());
        shared.writer = Writer::new(client.clone(), writes.clone(), "hub-agent");
        let internals = shared.internals.clone();
        let pipeline = Pipeline::new(placements.cluster.clone(), shared);
        let measures = Measures::new(&metrics, stores.evictions.clone());
        let evictions = Evictions::new(pipeline, stores.clone(), measures, ttl, stop.clone());
        Self {
            evictions: Arc::new(evictions),
            stores,
            placements: placements.cluster.placements.clone(),
            bindings: placements.cluster.bindings.clone(),
            internals,
            writes,
            metrics,
            stop,
            tasks,
        }
    }

    /// The InternalMemberCluster of a cluster has these annotations now.
    fn mark(&self, cluster: &str, annotations: &Value) {
        let version = annotations.as_object().map_or(0, serde_json::Map::len);
        let metadata = json!({ "name": cluster, "namespace": format!("fleet-member-{cluster}"), "uid": cluster,
                               "resourceVersion": version.to_string(), "annotations": annotations });
        let imc = json!({ "metadata": metadata, "spec": { "state": "Join" } });
        self.internals
            .feed(Event::Applied(serde_json::from_value(imc).unwrap()));
    }

    /// Is shown an eviction alone.
    fn see(&self, server: &Server, eviction: &str) {
        let stored = server
            .get(&path("clusterresourceplacementevictions", eviction))
            .unwrap();
        self.stores.evictions.wrote(serde_json::from_value(stored).unwrap());
    }

    async fn pass(&self, eviction: &str) -> Result<Next, Error> {
        decide_anew(eviction::pass(&self.evictions, &Key::cluster(eviction)).await)
    }

    /// Looks at the eviction of a cluster; once it is recorded, and before the turn of its deletion comes, `meanwhile` happens.
    async fn pass_but(
        &self,
        server: &Server,
        cluster: &str,
        meanwhile: impl Future<Output = ()>,
    ) -> Result<Next, Error> {
        // Somebody else writes the binding for so long.
        let (writes, (done, until)) = (self.writes.clone(), oneshot::channel::<()>());
        let target = Target::new("ClusterResourceBinding", Key::cluster(format!("crp-{cluster}")));
        let held = tokio::spawn(async move {
            let answer = async {
                _ = until.await;
                Ok(())
            };
            writes
                .write(Lane::Objects, target, &Key::cluster("other"), || Some(answer))
                .await
        });
        let meanwhile = async {
            eventually("the record", || server.written().len() == 1).await;
            meanwhile.await;
            drop(done);
        };
        let (outcome, ()) = tokio::join!(self.pass(cluster), meanwhile);
        assert!(matches!(held.await, Ok(Some(Ok(())))));
        outcome
    }

    /// Looks again and again, as a queue would, until the eviction has ended.
    async fn end(&self, server: &Server, eviction: &str) {
        for _ in 0..20 {
            _ = self.pass(eviction).await;
            let said = says(server, eviction);
            if said
                .iter()
                .any(|c| c.starts_with("Executed=") || c.starts_with("Valid=False"))
            {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
        }
        panic!("it does not end: {:?}", says(server, eviction));
    }

    /// Runs by itself from here on.
    fn run(&mut self) {
        let measures = fleet_runtime::controller::Measures::new(&self.metrics);
        let run = eviction::run(self.evictions.clone(), measures);
        self.tasks.spawn_forever("evictions", run);
    }
}

async fn eventually(what: &str, check: impl Fn() -> bool) {
    for _ in 0..1000 {
        if check() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("it does not come to this: {what}");
}

#[tokio::test(start_paused = true)]
async fn a_hub_that_went_back_in_time_evicts_nobody_until_it_has_recovered() {
    let server = hub();
    let agent = Agent::start(&server).await;
    let went_back = (annotations::WENT_BACK_AT, "2026-01-02T00:00:00Z");
    agent.mark("a", &json!({ went_back.0: went_back.1 }));
    for cluster in ["a", "b"] {
        ask(&server, cluster);
    }
    eventually("the evictions", || agent.stores.evictions.len() == 2).await;
    agent.end(&server, "b").await;
    assert!(is_going(&server, "b"), "that member is not marked");
    for _ in 0..3 {
        agent.pass("a").await.unwrap();
    }
    assert!(!is_going(&server, "a") && !is_executed(&server, "a"));
    agent.mark(
        "a",
        &json!({ went_back.0: went_back.1, annotations::RECOVERED_AT: "2026-01-02T00:00:01Z" }),
    );
    agent.end(&server, "a").await;
    assert!(is_going(&server, "a"));
}
