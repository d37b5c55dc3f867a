//! The member's identity on the hub, and a token of it.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use fleet_api::names::{ClusterName, FLEET_SYSTEM_NAMESPACE};
use futures::{StreamExt, TryStreamExt};
use jiff::SignedDuration;
use k8s_openapi::{
    ByteString,
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::{Namespace, Secret, ServiceAccount},
        rbac::v1::{PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
};
use kube::{
    Api, Client,
    api::{ObjectMeta, PostParams, WatchEvent, WatchParams},
};

use super::{apply, named};

const RBAC: &str = "rbac.authorization.k8s.io";
/// The token controller answers within a second; a minute means that it does not run.
const TOKEN_WAIT: Duration = Duration::from_mins(1);

/// The member's ServiceAccount on the hub, and a token of it: one that lives so long and that it may renew, or one that
/// never ends.
pub(super) async fn issue(hub: &Client, cluster: &ClusterName, lifetime: Option<SignedDuration>) -> Result<ByteString> {
    let identity = cluster.service_account();
    ensure_namespace(hub, FLEET_SYSTEM_NAMESPACE).await?;
    let account = ServiceAccount {
        metadata: named(&identity),
        ..ServiceAccount::default()
    };
    let accounts = Api::<ServiceAccount>::namespaced(hub.clone(), FLEET_SYSTEM_NAMESPACE);
    apply(&accounts, &account).await?;
    let Some(lifetime) = lifetime else {
        return unbounded(hub, cluster).await;
    };
    let (role, binding) = may_renew(cluster);
    apply(&Api::namespaced(hub.clone(), FLEET_SYSTEM_NAMESPACE), &role).await?;
    apply(&Api::namespaced(hub.clone(), FLEET_SYSTEM_NAMESPACE), &binding).await?;
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(lifetime.as_secs()),
            ..TokenRequestSpec::default()
        },
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(&identity, &PostParams::default(), &request)
        .await;
    let answer = answer.with_context(|| format!("cannot issue a token of ServiceAccount {identity}"))?;
    let issued = answer.status.context("the hub has issued no token")?;
    eprintln!(
        "hub: ServiceAccount {FLEET_SYSTEM_NAMESPACE}/{identity}, which may renew its token; this one ends at {}",
        issued.expiration_timestamp.0
    );
    let secrets = Api::<Secret>::namespaced(hub.clone(), FLEET_SYSTEM_NAMESPACE);
    let former = cluster.token_secret();
    if let Ok(Some(_)) = secrets.get_opt(&former).await {
        eprintln!(
            "note: Secret {FLEET_SYSTEM_NAMESPACE}/{former} on the hub holds a token that never ends; delete it once the \
             member uses the new one"
        );
    }
    Ok(ByteString(issued.token.into_bytes()))
}

/// The one right that it takes: to ask for tokens of itself.
fn may_renew(cluster: &ClusterName) -> (Role, RoleBinding) {
    let (identity, name) = (cluster.service_account(), cluster.renewal_role());
    let role = Role {
        metadata: named(&name),
        rules: Some(vec![PolicyRule {
            api_groups: Some(vec![String::new()]),
            resources: Some(vec!["serviceaccounts/token".to_owned()]),
            resource_names: Some(vec![identity.clone()]),
            verbs: vec!["create".to_owned()],
            ..PolicyRule::default()
        }]),
    };
    let binding = RoleBinding {
        metadata: named(&name),
        role_ref: RoleRef {
            api_group: RBAC.to_owned(),
            kind: "Role".to_owned(),
            name,
        },
        subjects: Some(vec![Subject {
            kind: "ServiceAccount".to_owned(),
            name: identity,
            namespace: Some(FLEET_SYSTEM_NAMESPACE.to_owned()),
            api_group: None,
        }]),
    };
    (role, binding)
}

/// Makes a namespace unless it is there.
pub(super) async fn ensure_namespace(cluster: &Client, name: &str) -> Result<()> {
    let namespace = Namespace {
        metadata: named(name),
        ..Namespace::default()
    };
    apply(&Api::all(cluster.clone()), &namespace).await
}

/// A token that never ends, once the hub has put it into a Secret.
async fn unbounded(hub: &Client, cluster: &ClusterName) -> Result<ByteString> {
    let (identity, name) = (cluster.service_account(), cluster.token_secret());
    let secret = Secret {
        metadata: ObjectMeta {
            annotations: Some(BTreeMap::from([(
                "kubernetes.io/service-account.name".to_owned(),
                identity.clone(),
            )])),
            ..named(&name)
        },
        type_: Some("kubernetes.io/service-account-token".to_owned()),
        ..Secret::default()
    };
    let secrets = Api::<Secret>::namespaced(hub.clone(), FLEET_SYSTEM_NAMESPACE);
    apply(&secrets, &secret).await?;
    eprintln!("hub: ServiceAccount {FLEET_SYSTEM_NAMESPACE}/{identity}, token without an end in Secret {name}");
    tokio::time::timeout(TOKEN_WAIT, issued(&secrets, &name)).await.unwrap_or_else(|_| {
        bail!("the hub has not filled Secret {FLEET_SYSTEM_NAMESPACE}/{name} with a token: does its controller manager run?")
    })
}

async fn issued(secrets: &Api<Secret>, name: &str) -> Result<ByteString> {
    let token = |s: &Secret| {
        s.data
            .as_ref()
            .and_then(|d| d.get("token"))
            .filter(|t| !t.0.is_empty())
            .cloned()
    };
    loop {
        // The watch starts with the Secret as it is now.
        let only = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = secrets.watch(&only, "0").await?.boxed();
        while let Some(event) = events.try_next().await? {
            if let WatchEvent::Added(secret) | WatchEvent::Modified(secret) = event
                && let Some(token) = token(&secret)
            {
                return Ok(token);
            }
        }
    }
}
