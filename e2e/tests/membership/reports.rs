//! What a member says about itself, and what becomes of it on the MemberCluster.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use fleet_e2e::harness::scenario;
use fleet_e2e::members::{Member, of, of_agent};
use fleet_e2e::scripted_member::{ScriptedMember, condition};
use fleet_proto::convert::{Condition, MemberMessage, Outcome, Properties, PropertyValue, Status};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

#[expect(clippy::disallowed_methods, reason = "a test of real time")]
fn wall_clock() -> Timestamp {
    Timestamp::now()
}

fn properties(member: &ScriptedMember, list: &[(&str, &str)], conditions: Vec<Condition>) -> MemberMessage {
    // A clock that is ten minutes ahead.
    let observed_at = wall_clock() + SignedDuration::from_mins(10);
    let entry = |(name, value): &(&str, &str)| {
        let value = PropertyValue {
            value: (*value).to_owned(),
            observed_at,
        };
        ((*name).to_owned(), value)
    };
    MemberMessage::Properties(Properties {
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
            value.is_some_and(|v| v.observation_time.0 <= wall_clock()),
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
