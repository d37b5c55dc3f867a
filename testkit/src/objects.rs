//! Objects, and what happened to them.

use std::collections::{BTreeMap, VecDeque};

use fleet_api::patch;
use serde_json::{Value, json};

use crate::{
    fault::refusal,
    path::{Place, Target},
};

/// Something that happened.
#[derive(Debug, Clone)]
pub(crate) struct Happened {
    pub(crate) version: u64,
    pub(crate) place: Place,
    pub(crate) what: &'static str,
    pub(crate) object: Value,
}

/// What is there.
#[derive(Debug, Clone)]
pub(crate) struct Objects {
    pub(crate) all: BTreeMap<Place, Value>,
    pub(crate) version: u64,
    /// Newest last.
    pub(crate) history: VecDeque<Happened>,
    /// What happened up to here nobody knows any more.
    pub(crate) compacted: u64,
    /// When it all began. A second passes with every change, so that no two things happen at once.
    pub(crate) began: jiff::Timestamp,
}

/// The version before the first change. None is 0: to clients, that is any version.
const FIRST: u64 = 1;

impl Default for Objects {
    fn default() -> Self {
        Self {
            all: BTreeMap::new(),
            version: FIRST,
            history: VecDeque::new(),
            compacted: 0,
            began: jiff::Timestamp::UNIX_EPOCH,
        }
    }
}

impl Objects {
    /// Puts an object there as it is given, but for what only an API server writes.
    pub(crate) fn put(&mut self, place: &Place, mut object: Value) -> Value {
        let old = self.all.get(place).cloned();
        let spec_differs = old.as_ref().is_some_and(|old| old["spec"] != object["spec"]);
        let meta = &mut object["metadata"];
        meta["name"] = json!(place.name);
        if let Some(namespace) = &place.namespace {
            meta["namespace"] = json!(namespace);
        }
        let before = old.as_ref().map(|old| &old["metadata"]);
        if meta["uid"].is_null() {
            meta["uid"] = before.map_or_else(|| json!(format!("uid-{}", self.version)), |old| old["uid"].clone());
        }
        if meta["creationTimestamp"].is_null() {
            let now = json!(self.now());
            meta["creationTimestamp"] = before.map_or(now, |old| old["creationTimestamp"].clone());
        }
        let generation = before.and_then(|old| old["generation"].as_i64()).unwrap_or(1);
        // One that the test names is its own affair.
        if meta["generation"].is_null() || meta["generation"] == generation {
            meta["generation"] = json!(generation + i64::from(spec_differs));
        }
        self.version += 1;
        meta["resourceVersion"] = json!(self.version.to_string());
        let held = meta["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if meta["deletionTimestamp"].is_string() && !held {
            self.all.remove(place);
            self.happened(place, "DELETED", &object);
        } else {
            let what = if old.is_some() { "MODIFIED" } else { "ADDED" };
            self.all.insert(place.clone(), object.clone());
            self.happened(place, what, &object);
        }
        object
    }

    fn now(&self) -> String {
        let passed = jiff::SignedDuration::from_secs(i64::try_from(self.version - FIRST).unwrap_or(i64::MAX));
        self.began.saturating_add(passed).unwrap_or(self.began).to_string()
    }

    fn happened(&mut self, place: &Place, what: &'static str, object: &Value) {
        self.history.push_back(Happened {
            version: self.version,
            place: place.clone(),
            what,
            object: object.clone(),
        });
    }

    /// Forgets what happened until now.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
        self.history.clear();
    }

    pub(crate) fn create(&mut self, target: &Target, body: &Value) -> (u16, Value) {
        let Some(name) = body["metadata"]["name"].as_str() else {
            return refusal(422, "it has no name", None);
        };
        let place = Place {
            collection: target.collection.clone(),
            namespace: target.namespace.clone(),
            name: name.to_owned(),
        };
        if self.all.contains_key(&place) {
            return refusal(409, "it already exists", Some(name));
        }
        let mut object = body.clone();
        for own in [
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
        ] {
            if let Some(meta) = object["metadata"].as_object_mut() {
                meta.remove(own);
            }
        }
        (201, self.put(&place, object))
    }

    /// Asks for the end of an object: it goes at once unless somebody holds it.
    pub(crate) fn delete(&mut self, place: &Place, preconditions: &Value) -> (u16, Value) {
        let Some(old) = self.all.get(place).cloned() else {
            return refusal(404, "no such object", Some(&place.name));
        };
        if let Some(refused) = moved_on(&old, preconditions) {
            return refused;
        }
        if old["metadata"]["deletionTimestamp"].is_string() {
            return (200, old);
        }
        let mut going = old;
        going["metadata"]["deletionTimestamp"] = json!(self.now());
        let generation = going["metadata"]["generation"].as_i64().unwrap_or(1);
        going["metadata"]["generation"] = json!(generation + 1);
        (200, self.put(place, going))
    }

    /// Changes an object, or its status alone.
    pub(crate) fn change(&mut self, place: &Place, status_only: bool, how: How, body: &Value) -> (u16, Value) {
        let Some(old) = self.all.get(place).cloned() else {
            return refusal(404, "no such object", Some(&place.name));
        };
        let wanted = match how {
            How::Replace if !place.collection.takes_any_version() && body["metadata"]["resourceVersion"].is_null() => {
                let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
                return refusal(422, why, Some(&place.name));
            }
            How::Replace => body.clone(),
            How::Merge => patch::applied(old.clone(), body),
            How::Operations => match operations(old.clone(), body) {
                Some(wanted) => wanted,
                None => return refusal(422, "the patch does not apply", Some(&place.name)),
            },
        };
        if let Some(refused) = moved_on(&old, &wanted["metadata"]) {
            return refused;
        }
        let mut new = old.clone();
        if status_only {
            new["status"] = wanted["status"].clone();
        } else {
            let status = old["status"].clone();
            let (uid, born) = (
                old["metadata"]["uid"].clone(),
                old["metadata"]["creationTimestamp"].clone(),
            );
            new = wanted;
            new["metadata"]["uid"] = uid;
            new["metadata"]["creationTimestamp"] = born;
            if !status.is_null() {
                new["status"] = status;
            }
        }
        new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        // As real ones: what changes nothing is no new version.
        if new == old {
            return (200, old);
        }
        new["metadata"]["generation"] = old["metadata"]["generation"].clone();
        (200, self.put(place, new))
    }
}

/// How an object is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    Replace,
    Merge,
    Operations,
}

/// The refusal of a write that was made for another state of the object.
fn moved_on(old: &Value, wanted: &Value) -> Option<(u16, Value)> {
    let name = old["metadata"]["name"].as_str();
    let differs = |key: &str| !wanted[key].is_null() && wanted[key] != old["metadata"][key];
    let is_another = ["uid", "resourceVersion"].into_iter().any(differs);
    is_another.then(|| refusal(409, "the object has been modified", name))
}

fn operations(mut target: Value, list: &Value) -> Option<Value> {
    for operation in list.as_array()? {
        let pointer = operation["path"].as_str()?;
        let value = operation["value"].clone();
        let (parent, key) = pointer.rsplit_once('/')?;
        let key = key.replace("~1", "/").replace("~0", "~");
        match operation["op"].as_str()? {
            "test" if *target.pointer(pointer)? == value => {}
            "replace" => *target.pointer_mut(pointer)? = value,
            "add" => match target.pointer_mut(parent)? {
                Value::Object(map) => _ = map.insert(key, value),
                Value::Array(list) if key == "-" => list.push(value),
                _ => return None,
            },
            "remove" => _ = target.pointer_mut(parent)?.as_object_mut()?.remove(&key)?,
            _ => return None,
        }
    }
    Some(target)
}
