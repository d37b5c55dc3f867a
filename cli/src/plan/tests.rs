use fleet_testkit::{Fault, Server};
use serde_json::{Value, json};

use super::*;
use crate::output::{Shown as _, Style};

const V1: &str = "/api/v1";
const PLACEMENTS: &str = "/apis/placement.kubernetes-fleet.io/v1beta1";
const MEMBERS: &str = "/apis/cluster.kubernetes-fleet.io/v1beta1/memberclusters";

const FILE: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterResourcePlacement
metadata: { name: web }
spec:
  resourceSelectors:
  - { group: '', version: v1, kind: Namespace, name: app }
  policy:
    placementType: PickAll
    affinity:
      clusterAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          clusterSelectorTerms: [{ labelSelector: { matchLabels: { env: prod } } }]
";

fn member(name: &str, env: &str) -> (String, Value) {
    let now = terminal::now().to_string();
    let conditions = ["Joined", "Healthy"].map(|type_name| {
        json!({ "type": type_name, "status": "True", "reason": "R", "message": "", "lastTransitionTime": now })
    });
    let object = json!({
        "metadata": { "labels": { "env": env } },
        "spec": { "identity": { "kind": "User", "name": name } },
        "status": { "agentStatus": [{ "type": "MemberAgent", "conditions": conditions, "lastReceivedHeartbeat": now }] },
    });
    (format!("{MEMBERS}/{name}"), object)
}

/// A hub with a namespace that has a ConfigMap and a Secret, and with two members.
fn hub() -> Server {
    let server = Server::new();
    server.serve(V1, "namespaces", "Namespace", false);
    server.serve(V1, "configmaps", "ConfigMap", true);
    server.serve(V1, "secrets", "Secret", true);
    for crd in fleet_api::crds::all() {
        let (names, is_namespaced) = (&crd.spec.names, crd.spec.scope == "Namespaced");
        let prefix = format!("/apis/{}/v1beta1", crd.spec.group);
        server.serve(&prefix, &names.plural, &names.kind, is_namespaced);
    }
    server.put(&format!("{V1}/namespaces/app"), json!({ "kind": "Namespace" }));
    server.put(
        &format!("{V1}/namespaces/app/configmaps/m"),
        json!({ "data": { "a": "1" } }),
    );
    let secret = json!({ "data": { "password": "aHVudGVyMg==" }, "type": "Opaque" });
    server.put(&format!("{V1}/namespaces/app/secrets/s"), secret);
    for (name, env) in [("east", "prod"), ("west", "test")] {
        let (path, object) = member(name, env);
        server.put(&path, object);
    }
    server
}

async fn shown(server: &Server, manifests: &Manifests) -> Result<Shown> {
    let key = manifests.placement(None).expect("the file has one");
    let asked = Asked {
        key: &key,
        manifests,
        strategy: None,
        index: None,
    };
    planned(&server.client(), &asked).await
}

#[tokio::test]
async fn a_file_is_planned_and_nothing_is_written() {
    let server = hub();
    let manifests = Manifests::parse(FILE).expect("YAML");
    let shown = shown(&server, &manifests).await.expect("a plan");
    assert!(shown.differs && shown.notes.is_empty(), "{:?}", shown.notes);
    assert!(
        server
            .get(&format!("{PLACEMENTS}/clusterresourceplacements/web"))
            .is_none()
    );
    let text = shown.text(&Style::default());
    assert!(!text.contains("aHVudGVyMg"), "{text}");
    // Sizes depend on nothing that matters here.
    let text: Vec<_> = text
        .lines()
        .map(str::trim_end)
        .take_while(|line| !line.starts_with("ON "))
        .collect();
    let wanted = "\
ClusterResourcePlacement web, which is new

RESOURCES   3 objects, 289 B, snapshot web-0-snapshot (new)
KIND        NAME    SIZE
Namespace   app     64 B
Secret      app/s   128 B
ConfigMap   app/m   97 B

CLUSTERS   1 added, 0 kept, 0 removed, 1 not picked; policy snapshot web-0 (new)
CLUSTER   CHANGE       AFFINITY   SPREAD   OVERRIDES   WHY
east      added        0          0
west      not picked                                   west does not match the required affinity: it has label env=test, not env=prod
                                                       next: kubectl label membercluster west --overwrite env=prod
";
    assert_eq!(text.join("\n") + "\n", wanted.to_owned() + "\n");
    let all = shown.text(&Style::default());
    for line in ["ON 1 cluster: east", "+  password: '***'", "  1. place on east"] {
        assert!(
            all.contains(line) || all.contains(&line.replace('\'', "\"")),
            "{line}: {all}"
        );
    }
    let json = serde_json::to_value(&shown).expect("it is JSON");
    assert_eq!(json["clusters"][0]["change"], "added");
    assert_eq!(
        json["rollout"]["waves"][0]["clusters"][0],
        json!({ "cluster": "east", "action": "place" })
    );
    assert_eq!(json["differences"][0]["objects"][0]["change"], "added");
}

#[tokio::test]
async fn kinds_that_may_not_be_listed_are_named_and_left_as_they_are() {
    let server = hub();
    server.fail(Fault::new("/secrets", 403).of("GET"));
    let shown = shown(&server, &Manifests::parse(FILE).expect("YAML"))
        .await
        .expect("a plan");
    let [note] = shown.notes.as_slice() else {
        panic!("one note, not {:?}", shown.notes);
    };
    assert!(
        note.starts_with("Secret cannot be listed (") && note.ends_with("as in the newest snapshot"),
        "{note}"
    );
    assert_eq!(shown.plan.resources.objects.len(), 2);
}

#[tokio::test]
async fn a_kind_that_the_hub_does_not_have_is_refused_as_the_hub_would() {
    let server = hub();
    let file = FILE.replace("kind: Namespace, name: app", "kind: Nonsense, name: app");
    let shown = shown(&server, &Manifests::parse(&file).expect("YAML"))
        .await
        .expect("a plan");
    let refused = shown.plan.refused.clone().expect("the hub refuses it");
    assert!(refused.contains("Nonsense"), "{refused}");
    assert!(shown.text(&Style::default()).contains("The hub would do nothing: "));
}

#[tokio::test]
async fn a_placement_that_is_nowhere_is_said() {
    let key = PlacementKey::new(None, "none").expect("a name");
    let manifests = Manifests::default();
    let asked = Asked {
        key: &key,
        manifests: &manifests,
        strategy: None,
        index: None,
    };
    let error = planned(&hub().client(), &asked)
        .await
        .expect_err("there is none")
        .to_string();
    assert!(
        error.starts_with("there is no ClusterResourcePlacement none"),
        "{error}"
    );
}

#[tokio::test]
async fn ten_thousand_members_cost_few_requests() {
    let server = hub();
    for i in 0..10_000 {
        let (path, object) = member(&format!("c{i:05}"), "prod");
        server.put(&path, object);
    }
    let before = server.reads();
    let shown = shown(&server, &Manifests::parse(FILE).expect("YAML"))
        .await
        .expect("a plan");
    let picked = shown
        .plan
        .clusters
        .iter()
        .filter(|cluster| cluster.change.has_it())
        .count();
    assert_eq!(picked, 10_001);
    let requests = server.reads() - before;
    // Eleven pages of members; this server does not answer questions about all kinds at once.
    assert!(requests <= 30, "{requests} requests");
    assert!(shown.text(&Style::default()).lines().count() < 10_100);
}

#[test]
fn placements_are_named_as_kubectl_names_them() {
    let shown = |text, namespace| named(text, namespace).map(|key| key.to_string());
    assert_eq!(shown("web", None).expect("a name"), "web");
    assert_eq!(shown("crp/web", Some("app")).expect("a name"), "web");
    assert_eq!(shown("rp/web", Some("app")).expect("a name"), "app/web");
    for (text, why) in [
        (
            "rp/web",
            "which namespace is ResourcePlacement \"web\" in? (--namespace)",
        ),
        (
            "pod/web",
            "\"pod\" is no placement: want `crp/NAME`, or `rp/NAME` with --namespace",
        ),
    ] {
        assert_eq!(named(text, None).expect_err(text).to_string(), why);
    }
    assert!(named("Größe!", None).is_err() || named("../x", None).is_err());
}
