//! What changes about an object, line by line.

use fleet_api::raw::RawJson;
use serde_json::Value;
use similar::TextDiff;

use super::answer::{Kind, ObjectChange};
use super::mask::mask;
use crate::selection::ObjectId;

/// Lines around a change.
const CONTEXT: usize = 3;

/// What changes between two manifests of an object; none if nothing does.
pub(super) fn change(object: &ObjectId, before: Option<&RawJson>, after: Option<&RawJson>) -> Option<ObjectChange> {
    let kind = match (before, after) {
        (None, None) => return None,
        (Some(before), Some(after)) if before == after => return None,
        (None, Some(_)) => Kind::Added,
        (Some(_), Some(_)) => Kind::Changed,
        (Some(_), None) => Kind::Removed,
    };
    let (mut before, mut after) = (before.map(RawJson::to_value), after.map(RawJson::to_value));
    mask(before.as_mut(), after.as_mut());
    Some(ObjectChange {
        api_version: object.api_version(),
        kind: object.kind.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
        change: kind,
        diff: unified(&text(before.as_ref()), &text(after.as_ref())),
    })
}

/// YAML, as people write manifests.
fn text(manifest: Option<&Value>) -> String {
    let Some(manifest) = manifest else { return String::new() };
    // A long line is one line: folding would move with every change.
    let lines = serde_saphyr::ser_options! { folded_wrap_chars: usize::MAX };
    let yaml = serde_saphyr::to_string_with_options(manifest, lines);
    yaml.unwrap_or_else(|_| format!("{manifest:#}\n"))
}

/// The hunks of `diff -u`, without its head: who prints them knows what they are about.
fn unified(before: &str, after: &str) -> String {
    let diff = TextDiff::from_lines(before, after);
    diff.unified_diff()
        .context_radius(CONTEXT)
        .missing_newline_hint(false)
        .to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn map(data: Value) -> RawJson {
        let mut object =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "m", "namespace": "app" } });
        object["data"] = data;
        RawJson::from(object)
    }

    fn id() -> ObjectId {
        ObjectId {
            version: "v1".into(),
            kind: "ConfigMap".into(),
            namespace: "app".into(),
            name: "m".into(),
            ..ObjectId::default()
        }
    }

    #[test]
    fn a_change_is_shown_as_diff_shows_it() {
        let (before, after) = (map(json!({ "a": "1", "b": "2" })), map(json!({ "a": "1", "b": "3" })));
        let change = change(&id(), Some(&before), Some(&after)).unwrap();
        assert_eq!(change.change, Kind::Changed);
        let wanted = "@@ -2,7 +2,7 @@\n kind: ConfigMap\n";
        assert!(
            change.diff.contains("\n-  b: '2'\n+  b: '3'\n") || change.diff.contains("\n-  b: \"2\"\n+  b: \"3\"\n")
        );
        assert!(change.diff.starts_with("@@ -"), "{wanted} {}", change.diff);
    }

    #[test]
    fn equal_manifests_do_not_differ_however_they_are_written() {
        let one = map(json!({ "a": "1", "b": "2" }));
        let same = RawJson::from_text(format!(" {} ", one.as_str())).unwrap();
        assert_eq!(change(&id(), Some(&one), Some(&same)), None);
    }

    #[test]
    fn what_comes_and_goes_is_shown_whole() {
        let one = map(json!({ "a": "1" }));
        let added = change(&id(), None, Some(&one)).unwrap();
        let removed = change(&id(), Some(&one), None).unwrap();
        assert_eq!((added.change, removed.change), (Kind::Added, Kind::Removed));
        assert!(added.diff.lines().skip(1).all(|line| line.starts_with('+')));
        assert!(removed.diff.lines().skip(1).all(|line| line.starts_with('-')));
    }
}
