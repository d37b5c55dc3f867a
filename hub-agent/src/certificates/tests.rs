//! Certificates from files, from the own Secret, and when one is due.

use std::collections::BTreeMap;

use fleet_runtime::{
    Key,
    cache::{Era, Store},
    clock::Clock,
    metrics::Metrics,
    writes::Writes,
};
use fleet_testkit::{Fault, Server};
use jiff::Timestamp;
use k8s_openapi::ByteString;
use serde_json::json;
use tokio::sync::watch;

use super::{
    CHANNEL, Certificate, issue,
    keep::{Deps, FILES_INTERVAL, Source, hosts, keep},
    renew::{Renewal, is_due},
};
use crate::writer::Writer;

/// Another one beside the channel's.
static OTHER: Certificate = Certificate {
    server: "other",
    peers: "others",
    secret: "fleet-other-tls",
    protocols: &["h2", "http/1.1"],
    client_certificates: false,
};

const SECRETS: &str = "/api/v1/namespaces/ns/secrets";

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

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

fn writer(server: &Server) -> Writer {
    Writer::new(server.client(), Writes::new("hub", &Metrics::new()), "hub-agent")
}

fn deps(server: &Server, leads: bool) -> Deps {
    Deps {
        client: server.client(),
        era: Era::default(),
        clock: Clock::manual(now()),
        writer: writer(server),
        leading: watch::channel(leads).1,
    }
}

fn text(data: &BTreeMap<String, ByteString>, field: &str) -> String {
    String::from_utf8(data[field].0.clone()).unwrap()
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
    let first = issue::make(&CHANNEL, &BTreeMap::new(), &hosts("", &[]), now()).unwrap();
    write(&first);
    let source = Source::Files {
        cert: path("tls.crt"),
        key: path("tls.key"),
        ca: path("ca.crt"),
    };
    let server = Server::new();
    server.fail(Fault::new("", 403));
    let (mut current, task) = keep(&CHANNEL, source, deps(&server, false));
    let task = tokio::spawn(task);
    current
        .ca
        .wait_for(|ca| *ca == Some(text(&first, "ca.crt")))
        .await
        .unwrap();
    assert!(current.tls.borrow_and_update().is_some());
    std::fs::write(path("tls.crt"), "garbage").unwrap();
    tokio::time::sleep(FILES_INTERVAL * 3).await;
    assert!(!current.tls.has_changed().unwrap(), "the last good one stays");
    let second = issue::make(&CHANNEL, &BTreeMap::new(), &hosts("", &[]), now()).unwrap();
    write(&second);
    current
        .ca
        .wait_for(|ca| *ca == Some(text(&second, "ca.crt")))
        .await
        .unwrap();
    task.abort();
    std::fs::remove_dir_all(directory).unwrap();
}

fn renewal(server: &Server, clock: &Clock) -> Renewal {
    Renewal {
        of: &CHANNEL,
        writer: writer(server),
        store: Store::new("secrets"),
        key: Key::namespaced("ns", CHANNEL.secret),
        hosts: hosts("hub:1", &[]),
        clock: clock.clone(),
    }
}

/// When a certificate of now is due.
fn later() -> Timestamp {
    now() + jiff::SignedDuration::from_hours(61 * 24)
}

#[tokio::test]
async fn the_own_secret_is_made_once_and_renewed_in_place() {
    let (server, clock) = (Server::new(), Clock::manual(now()));
    let renewal = renewal(&server, &clock);
    renewal.pass().await.unwrap();
    renewal.pass().await.unwrap();
    assert_eq!(server.written(), [format!("POST {SECRETS}")]);
    let ca = renewal.store.get(&renewal.key).unwrap().data.clone().unwrap()["ca.crt"].clone();
    clock.set(later());
    renewal.pass().await.unwrap();
    let renewed = format!("PATCH {SECRETS}/fleet-channel-tls");
    assert_eq!(server.written(), [format!("POST {SECRETS}"), renewed]);
    let renewed = renewal.store.get(&renewal.key).unwrap().data.clone().unwrap();
    assert_eq!(renewed["ca.crt"], ca, "members keep trusting it");
    let stored = server.get(&format!("{SECRETS}/fleet-channel-tls")).unwrap();
    assert_eq!(stored["data"]["tls.crt"], json!(renewed["tls.crt"]));
    assert_eq!(stored["type"], "kubernetes.io/tls");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_was_quicker_is_no_failure_and_its_secret_stays() {
    let (server, clock) = (Server::new(), Clock::manual(now()));
    let (quick, slow) = (renewal(&server, &clock), renewal(&server, &clock));
    let path = format!("{SECRETS}/fleet-channel-tls");
    let stored = || server.get(&path).unwrap()["data"].clone();
    quick.pass().await.unwrap();
    let first = stored();
    slow.pass().await.unwrap();
    assert_eq!(stored(), first);

    let shown = quick.store.get(&quick.key).unwrap();
    slow.store.wrote((*shown).clone());
    clock.set(later());
    quick.pass().await.unwrap();
    let second = stored();
    assert_ne!(second, first);
    slow.pass().await.unwrap();
    assert_eq!(stored(), second);
}

#[tokio::test(start_paused = true)]
async fn another_certificate_has_its_own_secret_and_names_and_asks_for_no_client_ca() {
    install();
    let server = Server::new();
    let source = Source::Own {
        namespace: "ns".to_owned(),
        hosts: vec!["other.ns.svc".to_owned()],
    };
    let (mut current, task) = keep(&OTHER, source, deps(&server, true));
    let task = tokio::spawn(task);
    let ca = current.ca.wait_for(Option::is_some).await.unwrap().clone();
    let tls = current.tls.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(tls.clients.is_none());
    assert_eq!(tls.config.alpn_protocols, [b"h2".to_vec(), b"http/1.1".to_vec()]);
    let stored = server.get(&format!("{SECRETS}/fleet-other-tls")).unwrap();
    let data: BTreeMap<String, ByteString> = serde_json::from_value(stored["data"].clone()).unwrap();
    assert_eq!(Some(text(&data, "ca.crt")), ca);
    let hosts = ["other.ns.svc".to_owned()];
    assert!(!is_due(&OTHER, &data, &hosts, now()) && is_due(&OTHER, &data, &hosts, later()));
    assert_eq!(server.written(), [format!("POST {SECRETS}")]);
    task.abort();
}

#[test]
fn a_certificate_is_due_when_missing_damaged_old_or_for_other_hosts() {
    let own = hosts("a.example.com:1", &[]);
    let data = issue::make(&CHANNEL, &BTreeMap::new(), &own, now()).unwrap();
    assert!(!is_due(&CHANNEL, &data, &own, now()));
    assert!(is_due(&CHANNEL, &BTreeMap::new(), &own, now()));
    assert!(is_due(&CHANNEL, &data, &hosts("b.example.com:1", &[]), now()));
    assert!(is_due(&CHANNEL, &data, &own, later()));
    let mut damaged = data;
    damaged.insert("tls.crt".into(), ByteString(b"x".to_vec()));
    assert!(is_due(&CHANNEL, &damaged, &own, now()));
}
