//! What the hub does to a page that stays open.

use fleet_testkit::{Fault, Server};
use futures::StreamExt as _;
use http::Method;
use serde_json::json;

use super::{
    visitor::{HOST, Visitor},
    world,
};

/// The next fragment of a stream that has `text`.
async fn until(stream: &mut (impl futures::Stream<Item = String> + Unpin), text: &str) -> String {
    let wanted = async {
        let mut event = String::new();
        while let Some(part) = stream.next().await {
            event.push_str(&part);
            if event.ends_with("\n\n") {
                if event.contains(text) {
                    return event;
                }
                event.clear();
            }
        }
        panic!("the stream ended without {text:?}");
    };
    let patience = tokio::time::Duration::from_secs(20);
    tokio::time::timeout(patience, wanted)
        .await
        .unwrap_or_else(|_| panic!("{text:?} never came"))
}

async fn live(visitor: &Visitor, at: &str) -> impl futures::Stream<Item = String> + Unpin + use<> {
    let headers = [("host", HOST), ("cookie", visitor.cookie.as_str())];
    let path = format!(
        "/live?at={}",
        percent_encoding::utf8_percent_encode(at, percent_encoding::NON_ALPHANUMERIC)
    );
    let response = visitor.open(Method::GET, &path, &headers, "").await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let stream = response.into_body().into_data_stream();
    stream
        .map(|bytes| String::from_utf8(bytes.unwrap().to_vec()).unwrap())
        .boxed()
}

#[tokio::test]
async fn a_change_is_in_an_open_page_at_once() {
    let visitor = Visitor::new().await;
    let mut stream = live(&visitor, "/").await;
    until(&mut stream, "metrics").await;
    world::placement(&visitor.server, "", "brand-new", &json!({}), &[]);
    until(&mut stream, "brand-new").await;
    visitor
        .server
        .delete(&format!("{}/clusterresourceplacements/brand-new", world::PLACEMENTS));
    let gone = async {
        loop {
            if !until(&mut stream, "metrics").await.contains("brand-new") {
                return;
            }
        }
    };
    gone.await;
}

#[tokio::test]
async fn two_tabs_hear_the_same_and_a_closed_one_gives_its_place_back() {
    let visitor = Visitor::new().await;
    // More than may be open at once, one after the other.
    for _ in 0..40 {
        let mut stream = live(&visitor, "/runs").await;
        until(&mut stream, "shop-1").await;
    }
    let (mut one, mut two) = (live(&visitor, "/runs").await, live(&visitor, "/runs/shop-1").await);
    until(&mut one, "waits").await;
    until(&mut two, "approval wanted").await;
}

#[tokio::test]
async fn an_api_server_that_is_gone_is_said_and_its_return_too() {
    let visitor = Visitor::new().await;
    let mut stream = live(&visitor, "/").await;
    until(&mut stream, "metrics").await;
    visitor.server.fail(Fault::new("/apis", 503));
    visitor.server.end_watches();
    let stale = until(&mut stream, "Stale since").await;
    assert!(stale.contains("metrics"), "what was known stays");
    world::placement(&visitor.server, "", "meanwhile", &json!({}), &[]);
    visitor.server.recover();
    let back = async {
        loop {
            if !until(&mut stream, "meanwhile").await.contains("Stale since") {
                return;
            }
        }
    };
    back.await;
}

#[tokio::test]
async fn kinds_that_one_may_not_read_are_named_and_the_rest_is_shown() {
    let server = Server::new();
    world::everything(&server);
    server.fail(Fault::new("/clusterstagedupdateruns", 403));
    server.fail(Fault::new("/resourcebindings", 404));
    let visitor = Visitor::on(server, true).await;
    let fleet = visitor.get("/").await.body;
    assert!(fleet.contains("Hidden: </strong>clusterstagedupdateruns."), "{fleet}");
    assert!(fleet.contains("Not on this hub: </strong>resourcebindings."), "{fleet}");
    assert!(fleet.contains("/placements/metrics"));
}

#[tokio::test]
async fn a_hub_without_anything_says_what_to_do() {
    let visitor = Visitor::on(Server::new(), true).await;
    assert!(visitor.hub.members.is_empty());
    let fleet = visitor.get("/").await.body;
    assert!(fleet.contains("no members yet") && fleet.contains("kubectl fleet join"));
    for path in [
        "/placements",
        "/runs",
        "/members",
        "/timeline",
        "/placements/x/differences",
    ] {
        assert!(visitor.get(path).await.body.contains("class=\"empty\""), "{path}");
    }
    assert_eq!(visitor.get("/nothing/here").await.code, 404);
}
