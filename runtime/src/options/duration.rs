//! Durations as Go writes them (`1m30s`, `500ms`), since flags and charts use that form.

use std::{fmt, time::Duration};

/// Nanoseconds per unit, as Go's `time.ParseDuration` has them; longest names first so that `ms` is not read as `m`.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60 * 1_000_000_000),
    ("h", 3_600 * 1_000_000_000),
];

/// Reads a duration such as `1h30m`, `1.5s` or `0`. Negative ones are refused: no option of ours can be one.
///
/// # Errors
/// A text for the user.
pub fn parse(text: &str) -> Result<Duration, String> {
    let invalid = || format!("`{text}` is not a duration such as 30s, 1m30s or 500ms");
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut nanos: u64 = 0;
    while !rest.is_empty() {
        let end = rest
            .find(|c: char| !c.is_ascii_digit() && c != '.')
            .ok_or_else(invalid)?;
        let (number, tail) = rest.split_at(end);
        let (unit, scale) = *UNITS
            .iter()
            .find(|(unit, _)| starts_with_unit(tail, unit))
            .ok_or_else(invalid)?;
        let part = scaled(number, scale).ok_or_else(invalid)?;
        nanos = nanos.checked_add(part).ok_or_else(invalid)?;
        rest = &tail[unit.len()..];
    }
    if text.is_empty() {
        Err(invalid())
    } else {
        Ok(Duration::from_nanos(nanos))
    }
}

/// The unit must end where the next number begins.
fn starts_with_unit(text: &str, unit: &str) -> bool {
    text.strip_prefix(unit)
        .is_some_and(|rest| rest.chars().next().is_none_or(|c| c.is_ascii_digit() || c == '.'))
}

/// `number` (digits with at most one point) times `scale`, without the rounding of floats.
fn scaled(number: &str, scale: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let digits = |text: &str| {
        if text.is_empty() {
            Some(0)
        } else {
            text.parse::<u64>().ok()
        }
    };
    let nanos = digits(whole)?.checked_mul(scale)?;
    // Nine digits reach a nanosecond of any unit but the hour; more would only overflow.
    let fraction = &fraction[..fraction.len().min(9)];
    let divisor = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    let part = u128::from(digits(fraction)?) * u128::from(scale) / divisor;
    nanos.checked_add(u64::try_from(part).ok()?)
}

/// Prints a duration the short way: `1m30s`, `1h`, `500ms`, `0s`.
pub fn print(duration: Duration) -> impl fmt::Display {
    Short(duration)
}

struct Short(Duration);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (secs, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        if secs == 0 && nanos > 0 {
            let (unit, scale) = match nanos {
                1_000_000.. => ("ms", 1_000_000),
                1_000.. => ("µs", 1_000),
                _ => ("ns", 1),
            };
            return write!(f, "{}{unit}", f64::from(nanos) / f64::from(scale));
        }
        let (hours, minutes, seconds) = (secs / 3600, secs / 60 % 60, secs % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if minutes > 0 {
            write!(f, "{minutes}m")?;
        }
        match (seconds, nanos) {
            (0, 0) if secs > 0 => Ok(()),
            (_, 0) => write!(f, "{seconds}s"),
            _ => {
                let fraction = format!("{nanos:09}");
                write!(f, "{seconds}.{}s", fraction.trim_end_matches('0'))
            }
        }
    }
}

/// A parser for clap that refuses what lies outside `[min, max]`.
pub fn ranged(min: Duration, max: Duration) -> impl Fn(&str) -> Result<Duration, String> + Clone + Send + Sync {
    move |text| {
        let duration = parse(text)?;
        if (min..=max).contains(&duration) {
            Ok(duration)
        } else {
            Err(format!(
                "duration must be in the range [{}, {}]",
                print(min),
                print(max)
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn go_forms_are_read_and_printed() {
        for (text, millis, printed) in [
            ("30s", 30_000, "30s"),
            ("1m30s", 90_000, "1m30s"),
            ("3m0s", 180_000, "3m"),
            ("15m", 900_000, "15m"),
            ("1h", 3_600_000, "1h"),
            ("1.5h", 5_400_000, "1h30m"),
            ("500ms", 500, "500ms"),
            ("1500ms", 1_500, "1.5s"),
            (".5s", 500, "500ms"),
            ("1h0m5s", 3_605_000, "1h5s"),
            ("0", 0, "0s"),
            ("0s", 0, "0s"),
        ] {
            let duration = parse(text).unwrap();
            assert_eq!(duration, Duration::from_millis(millis), "{text}");
            assert_eq!(print(duration).to_string(), printed);
            assert_eq!(parse(printed), Ok(duration));
        }
    }

    #[test]
    fn other_forms_are_refused() {
        for text in [
            "",
            "5",
            "s",
            "-5s",
            "5 s",
            "5sec",
            "1..5s",
            ".s",
            "5d",
            "99999999999999h",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_range_says_its_ends() {
        let parser = ranged(Duration::from_secs(30), Duration::from_hours(1));
        assert_eq!(parser("1h"), Ok(Duration::from_hours(1)));
        assert_eq!(parser("29s").unwrap_err(), "duration must be in the range [30s, 1h]");
        assert_eq!(parser("1h1s").unwrap_err(), "duration must be in the range [30s, 1h]");
    }
}
