//! What `fleet-local demo` shows once the fleet runs: the API, the members that have joined, an application placed on
//! them, a bad version that takes itself back, and a rollout that goes stage by stage.

mod application;
mod rollback;
mod stages;

use anyhow::Result;

use crate::fleet::Fleet;
use crate::fleet::state::{ClusterState, Kind};

/// Shows the fleet as a user would look at it.
pub async fn show(fleet: &Fleet) -> Result<()> {
    let hub = &fleet.clusters()[0];
    step(fleet, hub, "the fleet's API", &["api-resources", "--categories=fleet"]).await?;
    if let Kind::Local { .. } = fleet.state().kind {
        step(
            fleet,
            hub,
            "the members, as the hub knows them",
            &["get", "memberclusters"],
        )
        .await?;
        if let Some(member) = fleet.members().next() {
            let events = format!(
                "--field-selector=involvedObject.kind=MemberCluster,involvedObject.name={}",
                member.name
            );
            let args = ["get", "events", "--sort-by=.metadata.creationTimestamp", &events];
            step(fleet, hub, &format!("how {} joined", member.name), &args).await?;
            step(fleet, member, &format!("{} itself", member.name), &["get", "nodes"]).await?;
        }
        application::show(fleet).await?;
        rollback::show(fleet).await?;
        stages::show(fleet).await?;
        reach(fleet);
        stages::how_to_go_on(fleet).await?;
    } else {
        println!(
            "\nThe CRDs are installed. Next: install deploy/charts/hub-agent on the hub, and join the members with"
        );
        println!("`kubectl fleet join` (docs/operations/joining.md). What is still missing, and how it is then:");
        println!("kubectl fleet check --context {}", hub.context);
        println!("kubectl fleet status --context {}", hub.context);
        reach(fleet);
    }
    stop(fleet);
    Ok(())
}

async fn step(fleet: &Fleet, cluster: &ClusterState, title: &str, args: &[&str]) -> Result<()> {
    let printed = fleet.kubectl(&cluster.name)?.ok(args).await?;
    let quoted = args.iter().map(|arg| {
        if arg.contains(['{', ' ']) {
            format!("'{arg}'")
        } else {
            (*arg).to_owned()
        }
    });
    say(title, cluster, &quoted.collect::<Vec<_>>().join(" "), &printed);
    Ok(())
}

/// Prints a command and what it said.
fn say(title: &str, cluster: &ClusterState, command: &str, printed: &str) {
    print!(
        "\n== {title} ==\n$ kubectl --context {} {command}\n{printed}",
        cluster.context
    );
}

/// The lines to paste into a shell.
pub fn how_to_reach(fleet: &Fleet) {
    reach(fleet);
    stop(fleet);
}

fn reach(fleet: &Fleet) {
    println!("\n== reach the clusters ==");
    if let Some(kubeconfig) = &fleet.state().kubeconfig {
        println!("export KUBECONFIG={}", kubeconfig.display());
        println!("alias kubectl={}", fleet.state().kubectl.display());
    }
    for cluster in fleet.clusters() {
        println!("kubectl --context {} get nodes", cluster.context);
    }
}

fn stop(fleet: &Fleet) {
    match fleet.state().kind {
        Kind::Local { .. } => println!("\nstop everything: make down"),
        Kind::External { .. } => println!("\nlet go of these clusters: make down"),
    }
}
