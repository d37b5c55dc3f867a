//! Which object a manifest is.

use std::fmt;

use fleet_api::placement::{ResourceIdentifier, WorkResourceIdentifier};
use fleet_api::raw::RawJson;
use serde::Deserialize;

use crate::text::quote;

/// The identity of an object, without its content. Ordered by its fields, which is the order of nothing in particular.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// The API group, empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The kind.
    pub kind: String,
    /// The namespace, empty for cluster-scoped objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Head {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    name: String,
    #[serde(default)]
    namespace: Option<String>,
}

impl ObjectId {
    /// Reads the identity out of a manifest; its content stays text. Fails as a decoder of objects would.
    pub fn of(manifest: &RawJson) -> Result<Self, String> {
        let head: Head = manifest
            .parse()
            .map_err(|error| quote(&error.to_string()).into_owned())?;
        if head.kind.is_empty() {
            return Err(format!("Object 'Kind' is missing in '{}'", quote(manifest.as_str())));
        }
        let (group, version) = split_version(&head.api_version);
        Ok(Self {
            group: group.into(),
            version: version.into(),
            kind: head.kind,
            namespace: head.metadata.namespace.unwrap_or_default(),
            name: head.metadata.name,
        })
    }

    /// The identity of a namespace.
    pub fn of_namespace(name: &str) -> Self {
        Self {
            version: "v1".into(),
            kind: "Namespace".into(),
            name: name.into(),
            ..Self::default()
        }
    }

    /// `group/version`, for the core group `version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// As placements list it.
    pub fn to_identifier(&self) -> ResourceIdentifier {
        ResourceIdentifier {
            group: self.group.clone(),
            version: self.version.clone(),
            kind: self.kind.clone(),
            name: self.name.clone(),
            namespace: self.namespace.clone(),
            envelope: None,
        }
    }
}

macro_rules! from_identifier {
    ($($identifier:ty),+) => {
        $(impl From<&$identifier> for ObjectId {
            fn from(identifier: &$identifier) -> Self {
                Self {
                    group: identifier.group.clone(),
                    version: identifier.version.clone(),
                    kind: identifier.kind.clone(),
                    namespace: identifier.namespace.clone(),
                    name: identifier.name.clone(),
                }
            }
        })+
    };
}
from_identifier!(ResourceIdentifier, WorkResourceIdentifier);

/// `Kind "name"`, with the namespace if there is one. In an envelope they may be of any length.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind.is_empty() { "Unknown" } else { &self.kind };
        write!(f, "{} \"{}\"", quote(kind), quote(&self.name))?;
        if self.namespace.is_empty() {
            Ok(())
        } else {
            write!(f, " in namespace \"{}\"", quote(&self.namespace))
        }
    }
}

/// Group and version of an `apiVersion`.
pub fn split_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_is_read_without_the_content() {
        let raw = |text: &str| RawJson::from_text(text.into()).unwrap();
        let id = ObjectId::of(&raw(
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"app"},"spec":1}"#,
        ))
        .unwrap();
        assert_eq!((id.group.as_str(), id.version.as_str()), ("apps", "v1"));
        assert_eq!(id.to_string(), r#"Deployment "web" in namespace "app""#);
        let core = ObjectId::of(&raw(r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#)).unwrap();
        assert_eq!(
            (core.api_version(), core.to_string()),
            ("v1".to_owned(), r#"Node "n""#.to_owned())
        );
        assert!(ObjectId::of(&raw("[]")).is_err());
        assert_eq!(
            ObjectId::of(&raw("{}")).unwrap_err(),
            "Object 'Kind' is missing in '{}'"
        );
    }

    #[test]
    fn nothing_that_is_wrong_is_quoted_at_full_length() {
        let long = "x".repeat(1_300_000);
        let raw = |value: serde_json::Value| RawJson::from(value);
        for broken in [serde_json::json!({ "a": long }), serde_json::json!(long)] {
            let error = ObjectId::of(&raw(broken)).unwrap_err();
            assert!(error.len() < 512, "{} bytes", error.len());
        }
        let named = serde_json::json!({ "kind": long, "metadata": { "name": long, "namespace": long } });
        assert!(ObjectId::of(&raw(named)).unwrap().to_string().len() < 1024);
    }
}
