//! The end of placements: nothing of them stays, and nothing of others goes.

use std::time::Duration;

use anyhow::ensure;
use fleet_api::labels;
use fleet_api::placement::{
    ClusterResourceBinding, ClusterResourceSnapshot, ClusterSchedulingPolicySnapshot, ResourceSnapshot,
    SchedulingPolicySnapshot, Work,
};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, Rp, config_map, core_selector, furnished, nothing, seen, spec, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use k8s_openapi::api::core::v1::Namespace;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::json;

#[test]
fn a_deleted_placement_takes_its_own_and_only_its_own_along() {
    scenario("end", |ctx| async move {
        let here = ctx.namespace("hub").await?;
        let there = ctx.another_namespace("hub", "there").await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        for namespace in [&here, &there] {
            ctx.create_in("hub", namespace, config_map("settings", "1")).await?;
        }
        seen(&ctx, &whole_namespace(&there), 2).await?;
        let inside = spec(&json!([core_selector("ConfigMap", "settings")]), &cast.everywhere());
        // Three placements of one name.
        let ours = Rp::create(&ctx, &here, "p", &inside).await?;
        let theirs = Rp::create(&ctx, &there, "p", &inside).await?;
        let whole = spec(&whole_namespace(&there), &cast.everywhere());
        let above = Crp::create(&ctx, "p", &whole).await?;
        ours.until_available(0).await?;
        theirs.until_available(0).await?;
        above.until_available(0).await?;
        let finalizers = ours.get().await?.finalizers().to_vec();
        ensure!(
            finalizers
                == [
                    "kubernetes-fleet.io/crp-cleanup",
                    "kubernetes-fleet.io/scheduler-cleanup"
                ],
            "{finalizers:?}"
        );
        ours.remove().await?;
        let events = ours.until_event("PlacementCleanupFinalizerRemoved").await?;
        let told: Vec<_> = events
            .iter()
            .filter(|event| event.reason.as_deref() == Some("PlacementCleanupFinalizerRemoved"))
            .collect();
        ensure!(told.len() == 1 && told[0].count.unwrap_or(1) == 1, "{told:?}");
        let words = "Deleted the snapshots and removed the placement cleanup finalizer";
        ensure!(told[0].message.as_deref() == Some(words), "{told:?}");
        ensure!(
            theirs.made::<ResourceSnapshot>().await?.len() == 1,
            "taken from a neighbour"
        );
        ensure!(
            theirs.made::<SchedulingPolicySnapshot>().await?.len() == 1,
            "taken from a neighbour"
        );
        ensure!(
            above.made::<ClusterResourceSnapshot>().await?.len() == 1,
            "taken from above"
        );
        ensure!(
            above.made::<ClusterSchedulingPolicySnapshot>().await?.len() == 1,
            "taken from above"
        );
        above.remove().await?;
        ensure!(theirs.made::<ResourceSnapshot>().await?.len() == 1, "taken from below");
        theirs.until_step("Available", "True").await?;
        Ok(())
    });
}

#[test]
fn a_placement_can_be_deleted_at_every_step() {
    scenario("end-steps", |ctx| async move {
        let namespace = furnished(&ctx).await?;
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let spec = spec(&whole_namespace(&namespace), &cast.everywhere());
        for step in [
            "at once",
            "held",
            "policy",
            "resources",
            "bound",
            "works",
            "failed",
            "available",
            "wrong",
        ] {
            let word = format!("at-{}", step.replace(' ', "-"));
            if step == "failed" {
                cast.act(&["a"], Act::Failing(1));
            }
            let crp = Crp::create(&ctx, &word, &spec).await?;
            match step {
                "held" => drop(crp.until("held", |crp| !crp.finalizers().is_empty()).await?),
                "policy" => {
                    crp.until_made(step, |list: &[ClusterSchedulingPolicySnapshot]| !list.is_empty())
                        .await?;
                }
                "resources" => {
                    crp.until_made(step, |list: &[ClusterResourceSnapshot]| !list.is_empty())
                        .await?;
                }
                "bound" => {
                    crp.until_made(step, |list: &[ClusterResourceBinding]| !list.is_empty())
                        .await?;
                }
                "works" => drop(crp.until_works(step, |works| !works.is_empty()).await?),
                "failed" => {
                    crp.until_step("Applied", "False").await?;
                    cast.act(&["a"], Act::Available);
                }
                "available" => drop(crp.until_available(0).await?),
                "wrong" => {
                    let bad = json!([core_selector("Namespace", "kube-system")]);
                    crp.patch(&json!({ "spec": { "resourceSelectors": bad } })).await?;
                    crp.until_step("Scheduled", "False").await?;
                }
                _ => {}
            }
            crp.remove().await?;
        }
        Ok(())
    });
}

#[test]
fn a_placement_can_be_deleted_at_any_moment() {
    scenario("end-moments", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let spec = spec(&nothing(&ctx), &cast.everywhere());
        let mut going = Vec::new();
        for n in 0..12 {
            let crp = Crp::create(&ctx, &format!("crp-{n}"), &spec).await?;
            // Any moment is what is tested: there is nothing to wait for.
            tokio::time::sleep(Duration::from_millis(fastrand::u64(0..80))).await;
            crp.delete().await?;
            going.push(crp);
        }
        for crp in &going {
            crp.until_gone().await?;
        }
        Ok(())
    });
}

#[test]
fn a_placement_whose_finalizers_were_taken_away_leaves_nothing() {
    scenario("end-force", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let spec = spec(&nothing(&ctx), &cast.everywhere());
        let crp = Crp::create(&ctx, "crp", &spec).await?;
        crp.until_available(0).await?;
        // The agent puts them back when it sees that; whoever is faster.
        let kubectl = ctx.kubectl("hub")?;
        let patch = r#"{"metadata":{"finalizers":null}}"#;
        let take = async {
            let taken = kubectl
                .ok(&["patch", "crp", &crp.name, "--type=merge", "-p", patch])
                .await;
            // The deletion may be over by then.
            taken.map(drop).or_else(|error| {
                if error.to_string().contains("(NotFound)") {
                    Ok(())
                } else {
                    Err(error)
                }
            })
        };
        let delete = async {
            let done = kubectl.ok(&["delete", "crp", &crp.name, "--wait=false"]).await;
            done.map(drop)
        };
        tokio::try_join!(take, delete)?;
        crp.until_gone().await
    });
}

#[test]
fn a_namespace_goes_with_the_placements_in_it() {
    scenario("end-inside", |ctx| async move {
        let namespace = ctx.another_namespace("hub", "going").await?;
        ctx.create_in("hub", &namespace, config_map("settings", "1")).await?;
        seen(&ctx, &whole_namespace(&namespace), 2).await?;
        let cast = Cast::new(&ctx, &["a"]).await?;
        let rp = Rp::create(
            &ctx,
            &namespace,
            "rp",
            &spec(&json!([core_selector("ConfigMap", "settings")]), &cast.everywhere()),
        )
        .await?;
        rp.until_available(0).await?;
        let api: Api<Namespace> = Api::all(ctx.hub().await?);
        api.delete(&namespace, &DeleteParams::default()).await?;
        rp.until_works("no Work", <[_]>::is_empty).await?;
        fleet_e2e::wait::until_gone(api, &namespace).await
    });
}

#[test]
fn a_work_without_a_binding_goes_only_if_its_binding_was_seen_to_go() {
    scenario("end-late", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        furnished(&ctx).await?;
        let crp = Crp::create(&ctx, "crp", &spec(&whole_namespace(ctx.prefix()), &cast.everywhere())).await?;
        crp.until_available(0).await?;
        let binding = crp.binding(&cast.name("a")).await?.name_any();
        crp.remove().await?;
        // One comes from a backup, before its binding; one is made by a request that nobody waited for any more.
        let member = cast.member("a");
        let works: Api<Work> = Api::namespaced(ctx.hub().await?, &member.namespace());
        for (name, of) in [("restored", "not-yet-restored"), ("late", binding.as_str())] {
            let labels = json!({ labels::PARENT_BINDING: of, labels::PARENT_PLACEMENT: ctx.name("crp") });
            let work =
                json!({ "metadata": { "name": name, "labels": labels }, "spec": { "workload": { "manifests": [] } } });
            ctx.create_in::<Work>("hub", &member.namespace(), serde_json::from_value(work)?)
                .await?;
        }
        fleet_e2e::wait::until_gone(works.clone(), "late").await?;
        let restored = works.get("restored").await?;
        ensure!(restored.metadata.deletion_timestamp.is_none(), "{restored:?}");
        Ok(())
    });
}
