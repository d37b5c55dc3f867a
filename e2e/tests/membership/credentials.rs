//! Starting without everything that is needed, and credentials that change.

use std::process::Stdio;

use anyhow::{Result, ensure};
use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_api::placement::Work;
use fleet_e2e::agents;
use fleet_e2e::cluster::certs::Pki;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::{Member, last_beat, membership, of};
use fleet_e2e::now;
use fleet_e2e::proxy::Proxy;
use fleet_e2e::scripted_member::{ScriptedMember, hello};
use fleet_e2e::tunnel::Tunnel;
use fleet_proto::convert::RejectCode;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::json;
use tokio::process::Command;

#[test]
fn an_agent_started_before_its_member_cluster_joins_once_there_is_one() {
    scenario("early", |ctx| async move {
        let member = Member::identity(&ctx, "m").await?;
        let spec = member.agent("member-1").await?;
        ctx.start_process(spec).await?;
        // It says what it waits for, and stays.
        member.until_log("member-1", "Watch interrupted").await?;
        let running = ctx.fleet().status().await?;
        ensure!(
            running
                .iter()
                .any(|p| p.name == member.process("member-1") && p.state.pid().is_some()),
            "the agent has ended"
        );
        member.create_again().await?;
        member.joined().await?;
        Ok(())
    });
}

#[test]
fn an_agent_behind_a_proxy_reaches_hub_and_channel_through_it() {
    scenario("by-proxy", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let mut tunnel = Tunnel::new().await?;
        let through = json!({ "httpsProxy": tunnel.url() });
        let spec = member.agent_with("member-1", &through).await?;
        ctx.start_process(spec).await?;
        member.joined().await?;
        let (hub, _) = agents::hub_address(ctx.fleet())?;
        let hub = hub.trim_start_matches("https://").trim_end_matches('/').to_owned();
        tunnel.until_asked(&hub).await?;
        tunnel.until_asked(&member.address().await?.endpoint).await
    });
}

/// A Secret that a token can be bound to.
async fn secret(ctx: &Ctx, word: &str) -> Result<(String, String)> {
    let name = ctx.name(word);
    let made = ctx
        .create_in::<Secret>(
            "hub",
            agents::NAMESPACE,
            serde_json::from_value(json!({"metadata": {"name": name}}))?,
        )
        .await?;
    Ok((name, made.uid().unwrap_or_default()))
}

#[test]
fn a_rotated_token_is_used_and_the_old_one_may_end() {
    scenario("rotate", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let ((old, old_uid), (new, new_uid)) = (secret(&ctx, "old").await?, secret(&ctx, "new").await?);
        let proxy = Proxy::to(&member.address().await?.endpoint).await?;
        let mut spec = member.agent("member-2").await?;
        spec.env
            .insert("HUB_CHANNEL_URL".to_owned(), format!("https://{}", proxy.address()));
        member.write_token(&member.token_bound_to(&old, &old_uid).await?)?;
        ctx.start_process(spec).await?;
        let before = member.joined().await?;

        member.write_token(&member.token_bound_to(&new, &new_uid).await?)?;
        let secrets = Api::<Secret>::namespaced(ctx.hub().await?, agents::NAMESPACE);
        secrets.delete(&old, &DeleteParams::default()).await?;
        member.next_beat().await?;
        proxy.cut();
        let mc = member.next_beat().await?;
        ensure!(membership(&mc) == membership(&before), "the rotation was felt: {mc:?}");
        Ok(())
    });
}

#[test]
fn an_agent_with_a_token_that_is_no_longer_good_waits_for_another() {
    scenario("expired", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.ready().await?;
        let (bound, uid) = secret(&ctx, "bound").await?;
        let spec = member.agent("member-3").await?;
        member.write_token(&member.token_bound_to(&bound, &uid).await?)?;
        let secrets = Api::<Secret>::namespaced(ctx.hub().await?, agents::NAMESPACE);
        secrets.delete(&bound, &DeleteParams::default()).await?;
        ctx.start_process(spec).await?;
        member.until_log("member-3", "Watch interrupted").await?;
        let mc = member.get().await?;
        ensure!(of(&mc, "Joined").is_none_or(|c| c.status != "True"), "{mc:?}");
        member.write_token(&member.token().await?)?;
        member.joined().await?;
        Ok(())
    });
}

#[test]
fn a_session_ends_with_its_token_and_a_fresh_one_carries_on() {
    scenario("expires", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let spec = member.agent("member-2").await?;
        // Long enough to join on a busy machine, and shorter than anything that the hub would look at again by itself.
        let end = now() + SignedDuration::from_secs(20);
        member.write_token(&member.token_until(end).await?)?;
        ctx.start_process(spec).await?;
        let before = member.joined().await?;
        member.until_log("member-2", "the credential has expired").await?;
        let silent = member.get().await?;
        ensure!(last_beat(&silent).is_some_and(|beat| beat <= end), "{silent:?}");
        // The API server itself accepts it for another minute; no session begins with it all the same.
        let mut late = ScriptedMember::dial(&member.address().await?, Some(&member.token_until(end).await?)).await?;
        let (code, message) = late.open_refused(hello(&member.name)).await?;
        ensure!(
            code == RejectCode::Unauthenticated && message.contains("expired"),
            "{code:?}: {message}"
        );

        member.write_token(&member.token().await?)?;
        let after = member.next_beat().await?;
        ensure!(membership(&after) == membership(&before), "it joined again: {after:?}");
        Ok(())
    });
}

#[test]
fn an_agent_joins_with_a_client_certificate() {
    scenario("by-cert", |ctx| async move {
        let member = Member::create_user(&ctx, "m").await?;
        member.ready().await?;
        ctx.start_process(member.agent_with_certificate("member-1").await?)
            .await?;
        member.joined().await?;
        // What it reads, it reads with the certificate as well.
        let imc = member.ready().await?;
        ensure!(imc.metadata.uid.is_some(), "{imc:?}");
        let mc = member.next_beat().await?;
        ensure!(of(&mc, "Healthy").is_some_and(|c| c.status == "True"), "{mc:?}");
        member.delete().await?;
        member.until_gone().await
    });
}

#[test]
fn a_client_certificate_of_a_foreign_ca_is_presented_and_refused() {
    scenario("foreign-cert", |ctx| async move {
        let member = Member::create_user(&ctx, "m").await?;
        let address = member.address().await?;
        let authorities = tempfile::tempdir()?;
        let foreign = Pki::create(&authorities.path().join("foreign"), "foreign")?;
        let open = async |(certificate, key): (String, String)| -> Result<()> {
            let mut stream = ScriptedMember::dial_with(&address, None, Some((&certificate, &key))).await?;
            stream.open(hello(&member.name)).await?;
            Ok(())
        };
        // For the right user, of the wrong authority: the handshake ends. The caller may meet a closed connection before
        // the alert that says why; the hub agent's log has the reason.
        let log = ctx.fleet().log_path(agents::HUB_AGENT);
        let before = fleet_e2e::wait::end_of(&log);
        let refused = open(foreign.client(&member.account)?).await;
        ensure!(refused.is_err(), "a certificate of a foreign authority was let in");
        fleet_e2e::wait::until_log_after(&log, before, "invalid peer certificate: UnknownIssuer").await?;
        // Of the right authority, for another user.
        let other = Pki::open(&ctx.fleet().dir().join("pki").join("hub")).client("somebody")?;
        let why = open(other)
            .await
            .map_or_else(|error| format!("{error:#}"), |()| "let in".to_owned());
        ensure!(why.contains("PermissionDenied"), "{why}");
        open(member.certificate()?).await
    });
}

#[test]
fn a_members_credential_reads_its_own_and_writes_nothing() {
    scenario("read-only", |ctx| async move {
        let (a, b) = (Member::create(&ctx, "a").await?, Member::create(&ctx, "b").await?);
        a.ready().await?;
        b.ready().await?;
        let hub = ctx.hub().await?;
        for member in [&a, &b] {
            fleet_e2e::hostile::work(&hub, &member.namespace(), "w", 0).await?;
        }
        // The very identity that the chart's agent uses, on a hub whose rights are the chart's.
        let kubeconfig = agents::kubeconfig_of(ctx.fleet(), "hub", &a.account, &a.account).await?;
        let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        let client = Client::try_from(config)?;
        let works = Api::<Work>::namespaced(client.clone(), &a.namespace());
        let internals = Api::<InternalMemberCluster>::namespaced(client.clone(), &a.namespace());
        // The rights come with the RoleBinding, a moment after the namespace.
        fleet_e2e::wait::until_present(works.clone(), "w", "readable", |_| true).await?;
        internals.get(&a.name).await?;

        let (params, create, delete) = (PatchParams::default(), PostParams::default(), DeleteParams::default());
        let status = Patch::Merge(json!({"status": {"conditions": []}}));
        let finalizers = Patch::Merge(json!({"metadata": {"finalizers": []}}));
        let members = Api::<MemberCluster>::all(client.clone());
        let maps = Api::<ConfigMap>::namespaced(client.clone(), &a.namespace());
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "c"}}))?;
        let copy: Work = serde_json::from_value(json!({"metadata": {"name": "mine"}, "spec": {}}))?;
        let theirs = Api::<Work>::namespaced(client.clone(), &b.namespace());
        let secrets = Api::<Secret>::namespaced(client.clone(), agents::NAMESPACE);
        let attempts = [
            ("Work status", works.patch_status("w", &params, &status).await.err()),
            ("Work finalizers", works.patch("w", &params, &finalizers).await.err()),
            ("a new Work", works.create(&create, &copy).await.err()),
            ("no Work", works.delete("w", &delete).await.err()),
            (
                "its own state",
                internals.patch(&a.name, &params, &finalizers).await.err(),
            ),
            (
                "its own status",
                internals.patch_status(&a.name, &params, &status).await.err(),
            ),
            (
                "MemberCluster",
                members.patch(&a.name, &params, &finalizers).await.err(),
            ),
            (
                "MemberCluster status",
                members.patch_status(&a.name, &params, &status).await.err(),
            ),
            ("a ConfigMap", maps.create(&create, &map).await.err()),
            ("another's Works", theirs.list(&ListParams::default()).await.err()),
            (
                "another's status",
                theirs.patch_status("w", &params, &status).await.err(),
            ),
            ("Secrets", secrets.list(&ListParams::default()).await.err()),
        ];
        for (what, error) in attempts {
            let code = match &error {
                Some(kube::Error::Api(answer)) => answer.code,
                _ => 0,
            };
            ensure!(code == 403, "{what}: {error:?}");
        }
        Ok(())
    });
}

/// Runs a program until it ends; gives what it said.
async fn complaint(program: &str, args: &[String], env: &[(&str, &str)]) -> Result<String> {
    let mut command = Command::new(agents::program(program)?);
    command.args(args).env_clear().stdin(Stdio::null()).kill_on_drop(true);
    for (key, value) in env {
        command.env(key, value);
    }
    let output = tokio::time::timeout(fleet_e2e::wait::PATIENCE, command.output()).await??;
    ensure!(!output.status.success(), "{program} ended well");
    Ok(format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    ))
}

#[test]
fn a_hub_agent_without_its_crds_says_which_and_ends() {
    scenario("no-crds", |ctx| async move {
        // A member has none of the hub's CRDs.
        let all = ctx.fleet().kubeconfig()?;
        let mut one = serde_json::to_value(&all)?;
        one["current-context"] = json!(ctx.fleet().cluster("member-1")?.context);
        let path = ctx
            .fleet()
            .dir()
            .join("conf")
            .join(format!("{}.kubeconfig", ctx.prefix()));
        fleet_e2e::cluster::kubeconfig::write(&path, &one)?;
        let off = [
            "--health-probe-bind-address=0",
            "--metrics-bind-address=0",
            "--channel-bind-address=127.0.0.1:0",
        ];
        let mut args = off.map(str::to_owned).to_vec();
        args.push(format!("--kubeconfig={}", path.display()));
        let said = complaint("hub-agent", &args, &[]).await?;
        ensure!(said.contains("apply the CRDs first"), "{said}");
        Ok(())
    });
}

#[test]
fn settings_that_cannot_work_are_named_before_anything_else() {
    scenario("settings", |_| async move {
        let base = [
            ("HUB_SERVER_URL", "https://127.0.0.1:1"),
            ("MEMBER_CLUSTER_NAME", "m"),
            ("CONFIG_PATH", "/nowhere/token"),
        ];
        let cases = [
            ("HUB_SERVER_URL", None, "hub server api cannot be empty"),
            ("MEMBER_CLUSTER_NAME", None, "member cluster name cannot be empty"),
            ("CONFIG_PATH", None, "hub token file path cannot be empty"),
            (
                "",
                Some(("HUB_CERTIFICATE_AUTHORITY", "%%%")),
                "HUB_CERTIFICATE_AUTHORITY",
            ),
            ("", None, "/nowhere/token"),
        ];
        for (without, with, wanted) in cases {
            let env = base.iter().copied().filter(|(key, _)| *key != without).chain(with);
            let said = complaint("member-agent", &[], &env.collect::<Vec<_>>()).await?;
            ensure!(said.contains(wanted), "wanted {wanted:?}: {said}");
        }
        for bad in ["--force-delete-wait-time=29s", "--force-delete-wait-time=2h"] {
            let said = complaint("hub-agent", &[bad.to_owned()], &[]).await?;
            ensure!(said.contains("duration must be in the range [30s, 1h]"), "{said}");
        }
        Ok(())
    });
}
