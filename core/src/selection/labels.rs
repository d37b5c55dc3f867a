//! Label selectors of resource selectors and override rules.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

/// Why a label selector cannot be used, in the API server's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSelector {
    /// The operator is none of the four.
    #[error("\"{0}\" is not a valid label selector operator")]
    Operator(String),
    /// `In` and `NotIn` compare with something.
    #[error("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")]
    NoValues,
    /// `Exists` and `DoesNotExist` compare with nothing.
    #[error("values: Invalid value: {0:?}: values set must be empty for exists and does not exist")]
    Values(Vec<String>),
}

/// Whether `selector` selects an object with these labels. An empty selector selects everything.
pub fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Result<bool, BadSelector> {
    let equal = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let mut all = equal;
    // To the end, so that a bad expression is found whatever the labels are.
    for expression in selector.match_expressions.iter().flatten() {
        all &= expression_matches(expression, labels)?;
    }
    Ok(all)
}

fn expression_matches(
    expression: &LabelSelectorRequirement,
    labels: &BTreeMap<String, String>,
) -> Result<bool, BadSelector> {
    let values = expression.values.as_deref().unwrap_or_default();
    let label = labels.get(&expression.key);
    match expression.operator.as_str() {
        "In" | "NotIn" if values.is_empty() => Err(BadSelector::NoValues),
        "In" => Ok(label.is_some_and(|label| values.contains(label))),
        "NotIn" => Ok(label.is_none_or(|label| !values.contains(label))),
        "Exists" | "DoesNotExist" if !values.is_empty() => Err(BadSelector::Values(values.to_vec())),
        "Exists" => Ok(label.is_some()),
        "DoesNotExist" => Ok(label.is_none()),
        other => Err(BadSelector::Operator(other.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_match_as_everywhere_in_kubernetes() {
        let labels = BTreeMap::from([("env".to_owned(), "prod".to_owned())]);
        for (selector, result) in [
            ("{}", Ok(true)),
            (r#"{"matchLabels":{"env":"prod"}}"#, Ok(true)),
            (r#"{"matchLabels":{"env":"test"}}"#, Ok(false)),
            (
                r#"{"matchExpressions":[{"key":"env","operator":"In","values":["a","prod"]}]}"#,
                Ok(true),
            ),
            (
                r#"{"matchExpressions":[{"key":"env","operator":"NotIn","values":["prod"]}]}"#,
                Ok(false),
            ),
            (
                r#"{"matchExpressions":[{"key":"x","operator":"NotIn","values":["prod"]}]}"#,
                Ok(true),
            ),
            (r#"{"matchExpressions":[{"key":"env","operator":"Exists"}]}"#, Ok(true)),
            (
                r#"{"matchExpressions":[{"key":"env","operator":"DoesNotExist"}]}"#,
                Ok(false),
            ),
            (
                r#"{"matchLabels":{"env":"test"},"matchExpressions":[{"key":"env","operator":"Is"}]}"#,
                Err(BadSelector::Operator("Is".into())),
            ),
            (
                r#"{"matchExpressions":[{"key":"env","operator":"In"}]}"#,
                Err(BadSelector::NoValues),
            ),
        ] {
            let parsed: LabelSelector = serde_json::from_str(selector).unwrap();
            assert_eq!(matches(&parsed, &labels), result, "{selector}");
        }
    }
}
