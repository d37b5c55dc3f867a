//! An API server in memory: versions, generations, finalizers, conflicts, merge patches and status subresources. It keeps
//! account of every write that it is asked for.

use std::{collections::BTreeMap, sync::Arc};

use fleet_api::patch;
use fleet_runtime::clock::Clock;
use http::{Request, Response, StatusCode};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

/// Where an object is: everything before the name but its namespace, namespace, name.
type Place = (String, Option<String>, String);

#[derive(Clone, Default)]
pub(super) struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<Place, Value>,
    version: u64,
    writes: Vec<String>,
    /// How often a single object was read.
    reads: usize,
    /// Namespaces that do not exist.
    missing: Vec<String>,
    /// The plural, with its subresource, that nobody may write.
    forbidden: Option<String>,
}

const PLACEMENT: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";

impl FakeApi {
    pub(super) fn client(&self) -> kube::Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let query = parts.uri.query().unwrap_or_default();
                let accept = parts.headers.get("accept").and_then(|accept| accept.to_str().ok());
                let (code, answer) = if accept.is_some_and(|accept| accept.contains("APIGroupDiscoveryList")) {
                    refusal(406, "NotAcceptable", "no aggregated discovery here")
                } else {
                    api.handle(parts.method.as_str(), parts.uri.path(), query, &body)
                };
                let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, kube::Error>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Puts an object there, as somebody else would, or changes it.
    pub(super) fn put(&self, collection: &str, object: Value) {
        let (prefix, namespace, _) = place(&format!("{}/x", full(collection)));
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut state = self.0.lock();
        let place = (prefix, namespace, name);
        match state.objects.remove(&place) {
            Some(old) => state.change(place, &old, &object, true),
            None => state.create(place, object),
        };
    }

    pub(super) fn set_missing(&self, namespaces: &[&str]) {
        self.0.lock().missing = namespaces.iter().map(|name| (*name).to_owned()).collect();
    }

    pub(super) fn set_forbidden(&self, resource: Option<&str>) {
        self.0.lock().forbidden = resource.map(ToOwned::to_owned);
    }

    /// How often a single object has been read.
    pub(super) fn reads(&self) -> usize {
        self.0.lock().reads
    }

    pub(super) fn get(&self, collection: &str, name: &str) -> Option<Value> {
        let place = place(&format!("{}/{name}", full(collection)));
        self.0.lock().objects.get(&place).cloned()
    }

    /// All of a kind, in whatever namespace.
    pub(super) fn all(&self, plural: &str) -> (Vec<Value>, u64) {
        let state = self.0.lock();
        let found = state
            .objects
            .iter()
            .filter(|((prefix, ..), _)| prefix.ends_with(&format!("/{plural}")));
        (found.map(|(_, object)| object.clone()).collect(), state.version)
    }

    /// What was written since the last time this was asked, sorted.
    pub(super) fn writes(&self) -> Vec<String> {
        let mut writes = std::mem::take(&mut self.0.lock().writes);
        writes.sort();
        writes
    }

    pub(super) fn count(&self) -> usize {
        self.0.lock().writes.len()
    }

    fn handle(&self, method: &str, path: &str, query: &str, body: &Value) -> (u16, Value) {
        if method == "GET" {
            return self.read(path, query);
        }
        let mut state = self.0.lock();
        let (path, part) = match path.strip_suffix("/status") {
            Some(path) => (path, "/status"),
            None => (path, ""),
        };
        let collection = method == "POST" || query.contains("labelSelector");
        let place = if collection {
            place(&format!("{path}/x"))
        } else {
            place(path)
        };
        let plural = place.0.rsplit('/').next().unwrap_or_default().to_owned();
        state.writes.push(format!("{method} {plural}{part}"));
        if state.forbidden == Some(format!("{plural}{part}")) {
            return refusal(403, "Forbidden", &format!("you cannot {method} {plural}{part}"));
        }
        match method {
            "POST" => {
                let name = body["metadata"]["name"].as_str().unwrap().to_owned();
                if let Some(namespace) = place.1.as_ref().filter(|namespace| state.missing.contains(namespace)) {
                    return refusal(404, "NotFound", &format!("namespaces \"{namespace}\" not found"));
                }
                let place = (place.0, place.1, name);
                if state.objects.contains_key(&place) {
                    return refusal(409, "AlreadyExists", "it exists");
                }
                (201, state.create(place, body.clone()))
            }
            "DELETE" if collection => {
                let found: Vec<Place> = {
                    let (key, value) = query
                        .split('&')
                        .find_map(|pair| pair.strip_prefix("labelSelector="))
                        .and_then(|pair| pair.split_once("%3D").or_else(|| pair.split_once('=')))
                        .unwrap();
                    let key = key.replace("%2F", "/");
                    let has = |object: &Value| object["metadata"]["labels"][&key].as_str() == Some(value);
                    let here = |(p, o): &(&Place, &Value)| p.0 == place.0 && p.1 == place.1 && has(o);
                    state.objects.iter().filter(here).map(|(p, _)| p.clone()).collect()
                };
                for place in found {
                    state.delete(&place);
                }
                (200, json!({ "kind": "Status", "status": "Success" }))
            }
            "DELETE" => {
                let meta = state.objects.get(&place).map(|object| object["metadata"].clone());
                for pinned in ["resourceVersion", "uid"] {
                    let based_on = &body["preconditions"][pinned];
                    if meta
                        .as_ref()
                        .is_some_and(|meta| !based_on.is_null() && *based_on != meta[pinned])
                    {
                        return refusal(409, "Conflict", "the precondition does not hold");
                    }
                }
                state.delete(&place)
            }
            _ => {
                let Some(old) = state.objects.get(&place).cloned() else {
                    return refusal(404, "NotFound", "no such object");
                };
                for pinned in ["resourceVersion", "uid"] {
                    let based_on = &body["metadata"][pinned];
                    if !based_on.is_null() && *based_on != old["metadata"][pinned] {
                        return refusal(409, "Conflict", "the object has been modified");
                    }
                }
                let wanted = match (method, part) {
                    ("PUT", _) => json!({ "status": body["status"] }),
                    (_, "/status") => json!({ "status": patch::applied(old["status"].clone(), &body["status"]) }),
                    _ => body.clone(),
                };
                (200, state.change(place, &old, &wanted, part == "/status"))
            }
        }
    }

    fn read(&self, path: &str, query: &str) -> (u16, Value) {
        let resource = |name: &str, kind: &str, namespaced: bool| {
            json!({ "name": name, "singularName": "", "kind": kind, "namespaced": namespaced,
                    "verbs": ["get", "list", "watch"] })
        };
        match path {
            "/api" => {
                return (
                    200,
                    json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }),
                );
            }
            "/apis" => return (200, json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": [] })),
            "/api/v1" => {
                let resources = [
                    resource("namespaces", "Namespace", false),
                    resource("configmaps", "ConfigMap", true),
                    resource("services", "Service", true),
                    resource("services/status", "Service", true),
                    // Of no real use, but a kind with a status that is not written by itself.
                    resource("podtemplates", "PodTemplate", true),
                ];
                return (
                    200,
                    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": resources }),
                );
            }
            _ => {}
        }
        if query.contains("watch=") {
            return refusal(503, "ServiceUnavailable", "no watches here");
        }
        let mut state = self.0.lock();
        if let Some(object) = state.objects.get(&place(path)).cloned() {
            state.reads += 1;
            return (200, object);
        }
        let prefix = place(&format!("{path}/x")).0;
        let items: Vec<_> = state
            .objects
            .iter()
            .filter(|((own, ..), _)| *own == prefix)
            .map(|(_, object)| object)
            .collect();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": items,
                           "metadata": { "resourceVersion": state.version.max(1).to_string() } });
        (200, list)
    }
}

impl State {
    fn create(&mut self, place: Place, mut object: Value) -> Value {
        self.version += 1;
        let meta = &mut object["metadata"];
        meta["uid"] = json!(format!("uid-{}", self.version));
        meta["resourceVersion"] = json!(self.version.to_string());
        meta["generation"] = json!(1);
        meta["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        if let Some(namespace) = &place.1 {
            meta["namespace"] = json!(namespace);
        }
        self.objects.insert(place, object.clone());
        object
    }

    fn change(&mut self, place: Place, old: &Value, patch: &Value, status_only: bool) -> Value {
        self.version += 1;
        let mut new = patch::applied(old.clone(), patch);
        if status_only && !patch["status"].is_null() {
            new["status"] = patch["status"].clone();
        }
        if new["spec"] != old["spec"] {
            new["metadata"]["generation"] = json!(old["metadata"]["generation"].as_i64().unwrap_or(1) + 1);
        }
        new["metadata"]["resourceVersion"] = json!(self.version.to_string());
        let held = new["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        if new["metadata"]["deletionTimestamp"].is_null() || held {
            self.objects.insert(place, new.clone());
        } else {
            self.objects.remove(&place);
        }
        new
    }

    fn delete(&mut self, place: &Place) -> (u16, Value) {
        let Some(old) = self.objects.get(place).cloned() else {
            return refusal(404, "NotFound", "no such object");
        };
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(1) + 1;
        let now = Clock::system().now_secs().to_string();
        let going = json!({ "metadata": { "deletionTimestamp": now, "generation": generation } });
        (200, self.change(place.clone(), &old, &going, false))
    }
}

fn full(collection: &str) -> String {
    if collection.starts_with('/') {
        collection.to_owned()
    } else {
        format!("{PLACEMENT}/{collection}")
    }
}

fn place(path: &str) -> Place {
    let (head, name) = path.rsplit_once('/').unwrap();
    match head.split_once("/namespaces/") {
        Some((prefix, rest)) if rest.contains('/') => {
            let (namespace, plural) = rest.split_once('/').unwrap();
            (
                format!("{prefix}/{plural}"),
                Some(namespace.to_owned()),
                name.to_owned(),
            )
        }
        _ => (head.to_owned(), None, name.to_owned()),
    }
}

fn refusal(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
                         "message": message, "metadata": {} });
    (code, status)
}
