//! How pages look: every page in both themes and at three widths, without a broken rule of accessibility.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use fleet_api::placement::ClusterScoped;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage};
use serde_json::json;

use crate::axe;
use crate::browser::{Browser, Theme};

/// A laptop, a large screen and a phone.
const WIDTHS: [u32; 3] = [1280, 2560, 390];

/// Keys, as WebDriver names them.
const TAB: &str = "\u{E004}";
const ENTER: &str = "\u{E007}";
const RIGHT: &str = "\u{E014}";

/// Where pictures go, for whoever wants to look at them. Those of the documentation are taken by a test of the dashboard.
fn pictures() -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("pictures")
}

/// Looks at the page that is open.
async fn look(browser: &Browser, name: &str) -> Result<()> {
    let dir = pictures();
    std::fs::create_dir_all(&dir)?;
    browser.until("document.querySelector('main')", name).await?;
    for theme in Theme::ALL {
        for width in WIDTHS {
            browser.looks(theme, width).await?;
            let at = format!("{name}, {}, {width} pixels", theme.word());
            let wide = browser
                .value("document.documentElement.scrollWidth <= window.innerWidth")
                .await?;
            ensure!(wide == json!(true), "{at}: one has to scroll sideways");
            axe::clean(browser, &at).await?;
        }
        for width in WIDTHS {
            let picture = browser.picture(theme, width).await?;
            ensure!(picture.starts_with(b"\x89PNG"), "{name} is no picture");
            let file = dir.join(format!("dashboard-{name}-{}-{width}.png", theme.word()));
            std::fs::write(file, picture)?;
        }
    }
    Ok(())
}

#[test]
fn every_page_is_accessible_and_fits_in_both_themes_and_at_every_width() {
    scenario("dash-looks", |ctx| async move {
        let cast = Cast::new(&ctx, &["paris", "tokyo"]).await?;
        cast.join("dublin", json!({ "stage": "canary" })).await?;
        cast.join("oslo", json!({ "stage": "rest" })).await?;
        let namespace = furnished(&ctx).await?;
        let web = Crp::create(&ctx, "web", &spec(&whole_namespace(&namespace), &cast.everywhere())).await?;
        let two = Crp::create(&ctx, "metrics", &spec(&whole_namespace(&namespace), &cast.some(2))).await?;
        two.until_available(0).await?;
        web.until_available(0).await?;
        let story = Story::<ClusterScoped> {
            ctx: ctx.clone(),
            placement: Crp::named(&ctx, &ctx.name("shop")),
            namespace: None,
        };
        let shop = json!({
            "resourceSelectors": whole_namespace(&namespace), "policy": cast.everywhere(), "strategy": { "type": "External" },
        });
        Crp::create(&ctx, "shop", &shop).await?;
        let approval =
            json!({ "afterStageTasks": [{ "type": "Approval" }, { "type": "TimedWait", "waitTime": "1h" }] });
        let others = json!({ "matchExpressions": [{ "key": "stage", "operator": "NotIn", "values": ["canary"] }] });
        let rest = json!({ "name": "rest", "labelSelector": others });
        story.strategy(&json!([stage("canary", &approval), rest])).await?;
        let run = story.run("shop", &json!({})).await?;
        story.until(&run, "Progressing=False UpdateRunWaiting").await?;
        cast.act(&["tokyo"], Act::Drifted);
        let browser = Browser::new(&ctx).await?;
        let tokyo = cast.name("tokyo");
        let pages = [
            ("fleet", format!("/?q={}", ctx.prefix())),
            ("placement", format!("/placements/{}", web.name)),
            ("why", format!("/placements/{}/on/{tokyo}", web.name)),
            ("differences", format!("/placements/{}/differences", web.name)),
            ("snapshots", format!("/placements/{}/snapshots", web.name)),
            ("runs", "/runs".to_owned()),
            ("run", format!("/runs/{run}")),
            ("approve", format!("/act?act=approve&name={run}-after-canary&run={run}")),
            ("members", "/members".to_owned()),
            ("member", format!("/members/{tokyo}")),
            ("timeline", format!("/placements/{}/timeline", web.name)),
            ("timeline-fleet", "/timeline".to_owned()),
            ("timeline-run", format!("/runs/{run}/timeline")),
            ("timeline-member", format!("/members/{tokyo}/timeline")),
            ("placements", "/placements".to_owned()),
            ("changes", format!("/placements/{}/changes?from=0&to=0", web.name)),
            ("drain", format!("/act?act=drain&name={tokyo}")),
            ("no-such-page", "/nothing".to_owned()),
            ("empty", "/placements/there-is-none/differences".to_owned()),
        ];
        browser.open(&pages[2].1).await?;
        browser
            .until("document.querySelector('.difference')", "the difference")
            .await?;
        for (name, path) in &pages {
            browser.open(path).await?;
            look(&browser, name).await?;
        }
        // It is not cordoned: nothing becomes of it.
        browser.open(&format!("/act?act=uncordon&name={tokyo}")).await?;
        browser.click("form.act button").await?;
        browser
            .until("document.querySelector('[role=status]')", "what has happened")
            .await?;
        look(&browser, "done").await?;
        browser.page.delete_all_cookies().await?;
        browser.open("/").await?;
        browser.until_it_says("Not let in").await?;
        look(&browser, "not-let-in").await?;
        let onlooker = Browser::of(&crate::acts::onlooker(&ctx).await?, &[]).await?;
        onlooker.open(&format!("/runs/{run}")).await?;
        onlooker.until_it_says("Hidden: events").await?;
        look(&onlooker, "hidden").await?;
        onlooker.close().await?;
        browser.close().await
    });
}

#[test]
fn the_keyboard_alone_is_enough() {
    scenario("dash-keys", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let namespace = furnished(&ctx).await?;
        let everywhere = spec(&whole_namespace(&namespace), &cast.everywhere());
        for word in ["a", "b"] {
            Crp::create(&ctx, word, &everywhere).await?.until_available(0).await?;
        }
        let browser = Browser::new(&ctx).await?;
        browser.open(&format!("/?q={}", ctx.prefix())).await?;
        browser
            .until("document.querySelectorAll('.matrix .cell').length >= 2", "two cells")
            .await?;
        // Real keys, to whatever has the focus: the page hears what a person's keyboard would send.
        let press = async |keys: &str| -> anyhow::Result<()> {
            Ok(browser.page.active_element().await?.send_keys(keys).await?)
        };
        press("/").await?;
        ensure!(
            browser.value("document.activeElement.name").await? == json!("q"),
            "/ leads to the search"
        );
        // One stop for all cells, arrows inside.
        let stops = browser
            .value("document.querySelectorAll('.matrix .cell[tabindex=\"0\"]').length")
            .await?;
        ensure!(stops == json!(1), "{stops} stops");
        // From the search Tab leads there.
        let mut tabs = 0;
        while browser.value("document.activeElement.matches('.cell')").await? != json!(true) {
            ensure!(tabs < 40, "forty times Tab do not lead to a cell");
            press(TAB).await?;
            tabs += 1;
        }
        let first = browser.value("document.activeElement.getAttribute('href')").await?;
        press(RIGHT).await?;
        let second = browser.value("document.activeElement.getAttribute('href')").await?;
        ensure!(second != first && second.is_string(), "{first} {second}");
        press(ENTER).await?;
        browser.until("document.querySelector('.chain')", "why").await?;
        let at = browser.value("location.pathname").await?;
        ensure!(at == second, "Enter leads to {at} instead of {second}");
        // The first stop of a page leads past its menu.
        press(TAB).await?;
        ensure!(
            browser.value("document.activeElement.className").await? == json!("skip"),
            "the first stop is another"
        );
        press(ENTER).await?;
        ensure!(
            browser.value("document.activeElement.id").await? == json!("page"),
            "it leads elsewhere"
        );
        browser.close().await
    });
}
