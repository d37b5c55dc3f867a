//! Operators and functions.

use std::cmp::Ordering;

use cel::common::ast::{CallExpr, operators};

use super::{
    Fault,
    budget::{Budget, weight},
    term::{Evaluated, Term, are_comparable, equal, number, order},
};
use crate::apply::json::whole;

/// Functions, for those who write expressions. `matches` is not among them: what a pattern costs cannot be told.
pub(super) const NAMES: [&str; 7] = ["size", "startsWith", "endsWith", "contains", "int", "double", "string"];

/// Whether a call can be evaluated, by its name and the number of its arguments.
pub(super) fn is_known(call: &CallExpr) -> bool {
    let arguments = (call.target.is_some(), call.args.len());
    match call.func_name.as_str() {
        operators::CONDITIONAL => arguments == (false, 3),
        operators::LOGICAL_NOT | operators::NEGATE | operators::NOT_STRICTLY_FALSE => arguments == (false, 1),
        operators::LOGICAL_AND
        | operators::LOGICAL_OR
        | operators::EQUALS
        | operators::NOT_EQUALS
        | operators::LESS
        | operators::LESS_EQUALS
        | operators::GREATER
        | operators::GREATER_EQUALS
        | operators::ADD
        | operators::SUBSTRACT
        | operators::MULTIPLY
        | operators::DIVIDE
        | operators::MODULO
        | operators::IN
        | operators::INDEX => arguments == (false, 2),
        "size" => matches!(arguments, (false, 1) | (true, 0)),
        "startsWith" | "endsWith" | "contains" => arguments == (true, 1),
        "int" | "double" | "string" => arguments == (false, 1),
        _ => false,
    }
}

/// The value of a function, whose target is its first argument.
pub(super) fn call<'a>(budget: &mut Budget, name: &str, arguments: &[Term<'a>]) -> Evaluated<'a> {
    let value = match (name, arguments) {
        (operators::EQUALS, [a, b]) => Some(Term::Bool(equal(budget, a, b)?)),
        (operators::NOT_EQUALS, [a, b]) => Some(Term::Bool(!equal(budget, a, b)?)),
        (operators::LESS, [a, b]) => is_ordered(budget, a, b, Ordering::is_lt)?,
        (operators::LESS_EQUALS, [a, b]) => is_ordered(budget, a, b, Ordering::is_le)?,
        (operators::GREATER, [a, b]) => is_ordered(budget, a, b, Ordering::is_gt)?,
        (operators::GREATER_EQUALS, [a, b]) => is_ordered(budget, a, b, Ordering::is_ge)?,
        (operators::IN, [item, list]) => is_in(budget, item, list)?,
        (operators::INDEX, [list, at]) => return index(budget, list, at),
        (operators::LOGICAL_NOT, [Term::Bool(value)]) => Some(Term::Bool(!value)),
        (operators::NEGATE, [Term::Int(value)]) => value.checked_neg().map(Term::Int),
        (operators::NEGATE, [Term::Double(value)]) => Some(Term::Double(-value)),
        (operators::ADD, [a, b]) if a.text().is_some() || a.len().is_some() => join(budget, a, b)?,
        (_, [Term::Int(a), Term::Int(b)]) => integers(name, *a, *b).map(Term::Int),
        (_, [Term::Uint(a), Term::Uint(b)]) => unsigned(name, *a, *b).map(Term::Uint),
        (_, [Term::Double(a), Term::Double(b)]) => floats(name, *a, *b).map(Term::Double),
        ("size", [value]) => size(budget, value)?,
        ("startsWith" | "endsWith" | "contains", [text, part]) => part_of(budget, name, text, part)?,
        ("int", [value]) => to_int(value),
        ("double", [value]) => to_double(value),
        ("string", [value]) => to_text(budget, value)?,
        _ => None,
    };
    value.ok_or_else(|| no_value(name, arguments))
}

/// No value is shown: it may be one that is nobody's business.
fn no_value(name: &str, arguments: &[Term<'_>]) -> Fault {
    let sign: String = name.chars().filter(|c| *c != '_' && *c != '@').collect();
    let kinds: Vec<&str> = arguments.iter().map(Term::kind).collect();
    Fault::wrong(format!("{sign} has no value for {}", kinds.join(" and ")))
}

fn is_ordered<'a>(
    budget: &mut Budget,
    a: &Term<'_>,
    b: &Term<'_>,
    is: fn(Ordering) -> bool,
) -> Result<Option<Term<'a>>, Fault> {
    if !are_comparable(a, b) {
        return Ok(None);
    }
    Ok(Some(Term::Bool(order(budget, a, b)?.is_some_and(is))))
}

fn is_in<'a>(budget: &mut Budget, item: &Term<'_>, list: &Term<'_>) -> Result<Option<Term<'a>>, Fault> {
    if let Term::Object(map) = list {
        let key = item.text();
        budget.spend(key.map_or(1, weight))?;
        return Ok(Some(Term::Bool(key.is_some_and(|key| map.contains_key(key)))));
    }
    let Some(length) = list.len() else { return Ok(None) };
    for at in 0..length {
        if let Some(element) = list.element(at)
            && equal(budget, item, &element)?
        {
            return Ok(Some(Term::Bool(true)));
        }
    }
    Ok(Some(Term::Bool(false)))
}

fn index<'a>(budget: &mut Budget, list: &Term<'a>, at: &Term<'_>) -> Evaluated<'a> {
    let place = match at {
        Term::Int(at) => usize::try_from(*at).ok(),
        Term::Uint(at) => usize::try_from(*at).ok(),
        _ => None,
    };
    let found = match (list, at.text()) {
        (Term::Object(map), Some(key)) => {
            budget.spend(weight(key))?;
            map.get(key).map(Term::of)
        }
        _ => place.and_then(|at| list.element(at)),
    };
    // The key is not shown: it may be computed from what is nobody's business.
    found.ok_or_else(|| Fault::wrong(format!("{} has no such element", list.kind())))
}

fn join<'a>(budget: &mut Budget, a: &Term<'a>, b: &Term<'a>) -> Result<Option<Term<'a>>, Fault> {
    if let (Some(a), Some(b)) = (a.text(), b.text()) {
        budget.spend(weight(a) + weight(b))?;
        return Ok(Some(Term::Made([a, b].concat().into())));
    }
    let is_map = matches!(a, Term::Object(_)) || matches!(b, Term::Object(_));
    if is_map {
        return Ok(None);
    }
    let (Some(mut list), Some(more)) = (a.items(budget)?, b.items(budget)?) else {
        return Ok(None);
    };
    list.extend(more);
    Ok(Some(Term::List(list.into())))
}

fn integers(name: &str, a: i64, b: i64) -> Option<i64> {
    match name {
        operators::ADD => a.checked_add(b),
        operators::SUBSTRACT => a.checked_sub(b),
        operators::MULTIPLY => a.checked_mul(b),
        operators::DIVIDE => a.checked_div(b),
        operators::MODULO => a.checked_rem(b),
        _ => None,
    }
}

fn unsigned(name: &str, a: u64, b: u64) -> Option<u64> {
    match name {
        operators::ADD => a.checked_add(b),
        operators::SUBSTRACT => a.checked_sub(b),
        operators::MULTIPLY => a.checked_mul(b),
        operators::DIVIDE => a.checked_div(b),
        operators::MODULO => a.checked_rem(b),
        _ => None,
    }
}

fn floats(name: &str, a: f64, b: f64) -> Option<f64> {
    match name {
        operators::ADD => Some(a + b),
        operators::SUBSTRACT => Some(a - b),
        operators::MULTIPLY => Some(a * b),
        operators::DIVIDE => Some(a / b),
        _ => None,
    }
}

/// How many characters, elements or keys there are.
fn size<'a>(budget: &mut Budget, value: &Term<'_>) -> Result<Option<Term<'a>>, Fault> {
    let size = match value.text() {
        Some(text) => {
            budget.spend(weight(text))?;
            Some(text.chars().count())
        }
        None => value.len(),
    };
    Ok(size.and_then(|size| i64::try_from(size).ok()).map(Term::Int))
}

fn part_of<'a>(budget: &mut Budget, name: &str, text: &Term<'_>, part: &Term<'_>) -> Result<Option<Term<'a>>, Fault> {
    let (Some(text), Some(part)) = (text.text(), part.text()) else {
        return Ok(None);
    };
    budget.spend(weight(part))?;
    if name == "contains" {
        budget.spend(weight(text))?;
    }
    Ok(Some(Term::Bool(match name {
        "startsWith" => text.starts_with(part),
        "endsWith" => text.ends_with(part),
        _ => text.contains(part),
    })))
}

fn to_int<'a>(value: &Term<'_>) -> Option<Term<'a>> {
    let number = match value {
        Term::Int(number) => Some(*number),
        Term::Uint(number) => i64::try_from(*number).ok(),
        Term::Double(number) => whole(number.trunc()),
        other => other.text()?.parse().ok(),
    };
    number.map(Term::Int)
}

fn to_double<'a>(value: &Term<'_>) -> Option<Term<'a>> {
    let parsed = || value.text().and_then(|text| text.parse().ok());
    number(value).or_else(parsed).map(Term::Double)
}

fn to_text<'a>(budget: &mut Budget, value: &Term<'a>) -> Result<Option<Term<'a>>, Fault> {
    // The longest float has some three hundred digits.
    budget.spend(20)?;
    let text = match value {
        Term::Text(_) | Term::Made(_) => return Ok(Some(value.clone())),
        Term::Bool(value) => value.to_string(),
        Term::Int(number) => number.to_string(),
        Term::Uint(number) => number.to_string(),
        Term::Double(number) => number.to_string(),
        _ => return Ok(None),
    };
    Ok(Some(Term::Made(text.into())))
}
