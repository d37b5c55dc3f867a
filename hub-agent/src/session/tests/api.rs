//! An API server in memory: objects with versions, conflicts, status subresources and token reviews. Every write is
//! shown to the stores at once, as a watch would do a moment later.

use std::{collections::BTreeMap, sync::Arc};

use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    patch,
};
use fleet_runtime::cache::{Event, Store};
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Namespace;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::session::{HeldWork, Works};

#[derive(Clone, Default)]
pub(super) struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    /// `PATCH /path` of every write that was asked for.
    asked: Vec<String>,
    tokens: BTreeMap<String, Vec<String>>,
    down: bool,
    /// Writes to paths with this in them fail with the code.
    failing: Option<(String, u16)>,
    events: Vec<Value>,
}

pub(super) struct Stores {
    pub(super) members: Store<MemberCluster>,
    pub(super) internals: Store<InternalMemberCluster>,
    pub(super) namespaces: Store<Namespace>,
    pub(super) works: Works,
}

impl Stores {
    pub(super) fn new() -> Arc<Self> {
        let new = Self {
            members: Store::new("memberclusters"),
            internals: Store::new("internalmemberclusters"),
            namespaces: Store::new("namespaces"),
            works: Works::default(),
        };
        new.members.feed(Event::ListDone { version: 1 });
        new.internals.feed(Event::ListDone { version: 1 });
        new.namespaces.feed(Event::ListDone { version: 1 });
        new.works.store.feed(Event::ListDone { version: 1 });
        Arc::new(new)
    }

    fn show(&self, path: &str, old: Option<&Value>, new: Option<&Value>) {
        fn feed<K>(store: &Store<K>, old: Option<&Value>, new: Option<&Value>)
        where
            K: kube::Resource + serde::de::DeserializeOwned + Send + Sync + 'static,
        {
            // As text: raw JSON decodes from nothing else.
            let read = |value: &Value| serde_json::from_str::<K>(&value.to_string()).unwrap();
            match (old, new) {
                (_, Some(new)) => store.feed(Event::Applied(read(new))),
                (Some(old), None) => store.feed(Event::deleted(&read(old))),
                (None, None) => {}
            }
        }
        if path.contains("/internalmemberclusters/") {
            feed(&self.internals, old, new);
        } else if path.contains("/memberclusters/") {
            feed(&self.members, old, new);
        } else if path.contains("/works/") {
            feed::<HeldWork>(&self.works.store, old, new);
        } else if path.starts_with("/api/v1/namespaces/") {
            feed(&self.namespaces, old, new);
        }
    }
}

pub(super) fn mc_path(name: &str) -> String {
    format!("/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters/{name}")
}

pub(super) fn imc_path(name: &str) -> String {
    format!("/apis/cluster.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-{name}/internalmemberclusters/{name}")
}

pub(super) fn work_path(member: &str, name: &str) -> String {
    format!("/apis/placement.kubernetes-fleet.io/v1beta1/namespaces/fleet-member-{member}/works/{name}")
}

impl FakeApi {
    pub(super) fn client(&self, stores: &Arc<Stores>) -> kube::Client {
        let (api, stores) = (self.clone(), stores.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (api, stores) = (api.clone(), stores.clone());
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let kind = parts
                    .headers
                    .get("content-type")
                    .and_then(|v| v.to_str().ok())
                    .unwrap_or_default();
                let (code, answer) = api.handle(parts.method.as_str(), parts.uri.path(), kind, &body, &stores);
                let mut response = Response::new(Body::from(answer.to_string().into_bytes()));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, kube::Error>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Puts an object there, as somebody else would.
    pub(super) fn put(&self, stores: &Stores, path: &str, mut object: Value) {
        let mut state = self.0.lock();
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!((state.version + 1).to_string());
        state.version += 1;
        let old = state.objects.insert(path.to_owned(), object.clone());
        stores.show(path, old.as_ref(), Some(&object));
    }

    /// Changes an object, as somebody else would.
    pub(super) fn edit(&self, stores: &Stores, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(path);
        change(&mut object);
        self.put(stores, path, object);
    }

    pub(super) fn delete(&self, stores: &Stores, path: &str) {
        let mut state = self.0.lock();
        state.version += 1;
        let version = state.version.to_string();
        if let Some(mut old) = state.objects.remove(path) {
            old["metadata"]["resourceVersion"] = json!(version);
            stores.show(path, Some(&old), None);
        }
    }

    pub(super) fn get(&self, path: &str) -> Value {
        self.0.lock().objects.get(path).cloned().unwrap_or_default()
    }

    pub(super) fn allow(&self, token: &str, user: &str) {
        self.0.lock().tokens.insert(token.to_owned(), vec![user.to_owned()]);
    }

    pub(super) fn revoke(&self, token: &str) {
        self.0.lock().tokens.remove(token);
    }

    pub(super) fn set_down(&self, down: bool) {
        self.0.lock().down = down;
    }

    pub(super) fn fail(&self, failing: Option<(&str, u16)>) {
        self.0.lock().failing = failing.map(|(path, code)| (path.to_owned(), code));
    }

    /// The writes so far to paths with this in them, without Events and token reviews.
    pub(super) fn writes(&self, part: &str) -> usize {
        self.0.lock().asked.iter().filter(|line| line.contains(part)).count()
    }

    pub(super) fn events(&self) -> Vec<String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let state = self.0.lock();
        state
            .events
            .iter()
            .map(|e| format!("{} {}", text(&e["reason"]), text(&e["message"])))
            .collect()
    }

    fn handle(&self, method: &str, path: &str, kind: &str, body: &Value, stores: &Stores) -> (u16, Value) {
        let mut state = self.0.lock();
        if state.down {
            return failure(503, "the server is down");
        }
        if path.ends_with("/tokenreviews") {
            let token = body["spec"]["token"].as_str().unwrap_or_default();
            let status = match state.tokens.get(token) {
                Some(user) => json!({ "authenticated": true, "user": { "username": user[0] } }),
                None => json!({ "authenticated": false, "error": "no such token" }),
            };
            return (201, json!({ "metadata": {}, "spec": {}, "status": status }));
        }
        if path.ends_with("/events") {
            state.events.push(body.clone());
            return (201, body.clone());
        }
        let (object_path, is_status) = match path.strip_suffix("/status") {
            Some(path) => (path.to_owned(), true),
            None => (path.to_owned(), false),
        };
        let Some(old) = state.objects.get(&object_path).cloned() else {
            return failure(404, "not found");
        };
        if method == "GET" {
            return (200, old);
        }
        state.asked.push(format!("{method} {path}"));
        if let Some((part, code)) = &state.failing
            && path.contains(part.as_str())
        {
            return failure(*code, "as the test wants it");
        }
        let patched = match (method, kind) {
            ("PUT", _) => {
                let mut new = old.clone();
                new["metadata"]["resourceVersion"] = body["metadata"]["resourceVersion"].clone();
                new["status"] = body["status"].clone();
                new
            }
            (_, "application/json-patch+json") => match json_patch(old.clone(), body) {
                Some(new) => new,
                None => return failure(422, "the patch does not apply"),
            },
            _ => patch::applied(old.clone(), body),
        };
        if patched["metadata"]["resourceVersion"] != old["metadata"]["resourceVersion"] {
            return failure(409, "the object has been modified");
        }
        let mut new = old.clone();
        if is_status {
            new["status"] = patched["status"].clone();
        } else {
            new["metadata"] = patched["metadata"].clone();
            new["spec"] = patched["spec"].clone();
        }
        if new == old {
            return (200, old);
        }
        state.version += 1;
        new["metadata"]["resourceVersion"] = json!(state.version.to_string());
        let gone = new["metadata"]["deletionTimestamp"].is_string()
            && new["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if gone {
            state.objects.remove(&object_path);
            stores.show(&object_path, Some(&new), None);
        } else {
            state.objects.insert(object_path.clone(), new.clone());
            stores.show(&object_path, Some(&old), Some(&new));
        }
        (200, new)
    }
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let status = json!({ "kind": "Status", "status": "Failure", "message": message, "reason": message, "code": code });
    (code, status)
}

fn json_patch(mut target: Value, patch: &Value) -> Option<Value> {
    for operation in patch.as_array()? {
        let pointer = operation["path"].as_str()?;
        let value = operation["value"].clone();
        match operation["op"].as_str()? {
            "replace" => *target.pointer_mut(pointer)? = value,
            "add" => {
                let (parent, key) = pointer.rsplit_once('/')?;
                target
                    .pointer_mut(parent)?
                    .as_object_mut()?
                    .insert(key.to_owned(), value);
            }
            _ => return None,
        }
    }
    Some(target)
}
