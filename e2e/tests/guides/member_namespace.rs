//! "ClusterResourcePlacementWorkSynchronized is false", of both publishers: the member's namespace is being terminated.

use anyhow::Result;
use fleet_api::cluster::MemberCluster;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::placements::{Crp, Rp, core_selector};
use fleet_e2e::plugin;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::sample;

/// Whatever deletes the contents of namespaces on the hub.
const CLEANER: &str = "hub/kube-controller-manager";

/// Keeps placements that tolerate nothing away from a member.
async fn taint(ctx: &Ctx, member: &str, taints: &Value) -> Result<()> {
    let api: Api<MemberCluster> = Api::all(ctx.hub().await?);
    let patch = Patch::Merge(json!({ "spec": { "taints": taints } }));
    api.patch(member, &PatchParams::default(), &patch).await?;
    Ok(())
}

#[test]
fn a_terminating_member_namespace_reads_as_in_the_guide_and_heals() {
    scenario("guide-sync", |ctx| async move {
        let (namespace, own) = (ctx.namespace("hub").await?, ctx.another_namespace("hub", "own").await?);
        taint(&ctx, "member-2", &json!([{ "key": "away", "effect": "NoSchedule" }])).await?;
        // Terminating, with everything in it: nobody is there to take it away.
        ctx.fleet().stop_process(CLEANER).await?;
        let namespaces: Api<Namespace> = Api::all(ctx.hub().await?);
        namespaces
            .delete("fleet-member-member-1", &DeleteParams::default())
            .await?;

        let spec = json!({
            "policy": { "placementType": "PickN", "numberOfClusters": 1 },
            "resourceSelectors": [core_selector("Namespace", &namespace)],
            "strategy": { "type": "RollingUpdate" },
        });
        let crp = Crp::create(&ctx, "crp1", &spec).await?;
        crp.until_step("WorkSynchronized", "False").await?;
        let printed = ctx.kubectl("hub")?.ok(&["get", "crp", &crp.name, "-o", "yaml"]).await?;
        let names = [
            (crp.name.as_str(), "crp1"),
            (namespace.as_str(), "test-ns"),
            ("member-1", "kind-cluster-1"),
        ];
        sample::shows(&printed, include_str!("samples/terminating.yaml"), &names)?;
        // What the guide is for, said by one command.
        let why = plugin::fleet(&ctx, &["why", &format!("crp/{}", crp.name)]).await?;
        let cause = "the namespace fleet-member-member-1 is being deleted on the hub";
        why.ends_with(3)?.shows(&[
            "FAILED WorkSynchronized",
            cause,
            "next: kubectl fleet why membercluster/member-1",
        ])?;

        // The same pattern for a namespaced placement. In a namespace of its own, or both would bring the same object.
        let map: ConfigMap = serde_json::from_value(json!({ "metadata": { "name": "settings" } }))?;
        ctx.create_in("hub", &own, map).await?;
        let inside = json!({
            "policy": { "placementType": "PickN", "numberOfClusters": 1 },
            "resourceSelectors": [core_selector("ConfigMap", "settings")],
        });
        let rp = Rp::create(&ctx, &own, "rp1", &inside).await?;
        rp.until_says(&[
            "WorkSynchronized=False WorkNotSynchronizedYet: There are 1 cluster(s) which have not finished \
                         creating or updating work(s) yet",
        ])
        .await?;

        // Once the namespace is gone it comes back, and with it the Works.
        ctx.fleet().start_again(CLEANER).await?;
        crp.until_step("Available", "True").await?;
        rp.until_step("WorkSynchronized", "True").await?;
        taint(&ctx, "member-2", &json!([])).await
    });
}
