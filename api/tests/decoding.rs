//! What the types make of input: defaults, nulls, words and fields of the future.

use fleet_api::cluster::{AgentType, InternalMemberCluster, MemberCluster, TaintEffect};
use fleet_api::placement::{
    ApplyStrategyType, ClusterResourceOverride, ClusterResourcePlacement, ClusterStagedUpdateRun,
    ClusterStagedUpdateStrategy, EnvelopeType, PlacementType, RolloutStrategyType, SelectionScope,
    StatusReportingScope, UpdateRunState, Work,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn decode<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("it decodes")
}

fn encode<K: Serialize>(object: &K) -> Value {
    serde_json::to_value(object).expect("it encodes")
}

#[test]
fn an_absent_field_and_null_mean_the_default() {
    let selector = json!({ "group": "", "version": "v1", "kind": "Namespace", "name": "web" });
    let absent = json!({
        "metadata": { "name": "web" },
        "spec": { "resourceSelectors": [selector], "policy": {}, "strategy": { "rollingUpdate": {}, "applyStrategy": {} } },
    });
    let null = json!({
        "metadata": { "name": "web", "creationTimestamp": null, "labels": null },
        "spec": {
            "resourceSelectors": [{
                "group": "", "version": "v1", "kind": "Namespace", "name": "web", "labelSelector": null, "selectionScope": null,
            }],
            "policy": { "placementType": null, "clusterNames": null, "numberOfClusters": null, "affinity": null, "tolerations": null },
            "strategy": {
                "type": null,
                "rollingUpdate": { "maxUnavailable": null, "maxSurge": null, "unavailablePeriodSeconds": null },
                "applyStrategy": { "type": null, "whenToApply": null, "allowCoOwnership": null, "serverSideApplyConfig": null },
            },
            "revisionHistoryLimit": null,
            "statusReportingScope": null,
        },
        "status": null,
    });
    let [absent, null]: [ClusterResourcePlacement; 2] = [decode(absent), decode(null)];
    assert_eq!(absent, null);
    let spec = absent.spec;
    assert_eq!(
        spec.resource_selectors[0].selection_scope,
        SelectionScope::NamespaceWithResources
    );
    assert_eq!(spec.placement_type(), PlacementType::PickAll);
    assert_eq!(spec.rollout_type(), RolloutStrategyType::RollingUpdate);
    assert_eq!(spec.revision_history_limit, 10);
    assert_eq!(spec.status_reporting_scope, StatusReportingScope::ClusterScopeOnly);
    let strategy = spec.strategy.unwrap();
    assert_eq!(
        strategy.rolling_update,
        Some(fleet_api::placement::RollingUpdate::default())
    );
    assert_eq!(
        strategy.rolling_update.unwrap().max_surge,
        IntOrString::String("25%".into())
    );
    assert_eq!(
        strategy.apply_strategy.unwrap().type_,
        ApplyStrategyType::ClientSideApply
    );
}

#[test]
fn other_defaults() {
    let run: ClusterStagedUpdateRun =
        decode(json!({ "spec": { "placementName": "web", "stagedRolloutStrategyName": "canary-first" } }));
    assert_eq!(run.spec.state, UpdateRunState::Initialize);
    let strategy: ClusterStagedUpdateStrategy = decode(json!({ "spec": { "stages": [{ "name": "one" }] } }));
    assert_eq!(strategy.spec.stages[0].max_concurrency, IntOrString::Int(1));
    let cluster: MemberCluster = decode(json!({ "spec": { "identity": { "kind": "User", "name": "a" } } }));
    assert_eq!(cluster.spec.heartbeat_period_seconds, 60);
    let work: Work = decode(json!({ "metadata": { "name": "w" } }));
    assert!(work.spec.workload.manifests.is_empty());
}

#[test]
fn null_times_and_lists_do_not_cost_the_object() {
    let work: Work = decode(json!({
        "metadata": { "name": "w" },
        "spec": { "workload": null },
        "status": {
            "conditions": [{ "type": "Applied", "status": "True", "lastTransitionTime": null, "reason": null }, { "type": "Available" }],
            "manifestConditions": [{
                "identifier": { "ordinal": 0, "group": null },
                "conditions": null,
                "driftDetails": {
                    "observationTime": null, "observedInMemberClusterGeneration": 1, "firstDriftedObservedTime": null,
                    "observedDrifts": null,
                },
                "backReportedStatus": { "observedStatus": null },
            }],
        },
    }));
    let status = work.status.unwrap();
    assert_eq!(status.conditions.len(), 2);
    assert_eq!(status.conditions[1].type_, "Available");
    assert_eq!(
        status.manifest_conditions[0]
            .drift_details
            .as_ref()
            .unwrap()
            .observation_time
            .0
            .as_second(),
        0
    );

    let member: InternalMemberCluster = decode(json!({
        "metadata": { "name": "m" },
        "spec": { "state": "Join", "heartbeatPeriodSeconds": null },
        "status": {
            "conditions": null, "properties": { "a": { "value": "1", "observationTime": null } }, "namespaces": null,
            "resourceUsage": { "capacity": null, "observationTime": null },
            "agentStatus": [{ "type": "MemberAgent", "conditions": null, "lastReceivedHeartbeat": null }],
        },
    }));
    assert_eq!(member.spec.heartbeat_period_seconds, 60);
    assert!(
        member
            .status
            .unwrap()
            .agent(&AgentType::MemberAgent)
            .unwrap()
            .last_received_heartbeat
            .is_none()
    );
}

#[test]
fn open_words_survive_unknown() {
    let cluster: MemberCluster = decode(json!({
        "metadata": {},
        "spec": {
            "identity": { "kind": "User", "name": "a" },
            "heartbeatPeriodSeconds": 60,
            "taints": [{ "key": "k", "effect": "NoExecute" }],
        },
        "status": { "agentStatus": [{ "type": "SomeNewAgent" }] },
    }));
    assert_eq!(cluster.spec.taints[0].effect, TaintEffect::Unknown("NoExecute".into()));
    let again = encode(&cluster);
    assert_eq!(again["spec"]["taints"][0]["effect"], "NoExecute");
    assert_eq!(again["status"]["agentStatus"][0]["type"], "SomeNewAgent");
    assert_eq!(EnvelopeType::from("Parcel").as_str(), "Parcel");
    assert_eq!(EnvelopeType::from("ResourceEnvelope"), EnvelopeType::ResourceEnvelope);
    assert_eq!(EnvelopeType::default(), EnvelopeType::ConfigMap);
}

#[test]
fn closed_words_refuse_unknown() {
    let odd = json!({ "spec": { "resourceSelectors": [], "policy": { "placementType": "PickSome" } } });
    let error = serde_json::from_value::<ClusterResourcePlacement>(odd)
        .unwrap_err()
        .to_string();
    assert!(error.contains("PickSome"), "{error}");
}

#[test]
fn a_null_in_a_json_patch_is_a_value() {
    let rules = json!([{
        "clusterSelector": { "clusterSelectorTerms": [] },
        "overrideType": "JSONPatch",
        "jsonPatchOverrides": [
            { "op": "replace", "path": "/a", "value": null },
            { "op": "remove", "path": "/b" },
        ],
    }]);
    let written = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1",
        "kind": "ClusterResourceOverride",
        "metadata": {},
        "spec": { "clusterResourceSelectors": [], "policy": { "overrideRules": rules } },
    });
    let object: ClusterResourceOverride = decode(written.clone());
    let patches = &object.spec.policy.override_rules[0].json_patch_overrides;
    assert_eq!(patches[0].value.as_ref().unwrap().as_str(), "null");
    assert!(patches[1].value.is_none());
    assert_eq!(encode(&object), written);
}

#[test]
fn manifests_stay_the_text_that_they_were() {
    let manifest = r#"{"kind": "ConfigMap",  "apiVersion": "v1", "data": {"z": "1", "a": null}}"#;
    let text = format!(r#"{{"metadata":{{"name":"w"}},"spec":{{"workload":{{"manifests":[{manifest}]}}}}}}"#);
    let work: Work = serde_json::from_str(&text).unwrap();
    assert_eq!(work.spec.workload.manifests[0].as_str(), manifest);
    assert!(serde_json::to_string(&work).unwrap().contains(manifest));
}

#[test]
fn what_is_absent_is_not_written() {
    let work: Work = decode(json!({ "metadata": { "name": "w" } }));
    assert_eq!(
        encode(&work),
        json!({ "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "Work", "metadata": { "name": "w" }, "spec": {} })
    );
}
