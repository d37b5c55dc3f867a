//! Health of the member's API server, and silence.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::{Member, SILENCE, last_beat, membership, of, of_agent};
use fleet_e2e::now;
use fleet_e2e::proxy::Proxy;
use fleet_e2e::wait;
use jiff::{SignedDuration, Timestamp};
use kube::api::{DynamicObject, Patch, PatchParams};
use serde_json::json;

use crate::profile::profiles;

#[test]
fn a_member_api_server_out_of_reach_is_unhealthy_and_heartbeats_go_on() {
    scenario("unhealthy", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        // The agent's way to its own API server leads through a proxy.
        let spec = member.agent("member-2").await?;
        let kubeconfig = spec
            .args
            .iter()
            .find_map(|arg| arg.strip_prefix("--kubeconfig="))
            .context("no kubeconfig")?;
        let text = std::fs::read_to_string(kubeconfig)?;
        let server = text
            .split_whitespace()
            .find_map(|word| word.strip_prefix("https://"))
            .context("no server")?
            .trim_end_matches('/');
        let proxy = Proxy::to(server).await?;
        std::fs::write(kubeconfig, text.replace(server, &proxy.address()))?;
        ctx.start_process(spec).await?;
        member.joined().await?;
        let healthy = |wanted: &'static str| {
            move |mc: &MemberCluster| of_agent(mc, "Healthy").is_some_and(|c| c.status == wanted)
        };
        member.until("healthy", healthy("True")).await?;

        proxy.close();
        let mc = member.until("unhealthy", healthy("False")).await?;
        let said = of_agent(&mc, "Healthy").map(|c| c.message.clone()).unwrap_or_default();
        ensure!(said == "health probe failed with status code 0", "{said}");
        ensure!(of_agent(&mc, "Joined").is_some_and(|c| c.status == "True"), "{mc:?}");
        let since = Instant::now();
        for _ in 0..3 {
            member.next_beat().await?;
        }
        ensure!(
            since.elapsed() < Duration::from_secs(15),
            "heartbeats slowed down: {:?}",
            since.elapsed()
        );
        member.until_condition("Healthy", "False").await?;

        proxy.heal();
        member.until("healthy again", healthy("True")).await?;
        member.until_condition("Healthy", "True").await?;
        let unhealthy = member.times_told("InternalMemberClusterUnhealthy").await?;
        ensure!(unhealthy == 1, "{unhealthy} Events for one change");
        Ok(())
    });
}

async fn control_plane_healthy(ctx: &Ctx, member: &Member, status: &str) -> Result<DynamicObject> {
    let what = format!("ControlPlaneHealthy={status}");
    wait::until_present(profiles(ctx).await?, &member.name, &what, |profile| {
        let conditions = profile.data["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "ControlPlaneHealthy" && c["status"] == status)
    })
    .await
}

#[test]
fn a_silent_member_is_lost_after_the_threshold_everywhere_at_once_and_comes_back() {
    scenario("silent", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let scripted = member.join_scripted().await?;
        member.until_condition("Healthy", "True").await?;
        control_plane_healthy(&ctx, &member, "True").await?;
        drop(scripted);
        let mc = member.until_condition("Healthy", "Unknown").await?;
        let condition = of(&mc, "Healthy").cloned().context("no condition")?;
        let beat = last_beat(&mc).context("no heartbeat")?;
        let silent = condition.last_transition_time.0.duration_since(beat);
        let limit = i64::try_from(SILENCE.as_secs())?;
        ensure!((limit..limit + 15).contains(&silent.as_secs()), "lost after {silent}");
        ensure!(
            of(&mc, "Joined").is_some_and(|c| c.status == "True"),
            "silence is not leaving: {mc:?}"
        );
        let event = member.until_event("MemberClusterHeartbeatLost").await?;
        ensure!(event.type_.as_deref() == Some("Warning"), "{event:?}");
        let profile = control_plane_healthy(&ctx, &member, "False").await?;
        let text = profile.data["status"]["conditions"].to_string();
        ensure!(text.contains("MemberAgentHeartbeatLost"), "{text}");

        let mut again = member.connect().await?;
        again.report_joined().await?;
        member.until_condition("Healthy", "True").await?;
        member.until_event("MemberClusterHeartbeatRestored").await?;
        control_plane_healthy(&ctx, &member, "True").await?;
        Ok(())
    });
}

#[test]
fn an_agent_killed_and_started_again_goes_on_as_the_same_member() {
    scenario("killed", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let before = member.join_agent("member-3").await?;
        let process = member.process("member-3");
        for _ in 0..2 {
            ctx.fleet().crash(&process).await?;
            member.next_beat().await?;
        }
        let mc = member.get().await?;
        ensure!(
            membership(&mc) == membership(&before),
            "it joined again: {:?}",
            membership(&mc)
        );
        let events = member.events().await?;
        ensure!(
            !events.iter().any(|e| e.type_.as_deref() == Some("Warning")
                && e.reason.as_deref() != Some("MemberClusterJoinStateUnknown")),
            "{events:?}"
        );
        Ok(())
    });
}

#[test]
fn a_frozen_agent_falls_silent_and_goes_on_when_it_thaws() {
    scenario("frozen", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.patch(&json!({"spec": {"heartbeatPeriodSeconds": 2}})).await?;
        member.join_agent("member-1").await?;
        let process = member.process("member-1");
        ctx.fleet().pause(&process).await?;
        // Keep-alive by the kernel would go on for hours; nothing of the agent's does.
        let frozen = last_beat(&member.get().await?);
        member.until_condition("Healthy", "Unknown").await?;
        let mc = member.get().await?;
        ensure!(
            last_beat(&mc)
                .zip(frozen)
                .is_some_and(|(last, at)| last.duration_since(at).as_secs() < 15),
            "a frozen agent beats"
        );
        ctx.fleet().resume(&process).await?;
        member.next_beat().await?;
        member.until_condition("Healthy", "True").await?;
        Ok(())
    });
}

/// Puts a time on the agent's entry of an object.
fn stamp(at: jiff::Timestamp) -> Patch<()> {
    let operations = json!([
        { "op": "replace", "path": "/status/agentStatus/0/lastReceivedHeartbeat", "value": at },
    ]);
    Patch::Json(serde_json::from_value(operations).expect("a JSON patch"))
}

#[test]
fn a_heartbeat_from_the_future_is_overwritten_and_hides_no_silence() {
    scenario("future", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut scripted = member.join_scripted().await?;
        let (members, internals) = (member.api().await?, member.internals().await?);
        // As a hub agent leaves it whose clock was an hour ahead.
        let ahead = Timestamp::from_second(now().as_second() + 3_600)?;
        let set = async || -> Result<()> {
            members
                .patch_status(&member.name, &PatchParams::default(), &stamp(ahead))
                .await?;
            internals
                .patch_status(&member.name, &PatchParams::default(), &stamp(ahead))
                .await?;
            Ok(())
        };
        set().await?;
        let right = |mc: &MemberCluster| last_beat(mc).is_some_and(|at| at <= now() + SignedDuration::from_secs(5));
        let beating = async {
            loop {
                scripted.beat().await;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        };
        tokio::select! {
            seen = member.until("the time of now", right) => { seen?; }
            () = beating => {}
        }
        // The same again, and then silence: it is noticed all the same.
        set().await?;
        drop(scripted);
        member.until_condition("Healthy", "Unknown").await?;
        Ok(())
    });
}
