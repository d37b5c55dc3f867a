//! `kubectl fleet`, as somebody runs it whose output is no terminal.

use std::{path::Path, process::Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use crate::{agents::program, harness::Ctx};

/// What it said, and how it ended.
#[derive(Debug)]
pub struct Said {
    /// The exit status.
    pub code: i32,
    /// Its data.
    pub stdout: String,
    /// Everything else.
    pub stderr: String,
}

impl Said {
    /// Whether it ended so.
    pub fn ends_with(&self, code: i32) -> Result<&Self> {
        ensure!(
            self.code == code,
            "exit status {} instead of {code}: {self:?}",
            self.code
        );
        Ok(self)
    }

    /// Whether all of this is in its data.
    pub fn shows(&self, words: &[&str]) -> Result<&Self> {
        for word in words {
            ensure!(
                self.stdout.contains(word),
                "{word:?} is not shown:\n{}\n{}",
                self.stdout,
                self.stderr
            );
        }
        Ok(self)
    }

    /// Its data, which is JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("not JSON: {self:?}"))
    }

    /// The first command that it says to type next, without `kubectl fleet`.
    pub fn next(&self) -> Option<Vec<String>> {
        let mut lines = self.stdout.lines().chain(self.stderr.lines());
        let command = lines.find_map(|line| line.split_once("next: kubectl fleet "))?.1;
        Some(command.split(' ').map(str::to_owned).collect())
    }
}

/// Runs it with all rights on the hub.
pub async fn fleet(ctx: &Ctx, args: &[&str]) -> Result<Said> {
    let context = &ctx.fleet().cluster("hub")?.context;
    let kubeconfig = ctx.fleet().state().kubeconfig.clone();
    run(kubeconfig.as_deref(), &[args, &["--context", context]].concat()).await
}

/// Runs it with this kubeconfig.
pub async fn run(kubeconfig: Option<&Path>, args: &[&str]) -> Result<Said> {
    let mut command = Command::new(program("kubectl-fleet")?);
    if let Some(kubeconfig) = kubeconfig {
        command.env("KUBECONFIG", kubeconfig);
    }
    command.args(args).stdin(Stdio::null()).kill_on_drop(true);
    let output = command.output().await?;
    Ok(Said {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout)?,
        stderr: String::from_utf8(output.stderr)?,
    })
}
