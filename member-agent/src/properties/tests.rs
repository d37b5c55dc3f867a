use bytes::Bytes;
use fleet_api::conditions::properties::CollectionSucceeded;
use fleet_core::session::condition::ReportedCondition;
use http::{Request, Response};
use http_body_util::{BodyExt, Full, StreamBody};
use kube::{Client, client::Body};
use serde_json::json;
use tokio::time::{Instant, timeout};

use super::*;

/// An API server with one node, a pod and a namespace, whose watches say nothing, or do not even begin.
fn api_server(watches: bool) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| async move {
        let (path, query) = (request.uri().path(), request.uri().query().unwrap_or_default());
        let list = |kind: &str, items: serde_json::Value| json!({ "apiVersion": "v1", "kind": kind, "metadata": { "resourceVersion": "5" }, "items": items });
        let body = match path {
            _ if query.contains("watch=") && watches => {
                let nothing = futures::stream::pending::<std::io::Result<_>>();
                return Ok(Response::new(BodyExt::boxed_unsync(StreamBody::new(nothing))));
            }
            _ if query.contains("watch=") => std::future::pending().await,
            "/version" => json!({ "major": "1", "minor": "33", "gitVersion": "v1.33.2", "gitCommit": "",
                                  "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "" }),
            "/api/v1/nodes" => list(
                "NodeList",
                json!([{
                    "metadata": { "name": "n", "uid": "n", "resourceVersion": "1", "labels": {
                        "beta.kubernetes.io/instance-type": "D4", "topology.kubernetes.io/region": "eastus" } },
                    "status": { "capacity": { "cpu": "4", "memory": "16Gi" },
                                "allocatable": { "cpu": "3720m", "memory": "12Gi" } },
                }]),
            ),
            "/api/v1/pods" => {
                assert!(
                    query.contains("fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%21%3DSucceeded%2C"),
                    "{query}"
                );
                list(
                    "PodList",
                    json!([{
                        "metadata": { "name": "p", "namespace": "default", "uid": "p", "resourceVersion": "1" },
                        "spec": { "nodeName": "n", "containers": [{ "resources": { "requests": { "cpu": "720m" } } }] },
                    }]),
                )
            }
            "/api/v1/namespaces" => list(
                "NamespaceList",
                json!([
                { "metadata": { "name": "default", "uid": "d", "resourceVersion": "1" } } ]),
            ),
            other => panic!("{other}"),
        };
        let body = Full::new(Bytes::from(body.to_string())).map_err(|never| match never {});
        Ok::<_, std::convert::Infallible>(Response::new(body.boxed_unsync()))
    });
    Client::new(service, "default")
}

fn words(conditions: &[ReportedCondition]) -> Vec<&str> {
    conditions.iter().map(|c| c.reason.as_str()).collect()
}

fn watched(client: &Client, namespaces: bool) -> Arc<OwnCluster> {
    let cluster = Arc::new(OwnCluster::new(true, namespaces));
    let (running, client) = (cluster.clone(), client.clone());
    tokio::spawn(async move { Box::pin(running.run(client, &fleet_runtime::cache::Era::default())).await });
    cluster
}

fn identity() -> Identity {
    Identity {
        ca: Some("PEM".into()),
        entrypoint: Some("https://api:6443".into()),
    }
}

#[tokio::test(start_paused = true)]
async fn any_cluster_has_something_to_say() {
    let (client, clock) = (api_server(true), Clock::manual(Timestamp::from_second(9).unwrap()));
    let cluster = watched(&client, true);
    let version = Arc::new(Version::new(client, clock.clone()));
    let built_in = BuiltIn::new(cluster, version, identity(), clock);
    let mut collector = Collector::new(Arc::new(built_in), None, Arc::new(|_| {}));
    let message = collector.collect().await.message("u", 3);
    assert!(message.collected);
    let values: Vec<(&str, &str)> = message
        .properties
        .iter()
        .map(|(name, property)| (name.as_str(), property.value.as_str()))
        .collect();
    assert_eq!(
        values,
        [
            ("k8s.io/cluster-certificate-authority-data", "PEM"),
            ("k8s.io/cluster-entrypoint", "https://api:6443"),
            ("k8s.io/k8s-version", "v1.33.2"),
            ("kubernetes-fleet.io/node-count", "1"),
        ]
    );
    let usage = message.usage.unwrap();
    assert_eq!(
        (usage.capacity["cpu"].0.as_str(), usage.allocatable["memory"].0.as_str()),
        ("4", "12Gi")
    );
    assert_eq!(
        (
            usage.available["cpu"].0.as_str(),
            usage.observation_time.unwrap().0.as_second()
        ),
        ("3", 9)
    );
    assert_eq!(message.namespaces.unwrap()["default"], "");
    assert_eq!(words(&message.conditions), ["PropertiesCollected", "Succeeded"]);
}

#[tokio::test(start_paused = true)]
async fn the_azure_provider_adds_sizes_and_costs() {
    let path = std::env::temp_dir().join(format!("fleet-azure-{}", std::process::id()));
    std::fs::write(&path, r#"{"D4": 0.2}"#).unwrap();
    let (client, clock) = (api_server(true), Clock::manual(Timestamp::UNIX_EPOCH));
    let cluster = watched(&client, false);
    let azure = |prices, costs| Azure {
        cluster: cluster.clone(),
        version: Arc::new(Version::new(client.clone(), clock.clone())),
        identity: identity(),
        region: String::new(),
        costs,
        prices,
        clock: clock.clone(),
    };
    let with = azure(Some(PriceFile::new(path.clone())), true);
    assert_eq!(with.start().await, Ok(()), "the region is on the node");
    let collected = with.collect().await;
    let value = |name: &str| collected.properties.get(name).map(|p| p.value.as_str());
    assert_eq!(value("kubernetes.azure.com/vm-sizes/D4/count"), Some("1"));
    assert_eq!(value("kubernetes.azure.com/per-cpu-core-cost"), Some("0.050"));
    assert_eq!(value("kubernetes.azure.com/per-gb-memory-cost"), Some("0.013"));
    assert_eq!(value("k8s.io/cluster-entrypoint"), None);
    assert_eq!(words(&collected.conditions), ["CostsCalculated"]);
    assert_eq!(collected.namespaces, None);

    assert_eq!(
        words(&azure(None, true).collect().await.conditions),
        ["CostsCalculationFailed"]
    );
    let without = azure(None, false).collect().await;
    assert!(
        without.conditions.is_empty()
            && !without
                .properties
                .contains_key("kubernetes.azure.com/per-cpu-core-cost")
    );
    std::fs::remove_file(path).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_region_has_no_prices() {
    let client = api_server(true);
    let clock = Clock::manual(Timestamp::UNIX_EPOCH);
    let azure = Azure {
        cluster: OwnCluster::of(vec![], vec![], None).await,
        version: Arc::new(Version::new(client, clock.clone())),
        identity: Identity::default(),
        region: "eastus".into(),
        costs: true,
        prices: None,
        clock,
    };
    assert_eq!(azure.start().await, Ok(()), "the settings say it");
    assert_eq!(azure.cluster.region(), None);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_seen_is_not_described() {
    // The lists are there, the watches are not: what we have may be old by the time it is asked for.
    let (client, clock) = (api_server(false), Clock::manual(Timestamp::UNIX_EPOCH));
    let cluster = watched(&client, false);
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
            observation_time: Some(Time(Timestamp::from_second(second).unwrap())),
        });
        ClusterReport {
            collected: Some(collected),
            conditions: vec![said(&CollectionSucceeded::Collected)],
        }
    };
    assert!(report("1", 1).same_content(&report("1", 2)));
    assert!(!report("1", 1).same_content(&report("2", 1)));
    assert!(!report("1", 1).same_content(&ClusterReport::failed(&CollectionSucceeded::TimedOut)));
}
