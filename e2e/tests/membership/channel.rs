//! Members that misbehave, connections that break: nobody else notices, and nothing is lost.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_api::conditions::Status;
use fleet_api::placement::Work;
use fleet_core::session::work::{Phase, WorkReport};
use fleet_core::session::{Outcome, WorkRef};
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::{Member, of};
use fleet_e2e::proxy::Proxy;
use fleet_e2e::scripted_member::{ScriptedMember, condition};
use fleet_proto::convert::{MemberMessage, RejectCode};
use fleet_proto::pb;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt as _;
use kube::api::{Api, ListParams};
use serde_json::json;

/// A Work with one ConfigMap in a member's namespace on the hub.
async fn work(ctx: &Ctx, member: &Member, name: &str) -> Result<Work> {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "namespace": "default"}});
    let spec = json!({"workload": {"manifests": [map]}});
    let work = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec}))?;
    ctx.create_in("hub", &member.namespace(), work).await
}

fn status(name: &str, uid: &str, message: &str) -> MemberMessage {
    let mut applied = condition("Applied", Status::True, "WorkApplied");
    message.clone_into(&mut applied.message);
    MemberMessage::WorkStatus(WorkReport {
        work: WorkRef {
            name: name.to_owned(),
            uid: uid.to_owned(),
        },
        observed_generation: 1,
        phase: Phase::Result,
        conditions: vec![applied],
        manifests: vec![],
    })
}

#[test]
fn a_member_reaches_its_own_works_and_no_other() {
    scenario("foreign", |ctx| async move {
        let (a, b) = (Member::create(&ctx, "a").await?, Member::create(&ctx, "b").await?);
        a.ready().await?;
        b.ready().await?;
        let (own, foreign) = (work(&ctx, &a, "own").await?, work(&ctx, &b, "theirs").await?);
        let uid = |work: &Work| work.uid().unwrap_or_default();
        let mut scripted = a.join_scripted().await?;
        let outcome = scripted.ask(status("theirs", &uid(&foreign), "")).await?;
        ensure!(outcome == Outcome::Gone, "the name of b's Work: {outcome:?}");
        let outcome = scripted.ask(status("own", &uid(&foreign), "")).await?;
        ensure!(outcome == Outcome::UidMismatch, "the uid of b's Work: {outcome:?}");
        for name in ["../theirs", "fleet-member-b/theirs", "UPPER"] {
            // Not a name: the conversion refuses to make it, the hub to read it.
            let body = pb::member_message::Body::Claim(pb::Claim {
                name: name.to_owned(),
                uid: uid(&foreign),
            });
            scripted
                .raw(pb::MemberMessage {
                    seq: 1_000,
                    epoch: scripted.epoch,
                    body: Some(body),
                })
                .await;
            let ack = scripted.answer(1_000).await?;
            ensure!(ack.outcome == Outcome::Invalid, "{name}: {ack:?}");
        }
        let untouched = Api::<Work>::namespaced(ctx.hub().await?, &b.namespace())
            .get("theirs")
            .await?;
        ensure!(
            untouched.metadata.resource_version == foreign.metadata.resource_version,
            "b's Work was written: {untouched:?}"
        );
        let claim = WorkRef {
            name: "own".to_owned(),
            uid: uid(&own),
        };
        let seq = 2_000;
        let body = pb::member_message::Body::Claim(pb::Claim {
            name: claim.name,
            uid: claim.uid,
        });
        scripted
            .raw(pb::MemberMessage {
                seq,
                epoch: scripted.epoch,
                body: Some(body),
            })
            .await;
        let ack = scripted.answer(seq).await?;
        ensure!(ack.outcome == Outcome::Persisted, "its own: {ack:?}");
        let works = Api::<Work>::namespaced(ctx.hub().await?, &a.namespace());
        let claimed = works.get("own").await?;
        ensure!(
            claimed
                .finalizers()
                .contains(&"kubernetes-fleet.io/work-cleanup".to_owned()),
            "acknowledged before it was stored: {claimed:?}"
        );
        Ok(())
    });
}

/// Beats every 200 ms and asks for an answer each time; gives the longest that the hub took.
async fn steady(member: &mut ScriptedMember, rounds: usize) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    for round in 0..rounds {
        let since = Instant::now();
        member.beat().await;
        let mut healthy = condition("Healthy", Status::True, "InternalMemberClusterHealthy");
        healthy.message = format!("round {round}");
        let joined = condition("Joined", Status::True, "InternalMemberClusterJoined");
        let report = member.agent_status(vec![joined, healthy]);
        member.ask(report).await?;
        longest = longest.max(since.elapsed());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    Ok(longest)
}

#[test]
fn garbage_a_flood_and_a_deaf_member_do_not_delay_others() {
    scenario("hostile", |ctx| async move {
        let (good, noisy) = (
            Member::create(&ctx, "good").await?,
            Member::create(&ctx, "noisy").await?,
        );
        let (flood, deaf) = (
            Member::create(&ctx, "flood").await?,
            Member::create(&ctx, "deaf").await?,
        );
        let mut steady_one = good.join_scripted().await?;
        let mut garbage = noisy.join_scripted().await?;
        let mut flooding = flood.join_scripted().await?;
        let mut silent = deaf.join_scripted().await?;
        let garbled = async {
            for seq in 1..200 {
                let condition = pb::Condition {
                    r#type: "\u{0}".repeat(3),
                    ..pb::Condition::default()
                };
                let report = pb::AgentStatus {
                    conditions: vec![condition; 40],
                    ..pb::AgentStatus::default()
                };
                let body = Some(pb::member_message::Body::AgentStatus(report));
                garbage
                    .raw(pb::MemberMessage {
                        seq,
                        epoch: garbage.epoch,
                        body,
                    })
                    .await;
            }
            garbage.refused().await
        };
        let flooded = async {
            for _ in 0..3_000 {
                flooding.beat().await;
            }
            anyhow::Ok(())
        };
        // Says much and reads nothing.
        let unheard = async {
            for _ in 0..500 {
                let report =
                    silent.agent_status(vec![condition("Joined", Status::True, "InternalMemberClusterJoined")]);
                silent.say(report).await;
            }
            anyhow::Ok(())
        };
        let (longest, ended, _, _) = tokio::join!(
            steady(&mut steady_one, 20),
            garbled,
            tokio::time::timeout(Duration::from_secs(10), flooded),
            tokio::time::timeout(Duration::from_secs(10), unheard),
        );
        let (code, _) = ended?;
        ensure!(code == RejectCode::Misbehaved, "garbage: {code:?}");
        // A tenth of the usual period of 15 s.
        let longest = longest?;
        ensure!(longest < Duration::from_millis(1_500), "an answer took {longest:?}");
        let events = good.events().await?;
        ensure!(
            !events
                .iter()
                .any(|e| e.reason.as_deref() == Some("MemberClusterHeartbeatLost")),
            "{events:?}"
        );
        Ok(())
    });
}

#[test]
fn a_report_over_the_limit_is_refused_and_the_session_lives() {
    scenario("large", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.ready().await?;
        let own = work(&ctx, &member, "own").await?;
        let mut scripted = member.join_scripted().await?;
        let entry = |ordinal| {
            let identifier = pb::ManifestIdentifier {
                ordinal,
                version: "v1".into(),
                kind: "ConfigMap".into(),
                resource: "configmaps".into(),
                name: "x".repeat(250),
                ..pb::ManifestIdentifier::default()
            };
            pb::ManifestEntry {
                identifier: Some(identifier),
                ..pb::ManifestEntry::default()
            }
        };
        let report = pb::WorkStatus {
            name: "own".into(),
            uid: own.uid().unwrap_or_default(),
            observed_generation: 1,
            phase: pb::WorkPhase::Result.into(),
            conditions: vec![],
            manifests: (0..20_000).map(entry).collect(),
        };
        let body = Some(pb::member_message::Body::WorkStatus(report));
        scripted
            .raw(pb::MemberMessage {
                seq: 500,
                epoch: scripted.epoch,
                body,
            })
            .await;
        let ack = scripted.answer(500).await?;
        ensure!(ack.outcome == Outcome::TooLarge, "{ack:?}");
        let outcome = {
            let seq = 501;
            let status = pb::WorkStatus {
                name: "own".into(),
                uid: own.uid().unwrap_or_default(),
                observed_generation: 1,
                phase: pb::WorkPhase::Result.into(),
                conditions: vec![pb::Condition {
                    r#type: "Applied".into(),
                    status: pb::ConditionStatus::True.into(),
                    reason: "WorkApplied".into(),
                    ..pb::Condition::default()
                }],
                manifests: vec![],
            };
            let body = Some(pb::member_message::Body::WorkStatus(status));
            scripted
                .raw(pb::MemberMessage {
                    seq,
                    epoch: scripted.epoch,
                    body,
                })
                .await;
            scripted.answer(seq).await?.outcome
        };
        ensure!(outcome == Outcome::Persisted, "{outcome:?}");
        Ok(())
    });
}

/// A real agent whose way to the channel leads through a proxy.
async fn behind_proxy(ctx: &Ctx, member: &Member, cluster: &str) -> Result<Proxy> {
    let proxy = Proxy::to(&member.address().await?.endpoint).await?;
    let mut spec = member.agent(cluster).await?;
    spec.env
        .insert("HUB_CHANNEL_URL".to_owned(), format!("https://{}", proxy.address()));
    ctx.start_process(spec).await?;
    member.joined().await?;
    Ok(proxy)
}

async fn no_loss(member: &Member) -> Result<()> {
    let mc = member.get().await?;
    ensure!(of(&mc, "Joined").is_some_and(|c| c.status == "True"), "{mc:?}");
    let events = member.events().await?;
    let lost = events
        .iter()
        .filter(|e| e.reason.as_deref() == Some("MemberClusterHeartbeatLost"));
    ensure!(lost.count() == 0, "a false loss");
    Ok(())
}

#[test]
fn a_cut_stream_is_opened_again_and_nothing_is_lost() {
    scenario("cut", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let proxy = behind_proxy(&ctx, &member, "member-1").await?;
        for _ in 0..3 {
            proxy.cut();
            member.next_beat().await?;
        }
        // News while there is no way through is sent once there is one.
        proxy.close();
        let name = ctx.name("node");
        let node = json!({"metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}}});
        ctx.create::<Node>("member-1", serde_json::from_value(node)?).await?;
        let nodes = Api::<Node>::all(ctx.client("member-1").await?);
        let known = nodes.list(&ListParams::default()).await?.items.len();
        let count = |mc: &MemberCluster| {
            let status = mc.status.as_ref()?;
            let property = status.properties.get("kubernetes-fleet.io/node-count")?;
            property.value.parse::<usize>().ok()
        };
        let before = member.get().await?;
        ensure!(count(&before) < Some(known), "the report came through a closed proxy");
        proxy.heal();
        member.until("the new node", |mc| count(mc) >= Some(known)).await?;
        no_loss(&member).await
    });
}

#[test]
fn a_half_open_connection_is_noticed_and_replaced() {
    scenario("half-open", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let proxy = behind_proxy(&ctx, &member, "member-2").await?;
        proxy.stall();
        // The agent cannot know yet; it must give the dead connection up by itself.
        member.until_log("member-2", "the stream broke").await?;
        proxy.heal();
        member.next_beat().await?;
        no_loss(&member).await
    });
}

#[test]
fn a_slow_line_delays_heartbeats_and_loses_none() {
    scenario("slow", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let proxy = behind_proxy(&ctx, &member, "member-3").await?;
        // Slower than the keep-alive of a period of one second.
        proxy.delay(Duration::from_millis(300));
        for _ in 0..5 {
            member.next_beat().await?;
        }
        let log = member.log("member-3")?;
        ensure!(!log.contains("the stream broke"), "the session did not stay: {log}");
        no_loss(&member).await
    });
}

#[test]
fn a_hub_with_a_foreign_certificate_gets_no_credential_and_the_agent_keeps_trying() {
    scenario("wrong-ca", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.ready().await?;
        let mut spec = member.agent("member-1").await?;
        // The CA of another cluster: valid, and not the channel's.
        let foreign = ctx.fleet().kubeconfig()?.clusters.iter().find_map(|c| {
            let cluster = c.cluster.as_ref()?;
            cluster.certificate_authority_data.clone()
        });
        spec.env
            .insert("HUB_CHANNEL_CA".to_owned(), foreign.unwrap_or_default());
        ctx.start_process(spec.clone()).await?;
        member.until_log("member-1", "UnknownIssuer").await?;
        let mc = member.get().await?;
        ensure!(of(&mc, "Joined").is_none_or(|c| c.status != "True"), "{mc:?}");
        // With the right one it joins.
        ctx.fleet().kill(&spec.name).await?;
        spec.env.remove("HUB_CHANNEL_CA");
        ctx.start_process(spec).await?;
        member.joined().await?;
        Ok(())
    });
}

#[test]
fn an_agent_cut_off_from_the_api_server_alone_goes_on_beating_and_catches_up() {
    scenario("watch-cut", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut spec = member.agent("member-2").await?;
        let url = spec.env.get("HUB_SERVER_URL").cloned().unwrap_or_default();
        let proxy = Proxy::to(url.trim_start_matches("https://")).await?;
        spec.env
            .insert("HUB_SERVER_URL".to_owned(), format!("https://{}", proxy.address()));
        ctx.start_process(spec).await?;
        member.joined().await?;
        proxy.close();
        for _ in 0..2 {
            member.next_beat().await?;
        }
        // What it cannot read it does not act upon, and the stream carries no orders.
        member.delete().await?;
        let mc = member.next_beat().await?;
        ensure!(of(&mc, "Joined").is_some_and(|c| c.status == "True"), "{mc:?}");
        proxy.heal();
        member.until_gone().await?;
        let events = member.events().await?;
        let forced = events
            .iter()
            .any(|e| e.reason.as_deref() == Some("MemberClusterForceDeleted"));
        ensure!(!forced, "it was not given the time to leave by itself");
        Ok(())
    });
}
