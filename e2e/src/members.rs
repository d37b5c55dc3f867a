//! MemberClusters of a scenario's own, beside the fleet's: with an identity and a token, and an agent if one is wanted.
//!
//! Real agents run against a cluster of the fleet, under its member agent's ServiceAccount. Without leader election: the
//! cluster's own agent has the Lease, and these are other members that happen to live on the same cluster.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fleet_api::cluster::{InternalMemberCluster, MemberCluster};
use fleet_api::{annotations, conditions, names, patch};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{BoundObjectReference, TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Event, ServiceAccount};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use crate::agents;
use crate::cluster::certs::{self, Pki};
use crate::events::Events;
use crate::harness::Ctx;
use crate::process;
use crate::scripted_member::{Address, ScriptedMember, hello};
use crate::wait;

/// A MemberCluster and its identity on the hub.
#[derive(Debug, Clone)]
pub struct Member {
    ctx: Ctx,
    /// The MemberCluster's name.
    pub name: String,
    /// The ServiceAccount that is its identity, in `fleet-system`.
    pub account: String,
}

impl Member {
    /// Makes an identity and a MemberCluster that beats every second.
    pub async fn create(ctx: &Ctx, word: &str) -> Result<Self> {
        let member = Self::identity(ctx, word).await?;
        member.create_again().await?;
        Ok(member)
    }

    /// A MemberCluster whose identity is a user, who proves itself with a client certificate.
    pub async fn create_user(ctx: &Ctx, word: &str) -> Result<Self> {
        let member = Self::named(ctx, &ctx.name(word));
        let subject = json!({"kind": "User", "name": member.account, "apiGroup": "rbac.authorization.k8s.io"});
        let spec = json!({"identity": subject, "heartbeatPeriodSeconds": 1});
        let mc = serde_json::from_value(json!({"metadata": {"name": member.name}, "spec": spec}))?;
        ctx.create::<MemberCluster>("hub", mc).await?;
        Ok(member)
    }

    /// A client certificate of its user and the key, PEM, signed by the hub's CA.
    pub fn certificate(&self) -> Result<(String, String)> {
        Pki::open(&self.ctx.fleet().dir().join("pki").join("hub")).client(&self.account)
    }

    /// What a real agent on `cluster` runs with that proves itself with that certificate, as the chart says it.
    pub async fn agent_with_certificate(&self, cluster: &str) -> Result<process::Spec> {
        let fleet = self.ctx.fleet();
        let (certificate, key) = self.certificate()?;
        let file = |end: &str| fleet.dir().join("conf").join(format!("{}.{end}", self.name));
        let (cert_file, key_file) = (file("crt"), file("key"));
        certs::write_private(&cert_file, &certificate)?;
        certs::write_private(&key_file, &key)?;
        let (server, ca) = agents::hub_address(fleet)?;
        let config = json!({
            "hubURL": server, "hubCA": ca, "memberClusterName": self.name,
            "identityKey": key_file, "identityCert": cert_file,
        });
        let values = json!({"config": config, "useCAAuth": true});
        let mut spec = agents::member_agent_spec(fleet, cluster, &self.process(cluster), &values).await?;
        spec.args.retain(|arg| !arg.starts_with("--leader-elect"));
        Ok(spec)
    }

    /// The identity alone.
    pub async fn identity(ctx: &Ctx, word: &str) -> Result<Self> {
        let name = ctx.name(word);
        let account = serde_json::from_value(json!({"metadata": {"name": name}}))?;
        ctx.create_in::<ServiceAccount>("hub", agents::NAMESPACE, account)
            .await?;
        Ok(Self {
            ctx: ctx.clone(),
            account: name.clone(),
            name,
        })
    }

    /// A MemberCluster that was made in another way.
    pub fn named(ctx: &Ctx, name: &str) -> Self {
        Self {
            ctx: ctx.clone(),
            name: name.to_owned(),
            account: name.to_owned(),
        }
    }

    /// The MemberCluster for an identity that exists.
    pub async fn create_again(&self) -> Result<MemberCluster> {
        let subject = json!({"kind": "ServiceAccount", "name": self.account, "namespace": agents::NAMESPACE});
        let spec = json!({"identity": subject, "heartbeatPeriodSeconds": 1});
        let mc = serde_json::from_value(json!({"metadata": {"name": self.name}, "spec": spec}))?;
        self.ctx.create::<MemberCluster>("hub", mc).await
    }

    /// The namespace on the hub.
    pub fn namespace(&self) -> String {
        format!("{}{}", names::MEMBER_NAMESPACE_PREFIX, self.name)
    }

    /// MemberClusters.
    pub async fn api(&self) -> Result<Api<MemberCluster>> {
        Ok(Api::all(self.ctx.hub().await?))
    }

    /// InternalMemberClusters, in the member's namespace.
    pub async fn internals(&self) -> Result<Api<InternalMemberCluster>> {
        Ok(Api::namespaced(self.ctx.hub().await?, &self.namespace()))
    }

    /// The MemberCluster now.
    pub async fn get(&self) -> Result<MemberCluster> {
        Ok(self.api().await?.get(&self.name).await?)
    }

    /// Waits for a state of the MemberCluster.
    pub async fn until(&self, what: &str, wanted: impl FnMut(&MemberCluster) -> bool) -> Result<MemberCluster> {
        wait::until_present(self.api().await?, &self.name, what, wanted).await
    }

    /// Waits for a status of one of its conditions.
    pub async fn until_condition(&self, type_: &str, status: &str) -> Result<MemberCluster> {
        let what = format!("{type_}={status}");
        self.until(&what, |mc| of(mc, type_).is_some_and(|c| c.status == status))
            .await
    }

    /// Waits for the InternalMemberCluster that a member can connect by.
    pub async fn ready(&self) -> Result<InternalMemberCluster> {
        wait::until_present(self.internals().await?, &self.name, "announces the channel", |imc| {
            let annotations = imc.metadata.annotations.as_ref();
            imc.metadata.deletion_timestamp.is_none()
                && annotations.is_some_and(|a| {
                    a.contains_key(annotations::CHANNEL_ENDPOINT) && a.contains_key(annotations::CHANNEL_CA)
                })
        })
        .await
    }

    /// Changes the MemberCluster by a merge patch.
    pub async fn patch(&self, patch: &Value) -> Result<MemberCluster> {
        let api = self.api().await?;
        Ok(api
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(patch))
            .await?)
    }

    /// Asks for the MemberCluster's deletion.
    pub async fn delete(&self) -> Result<()> {
        self.api()
            .await?
            .delete(&self.name, &kube::api::DeleteParams::default())
            .await?;
        Ok(())
    }

    /// Waits until nothing is left of it.
    pub async fn until_gone(&self) -> Result<()> {
        wait::until_gone(self.api().await?, &self.name).await
    }

    /// A token of its identity.
    pub async fn token(&self) -> Result<String> {
        self.issue(None).await
    }

    /// A token that lives no longer than a Secret in `fleet-system`.
    pub async fn token_bound_to(&self, secret: &str, uid: &str) -> Result<String> {
        let bound = BoundObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Secret".to_owned()),
            name: Some(secret.to_owned()),
            uid: Some(uid.to_owned()),
        };
        self.issue(Some(bound)).await
    }

    /// A token that ends at this time, which may be sooner than any that the hub issues.
    pub async fn token_until(&self, end: Timestamp) -> Result<String> {
        let accounts = Api::<ServiceAccount>::namespaced(self.ctx.hub().await?, agents::NAMESPACE);
        let account = accounts.get(&self.account).await?;
        let issuer = "https://kubernetes.default.svc";
        Pki::open(&self.ctx.fleet().dir().join("pki").join("hub")).sign_token(&json!({
            "iss": issuer, "aud": [issuer], "exp": end.as_second(),
            "sub": format!("system:serviceaccount:{}:{}", agents::NAMESPACE, self.account),
            "kubernetes.io": {
                "namespace": agents::NAMESPACE,
                "serviceaccount": {"name": self.account, "uid": account.metadata.uid},
            },
        }))
    }

    async fn issue(&self, bound_object_ref: Option<BoundObjectReference>) -> Result<String> {
        let accounts = Api::<ServiceAccount>::namespaced(self.ctx.hub().await?, agents::NAMESPACE);
        let spec = TokenRequestSpec {
            bound_object_ref,
            expiration_seconds: Some(3600),
            ..TokenRequestSpec::default()
        };
        let request = TokenRequest {
            spec,
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(&self.account, &PostParams::default(), &request)
            .await?;
        answer.status.map(|s| s.token).context("the hub issued no token")
    }

    /// The channel as the hub announces it to this member.
    pub async fn address(&self) -> Result<Address> {
        let imc = self.ready().await?;
        let annotations = imc.metadata.annotations.unwrap_or_default();
        Ok(Address {
            endpoint: annotations[annotations::CHANNEL_ENDPOINT].clone(),
            ca: String::from_utf8(STANDARD.decode(&annotations[annotations::CHANNEL_CA])?)?,
        })
    }

    /// A stream with its token on which nothing has been said.
    pub async fn dial(&self) -> Result<ScriptedMember> {
        ScriptedMember::dial(&self.address().await?, Some(&self.token().await?)).await
    }

    /// A scripted member with a session.
    pub async fn connect(&self) -> Result<ScriptedMember> {
        let mut scripted = self.dial().await?;
        scripted.open(hello(&self.name)).await?;
        Ok(scripted)
    }

    /// A scripted member that has joined.
    pub async fn join_scripted(&self) -> Result<ScriptedMember> {
        let mut scripted = self.connect().await?;
        scripted.report_joined().await?;
        self.until_condition("Joined", "True").await?;
        Ok(scripted)
    }

    /// Events about the MemberCluster so far.
    pub async fn events(&self) -> Result<Vec<Event>> {
        self.told().await?.list().await
    }

    /// Waits for an Event about the MemberCluster.
    pub async fn until_event(&self, reason: &str) -> Result<Event> {
        let found = self.told().await?.until(reason, &[]).await?;
        let told = found.into_iter().find(|event| event.reason.as_deref() == Some(reason));
        told.context("waited for it")
    }

    async fn told(&self) -> Result<Events> {
        Events::about(&self.ctx, None, "MemberCluster", &self.name).await
    }

    /// How often its agent has told something, by the Events in its namespace.
    pub async fn times_told(&self, reason: &str) -> Result<i32> {
        let events = Api::<Event>::namespaced(self.ctx.hub().await?, &self.namespace());
        let list = events.list(&ListParams::default()).await?.items;
        let told = list.iter().filter(|event| event.reason.as_deref() == Some(reason));
        Ok(told.map(|event| event.count.unwrap_or(1)).sum())
    }

    /// Writes a token where an agent of this member reads it.
    pub fn write_token(&self, token: &str) -> Result<PathBuf> {
        let path = self.ctx.fleet().dir().join("conf").join(format!("{}.token", self.name));
        let new = path.with_extension("new");
        std::fs::write(&new, token)?;
        std::fs::rename(&new, &path)?;
        Ok(path)
    }

    /// What a real agent of this member on `cluster` runs with, to be changed before it is started.
    pub async fn agent(&self, cluster: &str) -> Result<process::Spec> {
        self.agent_with(cluster, &json!({})).await
    }

    /// The same with further values of the chart's `config`.
    pub async fn agent_with(&self, cluster: &str, config: &Value) -> Result<process::Spec> {
        let token = self.write_token(&self.token().await?)?;
        let fleet = self.ctx.fleet();
        let (server, ca) = agents::hub_address(fleet)?;
        let ours = json!({
            "provider": "file", "tokenFile": token, "hubURL": server, "hubCA": ca, "memberClusterName": self.name,
        });
        let config = patch::applied(ours, config);
        let process = self.process(cluster);
        let mut spec = agents::member_agent_spec(fleet, cluster, &process, &json!({"config": config})).await?;
        spec.args.retain(|arg| !arg.starts_with("--leader-elect"));
        Ok(spec)
    }

    /// The name of its agent's process.
    pub fn process(&self, cluster: &str) -> String {
        format!("{cluster}/{}", self.name)
    }

    /// Starts a real agent on `cluster` and waits until the member has joined.
    pub async fn join_agent(&self, cluster: &str) -> Result<MemberCluster> {
        let spec = self.agent(cluster).await?;
        self.ctx.start_process(spec).await?;
        self.joined().await
    }

    /// Waits until it has joined, by the hub's word for the MemberCluster as it is now.
    pub async fn joined(&self) -> Result<MemberCluster> {
        agents::joined(self.ctx.fleet(), &self.name).await
    }

    /// Waits until its agent has logged a text.
    pub async fn until_log(&self, cluster: &str, text: &str) -> Result<()> {
        let path = self.ctx.fleet().log_path(&self.process(cluster));
        wait::until_log(&path, text).await
    }

    /// What its agent has logged so far.
    pub fn log(&self, cluster: &str) -> Result<String> {
        let path = self.ctx.fleet().log_path(&self.process(cluster));
        std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// Waits for a heartbeat that the hub received after now.
    pub async fn next_beat(&self) -> Result<MemberCluster> {
        let before = last_beat(&self.get().await?);
        self.until("another heartbeat", |mc| last_beat(mc) > before).await
    }
}

/// A condition of a MemberCluster.
pub fn of<'a>(mc: &'a MemberCluster, type_: &str) -> Option<&'a Condition> {
    mc.status
        .as_ref()
        .and_then(|status| conditions::find(&status.conditions, type_))
}

/// Whether a member has joined, and since when: alike as long as it has neither left nor joined again.
pub fn membership(mc: &MemberCluster) -> Option<(String, Time)> {
    of(mc, "Joined").map(|joined| (joined.status.clone(), joined.last_transition_time.clone()))
}

/// The last heartbeat of the member agent that the hub received.
pub fn last_beat(mc: &MemberCluster) -> Option<Timestamp> {
    let status = mc.status.as_ref()?;
    let agent = status.agent(&fleet_api::cluster::AgentType::MemberAgent)?;
    agent.last_received_heartbeat.as_ref().map(|time| time.0)
}

/// A condition of the member agent, as the MemberCluster shows it.
pub fn of_agent<'a>(mc: &'a MemberCluster, type_: &str) -> Option<&'a Condition> {
    let agent = mc.status.as_ref()?.agent(&fleet_api::cluster::AgentType::MemberAgent)?;
    conditions::find(&agent.conditions, type_)
}

/// How long until a silent member counts as lost in a local fleet.
pub const SILENCE: Duration = Duration::from_secs(30);
