//! What every cluster has besides its control plane: nodes for kwok to play, and a StorageClass so that claims bind.

use anyhow::{Context as _, Result};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::{Node, ServiceAccount};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use super::components::NODE_ANNOTATION;
use super::spec::ClusterSpec;
use crate::binaries::versions::KUBERNETES;
use crate::wait;

/// The name under which the launcher owns fields.
pub const FIELD_MANAGER: &str = "fleet-local";

/// Makes the nodes and the StorageClass; kwok turns the nodes ready when it runs.
pub async fn create(client: &Client, spec: &ClusterSpec) -> Result<()> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let nodes: Api<Node> = Api::all(client.clone());
    try_join_all((1..=spec.nodes.count).map(|n| {
        let (nodes, params, node) = (nodes.clone(), params.clone(), node(spec, n));
        async move { nodes.patch(&node_name(spec, n), &params, &Patch::Apply(node)).await }
    }))
    .await
    .context("cannot create the nodes")?;
    try_join_all((1..=spec.nodes.count).map(|n| {
        let (nodes, params, node) = (nodes.clone(), params.clone(), node(spec, n));
        async move {
            nodes
                .patch_status(&node_name(spec, n), &params, &Patch::Apply(node))
                .await
        }
    }))
    .await
    .context("cannot set the size of the nodes")?;

    let class = json!({
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "standard", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "kwok.x-k8s.io/volume",
        "reclaimPolicy": "Delete",
        "volumeBindingMode": "Immediate",
    });
    let classes: Api<StorageClass> = Api::all(client.clone());
    classes
        .patch("standard", &params, &Patch::Apply(class))
        .await
        .context("cannot create the StorageClass")?;
    Ok(())
}

/// Waits until all nodes are Ready and the default namespace can run pods.
pub async fn ready(client: &Client, spec: &ClusterSpec) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    let wanted = (1..=spec.nodes.count).map(|n| node_name(spec, n)).collect::<Vec<_>>();
    wait::until_list(nodes, &format!("nodes of {} Ready", spec.name), |nodes: &[Node]| {
        wanted
            .iter()
            .all(|name| nodes.iter().any(|node| node.name_any() == *name && is_ready(node)))
    })
    .await?;
    // Pods are refused in a namespace without it; the controller manager makes it when it is ready to act.
    let accounts: Api<ServiceAccount> = Api::default_namespaced(client.clone());
    wait::until_present(accounts, "default", "exists", |_| true).await?;
    Ok(())
}

fn is_ready(node: &Node) -> bool {
    let conditions = node
        .status
        .as_ref()
        .and_then(|s| s.conditions.as_deref())
        .unwrap_or_default();
    conditions.iter().any(|c| c.type_ == "Ready" && c.status == "True")
}

fn node_name(spec: &ClusterSpec, n: u32) -> String {
    format!("{}-node-{n}", spec.name)
}

fn node(spec: &ClusterSpec, n: u32) -> Value {
    let name = node_name(spec, n);
    let size = json!({"cpu": spec.nodes.cpu, "memory": spec.nodes.memory, "pods": spec.nodes.pods.to_string()});
    let mut node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {NODE_ANNOTATION.0: NODE_ANNOTATION.1},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
        },
        "status": {
            "allocatable": size,
            "capacity": size,
            "nodeInfo": {
                "kubeletVersion": format!("v{KUBERNETES}"), "architecture": "amd64", "operatingSystem": "linux",
                "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
                "machineID": "", "osImage": "", "systemUUID": "",
            },
        },
    });
    for (key, value) in &spec.nodes.labels {
        node["metadata"]["labels"][key] = json!(value);
    }
    node
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_the_size_and_labels_of_the_spec() {
        let mut spec = ClusterSpec::member("east", 1);
        spec.nodes.cpu = "4".into();
        spec.nodes.labels.insert("zone".into(), "a".into());
        let node: Node = serde_json::from_value(node(&spec, 1)).unwrap();
        assert_eq!(node.name_any(), "east-node-1");
        assert_eq!(node.labels()["zone"], "a");
        assert_eq!(node.annotations()["kwok.x-k8s.io/node"], "fake");
        assert_eq!(node.status.unwrap().capacity.unwrap()["cpu"].0, "4");
    }
}
