//! The cordon: a taint on the MemberCluster that keeps new placements away. `kubectl fleet cordon` sets it and nothing else.

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::{MemberCluster, Taint};
use kube::api::DynamicObject;
use serde_json::{Value, json};

use crate::{
    clusters,
    exit::Exit,
    globals::Globals,
    hub::{Hub, Named, Part, Unchanged},
    terminal,
};

/// Keep new placements away from a member cluster.
///
/// What is there stays; `kubectl fleet drain` takes it off as well.
///
/// Exit status: 0 done, 1 error, 2 usage, 4 refused.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  kubectl fleet cordon east\n  kubectl fleet uncordon east")]
pub(crate) struct Args {
    /// The member cluster
    // Not `cluster`, which is a flag of kubectl.
    #[arg(value_name = "CLUSTER")]
    member: String,
    #[command(flatten)]
    globals: Globals,
}

pub(crate) async fn run(args: Args) -> Result<Exit> {
    let Args {
        member: cluster,
        globals,
    } = args;
    let hub = Hub::of(&clusters::connect_with(&globals).await?);
    let added = add(&hub, &cluster).await.map_err(anyhow::Error::from);
    let added = added.with_context(|| format!("failed to cordon cluster {cluster}"))?;
    terminal::note(&words(&cluster, added));
    Ok(Exit::Done)
}

fn words(cluster: &str, is_new: bool) -> String {
    let word = if is_new { "is cordoned" } else { "was cordoned already" };
    format!("{cluster} {word}: nothing new is placed there")
}

/// Adds the taint unless it is there; whether it had to be.
pub(crate) async fn add(hub: &Hub, cluster: &str) -> Result<bool, Unchanged> {
    change(hub, cluster, cordon).await
}

/// Takes every such taint off; whether there was one.
pub(crate) async fn remove(hub: &Hub, cluster: &str) -> Result<bool, Unchanged> {
    change(hub, cluster, uncordon).await
}

async fn change(
    hub: &Hub,
    cluster: &str,
    change: impl Fn(&mut DynamicObject) -> Result<bool>,
) -> Result<bool, Unchanged> {
    let named = Named {
        namespace: None,
        name: cluster,
    };
    hub.change::<MemberCluster>(named, Part::Object, change).await
}

/// Whether this is the taint, and nothing more.
fn is_cordon(taint: &Value) -> bool {
    serde_json::from_value::<Taint>(taint.clone()).is_ok_and(|taint| taint.is_cordon())
}

fn cordon(cluster: &mut DynamicObject) -> Result<bool> {
    let spec = cluster.data.get_mut("spec").context("the MemberCluster has no spec")?;
    if spec["taints"].is_null() {
        spec["taints"] = json!([]);
    }
    let taints = spec["taints"].as_array_mut().context("its taints are no list")?;
    if taints.iter().any(is_cordon) {
        return Ok(false);
    }
    taints.push(serde_json::to_value(Taint::cordon())?);
    Ok(true)
}

fn uncordon(cluster: &mut DynamicObject) -> Result<bool> {
    let Some(taints) = cluster
        .data
        .pointer_mut("/spec/taints")
        .filter(|taints| !taints.is_null())
    else {
        return Ok(false);
    };
    ensure!(taints.is_array(), "its taints are no list");
    let before = taints.as_array().map_or(0, Vec::len);
    if let Some(taints) = taints.as_array_mut() {
        taints.retain(|taint| !is_cordon(taint));
    }
    Ok(taints.as_array().map_or(0, Vec::len) < before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fake, shown::assert_golden};

    fn cluster(taints: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "cluster.kubernetes-fleet.io/v1beta1", "kind": "MemberCluster", "metadata": { "name": "east" },
            "spec": { "identity": { "kind": "User", "name": "east" }, "fromTheFuture": 1, "taints": taints },
        }))
        .expect("it is an object")
    }

    #[test]
    fn the_cordon_is_one_taint_among_those_of_others() {
        let (own, other) = (
            json!({ "key": "cordon-key", "value": "cordon-value", "effect": "NoSchedule" }),
            json!({ "key": "cordon-key", "value": "mine", "effect": "NoSchedule", "fromTheFuture": true }),
        );
        // Before, cordoned, uncordoned; and whether each has to be written.
        let rows = [
            (json!(null), json!([own]), true, json!(null), false),
            (json!([]), json!([own]), true, json!([]), false),
            (json!([other]), json!([other, own]), true, json!([other]), false),
            (json!([own, other]), json!([own, other]), false, json!([other]), true),
            (
                json!([own, other, own]),
                json!([own, other, own]),
                false,
                json!([other]),
                true,
            ),
        ];
        for (before, cordoned, is_cordoned, uncordoned, is_uncordoned) in rows {
            let mut object = cluster(&before);
            assert_eq!(cordon(&mut object).expect("it has a spec"), is_cordoned, "{before}");
            assert_eq!(object.data["spec"]["taints"], cordoned);
            let mut object = cluster(&before);
            assert_eq!(uncordon(&mut object).expect("it has a spec"), is_uncordoned, "{before}");
            assert_eq!(object.data["spec"]["taints"], uncordoned);
            assert_eq!(object.data["spec"]["fromTheFuture"], 1);
        }
    }

    #[tokio::test]
    async fn it_says_whether_there_was_one_already() {
        let fake = Fake::new();
        let hub = Hub::new(fake.server.client());
        let mut text = String::new();
        for _ in 0..2 {
            let added = add(&hub, "east").await.expect("east is there");
            text += &(words("east", added) + "\n");
        }
        assert_golden("cordon.txt", &text);
        let missing = add(&hub, "west").await.expect_err("west is not");
        assert!(matches!(missing, Unchanged::Unread(problem) if problem.is_missing()));
    }
}
