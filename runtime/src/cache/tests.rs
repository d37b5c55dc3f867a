mod back;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize},
};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, Time},
};
use kube::{Api, ResourceExt};
use proptest::prelude::*;

use super::*;
use crate::testing;

/// An object whose `group` label is indexed.
fn object(name: &str, uid: &str, version: u64, group: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.to_owned());
    object.metadata.uid = Some(uid.to_owned());
    object.metadata.resource_version = Some(version.to_string());
    object.labels_mut().insert("group".to_owned(), group.to_owned());
    object
}

fn by_group(object: &ConfigMap) -> Vec<String> {
    object.labels().get("group").cloned().into_iter().collect()
}

struct World {
    store: Store<ConfigMap>,
    groups: Index<ConfigMap, String>,
    changes: Changes<ConfigMap>,
}

impl World {
    fn new() -> Self {
        let mut builder = Store::builder("configmaps");
        let groups = builder.index(by_group);
        let store = builder.build();
        let changes = store.subscribe();
        Self { store, groups, changes }
    }

    /// A world whose first list had these objects, all heard of.
    fn listed(objects: &[ConfigMap], version: u64) -> Self {
        let mut world = Self::new();
        world.list(objects, version);
        world.heard();
        world
    }

    fn list(&self, objects: &[ConfigMap], version: u64) {
        self.store.feed(Event::Restarted);
        for object in objects {
            self.store.feed(Event::Listed(object.clone()));
        }
        self.store.feed(Event::ListDone { version });
    }

    fn heard(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        while let Some(change) = self.changes.try_next() {
            heard.push(format!("{change:?}"));
        }
        heard.sort();
        heard
    }

    /// The version that readers see.
    fn sees(&self, name: &str) -> Option<u64> {
        self.store
            .get(&Key::cluster(name))
            .map(|object| object.resource_version().unwrap().parse().unwrap())
    }
}

#[test]
fn a_relist_reports_exactly_what_happened_meanwhile() {
    let mut world = World::listed(
        &[
            object("a", "1", 1, "x"),
            object("b", "2", 2, "x"),
            object("c", "3", 3, "x"),
        ],
        5,
    );
    world.list(
        &[
            object("a", "1", 1, "x"),
            object("b", "2", 7, "y"),
            object("d", "4", 8, "y"),
        ],
        9,
    );
    assert_eq!(world.heard(), ["b changed", "c deleted", "d added"]);
    assert_eq!(world.groups.keys(&"x".to_owned()), [Key::cluster("a")]);
    assert_eq!(
        world.groups.keys(&"y".to_owned()),
        [Key::cluster("b"), Key::cluster("d")]
    );
}

#[test]
fn a_list_that_breaks_off_deletes_nothing() {
    let mut world = World::listed(&[object("a", "1", 1, "x"), object("b", "2", 2, "x")], 5);
    world.store.feed(Event::Restarted);
    world.store.feed(Event::Listed(object("a", "1", 1, "x")));
    assert_eq!(world.heard(), [""; 0]);
    // The second try finds that `a` went between the two.
    world.list(&[object("b", "2", 2, "x")], 9);
    assert_eq!(world.heard(), ["a deleted"]);
}

#[tokio::test]
async fn what_was_not_watched_for_a_while_counts_after_the_next_list() {
    let world = World::listed(&[object("a", "1", 1, "x"), object("b", "2", 2, "x")], 5);
    world.store.rest();
    assert!(!world.store.is_synced());
    world.list(&[object("b", "2", 2, "x")], 9);
    world.store.synced().await;
    assert_eq!((world.sees("a"), world.sees("b")), (None, Some(2)));
}

#[test]
fn a_late_answer_does_not_go_back_behind_a_list_under_way() {
    let world = World::listed(&[object("a", "1", 1, "x")], 5);
    world.store.feed(Event::Restarted);
    world.store.feed(Event::Listed(object("a", "1", 9, "z")));
    world.store.wrote(object("a", "1", 8, "y"));
    assert_eq!(world.sees("a"), Some(9));
    world.store.feed(Event::ListDone { version: 10 });
    assert_eq!(world.sees("a"), Some(9));
}

#[test]
fn an_own_write_is_read_at_once_and_its_echo_wakes_nobody() {
    let mut world = World::listed(&[object("a", "1", 1, "x")], 5);
    world.store.wrote(object("a", "1", 8, "y"));
    assert_eq!(world.sees("a"), Some(8));
    assert_eq!(world.groups.count(&"y".to_owned()), 1);
    assert_eq!(world.heard(), ["a changed"]);

    // An older event is stored and wakes nobody, nor does the echo.
    world.store.feed(Event::Applied(object("a", "1", 6, "x")));
    assert_eq!(world.sees("a"), Some(8));
    world.store.feed(Event::Applied(object("a", "1", 8, "y")));
    assert_eq!(world.heard(), [""; 0]);
    world.store.feed(Event::Applied(object("a", "1", 9, "z")));
    assert_eq!(world.heard(), ["a changed"]);
    assert_eq!(world.sees("a"), Some(9));
}

#[test]
fn an_answer_that_comes_after_its_echo_is_no_news() {
    let mut world = World::listed(&[], 5);
    world.store.feed(Event::Applied(object("a", "1", 6, "x")));
    world.store.feed(Event::deleted(&object("a", "1", 7, "x")));
    world.store.wrote(object("a", "1", 6, "x"));
    assert_eq!(world.sees("a"), None, "it was deleted since");
    assert_eq!(world.heard(), [""; 0], "came and went unheard");
}

#[test]
fn a_tombstone_holds_against_late_events() {
    let mut world = World::listed(&[object("a", "1", 1, "x")], 5);
    let mut last = object("a", "1", 8, "x");
    last.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    world.store.wrote(last);
    assert_eq!(world.heard(), ["a deleted"]);
    world.store.feed(Event::Applied(object("a", "1", 7, "x")));
    assert_eq!((world.sees("a"), world.groups.count(&"x".to_owned())), (None, 0));
    world.store.feed(Event::deleted(&object("a", "1", 8, "x")));
    assert_eq!(world.heard(), [""; 0]);
    // The name may come back as another object.
    world.store.feed(Event::Applied(object("a", "2", 9, "x")));
    assert_eq!(world.heard(), ["a added"]);
}

#[test]
fn an_object_made_again_under_its_name_survives_the_end_of_the_old_one() {
    let mut world = World::listed(&[object("a", "1", 1, "x")], 5);
    world.store.deleted(&Key::cluster("a"), Some("1"));
    world.store.wrote(object("a", "2", 9, "x"));
    assert_eq!(world.heard(), ["a changed"], "another uid under the same name");
    world.store.feed(Event::Applied(object("a", "1", 7, "x")));
    world.store.feed(Event::deleted(&object("a", "1", 8, "x")));
    assert_eq!(world.sees("a"), Some(9));
    world.store.feed(Event::Applied(object("a", "2", 9, "x")));
    assert_eq!(world.heard(), [""; 0]);
}

#[test]
fn a_list_keeps_only_own_writes_that_are_newer_than_itself() {
    let mut world = World::listed(&[], 5);
    world.store.wrote(object("a", "1", 6, "x"));
    world.store.wrote(object("b", "2", 12, "x"));
    assert_eq!(world.heard(), ["a added", "b added"]);
    world.list(&[], 10);
    assert_eq!(world.heard(), ["a deleted"]);
    // A bookmark, or any event, past the write says that the watch never had it.
    world.store.feed(Event::Progress { version: 20 });
    assert_eq!(world.heard(), ["b deleted"]);
}

#[test]
fn an_odd_object_keeps_its_last_readable_state() {
    let mut world = World::listed(&[object("a", "1", 1, "x")], 5);
    let odd = |version| Odd {
        key: Key::cluster("a"),
        uid: Some("1".into()),
        version,
        error: "no spec".into(),
    };
    world.store.feed(Event::AppliedOdd(odd(6)));
    assert_eq!((world.sees("a"), world.store.odd()), (Some(1), vec![odd(6)]));
    world.store.feed(Event::Restarted);
    world.store.feed(Event::ListedOdd(odd(6)));
    world.store.feed(Event::ListDone { version: 7 });
    assert_eq!(world.heard(), [""; 0], "it exists");
    world.store.feed(Event::deleted(&object("a", "1", 8, "x")));
    assert_eq!(world.heard(), ["a deleted"]);
    assert_eq!(world.store.odd(), []);
}

#[test]
fn a_slow_subscriber_hears_the_sum() {
    let mut world = World::listed(&[object("a", "1", 1, "x")], 5);
    world.store.feed(Event::Applied(object("a", "1", 6, "y")));
    world.store.feed(Event::Applied(object("a", "1", 7, "x")));
    let change = world.changes.try_next().unwrap();
    assert!(!change.differs(|object| object.labels().get("group")));
    assert_eq!(change.new.unwrap().resource_version().as_deref(), Some("7"));
    assert!(world.changes.try_next().is_none());
    assert_eq!(
        world.store.subscribe().try_next().unwrap().key,
        Key::cluster("a"),
        "a late one hears of all"
    );
}

#[test]
fn what_nobody_reads_is_not_kept() {
    let mut world = World::new();
    let mut fat = object("a", "1", 1, "x");
    fat.metadata.managed_fields = Some(vec![ManagedFieldsEntry::default()]);
    fat.annotations_mut().insert(
        "kubectl.kubernetes.io/last-applied-configuration".to_owned(),
        "{}".to_owned(),
    );
    world.list(&[fat], 5);
    let kept = world.changes.try_next().unwrap().new.unwrap();
    assert_eq!(
        (&kept.metadata.managed_fields, &kept.metadata.annotations),
        (&None, &None)
    );
}

#[tokio::test(start_paused = true)]
async fn the_watch_pages_resumes_and_relists() {
    let calls = Arc::new(AtomicUsize::new(0));
    let (asked, mut log) = tokio::sync::mpsc::unbounded_channel();
    let client = testing::client(move |request| {
        asked.send(request.line.clone()).unwrap();
        let call = testing::next(&calls);
        async move {
            let item = |name: &str, version: u64| serde_json::to_value(object(name, name, version, "x")).unwrap();
            let list = |items: Vec<serde_json::Value>, version: u64, more: &str| {
                let meta = serde_json::json!({ "resourceVersion": version.to_string(), "continue": more });
                let list = serde_json::json!({ "kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": items });
                (200, list.to_string())
            };
            let event = |kind: &str, object: serde_json::Value| {
                (
                    200,
                    serde_json::json!({ "type": kind, "object": object }).to_string() + "\n",
                )
            };
            match call {
                0 => testing::failure(403, "Forbidden"),
                1 => list(vec![item("a", 1)], 5, "next"),
                2 => list(vec![item("b", 2)], 5, ""),
                3 => event("MODIFIED", item("a", 6)),
                // After an interruption, whether the server has gone back.
                4 => list(vec![item("a", 6)], 6, ""),
                5 => event(
                    "ERROR",
                    serde_json::from_str(&testing::failure(410, "Expired").1).unwrap(),
                ),
                6 => list(vec![item("a", 6)], 9, ""),
                _ => std::future::pending().await,
            }
        }
    });
    let mut world = World::new();
    let mut state = world.store.state();
    let watch = tokio::spawn(world.store.clone().watch(Api::all(client), Selection::default(), plain));
    state
        .wait_for(|state| {
            matches!(
                state,
                State::Failing {
                    reason: Reason::Forbidden,
                    ..
                }
            )
        })
        .await
        .unwrap();
    assert!(!world.store.is_synced());
    world.store.synced().await;
    world.store.reached(9).await;
    watch.abort();
    assert_eq!(world.heard(), ["a added"], "b came and went");
    assert_eq!(world.sees("a"), Some(6));
    let mut lines = Vec::new();
    while let Ok(line) = log.try_recv() {
        lines.push(line);
    }
    let with = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
    // Fewer until the size of an object is known.
    let lists = (with("limit=16"), with("limit=50"), with("continue=next"));
    assert_eq!(lists, (2, 2, 1), "{lines:#?}");
    assert_eq!(
        (with("watch=true&") > 0, with("resourceVersion=6")),
        (true, 1),
        "{lines:#?}"
    );
}

/// What may happen between an API server, a watch and a writer of our own.
#[derive(Clone, Debug)]
enum Step {
    Write { name: usize, group: usize, own: bool },
    Delete { name: usize, own: bool },
    Answer { pick: usize },
    Event,
    Bookmark,
    List { breaks: bool },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..4_usize, 0..3_usize, any::<bool>()).prop_map(|(name, group, own)| Step::Write { name, group, own }),
        2 => (0..4_usize, any::<bool>()).prop_map(|(name, own)| Step::Delete { name, own }),
        3 => any::<usize>().prop_map(|pick| Step::Answer { pick }),
        6 => Just(Step::Event),
        1 => Just(Step::Bookmark),
        1 => any::<bool>().prop_map(|breaks| Step::List { breaks }),
    ]
}

/// The API server: what is, and the log of how it came about.
#[derive(Default)]
struct Server {
    version: u64,
    objects: BTreeMap<Key, ConfigMap>,
    log: Vec<Event<ConfigMap>>,
    /// How much of the log the watch has shown.
    shown: usize,
    answers: Vec<Answer>,
}

enum Answer {
    Written(Box<ConfigMap>),
    Deleted(Key, Option<String>),
}

impl Server {
    fn run(&mut self, world: &World, step: &Step) {
        match *step {
            Step::Write { name, group, own } => {
                self.version += 1;
                let name = format!("o{name}");
                let uid = self
                    .objects
                    .get(&Key::cluster(name.as_str()))
                    .and_then(ResourceExt::uid);
                let uid = uid.unwrap_or_else(|| self.version.to_string());
                let object = object(&name, &uid, self.version, &format!("g{group}"));
                self.objects.insert(Key::of(&object), object.clone());
                self.log.push(Event::Applied(object.clone()));
                if own {
                    self.answers.push(Answer::Written(Box::new(object)));
                }
            }
            Step::Delete { name, own } => {
                let key = Key::cluster(format!("o{name}"));
                let Some(mut object) = self.objects.remove(&key) else {
                    return;
                };
                self.version += 1;
                object.metadata.resource_version = Some(self.version.to_string());
                self.log.push(Event::deleted(&object));
                if own {
                    self.answers.push(Answer::Deleted(key, object.uid()));
                }
            }
            // Answers overtake each other.
            Step::Answer { pick } => {
                if !self.answers.is_empty() {
                    match self.answers.swap_remove(pick % self.answers.len()) {
                        Answer::Written(object) => drop(world.store.wrote(*object)),
                        Answer::Deleted(key, uid) => world.store.deleted(&key, uid.as_deref()),
                    }
                }
            }
            Step::Event => {
                if let Some(event) = self.log.get(self.shown) {
                    world.store.feed(event.clone());
                    self.shown += 1;
                }
            }
            Step::Bookmark => {
                if self.shown == self.log.len() {
                    world.store.feed(Event::Progress { version: self.version });
                }
            }
            Step::List { breaks } => {
                let objects: Vec<ConfigMap> = self.objects.values().cloned().collect();
                if breaks {
                    world.store.feed(Event::Restarted);
                    for object in &objects[..objects.len() / 2] {
                        world.store.feed(Event::Listed(object.clone()));
                    }
                }
                world.list(&objects, self.version);
                self.shown = self.log.len();
            }
        }
    }
}

proptest! {
    #[test]
    fn any_history_ends_where_the_server_is(steps in proptest::collection::vec(step(), 1..80)) {
        let mut world = World::new();
        let mut server = Server::default();
        // A subscriber that believes only what it hears, and hears at odd moments.
        let mut heard: BTreeMap<Key, ConfigMap> = BTreeMap::new();
        let mut newest: BTreeMap<(Key, String), u64> = BTreeMap::new();
        world.list(&[], 0);

        let mut listen = |world: &mut World| {
            while let Some(Change { key, old, new }) = world.changes.try_next() {
                assert_eq!(heard.get(&key), old.as_deref(), "what a change calls old is what was heard last");
                match new {
                    Some(new) => heard.insert(key, (*new).clone()),
                    None => heard.remove(&key),
                };
            }
            heard.clone()
        };
        for (number, step) in steps.iter().enumerate() {
            server.run(&world, step);
            // Reads never go back within one incarnation.
            for object in world.store.all() {
                let version = event::version(&object.metadata);
                let seen = newest.entry((Key::of(&*object), object.uid().unwrap())).or_default();
                prop_assert!(version >= *seen, "{step:?}: {version} after {seen}");
                *seen = version;
            }
            if number % 3 == 0 {
                listen(&mut world);
            }
        }
        // Every answer and event arrives in the end.
        while !server.answers.is_empty() {
            server.run(&world, &Step::Answer { pick: 0 });
        }
        while server.shown < server.log.len() {
            server.run(&world, &Step::Event);
        }
        let stored: BTreeMap<Key, ConfigMap> = world.store.all().iter().map(|o| (Key::of(&**o), (**o).clone())).collect();
        prop_assert_eq!(&stored, &server.objects);
        prop_assert_eq!(&listen(&mut world), &server.objects);
        for group in ["g0", "g1", "g2"] {
            let indexed: Vec<Key> = world.groups.keys(&group.to_owned());
            let scanned: Vec<Key> =
                server.objects.values().filter(|o| by_group(o) == [group]).map(Key::of).collect();
            prop_assert_eq!(indexed, scanned);
        }
    }
}
