//! `kubectl fleet approve`: approves what an update run waits for, for the generation that the request has. Arguments, lines
//! and exit status are those of KubeFleet's plugin, so that scripts go on working.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use fleet_api::{
    conditions::{self, approval_request::Approved},
    names::Scope,
    placement::{ApprovalRequest, ApprovalRequestStatus, ClusterApprovalRequest},
};
use jiff::Timestamp;
use kube::api::DynamicObject;
use tokio::time::Instant;

use crate::{
    globals::Globals,
    hub::{Hub, Named, Part, Unchanged},
    old,
    subject::Key,
    terminal::{log, now},
};

/// Approve what an update run waits for.
///
/// Lines and exit status are those of KubeFleet's plugin: 0 approved, 1 anything else.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl fleet approve clusterapprovalrequest --name example-run-before-prod\n  \
                  kubectl fleet approve areq --name example-run-after-canary --namespace team-a"
)]
pub(crate) struct Args {
    /// clusterapprovalrequest (careq) or approvalrequest (areq)
    // What is missing is said in the words that scripts know, not in those of the parser.
    #[arg(value_name = "KIND")]
    kind: Vec<String>,
    /// The name of the request
    #[arg(long)]
    name: Option<String>,
    /// The namespace of an approvalrequest
    #[arg(long, short)]
    namespace: Option<String>,
    /// How long to try
    #[arg(long, default_value = "5m", value_parser = old::timeout)]
    timeout: Duration,
    #[command(flatten)]
    globals: Globals,
}

/// The request that somebody approves.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    name: String,
    /// Only a namespaced request has one.
    namespace: Option<String>,
}

impl Target {
    /// The request of this name; in a namespace unless it is cluster-scoped.
    pub(crate) fn new(name: String, namespace: Option<String>) -> Self {
        Self { name, namespace }
    }

    fn of(args: &Args) -> Result<Self> {
        let [kind] = args.kind.as_slice() else {
            ensure!(!args.kind.is_empty(), "resource kind is required");
            bail!("accepts 1 arg(s), received {}", args.kind.len());
        };
        let given = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        let is_namespaced = match kind.to_lowercase().as_str() {
            "clusterapprovalrequest" | "careq" => false,
            "approvalrequest" | "areq" => true,
            _ => bail!("unsupported resource kind {kind:?}"),
        };
        let name = given(&args.name).context("resource name is required")?;
        let namespace = given(&args.namespace);
        match (is_namespaced, &namespace) {
            (false, Some(_)) => bail!("clusterapprovalrequest is cluster-scoped and does not accept a namespace"),
            (true, None) => bail!("namespace is required for approvalrequest (use --namespace or -n flag)"),
            (false, None) | (true, Some(_)) => Ok(Self { name, namespace }),
        }
    }

    fn scope(&self) -> Scope {
        match self.namespace {
            None => Scope::Cluster,
            Some(_) => Scope::Namespaced,
        }
    }

    /// As it is called in what we print.
    fn title(&self) -> String {
        match &self.namespace {
            None => format!("ClusterApprovalRequest {:?}", self.name),
            Some(namespace) => format!("ApprovalRequest {:?} in namespace {namespace:?}", self.name),
        }
    }

    pub(crate) async fn approve(&self, hub: &Hub) -> Result<()> {
        let named = Named {
            namespace: self.namespace.as_deref(),
            name: &self.name,
        };
        let scope = self.scope();
        let change = |request: &mut DynamicObject| approve(request, scope, now()).map(|()| true);
        let written = match scope {
            Scope::Cluster => hub.change::<ClusterApprovalRequest>(named, Part::Status, change).await,
            Scope::Namespaced => hub.change::<ApprovalRequest>(named, Part::Status, change).await,
        };
        written.map(drop).map_err(|unchanged| match unchanged {
            Unchanged::Unread(problem) => {
                anyhow::Error::from(problem).context(format!("failed to get {}", self.title()))
            }
            unchanged => unchanged.into(),
        })
    }
}

/// Approves a request, as a key of a screen does.
pub(crate) async fn give(hub: &Hub, key: &Key) -> Result<()> {
    let namespace = Some(key.namespace.clone()).filter(|namespace| !namespace.is_empty());
    let name = key.name.clone();
    Target { name, namespace }.approve(hub).await
}

/// Approves a request for the generation that it has.
fn approve(request: &mut DynamicObject, scope: Scope, now: Timestamp) -> Result<()> {
    let generation = request.metadata.generation.unwrap_or_default();
    let status = request.data.get("status").cloned().unwrap_or_default();
    let mut status: ApprovalRequestStatus = match status {
        serde_json::Value::Null => ApprovalRequestStatus::default(),
        status => serde_json::from_value(status)?,
    };
    conditions::set(&mut status.conditions, &Approved::of(scope), generation, now);
    request.data["status"] = serde_json::to_value(status)?;
    Ok(())
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let target = Target::of(&args)?;
    let hub = Hub::connect(&args.globals).await?;
    let approved = old::in_time(Instant::now() + args.timeout, target.approve(&hub)).await;
    approved.with_context(|| format!("failed to approve {}", target.title()))?;
    log(&format!("{} approved successfully", target.title()));
    Ok(())
}

#[cfg(test)]
mod tests;
