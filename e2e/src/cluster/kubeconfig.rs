//! Kubeconfig files: one per component, and the merged one for people with a context per cluster.

use std::path::Path;

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::certs::{Identity, Pki, write_private};

/// One cluster as somebody sees it.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The context, also the names of cluster and user.
    pub context: &'a str,
    /// The address of the API server.
    pub server: &'a str,
    /// The certificates.
    pub pki: &'a Pki,
    /// Who connects.
    pub identity: Identity,
}

/// A kubeconfig with everything inside; the first entry is the current context.
pub fn build(entries: &[Entry<'_>]) -> Result<Value> {
    let data = |pki: &Pki, file: String| Ok::<_, anyhow::Error>(STANDARD.encode(pki.read(&file)?));
    let (mut clusters, mut users, mut contexts) = (Vec::new(), Vec::new(), Vec::new());
    for Entry {
        context,
        server,
        pki,
        identity,
    } in entries
    {
        clusters.push(json!({"name": context, "cluster": {
            "server": server,
            "certificate-authority-data": data(pki, "ca.crt".into())?,
        }}));
        let user = format!("{context}-{}", identity.file);
        users.push(json!({"name": user, "user": {
            "client-certificate-data": data(pki, format!("{}.crt", identity.file))?,
            "client-key-data": data(pki, format!("{}.key", identity.file))?,
        }}));
        contexts.push(json!({"name": context, "context": {"cluster": context, "user": user}}));
    }
    Ok(json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "users": users,
        "contexts": contexts,
        "current-context": entries.first().map(|e| e.context),
    }))
}

/// Writes a kubeconfig that only this user can read, replacing an old one in one step: others may be reading it.
pub fn write(path: &Path, kubeconfig: &Value) -> Result<()> {
    let new = path.with_extension("new");
    write_private(&new, &serde_saphyr::to_string(kubeconfig)?)?;
    std::fs::rename(&new, path).map_err(|e| crate::disk::explain(e, path))
}

/// A client for one context of a kubeconfig.
pub async fn client(kubeconfig: Kubeconfig, context: &str) -> Result<kube::Client> {
    crate::install_crypto_provider();
    let options = KubeConfigOptions {
        context: Some(context.to_owned()),
        ..KubeConfigOptions::default()
    };
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| format!("the kubeconfig has no usable context {context:?}"))?;
    Ok(kube::Client::try_from(config)?)
}

#[cfg(test)]
mod tests {
    use super::super::certs;
    use super::*;

    #[test]
    fn there_is_a_context_per_cluster_and_the_first_is_current() {
        let dir = tempfile::tempdir().unwrap();
        let pki = Pki::create(dir.path(), "hub").unwrap();
        let entry = |context, server| Entry {
            context,
            server,
            pki: &pki,
            identity: certs::ADMIN,
        };
        let built = build(&[
            entry("hub", "https://127.0.0.1:1"),
            entry("member-1", "https://127.0.0.1:2"),
        ])
        .unwrap();
        let kubeconfig: Kubeconfig = serde_json::from_value(built.clone()).unwrap();
        assert_eq!(kubeconfig.current_context.as_deref(), Some("hub"));
        assert_eq!(
            kubeconfig.contexts.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(),
            ["hub", "member-1"]
        );

        let path = dir.path().join("kubeconfig");
        write(&path, &built).unwrap();
        assert_eq!(Kubeconfig::read_from(&path).unwrap().clusters.len(), 2);
    }
}
