//! Label selectors, checked and prepared once and then matched against thousands of clusters.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};

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

/// Why a label selector cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSelector {
    /// The operator is none of the four.
    #[error("{0:?} is not a valid label selector operator")]
    Operator(String),
    /// `In` and `NotIn` compare with something.
    #[error("label selector operator {operator} on key {key:?} needs at least one value")]
    NoValues {
        /// The operator as written.
        operator: String,
        /// The key that it is about.
        key: String,
    },
    /// `Exists` and `DoesNotExist` compare with nothing.
    #[error("label selector operator {operator} on key {key:?} takes no values")]
    Values {
        /// The operator as written.
        operator: String,
        /// The key that it is about.
        key: String,
    },
    /// No label can have this key, so the selector cannot mean what it says.
    #[error("{0:?} is not a valid label key")]
    Key(String),
    /// No label can have this value.
    #[error("{0:?} is not a valid label value")]
    Value(String),
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
        let no_values = || BadSelector::NoValues {
            operator: operator.clone(),
            key: key.clone(),
        };
        let test = match operator.as_str() {
            "In" | "NotIn" if values.is_empty() => return Err(no_values()),
            "In" => Test::In(values),
            "NotIn" => Test::NotIn(values),
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                return Err(BadSelector::Values {
                    operator: operator.clone(),
                    key: key.clone(),
                });
            }
            "Exists" => Test::Exists,
            "DoesNotExist" => Test::DoesNotExist,
            other => return Err(BadSelector::Operator(other.into())),
        };
        Self { key: key.clone(), test }.checked()
    }

    fn checked(self) -> Result<Self, BadSelector> {
        if !is_key(&self.key) {
            return Err(BadSelector::Key(self.key));
        }
        if let Test::In(values) | Test::NotIn(values) = &self.test
            && let Some(bad) = values.iter().find(|value| !value.is_empty() && !is_name(value))
        {
            return Err(BadSelector::Value(bad.clone()));
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

/// A qualified name: `[dns-subdomain/]name`.
fn is_key(key: &str) -> bool {
    let (prefix, name) = key
        .rsplit_once('/')
        .map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let dns_label = |label: &str| {
        !label.is_empty()
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
    };
    is_name(name) && prefix.is_none_or(|prefix| prefix.len() <= 253 && prefix.split('.').all(dns_label))
}

fn is_name(name: &str) -> bool {
    let alphanumeric = |c: Option<u8>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    name.len() <= 63
        && alphanumeric(name.bytes().next())
        && alphanumeric(name.bytes().last())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'))
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
                r#"label selector operator In on key "a" needs at least one value"#,
            ),
            (
                "a",
                "Exists",
                &["x"],
                r#"label selector operator Exists on key "a" takes no values"#,
            ),
            ("a b", "Exists", &[], r#""a b" is not a valid label key"#),
            ("-/a", "Exists", &[], r#""-/a" is not a valid label key"#),
            ("", "Exists", &[], r#""" is not a valid label key"#),
            ("a", "In", &["b c"], r#""b c" is not a valid label value"#),
        ] {
            assert_eq!(
                Selector::new(&expression(key, operator, values))
                    .unwrap_err()
                    .to_string(),
                text
            );
        }
        assert!(Selector::new(&expression(&long, "Exists", &[])).is_err());
        assert!(Selector::new(&expression("example.com/a_b.c", "In", &["", "x"])).is_ok());
    }
}
