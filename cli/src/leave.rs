//! `kubectl fleet leave`: takes a cluster out of the fleet. What is placed there stays.

use std::{ops::ControlFlow, time::Duration};

use anyhow::Result;
use fleet_api::{
    cluster::MemberCluster,
    names::{ClusterName, FLEET_SYSTEM_NAMESPACE},
    placement::{ClusterResourceBinding, ResourceBinding},
};
use k8s_openapi::api::{
    core::v1::{Secret, ServiceAccount},
    rbac::v1::{Role, RoleBinding},
};
use kube::{Api, Client, Resource, api::DeleteParams};
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use crate::{
    clusters,
    exit::Exit,
    globals::Globals,
    hub::{Hub, Named, News},
    join, old,
    problem::{Failure, said},
    progress,
    terminal::{self, Say},
};

/// Take a cluster out of the fleet.
///
/// What is placed there stays there; `kubectl fleet drain` takes it off before. Deletes the MemberCluster; the member agent then lets go of what it has placed, and the hub removes what it kept of the
/// member. With --wait, also the identity that `kubectl fleet join` made on the hub is removed, once nobody needs it any more.
///
/// Exit status: 0 done, 1 error, 2 usage, 3 some of it is left, 4 refused, 124 timeout.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubectl fleet leave east --dry-run\n  kubectl fleet leave east --wait")]
pub(crate) struct Args {
    /// The member cluster
    // Not `cluster`, which is a flag of kubectl.
    #[arg(value_name = "CLUSTER")]
    member: String,
    /// Change nothing: say what would become of it
    #[arg(long)]
    dry_run: bool,
    /// Wait until it has left, and remove its identity
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// How long to wait
    #[arg(long, default_value = "5m", value_parser = old::timeout)]
    timeout: Duration,
    #[command(flatten)]
    globals: Globals,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        member: cluster,
        dry_run,
        wait,
        timeout,
        globals,
    } = args;
    let name = join::cluster(&cluster)?;
    let found = clusters::connect_with(&globals).await?;
    let (hub, client) = (Hub::of(&found), found.client);
    let leaving = leave(&hub, &client, &name, dry_run, wait, &terminal::note);
    let deadline = Instant::now() + timeout;
    let leaving = progress::shown("waiting until it has left", leaving);
    if let Ok(exit) = tokio::time::timeout_at(deadline, leaving).await {
        return exit;
    }
    terminal::note(&format!(
        "the time is up, and {name} is still leaving: `kubectl fleet why membercluster/{name}` says what it waits for"
    ));
    Ok(Exit::TimedOut)
}

async fn leave(
    hub: &Hub,
    client: &Client,
    name: &ClusterName,
    dry_run: bool,
    wait: bool,
    say: Say<'_>,
) -> Result<Exit> {
    let cluster = name.as_str();
    if hub.find::<MemberCluster>(cluster).await?.is_none() {
        return gone_already(client, name, dry_run, wait, say).await;
    }
    let wide = hub
        .list("", |it: &ClusterResourceBinding| it.spec.target_cluster == cluster)
        .await?;
    let narrow = hub
        .list("", |it: &ResourceBinding| it.spec.target_cluster == cluster)
        .await;
    let narrow = match narrow {
        Ok(found) => found.items.len(),
        Err(problem) if problem.is_unserved() => 0,
        Err(problem) if problem.is_forbidden() => {
            say(&format!(
                "note: whether ResourcePlacements are on {cluster} cannot be told: {}",
                problem.brief()
            ));
            0
        }
        Err(problem) => return Err(problem.into()),
    };
    let placed = wide.items.len() + narrow;
    if placed > 0 {
        say(&format!(
            "note: {placed} placement(s) are on {cluster}; what they have placed stays there, and nobody keeps it up to date \
             any more (`kubectl fleet drain {cluster}` takes it off)"
        ));
    }
    if dry_run {
        say(&format!("would delete MemberCluster {cluster}"));
        return Ok(Exit::Done);
    }
    let mut version = hub.version::<MemberCluster>().await?;
    let named = Named {
        namespace: None,
        name: cluster,
    };
    hub.delete::<MemberCluster>(named).await?;
    if !wait {
        say(&format!(
            "{cluster} is leaving; its identity on the hub stays until `kubectl fleet leave {cluster} --wait` removes it"
        ));
        return Ok(Exit::Done);
    }
    let own = |it: &MemberCluster| it.metadata.name.as_deref() == Some(cluster);
    if hub.find::<MemberCluster>(cluster).await?.is_some() {
        hub.follow(&mut version, own, |news| match news {
            News::Gone(_) => ControlFlow::Break(()),
            News::All(all) if all.is_empty() => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .await?;
    }
    say(&format!("{cluster} has left"));
    Ok(clean_up(client, name, say).await)
}

/// Somebody has deleted the MemberCluster before. What is left of the cluster is its identity.
async fn gone_already(client: &Client, name: &ClusterName, dry_run: bool, wait: bool, say: Say<'_>) -> Result<Exit> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    let account = name.service_account();
    let is_left = accounts.get_metadata_opt(&account).await.ok().flatten().is_some();
    let text = format!("there is no MemberCluster {:?}", name.as_str());
    match (is_left, dry_run, wait) {
        (false, ..) => Err(Failure::error(text, "kubectl get memberclusters")),
        (true, true, _) => {
            say(&format!(
                "would remove the identity {FLEET_SYSTEM_NAMESPACE}/{account} that {name} has left with --wait"
            ));
            Ok(Exit::Done)
        }
        (true, false, false) => Err(Failure::error(
            format!("{text}, and its identity {FLEET_SYSTEM_NAMESPACE}/{account} is still on the hub"),
            format!("kubectl fleet leave {name} --wait"),
        )),
        (true, false, true) => {
            say(&format!("{name} has left before"));
            Ok(clean_up(client, name, say).await)
        }
    }
}

/// Removes the identity that `join` has made. A credential that stays is something left to do.
async fn clean_up(client: &Client, name: &ClusterName, say: Say<'_>) -> Exit {
    let kept = [
        gone::<Secret>(client, &name.token_secret()).await,
        gone::<RoleBinding>(client, &name.renewal_role()).await,
        gone::<Role>(client, &name.renewal_role()).await,
        gone::<ServiceAccount>(client, &name.service_account()).await,
    ];
    let mut exit = Exit::Done;
    for kept in kept.into_iter().filter_map(Result::err) {
        say(&format!("note: {kept}"));
        exit = Exit::Left;
    }
    exit
}

/// Deletes what `join` has made on the hub; it may never have been there.
async fn gone<K>(client: &Client, name: &str) -> Result<(), String>
where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), FLEET_SYSTEM_NAMESPACE);
    match api.delete(name, &DeleteParams::default()).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(format!(
            "{} {FLEET_SYSTEM_NAMESPACE}/{name} stays on the hub: {}",
            K::kind(&()),
            said(&error)
        )),
    }
}

#[cfg(test)]
mod tests {
    use fleet_testkit::Fault;

    use super::*;
    use crate::{
        problem,
        testing::{CLUSTERS, Fake, shown::assert_golden},
    };

    #[tokio::test]
    async fn what_is_placed_is_said_and_a_dry_run_deletes_nothing() {
        let fake = Fake::new();
        fake.bind("web", "east", "Bound", true);
        let client = fake.server.client();
        let (hub, east) = (Hub::new(client.clone()), "east".parse().expect("a name"));
        let exit = leave(&hub, &client, &east, true, false, &fake.say())
            .await
            .expect("it is known");
        assert_eq!(exit, Exit::Done);
        let said = fake.said();
        assert!(said[0].starts_with("note: 1 placement(s) are on east"), "{said:?}");
        assert_eq!(said[1], "would delete MemberCluster east");
        assert!(fake.server.writes().is_empty());
    }

    #[tokio::test]
    async fn once_it_has_left_its_identity_goes_too() {
        let fake = Fake::new();
        let account = "/api/v1/namespaces/fleet-system/serviceaccounts/east-hub-cluster-access";
        fake.server.put(account, serde_json::json!({}));
        let client = fake.server.client();
        let (hub, east) = (Hub::new(client.clone()), "east".parse().expect("a name"));
        leave(&hub, &client, &east, false, true, &fake.say())
            .await
            .expect("it leaves");
        assert!(fake.server.get(account).is_none());
        assert!(fake.server.get(&format!("{CLUSTERS}/east")).is_none());
        let again = leave(&hub, &client, &east, false, true, &fake.say())
            .await
            .expect_err("it is gone");
        assert!(
            again.to_string().starts_with("there is no MemberCluster \"east\""),
            "{again}"
        );
    }

    #[tokio::test]
    async fn an_identity_that_was_left_behind_is_named_and_removed_later() {
        let fake = Fake::new();
        let account = "/api/v1/namespaces/fleet-system/serviceaccounts/east-hub-cluster-access";
        fake.server.put(account, serde_json::json!({}));
        let client = fake.server.client();
        let (hub, east) = (Hub::new(client.clone()), "east".parse().expect("a name"));
        leave(&hub, &client, &east, false, false, &fake.say())
            .await
            .expect("it leaves");
        assert!(fake.server.get(account).is_some(), "nobody has waited");
        let again = leave(&hub, &client, &east, false, false, &fake.say()).await;
        let again = again.expect_err("there is no MemberCluster any more");
        assert_eq!(
            problem::next(&again, "leave"),
            "kubectl fleet leave east --wait",
            "{again}"
        );
        fake.server
            .fail(Fault::new("/serviceaccounts", 403).of("DELETE").times(1));
        let refused = leave(&hub, &client, &east, false, true, &fake.say()).await;
        assert_eq!(refused.expect("the rest goes"), Exit::Left);
        let done = leave(&hub, &client, &east, false, true, &fake.say()).await;
        assert_eq!(done.expect("it goes"), Exit::Done);
        assert!(fake.server.get(account).is_none());
        assert_golden("leave.txt", &(fake.said().join("\n") + "\n"));
    }

    #[tokio::test]
    async fn what_may_not_be_counted_is_said() {
        let fake = Fake::new();
        fake.server.fail(Fault::new("/resourcebindings", 403));
        let client = fake.server.client();
        let (hub, east) = (Hub::new(client.clone()), "east".parse().expect("a name"));
        let left = leave(&hub, &client, &east, true, false, &fake.say()).await;
        assert_eq!(left.expect("it is known"), Exit::Done);
        let said = fake.said();
        assert!(
            said[0].starts_with("note: whether ResourcePlacements are on east cannot be told"),
            "{said:?}"
        );
    }
}
