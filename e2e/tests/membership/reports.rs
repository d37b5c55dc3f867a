//! What a member says about itself, and what becomes of it on the MemberCluster.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use fleet_api::cluster::PropertyValue;
use fleet_api::conditions::Status;
use fleet_core::session::Outcome;
use fleet_core::session::cluster::PropertiesReport;
use fleet_core::session::condition::ReportedCondition;
use fleet_e2e::harness::scenario;
use fleet_e2e::members::{Member, of, of_agent};
use fleet_e2e::now;
use fleet_e2e::refusal::{Rule, allow, refuse};
use fleet_e2e::scripted_member::{ScriptedMember, condition};
use fleet_proto::convert::{HubMessage, MemberMessage};
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt as _;
use serde_json::json;

fn properties(member: &ScriptedMember, list: &[(&str, &str)], conditions: Vec<ReportedCondition>) -> MemberMessage {
    // A clock that is ten minutes ahead.
    let observed_at = now() + SignedDuration::from_mins(10);
    let entry = |(name, value): &(&str, &str)| {
        let value = PropertyValue {
            value: (*value).to_owned(),
            observation_time: Time(observed_at),
        };
        ((*name).to_owned(), value)
    };
    MemberMessage::Properties(PropertiesReport {
        imc_uid: member.imc_uid.clone(),
        imc_generation: member.imc_generation,
        properties: list.iter().map(entry).collect::<BTreeMap<_, _>>(),
        usage: None,
        namespaces: None,
        conditions,
        collected: true,
    })
}

async fn stored(member: &mut ScriptedMember, message: MemberMessage) -> Result<()> {
    let outcome = member.ask(message).await?;
    ensure!(outcome == Outcome::Persisted, "{outcome:?}");
    Ok(())
}

#[test]
fn conditions_carry_the_member_clusters_generation_and_their_own_times() {
    scenario("copied", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut scripted = member.join_scripted().await?;
        let first = member.get().await?;
        let since = of_agent(&first, "Joined").map(|c| c.last_transition_time.clone());
        // Another generation of the MemberCluster, and a report that changes only Healthy.
        member
            .patch(&json!({"spec": {"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}}))
            .await?;
        let report = scripted.agent_status(vec![
            condition("Joined", Status::True, "InternalMemberClusterJoined"),
            condition("Healthy", Status::False, "InternalMemberClusterUnhealthy"),
        ]);
        stored(&mut scripted, report).await?;
        let mc = member
            .until("unhealthy", |mc| {
                of_agent(mc, "Healthy").is_some_and(|c| c.status == "False")
            })
            .await?;
        let joined = of_agent(&mc, "Joined").cloned();
        ensure!(mc.metadata.generation > first.metadata.generation, "{mc:?}");
        ensure!(
            joined.as_ref().map(|c| c.observed_generation) == Some(mc.metadata.generation),
            "{joined:?}"
        );
        ensure!(
            joined.map(|c| c.last_transition_time) == since,
            "the transition time moved"
        );
        Ok(())
    });
}

#[test]
fn what_is_the_hubs_to_say_changes_nothing_when_a_member_says_it() {
    scenario("not-yours", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut scripted = member.join_scripted().await?;
        let before = of(&member.get().await?, "Joined").cloned();
        for type_ in ["Joined", "ReadyToJoin", "Healthy"] {
            let lie = properties(
                &scripted,
                &[("k8s.io/k8s-version", "v1.99.0")],
                vec![condition(type_, Status::False, "Lie")],
            );
            scripted.ask(lie).await?;
        }
        // The rest of such a report is true and stored.
        let mc = member
            .until("the property", |mc| {
                mc.status.as_ref().is_some_and(|s| !s.properties.is_empty())
            })
            .await?;
        ensure!(of(&mc, "Joined").cloned() == before, "{mc:?}");
        ensure!(of(&mc, "ReadyToJoin").is_some_and(|c| c.status == "True"), "{mc:?}");
        let imc = member.internals().await?.get(&member.name).await?;
        let stored = imc.status.unwrap_or_default().conditions;
        ensure!(stored.iter().all(|c| c.reason != "Lie"), "{stored:?}");
        scripted.report_joined().await?;
        Ok(())
    });
}

#[test]
fn a_condition_that_the_member_drops_stays_and_properties_go() {
    scenario("dropped", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut scripted = member.join_scripted().await?;
        let collected = || {
            condition(
                "ClusterPropertyCollectionSucceeded",
                Status::True,
                "PropertiesCollected",
            )
        };
        let full = properties(&scripted, &[("k8s.io/k8s-version", "v1.36.0")], vec![collected()]);
        stored(&mut scripted, full).await?;
        let has = |mc: &fleet_api::cluster::MemberCluster| {
            mc.status
                .as_ref()
                .is_some_and(|s| s.properties.contains_key("k8s.io/k8s-version"))
        };
        let mc = member.until("the property", has).await?;
        let value = mc.status.map(|s| s.properties["k8s.io/k8s-version"].clone());
        ensure!(
            value.is_some_and(|v| v.observation_time.0 <= now()),
            "a property of the future"
        );
        let empty = properties(&scripted, &[], vec![]);
        stored(&mut scripted, empty).await?;
        let mc = member.until("no property", |mc| !has(mc)).await?;
        ensure!(
            of(&mc, "ClusterPropertyCollectionSucceeded").is_some_and(|c| c.status == "True"),
            "{mc:?}"
        );
        ensure!(of(&mc, "Joined").is_some_and(|c| c.status == "True"), "{mc:?}");
        Ok(())
    });
}

#[test]
fn repeating_a_report_changes_nothing_and_another_membership_is_refused() {
    scenario("repeat", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut scripted = member.join_scripted().await?;
        let report = |m: &ScriptedMember| {
            m.agent_status(vec![
                condition("Joined", Status::True, "InternalMemberClusterJoined"),
                condition("Healthy", Status::True, "InternalMemberClusterHealthy"),
            ])
        };
        let same = report(&scripted);
        let outcome = scripted.ask(same).await?;
        ensure!(outcome == Outcome::Unchanged, "{outcome:?}");
        let uid = std::mem::replace(&mut scripted.imc_uid, "another".to_owned());
        let foreign = report(&scripted);
        let outcome = scripted.ask(foreign).await?;
        ensure!(outcome == Outcome::UidMismatch, "{outcome:?}");
        scripted.imc_uid = uid;
        scripted.report_joined().await?;
        Ok(())
    });
}

/// Longer than the hub needs to store a report, many times over.
const WHILE: Duration = Duration::from_secs(3);

#[test]
fn while_they_cannot_be_stored_reports_are_not_acknowledged_and_the_newest_is_kept() {
    scenario("not-stored", |ctx| async move {
        let (member, other) = (Member::create(&ctx, "m").await?, Member::create(&ctx, "other").await?);
        let mut scripted = member.join_scripted().await?;
        let mut undisturbed = other.join_scripted().await?;
        let rule = Rule {
            word: "status",
            group: "cluster.kubernetes-fleet.io",
            resource: "internalmemberclusters/status",
            condition: format!("object.metadata.name == '{}'", member.name),
            reason: "Forbidden",
        };
        refuse(&ctx, &[rule]).await?;
        let report = |member: &ScriptedMember, n: usize| {
            let status = if n.is_multiple_of(2) {
                Status::True
            } else {
                Status::False
            };
            member.agent_status(vec![
                condition("Joined", Status::True, "InternalMemberClusterJoined"),
                condition("Healthy", status, &format!("Report{n}")),
            ])
        };
        let before = member.internals().await?.get(&member.name).await?;
        let mut last = 0;
        for n in 0..20 {
            scripted.beat().await;
            let body = report(&scripted, n);
            last = scripted.say(body).await;
        }
        let acknowledged = async {
            loop {
                match scripted.next().await? {
                    // Of what was superseded nothing is to be stored.
                    Some(HubMessage::Ack(ack)) if ack.outcome != Outcome::Superseded => return anyhow::Ok(ack),
                    Some(_) => {}
                    None => anyhow::bail!("the session has ended"),
                }
            }
        };
        let early = tokio::time::timeout(WHILE, acknowledged).await;
        ensure!(early.is_err(), "acknowledged without being stored: {early:?}");
        let refused = member.internals().await?.get(&member.name).await?;
        ensure!(refused.resource_version() == before.resource_version(), "{refused:?}");
        // Nobody waits behind it.
        let body = report(&undisturbed, 1);
        stored(&mut undisturbed, body).await?;

        allow(&ctx, "status").await?;
        let outcome = scripted.answer(last).await?.outcome;
        ensure!(outcome == Outcome::Persisted, "{outcome:?}");
        let mc = member
            .until("the newest report", |mc| {
                of_agent(mc, "Healthy").is_some_and(|c| c.reason == "Report19")
            })
            .await?;
        ensure!(of_agent(&mc, "Healthy").is_some_and(|c| c.status == "False"), "{mc:?}");
        Ok(())
    });
}
