//! Objects that the hub must not act on itself travel in envelopes.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourceBinding, ClusterResourceEnvelope, ResourceEnvelope, ResourceOverride, Work};
use fleet_api::{annotations, labels};
use fleet_e2e::events::Events;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, bound, config_map, place, rolling, seen, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::works::{manifest, manifests};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

fn quota(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": { "name": name, "namespace": namespace },
        "spec": { "hard": { "pods": "40" } },
    })
}

async fn envelope(ctx: &Ctx, name: &str, data: Value) -> Result<ResourceEnvelope> {
    let object = serde_json::from_value(json!({ "metadata": { "name": name }, "data": data }))?;
    ctx.create_in("hub", ctx.prefix(), object).await
}

/// Replaces one entry of an envelope.
async fn put(ctx: &Ctx, name: &str, key: &str, manifest: &Value) -> Result<()> {
    let api: Api<ResourceEnvelope> = Api::namespaced(ctx.hub().await?, ctx.prefix());
    let patch = Patch::Merge(json!({ "data": { key: manifest } }));
    api.patch(name, &PatchParams::default(), &patch).await?;
    Ok(())
}

fn in_envelope(work: &Work) -> Option<&String> {
    work.labels().get(labels::ENVELOPE_NAME)
}

fn names(work: &Work) -> Vec<Value> {
    manifests(work)
        .iter()
        .map(|object| object["metadata"]["name"].clone())
        .collect()
}

/// Waits until the only binding says that its Works are not in step, and why.
async fn refused(crp: &Crp, text: &str) -> Result<()> {
    let what = format!("SyncWorkFailed with {text:?}");
    let all = crp
        .until_bindings(&what, |all| {
            let said = all.first().and_then(|b| bound(b, "WorkSynchronized"));
            said.is_some_and(|c| c.reason == "SyncWorkFailed" && c.message.contains(text))
        })
        .await?;
    let overridden = bound(&all[0], "Overridden").map(|c| c.status.clone());
    ensure!(overridden.as_deref() == Some("True"), "{all:?}");
    let none = |b: &ClusterResourceBinding| bound(b, "Applied").is_none() && bound(b, "Available").is_none();
    ensure!(none(&all[0]), "{all:?}");
    Ok(())
}

/// A namespace with a ResourceEnvelope and what looks like one, and a ClusterResourceEnvelope, placed together.
async fn both_kinds(ctx: &Ctx, cast: &Cast) -> Result<Crp> {
    let namespace = ctx.namespace("hub").await?;
    let wide: ClusterResourceEnvelope = serde_json::from_value(json!({
        "metadata": { "name": ctx.name("wide") },
        "data": {
            "role.yaml": {
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": { "name": "guard" },
                "rules": [],
            },
            // A kind that the hub does not know.
            "thing.yaml": {
                "apiVersion": "things.example.com/v1", "kind": "Thing", "metadata": { "name": "thing" }, "size": 3,
            },
        },
    }))?;
    ctx.create("hub", wide).await?;
    envelope(
        ctx,
        "narrow",
        json!({ "one": quota("one", &namespace), "two": quota("two", &namespace) }),
    )
    .await?;
    // Once an envelope, today a ConfigMap like any other.
    let mut map = config_map("settings", "one");
    map.metadata.annotations = Some([(annotations::ENVELOPE_CONFIG_MAP.to_owned(), "true".to_owned())].into());
    ctx.create_in::<ConfigMap>("hub", &namespace, map).await?;
    let selectors = json!([
        { "group": "", "version": "v1", "kind": "Namespace", "name": namespace },
        { "group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": "ClusterResourceEnvelope",
          "name": ctx.name("wide") },
    ]);
    seen(ctx, &selectors, 4).await?;
    let spec = json!({
        "resourceSelectors": selectors, "policy": cast.everywhere(), "strategy": rolling(&json!(1), &json!(1)),
    });
    Crp::create(ctx, "crp", &spec).await
}

#[test]
fn each_envelope_has_a_work_of_its_own() {
    scenario("env-both", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = both_kinds(&ctx, &cast).await?;
        let namespace = ctx.prefix().to_owned();
        let works = crp.until_works("three", |works| works.len() == 3).await?;
        let find = |works: &[Work], name: &str| -> Result<Work> {
            let found = works.iter().find(|work| in_envelope(work).is_some_and(|n| n == name));
            found.cloned().with_context(|| format!("the Work of {name}"))
        };
        let plain = works
            .iter()
            .find(|work| in_envelope(work).is_none())
            .context("the plain Work")?;
        ensure!(plain.name_any() == format!("{}-work", crp.name), "{plain:?}");
        ensure!(manifest(plain, "ConfigMap", "settings").is_some(), "{plain:?}");
        ensure!(
            manifests(plain)
                .iter()
                .all(|m| !m["kind"].to_string().contains("Envelope")),
            "{plain:?}"
        );
        let (wide, narrow) = (find(&works, &ctx.name("wide"))?, find(&works, "narrow")?);
        let digits = narrow.name_any();
        let digits = digits
            .strip_prefix(&format!("{}-work-envelope-", crp.name))
            .unwrap_or_default()
            .to_owned();
        ensure!(
            digits.len() == 16 && digits.chars().all(|c| c.is_ascii_hexdigit()),
            "{}",
            narrow.name_any()
        );
        ensure!(
            narrow.labels()[labels::ENVELOPE_TYPE] == "ResourceEnvelope",
            "{narrow:?}"
        );
        ensure!(narrow.labels()[labels::ENVELOPE_NAMESPACE] == namespace, "{narrow:?}");
        ensure!(
            wide.labels()[labels::ENVELOPE_TYPE] == "ClusterResourceEnvelope",
            "{wide:?}"
        );
        ensure!(!wide.labels().contains_key(labels::ENVELOPE_NAMESPACE), "{wide:?}");
        ensure!(names(&narrow) == ["two", "one"], "{:?}", names(&narrow));
        ensure!(
            manifest(&wide, "Thing", "thing").is_some_and(|t| t["size"] == 3),
            "{wide:?}"
        );
        crp.until_available(0).await?;

        // The same Work for another content, none for none; and a failure says from which envelope it came.
        put(&ctx, "narrow", "one", &quota("other", &namespace)).await?;
        let after = crp
            .until_works("the changed envelope", |works| {
                works.iter().any(|w| names(w) == ["two", "other"])
            })
            .await?;
        ensure!(find(&after, "narrow")?.uid() == narrow.uid(), "{after:?}");
        cast.act(&["a"], Act::Broken);
        let status = crp
            .until_bindings("failed placements", |all| {
                all[0].status.as_ref().is_some_and(|s| {
                    let inside = |f: &&fleet_api::placement::FailedPlacement| f.resource().envelope.is_some();
                    s.failed_placements.iter().filter(inside).count() == 4
                })
            })
            .await?;
        let failed = status[0].status.clone().unwrap_or_default().failed_placements;
        let other = failed
            .iter()
            .find(|f| f.resource().name == "other")
            .context("it is listed")?;
        let from = other.resource().envelope.clone().context("with its envelope")?;
        ensure!(from.name == "narrow" && from.namespace == namespace, "{from:?}");
        cast.act(&["a"], Act::Available);
        let api: Api<ResourceEnvelope> = Api::namespaced(ctx.hub().await?, &namespace);
        api.delete("narrow", &DeleteParams::default()).await?;
        crp.until_works("two", |works| works.len() == 2 && find(works, "narrow").is_err())
            .await?;
        crp.until_available(2).await?;
        Ok(())
    });
}

#[test]
fn what_does_not_belong_into_an_envelope_is_refused_by_name() {
    scenario("env-wrong", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let namespace = ctx.namespace("hub").await?;
        envelope(
            &ctx,
            "env",
            json!({ "good": quota("good", &namespace), "odd": quota("odd", "elsewhere") }),
        )
        .await?;
        let selectors = whole_namespace(&namespace);
        seen(&ctx, &selectors, 2).await?;
        let spec = json!({ "resourceSelectors": selectors, "policy": cast.everywhere() });
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        refused(
            &crp,
            &format!(
                "a namespaced object odd (elsewhere/odd) in has been wrapped in a resource envelope from another namespace \
                 ({namespace}/env)"
            ),
        )
        .await?;
        ensure!(crp.works().await?.is_empty());
        let mut role = quota("role", "");
        role["metadata"] = json!({ "name": "role", "namespace": null });
        put(&ctx, "env", "odd", &role).await?;
        refused(
            &crp,
            &format!("a cluster scope object odd (role) has been wrapped in a resource envelope {namespace}/env"),
        )
        .await?;
        put(&ctx, "env", "odd", &json!({ "metadata": { "namespace": namespace } })).await?;
        crp.until_works("one for the envelope", |works| works.len() == 2)
            .await?;
        crp.until_available(2).await?;
        Ok(())
    });
}

#[test]
fn overrides_reach_into_envelopes_and_not_around_them() {
    scenario("env-over", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let namespace = ctx.prefix().to_owned();
        envelope(
            &ctx,
            "env",
            json!({ "one": quota("one", &namespace), "two": quota("two", &namespace) }),
        )
        .await?;
        let envelope_work = |works: &[Work]| works.iter().find(|w| in_envelope(w).is_some()).cloned();
        crp.until_works("the envelope's", |works| envelope_work(works).is_some())
            .await?;
        let before = envelope_work(&crp.works().await?).context("it exists")?;
        let override_ = |name: &str, selector: Value, path: &str| -> Result<ResourceOverride> {
            Ok(serde_json::from_value(json!({
                "metadata": { "name": name },
                "spec": {
                    "placement": { "name": crp.name, "scope": "Cluster" },
                    "resourceSelectors": [selector],
                    "policy": { "overrideRules": [{
                        "clusterSelector": { "clusterSelectorTerms": [] },
                        "jsonPatchOverrides": [{ "op": "replace", "path": path, "value": "7" }],
                    }] },
                },
            }))?)
        };
        // The wrapper is not placed, so nothing can be overridden about it.
        let wrapper = json!({
            "group": "placement.kubernetes-fleet.io", "version": "v1beta1", "kind": "ResourceEnvelope", "name": "env",
        });
        ctx.create_in("hub", &namespace, override_("wrapper", wrapper, "/data/one")?)
            .await?;
        let inner = |name: &str| json!({ "group": "", "version": "v1", "kind": "ResourceQuota", "name": name });
        ctx.create_in("hub", &namespace, override_("inner", inner("one"), "/spec/hard/pods")?)
            .await?;
        let pods =
            |work: &Work, name: &str| manifest(work, "ResourceQuota", name).map(|q| q["spec"]["hard"]["pods"].clone());
        let works = crp
            .until_works("the overridden quota", |works| {
                envelope_work(works).is_some_and(|w| pods(&w, "one") == Some(json!("7")))
            })
            .await?;
        let after = envelope_work(&works).context("it exists")?;
        ensure!(manifest(&after, "ResourceQuota", "two") == manifest(&before, "ResourceQuota", "two"));
        let binding = crp.binding(&cast.name("a")).await?;
        let named: Vec<_> = binding
            .spec
            .resource_override_snapshots
            .iter()
            .map(|n| n.name.as_str())
            .collect();
        ensure!(named == ["inner-0"], "{named:?}");
        // One that fails says where.
        ctx.create_in(
            "hub",
            &namespace,
            override_("failing", inner("two"), "/spec/none/pods")?,
        )
        .await?;
        let text =
            format!("failed to apply overrides to ResourceQuota \"two\" in namespace \"{namespace}\" from envelope");
        let failed = crp
            .until_bindings("Overridden False", |all| {
                bound(&all[0], "Overridden").is_some_and(|c| c.status == "False" && c.message.contains(&text))
            })
            .await?;
        let message = bound(&failed[0], "Overridden")
            .map(|c| c.message.clone())
            .unwrap_or_default();
        ensure!(
            message.contains("env") && message.contains("ResourceOverrideSnapshot \"failing-0\""),
            "{message}"
        );
        let api: Api<ResourceOverride> = Api::namespaced(ctx.hub().await?, &namespace);
        api.delete("failing", &DeleteParams::default()).await?;
        crp.until_available(1).await?;
        Ok(())
    });
}

#[test]
fn a_work_of_another_version_is_adopted_and_two_of_them_are_reported() {
    scenario("env-adopt", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let binding = crp.binding(&cast.name("a")).await?;
        let works: Api<Work> = Api::namespaced(ctx.hub().await?, &cast.member("a").namespace());
        let older = |name: &str| -> Result<Work> {
            Ok(serde_json::from_value(json!({
                "metadata": { "name": name, "labels": {
                    labels::PARENT_PLACEMENT: crp.name, labels::PARENT_BINDING: binding.name_any(),
                    labels::PARENT_RESOURCE_SNAPSHOT_INDEX: "0", labels::ENVELOPE_TYPE: "ResourceEnvelope",
                    labels::ENVELOPE_NAME: "env", labels::ENVELOPE_NAMESPACE: ctx.prefix(),
                } },
                "spec": { "workload": { "manifests": [quota("one", ctx.prefix())] } },
            }))?)
        };
        let own = format!("{}-work-0c0c", crp.name);
        // The hub would clean it up at once if it were not for an envelope that is there: made together.
        envelope(&ctx, "env", json!({ "one": quota("one", ctx.prefix()) })).await?;
        let made = crp
            .until_works("the envelope's", |works| works.iter().any(|w| in_envelope(w).is_some()))
            .await?;
        let first = made
            .iter()
            .find(|w| in_envelope(w).is_some())
            .map(kube::ResourceExt::name_any)
            .unwrap_or_default();
        crp.until_available(1).await?;
        works.create(&PostParams::default(), &older(&own)?).await?;
        refused(&crp, "2 work objects found for the same envelope").await?;
        let events = Events::about(&ctx, None, "ClusterResourceBinding", &binding.name_any()).await?;
        events.until("DuplicateEnvelopeWorks", &[]).await?;
        // None was deleted; when the newer one is gone, the one with the other name goes on.
        works.get(&own).await?;
        works.delete(&first, &DeleteParams::default()).await?;
        crp.until_works("the adopted one only", |all| {
            let enveloped: Vec<_> = all.iter().filter(|w| in_envelope(w).is_some()).collect();
            enveloped.len() == 1 && enveloped[0].name_any() == own
        })
        .await?;
        crp.until_available(1).await?;
        put(&ctx, "env", "one", &quota("other", ctx.prefix())).await?;
        crp.until_works("its new content", |all| {
            all.iter().any(|w| w.name_any() == own && names(w) == ["other"])
        })
        .await?;
        Ok(())
    });
}
