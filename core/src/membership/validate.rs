//! What admission refuses about a MemberCluster, in the words that people know.

use fleet_api::cluster::Taint;
use fleet_api::labels;
use fleet_api::names::is_dns_subdomain;

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// Everything that is wrong with a list of taints, or none.
pub fn taints(taints: &[Taint]) -> Option<String> {
    let mut errors = vec![];
    for (i, taint) in taints.iter().enumerate() {
        let shown = format!("{{Key:{} Value:{} Effect:{}}}", taint.key, taint.value, taint.effect);
        let why = qualified_name(&taint.key);
        if !why.is_empty() {
            errors.push(format!("invalid taint key {shown}: {}", why.join("; ")));
        }
        let why = label_value(&taint.value);
        if !why.is_empty() {
            errors.push(format!("invalid taint value {shown}: {}", why.join("; ")));
        }
        if taints[..i].contains(taint) {
            errors.push(format!("taint {shown} already exists, taints must be unique"));
        }
    }
    match errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}

/// Why a text is no label key, as the API server says it.
pub fn qualified_name(value: &str) -> Vec<String> {
    let mut errors = vec![];
    let parts: Vec<&str> = value.split('/').collect();
    let name = match parts.as_slice() {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                errors.push("prefix part must be non-empty".to_owned());
            } else if !is_dns_subdomain(prefix) {
                errors.push(
                    "prefix part a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, \
                     '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used \
                     for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                        .to_owned(),
                );
            }
            name
        }
        _ => {
            return vec![format!(
                "a qualified name must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                 with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for \
                 validation is '{NAME}') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > 63 {
        errors.push("name part must be no more than 63 bytes".to_owned());
    }
    if !is_label_text(name) {
        errors.push(format!(
            "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an \
             alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
             '{NAME}')"
        ));
    }
    errors
}

/// Why a text is no label value, as the API server says it.
pub fn label_value(value: &str) -> Vec<String> {
    let mut errors = vec![];
    if value.len() > 63 {
        errors.push("must be no more than 63 bytes".to_owned());
    }
    if !value.is_empty() && !is_label_text(value) {
        errors.push(format!(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must \
             start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for \
             validation is '({NAME})?')"
        ));
    }
    errors
}

fn is_label_text(value: &str) -> bool {
    let edge = |b: u8| b.is_ascii_alphanumeric();
    value.bytes().next().is_some_and(edge)
        && value.bytes().next_back().is_some_and(edge)
        && value.bytes().all(|b| edge(b) || matches!(b, b'-' | b'_' | b'.'))
}

/// Of the labels that a member says its platform gave it: those that may be filled in. Labels decide scheduling, so only
/// the three known keys, only where the MemberCluster has none yet, and only valid values.
pub fn fillable_labels<'a>(
    reported: &'a std::collections::BTreeMap<String, String>,
    present: Option<&'a std::collections::BTreeMap<String, String>>,
) -> impl Iterator<Item = (&'a str, &'a str)> {
    reported
        .iter()
        .filter(|(key, value)| {
            labels::REPORTED_BY_MEMBERS.contains(&key.as_str()) && !value.is_empty() && label_value(value).is_empty()
        })
        .filter(move |(key, _)| !present.is_some_and(|p| p.contains_key(*key)))
        .map(|(key, value)| (key.as_str(), value.as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str) -> Taint {
        Taint {
            key: key.into(),
            value: value.into(),
            ..Taint::default()
        }
    }

    #[test]
    fn taints_are_refused_in_known_words() {
        assert_eq!(
            taints(&[taint("a", ""), taint("a", "v"), taint("example.com/a", "v")]),
            None
        );
        assert_eq!(
            taints(&[taint("a", "v"), taint("a", "v")]).as_deref(),
            Some("taint {Key:a Value:v Effect:NoSchedule} already exists, taints must be unique")
        );
        assert_eq!(
            taints(&[taint("", "")]).as_deref(),
            Some(
                "invalid taint key {Key: Value: Effect:NoSchedule}: name part must be non-empty; name part must \
                 consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric \
                 character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is \
                 '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
            )
        );
        let both = taints(&[taint("-", "b c")]).expect("two errors");
        assert!(
            both.starts_with("[invalid taint key {Key:- Value:b c Effect:NoSchedule}: name part"),
            "{both}"
        );
        assert!(
            both.contains(", invalid taint value {Key:- Value:b c Effect:NoSchedule}: a valid label must"),
            "{both}"
        );
        assert!(
            both.ends_with("(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')]"),
            "{both}"
        );
        assert!(
            taints(&[taint("a/b/c", "")])
                .expect("bad")
                .contains(": a qualified name must consist of")
        );
        assert!(
            taints(&[taint("A_/b", "")])
                .expect("bad")
                .contains(": prefix part a lowercase RFC 1123 subdomain")
        );
        assert!(
            taints(&[taint("/b", "")])
                .expect("bad")
                .contains(": prefix part must be non-empty")
        );
        assert!(
            taints(&[taint(&"a".repeat(64), "")])
                .expect("bad")
                .contains("no more than 63 bytes")
        );
    }

    #[test]
    fn only_known_labels_are_filled_in_and_only_where_there_is_none() {
        let map = |pairs: &[(&str, &str)]| pairs.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        let reported = map(&[
            ("fleet.azure.com/location", "eastus"),
            ("fleet.azure.com/resource-group", "not valid"),
            ("fleet.azure.com/subscription-id", "s"),
            ("env", "prod"),
        ]);
        let present = map(&[("fleet.azure.com/subscription-id", "own")]);
        let filled: Vec<_> = fillable_labels(&reported, Some(&present)).collect();
        assert_eq!(filled, [("fleet.azure.com/location", "eastus")]);
    }
}
