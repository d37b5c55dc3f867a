//! The API server in memory as these tests speak of it: collections of placements by their plural alone, and writes as
//! lines. Stores are shown what is there by the tests themselves, so watches show nothing.

use std::sync::Arc;

use fleet_api::{crds, patch};
use fleet_runtime::clock::Clock;
use fleet_testkit::{Fault, Server};
use parking_lot::Mutex;
use serde_json::{Value, json};

#[derive(Clone)]
pub(super) struct FakeApi {
    server: Server,
    refusals: Arc<Mutex<Refusals>>,
}

#[derive(Default)]
struct Refusals {
    /// Namespaces that do not exist.
    missing: Vec<String>,
    /// The plural, with its subresource, that nobody may write.
    forbidden: Option<String>,
}

const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";

impl Default for FakeApi {
    fn default() -> Self {
        let server = Server::new();
        for (plural, kind, namespaced) in [
            ("namespaces", "Namespace", false),
            ("services", "Service", true),
            ("replicationcontrollers", "ReplicationController", true),
        ] {
            server.serve("/api/v1", plural, kind, namespaced);
        }
        // The second is of no real use, but a kind with a status that is not written by itself.
        for (plural, kind) in [("configmaps", "ConfigMap"), ("podtemplates", "PodTemplate")] {
            server.serve_without_status("/api/v1", plural, kind, true);
        }
        server.lag();
        server.set_time(Clock::system().now_secs());
        let refusals = Arc::<Mutex<Refusals>>::default();
        let asked = refusals.clone();
        server.answer(move |method, path, _| asked.lock().refuse(method, path));
        Self { server, refusals }
    }
}

impl Refusals {
    fn refuse(&self, method: &str, path: &str) -> Option<(u16, Value)> {
        let refusal = |code: u16, reason: &str, message: String| {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                                 "message": message, "metadata": {}, "details": { "name": "of an object" } });
            Some((code, status))
        };
        let line = line(method, path);
        let (_, resource) = line.split_once(' ')?;
        if method != "GET" && self.forbidden.as_deref() == Some(resource) {
            return refusal(403, "Forbidden", format!("you cannot {method} {resource}"));
        }
        let within = |namespace: &&String| path.contains(&format!("/namespaces/{namespace}/"));
        match self.missing.iter().find(within) {
            Some(namespace) if method == "POST" => {
                refusal(404, "NotFound", format!("namespaces \"{namespace}\" not found"))
            }
            _ => None,
        }
    }
}

impl FakeApi {
    pub(super) fn client(&self) -> kube::Client {
        self.server.client()
    }

    /// Names the fleet's own kinds to whoever asks which there are.
    pub(super) fn name_own_kinds(&self) {
        for definition in crds::all() {
            let (spec, names) = (&definition.spec, &definition.spec.names);
            for version in &spec.versions {
                let prefix = format!("/apis/{}/{}", spec.group, version.name);
                let namespaced = spec.scope == "Namespaced";
                self.server.serve(&prefix, &names.plural, &names.kind, namespaced);
            }
        }
    }

    /// Takes Events from now on.
    pub(super) fn take_events(&self) {
        self.server.serve_without_status("/api/v1", "events", "Event", true);
    }

    /// Puts an object there, as somebody else would, or changes it.
    pub(super) fn put(&self, collection: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        let path = format!("{}/{name}", full(collection));
        let Some(old) = self.server.get(&path) else {
            self.server.put(&path, object);
            return;
        };
        let mut new = patch::applied(old, &object);
        if !object["status"].is_null() {
            new["status"] = object["status"].clone();
        }
        self.server.put(&path, new);
    }

    /// Deletes an object, as somebody else would.
    pub(super) fn delete(&self, collection: &str, name: &str) {
        self.server.delete(&format!("{}/{name}", full(collection)));
    }

    pub(super) fn set_missing(&self, namespaces: &[&str]) {
        self.refusals.lock().missing = namespaces.iter().map(|name| (*name).to_owned()).collect();
    }

    pub(super) fn set_forbidden(&self, resource: Option<&str>) {
        self.refusals.lock().forbidden = resource.map(ToOwned::to_owned);
    }

    /// Something goes wrong from now on.
    pub(super) fn fail(&self, fault: Fault) {
        self.server.fail(fault);
    }

    /// Nothing goes wrong any more.
    pub(super) fn recover(&self) {
        self.server.recover();
    }

    /// How often a single object has been read.
    pub(super) fn reads(&self) -> usize {
        self.server.reads()
    }

    pub(super) fn get(&self, collection: &str, name: &str) -> Option<Value> {
        self.server.get(&format!("{}/{name}", full(collection)))
    }

    /// All of a kind, in whatever namespace.
    pub(super) fn all(&self, plural: &str) -> (Vec<Value>, u64) {
        (self.server.all(plural), self.server.version())
    }

    /// What was written since the last time this was asked, sorted.
    pub(super) fn writes(&self) -> Vec<String> {
        let mut writes: Vec<_> = self.server.writes().iter().map(|w| line(&w.method, &w.path)).collect();
        self.server.forget_writes();
        writes.sort();
        writes
    }

    /// The same, and in the order in which it was written.
    pub(super) fn order(&self) -> Vec<String> {
        let writes = self.server.writes().iter().map(|w| line(&w.method, &w.path)).collect();
        self.server.forget_writes();
        writes
    }

    pub(super) fn count(&self) -> usize {
        self.server.writes().len()
    }
}

/// The method and the plural, with its subresource.
fn line(method: &str, path: &str) -> String {
    let (path, part) = match path.strip_suffix("/status") {
        Some(path) => (path, "/status"),
        None => (path, ""),
    };
    let within = path
        .split_once("/namespaces/")
        .and_then(|(_, rest)| rest.split_once('/'));
    let rest = within.map(|(_, rest)| rest);
    // Without a namespace: what follows the version.
    let rest = rest.unwrap_or_else(|| path.splitn(5, '/').last().unwrap_or_default());
    let plural = rest.split('/').next().unwrap_or_default();
    format!("{method} {plural}{part}")
}

fn full(collection: &str) -> String {
    if collection.starts_with('/') {
        collection.to_owned()
    } else {
        format!("{PLACEMENT}/{collection}")
    }
}
