//! Selectors that cannot be used, and what becomes of placements that have them.

use anyhow::{Result, ensure};
use fleet_api::placement::ClusterResourceSnapshot;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, Rp, core_selector, lines, namespace_selector, selected};
use fleet_e2e::targets::Targets;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use crate::places::spec;
use crate::selection::{ending_namespace, nowhere, object, release_namespace};

#[test]
fn selectors_that_cannot_be_used_are_explained_word_by_word() {
    scenario("wrong", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let ending = ending_namespace(&ctx, "ending", &json!({})).await?;
        let (missing, forbidden) = (ctx.name("missing"), format!("kube-{}", ctx.prefix()));
        ctx.create(
            "hub",
            object::<Namespace>(json!({ "metadata": { "name": forbidden } }))?,
        )
        .await?;
        let inside = |name: &str| json!([namespace_selector(name, "NamespaceWithResourceSelectors")]);
        let deployment = json!({ "group": "apps", "version": "v1", "kind": "Deployment", "name": "web" });
        let labelled = |scope: &str| {
            json!({
                "group": "", "version": "v1", "kind": "Namespace", "selectionScope": scope,
                "labelSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            })
        };
        let none =
            "NamespaceWithResourceSelectors mode requires exactly one namespace, but no namespaces were selected";
        let crp = |word: &str| ctx.name(word);
        let table = [
            (
                "system",
                json!([core_selector("Namespace", "kube-system")]),
                format!(
                    "invalid clusterRresourcePlacement {}: namespace kube-system is not allowed to propagate",
                    crp("system")
                ),
            ),
            (
                "labelled",
                json!([{
                    "group": "", "version": "v1", "kind": "Namespace",
                    "labelSelector": { "matchLabels": { "kubernetes.io/metadata.name": "kube-system" } },
                }]),
                format!(
                    "invalid clusterRresourcePlacement {}: namespace kube-system is not allowed to propagate",
                    crp("labelled")
                ),
            ),
            (
                "unknown",
                json!([{ "group": "example.com", "version": "v3", "kind": "Gizmo", "name": "x" }]),
                format!(
                    "invalid placement /{}, failed to get GVR of the selector: no matches for kind \"Gizmo\" in version \"example.com/v3\"",
                    crp("unknown")
                ),
            ),
            (
                "namespaced",
                json!([deployment]),
                format!(
                    "invalid placement /{}: cannot select namespace-scoped resource apps/v1, Resource=deployments in a clusterResourcePlacement",
                    crp("namespaced")
                ),
            ),
            (
                "missing",
                inside(&missing),
                format!("invalid clusterResourcePlacement {}: {none}", crp("missing")),
            ),
            (
                "ending",
                inside(&ending),
                format!("invalid clusterResourcePlacement {}: {none}", crp("ending")),
            ),
            (
                "kube",
                inside(&forbidden),
                format!("invalid clusterResourcePlacement {}: {none}", crp("kube")),
            ),
            (
                "twice",
                json!([
                    namespace_selector(&namespace, "NamespaceOnly"),
                    labelled("NamespaceOnly")
                ]),
                format!(
                    "found duplicate resource {{Group: Version:v1 Kind:Namespace Name:{namespace} Namespace: Envelope:<nil>}}"
                ),
            ),
        ];
        for (word, selectors, detail) in table {
            // The policy is right, so that nothing but the selectors keeps it back.
            let placement = Crp::create(&ctx, word, &spec(&selectors, &nowhere())).await?;
            says_invalid(&placement.until_step("Scheduled", "False").await?.conditions, &detail)?;
            let made = placement.made::<ClusterResourceSnapshot>().await?;
            ensure!(made.is_empty(), "{word}: {made:?}");
        }
        release_namespace(&ctx, &ending).await
    });
}

#[test]
fn selectors_of_a_namespaced_placement_stay_in_its_namespace() {
    scenario("wrong-inside", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let role = json!({ "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "name": "x" });
        let rp = format!("{namespace}/{}", ctx.name("role"));
        let table = [
            (
                "role",
                json!([role]),
                format!(
                    "invalid placement {rp}: cannot select cluster-scoped resource rbac.authorization.k8s.io/v1, Resource=clusterroles in a resourcePlacement"
                ),
            ),
            (
                "namespace",
                json!([core_selector("Namespace", &namespace)]),
                format!(
                    "invalid placement {namespace}/{}: cannot select cluster-scoped resource Namespace in a resourcePlacement",
                    ctx.name("namespace")
                ),
            ),
        ];
        for (word, selectors, detail) in table {
            let placement = Rp::create(&ctx, &namespace, word, &spec(&selectors, &nowhere())).await?;
            says_invalid(&placement.until_step("Scheduled", "False").await?.conditions, &detail)?;
        }
        Ok(())
    });
}

fn says_invalid(conditions: &[Condition], detail: &str) -> Result<()> {
    let expected = format!(
        "Scheduled=False InvalidResourceSelectors: The resource selectors are invalid: failed to process the request due \
         to a client error: {detail}"
    );
    ensure!(
        lines(conditions) == [expected.clone()],
        "not {expected}\nbut {:#?}",
        lines(conditions)
    );
    Ok(())
}

#[test]
fn a_placement_that_was_right_keeps_what_it_had_when_its_selectors_turn_wrong() {
    scenario("turned", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let targets = Targets::join(&ctx, 1).await?;
        let good = json!([core_selector("Namespace", &namespace)]);
        let crp = Crp::create(&ctx, "crp", &spec(&good, &targets.all())).await?;
        let before = crp.until_available("0").await?;
        let bad = json!([{ "group": "example.com", "version": "v3", "kind": "Gizmo", "name": "x" }]);
        crp.patch(&json!({ "spec": { "resourceSelectors": bad } })).await?;
        let after = crp.until_step("Scheduled", "False").await?;
        ensure!(
            after.selected_resources == before.selected_resources,
            "{:?}",
            after.selected_resources
        );
        ensure!(
            after.placement_statuses == before.placement_statuses,
            "{:?}",
            after.placement_statuses
        );
        // The other conditions speak of the generation before.
        ensure!(
            lines(&after.conditions)[1..] == lines(&before.conditions)[1..],
            "{:#?}",
            after.conditions
        );
        ensure!(
            after.conditions[1..] == before.conditions[1..],
            "{:#?}",
            after.conditions
        );
        let works = crp.until_works("its Work stays", |works| works.len() == 1).await?;
        ensure!(works[0].metadata.deletion_timestamp.is_none(), "{works:?}");
        crp.patch(&json!({ "spec": { "resourceSelectors": good } })).await?;
        crp.until_available("0").await?;
        Ok(())
    });
}

#[test]
fn a_kind_that_appears_later_is_placed_and_watched() {
    scenario("late-kind", |ctx| async move {
        // A group of its own, so that no other scenario sees the kind.
        let group = format!("{}.example.com", ctx.prefix());
        let selector = json!({ "group": group, "version": "v1", "kind": "Gizmo" });
        let crp = Crp::create(&ctx, "crp", &spec(&json!([selector]), &nowhere())).await?;
        let detail = format!(
            "invalid placement /{}, failed to get GVR of the selector: no matches for kind \"Gizmo\" in version \"{group}/v1\"",
            crp.name
        );
        says_invalid(&crp.until_step("Scheduled", "False").await?.conditions, &detail)?;
        let schema = json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
        let crd = json!({ "metadata": { "name": format!("gizmos.{group}") }, "spec": {
            "group": group, "scope": "Cluster",
            "names": { "kind": "Gizmo", "plural": "gizmos", "singular": "gizmo", "listKind": "GizmoList" },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": schema }],
        } });
        ctx.create("hub", object::<CustomResourceDefinition>(crd)?).await?;
        crp.until_step("Scheduled", "True").await?;
        let manifest = |name: &str| format!("apiVersion: {group}/v1\nkind: Gizmo\nmetadata:\n  name: {name}\n");
        let kubectl = ctx.kubectl("hub")?;
        kubectl.apply(&manifest("first")).await?;
        crp.until("the object is selected", |crp| {
            crp.status
                .as_ref()
                .is_some_and(|status| selected(status) == ["Gizmo first"])
        })
        .await?;
        kubectl.ok(&["delete", &format!("gizmos.{group}"), "first"]).await?;
        crp.until("and no longer", |crp| {
            crp.status
                .as_ref()
                .is_some_and(|status| status.selected_resources.is_empty())
        })
        .await?;
        Ok(())
    });
}
