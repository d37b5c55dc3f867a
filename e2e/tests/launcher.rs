//! The local clusters are what they claim to be: real API servers, controllers that act, nodes that run pods.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use fleet_e2e::cluster::ClusterSpec;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::{process, wait};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;

fn deployment(name: &str, image: &str) -> Deployment {
    let labels = json!({"app": name});
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    }))
    .expect("a valid Deployment")
}

fn pod_conditions(pod: &Pod) -> BTreeMap<String, String> {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|s| s.conditions.clone())
        .unwrap_or_default();
    conditions.into_iter().map(|c| (c.type_, c.status)).collect()
}

#[test]
fn every_cluster_answers_and_its_nodes_are_ready() {
    scenario("answers", |ctx| async move {
        for cluster in ctx.fleet().clusters() {
            let client = ctx.client(&cluster.name).await?;
            let version = client.apiserver_version().await?;
            ensure!(version.minor == "36", "{} is {}", cluster.name, version.git_version);
            let nodes = Api::<Node>::all(client).list(&ListParams::default()).await?;
            ensure!(!nodes.items.is_empty(), "{} has no nodes", cluster.name);
            for node in nodes {
                let ready = node.status.clone().unwrap_or_default().conditions.unwrap_or_default();
                ensure!(
                    ready.iter().any(|c| c.type_ == "Ready" && c.status == "True"),
                    "{} not Ready",
                    node.name_any()
                );
            }
        }
        Ok(())
    });
}

#[test]
fn a_deployment_becomes_available() {
    scenario("deployment", |ctx| async move {
        let namespace = ctx.namespace("member-1").await?;
        ctx.create_in("member-1", &namespace, deployment("web", "nginx"))
            .await?;
        let api: Api<Deployment> = Api::namespaced(ctx.client("member-1").await?, &namespace);
        wait::until_present(api, "web", "2 available replicas", |d| {
            d.status.as_ref().and_then(|s| s.available_replicas) == Some(2)
        })
        .await?;
        Ok(())
    });
}

#[test]
fn an_image_that_asks_for_it_never_becomes_ready() {
    scenario("never-ready", |ctx| async move {
        let namespace = ctx.namespace("member-1").await?;
        ctx.create_in("member-1", &namespace, deployment("web", "example.com/never-ready:v1"))
            .await?;
        let api: Api<Pod> = Api::namespaced(ctx.client("member-1").await?, &namespace);
        let pods = wait::until_list(api, "2 running pods", |pods: &[Pod]| {
            let running = pods
                .iter()
                .filter(|p| p.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Running")));
            running.count() == 2
        })
        .await?;
        for pod in pods {
            ensure!(
                pod_conditions(&pod).get("Ready").is_some_and(|s| s == "False"),
                "{} is ready",
                pod.name_any()
            );
        }
        Ok(())
    });
}

#[test]
fn a_claim_is_bound() {
    scenario("claim", |ctx| async move {
        let namespace = ctx.namespace("member-1").await?;
        let claim: PersistentVolumeClaim = serde_json::from_value(json!({
            "metadata": {"name": "data"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }))?;
        ctx.create_in("member-1", &namespace, claim).await?;
        let api: Api<PersistentVolumeClaim> = Api::namespaced(ctx.client("member-1").await?, &namespace);
        wait::until_present(api, "data", "Bound", |c| {
            c.status.as_ref().is_some_and(|s| s.phase.as_deref() == Some("Bound"))
        })
        .await?;
        Ok(())
    });
}

/// A client that acts as a ServiceAccount.
async fn as_service_account(ctx: &Ctx, cluster: &str, namespace: &str, name: &str) -> Result<Client> {
    let accounts: Api<ServiceAccount> = Api::namespaced(ctx.client(cluster).await?, namespace);
    let request = serde_json::from_value::<TokenRequest>(json!({"spec": {"audiences": []}}))?;
    let token = accounts
        .create_token_request(name, &PostParams::default(), &request)
        .await?;
    let token = token.status.map(|s| s.token).unwrap_or_default();
    let context = &ctx.fleet().cluster(cluster)?.context;
    let options = kube::config::KubeConfigOptions {
        context: Some(context.clone()),
        ..Default::default()
    };
    let mut config = Config::from_custom_kubeconfig(ctx.fleet().kubeconfig()?, &options).await?;
    config.auth_info = kube::config::AuthInfo {
        token: Some(token.into()),
        ..Default::default()
    };
    Ok(Client::try_from(config)?)
}

#[test]
fn a_service_account_may_do_what_its_role_says_and_nothing_else() {
    scenario("rbac", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "reader"}}))?;
        ctx.create_in("hub", &namespace, account).await?;
        let role: Role = serde_json::from_value(json!({
            "metadata": {"name": "read"},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
        }))?;
        ctx.create_in("hub", &namespace, role).await?;
        let binding: RoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "read"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "read"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": namespace}],
        }))?;
        ctx.create_in("hub", &namespace, binding).await?;

        let reader = as_service_account(&ctx, "hub", &namespace, "reader").await?;
        Api::<ConfigMap>::namespaced(reader.clone(), &namespace)
            .list(&ListParams::default())
            .await?;
        let refused = Api::<Pod>::namespaced(reader, &namespace)
            .list(&ListParams::default())
            .await;
        let status = match refused {
            Err(kube::Error::Api(status)) => status,
            other => anyhow::bail!("listing pods should be forbidden: {other:?}"),
        };
        ensure!(status.code == 403, "{status:?}");
        Ok(())
    });
}

#[test]
fn kubectl_prints_what_a_user_sees() {
    scenario("kubectl", |ctx| async move {
        let nodes = ctx.kubectl("member-1")?.ok(&["get", "nodes"]).await?;
        ensure!(nodes.starts_with("NAME") && nodes.contains("Ready"), "{nodes}");
        let complaint = ctx.kubectl("hub")?.fails(&["get", "nonsense"]).await?;
        ensure!(complaint.contains("doesn't have a resource type"), "{complaint}");
        Ok(())
    });
}

#[test]
fn a_member_can_be_added_to_a_running_fleet() {
    scenario("added", |ctx| async move {
        let mut fleet = ctx.fleet().clone();
        let mut spec = ClusterSpec::member(ctx.prefix(), 2);
        spec.nodes.cpu = "3".into();
        spec.nodes.labels.insert("zone".into(), "east".into());
        fleet.add_member(spec.clone()).await?;

        let client = fleet.client(&spec.name).await?;
        let nodes = Api::<Node>::all(client)
            .list(&ListParams::default().labels("zone=east"))
            .await?;
        ensure!(nodes.items.len() == 2, "{} nodes", nodes.items.len());
        let capacity = nodes.items[0]
            .status
            .clone()
            .unwrap_or_default()
            .capacity
            .unwrap_or_default();
        ensure!(capacity["cpu"].0 == "3", "{capacity:?}");
        let again = fleet.add_member(spec).await;
        ensure!(
            again.is_err_and(|e| e.to_string().contains("already")),
            "the same name twice should be refused"
        );

        fleet.remove_member(ctx.prefix()).await?;
        ensure!(fleet.cluster(ctx.prefix()).is_err(), "a removed member is still there");
        Ok(())
    });
}

#[test]
fn a_component_can_be_restarted_killed_and_paused() {
    scenario("restart", |ctx| async move {
        // The last member, which the other scenarios leave alone.
        let cluster = ctx
            .fleet()
            .clusters()
            .last()
            .map(|c| c.name.clone())
            .unwrap_or_default();
        let namespace = ctx.namespace(&cluster).await?;
        let fleet = ctx.fleet();
        let apiserver = format!("{cluster}/kube-apiserver");

        fleet.restart(&apiserver).await?;
        fleet.kill(&apiserver).await?;
        ensure!(!fleet.is_ready(&cluster).await, "a killed API server answers");
        fleet.start_again(&apiserver).await?;
        fleet.pause(&apiserver).await?;
        let state = fleet
            .status()
            .await?
            .into_iter()
            .find(|p| p.name == apiserver)
            .map(|p| p.state);
        ensure!(matches!(state, Some(process::State::Paused { .. })), "{state:?}");
        fleet.resume(&apiserver).await?;

        // What was written is still there, and controllers found their way back.
        ctx.create_in(&cluster, &namespace, deployment("web", "nginx")).await?;
        let api: Api<Deployment> = Api::namespaced(ctx.client(&cluster).await?, &namespace);
        wait::until_present(api, "web", "2 available replicas", |d| {
            d.status.as_ref().and_then(|s| s.available_replicas) == Some(2)
        })
        .await?;
        ensure!(fleet.is_ready(&cluster).await, "it does not answer");
        Ok(())
    });
}
