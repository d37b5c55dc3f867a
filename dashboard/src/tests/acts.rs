//! What can be changed: named first, offered only to who may, and done once.

use fleet_testkit::Server;
use serde_json::json;

use super::{visitor::Visitor, world};

#[tokio::test]
async fn what_writes_names_its_effect_first() {
    let visitor = Visitor::new().await;
    let run = visitor.get("/runs/shop-1").await.body;
    let link = "/act?act=approve&amp;namespace=&amp;name=shop-1-after-canary&amp;run=shop-1";
    assert!(run.contains(link), "{run}");
    let asked = visitor.get(&link.replace("&amp;", "&")).await;
    assert!(asked.body.contains("It would.") && asked.body.contains("kubectl fleet approve clusterapprovalrequest"));
    assert!(!asked.body.contains("<script>alert"));
    let form = visitor.door.form();
    assert!(asked.body.contains(form));
    let done = visitor
        .post(&format!("form={form}&act=approve&name=shop-1-after-canary&run=shop-1"))
        .await;
    assert_eq!(done.code, 200);
    assert!(done.body.contains("It did."));
    let did = [
        "preview Approve shop-1-after-canary",
        "perform Approve shop-1-after-canary",
    ];
    assert_eq!(*visitor.scribe.0.lock(), did);
    assert_eq!(visitor.post(&format!("form={form}&act=explode&name=x")).await.code, 400);
}

#[tokio::test]
async fn who_may_not_is_told_why_instead_of_offered_a_button() {
    let server = Server::new();
    world::everything(&server);
    server.answer(|method, path, body| {
        let asks = method == "POST" && path.ends_with("/selfsubjectaccessreviews");
        let subresource = &body["spec"]["resourceAttributes"]["subresource"];
        let allowed = subresource != "status";
        asks.then(|| (201, json!({ "spec": body["spec"], "status": { "allowed": allowed } })))
    });
    let visitor = Visitor::on(server, true).await;
    let run = visitor.get("/runs/shop-1").await.body;
    assert!(
        run.contains("you lack the right to update clusterapprovalrequests/status"),
        "{run}"
    );
    assert!(!run.contains("/act?act=approve") && run.contains("/act?act=stop"));
    // Who types the link is told the same, and finds no button.
    let asked = visitor
        .get("/act?act=approve&name=shop-1-after-canary&run=shop-1")
        .await
        .body;
    assert!(asked.contains("you lack the right") && !asked.contains("<form"));
}

#[tokio::test]
async fn read_only_means_nothing_can_be_changed() {
    let server = Server::new();
    world::everything(&server);
    let visitor = Visitor::on(server, false).await;
    let member = visitor.get("/members/east").await.body;
    assert!(member.contains("read only") && member.contains("--read-only") && !member.contains("/act?"));
    let done = visitor
        .post(&format!("form={}&act=cordon&name=east", visitor.door.form()))
        .await;
    assert!(done.body.contains("--read-only") && visitor.scribe.0.lock().is_empty());
}
