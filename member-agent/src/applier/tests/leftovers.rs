//! What leaves a Work goes before what replaces it comes.

use super::*;

fn service(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": name, "namespace": "app"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080}]}})
}

fn service_path(name: &str) -> String {
    format!("/api/v1/namespaces/app/services/{name}")
}

#[tokio::test(start_paused = true)]
async fn what_is_left_over_is_removed_after_what_comes_is_written_down_and_before_it_is_made() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[service("old")]);
    stage.pass().await;
    let before = stage.member.written().len();
    stage.show(2, &json!({}), &json!({}), &[service("new")]);
    stage.pass().await;
    assert_eq!(
        stage.member.written()[before..],
        [
            format!("PATCH {OWNER}/status"),
            format!("DELETE {}", service_path("old")),
            "POST /api/v1/namespaces/app/services".to_owned(),
            format!("PATCH {OWNER}/status"),
        ]
    );
    let owner = stage.member.get(OWNER).unwrap();
    assert_eq!(owner["status"]["inventory"]["objects"], json!([]));
    assert_eq!(owner["status"]["appliedResources"].as_array().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_does_not_end_holds_up_nobody() {
    let mut stage = Stage::new();
    stage.show(1, &json!({}), &json!({}), &[service("old")]);
    stage.pass().await;
    // It is asked for again and again, each time with a wait in between.
    stage
        .member
        .fail(Fault::new(&service_path("old"), 503).of("DELETE").times(100));
    stage.show(2, &json!({}), &json!({}), &[service("new")]);
    stage.pass().await;
    assert!(stage.member.get(&service_path("new")).is_some());
    assert!(stage.member.get(&service_path("old")).is_some());
    let owner = stage.member.get(OWNER).unwrap();
    assert_eq!(owner["status"]["inventory"]["objects"][0]["names"], json!(["old"]));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_the_work_names_in_another_group_is_not_left_over() {
    let (job, web) = (
        "/apis/batch.example.com/v1/namespaces/app/jobs/x",
        "/apis/apps/v1/namespaces/app/deployments/x",
    );
    let named = |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "x", "namespace": "app"}});
    let served = async |unseen: bool| {
        let mut stage = Stage::new();
        stage.show(1, &json!({}), &json!({}), &[named("batch.example.com/v1", "Job")]);
        stage.pass().await;
        // One object, served in two groups.
        let mut same = stage.member.get(job).unwrap();
        same["apiVersion"] = json!("apps/v1");
        same["kind"] = json!("Deployment");
        stage.member.put(web, same);
        let before = stage.member.written().len();
        stage.show(2, &json!({}), &json!({}), &[named("apps/v1", "Deployment")]);
        if unseen {
            stage.member.fail(Fault::new(web, 403).of("GET").times(1));
        }
        stage.pass().await;
        stage.member.written()[before..]
            .iter()
            .any(|write| write.starts_with("DELETE"))
    };
    assert!(!served(false).await, "it was deleted");
    assert!(
        !served(true).await,
        "it was deleted although nobody had seen what it is"
    );
}
