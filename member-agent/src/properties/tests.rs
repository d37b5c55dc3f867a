use fleet_proto::convert;
use http::{Request, Response};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::*;

/// An API server with one node, two pods, and lists that lead to watches without events.
fn api_server() -> Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let list = |kind: &str, items: serde_json::Value| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "resourceVersion": "5" }, "items": items });
        let body = match path {
            _ if query.contains("watch=") => {
                // The server says nothing for a long time.
                std::future::pending::<()>().await;
                unreachable!()
            }
            "/version" => {
                json!({ "major": "1", "minor": "33", "gitVersion": "v1.33.2", "gitCommit": "", "gitTreeState": "",
                                  "buildDate": "", "goVersion": "", "compiler": "", "platform": "" })
            }
            "/api/v1/nodes" => list(
                "NodeList",
                json!([{
                    "metadata": { "name": "n", "uid": "n", "resourceVersion": "1",
                                  "labels": { "beta.kubernetes.io/instance-type": "D4" } },
                    "status": { "capacity": { "cpu": "4", "memory": "16Gi" }, "allocatable": { "cpu": "3720m", "memory": "12Gi" } },
                }]),
            ),
            "/api/v1/pods" => {
                assert!(
                    query.contains("fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2C"),
                    "{query}"
                );
                list("PodList", json!([]))
            }
            "/api/v1/namespaces" => list(
                "NamespaceList",
                json!([
                { "metadata": { "name": "default", "uid": "d", "resourceVersion": "1" } } ]),
            ),
            other => panic!("{other}"),
        };
        Ok::<_, std::convert::Infallible>(Response::new(Body::from(body.to_string().into_bytes())))
    });
    Client::new(service, "default")
}

fn words(conditions: &[convert::Condition]) -> Vec<&str> {
    conditions.iter().map(|c| c.reason.as_str()).collect()
}

/// A cluster that counts as watched although the scripted watch has not answered.
async fn watched(namespaces: bool) -> (Arc<Cluster>, Client) {
    let (client, cluster) = (api_server(), Arc::new(Cluster::new(true, namespaces)));
    let (running, with) = (cluster.clone(), client.clone());
    tokio::spawn(async move { running.run(with).await });
    (cluster, client)
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_cannot_see_the_cluster_does_not_respond() {
    // The lists are there, the watches are not: what we have may be old by the time it is asked for.
    let (cluster, client) = watched(false).await;
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let version = Arc::new(Version::new(client, clock.clone()));
    let built_in = BuiltIn::new(cluster, version, Identity::default(), clock);
    let mut collector = Collector::new(Arc::new(built_in), None, Arc::new(|_| {}));
    let began = Instant::now();
    let report = collector.collect().await;
    assert_eq!(words(&report.conditions), ["TimedOut"]);
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    let message = report.message("u", 3);
    assert!(!message.collected && message.properties.is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_version_is_kept_for_a_quarter_of_an_hour() {
    let answers = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counter = answers.clone();
    let service = tower::service_fn(move |_: Request<Body>| {
        let n = counter.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        async move {
            let body = json!({ "major": "1", "minor": "33", "gitVersion": format!("v{n}"), "gitCommit": "",
                               "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "" });
            let mut answer = Response::new(Body::from(body.to_string().into_bytes()));
            if n == 1 {
                *answer.status_mut() = http::StatusCode::INTERNAL_SERVER_ERROR;
            }
            Ok::<_, std::convert::Infallible>(answer)
        }
    });
    let version = Version::new(Client::new(service, "default"), Clock::manual(Timestamp::UNIX_EPOCH));
    assert_eq!(version.get().await.unwrap().0, "v0");
    tokio::time::advance(Duration::from_mins(14)).await;
    assert_eq!(version.get().await.unwrap().0, "v0");
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(version.get().await.is_err(), "expired, and the server does not say");
    assert_eq!(version.get().await.unwrap().0, "v2");
}

/// A provider that counts.
struct Counting(std::sync::atomic::AtomicU32);

impl Provider for Counting {
    fn start(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn collect(&self) -> BoxFuture<'_, Collected> {
        let n = self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let mut collected = Collected::default();
        collected.set("n", n.to_string(), Timestamp::UNIX_EPOCH);
        Box::pin(std::future::ready(collected))
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_reported_at_once_but_at_most_every_second() {
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let (changed, beat) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (sender, mut reports) = watch::channel(None);
    let collector = Collector::new(Arc::new(Counting(0.into())), None, Arc::new(|_| {}));
    tokio::spawn(run(collector, changed.clone(), beat.clone(), clock.clone(), sender));
    let soon = Duration::from_millis(500);
    timeout(soon, reports.changed()).await.unwrap().unwrap();
    assert!(timeout(soon, reports.changed()).await.is_err(), "nothing happens");

    changed.notify_one();
    assert!(
        timeout(soon, reports.changed()).await.is_err(),
        "too early, by the clock that stands"
    );
    clock.set(Timestamp::from_second(5).unwrap());
    changed.notify_one();
    timeout(soon, reports.changed()).await.unwrap().unwrap();
    beat.notify_one();
    timeout(soon, reports.changed()).await.unwrap().unwrap();
}

#[test]
fn only_times_are_no_content() {
    let report = |value: &str, second| {
        let mut collected = Collected::default();
        collected.set("a", value, Timestamp::from_second(second).unwrap());
        collected.usage = Some(ResourceUsage {
            capacity: BTreeMap::new(),
            allocatable: BTreeMap::new(),
            available: BTreeMap::new(),
            observed_at: Timestamp::from_second(second).unwrap(),
        });
        Report {
            collected: Some(collected),
            conditions: vec![said(&CollectionSucceeded::Collected)],
        }
    };
    assert!(report("1", 1).same_content(&report("1", 2)));
    assert!(!report("1", 1).same_content(&report("2", 1)));
    assert!(!report("1", 1).same_content(&Report::failed(&CollectionSucceeded::TimedOut)));
}
