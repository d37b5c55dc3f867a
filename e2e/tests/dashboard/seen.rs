//! What happens in the fleet is seen in an open page, without anybody touching it.

use anyhow::ensure;
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::ClusterScoped;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage};
use jiff::SignedDuration;
use kube::api::{Api, Patch, PatchParams};
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

#[test]
fn the_focus_stays_where_it_is_when_rows_and_columns_move() {
    scenario("dash-focus", |ctx| async move {
        let cast = Cast::new(&ctx, &["one", "three", "two"]).await?;
        let namespace = furnished(&ctx).await?;
        let everywhere = spec(&whole_namespace(&namespace), &cast.everywhere());
        let mut all = Vec::new();
        for word in ["a", "b"] {
            let placement = Crp::create(&ctx, word, &everywhere).await?;
            placement.until_available(0).await?;
            all.push(placement);
        }
        let browser = Browser::new(&ctx).await?;
        browser.open(&format!("/?q={}", ctx.prefix())).await?;
        let two = json!(format!("/placements/{}/on/{}", all[1].name, cast.name("two")));
        let cell = format!("document.querySelector('.matrix .cell[href={two}]')");
        browser.until(&cell, "the cell").await?;
        let row = |name: &str| {
            format!(
                "[...document.querySelectorAll('.matrix tbody tr')].map((it) => it.id).indexOf({})",
                json!(format!("m-{name}"))
            )
        };
        let (two_row, three_row) = (row(&cast.name("two")), row(&cast.name("three")));
        browser.value(&format!("{cell}.focus()")).await?;
        for (acts, sinks) in [(["two"], false), (["three"], true)] {
            cast.act(&["two", "three"], Act::Available);
            cast.act(&acts, Act::Broken);
            let order = if sinks {
                format!("{two_row} > {three_row}")
            } else {
                format!("{two_row} < {three_row}")
            };
            browser.until(&order, "the rows have changed places").await?;
            let focused = browser.value("document.activeElement.getAttribute('href')").await?;
            ensure!(focused == two, "the focus is at {focused} instead of {two}");
            let stops = browser
                .value("document.querySelectorAll('.matrix .cell[tabindex=\"0\"]').length")
                .await?;
            ensure!(stops == json!(1), "{stops} stops");
        }
        browser.close().await
    });
}

/// Fragments that a page gets: as many as on a busy day.
const FRAGMENTS: usize = 200;

#[test]
fn a_page_that_stays_open_for_long_does_not_grow() {
    scenario("dash-day", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let one = cast.name("one");
        let browser = Browser::new(&ctx).await?;
        browser.open(&format!("/members/{one}")).await?;
        let members: Api<MemberCluster> = Api::all(ctx.hub().await?);
        let says = async |number: usize| -> anyhow::Result<()> {
            let label = json!({ "metadata": { "labels": { "day": number.to_string() } } });
            members
                .patch(&one, &PatchParams::default(), &Patch::Merge(label))
                .await?;
            let shown = format!(
                "[...document.querySelectorAll('.facts dt')].some((it) => it.textContent === 'day' && it.nextElementSibling.textContent === '{number}')"
            );
            browser.until(&shown, "the label").await
        };
        let size = "[document.querySelectorAll('*').length, performance.memory.usedJSHeapSize]";
        says(0).await?;
        let before: (u64, u64) = serde_json::from_value(browser.value(size).await?)?;
        for number in 1..=FRAGMENTS {
            says(number).await?;
        }
        let after: (u64, u64) = serde_json::from_value(browser.value(size).await?)?;
        ensure!(after.0 == before.0, "{} elements have become {}", before.0, after.0);
        // What is not collected yet counts too.
        ensure!(
            after.1 < before.1 + 32 * 1024 * 1024,
            "{} bytes have become {}",
            before.1,
            after.1
        );
        browser.close().await
    });
}
