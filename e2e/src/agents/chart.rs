//! A Helm chart of the product: rendered by helm, applied without its Deployment, which is checked by a dry run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use super::NAMESPACE;
use crate::fleet::Fleet;

/// A chart, of the product unless said otherwise.
#[derive(Debug)]
pub struct Chart {
    helm: PathBuf,
    name: &'static str,
    folder: PathBuf,
}

/// What a chart renders to.
#[derive(Debug)]
pub struct Rendered {
    /// All objects, in helm's order.
    pub objects: Vec<Value>,
}

/// Where the product's chart of this name is.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../deploy/charts")
        .join(name)
}

/// Where the chart is that looks to Helm like KubeFleet's of this name.
pub fn kubefleets(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("testdata/kubefleet")
        .join(name)
}

/// Copies a folder, for charts that a test changes.
pub fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            std::fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

impl Chart {
    /// The chart of this name in `deploy/charts`.
    pub fn new(helm: &Path, name: &'static str) -> Self {
        Self::at(helm, name, folder(name))
    }

    /// The chart in this folder.
    pub fn at(helm: &Path, name: &'static str, folder: PathBuf) -> Self {
        Self {
            helm: helm.to_owned(),
            name,
            folder,
        }
    }

    /// Renders it with these values, as a release of the chart's own name.
    pub async fn render(&self, values: &Value) -> Result<Rendered> {
        let mut child = Command::new(&self.helm)
            .args(["template", self.name])
            .arg(&self.folder)
            // helm knows no version of its own when it was built from source.
            .args([
                "--namespace",
                NAMESPACE,
                "--kube-version",
                crate::binaries::versions::KUBERNETES,
                "--values",
                "-",
            ])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("cannot run {}", self.helm.display()))?;
        let mut input = child.stdin.take().context("stdin is piped")?;
        input.write_all(&serde_json::to_vec(values)?).await?;
        drop(input);
        let output = child.wait_with_output().await?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(
            output.status.success(),
            "helm template {}: {}",
            self.name,
            complaint.trim()
        );
        let mut objects: Vec<Value> = serde_saphyr::from_slice_multiple(&output.stdout)
            .with_context(|| format!("{} does not render to YAML", self.name))?;
        objects.retain(|value| !value.is_null());
        Ok(Rendered { objects })
    }

    /// Applies what it renders to; the Deployment only as a dry run on the server, since here the agent is a process.
    pub async fn install(&self, fleet: &Fleet, cluster: &str, values: &Value) -> Result<Rendered> {
        let rendered = self.render(values).await?;
        let kubectl = fleet.kubectl(cluster)?;
        let text = |list: &[&Value]| -> Result<String> {
            let documents: Result<Vec<_>, _> = list.iter().map(serde_saphyr::to_string).collect();
            Ok(documents?.join("---\n"))
        };
        let namespace = format!("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n");
        let apply = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        kubectl.ok_with(&apply, &namespace).await?;
        let (deployments, others): (Vec<_>, Vec<_>) = rendered.objects.iter().partition(|o| o["kind"] == "Deployment");
        kubectl.ok_with(&apply, &text(&others)?).await?;
        if deployments.is_empty() {
            bail!("the chart {} renders no Deployment", self.name);
        }
        let dry_run = [&apply[..], &["--dry-run=server"]].concat();
        kubectl.ok_with(&dry_run, &text(&deployments)?).await?;
        Ok(rendered)
    }
}

impl Rendered {
    fn pod(&self) -> Result<&Value> {
        let deployment = self
            .objects
            .iter()
            .find(|o| o["kind"] == "Deployment")
            .context("no Deployment")?;
        Ok(&deployment["spec"]["template"]["spec"])
    }

    /// The ServiceAccount of the agent.
    pub fn service_account(&self) -> Result<String> {
        Ok(self.pod()?["serviceAccountName"]
            .as_str()
            .context("no serviceAccountName")?
            .to_owned())
    }

    /// The arguments of the agent.
    pub fn args(&self) -> Result<Vec<String>> {
        let args = self.pod()?["containers"][0]["args"]
            .as_array()
            .context("no arguments")?;
        Ok(args.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// The environment of the agent.
    pub fn env(&self, namespace: &str) -> Result<BTreeMap<String, String>> {
        let empty = Vec::new();
        let list = self.pod()?["containers"][0]["env"].as_array().unwrap_or(&empty);
        list.iter()
            .map(|variable| {
                let name = variable["name"]
                    .as_str()
                    .context("a variable without a name")?
                    .to_owned();
                let value = match (variable.get("value"), variable.pointer("/valueFrom/fieldRef/fieldPath")) {
                    (Some(value), _) => value.as_str().unwrap_or_default().to_owned(),
                    (None, Some(path)) if path == "metadata.namespace" => namespace.to_owned(),
                    (None, Some(path)) if path == "metadata.name" => self.service_account()?,
                    _ => bail!("the value of {name} cannot be known outside a Pod"),
                };
                Ok((name, value))
            })
            .collect()
    }
}
