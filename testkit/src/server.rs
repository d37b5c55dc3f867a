//! The server: who is asked what, and what a test may do to it.

use std::sync::Arc;

use http::{Request, Response, StatusCode};
use jiff::Timestamp;
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    body::Answer,
    fault::{Fault, refusal},
    objects::Objects,
    path::{Collection, Place, Target},
    read::{self, Kind, Kinds},
    watch::Watcher,
    write::Wish,
};

/// A write that was asked for and not only tried, whatever became of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// `POST`, `PUT`, `PATCH`, `DELETE`.
    pub method: String,
    /// The path, with a subresource.
    pub path: String,
    /// The answer.
    pub code: u16,
}

type Listener = Box<dyn Fn(&str, &str, &Value) + Send + Sync>;
type Handler = Box<dyn Fn(&str, &str, &Value) -> Option<(u16, Value)> + Send + Sync>;

/// An API server. Clones are the same one.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: Objects,
    kinds: Kinds,
    watchers: Vec<Watcher>,
    /// Watches show nothing for now.
    lagging: bool,
    faults: Vec<Fault>,
    handlers: Vec<Handler>,
    listeners: Vec<Listener>,
    /// What listeners have been told.
    heard: u64,
    writes: Vec<Write>,
    reads: usize,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.0.lock();
        f.debug_struct("Server")
            .field("objects", &state.objects.all.len())
            .field("version", &state.objects.version)
            .finish_non_exhaustive()
    }
}

/// A client of an API server that is frozen: it takes every request and answers none.
pub fn frozen() -> kube::Client {
    let service = tower::service_fn(|_: Request<Body>| std::future::pending::<Result<Response<Body>, kube::Error>>());
    kube::Client::new(service, "default")
}

impl Server {
    /// With nothing in it.
    pub fn new() -> Self {
        Self::default()
    }

    /// A client of it.
    pub fn client(&self) -> kube::Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let bytes = body.collect_bytes().await?;
                let text = |name: &str| {
                    let header = parts.headers.get(name).and_then(|value| value.to_str().ok());
                    header.unwrap_or_default().to_owned()
                };
                let asked = Asked {
                    method: parts.method.as_str(),
                    path: parts.uri.path(),
                    query: parts.uri.query().unwrap_or_default(),
                    accept: &text("accept"),
                    content: &text("content-type"),
                    body: &serde_json::from_slice(&bytes).unwrap_or_default(),
                };
                let (code, answer) = server.0.lock().answer(&asked);
                let mut response = Response::new(answer);
                *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
                Ok::<_, kube::Error>(response)
            }
        });
        kube::Client::new(service, "default")
    }

    /// Serves a kind: discovery names it, with a status of its own.
    pub fn serve(&self, prefix: &str, plural: &str, kind: &str, namespaced: bool) {
        self.serve_with(prefix, plural, kind, namespaced, true);
    }

    /// Serves a kind whose status is written with the rest of it.
    pub fn serve_without_status(&self, prefix: &str, plural: &str, kind: &str, namespaced: bool) {
        self.serve_with(prefix, plural, kind, namespaced, false);
    }

    fn serve_with(&self, prefix: &str, plural: &str, kind: &str, namespaced: bool, status: bool) {
        let collection = Collection {
            prefix: prefix.to_owned(),
            plural: plural.to_owned(),
        };
        let name = kind.to_owned();
        self.0.lock().kinds.insert(
            collection,
            Kind {
                name,
                namespaced,
                status,
            },
        );
    }

    /// Puts an object there, as somebody else would.
    pub fn put(&self, path: &str, object: Value) -> Value {
        let place = place(path);
        let mut state = self.0.lock();
        let stored = state.objects.put(&place, object);
        state.tell();
        stored
    }

    /// Changes an object that is there, as somebody else would.
    pub fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) -> Value {
        let mut object = self.get(path).unwrap_or_else(|| panic!("{path} is not there"));
        change(&mut object);
        self.put(path, object)
    }

    /// Deletes an object, as somebody else would.
    pub fn delete(&self, path: &str) {
        let place = place(path);
        let mut state = self.0.lock();
        state.objects.delete(&place, &Value::Null);
        state.tell();
    }

    /// An object.
    pub fn get(&self, path: &str) -> Option<Value> {
        self.0.lock().objects.all.get(&place(path)).cloned()
    }

    /// All objects with this plural, wherever they are.
    pub fn all(&self, plural: &str) -> Vec<Value> {
        let state = self.0.lock();
        let own = state
            .objects
            .all
            .iter()
            .filter(|(place, _)| place.collection.plural == plural);
        own.map(|(_, object)| object.clone()).collect()
    }

    /// The version that the newest change has made.
    pub fn version(&self) -> u64 {
        self.0.lock().objects.version
    }

    /// Tells of every change at once: `ADDED`, `MODIFIED` or `DELETED`, the plural, and the object.
    pub fn listen(&self, listener: impl Fn(&str, &str, &Value) + Send + Sync + 'static) {
        self.0.lock().listeners.push(Box::new(listener));
    }

    /// What is asked for by name is answered so from now on, before anything else is looked at.
    pub fn answer(&self, handler: impl Fn(&str, &str, &Value) -> Option<(u16, Value)> + Send + Sync + 'static) {
        self.0.lock().handlers.push(Box::new(handler));
    }

    /// Something goes wrong from now on.
    pub fn fail(&self, fault: Fault) {
        self.0.lock().faults.push(fault);
    }

    /// Nothing goes wrong any more.
    pub fn recover(&self) {
        self.0.lock().faults.clear();
    }

    /// Watches and listeners are shown nothing until [`Server::catch_up`]. Reads and writes are as ever.
    pub fn lag(&self) {
        self.0.lock().lagging = true;
    }

    /// Watches and listeners are shown what happened meanwhile.
    pub fn catch_up(&self) {
        let mut state = self.0.lock();
        state.lagging = false;
        state.tell();
    }

    /// Watches say how far they are.
    pub fn bookmark(&self) {
        self.0.lock().watchers.retain(Watcher::bookmark);
    }

    /// Ends all watches; they may begin again where they were.
    pub fn end_watches(&self) {
        self.0.lock().watchers.clear();
    }

    /// Forgets what happened: watches that begin before now end with 410.
    pub fn compact(&self) {
        self.0.lock().objects.compact();
    }

    /// Sets the time of the first change; with each that follows a second passes.
    pub fn set_time(&self, began: Timestamp) {
        self.0.lock().objects.began = began;
    }

    /// Every write so far.
    pub fn writes(&self) -> Vec<Write> {
        self.0.lock().writes.clone()
    }

    /// `METHOD path` of every write so far that succeeded.
    pub fn written(&self) -> Vec<String> {
        let state = self.0.lock();
        let good = state.writes.iter().filter(|write| write.code < 300);
        good.map(|write| format!("{} {}", write.method, write.path)).collect()
    }

    /// Forgets the writes so far.
    pub fn forget_writes(&self) {
        self.0.lock().writes.clear();
    }

    /// How often a single object was read.
    pub fn reads(&self) -> usize {
        self.0.lock().reads
    }
}

/// A request.
struct Asked<'a> {
    method: &'a str,
    path: &'a str,
    query: &'a str,
    accept: &'a str,
    content: &'a str,
    body: &'a Value,
}

impl Asked<'_> {
    fn wish(&self) -> Wish<'_> {
        Wish {
            method: self.method,
            query: self.query,
            content: self.content,
            body: self.body,
        }
    }
}

impl State {
    fn tell(&mut self) {
        if self.lagging {
            return;
        }
        let news = self.objects.history.iter().filter(|event| event.version > self.heard);
        for event in news {
            for listener in &self.listeners {
                listener(event.what, &event.place.collection.plural, &event.object);
            }
        }
        self.heard = self.objects.version;
        let objects = &self.objects;
        self.watchers.retain_mut(|watcher| watcher.tell(objects));
    }

    fn answer(&mut self, asked: &Asked<'_>) -> (u16, Answer) {
        let fault = self
            .faults
            .iter_mut()
            .find_map(|fault| fault.strikes(asked.method, asked.path));
        self.faults.retain(|fault| !fault.is_over());
        let metadata_only = asked.accept.contains("PartialObjectMetadata");
        if let (None, "GET", true, Some(target)) = (
            fault,
            asked.method,
            asked.query.contains("watch="),
            Target::of(asked.path),
        ) {
            let (watcher, lines) = Watcher::begin(&self.objects, target, asked.query, metadata_only);
            self.watchers.extend(watcher);
            self.tell();
            return (200, Answer::Lines(lines));
        }
        let (code, body) = match fault {
            Some((code, false)) => refusal(code, "as the test wants it", None),
            Some((code, true)) => {
                self.carry_out(asked, metadata_only);
                refusal(code, "as the test wants it", None)
            }
            None => self.carry_out(asked, metadata_only),
        };
        if asked.method != "GET" && !asked.wish().is_trial() {
            self.writes.push(Write {
                method: asked.method.to_owned(),
                path: asked.path.to_owned(),
                code,
            });
        }
        self.tell();
        (code, Answer::Whole(Some(body.to_string().into())))
    }

    /// Of a group and version of which kinds are named, only these are served; of others every kind is.
    fn is_served(&self, collection: &Collection) -> bool {
        let mut named = self
            .kinds
            .keys()
            .filter(|kind| kind.prefix == collection.prefix)
            .peekable();
        named.peek().is_none() || named.any(|kind| kind == collection)
    }

    fn carry_out(&mut self, asked: &Asked<'_>, metadata_only: bool) -> (u16, Value) {
        let mut own = self.handlers.iter();
        if let Some(answer) = own.find_map(|handler| handler(asked.method, asked.path, asked.body)) {
            return answer;
        }
        if asked.accept.contains("APIGroupDiscoveryList") {
            return refusal(406, "no aggregated discovery here", None);
        }
        if let Some(answer) = read::discovery(&self.kinds, asked.path) {
            return (200, answer);
        }
        let Some(target) = Target::of(asked.path) else {
            return refusal(404, "the server could not find the requested resource", None);
        };
        if !self.is_served(&target.collection) {
            return refusal(404, "the server could not find the requested resource", None);
        }
        if asked.method == "GET" {
            self.reads += usize::from(target.name.is_some());
            return read::read(&self.objects, &target, asked.query, metadata_only);
        }
        self.objects.write(&target, &asked.wish())
    }
}

fn place(path: &str) -> Place {
    let target = Target::of(path).unwrap_or_else(|| panic!("{path} is no path of an object"));
    target.place().unwrap_or_else(|| panic!("{path} names no object"))
}
