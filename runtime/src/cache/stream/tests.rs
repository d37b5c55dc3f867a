//! What both users of a stream rely on.

use fleet_testkit::{Fault, Server};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, ResourceExt as _, core::PartialObjectMeta};
use parking_lot::Mutex;
use serde_json::json;

use super::*;
use crate::cache::{Metadata, Reason};

const HOME: &str = "/api/v1/namespaces/default/configmaps";

/// What a stream shows, as one line each.
struct Told {
    lines: Mutex<Vec<String>>,
    more: tokio::sync::Notify,
}

impl Told {
    fn new() -> std::sync::Arc<Self> {
        std::sync::Arc::new(Self {
            lines: Mutex::default(),
            more: tokio::sync::Notify::new(),
        })
    }

    fn take(&self, shown: &Shown<PartialObjectMeta<ConfigMap>>) {
        let line = match shown {
            Shown::Restarted => "list".to_owned(),
            Shown::Listed(object) => format!("has {}", object.name_any()),
            Shown::ListDone(_) => "listed".to_owned(),
            Shown::Watching { anew } => format!("watching{}", if *anew { " anew" } else { "" }),
            Shown::Applied(object) => format!("applied {}", object.name_any()),
            Shown::Deleted(object) => format!("deleted {}", object.name_any()),
            Shown::Progress(_) => "progress".to_owned(),
            Shown::Undecodable(_) => "undecodable".to_owned(),
            Shown::WentBack { .. } => "went back".to_owned(),
            Shown::EraOver => "era over".to_owned(),
        };
        self.lines.lock().push(line);
        self.more.notify_one();
    }

    /// The lines so far, once this is the last of them.
    async fn until(&self, last: &str) -> Vec<String> {
        let arrived = async {
            loop {
                if self.lines.lock().last().is_some_and(|line| line == last) {
                    return std::mem::take(&mut *self.lines.lock());
                }
                self.more.notified().await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_mins(10), arrived).await;
        waited.unwrap_or_else(|_| panic!("no {last:?}: {:?}", self.lines.lock()))
    }
}

fn stream(server: &Server, start: Start, era: &Era) -> Stream<Metadata<ConfigMap>> {
    let api = Api::<ConfigMap>::namespaced(server.client(), "default");
    Stream::new(Metadata(api), Selection::all(era), start, 0)
}

/// Runs a stream as its users do.
fn run(mut stream: Stream<Metadata<ConfigMap>>) -> std::sync::Arc<Told> {
    let told = Told::new();
    let sink = told.clone();
    tokio::spawn(async move {
        loop {
            stream.run(&mut |shown| sink.take(&shown)).await;
            stream.pause().await;
        }
    });
    told
}

#[tokio::test(start_paused = true)]
async fn a_list_comes_first_and_changes_follow() {
    let server = Server::new();
    server.put(&format!("{HOME}/a"), json!({}));
    let told = run(stream(&server, Start::List, &Era::default()));
    assert_eq!(
        told.until("watching anew").await,
        ["list", "has a", "listed", "watching anew"]
    );
    server.put(&format!("{HOME}/b"), json!({}));
    server.delete(&format!("{HOME}/a"));
    assert_eq!(told.until("deleted a").await, ["applied b", "deleted a"]);
    server.bookmark();
    told.until("progress").await;
}

#[tokio::test(start_paused = true)]
async fn without_a_list_it_begins_now_and_goes_on_where_it_was() {
    let server = Server::new();
    server.put(&format!("{HOME}/a"), json!({}));
    let told = run(stream(&server, Start::Now, &Era::default()));
    assert_eq!(told.until("watching anew").await, ["watching anew"]);
    server.put(&format!("{HOME}/b"), json!({}));
    told.until("applied b").await;
    server.end_watches();
    server.put(&format!("{HOME}/c"), json!({}));
    assert_eq!(told.until("applied c").await, ["watching", "applied c"], "no gap");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_old_to_go_on_from_leaves_a_gap_or_is_listed_anew() {
    for (start, again) in [
        (Start::Now, &["watching", "watching anew"][..]),
        (
            Start::List,
            &["watching", "list", "has a", "has b", "listed", "watching anew"],
        ),
    ] {
        let server = Server::new();
        server.put(&format!("{HOME}/a"), json!({}));
        let told = run(stream(&server, start, &Era::default()));
        told.until("watching anew").await;
        server.lag();
        server.put(&format!("{HOME}/b"), json!({}));
        server.end_watches();
        server.compact();
        server.catch_up();
        assert_eq!(told.until("watching anew").await, again, "{start:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_era_that_is_over_begins_it_anew() {
    let (server, era) = (Server::new(), Era::default());
    let told = run(stream(&server, Start::Now, &era));
    told.until("watching anew").await;
    era.end(0);
    assert_eq!(told.until("watching anew").await, ["era over", "watching anew"]);
}

#[tokio::test(start_paused = true)]
async fn an_interruption_says_why_and_how_often() {
    let server = Server::new();
    server.fail(Fault::new(HOME, 404).times(2));
    let mut stream = stream(&server, Start::Now, &Era::default());
    for failures in 1..=2 {
        let why = stream.run(&mut |_| {}).await;
        assert_eq!((why.failures, why.reason), (failures, Reason::NotFound));
        assert!(why.message.starts_with("could not list"), "{}", why.message);
    }
    let told = run(stream);
    told.until("watching anew").await;
}

#[tokio::test(start_paused = true)]
async fn who_is_patient_with_refusals_asks_seldom() {
    let patient = Backoff {
        min: Duration::from_secs(5),
        max: Duration::from_mins(5),
    };
    for (code, refused, most) in [
        (403, Some(patient), 20),
        (404, Some(patient), 20),
        (503, Some(patient), 200),
    ] {
        let server = Server::new();
        server.fail(Fault::new(HOME, code));
        let api = Api::<ConfigMap>::namespaced(server.client(), "default");
        let selection = Selection {
            refused,
            ..Selection::all(&Era::default())
        };
        let told = run(Stream::new(Metadata(api), selection, Start::List, 0));
        tokio::time::sleep(Duration::from_hours(1)).await;
        let asked = told.lines.lock().iter().filter(|line| *line == "list").count();
        assert!((asked <= most) && asked > most / 4, "{code}: {asked}");
        server.recover();
        told.until("watching anew").await;
    }
}
