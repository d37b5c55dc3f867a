//! Client-side apply: the three-way merge as kubectl does it.
//!
//! Merge keys and strategies come from the member's OpenAPI v3 document as [`Rules`]; kinds without any merge as plain
//! JSON, except that owner references and finalizers of others survive there too.

mod patch;
mod rules;
mod three_way;

pub use patch::{Style, patch};
pub use rules::Rules;
pub use three_way::three_way;

use serde_json::Value;
use thiserror::Error;

/// A patch to be sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Patch {
    /// Its content type.
    pub style: Style,
    /// Its content.
    pub body: Value,
    /// It holds a list with elements of others, so it is only right for the object that it was made from: send it with
    /// that object's resource version, and make it anew on a conflict.
    pub locked: bool,
}

/// Why there is no patch.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Error {
    /// The patch would make another object of this one.
    #[error("precondition failed: {0} must not change")]
    Identity(&'static str),
}

/// The patch that applies `manifest` to `live`, where `base` is the live object's last-applied annotation (empty: none,
/// so nothing is deleted); nothing if the live object already is as it should be.
pub fn create(base: &str, manifest: &Value, live: &Value, rules: Option<&Rules>) -> Result<Option<Patch>, Error> {
    // A record that somebody has garbled is as good as none; the patch writes a new one.
    let base: Value = serde_json::from_str(base).unwrap_or_default();
    let metadata = Rules::metadata();
    let (style, rules) = rules.map_or((Style::Json, &metadata), |rules| (Style::Strategic, rules));
    let target = three_way(&base, manifest, live, rules);
    let Some(body) = patch(live, &target, rules, style) else {
        return Ok(None);
    };
    for (name, pointer) in [
        ("apiVersion", "/apiVersion"),
        ("kind", "/kind"),
        ("metadata.name", "/metadata/name"),
    ] {
        if body.pointer(pointer).is_some() {
            return Err(Error::Identity(name));
        }
    }
    let whole_lists = ["/metadata/ownerReferences", "/metadata/finalizers"];
    let locked = style == Style::Json && whole_lists.iter().any(|list| body.pointer(list).is_some());
    Ok(Some(Patch { style, body, locked }))
}

#[cfg(test)]
pub(crate) mod tests;
