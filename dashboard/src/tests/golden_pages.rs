//! Every page as it is sent, in `golden/`: `GOLDEN=write` writes them anew, and the difference is there to be read.

use std::{path::PathBuf, sync::Arc};

use fleet_testkit::{Fault, Server};
use http::Method;
use parking_lot::Mutex;
use serde_json::json;

use super::{
    visitor::{Answer, HOST, Visitor},
    world,
};

const PAGES: [(&str, &str); 21] = [
    ("fleet", "/"),
    ("fleet-grouped", "/?group=region&show=trouble"),
    ("fleet-nothing-fits", "/?q=nothing-is-called-so"),
    ("placements", "/placements"),
    ("placement-drifted", "/placements/web"),
    ("placement-namespaced", "/namespaces/team-a/placements/api"),
    ("placement-not-there", "/placements/gone"),
    ("on-drifted", "/placements/web/on/east"),
    ("on-not-picked", "/placements/web/on/south"),
    ("differences", "/placements/web/differences"),
    ("snapshots", "/placements/web/snapshots"),
    ("runs", "/runs"),
    ("run", "/runs/shop-1"),
    ("members", "/members"),
    ("member-silent", "/members/north"),
    ("timeline", "/placements/web/timeline"),
    ("timeline-fleet", "/timeline"),
    ("timeline-run", "/runs/shop-1/timeline"),
    ("timeline-member", "/members/east/timeline"),
    ("act", "/act?act=approve&name=shop-1-after-canary&run=shop-1"),
    ("act-impossible", "/act?act=approve&name=gone&run=shop-1"),
];

/// A tag to a line: so a difference shows what has changed.
fn lines(html: &str) -> String {
    let mut text = html.replace("><", ">\n<");
    text.push('\n');
    text
}

/// Pages that are other ones than in their files.
#[derive(Default)]
struct Golden(Vec<String>);

impl Golden {
    fn compare(&mut self, name: &str, answer: &Answer, code: u16, visitor: &Visitor) {
        assert_eq!(answer.code, code, "{name}");
        let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("src/tests/golden/{name}.html"));
        // The secret of forms is another one each time.
        let page = lines(&answer.body).replace(visitor.door.form(), "(secret)");
        if std::env::var("GOLDEN").is_ok_and(|word| word == "write") {
            std::fs::write(&file, &page).unwrap();
        } else if std::fs::read_to_string(&file).unwrap_or_default() != page {
            self.0.push(name.to_owned());
        }
    }
}

impl Drop for Golden {
    fn drop(&mut self) {
        assert!(
            self.0.is_empty() || std::thread::panicking(),
            "these pages are other ones now: {:?}; GOLDEN=write writes them",
            self.0
        );
    }
}

#[tokio::test]
async fn every_page_is_as_it_was() {
    let visitor = Visitor::new().await;
    let mut golden = Golden::default();
    for (name, path) in PAGES {
        golden.compare(name, &visitor.get(path).await, 200, &visitor);
    }
}

#[tokio::test]
async fn what_leads_to_pages_is_as_it_was() {
    let visitor = Visitor::new().await;
    let mut golden = Golden::default();
    let form = visitor.door.form().to_owned();
    for (name, act) in [("done", "cordon"), ("done-in-part", "drain")] {
        let answer = visitor.post(&format!("form={form}&act={act}&name=east")).await;
        golden.compare(name, &answer, 200, &visitor);
    }
    let link = visitor.door.link().unwrap();
    let path = link.strip_prefix("http://127.0.0.1:4000").unwrap();
    for (name, code) in [("login", 200), ("login-used", 403)] {
        let answer = visitor.send(Method::GET, path, &[("host", HOST)], "").await;
        golden.compare(name, &answer, code, &visitor);
    }
    let answer = visitor.send(Method::GET, "/", &[("host", HOST)], "").await;
    golden.compare("not-let-in", &answer, 403, &visitor);
    golden.compare("no-such-page", &visitor.get("/nothing").await, 404, &visitor);
}

#[tokio::test]
async fn what_two_snapshots_hold_is_shown_as_it_was() {
    let server = Server::new();
    world::everything(&server);
    for (index, replicas) in [(4, 2), (5, 3)] {
        let labels = json!({
            "kubernetes-fleet.io/parent-CRP": "metrics", "kubernetes-fleet.io/resource-index": index.to_string(),
        });
        let path = format!(
            "{}/clusterresourcesnapshots/metrics-{index}-snapshot",
            world::PLACEMENTS
        );
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "api", "namespace": "metrics"},
            "spec": {"replicas": replicas},
        });
        server.put(
            &path,
            json!({"metadata": {"labels": labels}, "spec": {"selectedResources": [deployment]}}),
        );
    }
    let visitor = Visitor::on(server, true).await;
    let mut golden = Golden::default();
    let answer = visitor.get("/placements/metrics/changes?from=4&to=5").await;
    golden.compare("changes", &answer, 200, &visitor);
    let answer = visitor.get("/placements/metrics/changes?from=5&to=6").await;
    golden.compare("changes-gone", &answer, 200, &visitor);
}

#[tokio::test]
async fn what_is_not_known_is_said_as_it_was() {
    let visitor = Visitor::on(Server::new(), false).await;
    let mut golden = Golden::default();
    for (name, path) in [
        ("empty-fleet", "/"),
        ("empty-runs", "/runs"),
        ("empty-timeline", "/timeline"),
    ] {
        golden.compare(name, &visitor.get(path).await, 200, &visitor);
    }
    let server = Server::new();
    world::everything(&server);
    server.fail(Fault::new("/clusterstagedupdateruns", 403));
    server.fail(Fault::new("/resourcebindings", 404));
    server.put(
        &format!("{}/clusterresourceplacements/odd", world::PLACEMENTS),
        json!({"spec": {"policy": "all of them"}}),
    );
    let visitor = Visitor::on(server, true).await;
    golden.compare("hidden", &visitor.get("/runs").await, 200, &visitor);
}

#[tokio::test]
async fn markup_in_names_and_messages_is_text_on_every_page() {
    let visitor = Visitor::new().await;
    let mut shown = 0;
    for (_, path) in PAGES {
        let body = visitor.get(path).await.body;
        for tag in ["<script>", "<img src=x", "onerror=alert(1)>'"] {
            assert!(!body.contains(tag), "{tag} in {path}");
        }
        shown += body.matches("&lt;script&gt;alert(1)").count();
    }
    assert!(shown > 5, "the markup is there to be escaped: {shown}");
    // What is called so is a part of links too.
    let name = percent_encoding::utf8_percent_encode(world::MARKUP, percent_encoding::NON_ALPHANUMERIC);
    for path in ["/placements", "/runs", "/members"] {
        let body = visitor.get(&format!("{path}/{name}")).await.body;
        assert!(
            body.contains("&lt;script&gt;") && !body.contains("<script>") && !body.contains("<img src=x"),
            "{path}"
        );
    }
    let body = visitor.get(&format!("/?q={name}&group={name}")).await.body;
    assert!(
        !body.contains("<script>") && !body.contains("value=\"<"),
        "in the filter"
    );
}

#[tokio::test]
async fn secrets_are_never_shown_nor_asked_for() {
    let server = Server::new();
    world::everything(&server);
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    server.answer(move |method, path, _| {
        heard.lock().push(format!("{method} {path}"));
        None
    });
    let visitor = Visitor::on(server, true).await;
    for path in ["/placements/web/on/east", "/placements/web/differences"] {
        let body = visitor.get(path).await.body;
        assert!(body.contains("/data/password") && body.contains("redacted"), "{path}");
        assert!(!body.contains("aHVudGVyMg") && !body.contains("b3RoZXI="), "{path}");
    }
    for (_, path) in PAGES {
        visitor.get(path).await;
    }
    visitor.get("/placements/web/changes?from=0&to=1").await;
    let asked = asked.lock();
    assert!(
        asked.iter().any(|it| it.contains("/clusterresourcesnapshots")),
        "requests are heard: {asked:?}"
    );
    assert!(!asked.iter().any(|it| it.contains("/secrets")), "{asked:?}");
}

#[tokio::test]
async fn what_is_compared_is_asked_for_in_its_namespace_and_in_parts() {
    let visitor = Visitor::new().await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let heard = asked.clone();
    visitor.server.answer(move |_, path, _| {
        heard.lock().push(path.to_owned());
        None
    });
    // Both are there: where one is missing nobody waits for the other.
    let snapshot = format!(
        "{}/namespaces/team-a/resourcesnapshots/api-0-snapshot",
        world::PLACEMENTS
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "team-a"}});
    visitor
        .server
        .edit(&snapshot, |it| it["spec"]["selectedResources"] = json!([config]));
    visitor
        .get("/namespaces/team-a/placements/api/changes?from=0&to=0")
        .await;
    let asked = asked.lock();
    let own = |path: &&String| path.contains("/namespaces/team-a/resourcesnapshots");
    assert_eq!(asked.iter().filter(own).count(), 2, "{asked:?}");
}

#[tokio::test]
async fn what_belongs_to_a_placement_is_in_its_timeline() {
    let visitor = Visitor::new().await;
    let event = |name: &str, kind: &str, object: &str, group: &str| {
        let event = json!({
            "involvedObject": {"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": object},
            "reason": name, "message": "", "type": "Normal", "lastTimestamp": "2026-01-02T11:59:00Z",
        });
        visitor.server.put(
            &format!("/api/v1/namespaces/default/events/{}", name.to_lowercase()),
            event,
        );
    };
    let group = "placement.kubernetes-fleet.io";
    event("OfBinding", "ClusterResourceBinding", "web-east", group);
    event("OfSnapshot", "ClusterResourceSnapshot", "web-0-snapshot", group);
    event("OfAnother", "ClusterResourceBinding", "shop-east", group);
    event("OfApproval", "ClusterApprovalRequest", "shop-1-after-canary", group);
    event("OfStrangers", "Certificate", "web-east", "cert-manager.io");
    let mut changed = visitor.hub.changed();
    while visitor.hub.events.len() < 7 {
        changed.changed().await.unwrap();
    }
    for (path, has, lacks) in [
        (
            "/placements/web/timeline",
            vec!["OfBinding", "OfSnapshot"],
            vec!["OfAnother", "OfApproval", "OfStrangers"],
        ),
        (
            "/runs/shop-1/timeline",
            vec!["OfApproval"],
            vec!["OfBinding", "OfStrangers"],
        ),
        (
            "/timeline",
            // From each one click leads to where it is explained.
            vec![
                "<a href=\"/placements/web/on/east\">ClusterResourceBinding web-east</a> <strong>OfBinding",
                "<a href=\"/placements/web\">ClusterResourceSnapshot web-0-snapshot</a> <strong>OfSnapshot",
                "<a href=\"/placements/shop/on/east\">ClusterResourceBinding shop-east</a> <strong>OfAnother",
                "<a href=\"/runs/shop-1\">ClusterApprovalRequest shop-1-after-canary</a> <strong>OfApproval",
            ],
            vec!["OfStrangers"],
        ),
    ] {
        let page = visitor.get(path).await.body;
        for word in has {
            assert!(page.contains(word), "{word} is not in {path}: {page}");
        }
        for word in lacks {
            assert!(!page.contains(word), "{word} is in {path}");
        }
    }
}

#[tokio::test]
async fn what_two_snapshots_hold_differently_is_shown_without_secrets() {
    let visitor = Visitor::new().await;
    let put = |index: u64, manifests: serde_json::Value| {
        let labels =
            json!({"kubernetes-fleet.io/parent-CRP": "web", "kubernetes-fleet.io/resource-index": index.to_string()});
        let path = format!("{}/clusterresourcesnapshots/web-{index}-snapshot", world::PLACEMENTS);
        visitor.server.put(
            &path,
            json!({"metadata": {"labels": labels}, "spec": {"selectedResources": manifests}}),
        );
    };
    let config = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "web"}, "data": {"a": value}});
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "web"}, "data": {"p": value}});
    let named = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    put(4, json!([config("before"), secret("aHVudGVyMg=="), named("old")]));
    put(5, json!([config(world::MARKUP), secret("b3RoZXI="), named("new")]));
    let body = visitor.get("/placements/web/changes?from=4&to=5").await.body;
    for text in [
        "ConfigMap web/c",
        "/data/a",
        "before",
        "/data/p",
        "redacted",
        "added</span> Namespace new",
        "removed</span> Namespace old",
    ] {
        assert!(body.contains(text), "{text}: {body}");
    }
    for text in ["aHVudGVyMg", "b3RoZXI", "<script>alert"] {
        assert!(!body.contains(text), "{text}");
    }
    let none = visitor.get("/placements/web/changes?from=5&to=6").await.body;
    assert!(none.contains("there is no resource snapshot 6 of web"));
}

#[tokio::test]
async fn why_is_one_click_away_from_every_red_cell() {
    let visitor = Visitor::new().await;
    let fleet = visitor.get("/").await.body;
    let cells: Vec<_> = fleet
        .match_indices("class=\"cell failed\"")
        .chain(fleet.match_indices("class=\"cell drifted\""))
        .collect();
    assert!(cells.len() >= 2, "{cells:?}");
    for (at, _) in cells {
        let href = fleet[at..].split_once("href=\"").unwrap().1.split_once('"').unwrap().0;
        let why = visitor.get(href).await.body;
        assert!(
            why.contains("class=\"cause\"") && why.contains("class=\"command\""),
            "{href}"
        );
    }
}
