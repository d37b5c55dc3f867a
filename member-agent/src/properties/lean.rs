//! Nodes, pods and namespaces with nothing but what is summed up. A cluster can have tens of thousands of pods, and a
//! whole one is some ten kilobytes.

use fleet_api::{part_of, placement::AppliedWork};
use fleet_core::membership::properties::{Amounts, InitContainer, NodeFacts, PodRequests, Quantity};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::{Resource as _, core::ObjectMeta};
use serde::{Deserialize, Deserializer, de::IgnoredAny};

/// What counts of a node.
#[derive(Debug, Clone)]
pub(super) struct LeanNode {
    meta: ObjectMeta,
    pub(super) facts: NodeFacts,
    pub(super) region: Option<Box<str>>,
}

/// What counts of a pod.
#[derive(Debug, Clone)]
pub(super) struct LeanPod {
    meta: ObjectMeta,
    /// None if it occupies nothing: not on a node, or finished.
    pub(super) occupies: Option<Amounts>,
}

/// What counts of a namespace.
#[derive(Debug, Clone)]
pub(super) struct LeanNamespace {
    meta: ObjectMeta,
    /// The AppliedWork that owns it, or nothing.
    pub(super) owner: Box<str>,
    pub(super) terminating: bool,
}

part_of!(LeanNode, Node, meta);
part_of!(LeanPod, Pod, meta);
part_of!(LeanNamespace, Namespace, meta);

/// As it comes from the API server; what is not named here is skipped without being stored.
#[derive(Deserialize)]
struct Wire<S, T> {
    metadata: Meta,
    spec: Option<S>,
    status: Option<T>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    resource_version: Option<String>,
    labels: Option<Labels>,
    owner_references: Option<Vec<Owner>>,
    deletion_timestamp: Option<IgnoredAny>,
}

#[derive(Deserialize)]
struct Labels {
    #[serde(rename = "beta.kubernetes.io/instance-type")]
    sku: Option<String>,
    /// On clusters that have dropped the old name.
    #[serde(rename = "node.kubernetes.io/instance-type")]
    new_sku: Option<String>,
    #[serde(rename = "topology.kubernetes.io/region")]
    region: Option<Box<str>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: String,
    kind: String,
    name: Box<str>,
}

#[derive(Deserialize, Default)]
struct List {
    cpu: Option<String>,
    memory: Option<String>,
}

#[derive(Deserialize)]
struct NodeStatus {
    capacity: Option<List>,
    allocatable: Option<List>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    containers: Option<Vec<Container>>,
    init_containers: Option<Vec<Container>>,
    overhead: Option<List>,
    resources: Option<Resources>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Container {
    resources: Option<Resources>,
    restart_policy: Option<String>,
}

#[derive(Deserialize)]
struct Resources {
    requests: Option<List>,
}

#[derive(Deserialize)]
struct Phase {
    phase: Option<String>,
}

impl Meta {
    fn lean(self) -> ObjectMeta {
        ObjectMeta {
            name: self.name,
            namespace: self.namespace,
            uid: self.uid,
            resource_version: self.resource_version,
            ..ObjectMeta::default()
        }
    }
}

impl List {
    fn amounts(&self) -> Amounts {
        // The API server has checked them; what it let through all the same counts as nothing.
        let read = |text: &Option<String>| text.as_ref().and_then(|t| t.parse().ok()).unwrap_or(Quantity::ZERO);
        Amounts {
            cpu: read(&self.cpu),
            memory: read(&self.memory),
        }
    }
}

impl Container {
    fn requests(&self) -> Amounts {
        let requests = self.resources.as_ref().and_then(|r| r.requests.as_ref());
        requests.map_or(Amounts::ZERO, List::amounts)
    }
}

impl PodSpec {
    fn total(&self) -> Amounts {
        let whole = self.resources.as_ref().and_then(|r| r.requests.as_ref());
        let init = |c: &Container| InitContainer {
            requests: c.requests(),
            sidecar: c.restart_policy.as_deref() == Some("Always"),
        };
        PodRequests {
            containers: self.containers.iter().flatten().map(Container::requests).collect(),
            init_containers: self.init_containers.iter().flatten().map(init).collect(),
            overhead: self.overhead.as_ref().map_or(Amounts::ZERO, List::amounts),
            pod_cpu: whole.filter(|r| r.cpu.is_some()).map(|r| r.amounts().cpu),
            pod_memory: whole.filter(|r| r.memory.is_some()).map(|r| r.amounts().memory),
        }
        .total()
    }
}

impl<'de> Deserialize<'de> for LeanNode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut wire = Wire::<IgnoredAny, NodeStatus>::deserialize(deserializer)?;
        let labels = wire.metadata.labels.take();
        let (sku, region) = labels.map_or((None, None), |l| (l.sku.or(l.new_sku), l.region));
        let sums = |pick: fn(&NodeStatus) -> &Option<List>| {
            let list = wire.status.as_ref().and_then(|status| pick(status).as_ref());
            list.map_or(Amounts::ZERO, List::amounts)
        };
        let facts = NodeFacts {
            capacity: sums(|s| &s.capacity),
            allocatable: sums(|s| &s.allocatable),
            sku: sku.unwrap_or_default(),
        };
        Ok(Self {
            meta: wire.metadata.lean(),
            facts,
            region: region.filter(|region| !region.is_empty()),
        })
    }
}

impl<'de> Deserialize<'de> for LeanPod {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wire::<PodSpec, Phase>::deserialize(deserializer)?;
        let phase = wire.status.and_then(|status| status.phase);
        let finished = matches!(phase.as_deref(), Some("Succeeded" | "Failed"));
        let placed = wire
            .spec
            .filter(|spec| !finished && spec.node_name.as_ref().is_some_and(|node| !node.is_empty()));
        Ok(Self {
            meta: wire.metadata.lean(),
            occupies: placed.map(|spec| spec.total()),
        })
    }
}

impl<'de> Deserialize<'de> for LeanNamespace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut wire = Wire::<IgnoredAny, Phase>::deserialize(deserializer)?;
        let phase = wire.status.and_then(|status| status.phase);
        let terminating = wire.metadata.deletion_timestamp.is_some() || phase.as_deref() == Some("Terminating");
        let api_version = AppliedWork::api_version(&());
        let owner = wire.metadata.owner_references.take().into_iter().flatten();
        let owner = owner
            .filter(|owner| owner.api_version == api_version && owner.kind == "AppliedWork")
            .map(|owner| owner.name)
            .next();
        Ok(Self {
            meta: wire.metadata.lean(),
            owner: owner.unwrap_or_default(),
            terminating,
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_is_what_it_has() {
        let node: LeanNode = serde_json::from_value(json!({
            "metadata": { "name": "n", "resourceVersion": "7", "labels": { "node.kubernetes.io/instance-type": "D4", "x": "y" },
                          "managedFields": [{ "manager": "kubelet" }] },
            "spec": { "unschedulable": true },
            "status": { "capacity": { "cpu": "4", "memory": "16Gi", "pods": "110" }, "allocatable": { "cpu": "3860m" } },
        }))
        .unwrap();
        assert_eq!((node.name_any().as_str(), node.facts.sku.as_str()), ("n", "D4"));
        assert_eq!(node.facts.capacity.memory.to_string(), "16Gi");
        assert_eq!(node.facts.allocatable.cpu.to_string(), "3860m");
        assert!(node.managed_fields().is_empty() && node.labels().is_empty());
        let bare: LeanNode = serde_json::from_value(json!({ "metadata": { "name": "n" } })).unwrap();
        assert_eq!(bare.facts, NodeFacts::default());
    }

    #[test]
    fn a_pod_counts_while_it_is_on_a_node() {
        let pod = |node: &str, phase: &str| -> Option<String> {
            let pod: LeanPod = serde_json::from_value(json!({
                "metadata": { "name": "p", "namespace": "d", "uid": "u" },
                "spec": {
                    "nodeName": node,
                    "containers": [{ "name": "a", "resources": { "requests": { "cpu": "100m", "memory": "1Mi" } } }, {}],
                    "initContainers": [{ "restartPolicy": "Always", "resources": { "requests": { "cpu": "50m" } } }],
                    "overhead": { "cpu": "1m" },
                },
                "status": { "phase": phase },
            }))
            .unwrap();
            pod.occupies.map(|amounts| amounts.cpu.to_string())
        };
        assert_eq!(pod("n", "Running").as_deref(), Some("151m"));
        assert_eq!(pod("n", "Succeeded"), None);
        assert_eq!(pod("n", "Failed"), None);
        assert_eq!(pod("", "Pending"), None);
        let odd: LeanPod = serde_json::from_value(json!({
            "metadata": {}, "spec": { "nodeName": "n", "containers": null }, "status": null }))
        .unwrap();
        assert_eq!(odd.occupies, Some(Amounts::ZERO));
    }

    #[test]
    fn a_namespace_knows_the_applied_work_that_owns_it() {
        let namespace: LeanNamespace = serde_json::from_value(json!({
            "metadata": { "name": "n", "ownerReferences": [
                { "apiVersion": "v1", "kind": "AppliedWork", "name": "no", "uid": "1" },
                { "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": "w", "uid": "2" },
            ] },
            "status": { "phase": "Active" },
        }))
        .unwrap();
        assert_eq!((&*namespace.owner, namespace.terminating), ("w", false));
        let going: LeanNamespace = serde_json::from_value(json!({
            "metadata": { "name": "n", "deletionTimestamp": "2026-01-01T00:00:00Z" } }))
        .unwrap();
        assert_eq!((&*going.owner, going.terminating), ("", true));
    }
}
