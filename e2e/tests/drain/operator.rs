//! Somebody who has the chart's role for draining, and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use fleet_api::cluster::MemberCluster;
use fleet_api::placement::ClusterResourcePlacementEviction;
use fleet_e2e::agents::{self, NAMESPACE, program};
use fleet_e2e::harness::{Ctx, Made};
use fleet_e2e::wait;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, ApiResource, ListParams};
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

/// A user of `kubectl fleet`.
pub(crate) struct Operator {
    ctx: Ctx,
    kubeconfig: PathBuf,
}

/// What a command printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Said {
    fn of(output: Output) -> Result<Self> {
        Ok(Self {
            code: output.status.code().context("it was killed")?,
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }

    /// The lines on stderr without the time before each, and without what is random in names.
    pub(crate) fn lines(&self) -> Result<Vec<String>> {
        let line = |line: &str| {
            let (time, text) = line.split_at_checked(20).context("no time before it")?;
            let shape: String = time.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
            ensure!(shape == "0000/00/00 00:00:00 ", "{line}");
            Ok(without_tokens(text))
        };
        self.stderr.lines().map(line).collect()
    }

    /// The outcome of each placement in its JSON.
    pub(crate) fn outcomes(&self) -> Result<Vec<(String, String)>> {
        let report: Value = serde_json::from_str(&self.stdout).with_context(|| format!("{self:?}"))?;
        let rows = report["placements"].as_array().context("no placements")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(rows
            .iter()
            .map(|row| (text(&row["name"]), text(&row["outcome"])))
            .collect())
    }

    pub(crate) fn ends_with(&self, code: i32) -> Result<&Self> {
        ensure!(
            self.code == code,
            "exit status {} instead of {code}: {self:?}",
            self.code
        );
        Ok(self)
    }
}

/// Eight random digits end the name of an eviction.
pub(crate) fn without_tokens(text: &str) -> String {
    let word = |word: &str| match word.rsplit_once('-') {
        Some((name, token)) if word.starts_with("drain-eviction-") && token.len() == 8 => format!("{name}-########"),
        _ => word.to_owned(),
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

impl Operator {
    /// Who has the role `fleet-operator`.
    pub(crate) async fn new(ctx: &Ctx) -> Result<Self> {
        let operator = Self::without_role(ctx, "operator").await?;
        let name = ctx.name("operator");
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "fleet-operator" },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
        }))?;
        ctx.create("hub", binding).await?;
        // The API server takes new rights up a moment later.
        let clusters = Api::<MemberCluster>::all(operator.client().await?);
        wait::until_list(clusters, "the operator may read clusters", |_| true).await?;
        Ok(operator)
    }

    /// Who has no role.
    pub(crate) async fn without_role(ctx: &Ctx, word: &str) -> Result<Self> {
        Self::on(ctx, "hub", word).await
    }

    /// Who may do everything on a member, and takes it for the hub.
    pub(crate) async fn astray(ctx: &Ctx, member: &str) -> Result<Self> {
        let operator = Self::on(ctx, member, "astray").await?;
        let name = ctx.name("astray");
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": NAMESPACE }],
        }))?;
        ctx.create(member, binding).await?;
        let accounts = Api::<ServiceAccount>::all(operator.client().await?);
        wait::until_list(accounts, "the administrator may read accounts", |_| true).await?;
        Ok(operator)
    }

    async fn on(ctx: &Ctx, cluster: &str, word: &str) -> Result<Self> {
        let name = ctx.name(word);
        let account: ServiceAccount = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
        ctx.create_in(cluster, NAMESPACE, account).await?;
        let kubeconfig = agents::kubeconfig_of(ctx.fleet(), cluster, &name, &name).await?;
        Ok(Self {
            ctx: ctx.clone(),
            kubeconfig,
        })
    }

    pub(crate) async fn client(&self) -> Result<Client> {
        let kubeconfig = Kubeconfig::read_from(&self.kubeconfig)?;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Client::try_from(config)?)
    }

    /// With these files as `KUBECONFIG`, which `{}` stands for its own in.
    pub(crate) async fn fleet_with(&self, files: &str, args: &[&str]) -> Result<Said> {
        let own = self.kubeconfig.to_string_lossy();
        let said = Said::of(
            self.command(args)?
                .env("KUBECONFIG", files.replace("{}", &own))
                .output()
                .await?,
        );
        self.note_evictions().await?;
        said
    }

    /// `kubectl fleet`.
    pub(crate) async fn fleet(&self, args: &[&str]) -> Result<Said> {
        self.fleet_with("{}", args).await
    }

    /// The same, still running.
    pub(crate) fn start(&self, args: &[&str]) -> Result<Child> {
        Ok(self.command(args)?.spawn()?)
    }

    /// Waits until it has said this. What is returned has to live as long as it goes on saying things.
    pub(crate) async fn until_it_says(&self, child: &mut Child, text: &str) -> Result<Lines<BufReader<ChildStderr>>> {
        let mut said = BufReader::new(child.stderr.take().context("nobody listens")?).lines();
        while let Some(line) = said.next_line().await? {
            if line.contains(text) {
                return Ok(said);
            }
        }
        anyhow::bail!("it has ended without saying {text:?}")
    }

    /// Waits for its end.
    pub(crate) async fn end(&self, child: Child) -> Result<Said> {
        let said = Said::of(child.wait_with_output().await?);
        self.note_evictions().await?;
        said
    }

    fn command(&self, args: &[&str]) -> Result<Command> {
        let mut command = Command::new(program("kubectl-fleet")?);
        command.env("KUBECONFIG", OsString::from(&self.kubeconfig)).args(args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }

    /// The evictions from this scenario's clusters.
    pub(crate) async fn evictions(&self) -> Result<Vec<ClusterResourcePlacementEviction>> {
        let api = Api::<ClusterResourcePlacementEviction>::all(self.ctx.hub().await?);
        let all = api.list(&ListParams::default()).await?;
        let own = all
            .into_iter()
            .filter(|it| it.spec.cluster_name.starts_with(self.ctx.prefix()));
        Ok(own.collect())
    }

    /// They go with the scenario.
    async fn note_evictions(&self) -> Result<()> {
        for eviction in self.evictions().await? {
            self.ctx.made(Made {
                cluster: "hub".to_owned(),
                kind: ApiResource::erase::<ClusterResourcePlacementEviction>(&()),
                namespace: None,
                name: eviction.name_any(),
            });
        }
        Ok(())
    }
}
