//! Numbers and durations as users write them, read as Go reads them: its words are part of published texts.

use std::num::IntErrorKind;

use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// A decimal integer, or what Go says of a text that is none.
pub(super) fn parse(text: &str) -> Result<i64, &'static str> {
    text.parse::<i64>().map_err(|error| match error.kind() {
        IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => "value out of range",
        _ => "invalid syntax",
    })
}

/// A duration such as `30s` or `1h30m`; none if it is not one. The schema lets no other units in.
pub fn duration(text: &str) -> Option<SignedDuration> {
    let mut rest = text;
    let mut sum = SignedDuration::ZERO;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (value, tail) = rest.split_at(end);
        let unit = match tail.as_bytes()[0] {
            b's' => 1.0,
            b'm' => 60.0,
            b'h' => 3600.0,
            _ => return None,
        };
        rest = &tail[1..];
        if !value.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let seconds = value.parse::<f64>().ok()? * unit;
        // A wait too long to be told is a wait for ever.
        let part = SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX);
        sum = sum.saturating_add(part);
    }
    Some(sum)
}

/// How many of a stage's `clusters` may be updated at once; none if the field says nothing usable. A share is rounded
/// down, but one cluster may always go.
pub fn concurrency(field: &IntOrString, clusters: usize) -> Option<usize> {
    match field {
        IntOrString::Int(number) => usize::try_from(*number).ok().filter(|number| *number > 0),
        IntOrString::String(text) => {
            let percent: usize = text.strip_suffix('%')?.parse().ok()?;
            (1..=100).contains(&percent).then(|| (clusters * percent / 100).max(1))
        }
    }
}

/// A duration as users write it.
pub(super) fn shown_duration(span: SignedDuration) -> String {
    let seconds = span.as_secs();
    let parts = [(seconds / 3600, 'h'), (seconds / 60 % 60, 'm'), (seconds % 60, 's')];
    let parts = parts.iter().filter(|(number, _)| *number > 0);
    let text: Vec<_> = parts.map(|(number, unit)| format!("{number}{unit}")).collect();
    if text.is_empty() {
        "0s".to_owned()
    } else {
        text.concat()
    }
}

/// The field as it is written.
pub(super) fn shown(field: &IntOrString) -> String {
    match field {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::String(text) => text.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_gos_errors() {
        for (text, number) in [
            ("7", Ok(7)),
            ("-1", Ok(-1)),
            ("+3", Ok(3)),
            ("", Err("invalid syntax")),
            ("1.5", Err("invalid syntax")),
            ("9223372036854775808", Err("value out of range")),
        ] {
            assert_eq!(parse(text), number, "{text}");
        }
    }

    #[test]
    fn durations_add_up() {
        for (text, seconds) in [
            ("0s", Some(0)),
            ("30s", Some(30)),
            ("1h30m", Some(5400)),
            ("1.5h", Some(5400)),
            ("", None),
            ("5", None),
            ("1d", None),
            ("h", None),
            ("-1s", None),
        ] {
            assert_eq!(duration(text), seconds.map(SignedDuration::from_secs), "{text}");
        }
        assert_eq!(duration("99999999999999999999h"), Some(SignedDuration::MAX));
    }

    #[test]
    fn shares_are_rounded_down_but_one_may_always_go() {
        let text = |text: &str| IntOrString::String(text.into());
        for (field, clusters, allowed) in [
            (text("33%"), 10, Some(3)),
            (text("25%"), 7, Some(1)),
            (text("1%"), 3, Some(1)),
            (text("100%"), 3, Some(3)),
            (IntOrString::Int(150), 3, Some(150)),
            (IntOrString::Int(0), 3, None),
            (text("3"), 3, None),
            (text("101%"), 3, None),
        ] {
            assert_eq!(concurrency(&field, clusters), allowed, "{field:?} of {clusters}");
        }
    }
}
