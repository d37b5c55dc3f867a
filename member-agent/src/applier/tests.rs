//! Passes over Works against API servers in memory: what is written, in which order, and what is not.

mod faults;
mod hold;
mod leftovers;
mod priorities;
mod watching;

use std::sync::Arc;

use fleet_api::conditions::Status;
use fleet_core::session::{Outcome, recovery::Recovery};
use fleet_proto::convert::MemberMessage;
use fleet_runtime::{
    Key,
    cache::{Era, Event},
    clock::Clock,
    metrics::Metrics,
    queue::Next,
};
use fleet_testkit::{Fault, Server};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Applier as _, Applying, Side, works::HubWork};
use crate::{options::Options, outgoing::Outgoing};

const OWNER: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/appliedworks/w";
const HUB_NAMESPACE: &str = "/api/v1/namespaces/fleet-member-east";

fn config_path(name: &str) -> String {
    format!("/api/v1/namespaces/app/configmaps/{name}")
}

fn config(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "app"}, "data": data})
}

/// Where the Work is on the hub.
const WORK: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-east/works/w";

struct Stage {
    hub: Server,
    member: Server,
    outgoing: Arc<Outgoing>,
    applier: Arc<Applying>,
    clock: Clock,
    version: u64,
}

/// A cluster that serves the kinds of these tests.
fn cluster() -> Server {
    let server = Server::new();
    server.serve("/api/v1", "configmaps", "ConfigMap", true);
    server.serve("/api/v1", "services", "Service", true);
    server.serve("/api/v1", "namespaces", "Namespace", false);
    server.serve("/apis/apps/v1", "deployments", "Deployment", true);
    server.serve("/apis/batch.example.com/v1", "jobs", "Job", true);
    server
}

/// What a new process has of a cluster: what others wrote before is not counted.
fn side(server: &Server) -> Side {
    server.forget_writes();
    Side {
        client: server.client(),
        era: Era::default(),
    }
}

impl Stage {
    fn new() -> Self {
        let (hub, member) = (cluster(), cluster());
        hub.put(
            HUB_NAMESPACE,
            json!({"metadata": {"name": "fleet-member-east"}, "status": {"phase": "Active"}}),
        );
        Self::on(hub, member)
    }

    /// A new process on the same clusters.
    fn on(hub: Server, member: Server) -> Self {
        Self::with(hub, member, &[])
    }

    fn with(hub: Server, member: Server, flags: &[&str]) -> Self {
        let args = ["member-agent"].iter().chain(flags).map(|arg| (*arg).into());
        let options = Options::from_args(args).unwrap();
        let outgoing = Arc::new(Outgoing::default());
        let clock = Clock::manual(Timestamp::from_second(1_000_000).unwrap());
        let applier = Arc::new(Applying::new(
            "east".parse().unwrap(),
            side(&hub),
            side(&member),
            outgoing.clone(),
            &options.applier,
            &Metrics::new(),
            clock.clone(),
        ));
        applier.works.store.feed(Event::ListDone { version: 1 });
        applier.admission.applied.feed(Event::ListDone { version: 1 });
        applier.open("imc", Recovery::default());
        Self {
            hub,
            member,
            outgoing,
            applier,
            clock,
            version: 1,
        }
    }

    fn show(&mut self, generation: i64, more: &Value, strategy: &Value, manifests: &[Value]) {
        self.version += 1;
        let mut work = json!({
            "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
            "metadata": {
                "name": "w", "namespace": "fleet-member-east", "uid": "work-uid", "generation": generation,
                "resourceVersion": self.version.to_string(), "finalizers": ["kubernetes-fleet.io/work-cleanup"],
            },
            "spec": {"workload": {"manifests": manifests}, "applyStrategy": strategy},
        });
        for (key, value) in more.as_object().unwrap() {
            work["metadata"][key] = value.clone();
        }
        let mut stored = self.hub.get(WORK).unwrap_or_else(|| work.clone());
        for part in ["metadata", "spec"] {
            stored[part] = work[part].clone();
        }
        self.hub.put(WORK, stored);
        let work: fleet_api::placement::Work = serde_json::from_str(&work.to_string()).unwrap();
        self.applier.works.store.feed(Event::Applied(HubWork::from(work)));
    }

    async fn pass(&self) -> Next {
        self.applier.pass("w").await.unwrap()
    }

    fn said(&self) -> Vec<MemberMessage> {
        let next = |seq| {
            let (message, answered) = self.outgoing.next(seq, Timestamp::UNIX_EPOCH, true)?;
            if answered {
                self.outgoing.answered(seq, Outcome::Persisted, Timestamp::UNIX_EPOCH);
            }
            Some(message)
        };
        (1..20).map_while(next).collect()
    }

    /// The statuses of the Work's conditions as they were last said, in order.
    fn conditions(&self) -> Vec<(String, Status)> {
        let Some(MemberMessage::WorkStatus(status)) = self.said().pop() else {
            panic!("nothing was said")
        };
        status.conditions.into_iter().map(|c| (c.type_, c.status)).collect()
    }
}

fn good() -> Vec<(String, Status)> {
    vec![("Applied".into(), Status::True), ("Available".into(), Status::True)]
}

#[tokio::test(start_paused = true)]
async fn nothing_is_touched_before_the_finalizer_is_read() {
    let mut stage = Stage::new();
    stage.show(1, &json!({"finalizers": []}), &json!({}), &[config("c", &json!({}))]);
    stage.pass().await;
    assert!(matches!(&stage.said()[..], [MemberMessage::Claim(work)] if work.uid == "work-uid"));
    assert_eq!(stage.member.written(), Vec::<String>::new());

    stage.applier.close().await;
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({}))]);
    stage.pass().await;
    assert_eq!(stage.member.written(), Vec::<String>::new(), "the barrier is closed");
}

#[tokio::test(start_paused = true)]
async fn a_new_work_is_written_down_then_applied_then_reported() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({"a": "1"}))]);
    assert!(matches!(stage.pass().await, Next::At(_)));
    assert_eq!(
        stage.member.written(),
        [
            "POST /apis/placement.kubernetes-fleet.io/v1beta1/appliedworks".to_owned(),
            format!("PATCH {OWNER}/status"),
            "POST /api/v1/namespaces/app/configmaps".to_owned(),
            format!("PATCH {OWNER}/status"),
        ]
    );
    assert_eq!(stage.conditions(), good());
    let object = stage.member.get(&config_path("c")).unwrap();
    assert_eq!(object["metadata"]["ownerReferences"][0]["name"], "w");
    let owner = stage.member.get(OWNER).unwrap();
    assert_eq!(
        owner["status"]["inventory"]["objects"],
        json!([]),
        "all that may exist is listed as applied"
    );
    assert_eq!(owner["status"]["appliedResources"][0]["uid"], object["metadata"]["uid"]);

    // The same again is nothing, here and in a new process.
    let mut again = Stage::on(stage.hub.clone(), stage.member.clone());
    again.show(1, &json!({}), &json!({}), &[config("c", &json!({"a": "1"}))]);
    again.pass().await;
    again.pass().await;
    assert_eq!(again.member.written(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_leaves_the_work_is_deleted_and_fields_go() {
    let mut stage = Stage::new();
    let first = [config("c", &json!({"a": "1", "b": "2"})), config("d", &json!({}))];
    stage.show(1, &json!({}), &json!({}), &first);
    stage.pass().await;
    stage.show(2, &json!({}), &json!({}), &[config("c", &json!({"a": "3"}))]);
    stage.pass().await;
    assert_eq!(stage.member.get(&config_path("c")).unwrap()["data"], json!({"a": "3"}));
    assert_eq!(stage.member.get(&config_path("d")), None);
    let owner = stage.member.get(OWNER).unwrap();
    assert_eq!(owner["status"]["appliedResources"].as_array().unwrap().len(), 1);
    assert_eq!(owner["status"]["inventory"]["objects"], json!([]));
    assert_eq!(stage.conditions(), good());
}

#[tokio::test(start_paused = true)]
async fn a_crash_between_making_and_telling_loses_nothing() {
    let mut stage = Stage::new();
    stage.show(
        1,
        &json!({}),
        &json!({}),
        &[config("c", &json!({})), config("d", &json!({}))],
    );
    // The result cannot be written: as if the process had died there.
    stage
        .member
        .fail(Fault::new(&format!("{OWNER}/status"), 500).writes().after(1));
    stage.applier.pass("w").await.unwrap_err();
    assert!(stage.member.get(&config_path("d")).is_some());

    let mut next = Stage::on(stage.hub.clone(), stage.member.clone());
    next.member.recover();
    next.show(2, &json!({}), &json!({}), &[config("c", &json!({}))]);
    next.pass().await;
    assert_eq!(
        next.member.get(&config_path("d")),
        None,
        "it was written down before it was made"
    );
    assert_eq!(next.conditions(), good());
}

#[tokio::test(start_paused = true)]
async fn what_is_not_ours_stays() {
    let mut stage = Stage::new();
    stage
        .member
        .put(&config_path("c"), config("c", &json!({"a": "theirs"})));
    let never = json!({"whenToTakeOver": "Never"});
    stage.show(1, &json!({}), &never, &[config("c", &json!({"a": "ours"}))]);
    stage.pass().await;
    assert_eq!(stage.member.get(&config_path("c")).unwrap()["data"]["a"], "theirs");
    assert_eq!(stage.conditions(), [("Applied".to_owned(), Status::False)]);

    stage.show(2, &json!({}), &json!({}), &[config("c", &json!({"a": "ours"}))]);
    stage.pass().await;
    assert_eq!(stage.member.get(&config_path("c")).unwrap()["data"]["a"], "ours");
    assert_eq!(stage.conditions(), good());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_work() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({}))]);
    stage.pass().await;
    stage.said();
    let deleting = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});

    // The whole namespace goes: no order to remove anything.
    let namespace = |phase: &str| json!({"metadata": {"name": "fleet-member-east"}, "status": {"phase": phase}});
    stage.hub.put(HUB_NAMESPACE, namespace("Terminating"));
    stage.show(2, &deleting, &json!({}), &[config("c", &json!({}))]);
    let before = stage.member.written();
    stage.pass().await;
    assert_eq!(stage.member.written(), before);
    assert!(stage.member.get(OWNER).is_some());

    stage.hub.put(HUB_NAMESPACE, namespace("Active"));
    stage.pass().await;
    assert_eq!(stage.member.get(OWNER), None);
    assert!(matches!(stage.said().last(), Some(MemberMessage::CleanupComplete(work)) if work.uid == "work-uid"));

    // Said again after a crash: nothing is there, and that is the proof.
    let mut next = Stage::on(stage.hub.clone(), stage.member.clone());
    next.show(2, &deleting, &json!({}), &[config("c", &json!({}))]);
    next.pass().await;
    assert!(matches!(next.said().last(), Some(MemberMessage::CleanupComplete(_))));
}

#[tokio::test(start_paused = true)]
async fn a_work_that_vanished_is_no_order() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({}))]);
    stage.pass().await;
    let before = stage.member.written();
    let key = Key::namespaced("fleet-member-east", "w");
    stage.applier.works.store.deleted(&key, Some("work-uid"));
    stage.pass().await;
    assert_eq!(stage.member.written(), before);
    assert!(stage.member.get(&config_path("c")).is_some());
}

/// Lets everything happen that is about to.
async fn settle() {
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
}

#[tokio::test(start_paused = true)]
async fn changes_are_seen_and_own_writes_cause_nothing() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({"a": "1"}))]);
    stage.pass().await;
    settle().await;
    // What is ready now is the Work itself, as it was opened; taking it shows that nothing is to be done.
    while !stage.applier.queue.is_empty() {
        stage.applier.queue.take().await;
        stage.applier.queue.done(&"w".to_owned(), Next::Wait);
    }
    let before = stage.member.written().len();
    stage.member.put(&config_path("other"), config("other", &json!({})));
    settle().await;
    assert!(stage.applier.queue.is_empty(), "what is not ours matters to nobody");

    let mut theirs = stage.member.get(&config_path("c")).unwrap();
    theirs["data"]["a"] = json!("2");
    stage.member.put(&config_path("c"), theirs);
    settle().await;
    assert_eq!(stage.applier.queue.take().await.key, "w");
    stage.pass().await;
    assert_eq!(
        stage.member.written()[before..],
        [format!("PATCH {}", config_path("c"))]
    );
    assert_eq!(stage.member.get(&config_path("c")).unwrap()["data"]["a"], "1");
    stage.applier.queue.done(&"w".to_owned(), Next::Wait);
    settle().await;
    assert!(stage.applier.queue.is_empty(), "the echo of an own write wakes nobody");
}

#[tokio::test(start_paused = true)]
async fn a_running_applier_goes_from_work_to_report_and_back() {
    let stage = Stage::new();
    let path = WORK;
    let stop = tokio_util::sync::CancellationToken::new();
    let running = tokio::spawn(stage.applier.clone().run(stop.clone()));
    settle().await;
    let work = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work",
        "metadata": {"name": "w", "namespace": "fleet-member-east", "uid": "work-uid", "generation": 1},
        "spec": {"workload": {"manifests": [config("c", &json!({"a": "1"}))]}},
    });
    stage.hub.put(path, work.clone());
    settle().await;
    assert!(matches!(&stage.said()[..], [MemberMessage::Claim(_)]));
    let mut claimed = stage.hub.get(path).unwrap();
    claimed["metadata"]["finalizers"] = json!(["kubernetes-fleet.io/work-cleanup"]);
    stage.hub.put(path, claimed.clone());
    settle().await;
    assert_eq!(stage.conditions(), good());

    // Deleted by hand: back at once.
    stage.member.delete(&config_path("c"));
    settle().await;
    assert!(stage.member.get(&config_path("c")).is_some());

    claimed["metadata"]["generation"] = json!(2);
    claimed["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    stage.hub.put(path, claimed);
    settle().await;
    assert!(matches!(stage.said().last(), Some(MemberMessage::CleanupComplete(_))));
    assert_eq!(stage.member.get(OWNER), None);
    stop.cancel();
    running.await.unwrap();
}
