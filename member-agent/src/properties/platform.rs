//! What the cloud says about this cluster, for labels of its MemberCluster that nobody has set.

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;

use crate::options::PropertyArgs;

/// The part of Azure's cloud provider configuration that is no secret.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct CloudConfig {
    location: String,
    resource_group: String,
    subscription_id: String,
}

/// The labels that the cloud configuration gives, with the azure provider; the hub takes them only where they are absent,
/// and no others. There is none outside the cloud, and one that cannot be read costs these labels only.
pub fn platform_labels(args: &PropertyArgs) -> BTreeMap<String, String> {
    if !args.azure() {
        return BTreeMap::new();
    }
    let config = match read(&args.cloud_config) {
        Ok(config) => config,
        Err(error) => {
            let file = args.cloud_config.display();
            tracing::info!(%file, %error, "The cloud configuration could not be read; no platform labels are sent");
            return BTreeMap::new();
        }
    };
    let CloudConfig {
        location,
        resource_group,
        subscription_id,
    } = config;
    [
        ("fleet.azure.com/location", location),
        ("fleet.azure.com/resource-group", resource_group),
        ("fleet.azure.com/subscription-id", subscription_id),
    ]
    .into_iter()
    .filter(|(_, value)| !value.is_empty() && is_label_value(value))
    .map(|(key, value)| (key.to_owned(), value))
    .collect()
}

fn read(path: &Path) -> std::io::Result<CloudConfig> {
    Ok(serde_json::from_slice(&std::fs::read(path)?)?)
}

fn is_label_value(value: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let outer = |c: char| c.is_ascii_alphanumeric();
    value.len() <= 63 && value.chars().all(inner) && value.starts_with(outer) && value.ends_with(outer)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::options::Options;

    fn labels(provider: &str, config: &str) -> String {
        let file = std::env::temp_dir().join(format!("fleet-platform-{}", std::process::id()));
        std::fs::write(&file, config).unwrap();
        let args = [
            "member-agent".to_owned(),
            format!("--property-provider={provider}"),
            format!("--cloud-config={}", file.display()),
        ];
        let labels = platform_labels(&Options::parse_from(args).properties);
        std::fs::remove_file(&file).unwrap();
        let text = |(key, value): (&String, &String)| format!("{}={value}", key.trim_start_matches("fleet.azure.com/"));
        labels.iter().map(text).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn only_valid_values_of_the_three_keys_are_sent() {
        let config = r#"{"location":"eastus","resourceGroup":"a group","subscriptionId":"1-2","aadClientSecret":"s"}"#;
        assert_eq!(labels("azure", config), "location=eastus subscription-id=1-2");
        assert_eq!(labels("none", config), "");
        assert_eq!(labels("azure", "{}"), "");
        assert_eq!(labels("azure", "not json"), "");
    }
}
