//! Requirements on cluster properties: each for itself, and whether those of one term can hold together.

use std::collections::HashMap;

use fleet_api::placement::{PropertyOperator as Operator, PropertyRequirement, PropertySelector};

use super::Errors;
use crate::membership::properties::Quantity;
use crate::names::{dns_subdomain, qualified_name};
use crate::scheduler::RESOURCE_PREFIX;

const QUANTITY_RULE: &str =
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'";

/// What is wrong with a selector by properties.
pub fn selector(selector: &PropertySelector) -> Errors {
    let mut errors = Errors::none();
    for requirement in &selector.match_expressions {
        errors.append(one(requirement));
    }
    for (name, of_it) in by_name(&selector.match_expressions) {
        if let Err(why) = consistent(of_it.into_iter().filter_map(well_formed)) {
            errors.push(format!("inconsistent requirements on property {name}: {why}"));
        }
    }
    errors
}

/// In the order of their first requirements. In one pass: the schema has no bound for this list.
fn by_name(requirements: &[PropertyRequirement]) -> Vec<(&str, Vec<&PropertyRequirement>)> {
    let mut places = HashMap::new();
    let mut groups: Vec<(&str, Vec<_>)> = Vec::new();
    for requirement in requirements {
        let name = requirement.name.as_str();
        let place = *places.entry(name).or_insert_with(|| {
            groups.push((name, Vec::new()));
            groups.len() - 1
        });
        if let Some((_, of_it)) = groups.get_mut(place) {
            of_it.push(requirement);
        }
    }
    groups
}

fn one(requirement: &PropertyRequirement) -> Errors {
    let PropertyRequirement { name, operator, values } = requirement;
    let mut errors = Errors::none();
    if let Some(why) = bad_name(name) {
        errors.push(format!("invalid property name {name}: {why}"));
    }
    let on = format!("invalid requirement on property {name}:");
    if let Operator::Unknown(word) = operator {
        errors.push(format!("{on} unsupported operator {word}"));
    }
    match values.as_slice() {
        [value] if value.parse::<Quantity>().is_err() => {
            errors.push(format!(
                "{on} value {value:?} is not a valid resource.Quantity: {}",
                no_quantity(value)
            ));
        }
        [_] => {}
        _ => errors.push(format!(
            "{on} operator {operator} requires exactly one value, got {}",
            values.len()
        )),
    }
    errors
}

/// Why a text is no quantity. Kubernetes' libraries take number and suffix apart first, and then look the suffix up.
fn no_quantity(text: &str) -> &'static str {
    fn past_sign(text: &str) -> &str {
        text.strip_prefix(['+', '-']).unwrap_or(text)
    }
    fn past_digits(text: &str) -> &str {
        text.trim_start_matches(|c: char| c.is_ascii_digit())
    }
    let unsigned = past_sign(text);
    let whole = past_digits(unsigned);
    let suffix = whole.strip_prefix('.').map_or(whole, past_digits);
    let letters = suffix.trim_start_matches(|c| "eEinumkKMGTP".contains(c));
    let is_taken_apart = past_digits(past_sign(letters)).is_empty();
    let has_number = suffix.len() < unsigned.len() && unsigned != ".";
    if is_taken_apart && has_number {
        "unable to parse quantity's suffix"
    } else {
        QUANTITY_RULE
    }
}

/// Why no property can have this name.
pub fn bad_name(name: &str) -> Option<String> {
    let joined = |why: &[String]| why.join("; ");
    let unqualified = || {
        let why = qualified_name(name);
        (!why.is_empty()).then(|| format!("property name {name} is not valid: {}", joined(&why)))
    };
    if let Some(rest) = name.strip_prefix(RESOURCE_PREFIX) {
        // At the first dash: resource names have dashes of their own (`ephemeral-storage`).
        let Some((capacity, _)) = rest.split_once('-') else {
            return Some(format!(
                "invalid resource property name {name}, expected format is [PREFIX]/[CAPACITY_TYPE]-[RESOURCE_NAME]"
            ));
        };
        if !["total", "allocatable", "available"].contains(&capacity) {
            return Some(format!(
                "invalid capacity type in resource property name {name}, supported values are [allocatable available total]"
            ));
        }
        return unqualified();
    }
    let Some((first, rest)) = name.split_once('/') else {
        return unqualified();
    };
    let (subdomain, qualified) = (dns_subdomain(first), qualified_name(first));
    if !subdomain.is_empty() && !qualified.is_empty() {
        return Some(format!(
            "property name first segment {first} is not valid: it is neither a valid DNS subdomain ({}) nor a valid \
             qualified name ({})",
            joined(&subdomain),
            joined(&qualified)
        ));
    }
    rest.split('/').find_map(|segment| {
        let why = qualified_name(segment);
        (!why.is_empty()).then(|| format!("property name segment {segment} is not valid: {}", joined(&why)))
    })
}

fn well_formed(requirement: &PropertyRequirement) -> Option<(&Operator, Quantity)> {
    let [value] = requirement.values.as_slice() else {
        return None;
    };
    Some((&requirement.operator, value.parse().ok()?))
}

/// The tightest bound of one side; at a tie the strict one.
#[derive(Clone, Copy)]
struct Bound {
    value: Quantity,
    strict: bool,
}

fn consistent<'a>(requirements: impl Iterator<Item = (&'a Operator, Quantity)>) -> Result<(), String> {
    let (mut equal, mut unequal): (Vec<Quantity>, Vec<Quantity>) = Default::default();
    let (mut lower, mut upper): (Option<Bound>, Option<Bound>) = (None, None);
    let tighter = |new: Bound, old: Option<Bound>, above: bool| match old {
        Some(old) if old.value == new.value => new.strict && !old.strict,
        Some(old) => (new.value > old.value) == above,
        None => true,
    };
    for (operator, value) in requirements {
        let strict = matches!(operator, Operator::Gt | Operator::Lt);
        let bound = Bound { value, strict };
        match operator {
            Operator::Eq => equal.push(value),
            Operator::Ne => unequal.push(value),
            Operator::Gt | Operator::Ge if tighter(bound, lower, true) => lower = Some(bound),
            Operator::Lt | Operator::Le if tighter(bound, upper, false) => upper = Some(bound),
            _ => {}
        }
    }
    let wanted = equal.first().copied();
    if let (Some(first), Some(other)) = (wanted, equal.iter().find(|value| Some(**value) != wanted)) {
        return Err(format!("conflicting Eq values {first} and {other}"));
    }
    if let Some(value) = wanted.filter(|value| unequal.contains(value)) {
        return Err(format!("conflicting Eq and Ne on same value {value}"));
    }
    if let (Some(low), Some(high)) = (lower, upper)
        && (low.value > high.value || low.value == high.value && (low.strict || high.strict))
    {
        return Err(format!(
            "lower bound ({}) and upper bound ({}) exclude all values",
            low.value, high.value
        ));
    }
    let Some(value) = wanted else { return Ok(()) };
    if let Some(low) = lower.filter(|low| value < low.value || value == low.value && low.strict) {
        return Err(format!("eq value {value} violates lower bound {}", low.value));
    }
    if let Some(high) = upper.filter(|high| value > high.value || value == high.value && high.strict) {
        return Err(format!("eq value {value} violates upper bound {}", high.value));
    }
    Ok(())
}
