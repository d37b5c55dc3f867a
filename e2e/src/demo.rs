//! What `fleet-local demo` shows once the fleet runs. The steps of the product's demo will follow here.

use anyhow::Result;

use crate::fleet::Fleet;
use crate::fleet::state::Kind;

/// Shows the clusters and how to reach them.
pub async fn show(fleet: &Fleet) -> Result<()> {
    for cluster in fleet.clusters() {
        println!("\n== {} ==", cluster.name);
        let kubectl = fleet.kubectl(&cluster.name)?;
        print!(
            "$ kubectl --context {} get nodes\n{}",
            cluster.context,
            kubectl.ok(&["get", "nodes"]).await?
        );
    }
    let hub = &fleet.clusters()[0];
    let crds = fleet
        .kubectl(&hub.name)?
        .ok(&["get", "crds", "--output=custom-columns=NAME:.metadata.name"])
        .await?;
    print!(
        "\n== the fleet's API, on {} ==\n$ kubectl --context {} get crds\n{crds}",
        hub.name, hub.context
    );
    how_to_reach(fleet);
    Ok(())
}

/// The lines to paste into a shell.
pub fn how_to_reach(fleet: &Fleet) {
    println!("\n== reach the clusters ==");
    if let Some(kubeconfig) = &fleet.state().kubeconfig {
        println!("export KUBECONFIG={}", kubeconfig.display());
        println!("alias kubectl={}", fleet.state().kubectl.display());
    }
    for cluster in fleet.clusters() {
        println!("kubectl --context {} get nodes", cluster.context);
    }
    match fleet.state().kind {
        Kind::Local { .. } => println!("\nstop everything: make down"),
        Kind::External { .. } => println!("\nlet go of these clusters: make down"),
    }
}
