//! Works: kept as they should be, split when there is much, explained when they cannot be written.

use anyhow::{Context as _, Result, ensure};
use fleet_api::placement::{ClusterResourceSnapshot, Work};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, bound, change, config_map, place, rolling, seen, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::wait;
use fleet_e2e::works::{Held, contains, manifest};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

async fn synced(crp: &Crp, status: &str) -> Result<String> {
    let all = crp
        .until_bindings(&format!("WorkSynchronized {status}"), |all| {
            all.first()
                .and_then(|b| bound(b, "WorkSynchronized"))
                .is_some_and(|c| c.status == status)
        })
        .await?;
    Ok(bound(&all[0], "WorkSynchronized")
        .map(|c| c.message.clone())
        .unwrap_or_default())
}

#[test]
fn a_work_that_somebody_edits_or_deletes_is_restored() {
    scenario("work-hand", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let works: Api<Work> = Api::namespaced(ctx.hub().await?, &cast.member("a").namespace());
        let name = format!("{}-work", crp.name);
        let before = works.get(&name).await?;
        let wrong = Patch::Merge(json!({ "spec": { "workload": { "manifests": [] } } }));
        works.patch(&name, &PatchParams::default(), &wrong).await?;
        wait::until_present(works.clone(), &name, "its manifests", |w| {
            w.spec.workload == before.spec.workload
        })
        .await?;
        crp.until_available(0).await?;
        works.delete(&name, &DeleteParams::default()).await?;
        wait::until_present(works.clone(), &name, "made again", |w| w.uid() != before.uid()).await?;
        crp.until_available(0).await?;
        // While the old one hangs there cannot be a new one, and that is said.
        let hanging = Held::hold(&ctx, &cast.member("a").namespace(), &name).await?;
        works.delete(&name, &DeleteParams::default()).await?;
        let message = synced(&crp, "False").await?;
        ensure!(
            message
                == format!(
                    "Failed to synchronize the work to the latest: works.placement.kubernetes-fleet.io \"{name}\" already \
                     exists"
                ),
            "{message}"
        );
        hanging.release().await?;
        synced(&crp, "True").await?;
        crp.until_available(0).await?;
        Ok(())
    });
}

#[test]
fn much_is_split_into_several_works_and_put_together_again() {
    scenario("work-split", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let namespace = ctx.namespace("hub").await?;
        for name in ["one", "two", "three"] {
            ctx.create_in("hub", &namespace, config_map(name, &"x".repeat(500_000)))
                .await?;
        }
        seen(&ctx, &whole_namespace(&namespace), 4).await?;
        let spec = json!({ "resourceSelectors": whole_namespace(&namespace), "policy": cast.everywhere() });
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        let placed = |works: &[Work], name: &str| {
            works
                .iter()
                .filter(|w| manifest(w, "ConfigMap", name).is_some())
                .count()
        };
        let works = crp
            .until_works("all three", |works| {
                ["one", "two", "three"].iter().all(|name| placed(works, name) == 1)
            })
            .await?;
        let mut names: Vec<_> = works.iter().map(kube::ResourceExt::name_any).collect();
        names.sort();
        ensure!(
            names
                == [
                    format!("{}-0", crp.name),
                    format!("{}-1", crp.name),
                    format!("{}-work", crp.name)
                ],
            "{names:?}"
        );
        crp.until_available(0).await?;
        // What moves from one Work into another is never without one.
        let maps: Api<ConfigMap> = Api::namespaced(ctx.hub().await?, &namespace);
        maps.delete("one", &DeleteParams::default()).await?;
        let mut lost = false;
        crp.until_works("two Works", |works| {
            lost |= placed(works, "two") == 0 || placed(works, "three") == 0;
            works.len() == 2 && placed(works, "one") == 0
        })
        .await?;
        ensure!(!lost, "an object was in no Work for a moment");
        for name in ["two", "three"] {
            maps.delete(name, &DeleteParams::default()).await?;
        }
        crp.until_works("one", |works| works.len() == 1 && !contains(&works[0], "xxx"))
            .await?;
        crp.until_bindings("available", |all| {
            bound(&all[0], "Available").is_some_and(|c| c.status == "True")
        })
        .await?;
        crp.remove().await
    });
}

#[test]
fn snapshots_that_somebody_deletes_are_no_loss() {
    scenario("work-snapshot", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        crp.until_available(0).await?;
        let snapshots: Api<ClusterResourceSnapshot> = Api::all(ctx.hub().await?);
        let name = crp.snapshot(0);
        let before = crp.works().await?;
        snapshots.delete(&name, &DeleteParams::default()).await?;
        wait::until_present(snapshots, &name, "made again", |_| true).await?;
        change(&ctx, "two").await?;
        crp.until_text_on("\"two\"", &[cast.name("a")]).await?;
        crp.until_available(1).await?;
        let after = crp.works().await?;
        ensure!(after.len() == 1 && after[0].uid() == before[0].uid(), "{after:?}");
        Ok(())
    });
}

#[test]
fn only_so_many_snapshots_are_kept_and_none_in_use_is_lost() {
    scenario("work-history", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(0))).await?;
        crp.until_available(0).await?;
        // b stays with what it has: only a moves.
        crp.edit(json!({ "revisionHistoryLimit": 2 })).await?;
        cast.act(&["a", "b"], Act::Silent);
        let snapshots: Api<ClusterResourceSnapshot> = Api::all(ctx.hub().await?);
        for n in 1..5 {
            change(&ctx, &format!("value-{n}")).await?;
            let name = crp.snapshot(n);
            wait::until_present(snapshots.clone(), &name, "exists", |_| true).await?;
            crp.until_text_on(&format!("value-{n}"), &[cast.name("a")]).await?;
        }
        let kept = crp
            .until_made(
                "the last two and the one in use",
                |all: &[ClusterResourceSnapshot]| all.len() == 3,
            )
            .await?;
        let mut names: Vec<_> = kept.iter().map(kube::ResourceExt::name_any).collect();
        names.sort();
        let wanted: Vec<_> = [0, 3, 4].map(|n| crp.snapshot(n)).to_vec();
        ensure!(names == wanted, "{names:?}");
        Ok(())
    });
}

#[test]
fn a_member_namespace_that_is_going_is_explained_and_waited_for() {
    scenario("work-going", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let hub = ctx.hub().await?;
        let namespace = cast.member("a").namespace();
        // Somebody deletes the member's namespace, and something in it hangs.
        let maps: Api<ConfigMap> = Api::namespaced(hub.clone(), &namespace);
        let holder = json!({ "metadata": { "name": "holder", "finalizers": ["example.com/hold"] } });
        maps.create(&kube::api::PostParams::default(), &serde_json::from_value(holder)?)
            .await?;
        let namespaces: Api<Namespace> = Api::all(hub);
        namespaces.delete(&namespace, &DeleteParams::default()).await?;
        wait::until_present(namespaces.clone(), &namespace, "terminating", |n| {
            n.metadata.deletion_timestamp.is_some()
        })
        .await?;
        let crp = place(&ctx, cast.only(&["a"]), rolling(&json!(1), &json!(1))).await?;
        let message = synced(&crp, "False").await?;
        ensure!(
            message
                == format!(
                    "Failed to synchronize the work to the latest: works.placement.kubernetes-fleet.io \"{}-work\" is \
                     forbidden: unable to create new content in namespace {namespace} because it is being terminated",
                    crp.name
                ),
            "{message}"
        );
        let said = crp.until_condition("WorkSynchronized", "False").await?;
        ensure!(
            said.message == "There are 1 cluster(s) which have not finished creating or updating work(s) yet",
            "{said:?}"
        );
        let release = Patch::Merge(json!({ "metadata": { "finalizers": [] } }));
        maps.patch("holder", &PatchParams::default(), &release).await?;
        cast.member("a").ready().await?;
        synced(&crp, "True").await?;
        crp.until_available(0).await.context("after the namespace is back")?;
        Ok(())
    });
}
