//! Kubernetes quantities, exact.
//!
//! Values are whole numbers of nano-units in 128 bits, which holds everything that the API server accepts (at most
//! 2^63−1, at least 1n) and sums of billions of such values. Written here because the canonical text matters: people and
//! property sorters compare what is printed, and no crate at hand prints what the API server would.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// How a quantity is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Format {
    /// `m`, `k`, `M`, …
    #[default]
    DecimalSi,
    /// `Ki`, `Mi`, …
    BinarySi,
    /// `e3`, `e6`, …
    DecimalExponent,
}

/// An amount of something.
#[derive(Debug, Clone, Copy, Default)]
pub struct Quantity {
    nanos: i128,
    format: Format,
}

/// Not a quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a quantity")]
pub struct NotAQuantity(pub String);

const NANO: i128 = 1_000_000_000;
/// What the API server caps at.
const MAX: i128 = i64::MAX as i128 * NANO;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        format: Format::DecimalSi,
    };

    /// From nano-units.
    pub const fn from_nanos(nanos: i128, format: Format) -> Self {
        Self { nanos, format }
    }

    /// The exact value.
    pub const fn nanos(self) -> i128 {
        self.nanos
    }

    /// How it is printed.
    pub const fn format(self) -> Format {
        self.format
    }

    /// The nearest floating-point number, for prices.
    #[allow(clippy::cast_precision_loss, reason = "prices have three decimals")]
    pub fn as_f64(self) -> f64 {
        self.nanos as f64 / NANO as f64
    }

    /// Whether it is nothing.
    pub const fn is_zero(self) -> bool {
        self.nanos == 0
    }

    /// The sum; printed like the first operand that is not zero.
    pub fn plus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_add(other.nanos),
            format: self.format_with(other),
        }
    }

    /// The difference; printed like the first operand that is not zero.
    pub fn minus(self, other: Self) -> Self {
        Self {
            nanos: self.nanos.saturating_sub(other.nanos),
            format: self.format_with(other),
        }
    }

    /// The larger; of equals, this one.
    pub fn max(self, other: Self) -> Self {
        if other.nanos > self.nanos { other } else { self }
    }

    fn format_with(self, other: Self) -> Format {
        if self.is_zero() { other.format } else { self.format }
    }
}

/// By value: `1000m` equals `1`.
impl PartialEq for Quantity {
    fn eq(&self, other: &Self) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Self) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl FromStr for Quantity {
    type Err = NotAQuantity;

    fn from_str(text: &str) -> Result<Self, NotAQuantity> {
        parse(text).ok_or_else(|| NotAQuantity(text.chars().take(64).collect()))
    }
}

fn parse(text: &str) -> Option<Quantity> {
    let (negative, unsigned) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let end = unsigned
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let (factor, format) = factor(suffix)?;
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let places = i32::try_from(fraction.len()).ok()?;
    let nanos = scale(digits, places, factor);
    Some(Quantity {
        nanos: if negative { -nanos } else { nanos },
        format,
    })
}

/// What a suffix multiplies by.
#[derive(Clone, Copy)]
enum Factor {
    Ten(i32),
    Two(u32),
}

fn factor(suffix: &str) -> Option<(Factor, Format)> {
    let ten = |exponent| Some((Factor::Ten(exponent), Format::DecimalSi));
    let two = |exponent| Some((Factor::Two(exponent), Format::BinarySi));
    match suffix {
        "n" => ten(-9),
        "u" => ten(-6),
        "m" => ten(-3),
        "" => ten(0),
        "k" => ten(3),
        "M" => ten(6),
        "G" => ten(9),
        "T" => ten(12),
        "P" => ten(15),
        "E" => ten(18),
        "Ki" => two(10),
        "Mi" => two(20),
        "Gi" => two(30),
        "Ti" => two(40),
        "Pi" => two(50),
        "Ei" => two(60),
        _ => {
            let exponent = suffix.strip_prefix(['e', 'E'])?;
            let plain = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if plain.is_empty() || !plain.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            // Anything beyond a few dozen is the cap or 1n anyway.
            let value = plain.parse::<i32>().unwrap_or(10_000).min(10_000);
            let signed = if exponent.starts_with('-') { -value } else { value };
            Some((Factor::Ten(signed), Format::DecimalExponent))
        }
    }
}

/// `digits` × 10^−places × factor in nano-units, rounded up, capped.
fn scale(digits: &str, places: i32, factor: Factor) -> i128 {
    if digits.is_empty() {
        return 0;
    }
    let (exponent, multiplier) = match factor {
        Factor::Ten(exponent) => (exponent.saturating_sub(places).saturating_add(9), 1),
        Factor::Two(shift) => (9_i32.saturating_sub(places), 1_i128 << shift),
    };
    // What is below a nano-unit only decides whether to round up, so digits beyond what fits are folded into one.
    let keep = digits.len().min(36);
    let (head, tail) = digits.split_at(keep);
    let mut rest = tail.bytes().any(|b| b != b'0');
    let mut exponent = exponent.saturating_add(i32::try_from(tail.len()).unwrap_or(i32::MAX));
    let mut value: i128 = head.parse().unwrap_or(i128::MAX);
    match value.checked_mul(multiplier) {
        Some(product) => value = product,
        None if exponent >= 0 => return MAX,
        None => {
            // Too long for one multiplication: drop digits from the end first.
            while exponent < 0 && value.checked_mul(multiplier).is_none() {
                rest |= value % 10 != 0;
                value /= 10;
                exponent += 1;
            }
            value = value.saturating_mul(multiplier);
        }
    }
    while exponent > 0 && value < MAX {
        value = value.saturating_mul(10);
        exponent -= 1;
    }
    while exponent < 0 && value > 0 {
        rest |= value % 10 != 0;
        value /= 10;
        exponent += 1;
    }
    value.saturating_add(i128::from(rest)).min(MAX)
}

impl fmt::Display for Quantity {
    /// The canonical text: a whole number and the largest suffix that needs no fraction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let small = self.nanos.abs() < 1024 * NANO;
        if self.format == Format::BinarySi && !small && self.nanos % NANO == 0 {
            let (mut value, mut power) = (self.nanos / NANO, 0);
            while power < 6 && value % 1024 == 0 {
                value /= 1024;
                power += 1;
            }
            return write!(f, "{value}{}", ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power]);
        }
        // A small or fractional binary quantity is printed in decimal, which loses nothing.
        let (mut value, mut exponent) = (self.nanos, -9_i32);
        while exponent < 18 && value % 1000 == 0 {
            value /= 1000;
            exponent += 3;
        }
        if self.format == Format::DecimalExponent {
            return if exponent == 0 {
                write!(f, "{value}")
            } else {
                write!(f, "{value}e{exponent}")
            };
        }
        let suffix = match exponent {
            -9 => "n",
            -6 => "u",
            -3 => "m",
            0 => "",
            3 => "k",
            6 => "M",
            9 => "G",
            12 => "T",
            15 => "P",
            _ => "E",
        };
        write!(f, "{value}{suffix}")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn q(text: &str) -> Quantity {
        text.parse().expect(text)
    }

    #[test]
    fn the_canonical_text_is_the_api_servers() {
        for (given, printed) in [
            ("0", "0"),
            ("0Ki", "0"),
            ("1", "1"),
            ("3720m", "3720m"),
            ("3000m", "3"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.", "1"),
            ("1.5Gi", "1536Mi"),
            ("32784416Ki", "32784416Ki"),
            ("1024Ki", "1Mi"),
            ("1023Ki", "1023Ki"),
            ("0.5Ki", "512"),
            ("1000Ki", "1000Ki"),
            ("1.0001Ki", "1024102400u"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("1200e5", "120e6"),
            ("1e0", "1"),
            ("1E3", "1e3"),
            ("1E", "1E"),
            ("100k", "100k"),
            ("1000000", "1M"),
            ("-1500m", "-1500m"),
            ("+2", "2"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("1.0000000001", "1000000001n"),
            ("9223372036854775807", "9223372036854775807"),
            ("9223372036854775808", "9223372036854775807"),
            ("99999999999999999999999999999999999999999999", "9223372036854775807"),
            ("1e-99", "1e-9"),
            ("8Ei", "9223372036854775807"),
        ] {
            assert_eq!(q(given).to_string(), printed, "{given}");
        }
    }

    #[test]
    fn what_is_no_quantity_is_refused() {
        for text in [
            "", "-", "m", ".", "1.2.3", "1ki", "1K", "1e", "1e+", "1e1x", "x", "1 ", " 1", "1mm", "é", "--1",
        ] {
            assert!(text.parse::<Quantity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_sum_is_printed_like_its_first_operand_that_is_not_zero() {
        assert_eq!(Quantity::ZERO.plus(q("1Ki")).plus(q("1k")).to_string(), "2024");
        assert_eq!(Quantity::ZERO.plus(q("1Mi")).plus(q("1024k")).to_string(), "2024Ki");
        assert_eq!(q("4").minus(q("280m")).to_string(), "3720m");
        assert_eq!(q("0Ki").plus(q("1500m")).to_string(), "1500m");
    }

    proptest! {
        #[test]
        fn printing_and_reading_changes_nothing(nanos in -MAX..MAX, format in 0..3_usize) {
            let format = [Format::DecimalSi, Format::BinarySi, Format::DecimalExponent][format];
            let there = Quantity::from_nanos(nanos, format);
            let back = q(&there.to_string());
            prop_assert_eq!(there, back);
            prop_assert_eq!(there.to_string(), back.to_string());
        }

        #[test]
        fn reading_never_panics(text in "\\PC{0,60}") {
            let _ = text.parse::<Quantity>();
        }

        #[test]
        fn any_number_is_read_or_capped(text in "[+-]?[0-9]{0,50}\\.?[0-9]{0,50}(n|u|m|k|E|Ki|Ei|e[+-]?[0-9]{1,12})?") {
            if let Ok(quantity) = text.parse::<Quantity>() {
                prop_assert!(quantity.nanos().abs() <= MAX);
            }
        }
    }
}
