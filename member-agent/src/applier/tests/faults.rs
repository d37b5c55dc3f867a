//! What fails, what is refused, and who interferes.

use fleet_api::placement::{ApplyStrategy, WorkResourceIdentifier};
use fleet_core::apply::{clean::ReservedKeys, owners::Owner};

use super::super::{
    manifest::{Job, Tools, carry_out, rules::MergeRules},
    member_api::{MemberApi, kinds::Gvk},
    memory::ManifestMemory,
};
use super::*;

fn named(api_version: &str, kind: &str, name: &str) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "app"}});
    if kind == "Namespace" {
        object["metadata"] = json!({"name": name});
    }
    object
}

#[tokio::test(start_paused = true)]
async fn waves_go_one_after_the_other_and_a_failure_holds_up_nobody() {
    let mut stage = Stage::new();
    let manifests = [
        named("batch.example.com/v1", "Job", "foreign"),
        named("apps/v1", "Deployment", "web"),
        config("c", &json!({})),
        named("v1", "Namespace", "refused"),
        named("v1", "Namespace", "app"),
    ];
    // The first namespace is refused, whatever is tried.
    stage.member.put(
        "/api/v1/namespaces/refused",
        json!({"metadata": {
        "name": "refused", "ownerReferences": [{"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o"}]}}),
    );
    stage.show(1, &json!({}), &json!({}), &manifests);
    stage.pass().await;
    let made: Vec<String> = stage
        .member
        .written()
        .into_iter()
        .filter(|w| w.starts_with("POST"))
        .collect();
    assert_eq!(
        made,
        [
            "POST /apis/placement.kubernetes-fleet.io/v1beta1/appliedworks",
            "POST /api/v1/namespaces",
            "POST /api/v1/namespaces/app/configmaps",
            "POST /apis/apps/v1/namespaces/app/deployments",
            "POST /apis/batch.example.com/v1/namespaces/app/jobs",
        ]
    );
    assert_eq!(stage.conditions(), [("Applied".to_owned(), Status::False)]);
}

fn deployments() -> Gvk {
    Gvk {
        group: "apps".to_owned(),
        version: "v1".to_owned(),
        kind: "Deployment".to_owned(),
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_kind_cannot_be_looked_up_nothing_of_it_is_removed() {
    let mut stage = Stage::new();
    let web = named("apps/v1", "Deployment", "web");
    stage.show(1, &json!({}), &json!({}), &[web.clone(), config("c", &json!({}))]);
    stage.pass().await;
    // Discovery fails while the Work changes.
    stage.applier.decoder.kinds.forget(&deployments());
    stage.member.fail(Fault::new("/apis/apps/v1", 503).of("GET").times(1));
    stage.show(2, &json!({}), &json!({}), &[web, config("d", &json!({}))]);
    stage.pass().await;
    assert!(
        stage
            .member
            .get("/apis/apps/v1/namespaces/app/deployments/web")
            .is_some()
    );
    assert_eq!(stage.member.get(&config_path("c")), None);
    assert_eq!(stage.conditions(), [("Applied".to_owned(), Status::False)]);
    tokio::time::advance(std::time::Duration::from_secs(6)).await;
    stage.pass().await;
    assert!(stage.conditions().contains(&("Applied".to_owned(), Status::True)));
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_not_served_says_nothing_about_its_objects() {
    let mut stage = Stage::new();
    let job = named("batch.example.com/v1", "Job", "j");
    stage.show(1, &json!({}), &json!({}), &[job, config("c", &json!({}))]);
    stage.pass().await;
    let path = "/apis/batch.example.com/v1/namespaces/app/jobs/j";
    assert!(stage.member.get(path).is_some());
    // It leaves the Work while nobody serves the kind.
    stage.member.fail(Fault::new("/jobs/j", 404).of("GET").times(2));
    stage.show(2, &json!({}), &json!({}), &[config("c", &json!({}))]);
    stage.pass().await;
    assert!(stage.member.get(path).is_some(), "it could not be looked at");
    tokio::time::advance(std::time::Duration::from_mins(16)).await;
    stage.pass().await;
    assert_eq!(stage.member.get(path), None, "it was not forgotten");
}

#[tokio::test(start_paused = true)]
async fn only_writes_that_change_something_are_a_fight() {
    let member = cluster();
    let (api, rules) = (MemberApi::new(member.client()), MergeRules::new(member.client()));
    let work_exists = |_: &str| Ok(true);
    let tools = Tools {
        objects: &api.objects,
        rules: &rules,
        work_exists: &work_exists,
        reserved: ReservedKeys::Hidden,
    };
    let strategy: ApplyStrategy = serde_json::from_value(json!({"type": "ServerSideApply"})).unwrap();
    let owner = Owner {
        name: "work".to_owned(),
        uid: "owner".to_owned(),
    };
    let manifest = config("c", &json!({"a": "1"}));
    let id = serde_json::from_value(json!({
        "ordinal": 0, "group": "", "version": "v1", "kind": "ConfigMap", "resource": "configmaps", "namespace": "app",
        "name": "c",
    }));
    let id: WorkResourceIdentifier = id.unwrap();
    api.learn([&id]).await;
    let round = async |before: Option<&ManifestMemory>| {
        let job = Job {
            id: &id,
            manifest: &manifest,
            place: api.place(&id).unwrap(),
            strategy: &strategy,
            owner: &owner,
            generation: 1,
            mirror: false,
            before,
            is_new: before.is_none(),
            now: jiff::Timestamp::from_second(1000).unwrap(),
        };
        carry_out(tools, job).await
    };
    let mut done = round(None).await;
    let tamper = |field: &str, n: usize| {
        let mut object = member.get(&config_path("c")).unwrap();
        object[field] = json!({"a": n.to_string()});
        member.put(&config_path("c"), object);
    };
    for n in 0..6 {
        tamper("status", n);
        done = round(Some(&done.memory)).await;
        assert!(done.contested.is_none(), "a status is nobody's fight");
    }
    let mut contested = Vec::new();
    for n in 7..10 {
        tamper("data", n);
        done = round(Some(&done.memory)).await;
        contested.push(done.contested.is_some());
    }
    assert_eq!(contested, [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn errors_that_pass_end_converged() {
    let collection = "/api/v1/namespaces/app/configmaps";
    for (method, path, times, code) in [
        ("GET", collection, 2, 500),
        ("POST", collection, 2, 429),
        ("POST", collection, 1, 409),
        ("POST", "appliedworks", 1, 409),
        ("POST", "appliedworks", 1, 500),
        ("PATCH", "appliedworks/w/status", 1, 409),
        ("PATCH", "appliedworks/w/status", 1, 503),
        ("GET", "appliedworks/w", 1, 500),
    ] {
        let mut stage = Stage::new();
        stage.show(1, &json!({}), &json!({}), &[config("c", &json!({"a": "1"}))]);
        stage.member.fail(Fault::new(path, code).of(method).times(times));
        let mut rounds = 0;
        while let Err(error) = stage.applier.pass("w").await {
            rounds += 1;
            assert!(rounds < 3, "{method} {path} {code}: {error:?}");
        }
        assert_eq!(stage.conditions(), good(), "{method} {path} {code}");
        assert!(stage.member.get(&config_path("c")).is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_vanishes_under_a_patch_is_looked_at_again() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({"a": "1"}))]);
    stage.pass().await;
    stage
        .member
        .fail(Fault::new(&config_path("c"), 404).of("PATCH").times(1));
    stage.show(2, &json!({}), &json!({}), &[config("c", &json!({"a": "2"}))]);
    stage.pass().await;
    assert_eq!(stage.member.get(&config_path("c")).unwrap()["data"]["a"], "2");
    assert_eq!(stage.conditions(), good());
}

#[tokio::test(start_paused = true)]
async fn a_leftover_that_cannot_be_removed_is_said_and_the_rest_goes_on() {
    let mut stage = Stage::new();
    stage.show(
        1,
        &json!({}),
        &json!({}),
        &[config("c", &json!({})), config("d", &json!({}))],
    );
    stage.pass().await;
    stage.said();
    stage
        .member
        .fail(Fault::new(&config_path("d"), 403).of("DELETE").times(2));
    stage.show(2, &json!({}), &json!({}), &[config("c", &json!({"a": "2"}))]);
    stage.pass().await;
    assert_eq!(stage.member.get(&config_path("c")).unwrap()["data"]["a"], "2");
    let said = stage.said();
    let Some(MemberMessage::WorkStatus(status)) = said.iter().find(|m| matches!(m, MemberMessage::WorkStatus(_)))
    else {
        panic!("nothing was said: {said:?}")
    };
    let applied = &status.conditions[0];
    assert!(
        applied.message.contains("ConfigMap app/d could not be removed"),
        "{}",
        applied.message
    );
    // It stays written down, and goes with the next attempt.
    tokio::time::advance(std::time::Duration::from_secs(6)).await;
    stage.pass().await;
    assert_eq!(stage.member.get(&config_path("d")), None);
}

#[tokio::test(start_paused = true)]
async fn times_alone_are_refreshed_now_and_then() {
    let mut stage = Stage::new();
    let careful = json!({"whenToApply": "IfNotDrifted", "comparisonOption": "FullComparison"});
    stage.show(1, &json!({}), &careful, &[config("c", &json!({"a": "1"}))]);
    stage.pass().await;
    let mut theirs = stage.member.get(&config_path("c")).unwrap();
    theirs["data"]["a"] = json!("2");
    stage.member.put(&config_path("c"), theirs);
    settle().await;
    stage.pass().await;
    assert_eq!(stage.conditions(), [("Applied".to_owned(), Status::False)]);
    // Looked at again and again: the same drift is said again only after five minutes.
    let mut said = 0;
    for _ in 0..20 {
        tokio::time::advance(std::time::Duration::from_secs(30)).await;
        stage.clock.set(stage.clock.now() + jiff::SignedDuration::from_secs(30));
        stage.pass().await;
        said += stage.said().len();
    }
    assert!((1..=2).contains(&said), "{said} reports in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_somebody_keeps_changing_back_is_left_alone_for_a_while() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({"a": "1"}))]);
    stage.pass().await;
    stage.said();
    let tamper = |stage: &Stage| {
        let mut theirs = stage.member.get(&config_path("c")).unwrap();
        theirs["data"]["a"] = json!("2");
        theirs["metadata"]["managedFields"] = json!([{"manager": "rival", "time": "2026-01-01T00:00:00Z"}]);
        stage.member.put(&config_path("c"), theirs);
    };
    let value = |stage: &Stage| stage.member.get(&config_path("c")).unwrap()["data"]["a"].clone();
    for _ in 0..3 {
        tamper(&stage);
        settle().await;
        stage.pass().await;
        assert_eq!(value(&stage), "1");
    }
    let event = stage.said().into_iter().find_map(|message| match message {
        MemberMessage::Event(event) => Some(event.message),
        _ => None,
    });
    assert!(event.unwrap().contains("rival"));
    let status = |stage: &Stage| {
        stage.said().into_iter().find_map(|message| match message {
            MemberMessage::WorkStatus(status) => {
                let applied = status.manifests[0].conditions[0].clone();
                Some((status.conditions[0].status, applied.reason, applied.message))
            }
            _ => None,
        })
    };
    tamper(&stage);
    settle().await;
    stage.pass().await;
    assert_eq!(value(&stage), "2", "it is left alone");
    assert_eq!(status(&stage), None, "it was said with the last overwrite");
    // The next overwrite changes nothing about that.
    let wait = async |stage: &Stage, secs: i64| {
        tokio::time::advance(std::time::Duration::from_secs(secs.unsigned_abs())).await;
        stage
            .clock
            .set(stage.clock.now() + jiff::SignedDuration::from_secs(secs));
        stage.pass().await;
    };
    wait(&stage, 10).await;
    assert_eq!(value(&stage), "1");
    assert_eq!(status(&stage), None, "it is known");
    // They give up: once it has stayed, it is applied.
    wait(&stage, 20).await;
    assert_eq!(status(&stage).unwrap().0, Status::True);
    tamper(&stage);
    settle().await;
    stage.pass().await;
    let (applied, reason, message) = status(&stage).unwrap();
    assert_eq!((applied, &*reason), (Status::False, "ManifestApplyFailed"));
    assert_eq!(
        message,
        "Failed to apply the manifest (error: failed to apply the manifest: rival keeps changing the object back on the \
         member cluster; let only one of the two manage it)"
    );
    tamper(&stage);
    settle().await;
    stage.pass().await;
    stage.show(2, &json!({}), &json!({}), &[config("c", &json!({"a": "3"}))]);
    stage.pass().await;
    assert_eq!(value(&stage), "3", "a new generation is another matter");
}

#[tokio::test(start_paused = true)]
async fn a_terminating_owner_is_waited_for() {
    let mut stage = Stage::new();
    let going = json!({"metadata": {
        "name": "w", "uid": "old", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["foregroundDeletion"]},
        "spec": {"workName": "w", "workNamespace": "fleet-member-east"}});
    stage.member.put(OWNER, going);
    stage.show(1, &json!({}), &json!({}), &[config("c", &json!({}))]);
    stage.pass().await;
    assert_eq!(stage.member.written(), Vec::<String>::new());
}
