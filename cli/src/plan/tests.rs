use fleet_testkit::{Fault, Server};
use serde_json::{Value, json};

use super::*;
use crate::{
    output::{Shown as _, Style},
    testing::shown::{assert_fits, assert_golden, narrow, piped},
};

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
    let key = manifests.placement("app").expect("the file has one");
    let asked = Asked {
        key: &key,
        namespace: "app",
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
        namespace: "app",
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

fn place(server: &Server) -> Place {
    Place {
        client: server.client(),
        namespace: "app".to_owned(),
    }
}

async fn named(place: &Place, words: &str) -> Result<String> {
    let words: Vec<_> = words.split(' ').map(str::to_owned).collect();
    Ok(place.named(&words, &Manifests::default()).await?.to_string())
}

#[tokio::test]
async fn placements_are_named_as_for_all_other_commands() {
    let server = hub();
    let spec = json!({ "spec": { "resourceSelectors": [] } });
    server.put(&format!("{PLACEMENTS}/clusterresourceplacements/web"), spec.clone());
    for name in ["web", "own"] {
        server.put(
            &format!("{PLACEMENTS}/namespaces/app/resourceplacements/{name}"),
            spec.clone(),
        );
    }
    let place = place(&server);
    for (words, wanted) in [
        ("web", "web"),
        ("crp/web", "web"),
        ("crp web", "web"),
        ("own", "app/own"),
        ("rp/web", "app/web"),
        ("resourceplacement.placement.kubernetes-fleet.io/any", "app/any"),
    ] {
        assert_eq!(named(&place, words).await.expect(words), wanted, "{words}");
    }
    let exit = |error: &anyhow::Error| crate::problem::exit_of(error);
    for words in ["pod/web", "../x", "web east"] {
        let error = named(&place, words).await.expect_err(words);
        assert_eq!(exit(&error), Exit::Usage, "{error}");
    }
    let error = named(&place, "none").await.expect_err("there is none");
    assert_eq!(exit(&error), Exit::Error);
    assert_eq!(
        error.to_string(),
        "there is no placement \"none\" (`-f` takes one that is only a file)"
    );
    // Who sees only a namespace finds what is in it.
    server.fail(Fault::new("/clusterresourceplacements", 403).of("GET"));
    assert_eq!(named(&place, "own").await.expect("it can be read"), "app/own");
    assert_eq!(exit(&named(&place, "none").await.expect_err("hidden")), Exit::Refused);
}

#[tokio::test]
async fn objects_without_a_namespace_are_in_that_of_the_context() {
    let server = hub();
    let file =
        format!("{FILE}---\n{{ apiVersion: v1, kind: ConfigMap, metadata: {{ name: m }}, data: {{ a: '2' }} }}\n");
    let shown = shown(&server, &Manifests::parse(&file).expect("YAML"))
        .await
        .expect("a plan");
    let text = shown.text(&Style::default());
    assert!(text.contains("+  a: '2'") || text.contains("+  a: \"2\""), "{text}");
    assert!(!text.contains("default/m"), "{text}");
}

#[tokio::test]
async fn what_the_file_no_longer_says_is_gone_as_after_kubectl_apply() {
    let server = hub();
    let mut before: Value = serde_saphyr::from_str(FILE).expect("YAML");
    before["spec"]["policy"] = json!({ "placementType": "PickN", "numberOfClusters": 1 });
    let mut live = before.clone();
    let note = ("kubectl.kubernetes.io/last-applied-configuration", before.to_string());
    live["metadata"]["annotations"][note.0] = note.1.into();
    // Somebody else's word, which stays.
    live["spec"]["revisionHistoryLimit"] = json!(3);
    let path = format!("{PLACEMENTS}/clusterresourceplacements/web");
    server.put(&path, live);
    let mut file = before;
    file["spec"].as_object_mut().expect("a map").remove("policy");
    let manifests = Manifests::parse(&file.to_string()).expect("YAML");
    let shown = shown(&server, &manifests).await.expect("a plan");
    let picked = shown.plan.clusters.iter().filter(|cluster| cluster.change.has_it());
    assert_eq!(picked.count(), 2, "without a policy the placement is on all clusters");
    let stored = server.get(&path).expect("it is there");
    assert_eq!(stored["spec"]["policy"]["numberOfClusters"], 1, "nothing is written");
}

#[tokio::test]
async fn what_may_not_be_read_is_named_and_never_taken_for_all_is_well() {
    for (plural, word) in [
        ("clusterresourcebindings", "which clusters have it is not known"),
        ("clusterresourcesnapshots", "what clusters have is not known"),
        (
            "clusterschedulingpolicysnapshots",
            "whether the policy is new is not known",
        ),
        ("clusterresourceoverridesnapshots", "overrides are left out"),
    ] {
        let server = hub();
        server.fail(Fault::new(&format!("/{plural}"), 403).of("GET"));
        let mut shown = shown(&server, &Manifests::parse(FILE).expect("YAML"))
            .await
            .expect("a plan");
        let [hidden] = shown.hidden.as_slice() else {
            panic!("{plural}: {:?}", shown.hidden);
        };
        assert_eq!(hidden.what, plural);
        assert!(
            hidden.why.ends_with(&format!(": {word}")) || hidden.why.contains(word),
            "{}",
            hidden.why
        );
        assert!(shown.text(&Style::default()).contains(&format!("hidden: {plural} (")));
        shown.differs = false;
        assert_eq!(shown.exit(), Exit::Left);
    }
    let server = hub();
    server.fail(Fault::new("/memberclusters", 403).of("GET"));
    let manifests = Manifests::parse(FILE).expect("YAML");
    assert!(
        shown(&server, &manifests).await.is_err(),
        "without members there is no plan"
    );
}

#[tokio::test]
async fn many_namespaces_cost_one_list_of_each_kind() {
    let server = hub();
    for number in 0..100 {
        let name = format!("team-{number:03}");
        server.put(
            &format!("{V1}/namespaces/{name}"),
            json!({ "kind": "Namespace", "metadata": { "labels": { "t": "1" } } }),
        );
        server.put(&format!("{V1}/namespaces/{name}/configmaps/m"), json!({ "data": {} }));
    }
    let file = FILE.replace("name: app }", "labelSelector: { matchLabels: { t: '1' } } }");
    let manifests = Manifests::parse(&file).expect("YAML");
    let before = server.reads();
    let objects = shown(&server, &manifests).await.expect("a plan").plan.resources.objects;
    // The ConfigMap of another namespace is none of them.
    assert_eq!(objects.len(), 200);
    let requests = server.reads() - before;
    assert!(requests <= 30, "{requests} requests");
    // Who may list them in each namespace, but not in all.
    server.answer(|_, path, _| {
        (path == "/api/v1/configmaps").then(|| (403, json!({ "kind": "Status", "code": 403, "message": "no" })))
    });
    let shown = shown(&server, &manifests).await.expect("a plan");
    assert_eq!(
        (shown.plan.resources.objects.len(), shown.notes.len()),
        (200, 0),
        "{:?}",
        shown.notes
    );
}

const RUN: &str = "
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateStrategy
metadata: { name: slow }
spec: { stages: [{ name: canary, labelSelector: { matchLabels: { env: test } } }] }
---
apiVersion: placement.kubernetes-fleet.io/v1beta1
kind: ClusterStagedUpdateRun
metadata:
  name: release
  annotations: { rollout.kubernetes-fleet.io/unassigned-clusters: Ignore }
spec: { placementName: web, stagedRolloutStrategyName: slow }
";

#[tokio::test]
async fn a_run_in_the_files_is_planned_with_its_own_settings() {
    let server = hub();
    let file = FILE.split("  policy:").next().expect("the head");
    let file = format!("{file}  strategy: {{ type: External }}\n---{RUN}");
    let planned = async |file: &str| {
        let shown = shown(&server, &Manifests::parse(file).expect("YAML"))
            .await
            .expect("a plan");
        shown.plan.run.expect("a run")
    };
    let run = planned(&file).await;
    assert_eq!((run.problem.as_deref(), run.strategy.as_str()), (None, "slow"));
    let left_out: Vec<_> = run
        .outline
        .expect("a plan")
        .unassigned
        .iter()
        .map(|it| it.cluster.clone())
        .collect();
    assert_eq!(left_out, ["east"]);
    // The hash fits the run that it is written to.
    let pinned = format!("Ignore, rollout.kubernetes-fleet.io/plan: {} }}", run.hash);
    let again = planned(&file.replace("Ignore }", &pinned)).await;
    assert_eq!((again.problem, again.hash), (None, run.hash));
    let without = planned(&file.replace("unassigned-clusters: Ignore", "unassigned-clusters: Fail")).await;
    assert!(without.problem.expect("it cannot begin").contains("east"));
}

#[tokio::test]
async fn what_is_printed() {
    let server = hub();
    let new = shown(&server, &Manifests::parse(FILE).expect("YAML"))
        .await
        .expect("a plan");
    assert_golden("plan-new.txt", &piped(&new));
    let thin = new.text(&narrow());
    assert_golden("plan-new-narrow.txt", &thin);
    assert_fits(&thin, 40);
    let file = FILE.split("  policy:").next().expect("the head");
    let file = format!("{file}  strategy: {{ type: External }}\n---{RUN}");
    let run = shown(&server, &Manifests::parse(&file).expect("YAML"))
        .await
        .expect("a plan");
    assert_golden("plan-run.txt", &piped(&run));
    let words = "clusterresourcebindings.placement.kubernetes-fleet.io is forbidden: User \"eve\" cannot list resource \
                 \"clusterresourcebindings\" in API group \"placement.kubernetes-fleet.io\" at the cluster scope";
    server.answer(move |_, path, _| {
        let is_hidden = path.ends_with("/clusterresourcebindings");
        is_hidden.then(|| {
            (
                403,
                json!({ "kind": "Status", "code": 403, "reason": "Forbidden", "message": words }),
            )
        })
    });
    let hidden = shown(&server, &Manifests::parse(FILE).expect("YAML"))
        .await
        .expect("a plan");
    assert_golden("plan-hidden.txt", &piped(&hidden));
}

#[tokio::test]
async fn what_is_left_of_a_run_is_found_by_name_alone() {
    let server = hub();
    let task = json!({ "type": "Approval", "approvalRequestName": "release-after-canary" });
    let status = json!({
        "stagedUpdateStrategySnapshot": { "stages": [] }, "resourceSnapshotIndexUsed": "1",
        "stagesStatus": [{ "stageName": "canary", "clusters": [], "afterStageTaskStatus": [task] }],
    });
    let run = json!({ "spec": { "placementName": "web", "stagedRolloutStrategyName": "slow" }, "status": status });
    server.put(&format!("{PLACEMENTS}/namespaces/app/stagedupdateruns/release"), run);
    let place = place(&server);
    for name in ["release", "sur/release"] {
        let left = place.left(name).await.expect(name);
        assert!(!left.is_done(), "it waits for an approval");
        assert_eq!(left.names(), ["stagedupdaterun/release"]);
        assert!(piped(&left).contains("after it: the approval release-after-canary"));
    }
    let error = place
        .left("csur/release")
        .await
        .expect_err("it is of the other kind")
        .to_string();
    assert_eq!(error, "there is no update run \"csur/release\"");
}
