//! What can be changed: named first, offered only to who may, and done once.

use fleet_testkit::{Fault, Server};
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
        "performed Approve shop-1-after-canary",
    ];
    assert_eq!(*visitor.scribe.0.lock(), did);
    // Loading the page again does nothing again.
    let posted = visitor.posted(&format!("form={form}&act=cordon&name=east")).await;
    assert_eq!(posted.code, 303);
    let next = posted.headers["location"].to_str().unwrap();
    for _ in 0..2 {
        assert!(visitor.get(next).await.body.contains("It did."));
    }
    assert_eq!(visitor.scribe.0.lock().len(), 5);
    assert_eq!(visitor.get("/done?number=77").await.code, 404);
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

#[tokio::test]
async fn what_is_left_is_not_called_done() {
    let visitor = Visitor::new().await;
    let form = visitor.door.form();
    let drained = visitor.post(&format!("form={form}&act=drain&name=east")).await.body;
    assert!(
        drained.contains("Not everything is done") && !drained.contains("Done."),
        "{drained}"
    );
    let cordoned = visitor.post(&format!("form={form}&act=cordon&name=east")).await.body;
    assert!(cordoned.contains("Done."), "{cordoned}");
}

#[tokio::test]
async fn an_act_is_carried_out_although_nobody_waits_for_it() {
    let visitor = Visitor::new().await;
    let body = format!("form={}&act=cordon&name=east", visitor.door.form());
    let gate = visitor.scribe.1.lock().await;
    tokio::select! {
        biased;
        _ = visitor.post(&body) => panic!("it waits for the gate"),
        () = visitor.scribe.until("perform Cordon east") => {}
    }
    drop(gate);
    visitor.scribe.until("performed Cordon east").await;
}

#[tokio::test]
async fn a_right_is_asked_for_again_if_the_hub_did_not_answer() {
    let visitor = Visitor::new().await;
    visitor.server.fail(Fault::new("/selfsubjectaccessreviews", 500));
    let member = visitor.get("/members/east").await.body;
    assert!(member.contains("does not say whether you may"), "{member}");
    visitor.server.recover();
    tokio::time::pause();
    tokio::time::advance(tokio::time::Duration::from_secs(6)).await;
    tokio::time::resume();
    let member = visitor.get("/members/east").await.body;
    assert!(!member.contains("does not say whether you may"), "{member}");
}
