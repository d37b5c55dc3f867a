//! Which labels a member may have filled in on its MemberCluster.

use fleet_api::labels;

const NAME: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

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
