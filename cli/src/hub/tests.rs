use std::ops::ControlFlow;

use fleet_api::placement::ClusterResourcePlacementEviction;
use fleet_testkit::{Fault, Server};
use serde_json::{Value, json};

use super::*;

const EVICTIONS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceplacementevictions";

fn eviction(cluster: &str) -> Value {
    json!({ "spec": { "placementName": "web", "clusterName": cluster } })
}

fn is_on(cluster: &str) -> impl Fn(&ClusterResourcePlacementEviction) -> bool {
    move |eviction| eviction.spec.cluster_name == cluster
}

fn name(eviction: &ClusterResourcePlacementEviction) -> String {
    eviction.metadata.name.clone().unwrap_or_default()
}

#[tokio::test]
async fn lists_come_in_pages_and_one_odd_object_is_named() {
    let server = Server::new();
    for i in 0..600 {
        server.put(
            &format!("{EVICTIONS}/e{i:03}"),
            eviction(if i % 2 == 0 { "east" } else { "west" }),
        );
    }
    server.put(&format!("{EVICTIONS}/odd"), json!({ "spec": 7 }));
    let listed = Hub::new(server.client()).list("", is_on("east")).await.expect("a list");
    assert_eq!(
        (listed.items.len(), listed.version),
        (300, server.version().to_string())
    );
    let [odd] = listed.odd.as_slice() else {
        panic!("{:?}", listed.odd)
    };
    assert!(
        odd.starts_with("ClusterResourcePlacementEviction odd cannot be read: "),
        "{odd}"
    );
}

/// What was heard of until the eviction called `last`.
async fn heard_until(server: &Server, mut version: String, last: &str) -> Result<Vec<String>, Problem> {
    let mut heard = Vec::new();
    let hub = Hub::new(server.client());
    hub.follow(&mut version, is_on("east"), |news| {
        match news {
            News::Is(eviction) => heard.push(format!("is {}", name(&eviction))),
            News::Gone(eviction) => heard.push(format!("gone {}", name(&eviction))),
            News::All(all) => heard.push(format!("all {}", all.iter().map(name).collect::<Vec<_>>().join(","))),
        }
        match heard.last() {
            Some(news) if news.ends_with(last) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })
    .await
    .map(|()| heard)
}

#[tokio::test(start_paused = true)]
async fn a_watch_goes_on_where_it_was_and_looks_again_when_history_is_gone() {
    let server = Server::new();
    let before = server.version().to_string();
    server.put(&format!("{EVICTIONS}/a"), eviction("east"));
    server.put(&format!("{EVICTIONS}/b"), eviction("west"));
    server.put(&format!("{EVICTIONS}/c"), eviction("east"));
    server.delete(&format!("{EVICTIONS}/a"));
    let heard = heard_until(&server, before.clone(), "gone a").await.expect("news");
    assert_eq!(heard, ["is a", "is c", "gone a"]);

    // The API server is away for a moment.
    server.fail(Fault::new("clusterresourceplacementevictions", 503).times(3));
    let heard = heard_until(&server, before.clone(), "gone a").await.expect("news");
    assert_eq!(heard, ["is a", "is c", "gone a"]);

    server.compact();
    let heard = heard_until(&server, before, "c").await.expect("news");
    assert_eq!(heard, ["all c"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_and_a_missing_right_end_it() {
    let server = Server::new();
    server.fail(Fault::new("clusterresourceplacementevictions", 503));
    let gone = heard_until(&server, "1".to_owned(), "x")
        .await
        .expect_err("nobody answers");
    assert_eq!(gone.exit().code(), 1);
    server.recover();
    server.fail(Fault::new("clusterresourceplacementevictions", 403).times(1));
    let refused = heard_until(&server, "1".to_owned(), "x")
        .await
        .expect_err("it is refused");
    assert_eq!(refused.exit().code(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_write_of_somebody_else_is_no_failure_unless_it_never_ends() {
    let server = Server::new();
    let path = format!("{EVICTIONS}/a");
    server.put(&path, eviction("east"));
    let hub = Hub::new(server.client());
    let named = Named {
        namespace: None,
        name: "a",
    };
    let label = || {
        hub.change::<ClusterResourcePlacementEviction>(named, Part::Object, |object| {
            object
                .metadata
                .labels
                .get_or_insert_default()
                .insert("own".to_owned(), "yes".to_owned());
            Ok(true)
        })
    };
    server.fail(Fault::new("/a", 409).writes().times(ATTEMPTS - 1));
    assert!(label().await.expect("it was written in the end"));
    assert_eq!(
        server.get(&path).expect("it is there")["metadata"]["labels"]["own"],
        "yes"
    );
    server.fail(Fault::new("/a", 409).writes());
    let failed = label().await.expect_err("somebody writes all the time");
    assert!(
        matches!(&failed, Unchanged::Unwritten(problem) if problem.is_conflict()),
        "{failed:?}"
    );
    let refused = server.writes().len();
    server.recover();
    server.fail(Fault::new("/a", 403).writes());
    let failed = label().await.expect_err("it is refused");
    assert!(matches!(failed, Unchanged::Unwritten(_)));
    assert_eq!(server.writes().len(), refused + 1, "no second try");
}

#[tokio::test(start_paused = true)]
async fn a_frozen_api_server_is_not_waited_for_without_end() {
    let hub = Hub::new(fleet_testkit::frozen());
    let mut version = "1".to_owned();
    let waited = tokio::time::timeout(
        Duration::from_mins(10),
        hub.follow(&mut version, is_on("east"), |_| ControlFlow::Continue(())),
    );
    let failed = waited.await.expect("it ends by itself").expect_err("nobody answers");
    assert!(
        failed.to_string().contains("the API server does not answer"),
        "{failed}"
    );
}
