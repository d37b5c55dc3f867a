//! What happens in the fleet is seen in an open page, without anybody touching it.

use anyhow::ensure;
use fleet_api::placement::ClusterScoped;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage};
use jiff::SignedDuration;
use serde_json::json;

use crate::browser::Browser;

#[test]
fn drift_is_seen_and_gone_in_an_open_page() {
    scenario("dash-drift", |ctx| async move {
        let cast = Cast::new(&ctx, &["one", "two"]).await?;
        let namespace = furnished(&ctx).await?;
        let web = Crp::create(&ctx, "web", &spec(&whole_namespace(&namespace), &cast.everywhere())).await?;
        web.until_available(0).await?;
        let browser = Browser::new(&ctx).await?;
        browser
            .open(&format!("/placements/{}/on/{}", web.name, cast.name("one")))
            .await?;
        browser
            .until(
                "document.querySelectorAll('.bar li.done').length === 7",
                "all steps are done",
            )
            .await?;
        browser.value("window.unchanged = true").await?;
        cast.act(&["one"], Act::Drifted);
        browser
            .until("document.querySelector('.difference')", "the difference")
            .await?;
        browser.until_it_says("was changed on the member").await?;
        // From the fleet it is one click away.
        cast.act(&["one"], Act::Available);
        browser
            .until("!document.querySelector('.difference')", "no difference")
            .await?;
        let same = browser.value("window.unchanged").await?;
        ensure!(same == json!(true), "the page was loaded again");
        cast.act(&["one"], Act::Drifted);
        browser.open("/?show=trouble").await?;
        let cell = format!(".cell.drifted[href='/placements/{}/on/{}']", web.name, cast.name("one"));
        browser
            .until(&format!("document.querySelector({})", json!(cell)), "the cell")
            .await?;
        browser.click(&cell).await?;
        browser.until_it_says("was changed on the member").await?;
        browser.close().await
    });
}

#[test]
fn a_stuck_run_is_red_and_says_what_it_waits_for() {
    scenario("dash-stuck", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("one", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        story.strategy(&json!([stage("all", &json!({}))])).await?;
        cast.act(&["one"], Act::Broken);
        let browser = Browser::new(&ctx).await?;
        let run = story.run("run", &json!({})).await?;
        let one = cast.names(&["one"]);
        story.placement.until_text_on("\"one\"", &one).await?;
        story.until(&run, "Progressing=True UpdateRunProgressing").await?;
        // As if it had been started six minutes ago.
        let ago = fleet_e2e::now() - SignedDuration::from_mins(6);
        story
            .tamper(&run, |status| {
                status["stagesStatus"][0]["clusters"][0]["conditions"][0]["lastTransitionTime"] = json!(ago);
            })
            .await?;
        browser.open(&format!("/runs/{run}")).await?;
        browser
            .until("document.querySelector('.standing .badge.failed')", "the run is stuck")
            .await?;
        browser
            .until("document.querySelector('.chain .failed .cause')", "the cause")
            .await?;
        browser.open("/").await?;
        browser.until_it_says(&format!("Run {run}")).await?;
        cast.act(&["one"], Act::Available);
        browser.open(&format!("/runs/{run}")).await?;
        browser
            .until("document.querySelector('.standing .badge.done')", "the run is done")
            .await?;
        browser.close().await
    });
}
