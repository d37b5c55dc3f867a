//! Flags of the hub agent that concern update runs.

use anyhow::{Context as _, ensure};
use fleet_api::placement::{BindingState, ClusterScoped};
use fleet_e2e::agents::with_hub_flags;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, spec, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage, under_way};
use jiff::SignedDuration;
use kube::ResourceExt as _;
use serde_json::json;

#[test]
fn without_their_flag_runs_stand_still_and_can_be_deleted() {
    scenario("run-flag", |ctx| async move {
        let (cast, story, run) = under_way(&ctx, &["a", "b"]).await?;
        let before = story.until(&run, "Progressing=True UpdateRunProgressing").await?;
        let flags = ["--enable-staged-update-run-apis=false"];
        let gone = story.run("gone", &json!({ "state": "Initialize" })).await?;
        story
            .until(&gone, "Initialized=True UpdateRunInitializedSuccessfully")
            .await?;
        with_hub_flags(ctx.fleet(), &flags, async || {
            cast.act(&["a", "b"], Act::Available);
            story.delete(&gone).await?;
            // Another placement shows that the agent is at work.
            let other = spec(&whole_namespace(ctx.prefix()), &cast.everywhere());
            let other = Crp::create(&ctx, "other", &other).await?;
            other.until_available(0).await?;
            other.remove().await?;
            let now = story.status(&run).await?;
            ensure!(now == before, "{now:?}");
            story.placement.until_text_on("\"one\"", &cast.names(&["a"])).await?;
            Ok(())
        })
        .await?;
        // With the flag it goes on where it was.
        story.until_succeeded(&run).await?;
        story
            .placement
            .until_text_on("\"one\"", &cast.names(&["a", "b"]))
            .await?;
        Ok(())
    });
}

#[test]
fn a_run_is_stuck_at_the_threshold_and_stops_there() {
    scenario("run-threshold", |ctx| async move {
        let threshold = SignedDuration::from_secs(4);
        with_hub_flags(ctx.fleet(), &["--update-run-stuck-threshold=4s"], async || {
            let cast = Cast::new(&ctx, &[]).await?;
            for word in ["a", "b"] {
                cast.join(word, json!({ "stage": "all" })).await?;
            }
            cast.act(&["a"], Act::Unavailable);
            let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
            story.strategy(&json!([stage("all", &json!({}))])).await?;
            let run = story.run("run", &json!({})).await?;
            let status = story.until(&run, "Progressing=False UpdateRunStuck").await?;
            let text = format!(
                "The updateRun is stuck waiting for {} cluster(s) in stage all to finish updating, please check placement \
                 status for potential errors",
                cast.name("a")
            );
            ensure!(status.conditions[1].message == text, "{:?}", status.conditions);
            let started = &status.stages_status[0].clusters[0].conditions[0].last_transition_time.0;
            let took = status.conditions[1].last_transition_time.0.duration_since(*started);
            ensure!(took >= threshold && took <= SignedDuration::from_secs(6), "{took}");
            let events = story.events(&run).await?;
            events
                .until("UpdateRunStuck", &[&cast.name("a"), "Available=False"])
                .await?;

            // A stop ends all the same, and says who is still updating.
            story.set_state(&run, "Stop").await?;
            let status = story.until(&run, "Progressing=False UpdateRunStopped").await?;
            let stage = &status.stages_status[0];
            let said = &stage.conditions.first().context("Progressing")?.message;
            ensure!(said.ends_with(&format!("; still updating: {}", cast.name("a"))), "{said}");
            cast.act(&["a"], Act::Available);
            story.set_state(&run, "Run").await?;
            story.until_succeeded(&run).await?;
            Ok(())
        })
        .await
    });
}

#[test]
fn a_binding_that_is_kept_gets_the_last_stage_stuck() {
    scenario("run-kept", |ctx| async move {
        with_hub_flags(ctx.fleet(), &["--update-run-stuck-threshold=4s"], async || {
            let cast = Cast::new(&ctx, &[]).await?;
            for word in ["a", "b"] {
                cast.join(word, json!({ "stage": "all" })).await?;
            }
            let story = Story::<ClusterScoped>::new(&ctx, cast.only(&["a", "b"])).await?;
            story
                .strategy(&json!([stage("all", &json!({ "maxConcurrency": 2 }))]))
                .await?;
            let first = story.run("first", &json!({})).await?;
            story.until_succeeded(&first).await?;
            // Somebody keeps the binding of a cluster that is to be left.
            let binding = story.placement.binding(&cast.name("b")).await?;
            let mut finalizers = binding.finalizers().to_vec();
            finalizers.push("example.com/keep".to_owned());
            let keep = json!({ "metadata": { "finalizers": finalizers } });
            story.placement.patch_binding(&binding.name_any(), keep).await?;
            story.placement.edit(json!({ "policy": cast.only(&["a"]) })).await?;
            let listed = [("a", BindingState::Bound), ("b", BindingState::Unscheduled)];
            let listed = listed.map(|(word, state)| (cast.name(word), state));
            story.placement.until_states(&listed).await?;
            let run = story.run("run", &json!({})).await?;
            let status = story.until(&run, "Progressing=False UpdateRunStuck").await?;
            let said = &status.conditions[1].message;
            ensure!(
                said.contains("in stage kubernetes-fleet.io/deleteStage to finish"),
                "{said}"
            );

            // A stop ends there too, and the run goes on when the binding may.
            story.set_state(&run, "Stop").await?;
            let status = story.until(&run, "Progressing=False UpdateRunStopped").await?;
            let last = status.deletion_stage_status.context("the last stage")?;
            let said = &last.conditions.first().context("Progressing")?.message;
            ensure!(
                said.ends_with(&format!("; still updating: {}", cast.name("b"))),
                "{said}"
            );
            story.set_state(&run, "Run").await?;
            story.until(&run, "Progressing=False UpdateRunStuck").await?;
            let going = story.placement.bindings().await?;
            let going = going.iter().find(|b| b.name_any() == binding.name_any());
            let mut finalizers = going.context("it is kept")?.finalizers().to_vec();
            finalizers.retain(|finalizer| finalizer != "example.com/keep");
            let free = json!({ "metadata": { "finalizers": finalizers } });
            story.placement.patch_binding(&binding.name_any(), free).await?;
            story.until_succeeded(&run).await?;
            story.placement.until_on(&cast.names(&["a"])).await?;
            Ok(())
        })
        .await
    });
}
