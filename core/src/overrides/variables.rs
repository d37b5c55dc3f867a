//! Variables in the values of an override.
//!
//! They are replaced in the JSON text, so that they can be part of a string; never in paths.

use super::LabelledCluster;
use crate::text::quote;

const NAME: &str = "${MEMBER-CLUSTER-NAME}";
const LABEL: &str = "${MEMBER-CLUSTER-LABEL-KEY-";

/// `text` with the cluster's name and labels in place of the variables.
pub fn substitute(text: &str, cluster: &LabelledCluster<'_>) -> Result<String, String> {
    let text = text.replace(NAME, cluster.name);
    // Once from left to right, whatever the text is made of: a tenant may write tens of thousands of variables.
    let (mut done, mut rest) = (String::new(), text.as_str());
    while let Some(start) = rest.find(LABEL) {
        let (before, after) = (&rest[..start], &rest[start + LABEL.len()..]);
        let Some((key, after)) = after.split_once('}') else {
            let text = done + rest;
            return Err(format!("input {} is missing the closing bracket `}}`", quote(&text)));
        };
        let Some(value) = cluster.labels.get(key) else {
            return Err(format!(
                "label key {} not found on cluster {}",
                quote(key),
                cluster.name
            ));
        };
        done.push_str(before);
        done.push_str(value);
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    /// From the start of the text for each variable: as upstream does it, in time that grows with the square of its length.
    fn one_by_one(text: &str, cluster: &LabelledCluster<'_>) -> Result<String, String> {
        let mut text = text.replace(NAME, cluster.name);
        while let Some(start) = text.find(LABEL) {
            let after = &text[start + LABEL.len()..];
            let Some(length) = after.find('}') else {
                return Err(format!("input {text} is missing the closing bracket `}}`"));
            };
            let key = &after[..length];
            let Some(value) = cluster.labels.get(key) else {
                return Err(format!("label key {key} not found on cluster {}", cluster.name));
            };
            let end = start + LABEL.len() + length + 1;
            text = format!("{}{value}{}", &text[..start], &text[end..]);
        }
        Ok(text)
    }

    proptest! {
        #[test]
        fn one_pass_gives_what_many_give(
            parts in prop::collection::vec(
                prop_oneof![
                    Just(NAME.to_owned()),
                    Just(format!("{LABEL}a}}")),
                    Just(format!("{LABEL}b}}")),
                    Just(format!("{LABEL}{NAME}}}")),
                    Just(LABEL.to_owned()),
                    Just("${MEMBER-".to_owned()),
                    "[${}a-c\"]{0,4}",
                ],
                0..12,
            ),
        ) {
            let labels = [("a", "1"), ("b", ""), ("c1", "x-y")];
            let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
            let cluster = LabelledCluster { name: "c1", labels: &labels };
            let text = parts.concat();
            // What is too long to be quoted in full is compared by its beginning.
            let expected = one_by_one(&text, &cluster).map_err(|error| quote(&error).into_owned());
            let result = substitute(&text, &cluster).map_err(|error| quote(&error).into_owned());
            let begin = |result: Result<String, String>| result.map_err(|error| error.chars().take(200).collect::<String>());
            prop_assert_eq!(begin(result), begin(expected));
        }
    }

    #[test]
    fn a_text_of_variables_alone_takes_no_longer_than_its_length() {
        let labels = BTreeMap::from([("a".to_owned(), "b".repeat(63))]);
        let cluster = LabelledCluster {
            name: "c1",
            labels: &labels,
        };
        let many = 48_000;
        let text = format!("{LABEL}a}}").repeat(many);
        // One by one this copies tens of gigabytes.
        assert_eq!(substitute(&text, &cluster).map(|text| text.len()), Ok(63 * many));
    }

    #[test]
    fn variables_are_replaced_or_refused() {
        let labels = BTreeMap::from([
            ("region".to_owned(), "eu".to_owned()),
            ("fleet/env".to_owned(), "prod".to_owned()),
        ]);
        let cluster = LabelledCluster {
            name: "c1",
            labels: &labels,
        };
        for (text, result) in [
            (r#""x""#, Ok(r#""x""#)),
            (r#""${MEMBER-CLUSTER-NAME}-${MEMBER-CLUSTER-NAME}""#, Ok(r#""c1-c1""#)),
            (
                r#""${MEMBER-CLUSTER-LABEL-KEY-region}/${MEMBER-CLUSTER-LABEL-KEY-fleet/env}""#,
                Ok(r#""eu/prod""#),
            ),
            (
                r#""${CLUSTER-NAME} $MEMBER-CLUSTER-NAME""#,
                Ok(r#""${CLUSTER-NAME} $MEMBER-CLUSTER-NAME""#),
            ),
            (
                r#""${MEMBER-CLUSTER-LABEL-KEY-zone}""#,
                Err("label key zone not found on cluster c1"),
            ),
            (
                r#""${MEMBER-CLUSTER-LABEL-KEY-Region}""#,
                Err("label key Region not found on cluster c1"),
            ),
            (
                r#""${MEMBER-CLUSTER-LABEL-KEY-}""#,
                Err("label key  not found on cluster c1"),
            ),
            (
                r#""${MEMBER-CLUSTER-LABEL-KEY-region""#,
                Err(r#"input "${MEMBER-CLUSTER-LABEL-KEY-region" is missing the closing bracket `}`"#),
            ),
        ] {
            assert_eq!(
                substitute(text, &cluster).as_deref(),
                result.map_err(String::from).as_deref(),
                "{text}"
            );
        }
    }
}
