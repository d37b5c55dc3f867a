//! Each kind of write of a run is refused for a while: nothing is said to be done that is not, and then it goes on.

use anyhow::{Result, ensure};
use fleet_api::placement::{ClusterScoped, Scope};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::bound;
use fleet_e2e::played::Cast;
use fleet_e2e::refusal::{Rule, allow, refuse};
use fleet_e2e::runs::{Story, stage};
use fleet_e2e::wait;
use kube::ResourceExt as _;
use serde_json::{Value, json};

const GROUP: &str = "placement.kubernetes-fleet.io";

/// How many conditions the only cluster and the only task have: what is not done is not said.
fn said(status: &Value) -> (usize, usize) {
    let stage = &status["stagesStatus"][0];
    let count = |entry: &Value| entry["conditions"].as_array().map_or(0, Vec::len);
    (count(&stage["clusters"][0]), count(&stage["beforeStageTaskStatus"][0]))
}

async fn until_said(story: &Story<ClusterScoped>, run: &str, wanted: (usize, usize)) -> Result<()> {
    let what = format!("{wanted:?}");
    wait::until_present(story.runs().await?, run, &what, |run| {
        said(&run.data["status"]) == wanted
    })
    .await?;
    Ok(())
}

#[test]
fn what_is_refused_is_not_said_to_be_done_and_is_done_later() {
    scenario("run-refused", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        story.strategy(&json!([stage("all", &gate)])).await?;
        let bindings = story.placement.until_bindings("one", |all| all.len() == 1).await?;
        let (run, binding) = (ctx.name("run"), bindings[0].name_any());
        let request = format!("{run}-before-all");
        let named = |name: &str| format!("object.metadata.name == '{name}'");
        let agent = "request.userInfo.username.endsWith(':hub-agent-sa')";
        let has = |type_: &str| {
            let list = "object.status.conditions";
            format!("has(object.status) && has({list}) && {list}.exists(c, c.type == '{type_}')")
        };
        let rules = [
            (
                "finalizer",
                "clusterstagedupdateruns",
                format!("{} && {agent}", named(&run)),
            ),
            ("plan", "clusterstagedupdateruns/status", named(&run)),
            ("request", "clusterapprovalrequests", named(&request)),
            (
                "accepted",
                "clusterapprovalrequests/status",
                format!("{} && {}", named(&request), has("ApprovalAccepted")),
            ),
            (
                "content",
                "clusterresourcebindings",
                format!("{} && object.spec.state == 'Bound'", named(&binding)),
            ),
            (
                "stamp",
                "clusterresourcebindings/status",
                format!("{} && {}", named(&binding), has("RolloutStarted")),
            ),
        ];
        let rules = rules.map(|(word, resource, condition)| Rule {
            word,
            group: GROUP,
            resource,
            condition,
            reason: "Forbidden",
        });
        refuse(&ctx, &rules).await?;
        story.run("run", &json!({})).await?;
        let runs = story.runs().await?;
        ensure!(runs.get(&run).await?.data.get("status").is_none());

        allow(&ctx, "finalizer").await?;
        let held = wait::until_present(runs.clone(), &run, "held", |run| !run.finalizers().is_empty()).await?;
        ensure!(held.data.get("status").is_none(), "{held:?}");
        allow(&ctx, "plan").await?;
        story
            .until(&run, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        until_said(&story, &run, (0, 0)).await?;
        allow(&ctx, "request").await?;
        story.until_asked(&request).await?;
        story.approve(&request, 1).await?;
        // It is asked for, and not accepted.
        until_said(&story, &run, (0, 1)).await?;
        allow(&ctx, "accepted").await?;
        let requests = story
            .placement
            .api::<<ClusterScoped as Scope>::ApprovalRequest>()
            .await?;
        wait::until_present(requests, &request, "accepted", |request| {
            request.data.to_string().contains("ApprovalAccepted")
        })
        .await?;
        // Nothing is started.
        until_said(&story, &run, (0, 2)).await?;
        allow(&ctx, "content").await?;
        let bindings = story
            .placement
            .until_bindings("bound", |all| all.iter().any(|b| b.metadata.generation == Some(2)))
            .await?;
        ensure!(bound(&bindings[0], "RolloutStarted").is_none(), "{bindings:?}");
        until_said(&story, &run, (0, 2)).await?;
        allow(&ctx, "stamp").await?;
        story.until_succeeded(&run).await?;
        let binding = story.placement.binding(&cast.name("a")).await?;
        ensure!(binding.metadata.generation == Some(2), "started once: {binding:?}");
        Ok(())
    });
}
