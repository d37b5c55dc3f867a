//! How a Work ends.

use anyhow::ensure;
use fleet_api::placement::AppliedWork;
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt as _;
use kube::api::DeleteParams;
use serde_json::json;

use crate::site::{data, on_site, owners, work};

#[test]
fn abandoned_objects_stay() {
    on_site("abandon", |site| async move {
        let mut made = work(&site.name, &json!({}), &[site.config("c", &json!({}))])?;
        made.annotations_mut()
            .insert("kubernetes-fleet.io/delete-propagation".into(), "Abandon".into());
        site.ctx.create_in("hub", &site.hub_namespace, made).await?;
        site.available().await?;
        site.remove().await?;
        let left = site.configs().get("c").await?;
        ensure!(owners(&left).is_empty(), "still owned");
        ensure!(left.annotations().contains_key("kubernetes-fleet.io/spec-hash"));
        Ok(())
    });
}

#[test]
fn a_work_made_again_under_its_name_waits_for_the_old_one() {
    on_site("again", |site| async move {
        site.apply(&json!({}), &[site.config("c", &json!({"a": "1"}))]).await?;
        site.available().await?;
        // Its end is held up by an object that does not go.
        site.tamper("c", &json!({"metadata": {"finalizers": ["example.com/keep"]}}))
            .await?;
        let old = site.applied_works().get(&site.name).await?.uid();
        site.works().delete(&site.name, &DeleteParams::default()).await?;
        let going = |object: &AppliedWork| object.metadata.deletion_timestamp.is_some();
        wait::until_present(site.applied_works(), &site.name, "going", going).await?;
        // Somebody strips the Work of its finalizer and makes it again.
        site.patch(&json!({"metadata": {"finalizers": null}})).await?;
        wait::until_gone(site.works(), &site.name).await?;
        site.apply(&json!({}), &[site.config("c", &json!({"a": "2"}))]).await?;
        ensure!(data(&site.configs().get("c").await?, "a") == Some("1"));
        site.tamper("c", &json!({"metadata": {"finalizers": null}})).await?;
        site.available().await?;
        let new = site.applied_works().get(&site.name).await?;
        ensure!(new.uid() != old && new.metadata.deletion_timestamp.is_none());
        let config = site.configs().get("c").await?;
        ensure!(data(&config, "a") == Some("2"));
        ensure!(Some(config.owner_references()[0].uid.clone()) == new.uid());
        site.remove().await
    });
}

#[test]
fn an_applied_work_deleted_by_hand_comes_back_with_all_its_objects() {
    on_site("by-hand", |site| async move {
        site.apply(
            &json!({}),
            &[site.config("c", &json!({})), site.config("d", &json!({}))],
        )
        .await?;
        site.available().await?;
        let before = site.configs().get("c").await?.uid();
        for how in [DeleteParams::foreground(), DeleteParams::background()] {
            let old = site.applied_works().get(&site.name).await?.uid();
            site.applied_works().delete(&site.name, &how).await?;
            let is_new = |object: &AppliedWork| object.uid() != old && object.metadata.deletion_timestamp.is_none();
            let new = wait::until_present(site.applied_works(), &site.name, "made again", is_new).await?;
            let ours = |config: &ConfigMap| {
                config
                    .owner_references()
                    .iter()
                    .all(|o| Some(&o.uid) == new.uid().as_ref())
                    && !config.owner_references().is_empty()
            };
            for name in ["c", "d"] {
                wait::until_present(site.configs(), name, "ours again", ours).await?;
            }
        }
        ensure!(site.configs().get("c").await?.uid() != before);
        site.available().await?;
        site.remove().await
    });
}
