//! Variables in the values of an override.
//!
//! They are replaced in the JSON text, so that they can be part of a string; never in paths.

use super::Cluster;

const NAME: &str = "${MEMBER-CLUSTER-NAME}";
const LABEL: &str = "${MEMBER-CLUSTER-LABEL-KEY-";

/// `text` with the cluster's name and labels in place of the variables.
pub fn substitute(text: &str, cluster: &Cluster<'_>) -> Result<String, String> {
    let mut text = text.replace(NAME, cluster.name);
    // From the start each time: a label cannot hold a `$`, so every round has one variable less.
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn variables_are_replaced_or_refused() {
        let labels = BTreeMap::from([
            ("region".to_owned(), "eu".to_owned()),
            ("fleet/env".to_owned(), "prod".to_owned()),
        ]);
        let cluster = Cluster {
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
