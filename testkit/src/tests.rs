//! What clients rely on.

use futures::{AsyncBufReadExt as _, StreamExt as _, stream::BoxStream};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};

use crate::{Fault, Server};

const HOME: &str = "/api/v1/namespaces/default/configmaps";

fn configs(server: &Server) -> Api<ConfigMap> {
    Api::namespaced(server.client(), "default")
}

fn config(name: &str) -> ConfigMap {
    serde_json::from_value(json!({ "metadata": { "name": name }, "data": { "key": "one" } })).unwrap()
}

fn code(error: &kube::Error) -> u16 {
    match error {
        kube::Error::Api(status) => status.code,
        other => panic!("{other}"),
    }
}

async fn watch(client: &Client, from: u64) -> BoxStream<'static, Value> {
    let query = format!("{HOME}?watch=true&resourceVersion={from}");
    let request = http::Request::get(query).body(Vec::new()).unwrap();
    let lines = client.request_stream(request).await.unwrap().lines();
    let read = |line: std::io::Result<String>| serde_json::from_str(&line.unwrap()).unwrap();
    lines.map(read).boxed()
}

fn told(event: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    format!(
        "{} {}",
        text(&event["type"]),
        text(&event["object"]["metadata"]["name"])
    )
}

#[tokio::test]
async fn objects_have_versions_and_conflicts() {
    let server = Server::new();
    let api = configs(&server);
    let made = api.create(&PostParams::default(), &config("a")).await.unwrap();
    assert!(made.uid().is_some() && made.metadata.generation == Some(1));
    let again = api.create(&PostParams::default(), &config("a")).await.unwrap_err();
    assert_eq!(code(&again), 409);
    let patch = Patch::Merge(json!({ "data": { "key": "two" } }));
    let changed = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_ne!(changed.resource_version(), made.resource_version());
    let same = api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(
        same.resource_version(),
        changed.resource_version(),
        "no change, no version"
    );
    let stale = api.replace("a", &PostParams::default(), &made).await.unwrap_err();
    assert_eq!(code(&stale), 409);
    assert_eq!(code(&api.get("b").await.unwrap_err()), 404);
}

#[tokio::test]
async fn what_is_only_tried_is_answered_and_leaves_nothing_behind() {
    let server = Server::new();
    let api = configs(&server);
    let trial = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = api.create(&trial, &config("a")).await.unwrap();
    assert!(made.uid().is_some() && made.resource_version().is_none());
    assert_eq!(code(&api.get("a").await.unwrap_err()), 404);
    let stored = api.create(&PostParams::default(), &config("a")).await.unwrap();
    assert_eq!(code(&api.create(&trial, &config("a")).await.unwrap_err()), 409);

    let version = server.version();
    let patch = Patch::Merge(json!({ "data": { "key": "two" } }));
    let params = PatchParams {
        dry_run: true,
        ..PatchParams::default()
    };
    let changed = api.patch("a", &params, &patch).await.unwrap();
    assert_eq!(changed.data.unwrap()["key"], "two");
    assert_eq!(changed.metadata.resource_version, stored.metadata.resource_version);
    api.delete("a", &DeleteParams::default().dry_run()).await.unwrap();
    assert_eq!(server.get(&format!("{HOME}/a")).unwrap()["data"]["key"], "one");
    assert_eq!((server.version(), server.written().len()), (version, 1));
}

#[tokio::test]
async fn only_kinds_of_kubernetes_are_replaced_without_a_version() {
    let server = Server::new();
    let client = server.client();
    for (path, taken) in [
        ("/api/v1/namespaces/default/configmaps/a", true),
        ("/apis/apps/v1/namespaces/default/deployments/a", true),
        ("/apis/coordination.k8s.io/v1/namespaces/default/leases/a", false),
        ("/apis/example.com/v1/widgets/a", false),
        ("/apis/multicluster.x-k8s.io/v1alpha1/widgets/a", false),
    ] {
        let stored = server.put(path, json!({}));
        let put = |body: Value| {
            let request = http::Request::put(path).body(body.to_string().into_bytes()).unwrap();
            client.request::<Value>(request)
        };
        let new = |metadata: Value| json!({ "metadata": metadata, "data": { "key": "new" } });
        let blind = put(new(json!({ "name": "a" }))).await;
        match blind {
            Ok(_) => assert!(taken, "{path}"),
            Err(error) => {
                assert!(!taken && code(&error) == 422, "{path}: {error}");
                assert!(error.to_string().contains("must be specified for an update"), "{error}");
                let version = &stored["metadata"]["resourceVersion"];
                let known = put(new(json!({ "name": "a", "resourceVersion": version }))).await;
                assert_eq!(known.unwrap()["data"]["key"], "new");
            }
        }
    }
}

#[tokio::test]
async fn a_finalizer_holds_and_a_precondition_protects() {
    let server = Server::new();
    let held = format!("{HOME}/a");
    server.put(&held, json!({ "metadata": { "finalizers": ["example.com/hold"] } }));
    let api = configs(&server);
    let another = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some("another".to_owned()),
            ..Preconditions::default()
        }),
        ..DeleteParams::default()
    };
    assert_eq!(code(&api.delete("a", &another).await.unwrap_err()), 409);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let going = server.get(&held).unwrap();
    assert!(going["metadata"]["deletionTimestamp"].is_string());
    let patch = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
    assert_eq!(server.get(&held), None);
}

#[tokio::test]
async fn status_and_spec_are_written_apart_and_only_the_spec_counts() {
    let server = Server::new();
    let path = "/apis/apps/v1/namespaces/default/deployments/a";
    server.put(path, json!({ "spec": { "replicas": 1 } }));
    let api: Api<k8s_openapi::api::apps::v1::Deployment> = Api::namespaced(server.client(), "default");
    let both = Patch::Merge(json!({ "spec": { "replicas": 2 }, "status": { "replicas": 2 } }));
    let said = api.patch_status("a", &PatchParams::default(), &both).await.unwrap();
    assert_eq!(
        (said.metadata.generation, said.spec.unwrap().replicas),
        (Some(1), Some(1))
    );
    let changed = api.patch("a", &PatchParams::default(), &both).await.unwrap();
    assert_eq!(changed.metadata.generation, Some(2));
    assert_eq!(changed.status.unwrap().replicas, Some(2), "what was said before stays");
}

#[tokio::test]
async fn what_is_applied_is_made_or_changed() {
    let server = Server::new();
    let api = configs(&server);
    let (params, path) = (PatchParams::apply("test").force(), format!("{HOME}/a"));
    for text in ["one", "two"] {
        let wanted =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "key": text } });
        api.patch("a", &params, &Patch::Apply(wanted)).await.unwrap();
        assert_eq!(server.get(&path).unwrap()["data"]["key"], text);
    }
}

#[tokio::test]
async fn lists_come_in_pages_and_by_label() {
    let server = Server::new();
    for n in 0..5 {
        let labels = json!({ "parity": if n % 2 == 0 { "even" } else { "odd" } });
        server.put(&format!("{HOME}/c{n}"), json!({ "metadata": { "labels": labels } }));
    }
    let api = configs(&server);
    let mut page = ListParams::default().limit(2);
    let mut names = Vec::new();
    loop {
        let list = api.list(&page).await.unwrap();
        assert!(list.items.len() <= 2);
        names.extend(list.items.iter().map(kube::ResourceExt::name_any));
        match list.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => page = page.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, ["c0", "c1", "c2", "c3", "c4"]);
    let odd = api
        .list(&ListParams::default().labels("parity=odd,!gone"))
        .await
        .unwrap();
    assert_eq!(odd.items.len(), 2);
    let one = api
        .list_metadata(&ListParams::default().fields("metadata.name=c3"))
        .await
        .unwrap();
    assert_eq!(one.items.len(), 1);
}

#[tokio::test]
async fn watches_go_on_from_a_version_lag_and_end_when_history_is_gone() {
    let server = Server::new();
    let client = server.client();
    server.put(&format!("{HOME}/a"), json!({}));
    let from = server.version();
    server.put(&format!("{HOME}/b"), json!({}));
    let mut events = watch(&client, from).await;
    assert_eq!(told(&events.next().await.unwrap()), "ADDED b");
    server.lag();
    server.edit(&format!("{HOME}/a"), |object| object["data"] = json!({}));
    server.delete(&format!("{HOME}/b"));
    let next = tokio::time::timeout(std::time::Duration::from_millis(20), events.next()).await;
    assert!(next.is_err(), "nothing yet");
    server.catch_up();
    assert_eq!(told(&events.next().await.unwrap()), "MODIFIED a");
    assert_eq!(told(&events.next().await.unwrap()), "DELETED b");
    server.bookmark();
    let mark = events.next().await.unwrap();
    assert_eq!(
        mark["object"]["metadata"]["resourceVersion"],
        server.version().to_string()
    );
    server.compact();
    let mut late = watch(&client, from).await;
    let end = late.next().await.unwrap();
    assert_eq!(
        (end["type"].as_str(), end["object"]["code"].as_u64()),
        (Some("ERROR"), Some(410))
    );
    assert!(late.next().await.is_none());
    server.end_watches();
    assert!(events.next().await.is_none());
}

#[tokio::test]
async fn a_watch_from_a_list_of_nothing_shows_the_first_object() {
    let server = Server::new();
    let list = configs(&server).list(&ListParams::default()).await.unwrap();
    let from = list.metadata.resource_version.unwrap().parse().unwrap();
    assert_ne!(from, 0, "that is any version");
    let mut events = watch(&server.client(), from).await;
    server.put(&format!("{HOME}/a"), json!({}));
    let next = tokio::time::timeout(std::time::Duration::from_secs(10), events.next()).await;
    assert_eq!(told(&next.unwrap().unwrap()), "ADDED a");
}

#[tokio::test]
async fn an_answer_can_be_lost_after_the_write() {
    let server = Server::new();
    let api = configs(&server);
    server.fail(Fault::new("/configmaps", 504).of("POST").times(1).done_all_the_same());
    assert_eq!(
        code(&api.create(&PostParams::default(), &config("a")).await.unwrap_err()),
        504
    );
    assert!(server.get(&format!("{HOME}/a")).is_some());
    server.fail(Fault::new("/configmaps/a", 429).after(1));
    let patch = |text: &str| Patch::Merge(json!({ "data": { "key": text } }));
    api.patch("a", &PatchParams::default(), &patch("x")).await.unwrap();
    let refused = api.patch("a", &PatchParams::default(), &patch("y")).await.unwrap_err();
    assert_eq!(code(&refused), 429);
    server.recover();
    api.patch("a", &PatchParams::default(), &patch("y")).await.unwrap();
    let codes: Vec<_> = server.writes().iter().map(|write| write.code).collect();
    assert_eq!(codes, [504, 200, 429, 200]);
    let patched = format!("PATCH {HOME}/a");
    assert_eq!(server.written(), [patched.clone(), patched]);
    server.forget_writes();
    assert_eq!(server.written(), Vec::<String>::new());
}

#[tokio::test]
async fn only_kinds_that_are_served_are_there() {
    let server = Server::new();
    server.serve("/api/v1", "configmaps", "ConfigMap", true);
    server.serve_without_status("/apis/example.com/v1", "widgets", "Widget", false);
    let client = server.client();
    let groups = client.list_api_groups().await.unwrap();
    assert_eq!(groups.groups[0].name, "example.com");
    let kinds = client.list_api_group_resources("example.com/v1").await.unwrap();
    let names: Vec<_> = kinds.resources.iter().map(|kind| kind.name.as_str()).collect();
    assert_eq!(names, ["widgets"]);
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::all(client);
    assert_eq!(code(&secrets.list(&ListParams::default()).await.unwrap_err()), 404);
}

#[tokio::test]
async fn a_test_answers_what_it_likes() {
    let server = Server::new();
    server.answer(|method, path, body| {
        let asked = method == "POST" && path.ends_with("/tokenreviews");
        asked.then(|| {
            (
                201,
                json!({ "metadata": {}, "spec": body["spec"], "status": { "authenticated": true } }),
            )
        })
    });
    let reviews: Api<k8s_openapi::api::authentication::v1::TokenReview> = Api::all(server.client());
    let review = serde_json::from_value(json!({ "metadata": {}, "spec": { "token": "t" } })).unwrap();
    let answer = reviews.create(&PostParams::default(), &review).await.unwrap();
    assert_eq!(answer.status.unwrap().authenticated, Some(true));
}
