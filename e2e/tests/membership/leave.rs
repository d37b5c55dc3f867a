//! Leaving, being thrown out, and coming back.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fleet_api::cluster::ClusterState;
use fleet_api::conditions::Status;
use fleet_api::placement::Work;
use fleet_core::session::Outcome;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::Member;
use fleet_e2e::scripted_member::condition;
use fleet_e2e::wait;
use fleet_proto::convert::MemberMessage;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::json;

const CLEANUP: &str = "kubernetes-fleet.io/work-cleanup";

async fn work(ctx: &Ctx, member: &Member, name: &str, finalizers: &[&str]) -> Result<()> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    let metadata = json!({"name": name, "finalizers": finalizers});
    let work = json!({"metadata": metadata, "spec": {"workload": {"manifests": [map]}}});
    ctx.create_in::<Work>("hub", &member.namespace(), serde_json::from_value(work)?)
        .await?;
    Ok(())
}

async fn namespace_gone(ctx: &Ctx, member: &Member) -> Result<()> {
    wait::until_gone(Api::<Namespace>::all(ctx.hub().await?), &member.namespace()).await
}

#[test]
fn a_member_leaves_when_its_member_cluster_is_deleted_and_joins_again_without_restart() {
    scenario("rejoin", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-1").await?;
        let first = member.ready().await?.uid();
        // What runs on the member stays there.
        let namespace = ctx.namespace("member-1").await?;
        let map = serde_json::from_value(json!({"metadata": {"name": "kept"}}))?;
        let kept = ctx.create_in::<ConfigMap>("member-1", &namespace, map).await?;

        let since = Instant::now();
        member.delete().await?;
        member.until_gone().await?;
        namespace_gone(&ctx, &member).await?;
        // By its own answer, not by force.
        ensure!(since.elapsed() < Duration::from_secs(25), "{:?}", since.elapsed());
        let events = member.events().await?;
        let reasons = events.iter().filter_map(|e| e.reason.as_deref()).collect::<Vec<_>>();
        ensure!(reasons.contains(&"MemberClusterLeft"), "{reasons:?}");
        ensure!(!reasons.contains(&"MemberClusterForceDeleted"), "{reasons:?}");

        member.create_again().await?;
        member.joined().await?;
        let second = member.ready().await?.uid();
        ensure!(first != second, "the same InternalMemberCluster");
        member
            .until("properties again", |mc| {
                mc.status.as_ref().is_some_and(|s| !s.properties.is_empty())
            })
            .await?;
        let maps = Api::<ConfigMap>::namespaced(ctx.client("member-1").await?, &namespace);
        ensure!(
            maps.get("kept").await?.uid() == kept.uid(),
            "what was on the member is gone"
        );
        Ok(())
    });
}

#[test]
fn an_agent_that_was_down_leaves_when_it_comes_back() {
    scenario("leave-late", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-2").await?;
        let process = member.process("member-2");
        ctx.fleet().kill(&process).await?;
        member.delete().await?;
        wait::until_present(member.internals().await?, &member.name, "Leave", |imc| {
            imc.spec.state == ClusterState::Leave
        })
        .await?;
        ctx.fleet().start_again(&process).await?;
        member.until_gone().await?;
        let events = member.events().await?;
        ensure!(
            !events
                .iter()
                .any(|e| e.reason.as_deref() == Some("MemberClusterForceDeleted")),
            "not by its own answer: {events:?}"
        );
        Ok(())
    });
}

#[test]
fn all_finalizers_of_ten_works_are_off_before_the_namespace_goes() {
    scenario("leave-works", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut scripted = member.join_scripted().await?;
        member.delete().await?;
        let imc = wait::until_present(member.internals().await?, &member.name, "Leave", |imc| {
            imc.spec.state == ClusterState::Leave
        })
        .await?;
        for n in 0..10 {
            work(
                &ctx,
                &member,
                &format!("w{n}"),
                &[CLEANUP, "example.com/somebody-elses"],
            )
            .await?;
        }
        scripted.imc_generation = imc.metadata.generation.unwrap_or_default();
        // Left is not said before the hub has released the Works.
        let stopped = MemberMessage::ApplierStopped {
            imc_uid: scripted.imc_uid.clone(),
            imc_generation: scripted.imc_generation,
        };
        let outcome = scripted.ask(stopped).await?;
        ensure!(outcome == Outcome::Persisted, "{outcome:?}");
        let left = scripted.agent_status(vec![condition("Joined", Status::False, "InternalMemberClusterLeft")]);
        let seq = scripted.say(left).await;
        // The answer may be overtaken by the end of the membership.
        let _ = scripted.answer(seq).await;
        member.until_gone().await?;
        namespace_gone(&ctx, &member).await?;
        Ok(())
    });
}

#[test]
fn a_member_that_never_answers_is_removed_by_force_in_its_time() {
    scenario("leave-force", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        drop(member.join_scripted().await?);
        work(&ctx, &member, "held", &[CLEANUP]).await?;
        let since = Instant::now();
        member.delete().await?;
        let mc = member
            .until("going", |mc| mc.metadata.deletion_timestamp.is_some())
            .await?;
        ensure!(!mc.finalizers().is_empty(), "nothing holds it: {mc:?}");
        member.until_gone().await?;
        ensure!(
            since.elapsed() >= Duration::from_secs(29),
            "too early: {:?}",
            since.elapsed()
        );
        let event = member.until_event("MemberClusterForceDeleted").await?;
        ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
        Ok(())
    });
}

#[test]
fn a_member_namespace_deleted_by_hand_comes_back_and_the_member_joins_again() {
    scenario("by-hand", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-3").await?;
        work(&ctx, &member, "held", &[CLEANUP]).await?;
        let first = member.ready().await?.uid();
        let hub = ctx.hub().await?;
        // The RoleBinding goes first: the member can no longer read, and nobody else would release the Work.
        let bindings = Api::<RoleBinding>::namespaced(hub.clone(), &member.namespace());
        Api::<Namespace>::all(hub.clone())
            .delete(&member.namespace(), &DeleteParams::default())
            .await?;
        let _ = bindings
            .delete(&format!("fleet-rolebinding-{}", member.name), &DeleteParams::default())
            .await;
        wait::until_present(member.internals().await?, &member.name, "another one", |imc| {
            imc.uid() != first && imc.metadata.deletion_timestamp.is_none()
        })
        .await?;
        member.joined().await?;
        member.next_beat().await?;
        let role = format!("fleet-role-{}", member.name);
        let roles = Api::<Role>::namespaced(hub.clone(), &member.namespace());
        wait::until_present(roles, &role, "back", |_| true).await?;
        let bindings = Api::<RoleBinding>::namespaced(hub, &member.namespace());
        wait::until_present(bindings, &format!("fleet-rolebinding-{}", member.name), "back", |_| {
            true
        })
        .await?;
        Ok(())
    });
}

#[test]
fn a_member_cluster_deleted_while_its_namespace_goes_still_ends() {
    scenario("both-going", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.ready().await?;
        work(&ctx, &member, "held", &[CLEANUP, "example.com/somebody-elses"]).await?;
        Api::<Namespace>::all(ctx.hub().await?)
            .delete(&member.namespace(), &DeleteParams::default())
            .await?;
        member.delete().await?;
        member.until_gone().await?;
        namespace_gone(&ctx, &member).await?;
        Ok(())
    });
}

#[test]
fn what_was_applied_stays_when_its_member_leaves_and_is_taken_up_again_when_it_returns() {
    scenario("stays", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-2").await?;
        let namespace = ctx.namespace("member-2").await?;
        let name = ctx.name("app");
        let labels = json!({"app": name});
        let template = json!({"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
            "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
        });
        let place = async || {
            let spec = json!({"workload": {"manifests": [deployment]}});
            let work = json!({"metadata": {"name": name}, "spec": spec});
            ctx.create_in::<Work>("hub", &member.namespace(), serde_json::from_value(work)?)
                .await?;
            let works = Api::<Work>::namespaced(ctx.hub().await?, &member.namespace());
            wait::until_present(works, &name, "applied", |work: &Work| {
                let conditions = work.status.iter().flat_map(|status| &status.conditions);
                conditions
                    .into_iter()
                    .any(|c| c.type_ == "Applied" && c.status == "True")
            })
            .await
        };
        let deployments = Api::<Deployment>::namespaced(ctx.client("member-2").await?, &namespace);
        place().await?;
        let applied = deployments.get(&name).await?;

        member.delete().await?;
        member.until_gone().await?;
        namespace_gone(&ctx, &member).await?;
        let left = deployments.get(&name).await?;
        ensure!(left.metadata.deletion_timestamp.is_none(), "deleted by leaving");

        member.create_again().await?;
        member.joined().await?;
        place().await?;
        let again = deployments.get(&name).await?;
        ensure!(again.uid() == applied.uid(), "made anew");
        ensure!(again.metadata.deletion_timestamp.is_none(), "on its way out");
        Ok(())
    });
}
