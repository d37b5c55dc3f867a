//! Every CEL rule: what breaks it is refused with its message. A rule of the CRDs that is missing here fails a test.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use fleet_api::patch;
use fleet_e2e::harness::{Ctx, scenario};
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::kinds::{self, Kind};

/// A new object that breaks a rule: kinds, the spec (or its changes) as a merge patch of the example, the message.
#[expect(clippy::too_many_lines, reason = "one table")]
fn on_create() -> Vec<(&'static [&'static str], Value, &'static str)> {
    const PLACEMENTS: &[&str] = &["clusterresourceplacements", "resourceplacements"];
    const STRATEGIES: &[&str] = &["clusterstagedupdatestrategies", "stagedupdatestrategies"];
    const POLICY_SNAPSHOTS: &[&str] = &["clusterschedulingpolicysnapshots", "schedulingpolicysnapshots"];
    let namespace = |name: &str, scope: &str| json!({"group": "", "version": "v1", "kind": "Namespace", "name": name, "selectionScope": scope});
    let only = "NamespaceWithResourceSelectors";
    let policy = |policy: Value| {
        // null removes what the example has, so that only these fields are left.
        let none = json!({
            "placementType": null, "clusterNames": null, "numberOfClusters": null, "affinity": null,
            "topologySpreadConstraints": null, "tolerations": null,
        });
        json!({ "policy": patch::applied(none, &policy) })
    };
    let stage = |stage: Value| json!({"stages": [patch::applied(json!({"name": "one"}), &stage)]});
    let exists_with_value = json!({"tolerations": [{"operator": "Exists", "key": "a", "value": "b"}]});
    let no_key = json!({"tolerations": [{"operator": "Equal", "value": "b"}]});
    vec![
        (
            PLACEMENTS,
            json!({"statusReportingScope": null, "resourceSelectors": [namespace("a", only), namespace("b", only)]}),
            "only one namespace selector with NamespaceWithResourceSelectors mode is allowed",
        ),
        (
            PLACEMENTS,
            json!({"statusReportingScope": null, "resourceSelectors": [
                {"group": "", "version": "v1", "kind": "Namespace", "labelSelector": {}, "selectionScope": only},
            ]}),
            "namespace selector with NamespaceWithResourceSelectors mode must select by name (not by label)",
        ),
        (
            PLACEMENTS,
            json!({"statusReportingScope": null, "resourceSelectors": [namespace("a", only), namespace("b", "NamespaceOnly")]}),
            "when using NamespaceWithResourceSelectors mode, only one namespace selector is allowed (cannot mix with other namespace selectors)",
        ),
        (
            &["clusterresourceplacements"],
            json!({"statusReportingScope": "NamespaceAccessible", "resourceSelectors": [
                {"group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "web"},
            ]}),
            "when statusReportingScope is NamespaceAccessible, exactly one resourceSelector with kind 'Namespace' is required",
        ),
        (
            PLACEMENTS,
            policy(json!({"placementType": "PickFixed", "clusterNames": ["a"], "numberOfClusters": 1})),
            "affinity, numberOfClusters, topologySpreadConstraints, and tolerations cannot be set when placementType is PickFixed",
        ),
        (
            PLACEMENTS,
            policy(json!({"placementType": "PickAll", "clusterNames": ["a"]})),
            "clusterNames, numberOfClusters, and topologySpreadConstraints cannot be set when placementType is PickAll",
        ),
        (
            PLACEMENTS,
            policy(json!({"placementType": "PickN"})),
            "clusterNames cannot be set and numberOfClusters must be set when placementType is PickN",
        ),
        (
            PLACEMENTS,
            json!({ "policy": exists_with_value }),
            "value must be empty when operator is Exists",
        ),
        (
            PLACEMENTS,
            json!({ "policy": no_key }),
            "operator must be Exists when key is empty",
        ),
        (
            POLICY_SNAPSHOTS,
            json!({ "policy": exists_with_value }),
            "value must be empty when operator is Exists",
        ),
        (
            POLICY_SNAPSHOTS,
            json!({ "policy": no_key }),
            "operator must be Exists when key is empty",
        ),
        (
            PLACEMENTS,
            json!({"statusReportingScope": null, "resourceSelectors": [
                {"group": "", "version": "v1", "kind": "ConfigMap", "name": "a", "labelSelector": {}},
            ]}),
            "name and labelSelector are mutually exclusive in a resource selector",
        ),
        (
            PLACEMENTS,
            json!({"strategy": {"reportBackStrategy": {"type": "Mirror", "destination": null}}}),
            "when reportBackStrategy.type is 'Mirror', a destination must be specified",
        ),
        (
            &["clusterresourceoverrides"],
            json!({"placement": {"name": "web", "scope": "Namespaced"}}),
            "clusterResourceOverride placement reference cannot be Namespaced scope",
        ),
        (
            &["clusterresourceplacementdisruptionbudgets"],
            json!({"minAvailable": 1, "maxUnavailable": 1}),
            "Both MaxUnavailable and MinAvailable cannot be specified",
        ),
        (
            &["clusterresourceplacementdisruptionbudgets"],
            json!({"minAvailable": "101%"}),
            "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be greater than or equal to 0",
        ),
        (
            STRATEGIES,
            stage(json!({"afterStageTasks": [{"type": "Approval", "waitTime": "1h"}]})),
            "AfterStageTaskType is Approval, waitTime is not allowed",
        ),
        (
            STRATEGIES,
            stage(json!({"afterStageTasks": [{"type": "TimedWait"}]})),
            "AfterStageTaskType is TimedWait, waitTime is required",
        ),
        (
            STRATEGIES,
            stage(json!({"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]})),
            "BeforeStageTaskType cannot be TimedWait",
        ),
        (
            STRATEGIES,
            stage(json!({"maxConcurrency": 0})),
            "maxConcurrency must be at least 1",
        ),
    ]
}

/// An update that breaks a rule: kinds, changes to the example's spec before it is created, the forbidden update.
fn on_update() -> Vec<(&'static [&'static str], Value, Value, &'static str)> {
    const RUNS: &[&str] = &["clusterstagedupdateruns", "stagedupdateruns"];
    const PLACEMENTS: &[&str] = &["clusterresourceplacements", "resourceplacements"];
    const OVERRIDES: &[&str] = &["clusterresourceoverrides", "resourceoverrides"];
    const OVERRIDE_SNAPSHOTS: &[&str] = &["clusterresourceoverridesnapshots", "resourceoverridesnapshots"];
    let nothing = || json!({});
    vec![
        (
            &["clusterapprovalrequests", "approvalrequests"],
            nothing(),
            json!({"targetStage": "other"}),
            "The spec field is immutable",
        ),
        (
            OVERRIDES,
            json!({"placement": {"name": "web"}}),
            json!({"placement": {"name": "other"}}),
            "The placement field is immutable",
        ),
        (
            OVERRIDE_SNAPSHOTS,
            json!({"overrideSpec": {"placement": {"name": "web"}}}),
            json!({"overrideSpec": {"placement": {"name": "other"}}}),
            "The placement field is immutable",
        ),
        (
            &["clusterresourceplacementevictions"],
            nothing(),
            json!({"clusterName": "other"}),
            "The ClusterName field is immutable",
        ),
        (
            &["clusterresourceplacementevictions"],
            nothing(),
            json!({"placementName": "other"}),
            "The PlacementName field is immutable",
        ),
        (
            PLACEMENTS,
            nothing(),
            json!({"policy": null}),
            "policy cannot be removed once set",
        ),
        (
            &["clusterresourceplacements"],
            json!({"statusReportingScope": "NamespaceAccessible"}),
            json!({"statusReportingScope": "ClusterScopeOnly"}),
            "statusReportingScope is immutable",
        ),
        (
            PLACEMENTS,
            json!({"policy": {
                "placementType": "PickAll", "numberOfClusters": null, "topologySpreadConstraints": null, "clusterNames": null,
            }}),
            json!({"policy": {"placementType": "PickN", "numberOfClusters": 1}}),
            "placement type is immutable",
        ),
        (
            PLACEMENTS,
            json!({"strategy": {"type": "External", "rollingUpdate": null}}),
            json!({"strategy": {"type": "RollingUpdate"}}),
            "cannot change rollout strategy type from 'External' to other types",
        ),
        (
            RUNS,
            json!({"state": "Initialize"}),
            json!({"state": "Stop"}),
            "invalid state transition: cannot transition from Initialize to Stop",
        ),
        (
            RUNS,
            json!({"state": "Run"}),
            json!({"state": "Initialize"}),
            "invalid state transition: cannot transition from Run to Initialize",
        ),
        // A run cannot be created as Stop; it gets there from Run.
        (
            RUNS,
            json!({"state": "Stop"}),
            json!({"state": "Initialize"}),
            "invalid state transition: cannot transition from Stop to Initialize",
        ),
        (
            RUNS,
            nothing(),
            json!({"placementName": "other"}),
            "placementName is immutable",
        ),
        (
            RUNS,
            json!({"resourceSnapshotIndex": "2"}),
            json!({"resourceSnapshotIndex": "3"}),
            "resourceSnapshotIndex is immutable",
        ),
        (
            RUNS,
            nothing(),
            json!({"stagedRolloutStrategyName": "other"}),
            "stagedRolloutStrategyName is immutable",
        ),
    ]
}

/// The same for what strategies must not become.
fn on_update_of_strategies() -> Vec<(&'static [&'static str], Value, Value, &'static str)> {
    const STRATEGIES: &[&str] = &["clusterstagedupdatestrategies", "stagedupdatestrategies"];
    let row = |tasks: Value, message| {
        let stages = json!({"stages": [patch::applied(json!({"name": "s"}), &tasks)]});
        (STRATEGIES, json!({}), stages, message)
    };
    vec![
        row(
            json!({"afterStageTasks": [{"type": "Approval", "waitTime": "1h"}]}),
            "AfterStageTaskType is Approval, waitTime is not allowed",
        ),
        row(
            json!({"afterStageTasks": [{"type": "TimedWait"}]}),
            "AfterStageTaskType is TimedWait, waitTime is required",
        ),
        row(
            json!({"beforeStageTasks": [{"type": "TimedWait", "waitTime": "1h"}]}),
            "BeforeStageTaskType cannot be TimedWait",
        ),
    ]
}

const LONG_NAME: &str = "metadata.name max length is 63";
const LONG_NAME_KINDS: &[&str] = &["memberclusters", "clusterstagedupdateruns", "stagedupdateruns"];

#[test]
fn an_object_that_breaks_a_rule_is_refused_with_its_message() {
    scenario("rules", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        for (kinds, changes, message) in on_create() {
            for plural in kinds {
                let kind = kinds::find(plural);
                let mut object = kind.named(&ctx, &namespace);
                object["spec"] = patch::applied(object["spec"].take(), &changes);
                refused(&ctx, &kind, &namespace, &object, message).await?;
            }
        }
        for plural in LONG_NAME_KINDS {
            let kind = kinds::find(plural);
            let mut object = kind.named(&ctx, &namespace);
            object["metadata"]["name"] = "x".repeat(64).into();
            refused(&ctx, &kind, &namespace, &object, LONG_NAME).await?;
        }
        Ok(())
    });
}

#[test]
fn a_budget_is_a_number_from_nought_on_or_a_share() {
    scenario("budgets", |ctx| async move {
        const RULE: &str = "If supplied value is String should match regex '^(100|[0-9]{1,2})%$' or If supplied value is Integer must be \
                            greater than or equal to 0";
        let kind = kinds::find("clusterresourceplacementdisruptionbudgets");
        let namespace = ctx.namespace("hub").await?;
        for field in ["minAvailable", "maxUnavailable"] {
            let budget = |value: &Value| {
                let mut object = kind.named(&ctx, &namespace);
                object["spec"] = json!({ field: value });
                object
            };
            for value in [
                json!(-1),
                json!("-5%"),
                json!("101%"),
                json!("5"),
                json!("5 %"),
                json!(""),
            ] {
                refused(&ctx, &kind, &namespace, &budget(&value), RULE).await?;
            }
            for value in [
                json!("5%"),
                json!("05%"),
                json!("0%"),
                json!("100%"),
                json!(0),
                json!(7),
            ] {
                for version in ["v1beta1", "v1"] {
                    let mut object = budget(&value);
                    object["apiVersion"] = format!("placement.kubernetes-fleet.io/{version}").into();
                    let object: DynamicObject = serde_json::from_value(object)?;
                    let dry_run = PostParams {
                        dry_run: true,
                        ..PostParams::default()
                    };
                    let api = kind.api(&ctx, version, &namespace).await?;
                    let answer = api.create(&dry_run, &object).await;
                    ensure!(answer.is_ok(), "{field}: {value} as {version}: {answer:?}");
                }
            }
        }
        Ok(())
    });
}

async fn refused(ctx: &Ctx, kind: &Kind, namespace: &str, object: &Value, message: &str) -> Result<()> {
    let object: DynamicObject = serde_json::from_value(object.clone())?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let answer = kind
        .api(ctx, "v1beta1", namespace)
        .await?
        .create(&dry_run, &object)
        .await;
    says(answer, &format!("{} that breaks {message:?}", kind.plural()), message)
}

fn says(answer: kube::Result<DynamicObject>, what: &str, message: &str) -> Result<()> {
    match answer {
        Ok(_) => anyhow::bail!("{what} was accepted"),
        Err(kube::Error::Api(status)) => {
            ensure!(
                status.code == 422 && status.message.contains(message),
                "{what}: {}",
                status.message
            );
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

#[test]
fn an_update_that_breaks_a_rule_is_refused_with_its_message() {
    scenario("updates", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let rows = on_update().into_iter().chain(on_update_of_strategies());
        for (i, (kinds, before, update, message)) in rows.enumerate() {
            for plural in kinds {
                let kind = kinds::find(plural);
                let mut object = kind.named(&ctx, &namespace);
                let name = ctx.name(&i.to_string());
                object["metadata"]["name"] = name.clone().into();
                object["spec"] = patch::applied(object["spec"].take(), &before);
                kind.create(&ctx, &namespace, object).await?;
                let api = kind.api(&ctx, "v1beta1", &namespace).await?;
                let patch = Patch::Merge(json!({ "spec": update }));
                let answer = api.patch(&name, &PatchParams::default(), &patch).await;
                says(answer, &format!("the update of {plural} {update}"), message)?;
            }
        }
        Ok(())
    });
}

#[test]
fn every_rule_of_the_crds_is_tried() {
    let mut tried: BTreeSet<(String, &str)> = BTreeSet::new();
    for (kinds, _, message) in on_create() {
        tried.extend(kinds.iter().map(|plural| ((*plural).to_owned(), message)));
    }
    for (kinds, _, _, message) in on_update() {
        tried.extend(kinds.iter().map(|plural| ((*plural).to_owned(), message)));
    }
    tried.extend(LONG_NAME_KINDS.iter().map(|plural| ((*plural).to_owned(), LONG_NAME)));
    for kind in kinds::all() {
        // Rules under status are those of the spec that it is a snapshot of.
        let mut schema = kind.schema();
        schema["properties"]
            .as_object_mut()
            .expect("an object")
            .remove("status");
        let mut messages = BTreeSet::new();
        messages_of(&schema, &mut messages);
        for message in messages {
            assert!(
                tried
                    .iter()
                    .any(|(plural, said)| plural == kind.plural() && *said == message),
                "no case for the rule of {} that says {message:?}",
                kind.plural()
            );
        }
    }
}

fn messages_of(schema: &Value, into: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for rule in fields
                .get("x-kubernetes-validations")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
            {
                into.insert(rule["message"].as_str().expect("every rule has a message").to_owned());
            }
            fields.values().for_each(|value| messages_of(value, into));
        }
        Value::Array(items) => items.iter().for_each(|value| messages_of(value, into)),
        _ => {}
    }
}
