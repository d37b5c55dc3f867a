//! What can be changed from a page, by who may, and by who may not.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use fleet_api::cluster::{MemberCluster, Taint};
use fleet_api::placement::ClusterScoped;
use fleet_e2e::agents::{self, NAMESPACE};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::played::Cast;
use fleet_e2e::runs::{Story, stage};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::{Event, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::browser::Browser;

/// Somebody who has this ClusterRole.
async fn somebody(ctx: &Ctx, name: &str, role: &str) -> Result<PathBuf> {
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    ctx.create_in("hub", NAMESPACE, account).await?;
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
        "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
    }))?;
    ctx.create("hub", binding).await?;
    agents::kubeconfig_of(ctx.fleet(), "hub", name, name).await
}

/// Somebody who may look at everything of the fleet but Events, and change nothing.
pub(crate) async fn onlooker(ctx: &Ctx) -> Result<PathBuf> {
    let name = ctx.name("onlooker");
    let groups = ["placement.kubernetes-fleet.io", "cluster.kubernetes-fleet.io"];
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": name },
        "rules": [{ "apiGroups": groups, "resources": ["*"], "verbs": ["get", "list", "watch"] }],
    }))?;
    ctx.create("hub", role).await?;
    somebody(ctx, &name, &name).await
}

#[test]
fn who_has_the_viewers_role_sees_everything_as_it_happens() {
    scenario("dash-viewer", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let namespace = fleet_e2e::placements::furnished(&ctx).await?;
        let all = fleet_e2e::placements::whole_namespace(&namespace);
        let spec = fleet_e2e::placements::spec(&all, &cast.everywhere());
        let web = fleet_e2e::placements::Crp::create(&ctx, "web", &spec).await?;
        web.until_available(0).await?;
        let viewer = somebody(&ctx, &ctx.name("viewer"), "fleet-viewer").await?;
        let browser = Browser::of(&viewer, &[]).await?;
        browser.open(&format!("/placements/{}/timeline", web.name)).await?;
        browser
            .until("document.querySelector('.timeline li')", "what has happened")
            .await?;
        // An Event of after the page was opened: they are watched, and not only listed.
        let name = ctx.name("event");
        let event: Event = serde_json::from_value(json!({
            "metadata": { "name": name },
            "involvedObject": {
                "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "ClusterResourcePlacement", "name": web.name,
            },
            "reason": "SeenAtOnce", "message": "as it happens", "type": "Normal",
            "lastTimestamp": fleet_e2e::now().to_string(),
        }))?;
        let events: Api<Event> = Api::namespaced(ctx.hub().await?, "default");
        events.create(&PostParams::default(), &event).await?;
        browser.until_it_says("SeenAtOnce").await?;
        let text = browser.text().await?;
        for word in ["Hidden:", "Stale since", "Not shown:"] {
            ensure!(!text.contains(word), "{word} although the role has everything: {text}");
        }
        browser.open(&format!("/members/{}", cast.name("one"))).await?;
        browser
            .until(
                "document.querySelector('button[data-act=drain]:disabled')",
                "a button for others",
            )
            .await?;
        events.delete(&name, &DeleteParams::default()).await?;
        browser.close().await
    });
}

#[test]
fn who_may_approve_does_and_who_may_not_sees_it_at_once() {
    scenario("dash-approve", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("one", json!({ "stage": "canary" })).await?;
        cast.join("two", json!({ "stage": "rest" })).await?;
        let story = Story::<ClusterScoped>::new(&ctx, cast.everywhere()).await?;
        let approval = json!({ "afterStageTasks": [{ "type": "Approval" }] });
        story
            .strategy(&json!([stage("canary", &approval), stage("rest", &json!({}))]))
            .await?;
        let run = story.run("run", &json!({})).await?;
        let path = format!("/runs/{run}");
        let looks = Browser::of(&onlooker(&ctx).await?, &[]).await?;
        looks.open(&path).await?;
        looks.until_it_says("approval wanted").await?;
        looks
            .until(
                "document.querySelector('button[data-act=approve]:disabled')",
                "a button for others",
            )
            .await?;
        looks
            .until_it_says("you lack the right to update clusterapprovalrequests/status")
            .await?;
        looks.until_it_says("Hidden: events").await?;

        let may = Browser::new(&ctx).await?;
        may.open(&path).await?;
        may.until("document.querySelector('a[data-act=approve]')", "a button")
            .await?;
        may.click("a[data-act=approve]").await?;
        may.until_it_says("It cannot be taken back").await?;
        ensure!(
            story.status(&run).await?.stages_status[1].start_time.is_none(),
            "it was only asked"
        );
        may.click("form.act button").await?;
        may.until_it_says("is approved").await?;
        // The other one has touched nothing.
        looks
            .until("document.querySelector('.standing .badge.done')", "the run is done")
            .await?;
        story.until_succeeded(&run).await?;
        looks.close().await?;
        may.close().await
    });
}

#[test]
fn a_member_is_cordoned_drained_and_taken_back_from_its_page() {
    scenario("dash-drain", |ctx| async move {
        let cast = Cast::new(&ctx, &["one"]).await?;
        let one = cast.name("one");
        let namespace = fleet_e2e::placements::furnished(&ctx).await?;
        let all = fleet_e2e::placements::whole_namespace(&namespace);
        let web =
            fleet_e2e::placements::Crp::create(&ctx, "web", &fleet_e2e::placements::spec(&all, &cast.everywhere()))
                .await?;
        web.until_available(0).await?;
        let browser = Browser::new(&ctx).await?;
        let members: Api<MemberCluster> = Api::all(ctx.hub().await?);
        let is_cordoned = |member: &MemberCluster| member.spec.taints.contains(&Taint::cordon());
        let path = format!("/members/{one}");
        browser.open(&path).await?;
        browser.click("a[data-act=drain]").await?;
        browser.until_it_says("would be evicted").await?;
        ensure!(!is_cordoned(&members.get(&one).await?), "a preview has cordoned it");
        browser.click("form.act button").await?;
        browser
            .until("document.querySelector('[role=status]')", "what has happened")
            .await?;
        wait::until_present(members.clone(), &one, "cordoned", is_cordoned).await?;
        browser.until_it_says("evicted").await?;
        browser.open(&path).await?;
        browser
            .until("document.querySelector('a[data-act=uncordon]')", "the way back")
            .await?;
        browser.click("a[data-act=uncordon]").await?;
        browser.click("form.act button").await?;
        wait::until_present(members, &one, "taken back", |member| !is_cordoned(member)).await?;
        browser.close().await
    });
}
