//! Label selectors, checked and prepared once and then matched against thousands of clusters.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

use crate::membership::validate::label_value;
use crate::names::qualified_name;

/// A label selector that has been checked. The empty one matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Test {
    In(Vec<String>),
    NotIn(Vec<String>),
    Exists,
    DoesNotExist,
}

/// Why a label selector cannot be used, in the words of Kubernetes' own libraries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSelector {
    /// The operator is none of the four.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// `In` and `NotIn` compare with something.
    #[error("values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty")]
    NoValues,
    /// `Exists` and `DoesNotExist` compare with nothing.
    #[error("values: Invalid value: {0:?}: values set must be empty for exists and does not exist")]
    Values(Vec<String>),
    /// No label can have this key, so the selector cannot mean what it says.
    #[error("key: Invalid value: {key:?}: {why}")]
    Key {
        /// The key.
        key: String,
        /// Why none.
        why: String,
    },
    /// No label can have this value.
    #[error("values[{index}][{key}]: Invalid value: {value:?}: {why}")]
    Value {
        /// Which of the values.
        index: usize,
        /// The key that it is about.
        key: String,
        /// The value.
        value: String,
        /// Why none.
        why: String,
    },
}

impl Selector {
    /// Checks `selector` by the rules that the API server has for selectors.
    pub fn new(selector: &LabelSelector) -> Result<Self, BadSelector> {
        let equal = selector.match_labels.iter().flatten().map(|(key, value)| {
            Requirement {
                key: key.clone(),
                test: Test::In(vec![value.clone()]),
            }
            .checked()
        });
        let expressions = selector.match_expressions.iter().flatten().map(Requirement::new);
        Ok(Self {
            requirements: equal.chain(expressions).collect::<Result<_, _>>()?,
        })
    }

    /// Whether an object with these labels is selected.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// The label keys that the answer depends on.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.requirements.iter().map(|requirement| requirement.key.as_str())
    }
}

impl Requirement {
    fn new(expression: &LabelSelectorRequirement) -> Result<Self, BadSelector> {
        let LabelSelectorRequirement { key, operator, values } = expression;
        let values = values.clone().unwrap_or_default();
        let test = match operator.as_str() {
            "In" | "NotIn" if values.is_empty() => return Err(BadSelector::NoValues),
            "In" => Test::In(values),
            "NotIn" => Test::NotIn(values),
            "Exists" | "DoesNotExist" if !values.is_empty() => return Err(BadSelector::Values(values)),
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            other => return Err(BadSelector::Operator(other.into())),
        };
        Self { key: key.clone(), test }.checked()
    }

    fn checked(self) -> Result<Self, BadSelector> {
        let why = qualified_name(&self.key);
        if !why.is_empty() {
            let why = why.join("; ");
            return Err(BadSelector::Key { key: self.key, why });
        }
        if let Test::In(values) | Test::NotIn(values) = &self.test {
            for (index, value) in values.iter().enumerate() {
                let why = label_value(value);
                if !why.is_empty() {
                    return Err(BadSelector::Value {
                        index,
                        key: self.key.clone(),
                        value: value.clone(),
                        why: why.join("; "),
                    });
                }
            }
        }
        Ok(self)
    }

    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let value = labels.get(&self.key);
        match &self.test {
            Test::In(values) => value.is_some_and(|value| values.contains(value)),
            Test::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Test::Exists => value.is_some(),
            Test::DoesNotExist => value.is_none(),
        }
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Requirement { key, test }) in self.requirements.iter().enumerate() {
            if i > 0 {
                f.write_str(",")?;
            }
            match test {
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::DoesNotExist => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expression(key: &str, operator: &str, values: &[&str]) -> LabelSelector {
        LabelSelector {
            match_expressions: Some(vec![LabelSelectorRequirement {
                key: key.into(),
                operator: operator.into(),
                values: Some(values.iter().map(ToString::to_string).collect()),
            }]),
            ..LabelSelector::default()
        }
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn each_operator_has_the_standard_meaning() {
        let east = labels(&[("region", "east")]);
        let none = labels(&[]);
        for (operator, values, on_east, on_none) in [
            ("In", &["east", "west"][..], true, false),
            ("In", &["west"], false, false),
            ("NotIn", &["east"], false, true),
            ("NotIn", &["west"], true, true),
            ("Exists", &[], true, false),
            ("DoesNotExist", &[], false, true),
        ] {
            let selector = Selector::new(&expression("region", operator, values)).unwrap();
            assert_eq!(selector.matches(&east), on_east, "{selector} on east");
            assert_eq!(selector.matches(&none), on_none, "{selector} on nothing");
        }
    }

    #[test]
    fn labels_and_expressions_must_all_hold_and_the_empty_selector_matches_everything() {
        let mut selector = expression("env", "Exists", &[]);
        selector.match_labels = Some(labels(&[("region", "east")]));
        let selector = Selector::new(&selector).unwrap();
        assert!(selector.matches(&labels(&[("region", "east"), ("env", "prod")])));
        assert!(!selector.matches(&labels(&[("region", "east")])));
        assert_eq!(selector.keys().collect::<Vec<_>>(), ["region", "env"]);
        assert!(Selector::new(&LabelSelector::default()).unwrap().matches(&labels(&[])));
    }

    #[test]
    fn a_selector_that_cannot_mean_what_it_says_is_refused_with_the_cause() {
        let long = "x".repeat(64);
        for (key, operator, values, text) in [
            (
                "a",
                "Like",
                &["x"][..],
                r#""Like" is not a valid label selector operator"#,
            ),
            (
                "a",
                "In",
                &[],
                "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty",
            ),
            (
                "a",
                "Exists",
                &["x"],
                r#"values: Invalid value: ["x"]: values set must be empty for exists and does not exist"#,
            ),
            (
                "a b",
                "Exists",
                &[],
                r#"key: Invalid value: "a b": name part must consist of"#,
            ),
            (
                "-/a",
                "Exists",
                &[],
                r#"key: Invalid value: "-/a": prefix part a lowercase RFC 1123"#,
            ),
            (
                "",
                "Exists",
                &[],
                r#"key: Invalid value: "": name part must be non-empty; name part must"#,
            ),
            (
                "a",
                "In",
                &["x", "b c"],
                r#"values[1][a]: Invalid value: "b c": a valid label must be"#,
            ),
        ] {
            let error = Selector::new(&expression(key, operator, values))
                .unwrap_err()
                .to_string();
            assert!(error.starts_with(text), "{error}");
        }
        assert!(Selector::new(&expression(&long, "Exists", &[])).is_err());
        assert!(Selector::new(&expression("example.com/a_b.c", "In", &["", "x"])).is_ok());
    }
}
