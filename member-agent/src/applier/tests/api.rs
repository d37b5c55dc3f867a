//! An API server in memory, for objects of any kind: versions, merge patches, status, preconditions, lists, watches.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use fleet_api::patch;
use http::{Request, Response, StatusCode};
use hyper::body::Frame;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Clone, Default)]
pub(super) struct FakeApi(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    version: u64,
    writes: Vec<String>,
    /// By plural.
    watchers: Vec<(String, UnboundedSender<Bytes>)>,
    /// Writes to paths with this in them fail with the code, after so many.
    failing: Option<(String, usize, u16)>,
    /// So many requests of this method to paths with this in them fail with the code.
    hiccup: Option<(&'static str, String, usize, u16)>,
}

impl FakeApi {
    pub(super) fn client(&self) -> kube::Client {
        // A client is a process's: what others wrote before is not counted.
        self.0.lock().writes.clear();
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let body: Value = serde_json::from_slice(&bytes).unwrap_or_default();
                let query = parts.uri.query().unwrap_or_default();
                if query.contains("watch=") {
                    return Ok(Response::new(api.watch(parts.uri.path())));
                }
                let (code, answer) = api.handle(parts.method.as_str(), parts.uri.path(), query, &body);
                let mut response = Response::new(Answer::Whole(Some(answer.to_string().into())));
                *response.status_mut() = StatusCode::from_u16(code).unwrap();
                Ok::<_, kube::Error>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Puts an object there, as somebody else would.
    pub(super) fn put(&self, path: &str, object: Value) {
        let mut state = self.0.lock();
        state.store(path, object);
    }

    /// Deletes an object, as somebody else would.
    pub(super) fn remove(&self, path: &str) {
        self.0.lock().delete(path);
    }

    fn watch(&self, path: &str) -> Answer {
        let (sender, receiver) = unbounded_channel();
        self.0.lock().watchers.push((plural(path).to_owned(), sender));
        Answer::Events(receiver)
    }

    pub(super) fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().objects.get(path).cloned()
    }

    /// `METHOD path` of every write that succeeded.
    pub(super) fn writes(&self) -> Vec<String> {
        self.0.lock().writes.clone()
    }

    /// From now on, writes to paths with this in them fail after so many.
    pub(super) fn fail_after(&self, path: &str, good: usize, code: u16) {
        self.0.lock().failing = (code > 0).then(|| (path.to_owned(), good, code));
    }

    /// The next requests of this method to paths with this in them fail.
    pub(super) fn fail_next(&self, method: &'static str, path: &str, times: usize, code: u16) {
        self.0.lock().hiccup = Some((method, path.to_owned(), times, code));
    }

    fn handle(&self, method: &str, path: &str, query: &str, body: &Value) -> (u16, Value) {
        let mut state = self.0.lock();
        if let Some((on, part, times, code)) = &mut state.hiccup
            && *times > 0
            && *on == method
            && path.contains(part.as_str())
        {
            *times -= 1;
            let (code, mut status) = failure(*code, "a hiccup");
            // Not about an object.
            status["details"] = json!({});
            return (code, status);
        }
        match path {
            "/api/v1" => return (200, kinds("v1", &CORE)),
            "/apis/apps/v1" => return (200, kinds("apps/v1", &[("deployments", "Deployment")])),
            "/apis/batch.example.com/v1" => return (200, kinds("batch.example.com/v1", &[("jobs", "Job")])),
            _ if path.starts_with("/openapi") => return failure(404, "no such document"),
            _ => {}
        }
        if method == "GET" && query.contains("limit=") {
            let mine = |(at, _): &(&String, &Value)| plural(at.rsplit_once('/').unwrap_or_default().0) == plural(path);
            let items: Vec<&Value> = state.objects.iter().filter(mine).map(|(_, object)| object).collect();
            let version = state.version.to_string();
            let list =
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": version}, "items": items});
            return (200, list);
        }
        if method == "GET" {
            return match state.objects.get(path) {
                Some(object) => (200, object.clone()),
                None => failure(404, "not found"),
            };
        }
        if let Some((part, good, code)) = &mut state.failing
            && path.contains(part.as_str())
        {
            if *good == 0 {
                return failure(*code, "failing");
            }
            *good -= 1;
        }
        let answer = state.write(method, path, body);
        if answer.0 < 300 {
            state.writes.push(format!("{method} {path}"));
        }
        answer
    }
}

impl State {
    fn store(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let meta = &mut object["metadata"];
        meta["resourceVersion"] = json!(self.version.to_string());
        if meta["uid"].is_null() {
            meta["uid"] = json!(format!("uid-{}", self.version));
        }
        let old = self.objects.insert(path.to_owned(), object.clone());
        self.tell(path, if old.is_some() { "MODIFIED" } else { "ADDED" }, &object);
        object
    }

    fn delete(&mut self, path: &str) {
        if let Some(mut object) = self.objects.remove(path) {
            self.version += 1;
            object["metadata"]["resourceVersion"] = json!(self.version.to_string());
            self.tell(path, "DELETED", &object);
        }
    }

    fn tell(&mut self, path: &str, what: &str, object: &Value) {
        let kind = plural(path.rsplit_once('/').unwrap_or_default().0).to_owned();
        // The type first, as real ones write it: what follows need not be buffered then.
        let line = Bytes::from(format!("{{\"type\":\"{what}\",\"object\":{object}}}\n"));
        self.watchers
            .retain(|(plural, sender)| *plural != kind || sender.send(line.clone()).is_ok());
    }

    fn write(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        if method == "POST" {
            let at = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap());
            if self.objects.contains_key(&at) {
                return failure(409, "already exists");
            }
            return (201, self.store(&at, body.clone()));
        }
        let at = path.strip_suffix("/status").unwrap_or(path);
        let Some(object) = self.objects.get(at).cloned() else {
            return failure(404, "not found");
        };
        match method {
            "DELETE" => {
                let wanted = &body["preconditions"]["uid"];
                if !wanted.is_null() && *wanted != object["metadata"]["uid"] {
                    return failure(409, "another uid");
                }
                self.delete(at);
                (200, json!({"kind": "Status", "apiVersion": "v1", "status": "Success"}))
            }
            "PUT" => {
                if body["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                    return failure(409, "changed meanwhile");
                }
                (200, self.store(at, body.clone()))
            }
            _ => match patch::applied(object.clone(), body) {
                // As real ones: what changes nothing is no new version.
                same if same == object => (200, object),
                changed => (200, self.store(at, changed)),
            },
        }
    }
}

/// The last word of a collection's path.
fn plural(path: &str) -> &str {
    path.rsplit_once('/').unwrap_or_default().1
}

/// What is answered: at once, or line by line.
enum Answer {
    Whole(Option<Bytes>),
    Events(UnboundedReceiver<Bytes>),
}

impl hyper::body::Body for Answer {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = match self.get_mut() {
            Self::Whole(all) => Poll::Ready(all.take()),
            Self::Events(lines) => lines.poll_recv(cx),
        };
        next.map(|part| part.map(|part| Ok(Frame::data(part))))
    }
}

const CORE: [(&str, &str); 3] = [
    ("configmaps", "ConfigMap"),
    ("services", "Service"),
    ("namespaces", "Namespace"),
];

fn kinds(version: &str, kinds: &[(&str, &str)]) -> Value {
    let one = |(plural, kind): &(&str, &str)| {
        json!({
            "name": plural, "singularName": "", "namespaced": *kind != "Namespace", "kind": kind, "verbs": ["get"],
        })
    };
    let resources: Vec<Value> = kinds.iter().map(one).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": version, "resources": resources})
}

fn failure(code: u16, message: &str) -> (u16, Value) {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        _ => "InternalError",
    };
    // A name tells an object that is not there from a path that nobody serves.
    let details = json!({ "name": "x" });
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": reason,
        "details": details,
    });
    (code, status)
}
