//! What somebody does by hand to what a run needs: put right, or said.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterScoped, Scope};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{bound, change};
use fleet_e2e::played::Act;
use fleet_e2e::runs::{Story, line, stage, under_way};
use fleet_e2e::wait;
use kube::ResourceExt as _;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

type Cluster = ClusterScoped;

#[test]
fn what_can_be_told_again_is_put_right() {
    scenario("run-hand", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        let before = story.until(&run, "Progressing=True UpdateRunProgressing").await?;
        // A run reads its strategy once.
        let strategies = story.placement.api::<<Cluster as Scope>::UpdateStrategy>().await?;
        strategies
            .delete(&ctx.name("strategy"), &DeleteParams::default())
            .await?;
        // What it has said is forged, and then lost: nothing else happens to the run.
        story
            .tamper(&run, |status| status["conditions"][1]["reason"] = json!("Forged"))
            .await?;
        story.until(&run, "Progressing=True UpdateRunProgressing").await?;
        story
            .tamper(&run, |status| {
                status["stagesStatus"][0]["clusters"][0]["conditions"] = json!([]);
                status["stagesStatus"][0]["conditions"] = json!([]);
            })
            .await?;
        let runs = story.runs().await?;
        wait::until_present(runs, &run, "as it was", |run| {
            let said = run.data["status"]["stagesStatus"][0]["clusters"][0]["conditions"].as_array();
            said.is_some_and(|list| !list.is_empty())
        })
        .await?;
        let after = story.status(&run).await?;
        ensure!(
            after.stages_status[0].clusters == before.stages_status[0].clusters,
            "{before:?} {after:?}"
        );

        // Its word on the binding: said again with sentence and time.
        let binding = story.placement.binding(&cast.name("a")).await?;
        let said = bound(&binding, "RolloutStarted").context("RolloutStarted")?.clone();
        let bindings = story.placement.api::<<Cluster as Scope>::Binding>().await?;
        let none = Patch::Merge(json!({ "status": { "conditions": [] } }));
        bindings
            .patch_status(&binding.name_any(), &PatchParams::default(), &none)
            .await?;
        let again = story
            .placement
            .until_bindings("started", |all| {
                all.iter().any(|binding| bound(binding, "RolloutStarted").is_some())
            })
            .await?;
        let again = again.iter().find_map(|binding| bound(binding, "RolloutStarted"));
        ensure!(again == Some(&said), "{again:?} {said:?}");

        cast.act(&["a", "b"], Act::Available);
        let ended = story.until_succeeded(&run).await?;
        // A run that has ended is nobody's to repair.
        story
            .tamper(&run, |status| status["conditions"][2]["message"] = json!("forged"))
            .await?;
        story.set_state(&run, "Stop").await?;
        let next = story.run("next", &json!({})).await?;
        story
            .until(&next, "Initialized=False UpdateRunInitializedFailed")
            .await
            .context("its strategy is gone")?;
        let now = story.status(&run).await?;
        ensure!(now.conditions[2].message == "forged", "{now:?}");
        ensure!(now.stages_status == ended.stages_status, "{now:?}");
        Ok(())
    });
}

/// A run that waits for `a`, of which nobody hears anything.
async fn next(story: &Story<Cluster>, word: &str) -> Result<String> {
    let run = story.run(word, &json!({})).await?;
    story.until(&run, "Progressing=True UpdateRunProgressing").await?;
    Ok(run)
}

async fn fails(story: &Story<Cluster>, run: &str, text: &str) -> Result<()> {
    let status = story.until(run, "Succeeded=False UpdateRunFailed").await?;
    let said = &status.conditions[2].message;
    ensure!(said == text, "{said}");
    Ok(())
}

#[test]
fn what_cannot_be_put_right_ends_the_run_with_its_text() {
    scenario("run-broken", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        story.until(&run, "Progressing=True UpdateRunProgressing").await?;
        // The binding of a cluster that it has started.
        let binding = story.placement.binding(&cast.name("a")).await?.name_any();
        let other = json!({ "spec": { "resourceSnapshotName": story.placement.snapshot(9) } });
        story.placement.patch_binding(&binding, other).await?;
        let text = format!(
            "cannot continue the updateRun: failed to process the request due to a client error: the binding of the \
             updating cluster `{}` in the stage `all` is not up-to-date with the desired status, please check the status \
             of binding `{binding}` and see if there is a concurrent updateRun referencing the same placement and \
             updating the same cluster",
            cast.name("a")
        );
        fails(&story, &run, &text).await?;
        let events = story.events(&run).await?;
        events
            .until("UpdateRunPreempted", &[&cast.name("a"), "not by an update run"])
            .await?;

        // The resources that it rolls out.
        change(&ctx, "two").await?;
        let run = next(&story, "given").await?;
        let used = story.status(&run).await?.resource_snapshot_index_used;
        ensure!(used == "10", "an index that a binding names is not given again: {used}");
        let snapshot = story.placement.snapshot(10);
        let snapshots = story.placement.api::<<Cluster as Scope>::ResourceSnapshot>().await?;
        snapshots.delete(&snapshot, &DeleteParams::default()).await?;
        let text = format!(
            "cannot continue the updateRun: the resource snapshot {snapshot} used in the updateRun no longer exists"
        );
        fails(&story, &run, &text).await?;

        // Its own word.
        let run = next(&story, "forged").await?;
        story
            .tamper(&run, |status| {
                let conditions = &mut status["stagesStatus"][0]["conditions"];
                let mut failed = conditions[0].clone();
                failed["type"] = json!("Succeeded");
                failed["status"] = json!("False");
                failed["message"] = json!("by hand");
                if let Some(list) = conditions.as_array_mut() {
                    list.push(failed);
                }
            })
            .await?;
        let text = "cannot continue the updateRun: the stage `all` has failed, err: by hand";
        fails(&story, &run, text).await?;

        // Nothing of that stays.
        cast.act(&["a", "b"], Act::Available);
        let last = story.run("last", &json!({})).await?;
        story.until_succeeded(&last).await?;
        story
            .placement
            .until_text_on("\"two\"", &cast.names(&["a", "b"]))
            .await?;
        Ok(())
    });
}

#[test]
fn a_finalizer_of_somebody_else_keeps_a_run_and_not_its_requests() {
    scenario("run-kept", |ctx| async move {
        let (cast, story, first) = under_way(&ctx, &["a"]).await?;
        let gate = json!({ "beforeStageTasks": [{ "type": "Approval" }] });
        let gated = story.another_strategy("gated", &json!([stage("all", &gate)])).await?;
        let run = story
            .run("kept", &json!({ "stagedRolloutStrategyName": gated }))
            .await?;
        let request = format!("{run}-before-all");
        story.until_asked(&request).await?;
        let runs = story.runs().await?;
        let finalizers = |list: &[&str]| Patch::Merge(json!({ "metadata": { "finalizers": list } }));
        let held = runs.get(&run).await?.finalizers().to_vec();
        let both: Vec<&str> = held.iter().map(String::as_str).chain(["example.com/keep"]).collect();
        runs.patch(&run, &PatchParams::default(), &finalizers(&both)).await?;
        runs.delete(&run, &DeleteParams::default()).await?;
        let requests = story.placement.api::<<Cluster as Scope>::ApprovalRequest>().await?;
        wait::until_gone(requests, &request).await?;
        wait::until_present(runs.clone(), &run, "let go of", |run| {
            run.finalizers() == ["example.com/keep"]
        })
        .await?;
        // Going, it holds up nobody.
        cast.act(&["a"], Act::Available);
        let status = story.until_succeeded(&first).await?;
        let said: Vec<_> = status.conditions.iter().map(line).collect();
        ensure!(said.len() == 3, "{said:?}");
        let none: Value = json!({ "metadata": { "finalizers": null } });
        runs.patch(&run, &PatchParams::default(), &Patch::Merge(none)).await?;
        wait::until_gone(runs, &run).await
    });
}
