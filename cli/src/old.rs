//! What the commands that KubeFleet's plugin has too share: flags, words, and how they end.

use std::{process::ExitCode, time::Duration};

use anyhow::{Result, anyhow};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use tokio::time::Instant;

pub(crate) use crate::globals::timeout;
use crate::{exit::Exit, globals::Globals, hub::Hub, terminal};

/// The commands whose lines scripts know.
pub(crate) const COMMANDS: [&str; 3] = ["approve", "draincluster", "uncordoncluster"];

/// A member cluster, and the hub where it is known.
// What is missing is said in the words that scripts know, not in those of the parser.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// The name of the member cluster
    #[arg(long, alias = "clusterName")]
    pub(crate) cluster_name: Option<String>,
    /// How long to try
    #[arg(long, default_value = "5m", value_parser = timeout)]
    pub(crate) timeout: Duration,
    #[command(flatten)]
    pub(crate) globals: Globals,
}

/// A target that can be spoken to.
pub(crate) struct Ready {
    pub(crate) hub: Hub,
    pub(crate) cluster: String,
    pub(crate) timeout: Duration,
}

impl Target {
    pub(crate) async fn ready(self) -> Result<Ready> {
        let cluster = required(self.cluster_name, "cluster-name")?;
        let hub = Hub::connect(&self.globals).await?;
        Ok(Ready {
            hub,
            cluster,
            timeout: self.timeout,
        })
    }
}

/// A flag that has to be given.
pub(crate) fn required(value: Option<String>, flag: &str) -> Result<String> {
    let given = value.filter(|text| !text.is_empty());
    given.ok_or_else(|| anyhow!("required flag(s) {flag:?} not set"))
}

/// Until the deadline, which ends it in the words that scripts know.
pub(crate) async fn in_time<T>(deadline: Instant, doing: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = tokio::time::timeout_at(deadline, doing).await;
    answer.unwrap_or_else(|_| Err(anyhow!("context deadline exceeded")))
}

/// Whether admission refused an eviction because its placement is PickFixed.
pub(crate) fn is_about_pick_fixed(error: &anyhow::Error) -> bool {
    error
        .root_cause()
        .to_string()
        .contains("policy type PickFixed is not supported")
}

/// Whether admission refused an eviction because its placement is going anyway.
pub(crate) fn is_about_deletion(error: &anyhow::Error, placement: &str) -> bool {
    let words = format!("cluster resource placement {placement} is being deleted");
    error.root_cause().to_string().contains(&words)
}

/// What is wrong with a line, in the words of KubeFleet's plugin where it has words for that.
pub(crate) fn words(error: &clap::Error) -> String {
    let told = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    // As it was given, without a value and without how it is called in help.
    let flag = told(ContextKind::InvalidArg).and_then(|text| text.split(['=', ' ']).next());
    let flag = flag.filter(|flag| flag.starts_with('-'));
    match (error.kind(), flag) {
        (ErrorKind::UnknownArgument, Some(flag)) if flag.starts_with("--") => format!("unknown flag: {flag}"),
        (ErrorKind::UnknownArgument, Some(flag)) => {
            let letter = flag.chars().nth(1).unwrap_or('-');
            format!("unknown shorthand flag: {letter:?} in {flag}")
        }
        (ErrorKind::InvalidValue, Some(flag)) if told(ContextKind::InvalidValue) == Some("") => {
            format!("flag needs an argument: {flag}")
        }
        _ => {
            let text = error.to_string();
            let first = text.lines().next().unwrap_or_default();
            first.trim_start_matches("error: ").to_owned()
        }
    }
}

/// How KubeFleet's plugin ends when it fails.
pub(crate) fn refuse(error: &str, help: Option<&str>) -> ExitCode {
    terminal::note(&format!("Error: {error}"));
    if let Some(help) = help {
        eprintln!("{help}");
    }
    terminal::log(&format!("Error executing command: {error}"));
    Exit::Error.into()
}
