//! Label keys and values.

/// On every snapshot, binding and Work: the name of the placement it belongs to, without namespace, for both scopes.
/// Written by the placement controller, the scheduler and the work generator.
pub const PARENT_PLACEMENT: &str = "kubernetes-fleet.io/parent-CRP";
/// On policy snapshots, master resource snapshots and override snapshots: `"true"` on the current one, `"false"` on
/// older ones. Written by the controller that makes the snapshot.
pub const IS_LATEST_SNAPSHOT: &str = "kubernetes-fleet.io/is-latest-snapshot";
/// On policy snapshots: their index, decimal, from 0. Written by the placement controller.
pub const POLICY_INDEX: &str = "kubernetes-fleet.io/policy-index";
/// On all resource snapshots of a group: the group's index, decimal, from 0. Written by the placement controller or an
/// update run.
pub const RESOURCE_INDEX: &str = "kubernetes-fleet.io/resource-index";

/// On override snapshots: the override's name. Written by the override controller.
pub const PARENT_OVERRIDE: &str = "kubernetes-fleet.io/parent-resource-override";
/// On override snapshots: their index, decimal, from 0. Written by the override controller.
pub const OVERRIDE_INDEX: &str = "kubernetes-fleet.io/override-index";

/// On Works: the binding's name. Written by the work generator.
pub const PARENT_BINDING: &str = "kubernetes-fleet.io/parent-resource-binding";
/// On Works: the `RESOURCE_INDEX` of the snapshot they were made from. Written by the work generator.
pub const PARENT_RESOURCE_SNAPSHOT_INDEX: &str = "kubernetes-fleet.io/parent-resource-snapshot-index";
/// On Works of a ResourceBinding only: its namespace. Written by the work generator.
pub const PARENT_PLACEMENT_NAMESPACE: &str = "kubernetes-fleet.io/parent-placement-namespace";
/// On envelope Works: the envelope's type. Written by the work generator.
pub const ENVELOPE_TYPE: &str = "kubernetes-fleet.io/envelope-work";
/// On envelope Works: the envelope's name. Written by the work generator.
pub const ENVELOPE_NAME: &str = "kubernetes-fleet.io/envelope-name";
/// On Works of a ResourceEnvelope: its namespace. Written by the work generator.
pub const ENVELOPE_NAMESPACE: &str = "kubernetes-fleet.io/envelope-namespace";

/// On approval requests: the run that waits for them. Written by the update run controller.
pub const TARGET_UPDATE_RUN: &str = "kubernetes-fleet.io/targetUpdateRun";
/// On approval requests: the stage that waits for them. Written by the update run controller.
pub const TARGET_UPDATING_STAGE: &str = "kubernetes-fleet.io/targetUpdatingStage";
/// On approval requests: always `"true"`. Written by the update run controller.
pub const IS_LATEST_UPDATE_RUN_APPROVAL: &str = "kubernetes-fleet.io/isLatestUpdateRunApproval";
/// On approval requests: `BEFORE_STAGE` or `AFTER_STAGE`. Written by the update run controller.
pub const TASK_TYPE: &str = "kubernetes-fleet.io/taskType";
/// Value of `TASK_TYPE`: the stage may not start without this approval.
pub const BEFORE_STAGE: &str = "beforeStage";
/// Value of `TASK_TYPE`: the stage may not end without this approval.
pub const AFTER_STAGE: &str = "afterStage";

/// On member namespaces: `"true"`; the guard rails select by it. Written by the membership controller.
pub const IS_FLEET_RESOURCE: &str = "kubernetes-fleet.io/is-fleet-resource";
/// On every MemberCluster: its own name, so that selectors can name a cluster. Written by the membership controller.
pub const MEMBER_NAME: &str = "kubernetes-fleet.io/member-name";
/// On MemberClusters: the Azure location. Written by the managed control plane; we only fill it in when absent.
pub const AZURE_LOCATION: &str = "fleet.azure.com/location";
/// On MemberClusters: the Azure resource group. Written by the managed control plane; we only fill it in when absent.
pub const AZURE_RESOURCE_GROUP: &str = "fleet.azure.com/resource-group";
/// On MemberClusters: the Azure subscription. Written by the managed control plane; we only fill it in when absent.
pub const AZURE_SUBSCRIPTION_ID: &str = "fleet.azure.com/subscription-id";
/// The labels that a member may ask the hub to fill in: labels decide scheduling, so nothing beyond these three.
pub const REPORTED_BY_MEMBERS: [&str; 3] = [AZURE_LOCATION, AZURE_RESOURCE_GROUP, AZURE_SUBSCRIPTION_ID];

/// On EndpointSlices made by a controller; such slices are never selected. Written by Kubernetes.
pub const ENDPOINT_SLICE_MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";

/// The value of a label that is on.
pub const TRUE: &str = "true";
/// The value of a label that is off.
pub const FALSE: &str = "false";

/// Reads a flag label as Go's `strconv.ParseBool` does, since both eras of agents write it; none if it is no boolean.
pub fn parse_bool(value: &str) -> Option<bool> {
    match value {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Some(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::parse_bool;

    #[test]
    fn flags_are_read_as_upstream_reads_them() {
        for (value, flag) in [
            ("true", Some(true)),
            ("T", Some(true)),
            ("0", Some(false)),
            ("maybe", None),
            ("", None),
        ] {
            assert_eq!(parse_bool(value), flag, "{value}");
        }
    }
}
