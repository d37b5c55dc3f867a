//! Who is not let in.

use fleet_testkit::Server;
use http::Method;
use serde_json::json;

use super::{
    visitor::{HOST, Visitor},
    world,
};

#[tokio::test]
async fn a_link_lets_one_browser_in_once() {
    let visitor = Visitor::new().await;
    let link = visitor.door.link().unwrap();
    let path = link.strip_prefix("http://127.0.0.1:4000").unwrap();
    let first = visitor.send(Method::GET, path, &[("host", HOST)], "").await;
    let cookie = first.headers["set-cookie"].to_str().unwrap();
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"),
        "{cookie}"
    );
    assert_eq!(first.code, 200);
    let again = visitor.send(Method::GET, path, &[("host", HOST)], "").await;
    assert_eq!((again.code, again.headers.get("set-cookie")), (403, None));
    assert!(again.body.contains("press Enter"), "{}", again.body);
    // The same browser may reload it.
    let known = visitor
        .send(Method::GET, path, &[("host", HOST), ("cookie", &visitor.cookie)], "")
        .await;
    assert_eq!(known.code, 200);
}

#[tokio::test]
async fn nothing_is_shown_to_others() {
    let visitor = Visitor::new().await;
    let cookie = ("cookie", visitor.cookie.as_str());
    for (headers, why) in [
        (vec![("host", HOST)], "no cookie"),
        (
            vec![("host", HOST), ("cookie", "flotilla-4000=guess")],
            "another cookie",
        ),
        (vec![("host", "evil.example:4000"), cookie], "a name that was rebound"),
        (vec![("host", "127.0.0.1:4001"), cookie], "another port"),
        (
            vec![("host", HOST), cookie, ("origin", "http://127.0.0.1:4001")],
            "another program's page",
        ),
        (
            vec![
                ("host", HOST),
                cookie,
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "no-cors"),
            ],
            "a picture elsewhere",
        ),
    ] {
        for path in ["/", "/live?at=%2F", "/act?act=drain&name=east", "/placements/web"] {
            let answer = visitor.send(Method::GET, path, &headers, "").await;
            assert_eq!(answer.code, 403, "{why}: {path}");
            assert!(!answer.body.contains("metrics"), "{why}: {path}");
        }
    }
}

#[tokio::test]
async fn only_our_own_pages_lead_to_what_writes() {
    let visitor = Visitor::new().await;
    let from = |site| {
        [
            ("host", HOST),
            ("cookie", visitor.cookie.as_str()),
            ("sec-fetch-site", site),
            ("sec-fetch-mode", "navigate"),
        ]
    };
    let act = "/act?act=drain&name=east";
    for site in ["same-site", "cross-site"] {
        for path in [act, "/done?number=1", "/live?at=%2F"] {
            let answer = visitor.send(Method::GET, path, &from(site), "").await;
            assert_eq!(answer.code, 403, "{site}: {path}");
        }
    }
    assert!(visitor.scribe.0.lock().is_empty(), "nobody was asked what it would do");
    let page = visitor.send(Method::GET, act, &from("same-origin"), "").await.body;
    // A key that is held down while the page comes presses what has the focus.
    let form = page.split_once("<form").unwrap().1;
    assert!(page.contains("class=\"go\"") && !form.contains("autofocus"), "{page}");
}

#[tokio::test]
async fn a_link_from_elsewhere_leads_to_its_page() {
    let visitor = Visitor::new().await;
    // Browsers keep the cookie to themselves where a link of another site is followed.
    let mut headers = vec![
        ("host", HOST),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    let go = async |path: &str, headers: &[(&str, &str)]| visitor.send(Method::GET, path, headers, "").await;
    let path = "/placements/web%22%3E%3Cscript%3E?page=2&x=%22";
    let answer = go(path, &headers).await;
    let onward = "content=\"0;url=/placements/web%22%3E%3Cscript%3E?page=2\"";
    assert!(answer.code == 200 && answer.body.contains(onward), "{}", answer.body);
    let answer = go("/?q=a%26b&show=trouble", &headers).await;
    assert!(
        answer.body.contains("0;url=/?q=a%26b&amp;show=trouble\""),
        "{}",
        answer.body
    );
    for path in [
        "//evil.example/",
        "/nothing",
        "/act?act=drain&name=east",
        "/live?at=%2F",
    ] {
        assert_eq!(go(path, &headers).await.code, 403, "{path}");
    }
    // Whoever has not been let in is not sent round in circles.
    headers[1].1 = "same-origin";
    assert_eq!(go("/placements/web", &headers).await.code, 403);
}

#[tokio::test]
async fn every_answer_forbids_scripts_frames_and_copies() {
    let visitor = Visitor::new().await;
    for (path, headers) in [
        ("/", vec![("host", HOST), ("cookie", &*visitor.cookie)]),
        ("/", vec![("host", "evil")]),
        ("/assets/live.js", vec![("host", HOST)]),
    ] {
        let answer = visitor.send(Method::GET, path, &headers, "").await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("default-src 'none'") && policy.contains("script-src 'self';"),
            "{policy}"
        );
        assert!(
            !policy.contains("unsafe") && policy.contains("frame-ancestors 'none'"),
            "{policy}"
        );
        for (name, value) in [
            ("x-frame-options", "DENY"),
            ("cache-control", "no-store"),
            ("x-content-type-options", "nosniff"),
        ] {
            assert_eq!(answer.headers[name], value, "{path}");
        }
    }
    // The policy would stop what pages had inline.
    let page = visitor.get("/").await.body;
    assert!(!page.contains(" style=") && !page.contains(" onclick=") && page.matches("<script").count() == 1);
}

#[tokio::test]
async fn a_form_of_somebody_else_changes_nothing() {
    let visitor = Visitor::new().await;
    let own = format!("form={}&act=cordon&name=east", visitor.door.form());
    let cookie = ("cookie", visitor.cookie.as_str());
    let origin = ("origin", "http://127.0.0.1:4000");
    for (headers, body, why) in [
        (vec![("host", HOST), cookie], own.as_str(), "no origin"),
        (vec![("host", HOST), cookie, ("origin", "null")], &own, "no origin"),
        (
            vec![("host", HOST), cookie, ("origin", "https://evil.example")],
            &own,
            "another origin",
        ),
        (
            vec![("host", HOST), cookie, ("origin", "http://127.0.0.1:4001")],
            &own,
            "another port",
        ),
        (vec![("host", HOST), origin], &own, "no cookie"),
        (
            vec![("host", HOST), cookie, origin],
            "act=cordon&name=east",
            "no secret of the form",
        ),
        (
            vec![("host", HOST), cookie, origin],
            "form=guess&act=cordon&name=east",
            "another secret",
        ),
    ] {
        let answer = visitor.send(Method::POST, "/act", &headers, body).await;
        assert_eq!(answer.code, 403, "{why}");
    }
    let large = format!("{own}&x={}", "x".repeat(20_000));
    assert_eq!(visitor.post(&large).await.code, 413);
    assert!(visitor.scribe.0.lock().is_empty(), "{:?}", visitor.scribe.0.lock());
}

#[tokio::test]
async fn what_objects_are_called_is_not_copied_into_a_shell() {
    let server = Server::new();
    world::everything(&server);
    let drift = |name: &str| {
        let at = "2026-01-02T11:30:00Z";
        json!({
            "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "Role", "name": name, "namespace": "web",
            "observationTime": at, "firstDriftedObservedTime": at, "targetClusterObservedGeneration": 3,
            "observedDrifts": [{"path": "/rules", "valueInHub": "a", "valueInMember": "b"}],
        })
    };
    let drifted = [drift("$(reboot)"), drift("a\nreboot"), drift("a\u{202e}b")];
    world::binding(
        &server,
        "",
        "metrics",
        "east",
        None,
        &json!({"driftedPlacements": drifted}),
    );
    let visitor = Visitor::on(server, true).await;
    let page = visitor.get("/placements/metrics/on/east").await.body;
    let copies: Vec<&str> = page
        .split("data-copy=\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .filter(|text| text.contains("reboot") || text.contains('\u{202e}'))
        .collect();
    let object = "'role.rbac.authorization.k8s.io/$(reboot)'";
    assert_eq!(
        copies,
        [format!("kubectl fleet why {object} east -n web --member-context east")]
    );
    assert_eq!(page.matches("characters that cannot be seen").count(), 2, "{page}");
}
