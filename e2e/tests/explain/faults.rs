//! What is in the way of whoever asks: no cluster, the wrong one, a credential that has expired, missing rights.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::plugin::{self, Said};
use fleet_e2e::{agents, wait};
use k8s_openapi::api::{core::v1::ServiceAccount, rbac::v1::ClusterRoleBinding};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};

const NAMESPACE: &str = "fleet-system";

/// A kubeconfig of somebody on the hub, with a role if one is named.
async fn somebody(ctx: &Ctx, word: &str, role: Option<&str>) -> Result<PathBuf> {
    let name = ctx.name(word);
    let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    ctx.create_in("hub", NAMESPACE, account).await?;
    if let Some(role) = role {
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
        }))?;
        ctx.create("hub", binding).await?;
    }
    agents::kubeconfig_of(ctx.fleet(), "hub", &name, &name).await
}

fn says(said: &Said, words: &[&str]) -> Result<()> {
    for word in words {
        ensure!(said.stderr.contains(word), "{word:?} is not said: {said:?}");
    }
    Ok(())
}

#[test]
fn who_may_read_some_kinds_sees_those_and_what_is_hidden() {
    scenario("explain-rights", |ctx| async move {
        let operator = somebody(&ctx, "operator", Some("fleet-operator")).await?;
        // The API server takes new rights up a moment later.
        let config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(&operator)?, &KubeConfigOptions::default()).await?;
        let members = Api::<MemberCluster>::all(Client::try_from(config)?);
        wait::until_list(members, "the operator may read members", |_| true).await?;
        let said = plugin::run(Some(&operator), &["status"]).await?;
        said.shows(&["hidden: internalmemberclusters", "next: kubectl auth can-i list"])?;
        // The table is of those in trouble while there are many, and others leave all the time.
        let all = plugin::run(Some(&operator), &["status", "-o", "json"]).await?;
        all.shows(&["\"member-1\""])?;
        let nobody = somebody(&ctx, "nobody", None).await?;
        let refused = plugin::run(Some(&nobody), &["why", "crp/web"]).await?;
        says(
            refused.ends_with(4)?,
            &[
                "The right that is missing: list clusterresourceplacements",
                "next: kubectl auth can-i",
            ],
        )
    });
}

#[test]
fn who_has_the_viewers_role_sees_everything_and_changes_nothing() {
    scenario("explain-viewer", |ctx| async move {
        let viewer = somebody(&ctx, "viewer", Some("fleet-viewer")).await?;
        let config =
            Config::from_custom_kubeconfig(Kubeconfig::read_from(&viewer)?, &KubeConfigOptions::default()).await?;
        let members = Api::<MemberCluster>::all(Client::try_from(config)?);
        wait::until_list(members, "the viewer may read members", |_| true).await?;
        let run = async |args: &[&str]| plugin::run(Some(&viewer), args).await;
        for args in [
            ["status"].as_slice(),
            &["why", "membercluster/member-1"],
            &["top", "--timeout", "2s"],
        ] {
            let said = run(args).await?;
            said.shows(&["member"])?;
            ensure!(!said.stdout.contains("hidden:"), "{args:?}: {said:?}");
        }
        let checked = run(&["check", "-o", "json"]).await?.json()?;
        for line in checked["lines"].as_array().context("it has lines")? {
            // How long certificates are good for is in Secrets.
            let text = line["text"].as_str().unwrap_or_default();
            let is_unread = text.starts_with("cannot be told");
            ensure!(!is_unread || line["check"] == "certificates", "{line}");
        }
        says(
            run(&["cordon", "member-1"]).await?.ends_with(4)?,
            &[
                "The right that is missing: update memberclusters",
                "next: kubectl auth can-i",
            ],
        )
    });
}

#[test]
fn what_is_in_the_way_is_said_with_the_command_to_type() {
    scenario("explain-faults", |ctx| async move {
        let kubeconfig = ctx.fleet().state().kubeconfig.clone().context("a local fleet")?;
        let run = async |args: &[&str]| plugin::run(Some(&kubeconfig), args).await;
        let wrong = run(&["status", "--context", "nowhere"]).await?;
        says(
            wrong.ends_with(1)?,
            &["cannot use context \"nowhere\"", "kubectl config get-contexts"],
        )?;
        let member = ctx.fleet().cluster("member-1")?.context.clone();
        let astray = run(&["why", "crp/web", "--context", &member]).await?;
        says(
            astray.ends_with(1)?,
            &[
                "is this the context of the hub?",
                "next: kubectl api-resources --api-group=placement.kubernetes-fleet.io",
            ],
        )?;
        let none = run(&["why", &format!("crp/{}", ctx.name("none")), "--context", "hub"]).await?;
        none.ends_with(1)?
            .shows(&["there is no crp/", "next: kubectl get crp"])?;
        let odd = run(&["why", "crp/web,metadata.name=x"]).await?;
        says(odd.ends_with(2)?, &["is no name of an object"])?;
        let usage = run(&["why"]).await?;
        ensure!(usage.code == 2, "{usage:?}");

        // A token that nobody has issued, and an API server that is not there.
        let own = somebody(&ctx, "expired", None).await?;
        let expired = changed(&own, "expired", "/users/0/user/token", "nobody has issued this")?;
        let refused = plugin::run(Some(&expired), &["status"]).await?;
        says(refused.ends_with(1)?, &["Unauthorized", "next: kubectl auth whoami"])?;
        let away = changed(&own, "away", "/clusters/0/cluster/server", "https://127.0.0.1:1")?;
        let away = plugin::run(Some(&away), &["status"]).await?;
        says(away.ends_with(1)?, &["next: kubectl cluster-info"])
    });
}

/// A copy of a kubeconfig with another value in one place.
fn changed(kubeconfig: &Path, word: &str, pointer: &str, value: &str) -> Result<PathBuf> {
    let mut content: Value = serde_saphyr::from_str(&std::fs::read_to_string(kubeconfig)?)?;
    *content.pointer_mut(pointer).context("it has another form")? = value.into();
    let path = kubeconfig.with_extension(word);
    std::fs::write(&path, serde_json::to_string(&content)?)?;
    Ok(path)
}
