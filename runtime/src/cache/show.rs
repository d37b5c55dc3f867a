//! A store as people who debug see it: names and versions, never what is in an object.

use kube::Resource;
use serde_json::{Map, Value, json};

use super::{Inner, State, Store};
use crate::dump::{self, Dump, Look, Section};

impl<K: Resource + Send + Sync + 'static> Store<K> {
    /// Lets people who debug see which objects it has. Not for Secrets.
    pub fn show_in(&self, dump: &Dump) {
        dump.add(Section::Stores, self.name(), &self.0, Inner::show);
    }

    /// How its watch is doing, and how much it has.
    pub fn summary(&self) -> Map<String, Value> {
        self.0.summary()
    }
}

impl<K: Resource> Inner<K> {
    fn summary(&self) -> Map<String, Value> {
        let (watch, message) = match &*self.state.borrow() {
            State::Starting => ("starting", None),
            State::Watching => ("watching", None),
            State::Failing { message, .. } => ("failing", Some(dump::text(message))),
        };
        let table = self.table.read();
        dump::fields(json!({
            "watch": watch,
            "message": message,
            "listed": *self.synced.borrow(),
            "progress": table.progress(),
            "count": table.iter().count(),
            "odd": table.odd().count(),
        }))
    }

    fn show(&self, look: &mut Look) -> Value {
        let mut all = self.summary();
        let table = self.table.read();
        let objects = look.list(table.iter(), |object| {
            let meta = object.meta();
            dump::fields(json!({
                "version": meta.resource_version,
                "generation": meta.generation,
                "created": meta.creation_timestamp,
                "deleted": meta.deletion_timestamp,
            }))
        });
        // Not what is wrong with them: that may quote them.
        let odd = look.list(table.odd().map(|odd| (&odd.key, odd.version)), |version| {
            dump::fields(json!({ "version": version }))
        });
        all.extend([("objects".to_owned(), objects), ("odd".to_owned(), odd)]);
        Value::Object(all)
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;
    use crate::{
        cache::{Event, Odd},
        key::Key,
    };

    #[test]
    fn a_store_shows_names_and_versions_and_no_content() {
        let store = Store::<ConfigMap>::new("configmaps");
        let dump = Dump::default();
        store.show_in(&dump);
        store.feed(Event::Restarted);
        let object = json!({
            "metadata": {
                "name": "a", "namespace": "n", "resourceVersion": "7", "uid": "u", "annotations": { "note": "hush" },
            },
            "data": { "password": "hush" },
        });
        store.feed(Event::Listed(serde_json::from_value(object).unwrap()));
        store.feed(Event::ListedOdd(Odd {
            key: Key::namespaced("n", "b"),
            uid: None,
            version: 8,
            error: "data: not a map: \"hush\"".to_owned(),
        }));
        store.feed(Event::ListDone { version: 9 });

        let all = dump.read("", "").unwrap();
        assert!(!all.to_string().contains("hush"), "{all}");
        let shown = &all["stores"]["configmaps"];
        assert_eq!(shown["watch"], "starting");
        assert_eq!(shown["listed"], true);
        assert_eq!(shown["progress"], 9);
        assert_eq!(shown["objects"]["shown"][0]["name"], "n/a");
        assert_eq!(shown["objects"]["shown"][0]["version"], "7");
        assert_eq!(shown["odd"]["shown"][0]["name"], "n/b");
    }
}
