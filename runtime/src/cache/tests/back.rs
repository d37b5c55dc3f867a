//! An API server that was restored from a backup.

use parking_lot::Mutex;
use serde_json::json;

use super::*;

/// A server at a version, with these objects; its watches end at once or stay silent.
struct Restored {
    version: u64,
    items: Vec<ConfigMap>,
    watches_end: bool,
}

type Served = Arc<Mutex<Restored>>;

fn serve(served: &Served) -> (kube::Client, tokio::sync::mpsc::UnboundedReceiver<String>) {
    let (asked, log) = tokio::sync::mpsc::unbounded_channel();
    let served = served.clone();
    let client = testing::client(move |request| {
        let watching = request.line.contains("watch=true");
        asked.send(request.line).unwrap();
        let (list, ends) = {
            let now = served.lock();
            let meta = json!({ "resourceVersion": now.version.to_string() });
            let list = json!({ "kind": "ConfigMapList", "apiVersion": "v1", "metadata": meta, "items": now.items });
            (list.to_string(), now.watches_end)
        };
        async move {
            match (watching, ends) {
                (false, _) => (200, list),
                (true, true) => (200, String::new()),
                (true, false) => (200, testing::OPEN.to_owned()),
            }
        }
    });
    (client, log)
}

fn served(version: u64, items: Vec<ConfigMap>, watches_end: bool) -> Served {
    Arc::new(Mutex::new(Restored {
        version,
        items,
        watches_end,
    }))
}

fn watched(world: &World, client: kube::Client, era: &Era) -> tokio::task::JoinHandle<()> {
    tokio::spawn(world.store.clone().watch(Api::all(client), Selection::all(era), plain))
}

#[tokio::test(start_paused = true)]
async fn versions_that_go_back_begin_everything_anew() {
    let (old_a, old_b) = (object("a", "1", 90, "new"), object("b", "2", 100, "x"));
    let server = served(100, vec![old_a, old_b], true);
    let (client, mut log) = serve(&server);
    let (mut world, era) = (World::new(), Era::default());
    let watch = watched(&world, client, &era);
    world.store.synced().await;
    // An own write that the backup does not know, and an own deletion.
    world.store.wrote(object("c", "3", 101, "x"));
    world.store.deleted(&Key::cluster("b"), Some("2"));
    let waiting = tokio::spawn({
        let store = world.store.clone();
        async move { store.reached(120).await }
    });
    world.heard();

    *server.lock() = Restored {
        version: 60,
        items: vec![object("a", "1", 40, "old"), object("b", "2", 50, "x")],
        watches_end: false,
    };
    assert_eq!(era.over(0).await, 1, "noticed after the interruption");
    waiting.await.unwrap();
    world.store.synced().await;
    assert_eq!(
        (world.sees("a"), world.sees("b"), world.sees("c")),
        (Some(40), Some(50), None)
    );
    assert_eq!(world.groups.keys(&"old".to_owned()), [Key::cluster("a")]);
    let (mut state, mut lines) = (world.store.state(), Vec::new());
    state.wait_for(|state| *state == State::Watching).await.unwrap();
    watch.abort();
    while let Ok(line) = log.try_recv() {
        lines.push(line);
    }
    assert!(
        lines
            .iter()
            .any(|line| line.contains("limit=1&") || line.ends_with("limit=1")),
        "{lines:#?}"
    );
    assert!(lines.last().unwrap().contains("resourceVersion=60"), "{lines:#?}");
}

#[tokio::test(start_paused = true)]
async fn what_one_watch_notices_begins_the_others_anew() {
    // Its versions have caught up: nothing shows from here that the server was restored.
    let server = served(100, vec![object("a", "1", 90, "x")], false);
    let (client, _log) = serve(&server);
    let (mut world, era) = (World::new(), Era::default());
    let watch = watched(&world, client, &era);
    world.store.synced().await;
    world.heard();
    *server.lock() = Restored {
        version: 130,
        items: vec![object("z", "9", 80, "x")],
        watches_end: false,
    };
    era.end(0);
    world.store.reached(130).await;
    watch.abort();
    assert_eq!(world.heard(), ["a deleted", "z added"]);
}

#[tokio::test(start_paused = true)]
async fn a_watch_without_bookmarks_is_looked_after() {
    let server = served(100, vec![object("a", "1", 90, "x")], false);
    let (client, mut log) = serve(&server);
    let (world, era) = (World::new(), Era::default());
    let watch = watched(&world, client, &era);
    world.store.synced().await;
    let began = tokio::time::Instant::now();
    server.lock().version = 99;
    era.over(0).await;
    watch.abort();
    assert!(
        began.elapsed() < std::time::Duration::from_mins(2),
        "{:?}",
        began.elapsed()
    );
    let mut checks = 0;
    while let Ok(line) = log.try_recv() {
        checks += usize::from(line.contains("limit=1&") || line.ends_with("limit=1"));
    }
    assert_eq!(checks, 1, "one request, and none while all is well");
}
