//! Settings: budgets, rollback, windows, gates, retry.

use anyhow::{Context as _, Result, ensure};
use fleet_api::annotations;
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::{ClusterApprovalRequest, ClusterScoped, Namespaced, Scope, UpdateRunStatus};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{bound, change};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage};
use fleet_e2e::wait;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

/// Three clusters, one after the other, which all have version "one" by a first run.
async fn furnished<S: Scope>(story: &Story<S>, cast: &Cast) -> Result<()> {
    story.strategy(&json!([stage("all", &json!({}))])).await?;
    let first = story.run("first", &json!({})).await?;
    story.until_succeeded(&first).await?;
    story
        .placement
        .until_text_on("\"one\"", &cast.names(&["a", "b", "c"]))
        .await?;
    Ok(())
}

async fn cast(ctx: &Ctx) -> Result<Cast> {
    let cast = Cast::new(ctx, &[]).await?;
    for word in ["a", "b", "c"] {
        cast.join(word, json!({ "stage": "all" })).await?;
    }
    Ok(cast)
}

fn message(status: &UpdateRunStatus, type_name: &str) -> String {
    let found = status.conditions.iter().find(|condition| condition.type_ == type_name);
    found.map(|condition| condition.message.clone()).unwrap_or_default()
}

async fn takes_itself_back<S: Scope>(ctx: &Ctx, story: &Story<S>, cast: &Cast) -> Result<()> {
    furnished(story, cast).await?;
    change(ctx, "two").await?;
    cast.act(&["b"], Act::Unavailable);
    let settings = [
        ("max-failures", "0"),
        ("cluster-deadline", "4s"),
        ("on-failure", "Rollback"),
    ];
    let bad = story.run_with(&ctx.name("bad"), &settings, &json!({})).await?;
    story
        .placement
        .until_text_on("\"two\"", &cast.names(&["a", "b"]))
        .await?;
    story.until(&bad, "Progressing=True UpdateRunRollingBack").await?;
    // What b had works again.
    cast.act(&["b"], Act::Available);
    let status = story.until(&bad, "Succeeded=False UpdateRunFailed").await?;
    let said = message(&status, "Succeeded");
    let end = format!(
        "the failure budget is exhausted: 1 cluster(s) failed, at most 0 may: {}; rolled back 2 of 2 cluster(s)",
        cast.name("b")
    );
    ensure!(said.ends_with(&end), "{said}");
    story
        .placement
        .until_text_on("\"one\"", &cast.names(&["a", "b", "c"]))
        .await?;
    let sentence = format!("resourceSnapshotIndex: 0, updateRun: {bad}");
    for word in ["a", "b"] {
        let binding = story.placement.binding(&cast.name(word)).await?;
        let started = bound(&binding, "RolloutStarted").context("RolloutStarted")?;
        ensure!(started.message.ends_with(&sentence), "{started:?}");
    }
    ensure!(status.stages_status[0].clusters[2].conditions.is_empty(), "{status:?}");
    let options = status.options.as_ref().context("the settings")?;
    ensure!(
        options.on_failure == "Rollback" && options.cluster_deadline == "4s",
        "{options:?}"
    );
    let events = story.events(&bad).await?;
    events
        .until("UpdateRunRolledBack", &["Rolled back 2 of 2 cluster(s)"])
        .await?;
    // Another try of the same version warns.
    let again = [("retry-of", bad.as_str())];
    let again = story.run_with(&ctx.name("again"), &again, &json!({})).await?;
    let status = story.until_succeeded(&again).await?;
    ensure!(status.resource_snapshot_index_used == "1", "{status:?}");
    let events = story.events(&again).await?;
    events.until("UpdateRunSnapshotHasFailed", &[&bad]).await?;
    story
        .placement
        .until_text_on("\"two\"", &cast.names(&["a", "b", "c"]))
        .await?;
    Ok(())
}

#[test]
fn a_bad_version_takes_itself_back_and_can_be_tried_again() {
    scenario("run-back", |ctx| async move {
        let cast = cast(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        takes_itself_back(&ctx, &story, &cast).await
    });
}

#[test]
fn a_bad_version_takes_itself_back_in_a_namespace() {
    scenario("run-back-ns", |ctx| async move {
        let cast = cast(&ctx).await?;
        let story = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        takes_itself_back(&ctx, &story, &cast).await
    });
}

#[test]
fn a_run_waits_for_windows_and_for_gates() {
    scenario("run-gated", |ctx| async move {
        let cast = cast(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story
            .strategy(&json!([stage("all", &json!({ "maxConcurrency": 3 }))]))
            .await?;
        let check = ctx.name("check");
        let gate = json!([{
            "stage": "all", "when": "before", "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
            "kind": "ClusterApprovalRequest", "name": check, "condition": "Approved",
        }]);
        let members = |word: &str, window: serde_json::Value| {
            let (ctx, name) = (ctx.clone(), cast.name(word));
            async move {
                let patch = json!({ "metadata": { "annotations": { annotations::WINDOW: window } } });
                let members: Api<MemberCluster> = Api::all(ctx.hub().await?);
                members
                    .patch(&name, &PatchParams::default(), &Patch::Merge(patch))
                    .await?;
                anyhow::Ok(())
            }
        };
        members("b", json!("never")).await?;
        let settings = [("gates", gate.to_string())];
        let settings: Vec<_> = settings.iter().map(|(key, value)| (*key, value.as_str())).collect();
        let run = story.run_with(&ctx.name("run"), &settings, &json!({})).await?;
        story.until(&run, "Progressing=False UpdateRunWaiting").await?;
        let events = story.events(&run).await?;
        events
            .until("UpdateRunGateWaiting", &["there is no such object"])
            .await?;
        let other = json!({ "parentStageRollout": "nobody", "targetStage": "none" });
        story.request(&check, other).await?;
        events.until("UpdateRunGateWaiting", &["Approved is not True"]).await?;
        // Somebody deletes it, and makes it anew.
        let requests = story.placement.api::<ClusterApprovalRequest>().await?;
        requests.delete(&check, &DeleteParams::default()).await?;
        wait::until_gone(requests, &check).await?;
        events
            .until_told(2, "UpdateRunGateWaiting", &["there is no such object"])
            .await?;
        let other = json!({ "parentStageRollout": "nobody", "targetStage": "none" });
        story.request(&check, other).await?;
        events
            .until_told(2, "UpdateRunGateWaiting", &["Approved is not True"])
            .await?;
        let bindings = story.placement.bindings().await?;
        let untouched = bindings.iter().all(|b| b.spec.resource_snapshot_name.is_empty());
        ensure!(untouched, "{bindings:?}");
        story.approve(&check, 1).await?;
        // The gate is open; the window of b cannot be read.
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "c"]))
            .await?;
        events.until("UpdateRunWindowUnreadable", &[&cast.name("b")]).await?;
        let status = wait::until_present(story.runs().await?, &run, "waits for the window", |run| {
            run.data.to_string().contains("is waiting for the window of")
        })
        .await?;
        ensure!(
            status.data["status"]["options"]["gates"][0]["passed"].is_string(),
            "{status:?}"
        );
        members("b", json!("Mon-Sun 00:00-24:00 UTC")).await?;
        story.until_succeeded(&run).await?;
        Ok(())
    });
}

#[test]
fn a_setting_that_cannot_be_read_fails_the_run_and_clients_of_upstreams_types_may_write_it_back() {
    scenario("run-setting", |ctx| async move {
        let cast = cast(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        let run = story
            .run_with(&ctx.name("run"), &[("max-failure", "1")], &json!({}))
            .await?;
        let status = story
            .until(&run, "Initialized=False UpdateRunInitializedFailed")
            .await?;
        let said = message(&status, "Initialized");
        let why = format!(
            "the annotation rollout.kubernetes-fleet.io/max-failure of ClusterStagedUpdateRun /{run} is invalid: there is no \
             such setting"
        );
        ensure!(said.contains(&why), "{said}");
        let run = story
            .run_with(&ctx.name("next"), &[("max-failures", "10%")], &json!({}))
            .await?;
        story.until_succeeded(&run).await?;
        // Such a client knows neither options nor what is in them, and replaces the whole object.
        let runs = story.runs().await?;
        let mut object = runs.get(&run).await?;
        object.data["status"]
            .as_object_mut()
            .context("a status")?
            .remove("options");
        runs.replace(&run, &PostParams::default(), &object).await?;
        runs.replace_status(&run, &PostParams::default(), &runs.get(&run).await?)
            .await?;
        Ok(())
    });
}

#[test]
fn clusters_in_no_stage_are_left_out_or_come_last_and_a_run_goes_when_its_time_is_over() {
    scenario("run-left", |ctx| async move {
        let cast = cast(&ctx).await?;
        cast.join("d", json!({ "stage": "none" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let three = json!({ "maxConcurrency": 3 });
        story.strategy(&json!([stage("all", &three)])).await?;
        let settings = [("unassigned-clusters", "Ignore=0")];
        let refused = story.run_with(&ctx.name("refused"), &settings, &json!({})).await?;
        let status = story
            .until(&refused, "Initialized=False UpdateRunInitializedFailed")
            .await?;
        let left = |status: &UpdateRunStatus| status.options.as_ref().map(|options| options.unassigned.clone());
        ensure!(left(&status) == Some(cast.names(&["d"])), "{status:?}");

        let settings = [("unassigned-clusters", "Ignore"), ("ttl", "1s")];
        let run = story.run_with(&ctx.name("run"), &settings, &json!({})).await?;
        let status = story.until_succeeded(&run).await?;
        ensure!(left(&status) == Some(cast.names(&["d"])), "{status:?}");
        let events = story.events(&run).await?;
        events.until("UpdateRunClustersUnassigned", &[&cast.name("d")]).await?;
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b", "c"]))
            .await?;

        // The newest stays until there is another.
        let settings = [("unassigned-clusters", "Last")];
        let next = story.run_with(&ctx.name("next"), &settings, &json!({})).await?;
        let status = story.until_succeeded(&next).await?;
        ensure!(status.stages_status[1].stage_name == "unassigned", "{status:?}");
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b", "c", "d"]))
            .await?;
        wait::until_gone(story.runs().await?, &run).await?;
        story.status(&next).await?;
        Ok(())
    });
}
