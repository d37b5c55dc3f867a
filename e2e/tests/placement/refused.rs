//! Selectors that cannot be used, and what becomes of placements that have them.

use anyhow::{Result, ensure};
use fleet_api::placement::ClusterResourceSnapshot;
use fleet_e2e::gizmos::Gizmos;
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{
    Crp, Rp, core_selector, lines, namespace_selector, nowhere, selected, spec, whole_namespace,
};
use fleet_e2e::played::Cast;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::json;

use crate::selection::{ending_namespace, object, release_namespace};

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
                whole_namespace(&namespace),
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
        let cast = Cast::new(&ctx, &["a"]).await?;
        let good = whole_namespace(&namespace);
        let crp = Crp::create(&ctx, "crp", &spec(&good, &cast.everywhere())).await?;
        let before = crp.until_available(0).await?;
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
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn a_kind_that_appears_later_is_placed_and_watched() {
    scenario("late-kind", |ctx| async move {
        let gizmos = Gizmos::new(&ctx);
        let selectors = json!([gizmos.selector("v1")]);
        let crp = Crp::create(&ctx, "crp", &spec(&selectors, &nowhere())).await?;
        let detail = format!(
            "invalid placement /{}, failed to get GVR of the selector: no matches for kind \"Gizmo\" in version \"{}/v1\"",
            crp.name, gizmos.group
        );
        says_invalid(&crp.until_step("Scheduled", "False").await?.conditions, &detail)?;
        gizmos.define("Cluster", &["v1"]).await?;
        crp.until_step("Scheduled", "True").await?;
        gizmos.create(None, "first", json!({})).await?;
        crp.until("the object is selected", |crp| {
            crp.status
                .as_ref()
                .is_some_and(|status| selected(status) == ["Gizmo first"])
        })
        .await?;
        let kubectl = ctx.kubectl("hub")?;
        kubectl.ok(&["delete", &gizmos.definition(), "first"]).await?;
        crp.until("and no longer", |crp| {
            crp.status
                .as_ref()
                .is_some_and(|status| status.selected_resources.is_empty())
        })
        .await?;
        Ok(())
    });
}
