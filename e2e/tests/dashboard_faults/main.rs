//! The dashboard while the hub's API server dies and comes back. It kills what all scenarios share.

#[path = "../dashboard/browser.rs"]
#[expect(dead_code, reason = "the other scenarios need more of it")]
mod browser;

use anyhow::{Result, ensure};
use fleet_e2e::agents::API_SERVER;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::Cast;

use browser::Browser;

#[test]
fn an_api_server_that_dies_is_said_and_what_happens_after_its_return_is_seen() {
    scenario("dash-away", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let namespace = furnished(&ctx).await?;
        let all = spec(&whole_namespace(&namespace), &cast.everywhere());
        let web = Crp::create(&ctx, "web", &all).await?;
        web.until_available(0).await?;
        let browser = Browser::new(&ctx).await?;
        browser.until_it_says(&web.name).await?;
        ctx.fleet().kill(API_SERVER).await?;
        let while_away: Result<()> = async {
            browser.until_it_says("Stale since").await?;
            let text = browser.text().await?;
            ensure!(text.contains(&web.name), "what was known is gone: {text}");
            Ok(())
        }
        .await;
        ctx.fleet().start_again(API_SERVER).await?;
        while_away?;
        browser.until_it_is_silent_about("Stale since").await?;
        let later = Crp::create(&ctx, "later", &all).await?;
        browser.until_it_says(&later.name).await?;
        browser.close().await
    });
}
