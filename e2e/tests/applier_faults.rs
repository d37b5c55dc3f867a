//! Faults of what all scenarios of a cluster share: its API server. One at a time, on a small fleet of their own.

use std::time::Duration;

use anyhow::{Result, ensure};
use fleet_api::conditions;
use fleet_api::placement::Work;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

const MEMBER: &str = "member-1";
const HUB_NAMESPACE: &str = "fleet-member-member-1";
const API_SERVER: &str = "member-1/kube-apiserver";

fn config(namespace: &str, name: &str, value: &str) -> Value {
    let metadata = json!({"name": name, "namespace": namespace});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": value}})
}

async fn works(ctx: &Ctx) -> Result<Api<Work>> {
    Ok(Api::namespaced(ctx.hub().await?, HUB_NAMESPACE))
}

async fn available(ctx: &Ctx, name: &str) -> Result<Work> {
    wait::until_present(works(ctx).await?, name, "Available", |work: &Work| {
        let generation = work.metadata.generation.unwrap_or_default();
        let status = work.status.as_ref();
        status.is_some_and(|status| conditions::is_true(&status.conditions, "Available", generation))
    })
    .await
}

async fn holds(ctx: &Ctx, namespace: &str, name: &str, value: &str) -> Result<()> {
    let configs: Api<ConfigMap> = Api::namespaced(ctx.client(MEMBER).await?, namespace);
    let is = |config: &ConfigMap| {
        config
            .data
            .as_ref()
            .and_then(|d| d.get("a"))
            .is_some_and(|a| a == value)
    };
    wait::until_present(configs, name, &format!("a={value}"), is)
        .await
        .map(drop)
}

#[test]
fn a_restart_of_the_members_api_server_loses_nothing() {
    scenario("member-api", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let manifests = |value: &str| [config(&namespace, "one", value), config(&namespace, "two", value)];
        let work: Work = serde_json::from_value(json!({
            "metadata": {"name": name}, "spec": {"workload": {"manifests": manifests("1")}},
        }))?;
        ctx.create_in("hub", HUB_NAMESPACE, work).await?;
        available(&ctx, &name).await?;
        ctx.fleet().kill(API_SERVER).await?;
        // Wanted while nobody can write it down.
        let change = json!({"spec": {"workload": {"manifests": manifests("2")}}});
        let works = works(&ctx).await?;
        works
            .patch(&name, &PatchParams::default(), &Patch::Merge(&change))
            .await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        ctx.fleet().start_again(API_SERVER).await?;
        available(&ctx, &name).await?;
        for object in ["one", "two"] {
            holds(&ctx, &namespace, object, "2").await?;
        }
        // Its watches are back: what is changed by hand is seen.
        let configs: Api<ConfigMap> = Api::namespaced(ctx.client(MEMBER).await?, &namespace);
        let theirs = json!({"data": {"a": "theirs"}});
        configs
            .patch("one", &PatchParams::default(), &Patch::Merge(&theirs))
            .await?;
        holds(&ctx, &namespace, "one", "2").await?;
        // And what was deleted while it was away goes when it is back.
        ctx.fleet().kill(API_SERVER).await?;
        works.delete(&name, &DeleteParams::default()).await?;
        tokio::time::sleep(Duration::from_secs(2)).await;
        ensure!(
            works.get_opt(&name).await?.is_some(),
            "gone before it could be cleaned up"
        );
        ctx.fleet().start_again(API_SERVER).await?;
        wait::until_gone(works, &name).await?;
        wait::until_gone(configs.clone(), "one").await?;
        wait::until_gone(configs, "two").await
    });
}
