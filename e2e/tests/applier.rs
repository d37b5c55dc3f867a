//! The member agent's applier on a real cluster: Works made by hand in a member's namespace on the hub.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::conditions;
use fleet_api::placement::{AppliedWork, ManifestCondition, Work};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::{agents, wait};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

const MEMBER: &str = "member-1";
const HUB_NAMESPACE: &str = "fleet-member-member-1";
/// What has to be seen by a watch, not by a timer.
const SOON: Duration = Duration::from_secs(4);

fn config(namespace: &str, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data})
}

fn deployment(namespace: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

fn work(name: &str, strategy: &Value, manifests: &[Value]) -> Result<Work> {
    let object = json!({
        "metadata": {"name": name},
        "spec": {"workload": {"manifests": manifests}, "applyStrategy": strategy},
    });
    Ok(serde_json::from_value(object)?)
}

async fn works(ctx: &Ctx) -> Result<Api<Work>> {
    Ok(Api::namespaced(ctx.hub().await?, HUB_NAMESPACE))
}

async fn configs(ctx: &Ctx, namespace: &str) -> Result<Api<ConfigMap>> {
    Ok(Api::namespaced(ctx.client(MEMBER).await?, namespace))
}

async fn edit(ctx: &Ctx, name: &str, manifests: &[Value]) -> Result<Work> {
    let patch = json!({"spec": {"workload": {"manifests": manifests}}});
    Ok(works(ctx)
        .await?
        .patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await?)
}

fn is(work: &Work, condition: &str, wanted: &str) -> bool {
    let generation = work.metadata.generation.unwrap_or_default();
    let status = work.status.clone().unwrap_or_default();
    conditions::fresh(&status.conditions, condition, generation).is_some_and(|c| c.status == wanted)
}

async fn until(ctx: &Ctx, name: &str, condition: &str, wanted: &str) -> Result<Work> {
    let what = format!("{condition}={wanted}");
    wait::until_present(works(ctx).await?, name, &what, |work| is(work, condition, wanted)).await
}

async fn until_entry(ctx: &Ctx, name: &str, what: &str, wanted: impl Fn(&ManifestCondition) -> bool) -> Result<Work> {
    let seen = |work: Option<&Work>| {
        let status = work.and_then(|work| work.status.as_ref());
        status.is_some_and(|status| status.manifest_conditions.iter().any(&wanted))
    };
    let found = wait::until_within(SOON, works(ctx).await?, name, what, seen).await?;
    found.with_context(|| format!("{name} is gone"))
}

fn reasons(work: &Work, condition: &str) -> Vec<String> {
    let status = work.status.clone().unwrap_or_default();
    let reason = |entry: &ManifestCondition| {
        conditions::find(&entry.conditions, condition)
            .map(|c| c.reason.clone())
            .unwrap_or_default()
    };
    status.manifest_conditions.iter().map(reason).collect()
}

async fn remove(ctx: &Ctx, name: &str) -> Result<()> {
    let works = works(ctx).await?;
    works.delete(name, &DeleteParams::default()).await?;
    wait::until_gone(works, name).await?;
    let applied: Api<AppliedWork> = Api::all(ctx.client(MEMBER).await?);
    ensure!(
        applied.get_opt(name).await?.is_none(),
        "the AppliedWork outlived its Work"
    );
    Ok(())
}

#[test]
fn a_work_is_applied_becomes_available_and_goes() {
    scenario("apply", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let manifests = [
            config(&namespace, "settings", &json!({"a": "1"})),
            deployment(&namespace, "web", "nginx"),
        ];
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &json!({}), &manifests)?)
            .await?;
        let done = until(&ctx, &name, "Available", "True").await?;
        ensure!(is(&done, "Applied", "True"));
        ensure!(
            done.finalizers()
                .iter()
                .any(|f| f == "kubernetes-fleet.io/work-cleanup"),
            "applied without the finalizer"
        );
        let settings = configs(&ctx, &namespace).await?.get("settings").await?;
        let owner = &settings.owner_references()[0];
        ensure!(owner.kind == "AppliedWork" && owner.name == name && owner.block_owner_deletion == Some(true));
        for key in [
            "kubernetes-fleet.io/spec-hash",
            "kubernetes-fleet.io/last-applied-configuration",
        ] {
            ensure!(settings.annotations().contains_key(key), "no {key}");
        }
        let applied: Api<AppliedWork> = Api::all(ctx.client(MEMBER).await?);
        let written = |object: &AppliedWork| {
            let status = object.status.clone().unwrap_or_default();
            let listed = status.inventory.unwrap_or_default().entries;
            status.applied_resources.len() == 2 && listed.len() == 2 && listed.iter().all(|e| e.state == "Owned")
        };
        wait::until_present(applied, &name, "inventory", written).await?;
        remove(&ctx, &name).await?;
        ensure!(configs(&ctx, &namespace).await?.get_opt("settings").await?.is_none());
        Ok(())
    });
}

#[test]
fn changes_arrive_fields_go_and_what_is_dropped_is_removed() {
    scenario("change", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let api = configs(&ctx, &namespace).await?;
        let first = [
            config(&namespace, "one", &json!({"a": "1", "b": "2"})),
            config(&namespace, "two", &json!({})),
        ];
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &json!({}), &first)?)
            .await?;
        until(&ctx, &name, "Available", "True").await?;
        let extra = json!({"data": {"theirs": "x"}});
        api.patch("one", &PatchParams::default(), &Patch::Merge(&extra)).await?;
        edit(&ctx, &name, &[config(&namespace, "one", &json!({"a": "3"}))]).await?;
        until(&ctx, &name, "Available", "True").await?;
        wait::until_gone(api.clone(), "two").await?;
        let data = api.get("one").await?.data.unwrap_or_default();
        let shown: Vec<_> = data.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        ensure!(shown == [("a", "3"), ("theirs", "x")], "{shown:?}");
        remove(&ctx, &name).await
    });
}

#[test]
fn what_is_changed_or_deleted_on_the_member_comes_back_at_once() {
    scenario("drift", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let api = configs(&ctx, &namespace).await?;
        let manifests = [config(&namespace, "c", &json!({"a": "1"}))];
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &json!({}), &manifests)?)
            .await?;
        until(&ctx, &name, "Available", "True").await?;
        let is_back = |object: Option<&ConfigMap>| {
            let data = object.and_then(|object| object.data.as_ref());
            data.is_some_and(|data| data.get("a").is_some_and(|value| value == "1"))
        };
        let change = json!({"data": {"a": "2"}});
        api.patch("c", &PatchParams::default(), &Patch::Merge(&change)).await?;
        wait::until_within(SOON, api.clone(), "c", "overwritten", is_back).await?;
        api.delete("c", &DeleteParams::default()).await?;
        wait::until_within(SOON, api.clone(), "c", "created again", is_back).await?;
        remove(&ctx, &name).await
    });
}

#[test]
fn drift_is_reported_and_kept_when_asked() {
    scenario("ifnotdrifted", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let api = configs(&ctx, &namespace).await?;
        let strategy = json!({"whenToApply": "IfNotDrifted"});
        let manifests = [config(&namespace, "c", &json!({"a": "1"}))];
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &strategy, &manifests)?)
            .await?;
        until(&ctx, &name, "Available", "True").await?;
        let change = json!({"data": {"a": "2"}});
        api.patch("c", &PatchParams::default(), &Patch::Merge(&change)).await?;
        let drifted = until_entry(&ctx, &name, "drift", |entry| entry.drift_details.is_some()).await?;
        ensure!(reasons(&drifted, "Applied") == ["FoundDrifts"]);
        let entry = &drifted.status.unwrap_or_default().manifest_conditions[0];
        let detail = &entry.drift_details.as_ref().context("details")?.observed_drifts[0];
        ensure!(
            (
                detail.path.as_str(),
                detail.value_in_member.as_str(),
                detail.value_in_hub.as_str()
            ) == ("/data/a", "2", "1")
        );
        let back = json!({"data": {"a": "1"}});
        api.patch("c", &PatchParams::default(), &Patch::Merge(&back)).await?;
        until(&ctx, &name, "Available", "True").await?;
        remove(&ctx, &name).await
    });
}

#[test]
fn server_side_apply_takes_nothing_by_stealth() {
    scenario("ssa", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let strategy = json!({"type": "ServerSideApply"});
        let manifests = [
            config(&namespace, "c", &json!({"a": "1"})),
            deployment(&namespace, "web", "nginx"),
        ];
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &strategy, &manifests)?)
            .await?;
        until(&ctx, &name, "Available", "True").await?;
        // Controllers write the Deployment's status: that is no conflict.
        edit(
            &ctx,
            &name,
            &[
                config(&namespace, "c", &json!({"a": "2"})),
                deployment(&namespace, "web", "nginx:2"),
            ],
        )
        .await?;
        until(&ctx, &name, "Available", "True").await?;
        let theirs = PatchParams::apply("somebody").force();
        let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "9"}});
        configs(&ctx, &namespace)
            .await?
            .patch("c", &theirs, &Patch::Apply(&apply))
            .await?;
        let refused = until(&ctx, &name, "Applied", "False").await?;
        ensure!(reasons(&refused, "Applied")[0] == "ManifestApplyFailed");
        let force = json!({"spec": {"applyStrategy": {"serverSideApplyConfig": {"force": true}}}});
        works(&ctx)
            .await?
            .patch(&name, &PatchParams::default(), &Patch::Merge(&force))
            .await?;
        until(&ctx, &name, "Available", "True").await?;
        remove(&ctx, &name).await
    });
}

#[test]
fn differences_are_reported_without_touching_anything() {
    scenario("reportdiff", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}, "stringData": {"k": value}});
        let theirs: Secret = serde_json::from_value(secret("theirs"))?;
        ctx.create_in(MEMBER, &namespace, theirs).await?;
        let ours = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": namespace}, "data": {"k": "b3Vycw=="}});
        let strategy = json!({"type": "ReportDiff", "whenToTakeOver": "Never"});
        let manifests = [ours, config(&namespace, "absent", &json!({}))];
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &strategy, &manifests)?)
            .await?;
        let done = until(&ctx, &name, "DiffReported", "True").await?;
        ensure!(reasons(&done, "DiffReported") == ["FoundDiff", "FoundDiff"]);
        let entries = done.status.unwrap_or_default().manifest_conditions;
        let shown = |at: usize| {
            entries[at]
                .diff_details
                .clone()
                .map(|d| d.observed_diffs[0].clone())
                .unwrap_or_default()
        };
        ensure!(shown(0).path == "/data/k" && shown(0).value_in_hub == "(redacted for security reasons)");
        ensure!(shown(1).path == "/" && shown(1).value_in_hub == "(the whole object)");
        let secrets: Api<Secret> = Api::namespaced(ctx.client(MEMBER).await?, &namespace);
        ensure!(secrets.get("s").await?.owner_references().is_empty());
        // Seen when it happens.
        let theirs: ConfigMap = serde_json::from_value(config(&namespace, "absent", &json!({})))?;
        configs(&ctx, &namespace)
            .await?
            .create(&PostParams::default(), &theirs)
            .await?;
        until_entry(&ctx, &name, "no difference", |entry| {
            conditions::find(&entry.conditions, "DiffReported").is_some_and(|c| c.reason == "NoDiffFound")
        })
        .await?;
        remove(&ctx, &name).await?;
        ensure!(secrets.get_opt("s").await?.is_some(), "what was only compared is gone");
        Ok(())
    });
}

#[test]
fn what_belongs_to_others_is_taken_over_only_by_the_rules() {
    scenario("takeover", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        for object in ["same", "other"] {
            let theirs: ConfigMap = serde_json::from_value(config(&namespace, object, &json!({"a": "1"})))?;
            ctx.create_in(MEMBER, &namespace, theirs).await?;
        }
        let manifests = [
            config(&namespace, "same", &json!({"a": "1"})),
            config(&namespace, "other", &json!({"a": "2"})),
        ];
        let strategy = json!({"whenToTakeOver": "IfNoDiff"});
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &strategy, &manifests)?)
            .await?;
        let done = until(&ctx, &name, "Applied", "False").await?;
        ensure!(reasons(&done, "Applied") == ["Applied", "FailedToTakeOver"]);
        let api = configs(&ctx, &namespace).await?;
        ensure!(api.get("other").await?.owner_references().is_empty());
        ensure!(api.get("same").await?.owner_references().len() == 1);
        let always = json!({"spec": {"applyStrategy": {"whenToTakeOver": "Always"}}});
        works(&ctx)
            .await?
            .patch(&name, &PatchParams::default(), &Patch::Merge(&always))
            .await?;
        until(&ctx, &name, "Available", "True").await?;
        remove(&ctx, &name).await
    });
}

#[test]
fn bad_manifests_do_not_hold_up_good_ones() {
    scenario("bad", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let mut generated = config(&namespace, "x", &json!({}));
        generated["metadata"] = json!({"generateName": "x-", "namespace": namespace});
        let manifests = [
            config(&namespace, "good", &json!({})),
            json!({"apiVersion": "example.com/v1", "kind": "Nothing", "metadata": {"name": "n", "namespace": namespace}}),
            generated,
            config(&namespace, "good", &json!({"again": "yes"})),
            config("no-such-namespace", "lost", &json!({})),
        ];
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &json!({}), &manifests)?)
            .await?;
        let done = until(&ctx, &name, "Applied", "False").await?;
        let expected = [
            "Applied",
            "DecodingErred",
            "FoundGenerateName",
            "Duplicated",
            "ManifestApplyFailed",
        ];
        ensure!(reasons(&done, "Applied") == expected, "{:?}", reasons(&done, "Applied"));
        ensure!(conditions::find(&done.status.unwrap_or_default().conditions, "Available").is_none());
        remove(&ctx, &name).await
    });
}

#[test]
fn a_definition_and_its_object_go_in_one_round() {
    scenario("crd", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let (group, plural) = (format!("{}.example.com", ctx.prefix()), "gadgets");
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": plural, "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
            },
        });
        let gadget = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "g", "namespace": namespace}, "spec": {"a": 1}});
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &json!({}), &[gadget, definition])?)
            .await?;
        let done = until(&ctx, &name, "Available", "True").await?;
        ensure!(reasons(&done, "Available") == ["NotTrackable", "Available"]);
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Gadget"), plural);
        let gadgets: Api<DynamicObject> = Api::namespaced_with(ctx.client(MEMBER).await?, &namespace, &kind);
        gadgets.get("g").await?;
        remove(&ctx, &name).await
    });
}

#[test]
fn abandoned_objects_stay() {
    scenario("abandon", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let mut made = work(&name, &json!({}), &[config(&namespace, "c", &json!({}))])?;
        made.annotations_mut()
            .insert("kubernetes-fleet.io/delete-propagation".into(), "Abandon".into());
        ctx.create_in("hub", HUB_NAMESPACE, made).await?;
        until(&ctx, &name, "Available", "True").await?;
        remove(&ctx, &name).await?;
        let left = configs(&ctx, &namespace).await?.get("c").await?;
        ensure!(left.owner_references().is_empty(), "still owned");
        Ok(())
    });
}

#[test]
fn status_written_by_somebody_else_is_repaired() {
    scenario("repair", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        ctx.create_in(
            "hub",
            HUB_NAMESPACE,
            work(&name, &json!({}), &[config(&namespace, "c", &json!({}))])?,
        )
        .await?;
        until(&ctx, &name, "Available", "True").await?;
        let wrong = json!({"status": {"conditions": [], "manifestConditions": []}});
        works(&ctx)
            .await?
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&wrong))
            .await?;
        until(&ctx, &name, "Available", "True").await?;
        remove(&ctx, &name).await
    });
}

#[test]
fn status_is_mirrored_while_asked_for() {
    scenario("mirror", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let mut made = work(&name, &json!({}), &[deployment(&namespace, "web", "nginx")])?;
        let strategy = json!({"type": "Mirror", "destination": "OriginalResource"});
        made.spec.report_back_strategy = Some(serde_json::from_value(strategy)?);
        ctx.create_in("hub", HUB_NAMESPACE, made).await?;
        let mirrored = |work: &Work| {
            let status = work.status.clone().unwrap_or_default();
            let entry = status.manifest_conditions.into_iter().next();
            let shown = entry
                .and_then(|e| e.back_reported_status)
                .and_then(|b| b.observed_status);
            shown.is_some_and(|shown| shown.to_value()["status"]["availableReplicas"] == 2)
        };
        wait::until_present(works(&ctx).await?, &name, "mirrored", mirrored).await?;
        let off = json!({"spec": {"reportBackStrategy": {"type": "Disabled", "destination": null}}});
        works(&ctx)
            .await?
            .patch(&name, &PatchParams::default(), &Patch::Merge(&off))
            .await?;
        let cleared = |work: &Work| is(work, "Available", "True") && !mirrored(work);
        wait::until_present(works(&ctx).await?, &name, "cleared", cleared).await?;
        remove(&ctx, &name).await
    });
}

/// Whether a Deployment was left as it is by a restart.
async fn generation_of(client: Client, namespace: &str) -> Result<(Option<i64>, Option<String>)> {
    let deployments: Api<Deployment> = Api::namespaced(client, namespace);
    let object = deployments.get("web").await?;
    Ok((object.metadata.generation, object.uid()))
}

#[test]
#[ignore = "kills the agent that all scenarios share; run it alone"]
fn a_killed_agent_goes_on_where_it_was() {
    scenario("killed", |ctx| async move {
        let (namespace, name) = (ctx.namespace(MEMBER).await?, ctx.name("w"));
        let many: Vec<Value> = (0..60)
            .map(|i| config(&namespace, &format!("c{i:02}"), &json!({})))
            .collect();
        ctx.create_in("hub", HUB_NAMESPACE, work(&name, &json!({}), &many)?)
            .await?;
        let api = configs(&ctx, &namespace).await?;
        wait::until_present(api.clone(), "c00", "exists", |_| true).await?;
        ctx.fleet().kill(&agents::member_agent(MEMBER)).await?;
        let rest = vec![many[0].clone(), deployment(&namespace, "web", "nginx")];
        edit(&ctx, &name, &rest).await?;
        agents::ensure(ctx.fleet(), |_| {}).await?;
        until(&ctx, &name, "Available", "True").await?;
        wait::until_list(api, "only one of ours", |all| {
            all.iter().filter(|c| c.name_any().starts_with('c')).count() == 1
        })
        .await?;
        let before = generation_of(ctx.client(MEMBER).await?, &namespace).await?;
        ctx.fleet().kill(&agents::member_agent(MEMBER)).await?;
        agents::ensure(ctx.fleet(), |_| {}).await?;
        remove(&ctx, &name).await?;
        ensure!(before.1.is_some());
        Ok(())
    });
}
