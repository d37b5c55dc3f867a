//! Clients for kubeconfig contexts, by kubectl's own rules (`KUBECONFIG` may list several files).

use std::{ffi::OsStr, time::Duration};

use anyhow::{Context, Result};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::{globals::Globals, problem::Failure};

/// A cluster that the user's kubeconfig knows.
pub(crate) struct KnownCluster {
    pub(crate) client: Client,
    /// The same for watches, which may be silent for longer than a request may take.
    pub(crate) watches: Client,
    /// Its API server.
    pub(crate) server: String,
    /// Its CA, PEM, unless the kubeconfig relies on the system's roots.
    pub(crate) ca: Option<String>,
    /// The namespace that the context is in.
    pub(crate) namespace: String,
}

/// How long a connection to an API server may take to come about.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The cluster that kubectl would speak to with these flags.
pub(crate) async fn connect_with(globals: &Globals) -> Result<KnownCluster> {
    let (mut config, _) = config(globals).await?;
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let namespace = config.default_namespace.clone();
    let ca = config
        .root_cert
        .as_ref()
        .map(|all| all.iter().map(|der| pem(der)).collect());
    let failed = || format!("cannot reach {server}");
    let watches = Client::try_from(config.clone()).with_context(failed)?;
    let client = if globals.request_timeout.is_zero() {
        watches.clone()
    } else {
        config.read_timeout = Some(globals.request_timeout);
        Client::try_from(config).with_context(failed)?
    };
    Ok(KnownCluster {
        client,
        watches,
        server,
        ca,
        namespace,
    })
}

/// How to reach the cluster that kubectl would speak to with these flags, and the name of its context.
pub(crate) async fn config(globals: &Globals) -> Result<(Config, String)> {
    let listed = match &globals.kubeconfig {
        Some(file) => file.clone().into_os_string(),
        None => std::env::var_os("KUBECONFIG").unwrap_or_default(),
    };
    let mut kubeconfig = kubeconfig(&listed)
        .context("cannot read the kubeconfig (set KUBECONFIG, or create ~/.kube/config)")
        .map_err(|error| Failure::error(format!("{error:#}"), "kubectl config view"))?;
    let options = KubeConfigOptions {
        context: globals.context.clone(),
        cluster: globals.cluster.clone(),
        user: globals.user.clone(),
    };
    globals.put_into(&mut kubeconfig);
    let current = kubeconfig.current_context.clone();
    let name = globals.context.clone().or(current).unwrap_or_default();
    let mut config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| match &globals.context {
            Some(name) => format!("cannot use context {name:?} (`kubectl config get-contexts` lists them)"),
            None => "cannot use the current context (`kubectl config get-contexts` lists all)".to_owned(),
        })
        .map_err(|error| Failure::error(format!("{error:#}"), "kubectl config get-contexts"))?;
    if let Some(user) = &globals.as_user {
        config.auth_info.impersonate = Some(user.clone());
        config.auth_info.impersonate_groups = Some(globals.as_group.clone()).filter(|groups| !groups.is_empty());
    }
    Ok((config, name))
}

/// The files of a list, the first counts; the home file without one. As for kubectl, a file of a list may be absent.
fn kubeconfig(listed: &OsStr) -> Result<Kubeconfig> {
    let paths: Vec<_> = std::env::split_paths(listed)
        .filter(|path| !path.as_os_str().is_empty())
        .collect();
    if paths.is_empty() {
        return Ok(Kubeconfig::read()?);
    }
    let mut merged = None;
    for path in paths.iter().filter(|path| path.exists()) {
        let next = Kubeconfig::read_from(path)?;
        merged = Some(match merged {
            None => next,
            Some(before) => Kubeconfig::merge(before, next)?,
        });
    }
    merged.with_context(|| format!("none of the files of KUBECONFIG exists: {}", listed.display()))
}

fn pem(der: &[u8]) -> String {
    use base64::{Engine, engine::general_purpose::STANDARD};
    let text = STANDARD.encode(der);
    let mut out = String::from("-----BEGIN CERTIFICATE-----\n");
    for line in text.as_bytes().chunks(64) {
        out.extend(line.iter().map(|b| char::from(*b)));
        out.push('\n');
    }
    out.push_str("-----END CERTIFICATE-----\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(context: &str) -> String {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: {context}\ncontexts: [{{ name: {context}, context: {{ cluster: c, \
             user: u }} }}]\n"
        )
    }

    #[test]
    fn several_files_are_one_the_first_says_the_context_and_absent_ones_do_not_matter() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        for name in ["one", "two"] {
            std::fs::write(path(name), file(name)).expect("it can be written");
        }
        let list = std::env::join_paths([path("absent"), path("one"), path("two")]).expect("a list");
        let merged = kubeconfig(&list).expect("two files are there");
        assert_eq!(merged.current_context.as_deref(), Some("one"));
        let contexts: Vec<_> = merged.contexts.iter().map(|context| context.name.as_str()).collect();
        assert_eq!(contexts, ["one", "two"]);
        let absent = kubeconfig(path("absent").as_os_str()).expect_err("nothing is there");
        assert!(
            absent
                .to_string()
                .starts_with("none of the files of KUBECONFIG exists: "),
            "{absent}"
        );
    }

    #[test]
    fn certificates_are_wrapped_as_pem() {
        let text = super::pem(&[7; 100]);
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----\n") && text.ends_with("-----END CERTIFICATE-----\n"));
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
