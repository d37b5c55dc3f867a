//! A hub in memory, with what a drain finds there, and somebody who answers evictions as a hub agent does.

pub(crate) mod shown;

use std::collections::BTreeMap;

use fleet_api::{
    conditions::{
        ConditionState,
        eviction::{Executed, Valid},
        to_condition,
    },
    placement::ClusterResourcePlacementEviction,
};
use fleet_testkit::Server;
use futures::StreamExt as _;
use jiff::Timestamp;
use kube::{
    Client,
    api::{Api, Patch, PatchParams, WatchEvent, WatchParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};

pub(crate) const CLUSTERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";
pub(crate) const PLACEMENT_API: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";

/// How the hub answers the evictions of a placement.
#[derive(Debug, Clone)]
pub(crate) enum Answer {
    /// Deletes the binding, and says so.
    Executed,
    /// The same; meanwhile, once, the scheduler places this one there.
    ExecutedBeside(&'static str),
    Blocked(Executed),
    Invalid(Valid),
    /// Only `Valid=True`.
    Waits,
    /// Not at all.
    Silence,
}

/// A hub.
pub(crate) struct Fake {
    pub(crate) server: Server,
    answers: BTreeMap<String, Answer>,
    lines: Mutex<Vec<String>>,
}

impl Fake {
    /// With the member cluster `east`, on which nothing is.
    pub(crate) fn new() -> Self {
        let server = Server::new();
        server.put(
            &format!("{CLUSTERS}/east"),
            json!({ "spec": { "identity": { "kind": "User", "name": "east" } } }),
        );
        Self {
            server,
            answers: BTreeMap::new(),
            lines: Mutex::default(),
        }
    }

    /// A placement that is on these clusters. Its evictions are answered so.
    pub(crate) fn place(mut self, name: &str, policy: &Value, clusters: &[&str], answer: Answer) -> Self {
        let selected = json!([
            { "group": "", "version": "v1", "kind": "Namespace", "name": name },
            { "group": "apps", "version": "v1", "kind": "Deployment", "namespace": name, "name": "app" },
        ]);
        let selectors = json!([{ "group": "", "version": "v1", "kind": "Namespace", "name": name }]);
        self.put(
            &format!("clusterresourceplacements/{name}"),
            json!({
                "spec": { "resourceSelectors": selectors, "policy": policy },
                "status": { "selectedResources": selected },
            }),
        );
        for cluster in clusters {
            self.bind(name, cluster, "Bound", true);
        }
        self.answers.insert(name.to_owned(), answer);
        self
    }

    /// A binding of a placement.
    pub(crate) fn bind(&self, placement: &str, cluster: &str, state: &str, is_available: bool) {
        let available = json!({
            "type": "Available", "status": if is_available { "True" } else { "Unknown" }, "reason": "Played", "message": "",
            "observedGeneration": 1, "lastTransitionTime": "2026-01-09T01:53:53Z",
        });
        self.put(
            &format!("clusterresourcebindings/{placement}-{cluster}"),
            json!({
                "metadata": { "labels": { "kubernetes-fleet.io/parent-CRP": placement } },
                "spec": {
                    "state": state, "targetCluster": cluster, "resourceSnapshotName": "s", "schedulingPolicySnapshotName": "p",
                    "clusterDecision": { "clusterName": cluster, "selected": true, "reason": "" },
                },
                "status": { "conditions": [available] },
            }),
        );
    }

    /// Puts an object of the placement API there.
    pub(crate) fn put(&self, path: &str, object: Value) -> Value {
        self.server.put(&format!("{PLACEMENT_API}/{path}"), object)
    }

    pub(crate) fn say(&self) -> impl Fn(&str) + Sync {
        |line| self.lines.lock().push(line.to_owned())
    }

    /// What was said, with `########` for what is random in names.
    pub(crate) fn said(&self) -> Vec<String> {
        self.lines.lock().iter().map(|line| plain(line)).collect()
    }

    /// The names of the evictions that are there.
    pub(crate) fn evictions(&self) -> Vec<String> {
        let all = self.server.all("clusterresourceplacementevictions");
        all.iter()
            .map(|it| plain(it["metadata"]["name"].as_str().unwrap_or_default()))
            .collect()
    }

    /// Runs something while evictions are answered.
    pub(crate) async fn run<T>(&self, doing: impl Future<Output = T>) -> T {
        tokio::select! {
            () = self.answer() => panic!("the watch of the test has ended"),
            done = doing => done,
        }
    }

    async fn answer(&self) {
        let client = self.server.client();
        let evictions = Api::<ClusterResourcePlacementEviction>::all(client.clone());
        let version = self.server.version().to_string();
        let events = evictions.watch(&WatchParams::default(), &version).await;
        let mut events = Box::pin(events.expect("a watch"));
        while let Some(event) = events.next().await {
            if let Ok(WatchEvent::Added(eviction)) = event {
                self.answer_one(&client, &eviction).await;
            }
        }
    }

    async fn answer_one(&self, client: &Client, eviction: &ClusterResourcePlacementEviction) {
        let spec = &eviction.spec;
        let answer = self
            .answers
            .get(&spec.placement_name)
            .cloned()
            .unwrap_or(Answer::Silence);
        let valid = |state: Valid| condition(&state);
        let conditions = match answer {
            Answer::Executed | Answer::ExecutedBeside(_) => {
                let binding = format!("{}-{}", spec.placement_name, spec.cluster_name);
                self.server
                    .delete(&format!("{PLACEMENT_API}/clusterresourcebindings/{binding}"));
                let of_it = |other: &Value| other["spec"]["placementName"] == *spec.placement_name;
                let made = self
                    .server
                    .all("clusterresourceplacementevictions")
                    .iter()
                    .filter(|it| of_it(it))
                    .count();
                if let (Answer::ExecutedBeside(placed), 1) = (answer, made) {
                    self.bind(placed, &spec.cluster_name, "Scheduled", false);
                }
                vec![valid(Valid::Valid), condition(&Executed::NoBudget)]
            }
            Answer::Blocked(state) => vec![valid(Valid::Valid), condition(&state)],
            Answer::Invalid(state) => vec![valid(state)],
            Answer::Waits => vec![valid(Valid::Valid)],
            Answer::Silence => return,
        };
        let name = eviction.metadata.name.as_deref().unwrap_or_default();
        let patch = Patch::Merge(json!({ "status": { "conditions": conditions } }));
        let evictions = Api::<ClusterResourcePlacementEviction>::all(client.clone());
        let answer = evictions.patch_status(name, &PatchParams::default(), &patch).await;
        answer.expect("it is written");
    }
}

fn condition(state: &impl ConditionState) -> Value {
    serde_json::to_value(to_condition(state, 1, Timestamp::UNIX_EPOCH)).expect("it is a condition")
}

/// The random part of an eviction's name is eight digits.
fn plain(line: &str) -> String {
    let is_token = |word: &str| word.len() == 8 && word.chars().all(|c| c.is_ascii_hexdigit() && !c.is_uppercase());
    let mut out = String::new();
    let mut word = String::new();
    for c in line.chars().chain(['\n']) {
        if c.is_ascii_alphanumeric() {
            word.push(c);
            continue;
        }
        let is_last = is_token(&word) && out.ends_with('-');
        out.push_str(if is_last { "########" } else { &word });
        out.push(c);
        word.clear();
    }
    out.trim_end_matches('\n').to_owned()
}
