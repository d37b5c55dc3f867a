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
use serde_json::json;

const GROUP: &str = "placement.kubernetes-fleet.io";

/// How many conditions the only cluster and the only task have: what is not done is not said.
async fn said(story: &Story<ClusterScoped>, run: &str) -> Result<(usize, usize)> {
    let status = story.status(run).await?;
    let stage = &status.stages_status[0];
    let task = &stage.before_stage_task_status[0];
    Ok((stage.clusters[0].conditions.len(), task.conditions.len()))
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
        ensure!(said(&story, &run).await? == (0, 0));
        allow(&ctx, "request").await?;
        story.until_asked(&request).await?;
        story.approve(&request, 1).await?;
        story.until(&run, "Progressing=False UpdateRunWaiting").await?;
        ensure!(said(&story, &run).await? == (0, 1), "it is asked for, and not accepted");
        allow(&ctx, "accepted").await?;
        let requests = story
            .placement
            .api::<<ClusterScoped as Scope>::ApprovalRequest>()
            .await?;
        wait::until_present(requests, &request, "accepted", |request| {
            request.data.to_string().contains("ApprovalAccepted")
        })
        .await?;
        ensure!(said(&story, &run).await?.0 == 0, "nothing is started");
        allow(&ctx, "content").await?;
        let bindings = story
            .placement
            .until_bindings("bound", |all| all.iter().any(|b| b.metadata.generation == Some(2)))
            .await?;
        ensure!(bound(&bindings[0], "RolloutStarted").is_none(), "{bindings:?}");
        ensure!(said(&story, &run).await?.0 == 0, "nothing is started");
        allow(&ctx, "stamp").await?;
        story.until_succeeded(&run).await?;
        let binding = story.placement.binding(&cast.name("a")).await?;
        ensure!(binding.metadata.generation == Some(2), "started once: {binding:?}");
        Ok(())
    });
}
