//! The order of selected objects. It does not govern the order of applying; changing it would make new snapshots.

use super::ObjectId;

/// Kinds that come first, in this order, whatever their group.
const KNOWN: [&str; 32] = [
    "PriorityClass",
    "Namespace",
    "NetworkPolicy",
    "ResourceQuota",
    "LimitRange",
    "PodDisruptionBudget",
    "ServiceAccount",
    "Secret",
    "ConfigMap",
    "StorageClass",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "Role",
    "RoleBinding",
    "Service",
    "DaemonSet",
    "Pod",
    "ReplicationController",
    "ReplicaSet",
    "Deployment",
    "HorizontalPodAutoscaler",
    "StatefulSet",
    "Job",
    "CronJob",
    "IngressClass",
    "Ingress",
    "APIService",
    "MutatingWebhookConfiguration",
    "ValidatingWebhookConfiguration",
];

/// Sorts objects by kind, version, namespace and name.
pub fn sort(objects: &mut [ObjectId]) {
    objects.sort_by_cached_key(key);
}

fn key(object: &ObjectId) -> (usize, String, String) {
    let rank = KNOWN.iter().position(|kind| *kind == object.kind);
    let version = match rank {
        Some(_) => object.api_version(),
        None => format!("{}/{}, Kind={}", object.group, object.version, object.kind),
    };
    (
        rank.unwrap_or(KNOWN.len()),
        version,
        format!("{}/{}", object.namespace, object.name),
    )
}
