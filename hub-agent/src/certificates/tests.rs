//! Certificates from files, from the own Secret, and when one is due.

use std::{collections::BTreeMap, sync::Arc};

use fleet_runtime::{
    Key,
    cache::{Era, Store},
    clock::Clock,
};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;

use super::{
    issue,
    keep::{FILES_INTERVAL, Source, hosts, keep},
    renew::{OWN_SECRET, Renewal, is_due},
};

#[test]
fn hosts_come_from_the_advertised_address() {
    let further = vec!["hub-channel.fleet-system.svc".to_owned(), "localhost".to_owned()];
    assert_eq!(
        hosts("fleet.example.com:8443", &further),
        [
            "fleet.example.com",
            "hub-channel.fleet-system.svc",
            "localhost",
            "127.0.0.1"
        ]
    );
    assert_eq!(hosts("", &[]), ["localhost", "127.0.0.1"]);
    assert_eq!(hosts("[::1]:8443", &[])[0], "::1");
}

/// A client whose every request is answered like this.
fn client(answer: impl Fn(&str, serde_json::Value) -> (u16, serde_json::Value) + Send + Sync + 'static) -> Client {
    let answer = Arc::new(answer);
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        let answer = answer.clone();
        async move {
            let method = request.method().to_string();
            let bytes = request.into_body().collect_bytes().await?;
            let (code, body) = answer(&method, serde_json::from_slice(&bytes).unwrap_or_default());
            let mut response = http::Response::new(kube::client::Body::from(body.to_string().into_bytes()));
            *response.status_mut() = http::StatusCode::from_u16(code).unwrap();
            Ok::<_, kube::Error>(response)
        }
    });
    Client::new(service, "default")
}

fn install() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

#[tokio::test(start_paused = true)]
async fn files_are_read_again_when_they_change_and_bad_ones_change_nothing() {
    install();
    let directory = std::env::temp_dir().join(format!("channel-files-{:016x}", fastrand::u64(..)));
    std::fs::create_dir(&directory).unwrap();
    let path = |name: &str| directory.join(name);
    let write = |data: &BTreeMap<String, ByteString>| {
        for (name, content) in data {
            std::fs::write(path(name), &content.0).unwrap();
        }
    };
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let first = issue::make(&BTreeMap::new(), &hosts("", &[]), now).unwrap();
    let text = |data: &BTreeMap<String, ByteString>| String::from_utf8(data["ca.crt"].0.clone()).unwrap();
    write(&first);
    let source = Source::Files {
        cert: path("tls.crt"),
        key: path("tls.key"),
        ca: path("ca.crt"),
    };
    let client = client(|_, _| (403, json!({ "kind": "Status", "code": 403, "message": "no" })));
    let (mut current, task) = keep(
        client,
        &Era::default(),
        Clock::manual(now),
        source,
        watch::channel(false).1,
    );
    let task = tokio::spawn(task);
    current.ca.wait_for(|ca| *ca == Some(text(&first))).await.unwrap();
    assert!(current.tls.borrow_and_update().is_some());
    std::fs::write(path("tls.crt"), "garbage").unwrap();
    tokio::time::sleep(FILES_INTERVAL * 3).await;
    assert!(!current.tls.has_changed().unwrap(), "the last good one stays");
    let second = issue::make(&BTreeMap::new(), &hosts("", &[]), now).unwrap();
    write(&second);
    current.ca.wait_for(|ca| *ca == Some(text(&second))).await.unwrap();
    task.abort();
    std::fs::remove_dir_all(directory).unwrap();
}

#[tokio::test]
async fn the_own_secret_is_made_once_and_renewed_in_place() {
    let asked = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let log = asked.clone();
    let client = client(move |method, mut body| {
        log.lock().push(method.to_owned());
        body["metadata"]["name"] = json!(OWN_SECRET);
        body["metadata"]["namespace"] = json!("ns");
        body["metadata"]["resourceVersion"] = json!(log.lock().len().to_string());
        (200, body)
    });
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let clock = Clock::manual(now);
    let renewal = Renewal {
        api: Api::namespaced(client, "ns"),
        store: Store::new("secrets"),
        key: Key::namespaced("ns", OWN_SECRET),
        hosts: hosts("hub:1", &[]),
        clock: clock.clone(),
    };
    renewal.pass().await.unwrap();
    renewal.pass().await.unwrap();
    assert_eq!(*asked.lock(), ["POST"]);
    let ca = renewal.store.get(&renewal.key).unwrap().data.clone().unwrap()["ca.crt"].clone();
    clock.set(now + jiff::SignedDuration::from_hours(61 * 24));
    renewal.pass().await.unwrap();
    assert_eq!(*asked.lock(), ["POST", "PATCH"]);
    let renewed = renewal.store.get(&renewal.key).unwrap().data.clone().unwrap();
    assert_eq!(renewed["ca.crt"], ca, "members keep trusting it");
}

#[test]
fn a_certificate_is_due_when_missing_damaged_old_or_for_other_hosts() {
    let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
    let own = hosts("a.example.com:1", &[]);
    let data = issue::make(&BTreeMap::new(), &own, now).unwrap();
    assert!(!is_due(&data, &own, now));
    assert!(is_due(&BTreeMap::new(), &own, now));
    assert!(is_due(&data, &hosts("b.example.com:1", &[]), now));
    assert!(is_due(&data, &own, now + jiff::SignedDuration::from_hours(61 * 24)));
    let mut damaged = data;
    damaged.insert("tls.crt".into(), ByteString(b"x".to_vec()));
    assert!(is_due(&damaged, &own, now));
}
