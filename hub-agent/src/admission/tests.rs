//! Requests as the API server sends them, and as nobody should: over TLS, to a server with stores in memory.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fleet_core::selection::apis::Apis;
use fleet_runtime::{cache::Era, clock::Clock, health::Health, shutdown::Tasks};
use fleet_testkit::{Fault, Server};
use k8s_openapi::api::rbac::v1::ClusterRole;
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject as _},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::watch,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tokio_util::sync::{CancellationToken, DropGuard};

mod registration;
mod strangers;

use super::{
    CERTIFICATE,
    configuration::{At, Configuration, Trust, bundle, owner},
    hooks::Hook,
    judge::Judge,
    server::serve,
};
use crate::{
    cache::{
        family::{Placements, RunKinds},
        user::Catalogue,
    },
    certificates::issue,
};

const PLACEMENT: &str = "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceplacement";
const OVERRIDE: &str = "/validate-placement.kubernetes-fleet.io-v1beta1-clusterresourceoverride";

/// A replica's webhooks. They end with it.
struct Webhooks {
    api: Server,
    address: SocketAddr,
    roots: RootCertStore,
    _tasks: Tasks,
    _stop: DropGuard,
}

impl Webhooks {
    async fn start() -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let api = Server::new();
        api.answer(|method, path, _| (method == "GET").then(|| discovery(path)).flatten());
        let mut tasks = Tasks::new(CancellationToken::new());
        let stores = Placements::start(&api.client(), &Era::default(), RunKinds::both(false), &mut tasks);
        stores.synced(&Health::default()).await;
        let hosts = ["127.0.0.1".to_owned()];
        let data = issue::make(&CERTIFICATE, &BTreeMap::new(), &hosts, Clock::system().now()).unwrap();
        let serving = issue::Serving::from_data(&CERTIFICATE, &data).unwrap();
        let mut roots = RootCertStore::empty();
        roots
            .add(CertificateDer::from_pem_slice(serving.ca.as_bytes()).unwrap())
            .unwrap();
        let judge = Judge {
            client: api.client(),
            stores,
            kinds: Catalogue::new(api.client(), Apis::default()),
            apis: Apis::default(),
            networking: true,
            recent: std::sync::Arc::default(),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_, tls) = watch::channel(Some(serving.tls(None).unwrap()));
        let stop = CancellationToken::new();
        tasks.spawn_forever("webhooks", serve(judge, listener, tls, stop.clone()));
        Self {
            api,
            address,
            roots,
            _tasks: tasks,
            _stop: stop.drop_guard(),
        }
    }

    async fn connect(&self) -> TlsStream<TcpStream> {
        self.connect_from("127.0.0.1").await
    }

    async fn connect_from(&self, source: &str) -> TlsStream<TcpStream> {
        self.try_connect(source).await.unwrap()
    }

    async fn try_connect(&self, source: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let config = ClientConfig::builder()
            .with_root_certificates(self.roots.clone())
            .with_no_client_auth();
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
        let stream = socket.connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(std::sync::Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// Status and body.
    async fn send(&self, head: &str, body: &[u8]) -> (u16, String) {
        let mut stream = self.connect().await;
        let head = format!(
            "{head}Host: hub\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        // Who is told early that it is too much need not send the rest.
        let _ = stream.write_all(body).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        let text = String::from_utf8_lossy(&answer).into_owned();
        let status = text.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
        let body = text
            .split_once("\r\n\r\n")
            .map(|(_, body)| body.to_owned())
            .unwrap_or_default();
        (status, body)
    }

    async fn post(&self, path: &str, body: &[u8]) -> (u16, String) {
        self.send(
            &format!("POST {path}?timeout=5s HTTP/1.1\r\nContent-Type: application/json\r\n"),
            body,
        )
        .await
    }

    /// The response to a review.
    async fn ask(&self, path: &str, request: Value) -> Value {
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let (status, body) = self.post(path, review.to_string().as_bytes()).await;
        assert_eq!(status, 200, "{body}");
        let review: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(review["response"]["uid"], "u");
        review["response"].clone()
    }
}

/// What the hub serves.
fn discovery(path: &str) -> Option<(u16, Value)> {
    let resource = |resource: &str, kind: &str, scope: &str| {
        json!({"resource": resource, "singularResource": "", "scope": scope, "verbs": ["get", "list", "watch"],
            "responseKind": {"group": "", "version": "v1", "kind": kind}})
    };
    let core = json!({"metadata": {}, "versions": [{"version": "v1", "resources": [
        resource("namespaces", "Namespace", "Cluster"),
        resource("configmaps", "ConfigMap", "Namespaced"),
    ]}]});
    let groups = match path.split('?').next()? {
        "/api" => vec![core],
        "/apis" => Vec::new(),
        _ => return None,
    };
    let list = json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": groups});
    Some((200, list))
}

fn creating(object: &Value) -> Value {
    json!({"uid": "u", "operation": "CREATE", "name": object["metadata"]["name"], "object": object})
}

fn placement(spec: &Value) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement",
        "metadata": {"name": "p", "managedFields": []}, "spec": spec})
}

fn of(kind: &str) -> Value {
    json!([{"group": "", "version": "v1", "kind": kind, "name": "app"}])
}

fn overriding(name: &str, namespace: &str) -> Value {
    json!({"apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourceOverride",
        "metadata": {"name": name}, "spec": {
            "clusterResourceSelectors": [{"group": "", "version": "v1", "kind": "Namespace", "name": namespace}],
            "policy": {"overrideRules": [{"overrideType": "Delete"}]}}})
}

#[tokio::test]
async fn placements_are_judged_and_filled_in() {
    let hub = Webhooks::start().await;
    let good = placement(&json!({"resourceSelectors": of("Namespace")}));
    let answer = hub.ask(PLACEMENT, creating(&good)).await;
    assert_eq!(answer["allowed"], true, "{answer}");
    let answer = hub
        .ask(
            PLACEMENT,
            creating(&placement(&json!({"resourceSelectors": of("ConfigMap")}))),
        )
        .await;
    assert_eq!(
        answer["status"],
        json!({"status": "Failure", "code": 403, "reason": "Forbidden", "message": "deny create/update v1beta1 CRP has \
            invalid fields the resource is not found in schema (please retry) or it is not a cluster scoped resource: /v1, \
            Kind=ConfigMap"})
    );
    let mutate = "/mutate-placement.kubernetes-fleet.io-v1beta1-resourceplacement";
    let answer = hub.ask(mutate, creating(&good)).await;
    assert_eq!(answer["patchType"], "JSONPatch");
    let patch = BASE64_STANDARD.decode(answer["patch"].as_str().unwrap()).unwrap();
    let patch: Value = serde_json::from_slice(&patch).unwrap();
    let added = |path: &str| patch.as_array().unwrap().iter().any(|entry| entry["path"] == path);
    assert!(added("/spec/policy") && added("/spec/strategy"), "{patch}");
    // What the schema will refuse is left to the schema.
    let odd = placement(&json!({"resourceSelectors": of("Namespace"), "policy": {"placementType": "PickSome"}}));
    assert_eq!(
        hub.ask(mutate, creating(&odd)).await,
        json!({"allowed": true, "uid": "u"})
    );
}

#[tokio::test]
async fn two_overrides_right_after_each_other_do_not_both_get_in() {
    let hub = Webhooks::start().await;
    let first = creating(&overriding("a", "app"));
    let mut dry = first.clone();
    dry["dryRun"] = json!(true);
    assert_eq!(hub.ask(OVERRIDE, dry).await["allowed"], true);
    let second = creating(&overriding("b", "app"));
    // Nothing was stored by the first.
    assert_eq!(hub.ask(OVERRIDE, second.clone()).await["allowed"], true);
    // By the second something is, though no store shows it.
    let path = "/apis/placement.kubernetes-fleet.io/v1beta1/clusterresourceoverrides/b";
    hub.api.lag();
    hub.api.put(path, json!({"spec": overriding("b", "app")["spec"]}));
    let answer = hub.ask(OVERRIDE, first.clone()).await;
    assert!(
        answer["status"]["message"]
            .as_str()
            .unwrap()
            .ends_with("has been selected by both a and b, which is not supported"),
        "{answer}"
    );
    assert_eq!(hub.ask(OVERRIDE, second).await["allowed"], true, "asked again");
    // Once a store shows it the store counts, also when it is gone.
    hub.api.catch_up();
    for (gone, allowed) in [(false, false), (true, true)] {
        if gone {
            hub.api.delete(path);
        }
        let mut asked = Value::Null;
        for _ in 0..500 {
            asked = hub.ask(OVERRIDE, first.clone()).await["allowed"].clone();
            if asked == allowed {
                break;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(asked, allowed);
    }
}

#[tokio::test]
async fn an_override_that_something_else_refused_is_in_nobodys_way() {
    let hub = Webhooks::start().await;
    let one = creating(&overriding("a", "app"));
    assert_eq!(hub.ask(OVERRIDE, one).await["allowed"], true);
    // It was not stored.
    let other = creating(&overriding("b", "app"));
    assert_eq!(hub.ask(OVERRIDE, other).await["allowed"], true);
}

#[tokio::test]
async fn a_member_leaves_once_it_exports_nothing() {
    let hub = Webhooks::start().await;
    let path = "/validate-cluster.kubernetes-fleet.io-v1beta1-membercluster";
    let leaving = |name: &str, mode: &str| {
        let identity = json!({"kind": "User", "name": name, "apiGroup": ""});
        let spec = json!({"identity": identity, "deleteOptions": {"validationMode": mode}});
        json!({"uid": "u", "operation": "DELETE", "name": name, "object": null, "oldObject": {
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster", "metadata": {"name": name},
            "spec": spec}})
    };
    let exports = "/apis/networking.fleet.azure.com/v1alpha1/namespaces/fleet-member-east/internalserviceexports";
    let web = format!("{exports}/app-web");
    let export =
        json!({"metadata": {"finalizers": ["held"]}, "spec": {"serviceReference": {"namespacedName": "app/web"}}});
    hub.api.put(&web, export);
    let refused = hub.ask(path, leaving("east", "Strict")).await;
    assert_eq!(
        refused["status"]["message"],
        "Please delete serviceExport app/web in the member cluster before leaving, request is denied"
    );
    assert_eq!(hub.ask(path, leaving("east", "Skip")).await["allowed"], true);
    assert_eq!(hub.ask(path, leaving("west", "Strict")).await["allowed"], true);
    hub.api.delete(&web);
    assert_eq!(
        hub.ask(path, leaving("east", "Strict")).await["allowed"],
        true,
        "it is going"
    );
    hub.api.fail(Fault::new("internalserviceexports", 403));
    let failed = hub.ask(path, leaving("east", "Strict")).await;
    assert_eq!(failed["status"]["code"], 500);
    let says = "failed to list internalServiceExportList, please retry the request: ";
    assert!(
        failed["status"]["message"].as_str().unwrap().starts_with(says),
        "{failed}"
    );
}

#[tokio::test]
async fn nobody_ends_the_server_by_asking_badly() {
    let hub = Webhooks::start().await;
    let review = |version: &str, request: Value| {
        json!({"apiVersion": version, "kind": "AdmissionReview", "request": request})
            .to_string()
            .into_bytes()
    };
    let v1 = "admission.k8s.io/v1";
    for (body, says) in [
        (b"not JSON".to_vec(), "the body is not an AdmissionReview"),
        (b"".to_vec(), "the body is not an AdmissionReview"),
        (b"\xff\xfe".to_vec(), "the body is not an AdmissionReview"),
        (b"[]".to_vec(), "unexpected kind \"\" in version \"\""),
        (
            review("admission.k8s.io/v2", json!({})),
            "unexpected kind \"AdmissionReview\" in version \"admission.k8s.io/v2\"",
        ),
        (review(v1, Value::Null), "the AdmissionReview has no request"),
    ] {
        let (status, text) = hub.post(PLACEMENT, &body).await;
        assert!(status == 400 && text.starts_with(says), "{status} {text}");
    }
    let post = "HTTP/1.1\r\nContent-Type: application/json\r\n";
    for (head, code) in [
        (format!("POST /elsewhere {post}"), 404),
        (format!("GET {PLACEMENT} {post}"), 405),
        (
            format!("POST {PLACEMENT} HTTP/1.1\r\nContent-Type: text/plain\r\n"),
            415,
        ),
    ] {
        assert_eq!(hub.send(&head, b"{}").await.0, code, "{head}");
    }
    // Nothing to judge, or something that cannot be read, is refused by itself and not by a failure.
    let member = "/validate-cluster.kubernetes-fleet.io-v1beta1-membercluster";
    for (path, request, says) in [
        (
            PLACEMENT,
            json!({"uid": "u", "operation": "CREATE"}),
            "there is no object to judge in the request",
        ),
        (
            PLACEMENT,
            json!({"uid": "u", "operation": "CREATE", "object": {"spec": 1}}),
            "the object cannot be decoded",
        ),
        (
            member,
            json!({"uid": "u", "operation": "DELETE", "object": null}),
            "there is no oldObject to judge in the request",
        ),
    ] {
        let answer = hub.ask(path, request).await;
        assert_eq!(answer["status"]["code"], 400, "{answer}");
        assert!(
            answer["status"]["message"].as_str().unwrap().starts_with(says),
            "{answer}"
        );
    }
    for request in [
        json!({"uid": "u", "operation": "CONNECT"}),
        json!({"uid": "u", "operation": "UPDATE", "subResource": "status"}),
    ] {
        assert_eq!(hub.ask(PLACEMENT, request).await["allowed"], true);
    }
    let old = review(
        "admission.k8s.io/v1beta1",
        creating(&placement(&json!({"resourceSelectors": of("Namespace")}))),
    );
    let (status, text) = hub.post(PLACEMENT, &old).await;
    assert!(
        status == 200 && text.contains("admission.k8s.io/v1beta1"),
        "{status} {text}"
    );
    // Large is judged, too large is not read.
    let mut large = placement(&json!({"resourceSelectors": of("Namespace")}));
    large["metadata"]["annotations"] = json!({"a": "é".repeat(3 << 19)});
    assert_eq!(hub.ask(PLACEMENT, creating(&large)).await["allowed"], true);
    assert_eq!(hub.post(PLACEMENT, &vec![b' '; 8 << 20]).await.0, 413);
}

#[tokio::test]
async fn what_would_take_hundreds_of_megabytes_is_not_decoded() {
    let hub = Webhooks::start().await;
    let mutate = "/mutate-placement.kubernetes-fleet.io-v1beta1-resourceplacement";
    let many = |entry: &Value, count: usize| {
        let selector = json!({"matchExpressions": vec![entry.clone(); count]});
        let mut object = placement(&json!({"resourceSelectors": of("Namespace")}));
        object["spec"]["resourceSelectors"][0]["labelSelector"] = selector;
        creating(&object)
    };
    // Three megabytes, as the API server takes them: refused by the bound for entries.
    let review = |request: &Value| {
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string()
    };
    let large = review(&many(&json!({"key": ""}), 280_000));
    for path in [mutate, PLACEMENT] {
        let (status, text) = hub.post(path, large.as_bytes()).await;
        assert_eq!(
            (status, text.as_str()),
            (413, "the AdmissionReview has too many entries\n"),
            "{path}"
        );
    }
    // What is below that is let pass without defaults.
    let answer = hub.ask(mutate, many(&json!({"key": ""}), 20_000)).await;
    assert_eq!(answer, json!({"allowed": true, "uid": "u"}));
    let answer = hub
        .ask(mutate, many(&json!({"key": "", "operator": "Exists"}), 20))
        .await;
    assert_eq!(answer["patchType"], "JSONPatch", "{answer}");
}

#[test]
fn the_configurations_say_what_is_asked_when_and_what_if_nobody_answers() {
    let configuration = |networking, at| Configuration {
        at,
        trust: Trust::Bundle("pem\n".into()),
        owner: owner(&ClusterRole {
            metadata: serde_json::from_value(json!({"name": "hub-agent-role", "uid": "uid"})).unwrap(),
            ..ClusterRole::default()
        }),
        networking,
    };
    let service = At::Service {
        namespace: "ns".into(),
        name: "fleetwebhook".into(),
    };
    let by_service = configuration(true, service);
    let (mutating, validating) = (by_service.mutating(), by_service.validating());
    assert_eq!(validating["metadata"]["labels"]["admissions.enforcer/disabled"], "true");
    let owners = json!([{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "name": "hub-agent-role",
        "uid": "uid", "blockOwnerDeletion": false}]);
    assert_eq!(validating["metadata"]["ownerReferences"], owners);
    assert_eq!(mutating["metadata"]["ownerReferences"], owners);
    let hooks: Vec<&Value> = [&mutating, &validating]
        .iter()
        .flat_map(|c| c["webhooks"].as_array().unwrap())
        .collect();
    assert_eq!(hooks.len(), 9);
    for (hook, written) in Hook::all().zip(&hooks) {
        assert_eq!(written["name"], hook.name());
        assert_eq!(Hook::at(hook.path()), Some(hook));
        assert_eq!(written["clientConfig"]["service"]["port"], 9443);
        assert_eq!(written["clientConfig"]["caBundle"], BASE64_STANDARD.encode("pem\n"));
        assert_eq!(
            (&written["timeoutSeconds"], &written["sideEffects"]),
            (&json!(5), &json!("None"))
        );
        // Nothing but kinds of the fleet.
        let group = written["rules"][0]["apiGroups"][0].as_str().unwrap();
        assert!(group.ends_with(".kubernetes-fleet.io"), "{group}");
    }
    let ignored: Vec<_> = hooks
        .iter()
        .filter(|hook| hook["failurePolicy"] == "Ignore")
        .map(|hook| hook["name"].clone())
        .collect();
    assert_eq!(
        ignored,
        [
            "fleet.clusterresourceplacementv1beta1.mutating",
            "fleet.resourceplacementv1beta1.mutating",
            "fleet.clusterresourceplacementeviction.validating",
            "fleet.clusterresourceplacementdisruptionbudget.validating",
        ]
    );
    let by_address = configuration(false, At::Address("127.0.0.1:1".into())).validating();
    assert_eq!(
        by_address["webhooks"].as_array().unwrap().len(),
        6,
        "members leave unasked"
    );
    let url = by_address["webhooks"][0]["clientConfig"]["url"].as_str().unwrap();
    assert_eq!(url, format!("https://127.0.0.1:1{PLACEMENT}"));
}

#[test]
fn the_ca_before_stays_trusted_until_the_next() {
    let pem = |name: &str| format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n");
    let (a, b, c) = (pem("a"), pem("b"), pem("c"));
    assert_eq!(bundle(&a, ""), a);
    assert_eq!(bundle(&a, &a), a);
    assert_eq!(bundle(&b, &a), format!("{b}{a}"));
    assert_eq!(bundle(&b, &format!("{b}{a}")), format!("{b}{a}"), "as it is");
    assert_eq!(bundle(&c, &format!("{b}{a}")), format!("{c}{b}"));
}
