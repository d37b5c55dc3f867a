//! Who gets a session, who does not, and who loses one.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fleet_api::annotations::MEMBER_SESSION;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::Member;
use fleet_e2e::scripted_member::{ScriptedMember, hello};
use fleet_e2e::wait;
use fleet_proto::convert::{Hello, HubMessage, RejectCode};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::RoleBinding;
use kube::api::{Api, DeleteParams};
use serde_json::json;

async fn session_of(member: &Member) -> Result<Option<String>> {
    let imc = member.internals().await?.get(&member.name).await?;
    Ok(imc
        .metadata
        .annotations
        .unwrap_or_default()
        .get(MEMBER_SESSION)
        .cloned())
}

#[test]
fn a_member_that_claims_anothers_name_is_refused_and_the_other_is_told() {
    scenario("claim", |ctx| async move {
        let (a, b) = (Member::create(&ctx, "a").await?, Member::create(&ctx, "b").await?);
        b.ready().await?;
        let mut intruder = a.dial().await?;
        let (code, message) = intruder.open_refused(hello(&b.name)).await?;
        ensure!(code == RejectCode::PermissionDenied, "{code:?} {message}");
        // The answer is the same when there is nobody of this name.
        let mut stranger = a.dial().await?;
        let nobody = stranger.open_refused(hello(&ctx.name("nobody"))).await?;
        ensure!(nobody == (code, message), "{nobody:?}");
        let event = b.until_event("MemberClusterIdentityMismatch").await?;
        let said = event.message.unwrap_or_default();
        ensure!(
            said.contains(&a.account) && event.type_.as_deref() == Some("Warning"),
            "{said}"
        );
        ensure!(session_of(&b).await?.is_none(), "something was written for b");
        Ok(())
    });
}

#[test]
fn a_credential_that_proves_nothing_is_refused() {
    scenario("nobody", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let address = member.address().await?;
        for token in [None, Some("not.a.token")] {
            let mut stranger = ScriptedMember::dial(&address, token).await?;
            let (code, message) = stranger.open_refused(hello(&member.name)).await?;
            ensure!(code == RejectCode::Unauthenticated, "{code:?} {message}");
        }
        Ok(())
    });
}

/// A member whose identity was just changed to another ServiceAccount.
async fn moved(ctx: &Ctx, member: &Member) -> Result<Member> {
    let mut other = Member::identity(ctx, "other").await?;
    let identity = json!({"kind": "ServiceAccount", "name": other.account, "namespace": "fleet-system"});
    member.patch(&json!({"spec": {"identity": identity}})).await?;
    other.name.clone_from(&member.name);
    Ok(other)
}

#[test]
fn a_changed_identity_ends_the_old_session_within_a_second_and_lets_the_new_one_in() {
    scenario("moved", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut old = member.join_scripted().await?;
        let since = Instant::now();
        let new = moved(&ctx, &member).await?;
        let (code, _) = old.refused().await?;
        ensure!(code == RejectCode::PermissionDenied, "{code:?}");
        // One second on a free machine; a busy one gets a few.
        ensure!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());

        let mut again = member.dial().await?;
        let (code, _) = again.open_refused(hello(&member.name)).await?;
        ensure!(
            code == RejectCode::PermissionDenied,
            "the old token is still good: {code:?}"
        );
        let bindings = Api::<RoleBinding>::namespaced(ctx.hub().await?, &member.namespace());
        let name = format!("fleet-rolebinding-{}", member.name);
        wait::until_present(bindings, &name, "names the new identity", |binding| {
            binding.subjects.iter().flatten().all(|s| s.name == new.account)
        })
        .await?;
        new.join_scripted().await?;
        Ok(())
    });
}

#[test]
fn an_identity_that_no_longer_exists_is_refused() {
    scenario("removed", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let (address, token) = (member.address().await?, member.token().await?);
        let accounts = Api::<ServiceAccount>::namespaced(ctx.hub().await?, "fleet-system");
        accounts.delete(&member.account, &DeleteParams::default()).await?;
        // The API server remembers a token that it has judged for some seconds; this one is new to it.
        let mut late = ScriptedMember::dial(&address, Some(&token)).await?;
        let (code, _) = late.open_refused(hello(&member.name)).await?;
        ensure!(code == RejectCode::Unauthenticated, "{code:?}");
        Ok(())
    });
}

#[test]
fn of_two_agents_of_one_cluster_only_the_newer_leader_is_heard() {
    scenario("fenced", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut old = member.join_scripted().await?;
        let mut new = member.dial().await?;
        let newer = Hello {
            lease_transitions: 2,
            instance_id: "newer".to_owned(),
            ..hello(&member.name)
        };
        new.open(newer).await?;
        let fenced = loop {
            match old.next().await? {
                Some(HubMessage::Fenced { lease_transitions, .. }) => break lease_transitions,
                Some(HubMessage::Reject(_)) | None => anyhow::bail!("closed without a word"),
                Some(_) => {}
            }
        };
        ensure!(fenced == 2, "fenced by {fenced}");
        let (code, _) = old.refused().await?;
        ensure!(code == RejectCode::Superseded, "{code:?}");
        new.report_joined().await?;
        // The older leader comes back and is not let in while the newer one is heard.
        let mut again = member.dial().await?;
        let (code, _) = again.open_refused(hello(&member.name)).await?;
        ensure!(code == RejectCode::Superseded, "{code:?}");
        new.report_joined().await?;
        ensure!(
            session_of(&member).await?.is_some_and(|s| s.contains("/2/")),
            "not the newer one's"
        );
        Ok(())
    });
}

#[test]
fn two_clusters_under_one_name_do_not_alternate() {
    scenario("same-name", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut first = member.join_scripted().await?;
        for uid in ["intruder-1", "intruder-2"] {
            let mut second = member.dial().await?;
            let intruder = Hello {
                cluster_uid: uid.to_owned(),
                lease_transitions: 9,
                ..hello(&member.name)
            };
            let (code, message) = second.open_refused(intruder).await?;
            ensure!(code == RejectCode::AlreadyConnected, "{code:?}");
            ensure!(message.contains(uid), "{message}");
        }
        let event = member.until_event("MemberClusterAlreadyConnected").await?;
        let said = event.message.unwrap_or_default();
        ensure!(
            said.contains("intruder-") && said.contains(&format!("cluster-{}", member.name)),
            "{said}"
        );
        first.report_joined().await?;
        Ok(())
    });
}

#[test]
fn a_deleted_member_cluster_closes_the_door_within_seconds() {
    scenario("not-member", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let (address, token) = (member.address().await?, member.token().await?);
        let mut scripted = member.join_scripted().await?;
        member.delete().await?;
        // Asked to leave, it still speaks: it must be able to say that it has left.
        wait::until_present(member.internals().await?, &member.name, "Leave", |imc| {
            imc.spec.state == fleet_api::cluster::ClusterState::Leave
        })
        .await?;
        scripted.beat().await;
        // Nobody waits for the rest: as if a user had taken the finalizers off.
        member.patch(&json!({"metadata": {"finalizers": null}})).await?;
        let (code, _) = scripted.refused().await?;
        ensure!(
            matches!(code, RejectCode::NotMember | RejectCode::PermissionDenied),
            "{code:?}"
        );
        let mut late = ScriptedMember::dial(&address, Some(&token)).await?;
        let (code, _) = late.open_refused(hello(&member.name)).await?;
        ensure!(
            matches!(code, RejectCode::NotMember | RejectCode::PermissionDenied),
            "{code:?}"
        );
        Ok(())
    });
}

#[test]
fn a_protocol_that_nobody_speaks_any_more_is_named() {
    scenario("old", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut old = member.dial().await?;
        let ancient = Hello {
            protocol_version: 0,
            ..hello(&member.name)
        };
        let (code, message) = old.open_refused(ancient).await?;
        ensure!(
            matches!(code, RejectCode::Unsupported | RejectCode::Misbehaved),
            "{code:?} {message}"
        );
        // A newer one is spoken to in the older language.
        let mut newer = member.dial().await?;
        let future = Hello {
            protocol_version: 99,
            ..hello(&member.name)
        };
        let accept = newer.open(future).await?;
        ensure!(accept.protocol_version == 1, "{}", accept.protocol_version);
        Ok(())
    });
}
