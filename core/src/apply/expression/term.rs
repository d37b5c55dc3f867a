//! The values of expressions. What comes out of the object is borrowed from it.

use std::{cmp::Ordering, rc::Rc};

use serde_json::{Map, Value};

use super::{
    Fault,
    budget::{Budget, weight},
};

/// A value.
#[derive(Debug, Clone)]
pub(super) enum Term<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Text(&'a str),
    /// A text that the expression has made.
    Made(Rc<str>),
    Array(&'a [Value]),
    /// A list that the expression has made.
    List(Rc<[Term<'a>]>),
    Object(&'a Map<String, Value>),
}

impl<'a> Term<'a> {
    pub(super) fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => number
                .as_i64()
                .map(Self::Int)
                .or_else(|| number.as_u64().map(Self::Uint))
                .unwrap_or_else(|| Self::Double(number.as_f64().unwrap_or(f64::NAN))),
            Value::String(text) => Self::Text(text),
            Value::Array(list) => Self::Array(list),
            Value::Object(map) => Self::Object(map),
        }
    }

    /// The kind of value, as people call it.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "a boolean",
            Self::Int(_) | Self::Uint(_) => "an integer",
            Self::Double(_) => "a number",
            Self::Text(_) | Self::Made(_) => "a text",
            Self::Array(_) | Self::List(_) => "a list",
            Self::Object(_) => "a map",
        }
    }

    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Made(text) => Some(text),
            _ => None,
        }
    }

    /// How many elements a list or a map has.
    pub(super) fn len(&self) -> Option<usize> {
        match self {
            Self::Array(list) => Some(list.len()),
            Self::List(list) => Some(list.len()),
            Self::Object(map) => Some(map.len()),
            _ => None,
        }
    }

    /// The element of a list.
    pub(super) fn element(&self, at: usize) -> Option<Self> {
        match self {
            Self::Array(list) => list.get(at).map(Term::of),
            Self::List(list) => list.get(at).cloned(),
            _ => None,
        }
    }

    /// The elements of a list, the keys of a map; none for all else.
    pub(super) fn items(&self, budget: &mut Budget) -> Result<Option<Vec<Self>>, Fault> {
        budget.spend(self.len().unwrap_or_default())?;
        Ok(match self {
            Self::Array(list) => Some(list.iter().map(Term::of).collect()),
            Self::List(list) => Some(list.to_vec()),
            Self::Object(map) => Some(map.keys().map(|key| Self::Text(key)).collect()),
            _ => None,
        })
    }

    fn is_list(&self) -> bool {
        matches!(self, Self::Array(_) | Self::List(_))
    }
}

/// The value of a tree.
pub(super) type Evaluated<'a> = Result<Term<'a>, Fault>;

/// Whether both are the same. Numbers are by their value, and values of different kinds never.
pub(super) fn equal(budget: &mut Budget, a: &Term<'_>, b: &Term<'_>) -> Result<bool, Fault> {
    budget.spend(1)?;
    match (a, b) {
        (Term::Null, Term::Null) => Ok(true),
        (Term::Object(a), Term::Object(b)) => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for (key, value) in *a {
                budget.spend(weight(key))?;
                match b.get(key) {
                    Some(other) if equal(budget, &Term::of(value), &Term::of(other))? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ if a.is_list() && b.is_list() => {
            if a.len() != b.len() {
                return Ok(false);
            }
            for at in 0..a.len().unwrap_or_default() {
                match (a.element(at), b.element(at)) {
                    (Some(a), Some(b)) if equal(budget, &a, &b)? => {}
                    _ => return Ok(false),
                }
            }
            Ok(true)
        }
        _ => Ok(order(budget, a, b)? == Some(Ordering::Equal)),
    }
}

/// Which of two numbers, texts or booleans comes first; none for all else and for what is not a number.
pub(super) fn order(budget: &mut Budget, a: &Term<'_>, b: &Term<'_>) -> Result<Option<Ordering>, Fault> {
    if let (Some(a), Some(b)) = (a.text(), b.text()) {
        budget.spend(weight(a).min(weight(b)))?;
        return Ok(Some(a.cmp(b)));
    }
    Ok(match (a, b) {
        (Term::Bool(a), Term::Bool(b)) => Some(a.cmp(b)),
        _ => match (whole(a), whole(b)) {
            (Some(a), Some(b)) => Some(a.cmp(&b)),
            _ => number(a).zip(number(b)).and_then(|(a, b)| a.partial_cmp(&b)),
        },
    })
}

/// Whether the two can be told apart by size at all.
pub(super) fn are_comparable(a: &Term<'_>, b: &Term<'_>) -> bool {
    a.text().is_some() && b.text().is_some()
        || number(a).is_some() && number(b).is_some()
        || matches!((a, b), (Term::Bool(_), Term::Bool(_)))
}

fn whole(term: &Term<'_>) -> Option<i128> {
    match term {
        Term::Int(number) => Some((*number).into()),
        Term::Uint(number) => Some((*number).into()),
        _ => None,
    }
}

/// As a float, which is near enough when the other is one.
#[allow(
    clippy::cast_precision_loss,
    reason = "a float has no more precision to compare with"
)]
pub(super) fn number(term: &Term<'_>) -> Option<f64> {
    match term {
        Term::Int(number) => Some(*number as f64),
        Term::Uint(number) => Some(*number as f64),
        Term::Double(number) => Some(*number),
        _ => None,
    }
}
