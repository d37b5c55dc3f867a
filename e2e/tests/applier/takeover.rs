//! Objects that were there before.

use anyhow::{Result, ensure};
use fleet_api::placement::AppliedWork;
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use kube::ResourceExt as _;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::site::{Site, data, diffs, messages, on_site, owners, reasons, work};

#[test]
fn what_belongs_to_others_is_taken_over_only_by_the_rules() {
    on_site("takeover", |site| async move {
        for object in ["same", "other"] {
            site.theirs::<ConfigMap>(&site.config(object, &json!({"a": "1"})))
                .await?;
        }
        let manifests = [
            site.config("same", &json!({"a": "1"})),
            site.config("other", &json!({"a": "2"})),
        ];
        site.apply(&json!({"whenToTakeOver": "Never"}), &manifests).await?;
        site.until_reasons("Applied", &["NotTakenOver", "NotTakenOver"]).await?;
        site.patch(&json!({"spec": {"applyStrategy": {"whenToTakeOver": "IfNoDiff"}}}))
            .await?;
        let done = site.until_reasons("Applied", &["Applied", "FailedToTakeOver"]).await?;
        ensure!(
            diffs(&done, 1) == [("/data/a".into(), "1".into(), "2".into())],
            "{:?}",
            diffs(&done, 1)
        );
        ensure!(owners(&site.configs().get("other").await?).is_empty());
        ensure!(owners(&site.configs().get("same").await?).len() == 1);
        site.patch(&json!({"spec": {"applyStrategy": {"whenToTakeOver": "Always"}}}))
            .await?;
        site.available().await?;
        ensure!(data(&site.configs().get("other").await?, "a") == Some("2"));
        // Never does not give back what is ours.
        site.patch(&json!({"spec": {"applyStrategy": {"whenToTakeOver": "Never"}}}))
            .await?;
        site.available().await?;
        site.remove().await
    });
}

async fn owned_by(site: &Site, name: &str, owner: &Value) -> Result<ConfigMap> {
    let mut object = site.config(name, &json!({"a": "1"}));
    object["metadata"]["ownerReferences"] = json!([owner]);
    site.theirs(&object).await
}

#[test]
fn what_somebody_owns_is_shared_only_when_that_is_allowed() {
    on_site("foreign", |site| async move {
        let service: Service = site
            .theirs(&json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "owner"}, "spec": {"ports": [{"port": 80}]}}))
            .await?;
        let owner = json!({"apiVersion": "v1", "kind": "Service", "name": "owner", "uid": service.uid()});
        owned_by(&site, "c", &owner).await?;
        site.apply(&json!({}), &[site.config("c", &json!({"a": "2"}))]).await?;
        let refused = site.until_reasons("Applied", &["FailedToTakeOver"]).await?;
        let text = &messages(&refused, "Applied")[0];
        ensure!(
            text.contains("co-ownership is disallowed") && text.contains("Service owner"),
            "{text}"
        );
        site.patch(&json!({"spec": {"applyStrategy": {"allowCoOwnership": true}}}))
            .await?;
        site.available().await?;
        ensure!(owners(&site.configs().get("c").await?) == ["Service", "AppliedWork"]);
        site.remove().await?;
        ensure!(owners(&site.configs().get("c").await?) == ["Service"]);
        Ok(())
    });
}

#[test]
fn an_object_is_placed_by_one_work_until_that_is_gone() {
    on_site("two-works", |mut site| async move {
        let (first, second) = (site.name.clone(), site.ctx.name("second"));
        site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
        site.available().await?;
        site.name.clone_from(&second);
        let strategy = json!({"allowCoOwnership": true});
        site.apply(&strategy, &[site.config("c", &json!({"a": "2"}))]).await?;
        let refused = site.until_reasons("Applied", &["FailedToTakeOver"]).await?;
        let text = &messages(&refused, "Applied")[0];
        ensure!(
            text.contains("already owned by another Fleet AppliedWork object"),
            "{text}"
        );
        ensure!(data(&site.configs().get("c").await?, "a") == Some("1"));
        site.name = first;
        site.remove().await?;
        site.name = second;
        site.available().await?;
        ensure!(data(&site.configs().get("c").await?, "a") == Some("2"));
        site.remove().await
    });
}

/// An AppliedWork as another agent would have left it, with objects that it owns.
async fn left_behind(site: &Site, name: &str, objects: &[&str]) -> Result<AppliedWork> {
    let made = json!({"metadata": {"name": name}, "spec": {"workName": name, "workNamespace": site.hub_namespace}});
    let made: AppliedWork = site.ctx.create(site.cluster, serde_json::from_value(made)?).await?;
    let owner = json!({
        "apiVersion": "placement.kubernetes-fleet.io/v1beta1", "kind": "AppliedWork", "name": name, "uid": made.uid(),
        "blockOwnerDeletion": true,
    });
    let mut listed = Vec::new();
    for (ordinal, object) in objects.iter().enumerate() {
        let config = owned_by(site, object, &owner).await?;
        listed.push(json!({
            "ordinal": ordinal, "version": "v1", "kind": "ConfigMap", "resource": "configmaps",
            "namespace": site.namespace, "name": object, "uid": config.uid(),
        }));
    }
    let status = json!({"status": {"appliedResources": listed}});
    let api: Api<AppliedWork> = site.applied_works();
    Ok(api
        .patch_status(name, &PatchParams::default(), &Patch::Merge(&status))
        .await?)
}

#[test]
fn what_another_agent_applied_is_carried_on_and_its_leftovers_go() {
    on_site("adopted", |site| async move {
        left_behind(&site, &site.name, &["one", "dropped"]).await?;
        let before = site.configs().get("one").await?.uid();
        // Ours already: there is nothing to take over.
        let strategy = json!({"whenToTakeOver": "Never"});
        site.apply(&strategy, &[site.config("one", &json!({"a": "2"}))]).await?;
        site.available().await?;
        let one = site.configs().get("one").await?;
        ensure!(one.uid() == before && data(&one, "a") == Some("2"));
        wait::until_gone(site.configs(), "dropped").await?;
        site.remove().await
    });
}

#[test]
fn a_work_of_another_agent_is_removed_with_all_that_it_listed() {
    on_site("adopted-end", |site| async move {
        let applied = left_behind(&site, &site.name, &["one", "two"]).await?;
        let mut made = work(&site.name, &json!({}), &[])?;
        made.finalizers_mut()
            .push("kubernetes-fleet.io/work-cleanup".to_owned());
        ensure!(applied.status.unwrap_or_default().inventory.is_none());
        site.ctx.create_in("hub", &site.hub_namespace, made).await?;
        site.remove().await?;
        for name in ["one", "two"] {
            wait::until_gone(site.configs(), name).await?;
        }
        Ok(())
    });
}

#[test]
fn an_owner_without_a_work_stands_in_nobodys_way() {
    on_site("orphan", |site| async move {
        let old = site.ctx.name("old");
        left_behind(&site, &old, &["c"]).await?;
        site.apply(&json!({}), &[site.config("c", &json!({"a": "2"}))]).await?;
        let done = site.available().await?;
        ensure!(reasons(&done, "Applied") == ["Applied"]);
        let config = site.configs().get("c").await?;
        ensure!(config.owner_references().len() == 1 && config.owner_references()[0].name == site.name);
        ensure!(
            site.applied_works().get_opt(&old).await?.is_some(),
            "nobody deletes what has no Work"
        );
        site.remove().await
    });
}
