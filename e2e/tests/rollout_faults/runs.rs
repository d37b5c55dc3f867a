//! Update runs whose hub agent dies, is replaced, or is interrupted: nothing is started twice, and never more at once than
//! may be.

use anyhow::{Context as _, Result, ensure};
use fleet_api::conditions;
use fleet_api::placement::{ClusterScoped, Namespaced, Scope, UpdateRunStatus};
use fleet_e2e::agents::{self, API_SERVER, HUB_AGENT};
use fleet_e2e::binaries;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Placement, Rp, bound, change, core_selector};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage, within};
use fleet_e2e::works::cluster_of;
use kube::api::{Patch, PatchParams};
use kube::core::object::HasSpec as _;
use kube::{Resource as _, ResourceExt as _};
use serde_json::json;

use crate::{at_least, conflicts, in_order, killed_after_every_write, two};

/// What the run of a placement is about.
fn story<S: Scope>(ctx: &Ctx, placement: &Placement<S>, namespace: Option<&str>) -> Story<S> {
    Story {
        ctx: ctx.clone(),
        placement: placement.clone(),
        namespace: namespace.map(ToOwned::to_owned),
    }
}

/// Each binding was written once, at the time that the run says.
async fn started_once<S: Scope>(placement: &Placement<S>, status: &UpdateRunStatus) -> Result<()> {
    let bindings = placement.bindings().await?;
    for cluster in status.stages_status.iter().flat_map(|stage| &stage.clusters) {
        let mut on = bindings
            .iter()
            .filter(|b| b.spec().target_cluster == cluster.cluster_name);
        let binding = on.next().context("a binding")?;
        ensure!(binding.meta().generation == Some(2), "{binding:?}");
        let said = bound(binding, "RolloutStarted").context("RolloutStarted")?;
        let started = conditions::find(&cluster.conditions, "Started").context("Started")?;
        ensure!(
            said.last_transition_time == started.last_transition_time,
            "{said:?} {started:?}"
        );
    }
    Ok(())
}

/// Approves what the run asks for; in the end each cluster was started once, the second after the first.
async fn has_run<S: Scope>(story: &Story<S>) -> Result<()> {
    let placement = &story.placement;
    let request = format!("{}-before-all", placement.name);
    let asked = story.until_asked(&request).await?;
    if asked.data.get("status").is_none() {
        story.approve(&request, 1).await?;
    }
    let status = story.until_succeeded(&placement.name).await?;
    placement.until_available(0).await?;
    in_order(placement, 2).await?;
    started_once(placement, &status).await?;
    let mut works = placement.works().await?;
    works.sort_by_key(cluster_of);
    let mut earlier = None;
    for (cluster, work) in status.stages_status[0].clusters.iter().zip(&works) {
        // Not before the one before it was available.
        let started = conditions::find(&cluster.conditions, "Started").context("Started")?;
        ensure!(earlier <= Some(started.last_transition_time.0), "{status:?} {works:?}");
        let answer = work.status.as_ref().context("the member has answered")?;
        let available = conditions::find(&answer.conditions, "Available").context("Available")?;
        earlier = Some(available.last_transition_time.0);
    }
    Ok(())
}

/// A run over both clusters one after the other, with an approval before them, disturbed after each of its writes.
async fn killed_in_a_run<S: Scope>(
    ctx: &Ctx,
    namespace: Option<&str>,
    named: impl Fn(&str) -> Placement<S>,
    create: impl AsyncFn(&Placement<S>) -> Result<()>,
) -> Result<()> {
    let gate = json!({
        "name": "all", "labelSelector": {}, "maxConcurrency": 1, "beforeStageTasks": [{ "type": "Approval" }],
    });
    let first = story(ctx, &named("any"), namespace);
    first.strategy(&json!([gate])).await?;
    let there = async |placement: &Placement<S>| {
        create(placement).await?;
        placement.until_bindings("two", |all| all.len() == 2).await?;
        placement.policy().await.map(drop)
    };
    let begin = async |placement: &Placement<S>| {
        let story = story(ctx, placement, namespace);
        story.run_called(&placement.name, &json!({})).await.map(drop)
    };
    let done = async |placement: &Placement<S>| has_run(&story(ctx, placement, namespace)).await;
    // A finalizer, a snapshot, the plan, the request, its acceptance; for each cluster its binding twice, its Work and the
    // run; the end.
    at_least(14, killed_after_every_write(ctx, named, there, begin, done).await?)
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_run_starts_nothing_twice() {
    scenario("crash-run", |ctx| async move {
        let (_cast, mut spec) = two(&ctx).await?;
        spec["strategy"] = json!({ "type": "External" });
        let create = async |crp: &Crp| Crp::create_called(&ctx, &crp.name, &spec).await.map(drop);
        killed_in_a_run(&ctx, None, |name| Crp::named(&ctx, name), create).await
    });
}

#[test]
fn a_hub_agent_killed_after_any_write_of_a_namespaced_run_starts_nothing_twice() {
    scenario("crash-narrow", |ctx| async move {
        let (_cast, mut spec) = two(&ctx).await?;
        spec["strategy"] = json!({ "type": "External" });
        spec["resourceSelectors"] = json!([core_selector("ConfigMap", "settings")]);
        let namespace = ctx.prefix();
        let create = async |rp: &Rp| Rp::create_called(&ctx, namespace, &rp.name, &spec).await.map(drop);
        killed_in_a_run(&ctx, Some(namespace), |name| Rp::named(&ctx, namespace, name), create).await
    });
}

/// Four clusters in one stage, two at once.
async fn wave<S: Scope>(ctx: &Ctx, place: impl AsyncFn(&Cast) -> Result<Story<S>>) -> Result<(Cast, Story<S>)> {
    let cast = Cast::new(ctx, &[]).await?;
    for word in WAVE {
        cast.join(word, json!({ "stage": "all" })).await?;
    }
    let story = place(&cast).await?;
    let two = json!({ "maxConcurrency": 2 });
    story.strategy(&json!([stage("all", &two)])).await?;
    Ok((cast, story))
}

const WAVE: [&str; 4] = ["a", "b", "c", "d"];

#[test]
fn another_leader_and_a_restarted_api_server_go_on_with_a_wave() {
    scenario("run-leader", |ctx| async move {
        let fleet = ctx.fleet();
        let helm = binaries::find_or_build_helm().await?;
        let second = format!("hub/{}", ctx.name("replica"));
        let first = agents::until_leader(fleet, "").await?;
        agents::start_hub_agent(fleet, &helm, &second, &["--pod-name=replica".to_owned()]).await?;
        let place = async |cast: &Cast| Story::<Namespaced>::new(&ctx, cast.everywhere()).await;
        let (cast, story) = wave(&ctx, place).await?;
        cast.act(&WAVE, Act::Silent);
        let run = story.run("run", &json!({})).await?;
        let text = "\"one\"";
        story.placement.until_text_on(text, &cast.names(&["a", "b"])).await?;
        // In the middle of the wave.
        fleet.kill(HUB_AGENT).await?;
        agents::until_leader(fleet, &first).await?;
        cast.act(&["a"], Act::Available);
        story
            .placement
            .until_text_on(text, &cast.names(&["a", "b", "c"]))
            .await?;
        // And again, with the first as the one who goes on. What others do meanwhile is told when the API server is back.
        fleet.start_again(HUB_AGENT).await?;
        fleet.crash(API_SERVER).await?;
        fleet.kill(&second).await?;
        cast.act(&WAVE, Act::Available);
        let status = story.until_succeeded(&run).await?;
        within(&story.placement, &status, 2).await?;
        started_once(&story.placement, &status).await?;
        in_order(&story.placement, 4).await?;
        story.delete(&run).await
    });
}

#[test]
fn another_leader_goes_on_with_a_rollback() {
    scenario("run-leader-back", |ctx| async move {
        let fleet = ctx.fleet();
        let helm = binaries::find_or_build_helm().await?;
        let second = format!("hub/{}", ctx.name("deputy"));
        let first = agents::until_leader(fleet, "").await?;
        agents::start_hub_agent(fleet, &helm, &second, &["--pod-name=deputy".to_owned()]).await?;
        let place = async |cast: &Cast| Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await;
        let (cast, story) = wave(&ctx, place).await?;
        let good = story.run("good", &json!({})).await?;
        story.until_succeeded(&good).await?;
        change(&ctx, "two").await?;
        cast.act(&WAVE, Act::Unavailable);
        // Longer than it takes another leader to go on.
        let settings = [
            ("max-failures", "0"),
            ("cluster-deadline", "30s"),
            ("on-failure", "Rollback"),
        ];
        let bad = story.run_with(&ctx.name("bad"), &settings, &json!({})).await?;
        story
            .placement
            .until_text_on("\"two\"", &cast.names(&["a", "b"]))
            .await?;
        story.until(&bad, "Progressing=True UpdateRunRollingBack").await?;
        fleet.kill(HUB_AGENT).await?;
        agents::until_leader(fleet, &first).await?;
        cast.act(&WAVE, Act::Available);
        let status = story.until(&bad, "Succeeded=False UpdateRunFailed").await?;
        // Events follow the status: who is killed between the two tells them no more.
        let events = story.events(&bad).await?;
        events
            .until("UpdateRunRolledBack", &["Rolled back 2 of 2 cluster(s)"])
            .await?;
        // As long as there is a leader, whoever it is.
        fleet.start_again(HUB_AGENT).await?;
        fleet.kill(&second).await?;
        let said = conditions::find(&status.conditions, "Succeeded").context("Succeeded")?;
        ensure!(said.message.ends_with("; rolled back 2 of 2 cluster(s)"), "{said:?}");
        story.placement.until_text_on("\"one\"", &cast.names(&WAVE)).await?;
        for (place, cluster) in status.stages_status[0].clusters.iter().enumerate() {
            let binding = story.placement.binding(&cluster.cluster_name).await?;
            // Made and started; then started and given back once each, or never touched again.
            let generation = if place < 2 { 4 } else { 2 };
            ensure!(binding.metadata.generation == Some(generation), "{binding:?}");
            ensure!(cluster.conditions.is_empty() == (place >= 2), "{cluster:?}");
        }
        story.delete(&bad).await
    });
}

#[test]
fn writes_of_others_in_between_do_not_disturb_a_run() {
    scenario("run-noise", |ctx| async move {
        let place = async |cast: &Cast| Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await;
        let (_cast, story) = wave(&ctx, place).await?;
        // Somebody touches the runs and every binding all the time.
        let noise = {
            let story = story.clone();
            tokio::spawn(async move {
                for n in 0.. {
                    let note = json!({ "metadata": { "annotations": { "example.com/noise": n.to_string() } } });
                    for binding in story.placement.bindings().await.unwrap_or_default() {
                        let _ = story.placement.patch_binding(&binding.name_any(), note.clone()).await;
                    }
                    if let Ok(runs) = story.runs().await {
                        for word in ["one", "two", "three"] {
                            let (name, patch) = (story.ctx.name(word), Patch::Merge(&note));
                            let _ = runs.patch(&name, &PatchParams::default(), &patch).await;
                        }
                    }
                }
            })
        };
        let written = ["clusterresourcebindings", "clusterstagedupdateruns"];
        let before = conflicts(&ctx, &written).await?;
        let ran = async {
            for (index, word) in ["one", "two", "three"].into_iter().enumerate() {
                change(&ctx, word).await?;
                let run = story.run(word, &json!({})).await?;
                let status = story.until_succeeded(&run).await?;
                within(&story.placement, &status, 2).await?;
                let generation = i64::try_from(index)? + 2;
                for binding in story.placement.bindings().await? {
                    ensure!(binding.metadata.generation == Some(generation), "{binding:?}");
                }
            }
            anyhow::Ok(())
        };
        let outcome = ran.await;
        noise.abort();
        outcome?;
        // Otherwise this has shown nothing.
        ensure!(conflicts(&ctx, &written).await? > before, "nothing came in between");
        Ok(())
    });
}
