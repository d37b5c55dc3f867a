//! The API server in memory as these tests speak of it: it reviews tokens, keeps Events, and shows every write to the stores
//! at once, as a watch would do a moment later.

use std::{collections::BTreeMap, sync::Arc};

use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_core::session::identity::Name;
use fleet_runtime::cache::{Event, Index, Store};
use fleet_testkit::{Fault, Server};
use k8s_openapi::api::core::v1::Namespace;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::cache::{
    self,
    works::{HubWork, Works},
};

#[derive(Clone)]
pub(super) struct FakeApi {
    server: Server,
    desk: Arc<Mutex<Desk>>,
}

/// What is answered while nobody is there.
const DOWN: u16 = 502;

/// What is asked beside objects.
#[derive(Default)]
struct Desk {
    tokens: BTreeMap<String, String>,
    reviews: usize,
    events: Vec<Value>,
}

impl Desk {
    fn answer(&mut self, path: &str, body: &Value) -> Option<(u16, Value)> {
        if path.ends_with("/tokenreviews") {
            self.reviews += 1;
            let token = body["spec"]["token"].as_str().unwrap_or_default();
            let status = match self.tokens.get(token) {
                Some(user) => json!({ "authenticated": true, "user": { "username": user } }),
                None => json!({ "authenticated": false, "error": "no such token" }),
            };
            return Some((201, json!({ "metadata": {}, "spec": {}, "status": status })));
        }
        if path.ends_with("/events") {
            self.events.push(body.clone());
            return Some((201, body.clone()));
        }
        None
    }
}

impl Default for FakeApi {
    fn default() -> Self {
        let (server, desk) = (Server::new(), Arc::<Mutex<Desk>>::default());
        let asked = desk.clone();
        server.answer(move |_, path, body| asked.lock().answer(path, body));
        Self { server, desk }
    }
}

pub(super) struct Stores {
    pub(super) members: Store<MemberCluster>,
    pub(super) members_by_identity: Index<MemberCluster, Name>,
    pub(super) internals: Store<InternalMemberCluster>,
    pub(super) namespaces: Store<Namespace>,
    pub(super) works: Works,
}

impl Stores {
    pub(super) fn new() -> Arc<Self> {
        let (members, members_by_identity) = cache::members();
        let new = Self {
            members: members.build(),
            members_by_identity,
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

    /// Shows a change at once, as a watch would do a moment later.
    pub(super) fn show(&self, what: &str, plural: &str, object: &Value) {
        fn feed<K>(store: &Store<K>, what: &str, object: &Value)
        where
            K: kube::Resource + serde::de::DeserializeOwned + Send + Sync + 'static,
        {
            // As text: raw JSON decodes from nothing else.
            let object = serde_json::from_str::<K>(&object.to_string()).unwrap();
            if what == "DELETED" {
                store.feed(Event::deleted(&object));
            } else {
                store.feed(Event::Applied(object));
            }
        }
        match plural {
            "internalmemberclusters" => feed(&self.internals, what, object),
            "memberclusters" => feed(&self.members, what, object),
            "works" => feed::<HubWork>(&self.works.store, what, object),
            "namespaces" => feed(&self.namespaces, what, object),
            _ => {}
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
    /// A client, whose writes and all others' these stores see.
    pub(super) fn client(&self, stores: &Arc<Stores>) -> kube::Client {
        let shown = stores.clone();
        self.server
            .listen(move |what, plural, object| shown.show(what, plural, object));
        self.server.client()
    }

    /// Puts an object there, as somebody else would.
    pub(super) fn put(&self, path: &str, object: Value) {
        self.server.put(path, object);
    }

    /// Changes an object, as somebody else would.
    pub(super) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        self.server.edit(path, change);
    }

    pub(super) fn delete(&self, path: &str) {
        self.server.delete(path);
    }

    pub(super) fn get(&self, path: &str) -> Value {
        self.server.get(path).unwrap_or_default()
    }

    /// The stores see nothing until they catch up.
    pub(super) fn lag(&self) {
        self.server.lag();
    }

    pub(super) fn catch_up(&self) {
        self.server.catch_up();
    }

    pub(super) fn allow(&self, token: &str, user: &str) {
        self.desk.lock().tokens.insert(token.to_owned(), user.to_owned());
    }

    pub(super) fn revoke(&self, token: &str) {
        self.desk.lock().tokens.remove(token);
    }

    /// Questions about tokens so far.
    pub(super) fn reviews(&self) -> usize {
        self.desk.lock().reviews
    }

    pub(super) fn set_down(&self, down: bool) {
        self.server.recover();
        if down {
            self.server.fail(Fault::new("", DOWN));
        }
    }

    /// Writes to paths with this in them fail with the code, or none any more.
    pub(super) fn fail(&self, failing: Option<(&str, u16)>) {
        self.server.recover();
        if let Some((path, code)) = failing {
            self.server.fail(Fault::new(path, code).writes());
        }
    }

    /// The writes so far to paths with this in them that reached somebody, without Events and token reviews.
    pub(super) fn writes(&self, part: &str) -> usize {
        let aside = |line: &String| line.ends_with("/events") || line.ends_with("/tokenreviews");
        let reached = self.server.writes().into_iter().filter(|write| write.code != DOWN);
        let lines = reached.map(|write| format!("{} {}", write.method, write.path));
        lines.filter(|line| !aside(line) && line.contains(part)).count()
    }

    pub(super) fn events(&self) -> Vec<String> {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
        let desk = self.desk.lock();
        let events = desk.events.iter();
        events
            .map(|e| format!("{} {}", text(&e["reason"]), text(&e["message"])))
            .collect()
    }
}
