//! A live screen whose hub freezes, dies and comes back.

use anyhow::Result;
use fleet_api::placement::ClusterScoped;
use fleet_e2e::agents::API_SERVER;
use fleet_e2e::harness::scenario;
use fleet_e2e::played::Cast;
use fleet_e2e::runs::{Story, stage};
use fleet_e2e::screen::Screen;
use serde_json::json;

#[test]
fn a_screen_says_since_when_it_is_stale_and_goes_on_afterwards() {
    scenario("screen-away", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("one", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let gated = stage("all", &json!({ "beforeStageTasks": [{ "type": "Approval" }] }));
        story.strategy(&json!([gated])).await?;
        let run = story.run("run", &json!({})).await?;
        let request = format!("{run}-before-all");
        story.until_asked(&request).await?;
        let mut screen = Screen::open(&ctx, &["rollout", "watch", &format!("csur/{run}")])?;
        screen.until_it_says(&request).await?;
        // The line of keys, when there is a run to stop; what stood there before is not drawn again.
        screen.until_it_says("stop").await?;

        // It takes requests and answers none.
        ctx.fleet().pause(API_SERVER).await?;
        let frozen: Result<()> = screen.until_it_says("stale").await;
        ctx.fleet().resume(API_SERVER).await?;
        frozen?;
        screen.until_it_says("stop").await?;

        ctx.fleet().kill(API_SERVER).await?;
        let away: Result<()> = screen.until_it_says("stale").await;
        ctx.fleet().start_again(API_SERVER).await?;
        away?;
        screen.until_it_says("stop").await?;

        // The keys work, and what happens now is seen.
        screen.press("ay")?;
        screen.ends_with(0).await
    });
}
