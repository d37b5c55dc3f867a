//! Overrides from their creation to what a cluster gets.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{
    ClusterResourceBinding, ClusterResourceOverride, ClusterResourceOverrideSnapshot, ResourceOverride, Scope, Work,
};
use fleet_api::{finalizers, labels};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{
    Crp, Placement, Rp, bound, change, core_selector, furnished, place, rolling, whole_namespace,
};
use fleet_e2e::played::Cast;
use fleet_e2e::wait;
use fleet_e2e::works::{cluster_of, manifest};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

/// A rule for the clusters of an environment.
fn rule(env: &str, patches: &Value) -> Value {
    let terms = json!([{ "labelSelector": { "matchLabels": { "env": env } } }]);
    json!({ "clusterSelector": { "clusterSelectorTerms": terms }, "jsonPatchOverrides": patches })
}

/// A rule that deletes on the clusters of an environment.
fn delete_on(env: &str) -> Value {
    let terms = json!([{ "labelSelector": { "matchLabels": { "env": env } } }]);
    json!({ "clusterSelector": { "clusterSelectorTerms": terms }, "overrideType": "Delete" })
}

/// Overrides everything in the scenario's namespace.
async fn wide(ctx: &Ctx, name: &str, placement: Option<&str>, rules: Value) -> Result<ClusterResourceOverride> {
    let mut spec = json!({
        "clusterResourceSelectors": [{ "group": "", "version": "v1", "kind": "Namespace", "name": ctx.prefix() }],
        "policy": { "overrideRules": rules },
    });
    if let Some(placement) = placement {
        spec["placement"] = json!({ "name": placement });
    }
    let object = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
    ctx.create("hub", object).await
}

/// Overrides the ConfigMap `settings` of the scenario's namespace.
async fn narrow(ctx: &Ctx, name: &str, placement: Value, rules: Value) -> Result<ResourceOverride> {
    let spec = json!({
        "placement": placement,
        "resourceSelectors": [{ "group": "", "version": "v1", "kind": "ConfigMap", "name": "settings" }],
        "policy": { "overrideRules": rules },
    });
    let object = serde_json::from_value(json!({ "metadata": { "name": name }, "spec": spec }))?;
    ctx.create_in("hub", ctx.prefix(), object).await
}

/// Gives an override other rules.
async fn edit_wide(ctx: &Ctx, name: &str, rules: Value) -> Result<()> {
    let api: Api<ClusterResourceOverride> = Api::all(ctx.hub().await?);
    let patch = Patch::Merge(json!({ "spec": { "policy": { "overrideRules": rules } } }));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// What the ConfigMap is on each cluster.
fn settings(works: &[Work]) -> BTreeMap<String, Value> {
    let of = |work: &Work| {
        let map = manifest(work, "ConfigMap", "settings").unwrap_or_default();
        (cluster_of(work), map["data"]["key"].clone())
    };
    works.iter().map(of).collect()
}

async fn until_settings<S: Scope>(placement: &Placement<S>, wanted: &[(String, Value)]) -> Result<Vec<Work>> {
    let wanted: BTreeMap<_, _> = wanted.iter().cloned().collect();
    placement
        .until_works(&format!("settings {wanted:?}"), |works| settings(works) == wanted)
        .await
}

fn lists(binding: &ClusterResourceBinding) -> Vec<String> {
    let spec = &binding.spec;
    let narrow = spec.resource_override_snapshots.iter();
    let narrow = narrow.map(|named| format!("{}/{}", named.namespace, named.name));
    spec.cluster_resource_override_snapshots
        .iter()
        .cloned()
        .chain(narrow)
        .collect()
}

fn label<'a>(snapshot: &'a ClusterResourceOverrideSnapshot, key: &str) -> Option<&'a str> {
    snapshot.labels().get(key).map(String::as_str)
}

/// An override and its first snapshot.
fn well_made(cro: &ClusterResourceOverride, snapshot: &ClusterResourceOverrideSnapshot) -> Result<()> {
    ensure!(cro.finalizers() == [finalizers::OVERRIDE.to_owned()], "{cro:?}");
    let name = cro.name_any();
    ensure!(label(snapshot, labels::PARENT_OVERRIDE) == Some(&name), "{snapshot:?}");
    ensure!(label(snapshot, labels::OVERRIDE_INDEX) == Some("0"), "{snapshot:?}");
    ensure!(
        label(snapshot, labels::IS_LATEST_SNAPSHOT) == Some("true"),
        "{snapshot:?}"
    );
    let mut owners = snapshot.owner_references().iter();
    ensure!(
        owners.any(|o| o.controller == Some(true) && o.name == name),
        "{snapshot:?}"
    );
    Ok(())
}

#[test]
fn an_override_is_snapshotted_rolled_out_changed_and_taken_back() {
    scenario("over-life", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "env": "prod", "region": "east" })).await?;
        cast.join("b", json!({ "env": "test", "region": "west" })).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(2), &json!(2))).await?;
        crp.until_available(0).await?;
        let (a, b) = (cast.name("a"), cast.name("b"));
        let labels_of = |place: &str| {
            json!([{
                "op": "add", "path": "/metadata/labels",
                "value": { "where": format!("${{MEMBER-CLUSTER-LABEL-KEY-region}}-{place}-${{MEMBER-CLUSTER-NAME}}") },
            }])
        };
        let name = ctx.name("cro");
        wide(&ctx, &name, Some(&crp.name), json!([rule("prod", &labels_of("one"))])).await?;

        // The Namespace and what is in it, on the cluster that the rule is for.
        let says = |work: &Work, kind: &str, name: &str| {
            manifest(work, kind, name)
                .map(|object| object["metadata"]["labels"]["where"].clone())
                .unwrap_or_default()
        };
        let all = |works: &[Work], on_a: &str| {
            works.len() == 2
                && works.iter().all(|work| {
                    let wanted = if cluster_of(work) == a {
                        json!(on_a)
                    } else {
                        Value::Null
                    };
                    says(work, "ConfigMap", "settings") == wanted && says(work, "Namespace", ctx.prefix()) == wanted
                })
        };
        let first = format!("east-one-{a}");
        crp.until_works("the override on a", |works| all(works, &first)).await?;
        let snapshots: Api<ClusterResourceOverrideSnapshot> = Api::all(ctx.hub().await?);
        let overrides: Api<ClusterResourceOverride> = Api::all(ctx.hub().await?);
        well_made(
            &overrides.get(&name).await?,
            &snapshots.get(&format!("{name}-0")).await?,
        )?;
        let binding = crp.binding(&a).await?;
        ensure!(lists(&binding) == [format!("{name}-0")], "{binding:?}");
        ensure!(lists(&crp.binding(&b).await?).is_empty());
        crp.until("overridden", |crp| {
            let entries = crp.status.iter().flat_map(|s| &s.placement_statuses);
            let mut named = entries.filter(|e| !e.applicable_cluster_resource_overrides.is_empty());
            named.next().is_some_and(|e| e.cluster_name == a)
        })
        .await?;
        crp.until_bindings("Overridden", |all| {
            let reason = |cluster: &str| {
                let found = all.iter().find(|b| b.spec.target_cluster == cluster);
                found
                    .and_then(|b| bound(b, "Overridden"))
                    .map(|c| c.reason.clone())
                    .unwrap_or_default()
            };
            reason(&a) == "OverriddenSucceeded" && reason(&b) == "NoOverrideSpecified"
        })
        .await?;

        // Another rule is another snapshot; the same again is none.
        edit_wide(&ctx, &name, json!([rule("prod", &labels_of("two"))])).await?;
        let second = format!("east-two-{a}");
        crp.until_works("the changed override on a", |works| all(works, &second))
            .await?;
        let before = snapshots.get(&format!("{name}-1")).await?;
        wait::until_present(snapshots.clone(), &format!("{name}-0"), "no longer the latest", |s| {
            label(s, labels::IS_LATEST_SNAPSHOT) == Some("false")
        })
        .await?;
        ensure!(label(&before, labels::IS_LATEST_SNAPSHOT) == Some("true"), "{before:?}");
        let touch = Patch::Merge(json!({ "metadata": { "annotations": { "example.com/touched": "yes" } } }));
        overrides.patch(&name, &PatchParams::default(), &touch).await?;

        overrides.delete(&name, &DeleteParams::default()).await?;
        wait::until_gone(overrides, &name).await?;
        let selector = format!("{}={name}", labels::PARENT_OVERRIDE);
        let left = snapshots.list(&ListParams::default().labels(&selector)).await?;
        ensure!(left.items.is_empty(), "{left:?}");
        crp.until_works("nothing of the override", |works| {
            works.iter().all(|w| says(w, "ConfigMap", "settings").is_null())
        })
        .await?;
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn the_narrower_override_wins_and_deleted_objects_stay_away() {
    scenario("over-order", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        for (word, env) in [("a", "prod"), ("b", "test"), ("c", "none")] {
            cast.join(word, json!({ "env": env })).await?;
        }
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(3), &json!(3))).await?;
        crp.until_available(0).await?;
        let value = |value: &str| json!([{ "op": "add", "path": "/data", "value": { "key": value } }]);
        let (a, b, c) = (cast.name("a"), cast.name("b"), cast.name("c"));
        // Two rules for the same cluster: the last one wins. The Namespace has no data, and gets it all the same.
        let rules = json!([rule("prod", &value("one")), rule("prod", &value("two"))]);
        wide(&ctx, &ctx.name("cro"), Some(&crp.name), rules).await?;
        until_settings(
            &crp,
            &[
                (a.clone(), json!("two")),
                (b.clone(), json!("one")),
                (c.clone(), json!("one")),
            ],
        )
        .await?;
        let reference = json!({ "name": crp.name, "scope": "Cluster" });
        let rules = json!([rule("prod", &value("three")), delete_on("test"),]);
        narrow(&ctx, "ro", reference, rules).await?;
        let works = until_settings(
            &crp,
            &[(a.clone(), json!("three")), (b.clone(), Value::Null), (c, json!("one"))],
        )
        .await?;
        let on_b = works
            .iter()
            .find(|work| cluster_of(work) == b)
            .context("b keeps its Work")?;
        ensure!(manifest(on_b, "ConfigMap", "settings").is_none() && !on_b.spec.workload.manifests.is_empty());
        ensure!(lists(&crp.binding(&a).await?) == [format!("{}-0", ctx.name("cro")), format!("{}/ro-0", ctx.prefix())]);
        crp.until_available(0).await?;
        // Deleted by the wider one, patched by the narrower one: deleted, and nothing of it is left.
        edit_wide(&ctx, &ctx.name("cro"), json!([delete_on("prod")])).await?;
        let works = crp
            .until_works("nothing on a", |works| {
                works
                    .iter()
                    .any(|work| cluster_of(work) == a && work.spec.workload.manifests.is_empty())
            })
            .await?;
        ensure!(works.len() == 3, "{works:?}");
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn an_override_that_fails_names_its_object_and_can_be_repaired() {
    scenario("over-fail", |ctx| async move {
        let cast = Cast::new(&ctx, &[]).await?;
        cast.join("a", json!({ "env": "prod" })).await?;
        let namespace = furnished(&ctx).await?;
        let reference = json!({ "name": ctx.name("crp"), "scope": "Cluster" });
        let patches = json!([{ "op": "add", "path": "/metadata/labels/x", "value": "y" }]);
        narrow(&ctx, "ro", reference, json!([rule("prod", &patches)])).await?;
        let snapshots: Api<fleet_api::placement::ResourceOverrideSnapshot> =
            Api::namespaced(ctx.hub().await?, &namespace);
        wait::until_present(snapshots, "ro-0", "exists", |_| true).await?;
        let spec = json!({ "resourceSelectors": whole_namespace(&namespace), "policy": cast.everywhere() });
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        let failed = crp
            .until_bindings("Overridden False", |all| {
                all.len() == 1 && bound(&all[0], "Overridden").is_some_and(|c| c.status == "False")
            })
            .await?;
        let condition = bound(&failed[0], "Overridden").context("waited for it")?;
        ensure!(condition.reason == "OverriddenFailed", "{condition:?}");
        let text = format!(
            "Failed to apply the override rules on the resources: ResourceOverrideSnapshot \"ro-0\" failed to apply on \
             ConfigMap \"settings\" in namespace \"{namespace}\": add operation does not apply: doc is missing path: \
             \"/metadata/labels/x\": missing value"
        );
        ensure!(condition.message == text, "{}", condition.message);
        ensure!(crp.works().await?.is_empty());
        crp.until_condition("Overridden", "False").await?;
        // A variable that the cluster cannot fill, then one that it can.
        let api: Api<ResourceOverride> = Api::namespaced(ctx.hub().await?, &namespace);
        let value = |value: &str| json!([{ "op": "replace", "path": "/data/key", "value": value }]);
        let edit = |patches: Value| {
            Patch::Merge(json!({ "spec": { "policy": { "overrideRules": [rule("prod", &patches)] } } }))
        };
        let missing = edit(value(
            "${MEMBER-CLUSTER-LABEL-KEY-region}/${MEMBER-CLUSTER-LABEL-KEY-env}",
        ));
        api.patch("ro", &PatchParams::default(), &missing).await?;
        let a = cast.name("a");
        let text = format!("label key region not found on cluster {a}");
        crp.until_bindings("the missing label", |all| {
            bound(&all[0], "Overridden").is_some_and(|c| c.status == "False" && c.message.ends_with(&text))
        })
        .await?;
        // The label comes later: no edit of the override is needed.
        cast.member("a")
            .patch(&json!({ "metadata": { "labels": { "region": "east" } } }))
            .await?;
        until_settings(&crp, &[(a.clone(), json!("east/prod"))]).await?;
        crp.until_available(0).await?;
        cast.member("a")
            .patch(&json!({ "metadata": { "labels": { "region": "west" } } }))
            .await?;
        until_settings(&crp, &[(a, json!("west/prod"))]).await?;
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn a_reference_says_which_of_two_placements_of_a_name() {
    scenario("over-scope", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        let spec = json!({
            "resourceSelectors": [core_selector("ConfigMap", "settings")], "policy": cast.everywhere(),
        });
        let rp = Rp::create_called(&ctx, ctx.prefix(), &crp.name, &spec).await?;
        let all = json!([{
            "clusterSelector": { "clusterSelectorTerms": [] },
            "jsonPatchOverrides": [{ "op": "replace", "path": "/data/key", "value": "inside" }],
        }]);
        narrow(&ctx, "ro", json!({ "name": crp.name, "scope": "Namespaced" }), all).await?;
        let a = cast.name("a");
        until_settings(&rp, &[(a.clone(), json!("inside"))]).await?;
        until_settings(&crp, &[(a.clone(), json!("one"))]).await?;
        let named = rp.binding(&a).await?.spec.resource_override_snapshots;
        ensure!(named.len() == 1, "{named:?}");
        ensure!(lists(&crp.binding(&a).await?).is_empty());
        Ok(())
    });
}

#[test]
fn a_broken_history_of_an_override_is_repaired_and_kept_short() {
    scenario("over-history", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let name = ctx.name("cro");
        let rules = |value: &str| {
            json!([{
                "clusterSelector": { "clusterSelectorTerms": [] },
                "jsonPatchOverrides": [{ "op": "add", "path": "/data", "value": { "key": value } }],
            }])
        };
        wide(&ctx, &name, Some(&crp.name), rules("v0")).await?;
        let snapshots: Api<ClusterResourceOverrideSnapshot> = Api::all(ctx.hub().await?);
        let latest = |snapshot: &ClusterResourceOverrideSnapshot| {
            label(snapshot, labels::IS_LATEST_SNAPSHOT)
                .unwrap_or_default()
                .to_owned()
        };
        let first = format!("{name}-0");
        wait::until_present(snapshots.clone(), &first, "exists", |_| true).await?;
        for n in 1..13 {
            edit_wide(&ctx, &name, rules(&format!("v{n}"))).await?;
            let made = format!("{name}-{n}");
            wait::until_present(snapshots.clone(), &made, "the latest", |s| latest(s) == "true").await?;
        }
        until_settings(&crp, &[(cast.name("a"), json!("v12"))]).await?;
        let selector = watcher::Config::default().labels(&format!("{}={name}", labels::PARENT_OVERRIDE));
        let kept = wait::until_list_where(
            snapshots.clone(),
            selector,
            "ten snapshots, one of them the latest",
            |all| all.len() == 10 && all.iter().filter(|s| latest(s) == "true").count() == 1,
        )
        .await?;
        ensure!(kept.iter().all(|s| s.name_any() != format!("{name}-0")));

        // The label is taken away, then the snapshot itself: the override is never forgotten.
        let last = format!("{name}-12");
        let demote = Patch::Merge(json!({ "metadata": { "labels": { labels::IS_LATEST_SNAPSHOT: "false" } } }));
        snapshots.patch(&last, &PatchParams::default(), &demote).await?;
        wait::until_present(snapshots.clone(), &last, "the latest again", |s| latest(s) == "true").await?;
        snapshots.delete(&last, &DeleteParams::default()).await?;
        change(&ctx, "changed").await?;
        crp.until("the new snapshot", |crp| {
            crp.status.as_ref().is_some_and(|s| s.observed_resource_index == "1")
        })
        .await?;
        until_settings(&crp, &[(cast.name("a"), json!("v12"))]).await?;
        crp.until_available(1).await?;
        Ok(())
    });
}

#[test]
fn an_override_without_a_reference_concerns_every_placement() {
    scenario("over-all", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let one = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        let spec = json!({
            "resourceSelectors": whole_namespace(ctx.prefix()),
            "policy": cast.everywhere(),
            "strategy": rolling(&json!(1), &json!(1)),
        });
        let two = Crp::create(&ctx, "two", &spec).await?;
        one.until_available(0).await?;
        two.until_available(0).await?;
        let name = ctx.name("cro");
        let rules = json!([{
            "clusterSelector": { "clusterSelectorTerms": [] },
            "jsonPatchOverrides": [{ "op": "add", "path": "/data", "value": { "key": "overridden" } }],
        }]);
        wide(&ctx, &name, None, rules).await?;
        for crp in [&one, &two] {
            until_settings(crp, &[(cast.name("a"), json!("overridden"))]).await?;
            crp.until_available(0).await?;
        }
        let overrides: Api<ClusterResourceOverride> = Api::all(ctx.hub().await?);
        overrides.delete(&name, &DeleteParams::default()).await?;
        for crp in [&one, &two] {
            until_settings(crp, &[(cast.name("a"), json!("one"))]).await?;
            crp.until_available(0).await?;
        }
        Ok(())
    });
}
