//! The real kubectl, for tests that check what a user sees: columns, short names, messages.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

/// kubectl with a kubeconfig and a context.
#[derive(Debug, Clone)]
pub struct Kubectl {
    program: PathBuf,
    kubeconfig: Option<PathBuf>,
    context: String,
}

impl Kubectl {
    /// Points kubectl at a context; the user's own kubeconfig if none is named.
    pub fn new(program: &Path, kubeconfig: Option<&Path>, context: &str) -> Self {
        Self {
            program: program.to_owned(),
            kubeconfig: kubeconfig.map(Path::to_owned),
            context: context.to_owned(),
        }
    }

    /// Runs it; returns what it printed if it succeeded, and fails with what it complained about otherwise.
    pub async fn ok(&self, args: &[&str]) -> Result<String> {
        self.ok_with(args, "").await
    }

    /// The same with text on its standard input, e.g. for `apply -f -`.
    pub async fn ok_with(&self, args: &[&str], stdin: &str) -> Result<String> {
        let output = self.run(args, stdin).await?;
        let complaint = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        ensure!(
            output.status.success(),
            "kubectl {} on {}: {complaint}",
            args.join(" "),
            self.context
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Runs it and expects it to fail; returns what it complained about.
    pub async fn fails(&self, args: &[&str]) -> Result<String> {
        self.fails_with(args, "").await
    }

    /// The same with text on its standard input.
    pub async fn fails_with(&self, args: &[&str], stdin: &str) -> Result<String> {
        let output = self.run(args, stdin).await?;
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        ensure!(
            !output.status.success(),
            "kubectl {} on {} should fail but printed: {printed}",
            args.join(" "),
            self.context
        );
        Ok(String::from_utf8(output.stderr)?)
    }

    /// Applies manifests.
    pub async fn apply(&self, manifests: &str) -> Result<String> {
        self.ok_with(&["apply", "-f", "-"], manifests).await
    }

    async fn run(&self, args: &[&str], stdin: &str) -> Result<Output> {
        let mut command = Command::new(&self.program);
        if let Some(kubeconfig) = &self.kubeconfig {
            command.env("KUBECONFIG", kubeconfig);
        }
        let mut child = command
            .args(["--context", &self.context])
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let mut input = child.stdin.take().expect("stdin is piped");
        // Both at once: a child that prints before it has read everything would otherwise wait for us for ever.
        let (written, output) = tokio::join!(
            async {
                let written = input.write_all(stdin.as_bytes()).await;
                drop(input);
                written
            },
            child.wait_with_output()
        );
        // A kubectl that refuses its arguments closes its input early; its own complaint is the better message.
        if !matches!(&written, Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe) {
            written?;
        }
        Ok(output?)
    }
}
