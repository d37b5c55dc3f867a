//! JSON as upstream's encoder writes it, byte for byte: hashes made here and there must agree.

use serde_json::{Number, Value};
use std::fmt::Write;

use super::json::whole;

/// Compact JSON: keys sorted bytewise, HTML characters and the two line separators escaped, numbers in shortest form.
pub fn encode(value: &Value) -> String {
    let mut out = String::new();
    write_value(&mut out, value);
    out
}

fn write_value(out: &mut String, value: &Value) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(true) => out.push_str("true"),
        Value::Bool(false) => out.push_str("false"),
        Value::Number(number) => out.push_str(&number_text(number)),
        Value::String(text) => write_string(out, text),
        Value::Array(items) => {
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_value(out, item);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (i, key) in keys.into_iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                write_string(out, key);
                out.push(':');
                write_value(out, &fields[key]);
            }
            out.push('}');
        }
    }
}

fn write_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' | '\0'..='\u{1f}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

/// A number without decoration: `1000000`, `0.5`, `1e-7`, `1e+21`.
pub(crate) fn number_text(number: &Number) -> String {
    if let Some(integer) = number.as_i64() {
        return integer.to_string();
    }
    let Some(float) = number.as_f64() else {
        return number.to_string();
    };
    if let Some(integer) = whole(float).filter(|i| i.unsigned_abs() < 1 << 53 && (*i != 0 || float.is_sign_positive()))
    {
        return integer.to_string();
    }
    let magnitude = float.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{float:e}");
        // Rust writes `1e21`, the encoder we match `1e+21`.
        return match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => format!("{mantissa}e+{exponent}"),
            _ => text,
        };
    }
    format!("{float}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn strings_are_escaped_as_upstream_does() {
        let value = json!("<a href=\"x\">&\u{2028}\u{2029}\n\t\r\u{8}\u{c}\u{1}\\é\u{7f}");
        let expected = r#""\u003ca href=\"x\"\u003e\u0026\u2028\u2029\n\t\r\b\f\u0001\\é"#.to_owned() + "\u{7f}\"";
        assert_eq!(encode(&value), expected);
    }

    #[test]
    fn numbers_take_their_shortest_form() {
        for (text, expected) in [
            ("1", "1"),
            ("-7", "-7"),
            ("1.0", "1"),
            ("0.5", "0.5"),
            ("1000000", "1000000"),
            ("1e6", "1000000"),
            ("1e20", "100000000000000000000"),
            ("1e21", "1e+21"),
            ("1.5e300", "1.5e+300"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1e-7"),
            ("9223372036854775807", "9223372036854775807"),
            ("18446744073709551615", "18446744073709552000"),
            ("-0.0", "-0"),
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(encode(&value), expected, "{text}");
        }
    }

    #[test]
    fn keys_are_sorted_bytewise_at_every_level() {
        let value: Value = serde_json::from_str(r#"{"b":{"z":1,"Z":2},"a":[{"d":null,"c":true}],"B":false}"#).unwrap();
        assert_eq!(
            encode(&value),
            r#"{"B":false,"a":[{"c":true,"d":null}],"b":{"Z":2,"z":1}}"#
        );
    }
}
