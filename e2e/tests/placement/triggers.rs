//! What makes a placement look again, and what does not.

use anyhow::{Result, ensure};
use fleet_api::placement::{ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{
    Crp, Rp, bound, config_map, lines, namespace_selector, nowhere, selected, spec, whole_namespace,
};
use fleet_e2e::played::Cast;
use fleet_e2e::refusal::{Rule, WORDS, allow, refuse};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

async fn until_selected(crp: &Crp, expected: &[String]) -> Result<()> {
    crp.until(&format!("{expected:?}"), |crp| {
        crp.status.as_ref().is_some_and(|status| selected(status) == expected)
    })
    .await?;
    Ok(())
}

/// Waits until everything that was written before has been looked at: a placement of the same objects, made now, is
/// through.
async fn quiet(ctx: &Ctx, word: &str, namespace: &str) -> Result<()> {
    let marker = Crp::create(ctx, word, &spec(&whole_namespace(namespace), &nowhere())).await?;
    marker.until_step("Scheduled", "True").await?;
    Ok(())
}

#[test]
fn objects_that_come_change_and_go_are_noticed() {
    scenario("noticed", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let labels = json!({ "matchLabels": { "story": ctx.prefix() } });
        let map = format!("ConfigMap {namespace}/late");
        let whole = Crp::create(&ctx, "whole", &spec(&whole_namespace(&namespace), &nowhere())).await?;
        let only = json!([namespace_selector(&namespace, "NamespaceOnly")]);
        let only = Crp::create(&ctx, "only", &spec(&only, &nowhere())).await?;
        let role = json!({ "group": "rbac.authorization.k8s.io", "version": "v1", "kind": "ClusterRole", "labelSelector": labels });
        let roles = Crp::create(&ctx, "roles", &spec(&json!([role]), &nowhere())).await?;
        let maps = json!([{ "group": "", "version": "v1", "kind": "ConfigMap", "labelSelector": labels }]);
        let inside = Rp::create(&ctx, &namespace, "inside", &spec(&maps, &nowhere())).await?;
        let home = format!("Namespace {namespace}");
        until_selected(&whole, std::slice::from_ref(&home)).await?;
        until_selected(&only, std::slice::from_ref(&home)).await?;
        until_selected(&roles, &[]).await?;
        inside.until_step("Scheduled", "True").await?;
        let before = only.versions().await?;

        // They come.
        ctx.create_in("hub", &namespace, config_map("late", "1")).await?;
        until_selected(&whole, &[home.clone(), map.clone()]).await?;
        let name = ctx.name("role");
        let made: ClusterRole = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        ctx.create("hub", made).await?;
        // They begin to match, and cease to.
        let params = PatchParams::default();
        let api: Api<ClusterRole> = Api::all(ctx.hub().await?);
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        let label = |value: Value| Patch::Merge(json!({ "metadata": { "labels": { "story": value } } }));
        api.patch(&name, &params, &label(json!(ctx.prefix()))).await?;
        until_selected(&roles, &[format!("ClusterRole {name}")]).await?;
        maps.patch("late", &params, &label(json!(ctx.prefix()))).await?;
        inside
            .until("the labelled one", |rp| {
                rp.status.as_ref().is_some_and(|s| selected(s) == [map.clone()])
            })
            .await?;
        api.patch(&name, &params, &label(Value::Null)).await?;
        until_selected(&roles, &[]).await?;
        // They go.
        api.patch(&name, &params, &label(json!(ctx.prefix()))).await?;
        until_selected(&roles, &[format!("ClusterRole {name}")]).await?;
        api.delete(&name, &DeleteParams::default()).await?;
        until_selected(&roles, &[]).await?;
        maps.delete("late", &DeleteParams::default()).await?;
        until_selected(&whole, std::slice::from_ref(&home)).await?;
        inside
            .until("nothing", |rp| {
                rp.status.as_ref().is_some_and(|s| s.selected_resources.is_empty())
            })
            .await?;
        ensure!(only.versions().await? == before, "contents are no concern of it");
        Ok(())
    });
}

#[test]
fn what_does_not_concern_a_placement_writes_nothing() {
    scenario("unconcerned", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let forbidden = format!("kube-{}", ctx.prefix());
        let made: Namespace = serde_json::from_value(json!({ "metadata": { "name": forbidden } }))?;
        ctx.create("hub", made).await?;
        let crp = Crp::create(&ctx, "crp", &spec(&whole_namespace(&namespace), &nowhere())).await?;
        crp.until_step("Scheduled", "True").await?;
        // The placement may say so a moment before the snapshot does.
        crp.until_made("has decided", |list: &[ClusterSchedulingPolicySnapshot]| {
            list.iter().all(|snapshot| snapshot.status.is_some())
        })
        .await?;
        let labelled = crp
            .patch(&json!({ "metadata": { "labels": { "edited": "yes" } } }))
            .await?;
        ensure!(labelled.metadata.generation == Some(1), "{labelled:?}");
        let before = crp.versions().await?;
        ctx.create_in("hub", &forbidden, config_map("elsewhere", "1")).await?;
        let api: Api<Namespace> = Api::all(ctx.hub().await?);
        // Written by the namespace controller all the time.
        let status = Patch::Merge(json!({ "status": { "conditions": [{
            "type": "NamespaceContentRemaining", "status": "False", "reason": "ContentRemoved", "message": "nothing",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }] } }));
        api.patch_status(&namespace, &PatchParams::default(), &status).await?;
        quiet(&ctx, "marker", &namespace).await?;
        ensure!(crp.versions().await? == before, "something was written");
        // A change of the spec is one pass: the policy snapshot says for which generation.
        crp.patch(&json!({ "spec": { "revisionHistoryLimit": 5 } })).await?;
        crp.until_made("seen", |list: &[ClusterSchedulingPolicySnapshot]| {
            list.len() == 1 && list[0].annotations()["kubernetes-fleet.io/CRP-generation"] == "2"
        })
        .await?;
        Ok(())
    });
}

#[test]
fn a_write_that_is_refused_is_done_later() {
    scenario("refused", |ctx| async move {
        let namespace = ctx.namespace("hub").await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let steps = [
            ("placement", "clusterresourceplacements"),
            ("policy", "clusterschedulingpolicysnapshots"),
            ("resources", "clusterresourcesnapshots"),
            ("decisions", "clusterschedulingpolicysnapshots/status"),
            ("binding", "clusterresourcebindings"),
            ("work", "works"),
            ("progress", "clusterresourcebindings/status"),
            ("status", "clusterresourceplacements/status"),
        ];
        // Everything that the agent writes for a placement, one kind of write each. Users' own edits pass.
        let rules = steps.map(|(word, resource)| {
            let name = ctx.name(word);
            let parent = "'kubernetes-fleet.io/parent-CRP'";
            let condition = format!(
                "request.userInfo.username.contains('hub-agent') && (object.metadata.name == '{name}' || \
                 (has(object.metadata.labels) && {parent} in object.metadata.labels && \
                 object.metadata.labels[{parent}] == '{name}'))"
            );
            Rule {
                word,
                group: "placement.kubernetes-fleet.io",
                resource,
                condition,
                reason: "Invalid",
            }
        });
        refuse(&ctx, &rules).await?;
        let spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        let mut held = Vec::new();
        for (word, _) in steps {
            held.push((word, Crp::create(&ctx, word, &spec).await?));
        }
        let free = Crp::create(&ctx, "free", &spec).await?;
        free.until_available(0).await?;
        // What only they themselves would show does not hold the placement back.
        let own_words = |word: &str| ["decisions", "progress"].contains(&word);
        for (_, crp) in held.iter().filter(|(word, _)| own_words(word)) {
            crp.until_available(0).await?;
        }
        for (word, crp) in held.iter().filter(|(word, _)| !own_words(word)) {
            let status = crp.status().await?;
            ensure!(
                !lines(&status.conditions)
                    .iter()
                    .any(|line| line.starts_with("Available=True")),
                "{word} was not refused: {:#?}",
                lines(&status.conditions)
            );
        }
        // What users have to know is said where it can be.
        for (_, crp) in &held[1..=2] {
            crp.until_held(&[WORDS]).await?;
        }
        let (_, crp) = &held[5];
        let status = crp.until_step("WorkSynchronized", "False").await?;
        let said = lines(&status.placement_statuses[0].conditions);
        ensure!(
            said.iter()
                .any(|line| line.contains("SyncWorkFailed") && line.contains(WORDS)),
            "{said:#?}"
        );
        for (word, _) in steps {
            allow(&ctx, word).await?;
        }
        for (_, crp) in &held {
            crp.until_available(0).await?;
            crp.until_bindings("to show it themselves", |all| {
                all.iter()
                    .all(|binding| bound(binding, "Available").is_some_and(|said| said.status == "True"))
            })
            .await?;
            let policies = crp.made::<ClusterSchedulingPolicySnapshot>().await?;
            let resources = crp.made::<ClusterResourceSnapshot>().await?;
            ensure!(
                policies.len() == 1 && resources.len() == 1,
                "{}: {} and {}",
                crp.name,
                policies.len(),
                resources.len()
            );
        }
        Ok(())
    });
}
