//! An update run that waits for somebody.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterScoped, Namespaced};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::played::Cast;
use fleet_e2e::plugin;
use fleet_e2e::runs::{Story, stage};
use serde_json::json;

/// One cluster, whose stage has to be approved first.
async fn gated(ctx: &Ctx) -> Result<Cast> {
    let cast = Cast::new(ctx, &[]).await?;
    cast.join("one", json!({ "stage": "all" })).await?;
    Ok(cast)
}

/// What waits says so, the command that it names lets it go on, and whoever watches sees its end.
async fn goes_on(ctx: &Ctx, run: &str, request: &str, flags: &[&str]) -> Result<()> {
    let why = [&["why", run], flags].concat();
    let said = plugin::fleet(ctx, &why).await?;
    said.ends_with(3)?.shows(&[&format!("nobody has approved {request}")])?;
    let watch = [&["rollout", "watch", run], flags].concat();
    let waiting = plugin::fleet(ctx, &[&watch[..], &["--timeout", "1s"]].concat()).await?;
    waiting.ends_with(124)?.shows(&["0 of 1 clusters updated", request])?;
    let next = said.next().context("no command follows")?;
    ensure!(next[0] == "approve", "{next:?}");
    let next: Vec<_> = next.iter().map(String::as_str).collect();
    plugin::fleet(ctx, &next).await?.ends_with(0)?;
    plugin::fleet(ctx, &watch)
        .await?
        .ends_with(0)?
        .shows(&["1 of 1 clusters updated: done"])?;
    plugin::fleet(ctx, &why).await?.ends_with(0)?;
    Ok(())
}

#[test]
fn the_command_that_why_names_lets_a_run_go_on() {
    scenario("explain-run", |ctx| async move {
        let cast = gated(&ctx).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story
            .strategy(&json!([stage(
                "all",
                &json!({ "beforeStageTasks": [{ "type": "Approval" }] })
            )]))
            .await?;
        let run = story.run("run", &json!({})).await?;
        let request = format!("{run}-before-all");
        story.until_asked(&request).await?;
        goes_on(&ctx, &format!("csur/{run}"), &request, &[]).await
    });
}

#[test]
fn the_command_that_why_names_lets_a_run_in_a_namespace_go_on() {
    scenario("explain-run-ns", |ctx| async move {
        let cast = gated(&ctx).await?;
        let story = Story::<Namespaced>::new(&ctx, cast.everywhere()).await?;
        story
            .strategy(&json!([stage(
                "all",
                &json!({ "beforeStageTasks": [{ "type": "Approval" }] })
            )]))
            .await?;
        let run = story.run("run", &json!({})).await?;
        let request = format!("{run}-before-all");
        story.until_asked(&request).await?;
        let namespace = story.namespace.clone().context("it has a namespace")?;
        goes_on(&ctx, &format!("sur/{run}"), &request, &["-n", &namespace]).await
    });
}
