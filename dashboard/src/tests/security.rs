//! Who is not let in.

use http::Method;

use super::visitor::{HOST, Visitor};

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
