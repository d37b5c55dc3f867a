//! The pipeline in one process, pass by pass, against an API server in memory: which requests each event costs, and what
//! must not happen when passes overlap.

mod api;
mod clocks;
mod destroyed;
mod envelopes;
mod meanwhile;
mod overrides;
mod report_back;
mod reports;
mod updates;
mod windows;

use fleet_api::{
    conditions,
    placement::{ClusterResourceBinding, ClusterScoped},
};
use fleet_core::{
    selection::{Rules, apis::Apis},
    snapshot::delay::Flags,
};
use fleet_runtime::{
    Key,
    cache::{Era, Event, Store},
    clock::Clock,
    events::{Recorder, Sender},
    health::Health,
    metrics::Metrics,
    queue::Next,
    shutdown::Tasks,
    writes::Writes,
};
use jiff::SignedDuration;
use kube::Resource;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use self::api::FakeApi;
use crate::{
    cache::{
        family::{Placements, RunKinds},
        user::UserResources,
        works::Works,
    },
    pipeline::{Door, Error, Pipeline, PipelineSettings, Shared, decide_anew, signals::Goals, steps},
    rollout::{self, Rollout, RolloutMemory},
    scheduler::{self, Scheduler, SchedulerMemory},
    selection::{self, Selection, SelectionMemory},
    status::{
        binding::{self as binding_rollup, BindingRollup},
        placement::{self as rollup, PlacementRollup, RollupMemory},
        report_back::{self as reporting, BackReporter, ReportMemory},
    },
    updaterun::{self, RunMemory, UpdateRuns},
    work::{self, WorkGenerator, WorkMemory},
    writer::Writer,
};

const CLUSTERS: [&str; 3] = ["a", "b", "c"];

/// A hub with three members, the namespace `app` with a ConfigMap, and the placement `crp` of it.
struct Hub {
    api: FakeApi,
    placements: Placements,
    ctx: Pipeline<ClusterScoped>,
    selection: Selection<ClusterScoped>,
    scheduler: Scheduler<ClusterScoped>,
    rollout: Rollout<ClusterScoped>,
    work: WorkGenerator<ClusterScoped>,
    bindings: BindingRollup<ClusterScoped>,
    rollup: PlacementRollup<ClusterScoped>,
    report: BackReporter<ClusterScoped>,
    updates: UpdateRuns<ClusterScoped>,
    /// Sends Events, once a test has it do so.
    sender: Mutex<Option<Box<Sender>>>,
    _tasks: Tasks,
}

impl Hub {
    async fn new(spec: &Value) -> Self {
        Self::new_at(spec, Clock::system()).await
    }

    /// The same, and what time it is there.
    async fn new_at(spec: &Value, clock: Clock) -> Self {
        let api = FakeApi::default();
        let app = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "app" } });
        api.put("/api/v1/namespaces", app);
        api.put("/api/v1/namespaces/app/configmaps", config_map("one"));
        for cluster in CLUSTERS {
            let healthy = json!([condition("Joined", "True", 1), condition("Healthy", "True", 1)]);
            let beat = json!([{ "type": "MemberAgent", "conditions": healthy,
                                "lastReceivedHeartbeat": Clock::system().now().to_string() }]);
            api.put(
                "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters",
                json!({
                    "metadata": { "name": cluster },
                    "spec": { "identity": { "kind": "User", "name": cluster, "apiGroup": "" } },
                    "status": { "agentStatus": beat, "conditions": healthy },
                }),
            );
        }
        let mut placement = json!({ "metadata": { "name": "crp" }, "spec": {
            "resourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": "app" }],
            "policy": { "placementType": "PickAll" },
        } });
        merge(&mut placement["spec"], spec);
        api.put("clusterresourceplacements", placement);
        Self::start_at(api, clock).await
    }

    /// An agent that knows nothing but what the API server has.
    async fn start(api: FakeApi) -> Self {
        Self::start_at(api, Clock::system()).await
    }

    async fn start_at(api: FakeApi, clock: Clock) -> Self {
        let (client, metrics) = (api.client(), Metrics::new());
        let mut tasks = Tasks::new(CancellationToken::new());
        let placements = Placements::start(&client, &Era::default(), RunKinds::both(true), &mut tasks);
        placements.synced(&Health::default()).await;
        let writes = Writes::new("hub", &Metrics::new());
        let (events, sender) = Recorder::new(client.clone(), writes, clock.clone(), "hub", &Metrics::new());
        let shared = Shared {
            events,
            clock,
            ..shared(&client, &placements, &metrics)
        };
        let ctx = Pipeline::new(placements.cluster.clone(), shared);
        let runs = updaterun::Measures::new(&metrics);
        let (scope, cycles) = (Pipeline::<ClusterScoped>::scope(), scheduler::Measures::new(&metrics));
        let hub = Self {
            api,
            placements,
            selection: ctx.stage(Door::Selection, SelectionMemory::new(scope)),
            scheduler: ctx.stage(Door::Scheduler, SchedulerMemory::new(cycles)),
            rollout: ctx.stage(Door::Rollout, RolloutMemory::default()),
            work: ctx.stage(Door::Work, WorkMemory::default()),
            bindings: ctx.stage(Door::Binding, ()),
            rollup: ctx.stage(Door::Placement, RollupMemory::default()),
            report: ctx.stage(Door::ReportBack, ReportMemory::default()),
            updates: ctx.stage(Door::UpdateRun, RunMemory::new(runs)),
            sender: Mutex::new(Some(Box::new(sender))),
            ctx,
            _tasks: tasks,
        };
        hub.sync();
        hub
    }

    /// Shows the stores what the API server has, as watches would.
    fn sync(&self) {
        let (family, shared) = (&self.placements.cluster, &self.ctx.shared);
        self.list(&family.placements, "clusterresourceplacements");
        self.list(&family.policies, "clusterschedulingpolicysnapshots");
        self.list(&family.snapshots, "clusterresourcesnapshots");
        self.list(&family.bindings, "clusterresourcebindings");
        self.list(&shared.mirrors.store, "clusterresourceplacementstatuses");
        self.list(&shared.members, "memberclusters");
        self.list(&shared.internals, "internalmemberclusters");
        self.list(&shared.works.store, "works");
        self.list(&family.updates.runs, "clusterstagedupdateruns");
        self.list(&family.updates.strategies, "clusterstagedupdatestrategies");
        self.list(&family.updates.approvals, "clusterapprovalrequests");
    }

    fn list<K>(&self, store: &Store<K>, plural: &str)
    where
        K: Resource + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
        let (objects, version) = self.api.all(plural);
        store.feed(Event::Restarted);
        for object in objects {
            // As text: raw JSON decodes from nothing else.
            store.feed(Event::Listed(serde_json::from_str(&object.to_string()).unwrap()));
        }
        store.feed(Event::ListDone { version });
    }

    /// Runs every stage until nothing is written any more.
    async fn settle(&self) {
        for _ in 0..40 {
            let before = self.api.count();
            let waits = self.round().await;
            if self.api.count() == before && !waits {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        }
        panic!("it goes on for ever: {:?}", self.api.writes());
    }

    /// Runs every stage once. Whether one of them wants to go on later.
    async fn round(&self) -> bool {
        let key = Key::cluster("crp");
        check(selection::pass(&self.selection, &key).await);
        check(scheduler::pass(&self.scheduler, &key).await);
        check(rollout::pass(&self.rollout, &key).await);
        let mut waits = false;
        for binding in self.ctx.family.bindings_of.keys(&key) {
            waits |= check(work::pass(&self.work, &binding).await);
            waits |= check(binding_rollup::pass(&self.bindings, &binding).await);
        }
        waits |= check(rollup::pass(&self.rollup, &key).await);
        check(reporting::pass(&self.report, &key).await);
        self.sync();
        waits
    }

    /// Says for every member that it has applied what it got.
    fn report(&self) {
        for work in self.api.all("works").0 {
            let generation = work["metadata"]["generation"].as_i64().unwrap();
            let said = json!([
                condition("Applied", "True", generation),
                condition("Available", "True", generation),
            ]);
            let namespace = work["metadata"]["namespace"].as_str().unwrap();
            let status = json!({ "metadata": { "name": work["metadata"]["name"] }, "status": { "conditions": said } });
            self.api.put(&format!("namespaces/{namespace}/works"), status);
        }
        self.sync();
    }

    fn binding(&self, cluster: &str) -> std::sync::Arc<ClusterResourceBinding> {
        let on = self.ctx.family.bindings_on.get(&cluster.to_owned());
        on.into_iter().next().unwrap()
    }

    /// What the latest snapshot holds.
    fn selected(&self) -> Vec<String> {
        let ids = self.ctx.placed(&Key::cluster("crp"));
        ids.iter().map(|id| format!("{} {}", id.kind, id.name)).collect()
    }

    fn status(&self) -> Value {
        self.api.get("clusterresourceplacements", "crp").unwrap()["status"].clone()
    }

    fn says(&self, type_name: &str) -> String {
        let status = self.status();
        let list = status["conditions"].as_array().unwrap().iter();
        let mut found = list.filter(|c| c["type"] == format!("ClusterResourcePlacement{type_name}"));
        found
            .next()
            .map(|c| format!("{} {}", c["status"], c["message"]))
            .unwrap_or_default()
    }
}

/// What a pipeline over these stores shares: empty stores of members, and a rollout that waits for nothing.
pub(super) fn shared(client: &kube::Client, placements: &Placements, metrics: &Metrics) -> Shared {
    let clock = Clock::system();
    let writes = Writes::new("hub", metrics);
    let (events, _) = Recorder::new(client.clone(), writes.clone(), clock.clone(), "hub", metrics);
    Shared {
        members: Store::new("memberclusters"),
        internals: Store::new("internalmemberclusters"),
        works: Works::default(),
        overrides: placements.overrides.clone(),
        mirrors: placements.mirrors.clone(),
        user: UserResources::new(client.clone(), Era::default(), Apis::default()),
        writer: Writer::new(client.clone(), writes, "hub-agent"),
        events,
        steps: steps::Measures::new(metrics),
        clock,
        settings: PipelineSettings {
            rules: Rules::default(),
            scheduler: fleet_core::scheduler::SchedulerSettings::default(),
            namespaced: true,
            delay: Flags {
                minimum_interval: Some(SignedDuration::ZERO),
                collection: Some(SignedDuration::ZERO),
            },
            rbac: fleet_core::overrides::Rbac::Allowed,
            unhealthy_threshold: SignedDuration::from_mins(1),
            update_runs: true,
            stuck_threshold: SignedDuration::from_mins(5),
            update_run_ttl: SignedDuration::ZERO,
        },
    }
}

fn config_map(value: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" }, "data": { "key": value } })
}

fn condition(type_name: &str, status: &str, generation: i64) -> Value {
    json!({ "type": type_name, "status": status, "reason": "R", "message": "", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-01T00:00:00Z" })
}

fn merge(target: &mut Value, with: &Value) {
    for (key, value) in with.as_object().into_iter().flatten() {
        target[key] = value.clone();
    }
}

/// Whether it goes on at a certain time.
fn check(outcome: Result<Next, Error>) -> bool {
    match outcome {
        Ok(next) => matches!(next, Next::At(_)),
        Err(Error::NotYet(_) | Error::Behind(_)) => false,
        Err(error) if error.is_conflict() => false,
        Err(error) => panic!("{error}"),
    }
}

/// Each line once, with how often it came.
fn tally(writes: &[String]) -> Vec<String> {
    let mut counted: Vec<(usize, &String)> = Vec::new();
    for write in writes {
        match counted.last_mut() {
            Some((n, last)) if *last == write => *n += 1,
            _ => counted.push((1, write)),
        }
    }
    counted.into_iter().map(|(n, write)| format!("{n} {write}")).collect()
}

#[tokio::test(start_paused = true)]
async fn creating_a_placement_costs_what_the_budget_says() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    assert_eq!(hub.selected(), ["Namespace app", "ConfigMap settings"]);
    assert_eq!(
        tally(&hub.api.writes()),
        [
            "3 PATCH clusterresourcebindings",
            "3 PATCH clusterresourcebindings/status",
            "1 PATCH clusterresourceplacements",
            "1 PATCH clusterschedulingpolicysnapshots/status",
            "3 POST clusterresourcebindings",
            "1 POST clusterresourcesnapshots",
            "1 POST clusterschedulingpolicysnapshots",
            "3 POST works",
            "1 PUT clusterresourceplacements/status",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn a_placement_shows_at_once_what_its_bindings_show_with_the_members_answer() {
    let hub = Hub::new(&json!({})).await;
    hub.round().await;
    assert!(hub.says("WorkSynchronized").starts_with("\"True\""), "{}", hub.status());
    let bindings = || {
        tally(&hub.api.writes())
            .into_iter()
            .filter(|w| w.ends_with("bindings/status"))
    };
    assert_eq!(bindings().collect::<Vec<_>>(), Vec::<String>::new());
    hub.report();
    hub.settle().await;
    assert_eq!(
        bindings().collect::<Vec<_>>(),
        ["3 PATCH clusterresourcebindings/status"]
    );
    let list = &hub.binding("a").status.as_ref().unwrap().conditions.clone();
    for type_name in ["RolloutStarted", "WorkSynchronized", "Applied", "Available"] {
        assert!(conditions::is_true(list, type_name, 2), "{type_name}: {list:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_with_nothing_to_do_nothing_is_written() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    assert_eq!(
        hub.says("Available"),
        "\"True\" \"The selected resources in 3 cluster(s) are available now\""
    );
    hub.api.writes();
    let next = Hub::start(hub.api.clone()).await;
    next.settle().await;
    assert_eq!(next.api.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_was_overtaken_by_the_rollout_says_nothing_of_the_old_works() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    let binding = hub.binding("a");
    let (key, generation) = (Key::of(&*binding), binding.metadata.generation.unwrap());
    // The rollout gives it other content while a pass over the old one is under way.
    let next = json!({ "metadata": { "name": key.name() }, "spec": { "resourceSnapshotName": "crp-1-snapshot" } });
    hub.api.put("clusterresourcebindings", next);
    hub.sync();
    hub.ctx.signals.aim(&Key::cluster("crp"), Goals::External);
    hub.api.writes();
    assert!(hub.ctx.signals.outcome(&key, generation).is_some());
    check(binding_rollup::pass(&hub.bindings, &key).await);
    assert_eq!(hub.api.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_has_to_wait_is_not_said_to_have_started() {
    let hub =
        Hub::new(&json!({ "strategy": { "type": "RollingUpdate", "rollingUpdate": { "maxUnavailable": 0 } } })).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    // Nothing may become unavailable, so every cluster waits with the content that it has.
    hub.api.put("/api/v1/namespaces/app/configmaps", config_map("two"));
    let next = Hub::start(hub.api.clone()).await;
    next.settle().await;
    for cluster in CLUSTERS {
        let binding = next.binding(cluster);
        let list = &binding.status.as_ref().unwrap().conditions;
        let started = conditions::find(list, "RolloutStarted").unwrap();
        assert_eq!(started.status, "False", "{cluster}");
        assert_eq!(binding.spec.resource_snapshot_name, "crp-0-snapshot", "{cluster}");
    }
    assert!(
        next.says("RolloutStarted").starts_with("\"False\""),
        "{}",
        next.says("RolloutStarted")
    );
}

#[tokio::test(start_paused = true)]
async fn a_status_of_another_version_survives() {
    let hub = Hub::new(&json!({})).await;
    let foreign = json!({ "metadata": { "name": "crp" }, "status": { "newer": { "field": 1 } } });
    hub.api.put("clusterresourceplacements", foreign);
    hub.sync();
    hub.settle().await;
    assert_eq!(hub.status()["newer"], json!({ "field": 1 }));
}

#[tokio::test(start_paused = true)]
async fn the_copy_of_the_status_follows_it() {
    let hub = Hub::new(&json!({ "statusReportingScope": "NamespaceAccessible" })).await;
    hub.api.set_missing(&["app"]);
    let outcome = async {
        check(selection::pass(&hub.selection, &Key::cluster("crp")).await);
        rollup::pass(&hub.rollup, &Key::cluster("crp")).await
    };
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    drop(outcome.await);
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    let failed = rollup::pass(&hub.rollup, &Key::cluster("crp")).await;
    assert!(failed.is_err(), "it is tried again");
    assert_eq!(
        hub.says("StatusSynced"),
        "\"False\" \"Failed to create or update ClusterResourcePlacementStatus: error returned by the API server: failed to \
         create or update ClusterResourcePlacementStatus: namespaces \\\"app\\\" not found\""
    );
    hub.api.set_missing(&[]);
    hub.settle().await;
    hub.report();
    hub.settle().await;
    assert_eq!(
        hub.says("StatusSynced"),
        "\"True\" \"Successfully created or updated ClusterResourcePlacementStatus in namespace 'app'\""
    );
    let copy = hub
        .api
        .get("namespaces/app/clusterresourceplacementstatuses", "crp")
        .unwrap();
    let mut shown = hub.status();
    let list = shown["conditions"].as_array_mut().unwrap();
    list.retain(|c| c["type"] != "ClusterResourcePlacementStatusSynced");
    assert_eq!(copy["sourceStatus"], shown);
    assert_eq!(copy["metadata"]["ownerReferences"][0]["name"], "crp");
    hub.api.writes();
    hub.settle().await;
    assert_eq!(
        hub.api.writes(),
        Vec::<String>::new(),
        "it is written only when something has changed"
    );
}

#[tokio::test(start_paused = true)]
async fn the_namespace_of_the_copy_cannot_be_changed() {
    let hub = Hub::new(&json!({ "statusReportingScope": "NamespaceAccessible" })).await;
    hub.settle().await;
    let other = json!([{ "group": "", "version": "v1", "kind": "Namespace", "name": "other" }]);
    hub.api.put(
        "clusterresourceplacements",
        json!({ "metadata": { "name": "crp" }, "spec": { "resourceSelectors": other } }),
    );
    hub.sync();
    hub.settle().await;
    assert!(
        hub.says("Scheduled")
            .contains("is choosing a different namespace 'other' from what was originally picked 'app'"),
        "{}",
        hub.says("Scheduled")
    );
    assert_eq!(hub.api.all("clusterresourceplacementstatuses").0.len(), 1);
    assert_eq!(
        hub.api.all("clusterresourcesnapshots").0.len(),
        1,
        "what is placed stays"
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_placement_costs_what_the_budget_says_and_leaves_nothing() {
    let hub = Hub::new(&json!({})).await;
    hub.settle().await;
    hub.report();
    hub.settle().await;
    hub.api.writes();
    let going = json!({ "metadata": { "name": "crp", "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    hub.api.put("clusterresourceplacements", going);
    hub.sync();
    hub.settle().await;
    assert_eq!(
        tally(&hub.api.writes()),
        [
            "1 DELETE clusterresourcebindings",
            "1 DELETE clusterresourcesnapshots",
            "1 DELETE clusterschedulingpolicysnapshots",
            "3 DELETE works",
            "3 PATCH clusterresourcebindings",
            "1 PATCH clusterresourceplacements",
        ]
    );
    for plural in [
        "clusterresourceplacements",
        "clusterresourcebindings",
        "clusterresourcesnapshots",
        "clusterschedulingpolicysnapshots",
        "works",
    ] {
        assert!(hub.api.all(plural).0.is_empty(), "{plural}");
    }
}
