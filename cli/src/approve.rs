//! `kubectl fleet approve`: approves what an update run waits for, for the generation that the request has. Arguments, lines
//! and exit status are those of KubeFleet's plugin, so that scripts go on working.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use fleet_api::{
    conditions::{self, approval_request::Approved},
    names::Scope,
    placement::{ApprovalRequest, ApprovalRequestStatus, ClusterApprovalRequest},
};
use jiff::{SignedDuration, Timestamp};
use kube::{
    Client,
    api::{Api, ApiResource, DynamicObject, PostParams},
};

use crate::clusters;

/// How often a write is tried that somebody else's write came before.
const ATTEMPTS: usize = 5;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(10);

/// Approve what an update run waits for
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
    /// The kubeconfig context of the hub [default: the current one]
    #[arg(long, alias = "hubClusterContext")]
    hub_cluster_context: Option<String>,
    /// How long to try
    #[arg(long, default_value = "5m", value_parser = timeout)]
    timeout: Duration,
}

fn timeout(text: &str) -> Result<Duration, String> {
    let parsed = text.parse::<SignedDuration>().ok();
    let positive = parsed.and_then(|duration| Duration::try_from(duration).ok());
    positive.ok_or_else(|| "want a duration, such as 5m".to_owned())
}

/// The request that somebody approves.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    name: String,
    /// Only a namespaced request has one.
    namespace: Option<String>,
}

impl Target {
    fn new(args: &Args) -> Result<Self> {
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

    fn api(&self, hub: Client) -> Api<DynamicObject> {
        match &self.namespace {
            None => Api::all_with(hub, &ApiResource::erase::<ClusterApprovalRequest>(&())),
            Some(namespace) => Api::namespaced_with(hub, namespace, &ApiResource::erase::<ApprovalRequest>(&())),
        }
    }

    async fn approve(&self, hub: Client) -> Result<()> {
        let api = self.api(hub);
        despite_conflicts(async || {
            let mut request = api
                .get(&self.name)
                .await
                .map_err(|error| Failure::Reading(said(error)))?;
            approve(&mut request, self.scope(), crate::now()).map_err(Failure::Other)?;
            // As a whole: who may only "update" the status may approve, whatever roles were made for.
            let answer = api.replace_status(&self.name, &PostParams::default(), &request).await;
            answer.map(drop).map_err(|error| match error {
                kube::Error::Api(status) if status.code == 409 => Failure::Conflict(anyhow!(status.message.clone())),
                error => Failure::Other(said(error)),
            })
        })
        .await
        .map_err(|failure| match failure {
            Failure::Reading(error) => error.context(format!("failed to get {}", self.title())),
            Failure::Conflict(error) | Failure::Other(error) => error,
        })
        .with_context(|| format!("failed to approve {}", self.title()))
    }
}

/// Why a request is not approved.
#[derive(Debug)]
enum Failure {
    Reading(anyhow::Error),
    /// Somebody wrote to it in between.
    Conflict(anyhow::Error),
    Other(anyhow::Error),
}

/// An API server's answer in its own words.
fn said(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => anyhow!(status.message.clone()),
        error => error.into(),
    }
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

async fn despite_conflicts(attempt: impl AsyncFn() -> Result<(), Failure>) -> Result<(), Failure> {
    for _ in 1..ATTEMPTS {
        match attempt().await {
            Err(Failure::Conflict(_)) => tokio::time::sleep(BETWEEN_ATTEMPTS).await,
            answer => return answer,
        }
    }
    attempt().await
}

pub(crate) async fn run(args: Args) -> Result<()> {
    let target = Target::new(&args)?;
    let approving = async {
        let hub = clusters::connect(args.hub_cluster_context.as_deref()).await;
        let hub = hub.context("failed to create hub cluster client")?;
        target.approve(hub.client).await
    };
    let answer = tokio::time::timeout(args.timeout, approving).await;
    answer.unwrap_or_else(|_| {
        let late = Err(anyhow!("context deadline exceeded"));
        late.with_context(|| format!("failed to approve {}", target.title()))
    })?;
    crate::log(&format!("{} approved successfully", target.title()));
    Ok(())
}

#[cfg(test)]
mod tests;
