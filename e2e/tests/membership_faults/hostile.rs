//! One member that sends whatever it can, and a crowd that says nothing: the hub agent's memory and what it stores stay
//! bounded, and the neighbours do not notice.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fleet_api::conditions::Status;
use fleet_e2e::agents::HUB_AGENT;
use fleet_e2e::bench::usage::Watched;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::hostile::{FAT, Stored, flood, strangers, work};
use fleet_e2e::members::Member;
use fleet_e2e::scripted_member::{ScriptedMember, condition};
use fleet_proto::limits;

use super::{fleet_members, undisturbed};

/// What the chart gives the hub agent.
const LIMIT_KIB: u64 = 256 * 1024;
/// How long a flood lasts.
const FLOOD: Duration = Duration::from_secs(40);

/// Reports something new once a second and waits until it is stored, until the time is over; how long each took, in order.
async fn steady(member: &mut ScriptedMember, until: Instant) -> Result<Vec<Duration>> {
    let mut took = Vec::new();
    while Instant::now() < until {
        let since = Instant::now();
        member.beat().await;
        let mut healthy = condition("Healthy", Status::True, "InternalMemberClusterHealthy");
        healthy.message = format!("at {since:?}");
        let joined = condition("Joined", Status::True, "InternalMemberClusterJoined");
        let report = member.agent_status(vec![joined, healthy]);
        member.ask(report).await?;
        took.push(since.elapsed());
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(since.elapsed())).await;
    }
    took.sort();
    Ok(took)
}

/// All but the slowest twentieth: of forty the slowest two, which a busy machine may have made. `make bench` tells the p99 of
/// many.
fn p95(took: &[Duration]) -> Duration {
    took.get(took.len().saturating_sub(1 + took.len() / 20))
        .copied()
        .unwrap_or_default()
}

async fn peak(ctx: &Ctx) -> Result<u64> {
    Ok(Watched::begin(ctx.fleet(), HUB_AGENT).await?.end()?.memory.peak)
}

#[test]
fn a_flood_of_the_largest_reports_costs_little_and_no_neighbour_notices() {
    scenario("flood", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        // Memory is measured from here: what others have done to it before does not count.
        ctx.fleet().crash(HUB_AGENT).await?;
        let (good, bad) = (Member::create(&ctx, "good").await?, Member::create(&ctx, "bad").await?);
        let mut neighbour = good.join_scripted().await?;
        bad.join_scripted().await?;
        let hub = ctx.hub().await?;
        let (mut fat, mut thin) = (Vec::new(), Vec::new());
        for i in 0..4 {
            fat.push(work(&hub, &bad.namespace(), &format!("fat-{i}"), FAT).await?);
            thin.push(work(&hub, &bad.namespace(), &format!("thin-{i}"), 0).await?);
        }
        let quiet = steady(&mut neighbour, Instant::now() + Duration::from_secs(10)).await?;
        let stored = Stored::count(&hub, &bad.namespace()).await?;
        let (address, token) = (bad.address().await?, bad.token().await?);
        let (begun, until) = (Instant::now(), Instant::now() + FLOOD);
        let (sent, took) = tokio::join!(
            flood(&address, &token, &bad.name, (&fat, &thin), until),
            steady(&mut neighbour, until)
        );
        let (took, stored, peak) = (took?, stored.bytes(), peak(&ctx).await?);
        eprintln!(
            "{sent:?}, stored {stored} bytes, peak {peak} KiB, p95 {:?} and {:?}",
            p95(&quiet),
            p95(&took)
        );
        ensure!(sent.reports > 50, "no flood: {sent:?}");
        ensure!(
            sent.sessions <= u64::from(limits::SESSIONS_BURST + 2 * limits::SESSIONS_PER_MINUTE),
            "reconnecting bought sessions: {sent:?}"
        );
        let minutes = begun.elapsed().as_secs() / 60 + 1;
        let allowed = u64::from(limits::STORED_BYTES_BURST) + minutes * u64::from(limits::STORED_BYTES_PER_MINUTE);
        ensure!(stored <= allowed, "{stored} bytes were stored, {allowed} are allowed");
        ensure!(
            stored > u64::from(limits::STORED_BYTES_BURST) / 2,
            "no flood: {stored} bytes stored"
        );
        ensure!(peak < LIMIT_KIB, "the hub agent took {peak} KiB");
        // A busy machine is no neighbour's fault.
        let most = (p95(&quiet) * 2).max(Duration::from_millis(250));
        ensure!(p95(&took) <= most, "{:?} instead of {:?}", p95(&took), p95(&quiet));
        let told = bad.until_event("MemberClusterHeldBack").await?;
        let text = told.message.unwrap_or_default();
        ensure!(text.contains(&bad.name), "{text}");
        undisturbed(&ctx, &before).await
    });
}

#[test]
fn a_thousand_strangers_keep_no_member_out_and_cost_little() {
    scenario("strangers", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        ctx.fleet().crash(HUB_AGENT).await?;
        let member = Member::create(&ctx, "m").await?;
        let address = member.address().await?;
        let held = strangers(&address, 1_000).await?;
        let since = Instant::now();
        member.join_scripted().await?;
        let (took, peak) = (since.elapsed(), peak(&ctx).await?);
        eprintln!("{} connections held, joined in {took:?}, peak {peak} KiB", held.len());
        ensure!(took < Duration::from_secs(10), "it took {took:?}");
        ensure!(peak < LIMIT_KIB, "the hub agent took {peak} KiB");
        undisturbed(&ctx, &before).await
    });
}
