//! Whoever is not the person in front of the machine.

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, furnished, spec, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::browser::{Browser, ask};

const MARKUP: &str = "<img src=x onerror=\"window.hit=1\"><script>window.hit=1</script><svg onload=window.hit=1>";

/// Puts markup wherever the API lets somebody write text.
async fn poison(ctx: &Ctx, web: &Crp, member: &str) -> Result<String> {
    let hub = ctx.hub().await?;
    let name = ctx.name("event");
    let event: Event = serde_json::from_value(json!({
        "metadata": { "name": name },
        "involvedObject": { "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "name": web.name },
        "reason": MARKUP, "message": MARKUP, "type": "Warning", "lastTimestamp": fleet_e2e::now().to_string(),
    }))?;
    Api::<Event>::namespaced(hub.clone(), "default")
        .create(&PostParams::default(), &event)
        .await?;
    let members: Api<MemberCluster> = Api::all(hub);
    let taint = json!({ "spec": { "taints": [{ "key": "odd", "value": "x", "effect": "NoSchedule" }] } });
    members
        .patch(member, &PatchParams::default(), &Patch::Merge(taint))
        .await?;
    let said = json!({ "status": { "properties": { "example.com/odd": { "value": MARKUP, "observationTime": fleet_e2e::now().to_string() } } } });
    members
        .patch_status(member, &PatchParams::default(), &Patch::Merge(said))
        .await?;
    Ok(name)
}

#[test]
fn no_script_of_others_ever_runs() {
    scenario("dash-inject", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let namespace = furnished(&ctx).await?;
        let web = Crp::create(&ctx, "web", &spec(&whole_namespace(&namespace), &cast.everywhere())).await?;
        web.until_available(0).await?;
        cast.act(&["one"], Act::Broken);
        let one = cast.name("one");
        let event = poison(&ctx, &web, &one).await?;
        let browser = Browser::new(&ctx).await?;
        let odd = "%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E";
        let mut shown = 0;
        for path in [
            format!("/placements/{}/timeline", web.name),
            format!("/members/{one}"),
            "/timeline".to_owned(),
            format!("/placements/{odd}"),
            format!("/members/{odd}"),
            format!("/?q={odd}&group={odd}"),
            "/".to_owned(),
        ] {
            browser.open(&path).await?;
            // The page is put together again by the script as well.
            browser.until("document.querySelector('#fragment')", &path).await?;
            let text = browser.text().await?;
            shown += usize::from(text.contains("window.hit=1"));
            let elements = browser
                .value("document.querySelectorAll('#fragment :is(img, script, svg[onload])').length")
                .await?;
            ensure!(
                elements == json!(0),
                "{path} has {elements} elements that somebody has written"
            );
            ensure!(
                browser.value("window.hit === undefined").await? == json!(true),
                "{path} has run a script"
            );
        }
        ensure!(shown >= 4, "the text is there as text, on {shown} pages");
        Api::<Event>::namespaced(ctx.hub().await?, "default")
            .delete(&event, &DeleteParams::default())
            .await?;
        browser.close().await
    });
}

#[test]
fn other_sites_other_names_and_used_links_are_refused() {
    scenario("dash-door", |ctx| async move {
        let mut browser = Browser::new(&ctx).await?;
        let host = browser.at.strip_prefix("http://").context("it is http")?.to_owned();
        let cookie = browser
            .page
            .get_all_cookies()
            .await?
            .pop()
            .context("there is a cookie")?;
        ensure!(cookie.http_only() == Some(true), "{cookie:?}");
        let pair = format!("{}={}", cookie.name(), cookie.value());
        let own = [("Host", host.as_str()), ("Cookie", pair.as_str())];
        ensure!(
            ask(&browser.at, "/", &own).await?.starts_with("HTTP/1.1 200"),
            "the cookie lets in"
        );
        let rebound = [("Host", "evil.example"), ("Cookie", pair.as_str())];
        ensure!(
            ask(&browser.at, "/", &rebound).await?.starts_with("HTTP/1.1 403"),
            "DNS rebinding"
        );
        let foreign = [own[0], own[1], ("Origin", "http://evil.example")];
        ensure!(
            ask(&browser.at, "/", &foreign).await?.starts_with("HTTP/1.1 403"),
            "another origin"
        );
        ensure!(
            ask(&browser.at, "/", &own[..1]).await?.starts_with("HTTP/1.1 403"),
            "no cookie"
        );
        let link = browser.another_link().await?;
        let path = link.strip_prefix(&browser.at).context("the link is ours")?.to_owned();
        ensure!(
            ask(&browser.at, &path, &own[..1]).await?.contains("set-cookie"),
            "a new link lets in"
        );
        ensure!(
            ask(&browser.at, &path, &own[..1]).await?.starts_with("HTTP/1.1 403"),
            "once"
        );
        // A page of another origin in the same browser: it can send what it likes, and is not heard.
        browser.page.goto("data:text/html,<title>elsewhere</title>").await?;
        let sent = format!(
            "const done = arguments[0];
             fetch({}, {{ method: 'POST', credentials: 'include', mode: 'no-cors', body: 'act=cordon&name=x' }})
               .then((answer) => fetch({}, {{ credentials: 'include' }})).then(() => done('read'), () => done('refused'));",
            json!(format!("{}/act", browser.at)),
            json!(browser.at)
        );
        let said = browser.page.execute_async(&sent, vec![]).await?;
        ensure!(said == json!("refused"), "another page has read the dashboard: {said}");
        browser.close().await
    });
}
