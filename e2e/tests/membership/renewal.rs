//! Tokens that end, and how the member agent keeps them from ending.

use anyhow::{Context as _, Result, ensure};
use fleet_api::annotations::RENEW_TOKEN;
use fleet_core::session::token::{Claims, LIFETIME_MIN};
use fleet_e2e::agents;
use fleet_e2e::events::Events;
use fleet_e2e::harness::{Ctx, scenario};
use fleet_e2e::members::{Member, last_beat};
use fleet_e2e::process::Spec;
use fleet_e2e::{now, wait};
use jiff::SignedDuration;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use serde_json::json;

const SECRET: &str = "hub-token";

fn token(secret: &Secret) -> String {
    let data = secret.data.as_ref().and_then(|data| data.get("token"));
    data.map(|bytes| String::from_utf8_lossy(&bytes.0).into_owned())
        .unwrap_or_default()
}

/// Starts an agent on `cluster` whose token is in a Secret there.
async fn start(ctx: &Ctx, member: &Member, cluster: &str, token: &str, renew: bool) -> Result<Api<Secret>> {
    let spec = member.agent(cluster).await?;
    start_with(ctx, spec, cluster, token, renew).await
}

async fn start_with(ctx: &Ctx, mut spec: Spec, cluster: &str, token: &str, renew: bool) -> Result<Api<Secret>> {
    let namespace = ctx.namespace(cluster).await?;
    let annotations = if renew {
        json!({ RENEW_TOKEN: "true" })
    } else {
        json!({})
    };
    let secret =
        json!({ "metadata": { "name": SECRET, "annotations": annotations }, "stringData": { "token": token } });
    ctx.create_in::<Secret>(cluster, &namespace, serde_json::from_value(secret)?)
        .await?;
    spec.env.remove("CONFIG_PATH");
    spec.env
        .insert("HUB_TOKEN_SECRET".to_owned(), format!("{namespace}/{SECRET}"));
    ctx.start_process(spec).await?;
    Ok(Api::namespaced(ctx.client(cluster).await?, &namespace))
}

/// What `kubectl fleet join` grants.
async fn may_renew(ctx: &Ctx, member: &Member) -> Result<()> {
    let name = ctx.name("renewal");
    let grant = json!({
        "apiGroups": [""], "resources": ["serviceaccounts/token"], "resourceNames": [member.account], "verbs": ["create"],
    });
    let role = serde_json::from_value(json!({ "metadata": { "name": name }, "rules": [grant] }))?;
    ctx.create_in::<Role>("hub", agents::NAMESPACE, role).await?;
    let binding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": member.account, "namespace": agents::NAMESPACE }],
    }))?;
    ctx.create_in::<RoleBinding>("hub", agents::NAMESPACE, binding).await?;
    Ok(())
}

async fn until_other(secrets: &Api<Secret>, old: &str) -> Result<String> {
    let found = wait::until_present(secrets.clone(), SECRET, "another token", |secret| token(secret) != old).await?;
    Ok(token(&found))
}

#[test]
fn a_token_that_ends_is_renewed_and_outlived() {
    scenario("renewed", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        may_renew(&ctx, &member).await?;
        // Long enough to start on a busy machine.
        let end = now() + SignedDuration::from_secs(30);
        let old = member.token_until(end).await?;
        let secrets = start(&ctx, &member, "member-1", &old, true).await?;
        let new = until_other(&secrets, &old).await?;
        let claims = Claims::of(&new).context("it does not end")?;
        ensure!(
            claims.name == member.account && claims.lifetime >= LIFETIME_MIN,
            "{claims:?}"
        );
        member.joined().await?;
        member
            .until("a heartbeat after the end of the old one", |mc| {
                last_beat(mc) > Some(end)
            })
            .await?;
        // What it got is in the Secret, so that it is there after a crash; and it is not thrown away for another each time.
        ctx.fleet().crash(&member.process("member-1")).await?;
        member.next_beat().await?;
        let (server, _) = agents::hub_address(ctx.fleet())?;
        ensure!(
            !member.log("member-1")?.contains(&new),
            "a token in the log, which went to {server}"
        );
        Ok(())
    });
}

#[test]
fn a_members_token_makes_tokens_of_itself_and_of_nobody_else() {
    scenario("own-token", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        may_renew(&ctx, &member).await?;
        let other = Member::identity(&ctx, "other").await?;
        let kubeconfig = agents::kubeconfig_of(ctx.fleet(), "hub", &member.account, &member.account).await?;
        let client =
            fleet_e2e::cluster::kubeconfig::client(kube::config::Kubeconfig::read_from(kubeconfig)?, &member.account)
                .await?;
        let accounts = Api::<ServiceAccount>::namespaced(client, agents::NAMESPACE);
        let request = TokenRequest::default();
        let own = accounts
            .create_token_request(&member.account, &PostParams::default(), &request)
            .await?;
        ensure!(own.status.is_some(), "{own:?}");
        for account in [other.account.as_str(), "hub-agent-sa"] {
            let refused = accounts
                .create_token_request(account, &PostParams::default(), &request)
                .await;
            ensure!(
                matches!(&refused, Err(kube::Error::Api(status)) if status.code == 403),
                "{account}: {refused:?}"
            );
        }
        Ok(())
    });
}

#[test]
fn a_token_that_may_not_be_renewed_says_what_to_run() {
    scenario("not-renewed", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        let old = member.token().await?;
        let secrets = start(&ctx, &member, "member-2", &old, true).await?;
        member.joined().await?;
        let events = Events::about(&ctx, Some(&member.namespace()), "InternalMemberCluster", &member.name).await?;
        let told = events.until("HubTokenNotRenewed", &[]).await?;
        let message = told
            .iter()
            .find(|event| event.reason.as_deref() == Some("HubTokenNotRenewed"))
            .and_then(|event| event.message.clone())
            .unwrap_or_default();
        let (ends, run) = (
            Claims::of(&old).context("it ends")?.ends,
            format!("run `kubectl fleet join {}` again", member.name),
        );
        ensure!(
            message.starts_with(&format!("the member's token for the hub ends at {ends} and could not be renewed: this member may not renew its token: "))
                && message.contains(&run),
            "{message}"
        );
        member.until_log("member-2", &run).await?;
        may_renew(&ctx, &member).await?;
        until_other(&secrets, &old).await?;
        events.until("HubTokenRenewed", &[]).await?;
        Ok(())
    });
}

#[test]
fn a_revoked_token_is_said_and_a_new_one_ends_the_trouble() {
    scenario("revoked", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        member.ready().await?;
        let (old, spec) = (member.token().await?, member.agent("member-3").await?);
        // The hub takes it away; the account of the same name that comes later is another one.
        let accounts = Api::<ServiceAccount>::namespaced(ctx.hub().await?, agents::NAMESPACE);
        accounts.delete(&member.account, &DeleteParams::default()).await?;
        wait::until_gone(accounts.clone(), &member.account).await?;
        let secrets = start_with(&ctx, spec, "member-3", &old, true).await?;
        member
            .until_log("member-3", "the hub does not accept the token any more")
            .await?;
        member
            .until_log("member-3", &format!("run `kubectl fleet join {}` again", member.name))
            .await?;
        let account = serde_json::from_value(json!({ "metadata": { "name": member.account } }))?;
        accounts.create(&PostParams::default(), &account).await?;
        may_renew(&ctx, &member).await?;
        let new = Patch::Merge(json!({ "stringData": { "token": member.token().await? } }));
        secrets.patch(SECRET, &PatchParams::default(), &new).await?;
        member.joined().await?;
        Ok(())
    });
}

#[test]
fn a_token_that_is_somebody_elses_to_keep_fresh_is_left_alone() {
    scenario("left-alone", |ctx| async move {
        let member = Member::create(&ctx, "m").await?;
        may_renew(&ctx, &member).await?;
        // As older recipes have it: no end, and nothing that says who renews it.
        let secret = json!({
            "metadata": { "name": ctx.name("token"), "annotations": { "kubernetes.io/service-account.name": member.account } },
            "type": "kubernetes.io/service-account-token",
        });
        ctx.create_in::<Secret>("hub", agents::NAMESPACE, serde_json::from_value(secret)?)
            .await?;
        let filled = Api::<Secret>::namespaced(ctx.hub().await?, agents::NAMESPACE);
        let filled =
            wait::until_present(filled, &ctx.name("token"), "filled", |secret| !token(secret).is_empty()).await?;
        let secrets = start(&ctx, &member, "member-1", &token(&filled), false).await?;
        let before = secrets.get(SECRET).await?;
        member.joined().await?;
        member.next_beat().await?;
        ensure!(
            secrets.get(SECRET).await?.resource_version() == before.resource_version(),
            "it was written to"
        );
        ensure!(
            !member.log("member-1")?.contains("Renewed the hub token"),
            "it was renewed"
        );
        Ok(())
    });
}

/// The fleet's own members have joined by the command.
#[test]
fn kubectl_fleet_join_makes_a_token_that_ends_and_is_renewed() {
    scenario("joined", |ctx| async move {
        let secrets = Api::<Secret>::namespaced(ctx.client("member-1").await?, agents::NAMESPACE);
        let by_agent = |secret: &Secret| {
            let mut managers = secret.managed_fields().iter();
            managers.any(|entry| entry.manager.as_deref() == Some("member-agent"))
        };
        let secret = wait::until_present(secrets, "hub-kubeconfig-secret", "renewed by the agent", by_agent).await?;
        ensure!(
            secret.annotations().get(RENEW_TOKEN).is_some_and(|word| word == "true"),
            "{secret:?}"
        );
        let claims = Claims::of(&token(&secret)).context("it never ends")?;
        ensure!(claims.lifetime <= SignedDuration::from_hours(30 * 24), "{claims:?}");
        ensure!(claims.name == "member-1-hub-cluster-access", "{claims:?}");
        let former = Api::<Secret>::namespaced(ctx.client("member-1").await?, "default");
        ensure!(
            former.get_opt("hub-kubeconfig-secret").await?.is_none(),
            "one is in default"
        );
        Ok(())
    });
}
