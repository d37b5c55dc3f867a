//! A staged rollout: one cluster first, and the others after somebody has approved. That is left to whoever watches.

use anyhow::Result;
use fleet_api::conditions;
use fleet_api::placement::{ClusterScoped, Scope};
use kube::api::Api;
use kube::core::object::HasStatus as _;

use super::{say, step};
use crate::agents;
use crate::fleet::Fleet;
use crate::wait;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/demo/shop.yaml");
const RUN: &str = "shop-1";
const REQUEST: &str = "shop-1-after-canary";

type Run = <ClusterScoped as Scope>::UpdateRun;

/// Rolls an application out to the first stage. Safe to repeat.
pub(super) async fn show(fleet: &Fleet) -> Result<()> {
    let hub = &fleet.clusters()[0];
    let mut members = fleet.members();
    let Some(first) = members.next() else {
        return Ok(());
    };
    let label = |environment| format!("environment={environment}");
    let (canary, production) = (label("canary"), label("production"));
    let args = ["label", "membercluster", &first.name, &canary, "--overwrite"];
    step(fleet, hub, "one cluster goes first", &args).await?;
    let others: Vec<&str> = members.map(|member| member.name.as_str()).collect();
    if !others.is_empty() {
        let args = [&["label", "membercluster"], &others[..], &[&production, "--overwrite"]].concat();
        step(fleet, hub, "the others follow", &args).await?;
    }
    let applied = fleet.kubectl(&hub.name)?.ok(&["apply", "-f", MANIFESTS]).await?;
    let command = "apply -f docs/examples/demo/shop.yaml";
    say(
        "an application that is rolled out stage by stage",
        hub,
        command,
        &applied,
    );
    let runs: Api<Run> = Api::all(fleet.client(&hub.name).await?);
    wait::until_present(runs, RUN, "waits for approval, or is done", |run| {
        let conditions = run.status().map_or(&[][..], |status| &status.conditions);
        let is = |type_, reason: &str| conditions::find(conditions, type_).is_some_and(|found| found.reason == reason);
        is("Progressing", "UpdateRunWaiting") || is("Succeeded", "UpdateRunSucceeded")
    })
    .await?;
    let get = ["get", "clusterstagedupdaterun", RUN];
    step(fleet, hub, "the first stage is done, and the run waits", &get).await?;
    let get = ["get", "clusterapprovalrequest", REQUEST];
    step(fleet, hub, "for this", &get).await
}

/// How to go on with it.
pub(super) fn how_to_go_on(fleet: &Fleet) {
    let Ok(program) = agents::program("kubectl-fleet") else {
        return;
    };
    let context = &fleet.clusters()[0].context;
    println!("\n== what to try next: how the fleet is, and why ==");
    if let Some(dir) = program.parent() {
        println!("export PATH={}:$PATH", dir.display());
    }
    println!("kubectl fleet status --context {context}");
    println!("kubectl fleet why csur/{RUN} --context {context}");
    if let Some(member) = fleet.members().next() {
        let (name, member) = (&member.name, &member.context);
        println!("kubectl fleet why deployment/web {name} -n web --context {context} --member-context {member}");
    }
    println!("\n== what a change would do, before it is made: another image, and only where environment=production ==");
    println!("kubectl fleet plan -f docs/examples/demo/web-next.yaml --context {context}");
    println!("\n== let the rollout go on, and watch it ==");
    println!("kubectl fleet approve clusterapprovalrequest --name {REQUEST} --hub-cluster-context {context}");
    println!("kubectl fleet rollout watch csur/{RUN} --context {context}");
    println!("\n== the same in the browser: the drift, the run, and a button that approves it ==");
    println!("kubectl fleet dashboard --context {context}");
}
