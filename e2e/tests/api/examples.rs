//! Every example in `docs/examples/` is accepted, reads back unchanged, in both versions, and through the Rust types.

use anyhow::Result;
use fleet_e2e::harness::{Ctx, scenario};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::kinds::{self, Kind, assert_contains};

#[test]
fn every_example_is_accepted_and_reads_back_unchanged_in_both_versions() {
    scenario("examples", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        for kind in kinds::all() {
            accepted(&ctx, &kind, &namespace).await?;
        }
        Ok(())
    });
}

async fn accepted(ctx: &Ctx, kind: &Kind, namespace: &str) -> Result<()> {
    let example = kind.named(ctx, namespace);
    kind.create(ctx, namespace, example.clone()).await?;
    let api = kind.api(ctx, fleet_api::kind::VERSION, namespace).await?;
    if let (true, Some(status)) = (kind.has_status_subresource(), example.get("status")) {
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(ctx.prefix(), &PatchParams::default(), &patch).await?;
    }
    let stored = serde_json::to_value(api.get(ctx.prefix()).await?)?;
    assert_contains(&stored, &example, kind.plural());

    // The Rust type reads what is stored, and writes nothing else than what it read.
    let through_rust = through_rust(&kind.crd.spec.names.kind, &stored);
    assert_contains(&stored, &without_metadata(through_rust), kind.plural());

    if kind.crd.spec.versions.iter().any(|v| v.name == "v1") {
        let v1 = kind.api(ctx, "v1", namespace).await?.get(ctx.prefix()).await?;
        let mut v1 = serde_json::to_value(v1)?;
        assert_eq!(v1["apiVersion"], format!("{}/v1", kind.crd.spec.group));
        v1["apiVersion"] = stored["apiVersion"].clone();
        // managedFields name the version that a request was made in.
        assert_eq!(
            without_metadata(v1),
            without_metadata(stored),
            "{} differs in v1",
            kind.plural()
        );
    }
    Ok(())
}

fn without_metadata(mut object: Value) -> Value {
    object.as_object_mut().expect("an object").remove("metadata");
    object
}

fn through_rust(kind: &str, stored: &Value) -> Value {
    macro_rules! read {
        ($($type:ty,)+) => {
            $(if <$type as fleet_api::kind::Kind>::KIND == kind {
                let typed: $type = serde_json::from_value(stored.clone()).unwrap_or_else(|e| panic!("{kind}: {e}"));
                let mut value = serde_json::to_value(typed).expect("a kind is JSON");
                // kube adds both to what it sends.
                value["apiVersion"] = stored["apiVersion"].clone();
                value["kind"] = stored["kind"].clone();
                return value;
            })+
        };
    }
    fleet_api::for_each_kind!(read);
    panic!("no Rust type for {kind}")
}

#[test]
fn a_write_through_v1_keeps_the_fields_that_only_v1beta1_had() {
    scenario("through-v1", |ctx| async move {
        let kind = kinds::find("memberclusters");
        let mut object = kind.named(&ctx, "");
        object["spec"]["deleteOptions"] = json!({"validationMode": "Skip"});
        kind.create(&ctx, "", object).await?;
        // Exactly what `kubectl edit` does: read in the preferred version, replace.
        let v1 = kind.api(&ctx, "v1", "").await?;
        let mut read = v1.get(ctx.prefix()).await?;
        read.data["spec"]["heartbeatPeriodSeconds"] = json!(30);
        v1.replace(ctx.prefix(), &kube::api::PostParams::default(), &read)
            .await?;
        let stored = kind.api(&ctx, "v1beta1", "").await?.get(ctx.prefix()).await?;
        assert_eq!(stored.data["spec"]["heartbeatPeriodSeconds"], 30);
        assert_eq!(stored.data["spec"]["deleteOptions"]["validationMode"], "Skip");
        Ok(())
    });
}

#[test]
fn what_is_left_out_gets_its_documented_default() {
    scenario("defaults", |ctx| async move {
        let selectors = json!([{"group": "", "version": "v1", "kind": "Namespace", "name": "web"}]);
        let table = [
            (
                "memberclusters",
                json!({"identity": {"kind": "User", "name": "east"}}),
                json!({"heartbeatPeriodSeconds": 60}),
            ),
            (
                "clusterresourceplacements",
                json!({"resourceSelectors": selectors, "policy": {}, "strategy": {"applyStrategy": {}}}),
                json!({
                    "revisionHistoryLimit": 10,
                    "statusReportingScope": "ClusterScopeOnly",
                    "resourceSelectors": [{
                        "group": "", "version": "v1", "kind": "Namespace", "name": "web",
                        "selectionScope": "NamespaceWithResources",
                    }],
                    "policy": {"placementType": "PickAll"},
                    "strategy": {
                        "type": "RollingUpdate",
                        "applyStrategy": {
                            "type": "ClientSideApply", "comparisonOption": "PartialComparison",
                            "whenToApply": "Always", "whenToTakeOver": "Always",
                        },
                    },
                }),
            ),
        ];
        for (plural, spec, wanted) in table {
            let kind = kinds::find(plural);
            let mut object = kind.named(&ctx, "");
            object["spec"] = spec;
            let stored = kind.create(&ctx, "", object).await?;
            assert_contains(&stored.data["spec"], &wanted, plural);
        }
        Ok(())
    });
}
