//! Clients for kubeconfig contexts, by kubectl's own rules (`KUBECONFIG` may list several files).

use anyhow::{Context, Result};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// A cluster that the user's kubeconfig knows.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Its API server.
    pub(crate) server: String,
    /// Its CA, PEM, unless the kubeconfig relies on the system's roots.
    pub(crate) ca: Option<String>,
}

/// The cluster of `context`; the current context if there is none.
pub(crate) async fn connect(context: Option<&str>) -> Result<Cluster> {
    let kubeconfig =
        Kubeconfig::read().context("cannot read the kubeconfig (set KUBECONFIG, or create ~/.kube/config)")?;
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .with_context(|| match context {
            Some(name) => format!("cannot use context {name:?} (`kubectl config get-contexts` lists them)"),
            None => "cannot use the current context".to_owned(),
        })?;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    let ca = config
        .root_cert
        .as_ref()
        .map(|all| all.iter().map(|der| pem(der)).collect());
    let client = Client::try_from(config).with_context(|| format!("cannot reach {server}"))?;
    Ok(Cluster { client, server, ca })
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
    #[test]
    fn certificates_are_wrapped_as_pem() {
        let text = super::pem(&[7; 100]);
        assert!(text.starts_with("-----BEGIN CERTIFICATE-----\n") && text.ends_with("-----END CERTIFICATE-----\n"));
        assert!(text.lines().all(|line| line.len() <= 64));
    }
}
