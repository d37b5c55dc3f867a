//! The end of a placement, at every step.

use anyhow::ensure;
use fleet_api::placement::{BindingState, ClusterResourcePlacement, ClusterResourceSnapshot};
use fleet_api::{finalizers, labels};
use fleet_e2e::harness::scenario;
use fleet_e2e::placements::{Crp, place, rolling, whole_namespace};
use fleet_e2e::played::{Act, Cast};
use fleet_e2e::wait;
use fleet_e2e::works::Held;
use kube::ResourceExt as _;
use serde_json::json;

#[test]
fn a_placement_does_not_wait_for_members_but_its_bindings_do() {
    scenario("sched-end", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        let both = [
            (cast.name("a"), BindingState::Bound),
            (cast.name("b"), BindingState::Bound),
        ];
        crp.until_states(&both).await?;
        let works = crp.until_works("two", |works| works.len() == 2).await?;
        // The member on b is slow to clean up.
        let slow = works
            .iter()
            .find(|w| w.namespace() == Some(cast.member("b").namespace()));
        let slow = slow.map(kube::ResourceExt::name_any).unwrap_or_default();
        let slow = Held::hold(&ctx, &cast.member("b").namespace(), &slow).await?;

        crp.delete().await?;
        wait::until_gone(crp.api::<ClusterResourcePlacement>().await?, &crp.name).await?;
        let left = crp
            .until_bindings("only the one that waits, without the scheduler", |all| {
                all.len() == 1
                    && all[0].spec.target_cluster == cast.name("b")
                    && all[0].finalizers() == [finalizers::WORK.to_owned()]
            })
            .await?;
        ensure!(left[0].metadata.deletion_timestamp.is_some(), "{left:?}");
        let snapshots = crp.made::<ClusterResourceSnapshot>().await?;
        ensure!(snapshots.is_empty(), "{snapshots:?}");
        slow.release().await?;
        crp.until_bindings("none", <[_]>::is_empty).await?;
        crp.until_works("none", <[_]>::is_empty).await?;
        Ok(())
    });
}

#[test]
fn bindings_of_every_state_go_with_their_placement() {
    scenario("sched-states", |ctx| async move {
        let cast = Cast::new(&ctx, &["a", "b", "c"]).await?;
        let crp = place(&ctx, cast.only(&["a", "b"]), rolling(&json!(0), &json!(0))).await?;
        let (a, b, c) = (cast.name("a"), cast.name("b"), cast.name("c"));
        crp.until_states(&[(a.clone(), BindingState::Bound), (b.clone(), BindingState::Bound)])
            .await?;
        cast.act(&["a", "b"], Act::Available);
        crp.until_available(0).await?;
        // With no budget at all the old one cannot go and the new one cannot come.
        crp.edit(json!({ "policy": { "clusterNames": [b, c] } })).await?;
        crp.until_states(&[
            (a, BindingState::Unscheduled),
            (b, BindingState::Bound),
            (c, BindingState::Scheduled),
        ])
        .await?;
        crp.remove().await
    });
}

#[test]
fn a_binding_without_its_label_stops_nobody() {
    scenario("sched-stray", |ctx| async move {
        let cast = Cast::new(&ctx, &["a"]).await?;
        let crp = place(&ctx, cast.everywhere(), rolling(&json!(1), &json!(1))).await?;
        let first = crp.until_states(&[(cast.name("a"), BindingState::Bound)]).await?;
        let name = first[0].name_any();
        crp.patch_binding(
            &name,
            json!({ "metadata": { "labels": { labels::PARENT_PLACEMENT: null } } }),
        )
        .await?;
        // Its name is taken, and whoever placed something is told by what.
        let taken = [name.as_str(), "restore its label kubernetes-fleet.io/parent-CRP"];
        crp.until_held(&taken).await?;
        crp.evict(&name).await?;
        // Others are scheduled all the same.
        let spec = json!({ "resourceSelectors": whole_namespace(ctx.prefix()), "policy": cast.everywhere() });
        let other = Crp::create(&ctx, "other", &spec).await?;
        other.until_available(0).await?;
        // With the label it is released, and the cluster gets another.
        crp.patch_binding(
            &name,
            json!({ "metadata": { "labels": { labels::PARENT_PLACEMENT: crp.name } } }),
        )
        .await?;
        crp.until_bindings("another", |all| {
            all.len() == 1 && all[0].uid() != first[0].uid() && all[0].spec.state == BindingState::Bound
        })
        .await?;
        crp.remove().await
    });
}
