//! A bad version that takes itself back: nobody has to do anything.

use anyhow::Result;
use fleet_api::conditions;
use fleet_api::placement::{ClusterScoped, Scope};
use kube::api::Api;
use kube::core::object::HasStatus as _;

use super::{say, step};
use crate::fleet::Fleet;
use crate::fleet::state::ClusterState;
use crate::wait;

const DIR: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../");
const GOOD: &str = "docs/examples/demo/pay.yaml";
const BAD: &str = "docs/examples/demo/pay-2.yaml";
const WHY: &str = r#"jsonpath={.status.conditions[?(@.type=="Succeeded")].message}{"\n"}"#;

/// Rolls a good version out, then a bad one, and shows what becomes of it. Safe to repeat.
pub(super) async fn show(fleet: &Fleet) -> Result<()> {
    let hub = &fleet.clusters()[0];
    let Some(member) = fleet.members().next() else {
        return Ok(());
    };
    apply(fleet, hub, "updates that take themselves back when they fail", GOOD).await?;
    ended(fleet, hub, "pay-1").await?;
    apply(fleet, hub, "a bad version: no node has room for its Pods", BAD).await?;
    ended(fleet, hub, "pay-2").await?;
    let get = ["get", "clusterstagedupdaterun", "pay-1", "pay-2"];
    step(fleet, hub, "the run has noticed", &get).await?;
    let get = ["get", "clusterstagedupdaterun", "pay-2", "-o", WHY];
    step(fleet, hub, "what it did", &get).await?;
    let get = ["get", "deployment", "pay", "--namespace", "pay", "-o", "wide"];
    step(fleet, member, &format!("{} has what it had", member.name), &get).await
}

async fn apply(fleet: &Fleet, hub: &ClusterState, title: &str, file: &str) -> Result<()> {
    let path = format!("{DIR}{file}");
    let applied = fleet.kubectl(&hub.name)?.ok(&["apply", "-f", &path]).await?;
    say(title, hub, &format!("apply -f {file}"), &applied);
    Ok(())
}

/// Waits until a run has succeeded or failed.
async fn ended(fleet: &Fleet, hub: &ClusterState, run: &str) -> Result<()> {
    let runs: Api<<ClusterScoped as Scope>::UpdateRun> = Api::all(fleet.client(&hub.name).await?);
    wait::until_present(runs, run, "has ended", |run| {
        let said = run.status().map_or(&[][..], |status| &status.conditions);
        conditions::find(said, "Succeeded").is_some_and(|found| found.status != "Unknown")
    })
    .await?;
    Ok(())
}
