//! What a patch of an override may be about, by its path.
//!
//! A path can be spelt in other ways, so this alone protects nothing: what may not change is checked again on the result,
//! where the patch is applied, with the same words.

/// Why a patch may not have this path.
///
/// # Errors
/// The reason.
pub fn path(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("path cannot be empty");
    }
    let Some(rest) = path.strip_prefix('/') else {
        return Err("path must start with /");
    };
    let parts: Vec<&str> = rest.split('/').collect();
    match parts.as_slice() {
        ["kind" | "apiVersion", ..] => Err(TYPE_META),
        ["metadata"] => Err(METADATA),
        ["metadata", field, ..] if !is_free(field) => Err(OTHER_METADATA),
        ["status", ..] => Err(STATUS),
        parts if parts.iter().any(|part| part.trim().is_empty()) => Err("path cannot contain empty string"),
        _ => Ok(()),
    }
}

/// The fields that say what an object is.
pub(crate) const TYPE_META: &str = "cannot override typeMeta fields";
/// Metadata as a whole.
pub(crate) const METADATA: &str = "cannot override field metadata";
/// Its fields but two.
pub(crate) const OTHER_METADATA: &str = "cannot override metadata fields except annotations and labels";
/// What others report.
pub(crate) const STATUS: &str = "cannot override status fields";

/// Whether this field of metadata may be changed.
pub(crate) fn is_free(field: &str) -> bool {
    matches!(field, "labels" | "annotations")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_path_is_refused_for_its_first_fault() {
        for (given, why) in [
            ("", Some("path cannot be empty")),
            ("spec/x", Some("path must start with /")),
            ("/kind", Some(TYPE_META)),
            ("/apiVersion", Some(TYPE_META)),
            ("/metadata", Some(METADATA)),
            ("/metadata/", Some(OTHER_METADATA)),
            ("/metadata/name", Some(OTHER_METADATA)),
            ("/metadata/finalizers/0", Some(OTHER_METADATA)),
            ("/status", Some(STATUS)),
            ("/status/x", Some(STATUS)),
            ("/", Some("path cannot contain empty string")),
            ("/spec//x", Some("path cannot contain empty string")),
            ("/spec/ /x", Some("path cannot contain empty string")),
            ("/spec/x/", Some("path cannot contain empty string")),
            ("/metadata/labels//", Some("path cannot contain empty string")),
            ("/metadata/labels/a", None),
            ("/metadata/annotations", None),
            ("/status-x", None),
            ("/spec/status", None),
            ("/spec/kind", None),
        ] {
            assert_eq!(path(given).err(), why, "{given:?}");
        }
    }
}
