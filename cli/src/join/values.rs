//! The values of the member-agent chart, and how they are printed.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use fleet_api::names::{ClusterName, FLEET_SYSTEM_NAMESPACE};
use serde::Serialize;

use super::TOKEN_SECRET;
use crate::{clusters::KnownCluster, output};

/// How the values are printed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    Yaml,
    Json,
    /// What `-o` was before: a file.
    File(PathBuf),
}

/// `yaml` or `json`. Scripts of before give a file, which has a dot or a slash in its name.
pub(super) fn how(text: &str) -> Result<How, String> {
    match text {
        "yaml" => Ok(How::Yaml),
        "json" => Ok(How::Json),
        file if file.contains(['.', '/']) => Ok(How::File(file.into())),
        other => Err(format!("want yaml or json; a file is --output-file {other}")),
    }
}

/// The values of the member-agent chart.
#[derive(Debug, Serialize)]
pub(super) struct Values {
    /// Where the agent runs, unless it is where charts put it.
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<String>,
    config: ValuesConfig,
    secret: ValuesSecret,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ValuesConfig {
    provider: &'static str,
    #[serde(rename = "hubURL")]
    hub_url: String,
    #[serde(rename = "hubCA")]
    hub_ca: String,
    member_cluster_name: String,
}

#[derive(Debug, Serialize)]
struct ValuesSecret {
    name: &'static str,
    namespace: String,
}

pub(super) fn values(hub: &KnownCluster, hub_url: Option<String>, cluster: &ClusterName, namespace: String) -> Values {
    Values {
        namespace: Some(namespace.clone()).filter(|namespace| namespace != FLEET_SYSTEM_NAMESPACE),
        config: ValuesConfig {
            provider: "secret",
            hub_url: hub_url.unwrap_or_else(|| hub.server.clone()),
            hub_ca: hub.ca.as_deref().map(|pem| STANDARD.encode(pem)).unwrap_or_default(),
            member_cluster_name: cluster.to_string(),
        },
        secret: ValuesSecret {
            name: TOKEN_SECRET,
            namespace,
        },
    }
}

pub(super) fn print(values: &Values, output: &How, file: Option<&Path>) -> Result<()> {
    let text = rendered(values, output)?;
    let Some(path) = file else { return output::write(&text) };
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    eprintln!("chart values: {}", path.display());
    Ok(())
}

pub(super) fn rendered(values: &Values, output: &How) -> Result<String> {
    if *output == How::Json {
        return Ok(serde_json::to_string_pretty(values)? + "\n");
    }
    // A CA is long, and stays on its line.
    let lines = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    Ok(serde_saphyr::to_string_with_options(values, lines)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_after_dash_o_is_still_understood() {
        assert_eq!(how("yaml"), Ok(How::Yaml));
        assert_eq!(how("json"), Ok(How::Json));
        assert_eq!(how("values.yaml"), Ok(How::File("values.yaml".into())));
        assert_eq!(how("/tmp/values"), Ok(How::File("/tmp/values".into())));
        assert_eq!(
            how("values").expect_err("neither"),
            "want yaml or json; a file is --output-file values"
        );
    }
}
