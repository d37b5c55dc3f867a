//! Whoever is not the person in front of the machine.

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::ClusterScoped;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, spec, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::runs::{Story, stage};
use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

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
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("one", json!({ "stage": "all" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let web = Crp::create(&ctx, "web", &spec(&whole_namespace(ctx.prefix()), &cast.everywhere())).await?;
        web.until_available(0).await?;
        cast.act(&["one"], Act::Broken);
        let one = cast.name("one");
        let event = poison(&ctx, &web, &one).await?;
        let gated = stage("all", &json!({ "beforeStageTasks": [{ "type": "Approval" }] }));
        story.strategy(&json!([gated])).await?;
        let run = story.run("run", &json!({})).await?;
        story.until(&run, "Progressing=False UpdateRunWaiting").await?;
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
            format!("/placements/{}/differences", web.name),
            format!("/placements/{}/changes?from=0&to=0", web.name),
            format!("/runs/{run}"),
            format!("/runs/{odd}"),
            format!("/act?act=approve&name={run}-before-all&run={run}"),
            format!("/act?act=drain&name={one}"),
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
        browser.close().await
    });
}

/// A page of another program on this machine that leads on by itself, as fast as it can.
async fn leads_to(at: &str, path: &str) -> Result<String> {
    let page = format!(
        "<!doctype html><title>elsewhere</title><script>location.href = {}</script>",
        json!(format!("{at}{path}"))
    );
    served(page).await
}

/// A page of another program on this machine: the browser takes it for the same site, and sends our cookie along. It answers
/// whatever is asked with a form that cordons a member.
async fn neighbour(at: &str, member: &str) -> Result<String> {
    served(format!(
        "<!doctype html><title>elsewhere</title><form method=post action=\"{at}/act\"><input name=act value=cordon>\
         <input name=name value=\"{member}\"><input name=form value=guessed><button>Win</button></form>"
    ))
    .await
}

/// Answers whatever is asked with this page; says where.
async fn served(page: String) -> Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let own = format!("http://{}/", listener.local_addr()?);
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{page}",
        page.len()
    );
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut asked = [0; 4096];
            // Whoever asks nothing gets nothing.
            if stream.read(&mut asked).await.is_ok_and(|read| read > 0) {
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        }
    });
    Ok(own)
}

#[test]
fn a_form_on_a_page_of_the_same_machine_changes_nothing() {
    scenario("dash-form", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let one = cast.name("one");
        let browser = Browser::new(&ctx).await?;
        let elsewhere = neighbour(&browser.at, &one).await?;
        browser.page.goto(&elsewhere).await?;
        browser.click("button").await?;
        browser.until_it_says("comes from another page").await?;
        let members: Api<MemberCluster> = Api::all(ctx.hub().await?);
        let taints = members.get(&one).await?.spec.taints;
        ensure!(taints.is_empty(), "another page has cordoned it: {taints:?}");
        // Nor can it read anything, although the cookie goes along.
        browser.page.goto(&elsewhere).await?;
        let read = format!(
            "const done = arguments[0];
             fetch({}, {{ credentials: 'include' }}).then(() => done('read'), () => done('refused'));",
            json!(browser.at)
        );
        let said = browser.page.execute_async(&read, vec![]).await?;
        ensure!(said == json!("refused"), "another page has read the dashboard: {said}");
        // What it tried works from the dashboard's own page.
        browser.open(&format!("/members/{one}")).await?;
        browser.click("a[data-act=cordon]").await?;
        browser.click("form.act button").await?;
        browser.until_it_says("is cordoned").await?;
        browser.close().await
    });
}

#[test]
fn no_page_beside_it_leads_to_one_where_a_key_writes() {
    scenario("dash-key", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let one = cast.name("one");
        let browser = Browser::new(&ctx).await?;
        let elsewhere = leads_to(&browser.at, &format!("/act?act=cordon&name={one}")).await?;
        browser.page.goto(&elsewhere).await?;
        browser.until_it_says("comes from another page").await?;
        // From our own page it is there, and a key that is held down presses nothing.
        browser.open(&format!("/members/{one}")).await?;
        browser.click("a[data-act=cordon]").await?;
        browser
            .until("document.querySelector('form.act .go')", "the button")
            .await?;
        let focus = browser.value("document.activeElement.matches('.go')").await?;
        ensure!(focus == json!(false), "the button has the focus already");
        browser
            .page
            .active_element()
            .await?
            .send_keys("\u{E007}\u{E007}")
            .await?;
        let at = browser.value("location.pathname").await?;
        ensure!(at == json!("/act"), "a key has led to {at}");
        let members: Api<MemberCluster> = Api::all(ctx.hub().await?);
        let taints = members.get(&one).await?.spec.taints;
        ensure!(taints.is_empty(), "a key has cordoned it: {taints:?}");
        browser.close().await
    });
}
