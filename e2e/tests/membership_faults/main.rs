//! Faults of what all members share: the hub agent and the hub's API server. Each of them is felt by everybody, so these
//! run one after the other on a small fleet of their own.

mod certificates;
mod hostile;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::{AgentType, MemberCluster};
use fleet_e2e::agents::{self, API_SERVER, HUB_AGENT};
use fleet_e2e::binaries;
use fleet_e2e::cluster::certs::Pki;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::{Member, SILENCE, last_beat, membership, of, of_agent};
use fleet_e2e::proxy::Proxy;
use fleet_e2e::scripted_member::{Address, ScriptedMember};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::{Node, Secret};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::json;

/// The cluster whose own parts are taken away.
const SHAKEN: &str = "member-2";

/// Every member beats again, and nobody was thought lost since, or joined anew.
async fn undisturbed(ctx: &Ctx, before: &[MemberCluster]) -> Result<()> {
    for mc in before {
        let member = Member::named(ctx, mc.metadata.name.as_deref().context("a name")?);
        let after = member.next_beat().await?;
        ensure!(membership(mc) == membership(&after), "{}: joined anew", member.name);
        let (uid, since) = (mc.metadata.uid.as_deref(), last_beat(mc));
        let events = member.events().await?;
        let lost = events.iter().find(|e| {
            e.involved_object.uid.as_deref() == uid
                && e.reason.as_deref() == Some("MemberClusterHeartbeatLost")
                && e.last_timestamp.as_ref().map(|time| time.0) > since
        });
        ensure!(lost.is_none(), "a false loss: {lost:?}");
        let health = of(&after, "Healthy").map(|c| c.status.clone());
        ensure!(health.as_deref() == Some("True"), "{}: {health:?}", member.name);
    }
    Ok(())
}

/// The fleet's own members, joined.
async fn fleet_members(ctx: &Ctx) -> Result<Vec<MemberCluster>> {
    let mut list = Vec::new();
    for cluster in ctx.fleet().members() {
        agents::joined(ctx.fleet(), &cluster.name).await?;
        list.push(
            Member::named(ctx, &cluster.name)
                .until_condition("Healthy", "True")
                .await?,
        );
    }
    Ok(list)
}

#[test]
fn a_hub_agent_killed_at_any_moment_goes_on_where_it_was() {
    scenario("hub-killed", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        for _ in 0..2 {
            ctx.fleet().crash(HUB_AGENT).await?;
        }
        // In the middle of a join.
        let member = Member::create(&ctx, "m").await?;
        ctx.fleet().crash(HUB_AGENT).await?;
        let scripted = member.join_scripted().await?;
        // And of a leave.
        drop(scripted);
        member.delete().await?;
        ctx.fleet().crash(HUB_AGENT).await?;
        member.until_gone().await?;
        undisturbed(&ctx, &before).await
    });
}

#[test]
fn a_hub_agent_away_for_longer_than_the_threshold_declares_nobody_lost() {
    scenario("hub-away", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        ctx.fleet().stop_process(HUB_AGENT).await?;
        // Silence is what is tested: there is nothing to wait for.
        tokio::time::sleep(SILENCE + Duration::from_secs(5)).await;
        ctx.fleet().start_again(HUB_AGENT).await?;
        undisturbed(&ctx, &before).await
    });
}

#[test]
fn a_frozen_hub_agent_is_left_and_found_again() {
    scenario("hub-frozen", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        ctx.fleet().pause(HUB_AGENT).await?;
        let log = ctx.fleet().log_path(&agents::member_agent("member-1"));
        let end = std::fs::metadata(&log)?.len();
        // Half-open: the member must give up by itself.
        let gave_up = async {
            loop {
                let text = std::fs::read(&log).unwrap_or_default();
                let new = text.get(usize::try_from(end).unwrap_or_default()..).unwrap_or_default();
                if String::from_utf8_lossy(new).contains("the stream broke") {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(40), gave_up)
            .await
            .context("the member has not noticed")?;
        ctx.fleet().resume(HUB_AGENT).await?;
        undisturbed(&ctx, &before).await
    });
}

#[test]
fn a_restart_of_the_hubs_api_server_loses_no_report() {
    scenario("api-restart", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        let count = |mc: &MemberCluster| {
            let status = mc.status.as_ref()?;
            status
                .properties
                .get("kubernetes-fleet.io/node-count")?
                .value
                .parse::<usize>()
                .ok()
        };
        let nodes = Api::<Node>::all(ctx.client("member-1").await?);
        ctx.fleet().kill(API_SERVER).await?;
        // News while nobody can write it down.
        let node = json!({"metadata": {"name": ctx.name("node"), "annotations": {"kwok.x-k8s.io/node": "fake"}}});
        ctx.create::<Node>("member-1", serde_json::from_value(node)?).await?;
        tokio::time::sleep(Duration::from_secs(3)).await;
        ctx.fleet().start_again(API_SERVER).await?;
        let wanted = nodes.list(&ListParams::default()).await?.items.len();
        let member = Member::named(&ctx, "member-1");
        member.until("the new node", |mc| count(mc) == Some(wanted)).await?;
        undisturbed(&ctx, &before).await
    });
}

#[test]
fn an_api_server_that_is_not_ready_and_then_gone_is_told_with_its_code() {
    scenario("not-ready", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        let member = Member::create(&ctx, "m").await?;
        member.join_agent(SHAKEN).await?;
        member.until_condition("Healthy", "True").await?;
        let says = async |code: u16| {
            let wanted = format!("health probe failed with status code {code}");
            member
                .until(&wanted, |mc| {
                    of_agent(mc, "Healthy").is_some_and(|c| c.status == "False" && c.message == wanted)
                })
                .await
        };
        // Without its store it answers, and says itself that it is not ready.
        let (store, server) = (format!("{SHAKEN}/etcd"), format!("{SHAKEN}/kube-apiserver"));
        ctx.fleet().kill(&store).await?;
        says(500).await?;
        ctx.fleet().kill(&server).await?;
        says(0).await?;
        for _ in 0..3 {
            member.next_beat().await?;
        }
        ctx.fleet().start_again(&store).await?;
        ctx.fleet().start_again(&server).await?;
        member.until_condition("Healthy", "True").await?;
        // One Event for what has changed, which is its health and not the code.
        let told = member.times_told("InternalMemberClusterUnhealthy").await?;
        ensure!(told == 1, "{told} Events for one change");
        Member::named(&ctx, SHAKEN).until_condition("Healthy", "True").await?;
        undisturbed(&ctx, &before).await
    });
}

async fn helm() -> Result<PathBuf> {
    binaries::find_or_build_helm().await
}

#[test]
fn members_go_over_to_another_replica_of_the_hub_agent() {
    scenario("fail-over", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        let fleet = ctx.fleet();
        let first = agents::until_leader(fleet, "").await?;
        let second = format!("hub/{}", ctx.name("replica"));
        agents::start_hub_agent(fleet, &helm().await?, &second, &["--pod-name=replica".to_owned()]).await?;
        let member = Member::create(&ctx, "m").await?;
        let (address, other) = (member.address().await?, agents::hub_channel(fleet, &second)?);
        // What a Service does: one address for both replicas.
        let proxy = Proxy::to(&address.endpoint).await?;
        let mut spec = member.agent("member-1").await?;
        spec.env
            .insert("HUB_CHANNEL_URL".to_owned(), format!("https://{}", proxy.address()));
        ctx.start_process(spec).await?;
        let joined = member.joined().await?;

        // While the first still leads, the second serves the member.
        proxy.turn_to(&other).await?;
        member.next_beat().await?;
        ctx.fleet().kill(HUB_AGENT).await?;
        agents::until_leader(fleet, &first).await?;
        member.next_beat().await?;
        // The new leader does the leader's work.
        let late = Member::create(&ctx, "late").await?;
        late.ready().await?;
        // The first comes back as a stand-by, and its members find it.
        fleet.start_again(HUB_AGENT).await?;
        undisturbed(&ctx, &before).await?;
        undisturbed(&ctx, &[joined]).await?;
        fleet.kill(&second).await?;
        fleet_members(&ctx).await?;
        Ok(())
    });
}

#[test]
fn of_two_replicas_of_a_member_agent_the_stand_by_takes_over() {
    scenario("stand-by", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        let values = agents::run_join(ctx.fleet(), "member-1", "member-1").await?;
        let process = format!("member-1/{}", ctx.name("stand-by"));
        let spec = agents::member_agent_spec(ctx.fleet(), "member-1", &process, &values).await?;
        ctx.start_process(spec).await?;
        let first = agents::member_agent("member-1");
        let member = Member::named(&ctx, "member-1");
        // Killed right after a beat: a lease that nobody gives back takes half of the hub's patience to run out.
        member.next_beat().await?;
        ctx.fleet().kill(&first).await?;
        let taken_over = undisturbed(&ctx, &before).await;
        // Whatever came of it, later scenarios need the cluster's own agent.
        ctx.fleet().start_again(&first).await?;
        taken_over?;
        member.next_beat().await?;
        ctx.fleet().kill(&process).await?;
        undisturbed(&ctx, &before).await
    });
}

#[test]
fn joining_and_leaving_are_counted_once_and_not_with_every_heartbeat() {
    scenario("counted", |ctx| async move {
        let count = |text: &str, name: &str| {
            let line = text.lines().find(|l| l.starts_with(name)).unwrap_or_default();
            line.rsplit(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
        };
        let (joins, leaves) = ("join_result_counter{", "leave_result_counter{");
        let before = agents::metrics(ctx.fleet(), HUB_AGENT).await?;
        let member = Member::create(&ctx, "m").await?;
        member.join_agent("member-1").await?;
        for _ in 0..3 {
            member.next_beat().await?;
        }
        member.delete().await?;
        member.until_gone().await?;
        let after = agents::metrics(ctx.fleet(), HUB_AGENT).await?;
        ensure!(count(&after, joins) == count(&before, joins) + 1, "joins: {after}");
        ensure!(count(&after, leaves) == count(&before, leaves) + 1, "leaves: {after}");
        let beats = |mc: &MemberCluster| {
            mc.status
                .as_ref()
                .and_then(|s| s.agent(&AgentType::MemberAgent).cloned())
        };
        ensure!(
            member
                .api()
                .await?
                .get_opt(&member.name)
                .await?
                .as_ref()
                .and_then(beats)
                .is_none(),
            "still there"
        );
        Ok(())
    });
}

#[test]
fn a_new_channel_certificate_is_taken_up_while_members_connect() {
    scenario("new-certificate", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        let member = Member::create(&ctx, "m").await?;
        let old = member.address().await?;
        let secrets = Api::<Secret>::namespaced(ctx.hub().await?, agents::NAMESPACE);
        secrets.delete("fleet-channel-tls", &DeleteParams::default()).await?;
        // Handshakes all the while. Each gets one certificate or the other, and may come with the wrong CA.
        let announced = async {
            loop {
                _ = member.connect().await;
                let now = member.address().await?;
                if now.ca != old.ca {
                    return anyhow::Ok(now);
                }
            }
        };
        let new = tokio::time::timeout(wait::PATIENCE, announced)
            .await
            .context("no other CA was announced")??;
        ensure!(new.endpoint == old.endpoint, "the endpoint has moved");
        member.join_scripted().await?;
        // Sessions of before live on.
        undisturbed(&ctx, &before).await
    });
}

#[test]
fn a_certificate_that_somebody_else_keeps_in_a_secret_is_served_and_renewed() {
    scenario("own-secret", |ctx| async move {
        let before = fleet_members(&ctx).await?;
        let name = ctx.name("tls");
        let authorities = tempfile::tempdir()?;
        let authority = |name: &str| -> Result<(String, serde_json::Value)> {
            let pki = Pki::create(&authorities.path().join(name), name)?;
            let (cert, key, ca) = (pki.read("serving.crt")?, pki.read("serving.key")?, pki.read("ca.crt")?);
            let data = json!({"tls.crt": cert, "tls.key": key, "ca.crt": ca});
            Ok((ca, data))
        };
        let (ca, data) = authority("first")?;
        let secret = json!({"metadata": {"name": name}, "type": "kubernetes.io/tls", "stringData": data});
        ctx.create_in::<Secret>("hub", agents::NAMESPACE, serde_json::from_value(secret)?)
            .await?;
        // What the chart grants when it is told the name, beside what the first replica needs.
        let rules = json!([{"apiGroups": [""], "resources": ["secrets"], "resourceNames": [name],
                            "verbs": ["get", "list", "watch"]}]);
        let role = json!({"metadata": {"name": name}, "rules": rules});
        ctx.create_in::<Role>("hub", agents::NAMESPACE, serde_json::from_value(role)?)
            .await?;
        let subject = json!({"kind": "ServiceAccount", "name": "hub-agent-sa", "namespace": agents::NAMESPACE});
        let role_ref = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        let binding = json!({"metadata": {"name": name}, "roleRef": role_ref, "subjects": [subject]});
        ctx.create_in::<RoleBinding>("hub", agents::NAMESPACE, serde_json::from_value(binding)?)
            .await?;

        let second = format!("hub/{}", ctx.name("replica"));
        let args = [
            "--pod-name=replica".to_owned(),
            format!("--channel-certificate-secret={name}"),
        ];
        agents::start_hub_agent(ctx.fleet(), &helm().await?, &second, &args).await?;
        let member = Member::create(&ctx, "m").await?;
        member.ready().await?;
        let token = member.token().await?;
        let endpoint = agents::hub_channel(ctx.fleet(), &second)?;
        let address = Address { endpoint, ca };
        ScriptedMember::dial(&address, Some(&token)).await?;
        // Another one in the same Secret is served without a restart.
        let (ca, data) = authority("second")?;
        let secrets = Api::<Secret>::namespaced(ctx.hub().await?, agents::NAMESPACE);
        let patch = Patch::Merge(json!({"stringData": data}));
        secrets.patch(&name, &PatchParams::default(), &patch).await?;
        let address = Address { ca, ..address };
        let served = async {
            while ScriptedMember::dial(&address, Some(&token)).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(wait::PATIENCE, served)
            .await
            .context("the renewed certificate is not served")?;
        ctx.fleet().kill(&second).await?;
        undisturbed(&ctx, &before).await
    });
}
