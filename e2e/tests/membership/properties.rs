//! What a real cluster says about itself.

use anyhow::{Context as _, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::agents;
use fleet_e2e::harness::scenario;
use fleet_e2e::members::{Member, of};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::{Node, Pod, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, ListParams};
use serde_json::json;

fn property<'a>(mc: &'a MemberCluster, name: &str) -> Option<&'a str> {
    let status = mc.status.as_ref()?;
    status.properties.get(name).map(|p| p.value.as_str())
}

fn available_millis(mc: &MemberCluster) -> Option<i64> {
    let usage = mc.status.as_ref()?.resource_usage.as_ref()?;
    let text = &usage.available.get("cpu")?.0;
    match text.strip_suffix('m') {
        Some(millis) => millis.parse().ok(),
        None => Some(text.parse::<i64>().ok()? * 1000),
    }
}

#[test]
fn nodes_version_and_usage_of_a_cluster_without_a_provider_are_reported() {
    scenario("properties", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-3").await?;
        let client = ctx.client("member-3").await?;
        let version = client.apiserver_version().await?.git_version;
        let mc = member
            .until("properties", |mc| {
                property(mc, "kubernetes-fleet.io/node-count").is_some()
            })
            .await?;
        ensure!(property(&mc, "k8s.io/k8s-version") == Some(version.as_str()), "{mc:?}");
        ensure!(
            property(&mc, "k8s.io/cluster-certificate-authority-data").is_some_and(|v| v.contains("BEGIN CERTIFICATE")),
            "{mc:?}"
        );
        ensure!(
            property(&mc, "k8s.io/cluster-entrypoint").is_some_and(|v| v.starts_with("https://")),
            "{mc:?}"
        );
        ensure!(
            of(&mc, "ClusterPropertyCollectionSucceeded").is_some_and(|c| c.status == "True"),
            "{mc:?}"
        );
        ensure!(
            of(&mc, "ClusterPropertyProviderStarted").is_none(),
            "there is no provider: {mc:?}"
        );

        let nodes = Api::<Node>::all(client.clone());
        let count = nodes.list(&ListParams::default()).await?.items.len();
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": ctx.name("node"), "annotations": {"kwok.x-k8s.io/node": "fake"}},
        }))?;
        ctx.create("member-3", node).await?;
        let more = |mc: &MemberCluster| {
            property(mc, "kubernetes-fleet.io/node-count")
                .and_then(|v| v.parse::<usize>().ok())
                .is_some_and(|n| n > count)
        };
        member.until("one more node", more).await?;
        Ok(())
    });
}

#[test]
fn what_pods_ask_for_is_no_longer_available() {
    scenario("available", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-2").await?;
        let mc = member.until("usage", |mc| available_millis(mc).is_some()).await?;
        let before = available_millis(&mc).context("no usage")?;
        let namespace = ctx.namespace("member-2").await?;
        let container = json!({"name": "main", "image": "nginx", "resources": {"requests": {"cpu": "700m"}}});
        let pod = json!({"metadata": {"name": "eater"}, "spec": {"containers": [container]}});
        ctx.create_in::<Pod>("member-2", &namespace, serde_json::from_value(pod)?)
            .await?;
        let pods = Api::<Pod>::namespaced(ctx.client("member-2").await?, &namespace);
        wait::until_present(pods, "eater", "has a node", |pod| {
            pod.spec.as_ref().is_some_and(|s| s.node_name.is_some())
        })
        .await?;
        // Other scenarios' pods come and go; none of them frees as much.
        member
            .until("less available", |mc| {
                available_millis(mc).is_some_and(|now| now <= before - 500)
            })
            .await?;
        Ok(())
    });
}

#[test]
fn an_unknown_provider_is_as_good_as_none() {
    scenario("provider", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut spec = member.agent("member-1").await?;
        spec.args.retain(|arg| !arg.starts_with("--property-provider"));
        spec.args.push("--property-provider=acme".to_owned());
        ctx.start_process(spec).await?;
        let mc = member
            .until("properties", |mc| {
                property(mc, "kubernetes-fleet.io/node-count").is_some()
            })
            .await?;
        ensure!(of(&mc, "ClusterPropertyProviderStarted").is_none(), "{mc:?}");
        Ok(())
    });
}

#[test]
fn a_provider_that_hangs_is_said_to_and_recovers() {
    scenario("azure", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut spec = member.agent("member-1").await?;
        spec.args
            .retain(|arg| !arg.starts_with("--property-provider") && !arg.starts_with("--enable-namespace"));
        spec.args.extend(
            [
                "--property-provider=azure",
                "--region=eastus",
                "--enable-namespace-collection-in-property-provider=true",
            ]
            .map(str::to_owned),
        );
        // An account that may read everything the provider needs but the list of namespaces, which therefore never arrives.
        let name = ctx.name("restricted");
        let read = ["get", "list", "watch"];
        let grant = |name: &str, resources: &[&str]| {
            let rules = json!([
                {"apiGroups": [""], "resources": resources, "verbs": read},
                // Its uid tells clusters apart.
                {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": ["kube-system"], "verbs": ["get"]},
                {"apiGroups": ["placement.kubernetes-fleet.io"], "resources": ["appliedworks"], "verbs": read},
                {"nonResourceURLs": ["/version", "/readyz", "/healthz"], "verbs": ["get"]},
            ]);
            let subject =
                json!({"kind": "ServiceAccount", "name": ctx.name("restricted"), "namespace": agents::NAMESPACE});
            let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name});
            let role = json!({"metadata": {"name": name}, "rules": rules});
            let binding = json!({"metadata": {"name": name}, "roleRef": role_ref, "subjects": [subject]});
            anyhow::Ok((
                serde_json::from_value::<ClusterRole>(role)?,
                serde_json::from_value::<ClusterRoleBinding>(binding)?,
            ))
        };
        let account = serde_json::from_value::<ServiceAccount>(json!({"metadata": {"name": name}}))?;
        ctx.create_in("member-1", agents::NAMESPACE, account).await?;
        let (role, binding) = grant(&name, &["nodes", "pods"])?;
        ctx.create("member-1", role).await?;
        ctx.create("member-1", binding).await?;
        let kubeconfig = agents::kubeconfig_of(ctx.fleet(), "member-1", &name, &name).await?;
        spec.args.retain(|arg| !arg.starts_with("--kubeconfig"));
        spec.args.push(format!("--kubeconfig={}", kubeconfig.display()));
        ctx.start_process(spec).await?;
        member.until_condition("ClusterPropertyProviderStarted", "True").await?;
        let mc = member
            .until_condition("ClusterPropertyCollectionSucceeded", "False")
            .await?;
        let why = of(&mc, "ClusterPropertyCollectionSucceeded").map(|c| c.message.as_str());
        ensure!(
            why.is_some_and(|why| why.contains("may not list and watch namespaces of this cluster (Forbidden)")),
            "the missing right is not named: {why:?}"
        );
        member.next_beat().await?;
        let (role, binding) = grant(&ctx.name("namespaces"), &["namespaces"])?;
        ctx.create("member-1", role).await?;
        ctx.create("member-1", binding).await?;
        member
            .until_condition("ClusterPropertyCollectionSucceeded", "True")
            .await?;
        let mc = member.until_condition("NamespaceCollectionSucceeded", "True").await?;
        let namespaces = mc.status.map(|s| s.namespaces).unwrap_or_default();
        ensure!(
            namespaces.get("kube-system").is_some_and(String::is_empty),
            "{namespaces:?}"
        );
        // There are no prices here.
        member
            .until_condition("AKSClusterCostPropertiesCollectionSucceeded", "False")
            .await?;
        Ok(())
    });
}
