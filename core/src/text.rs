//! Texts of users in messages about them.

use std::borrow::Cow;

/// The longest quote of what somebody wrote: enough to know it by, and never a whole manifest.
pub const QUOTE_MAX: usize = 256;

/// `text`, cut if it is too long for a message.
pub fn quote(text: &str) -> Cow<'_, str> {
    cut(text, QUOTE_MAX)
}

/// `text`, or its first `max` bytes and how long it is.
pub fn cut(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return text.into();
    }
    format!("{}… ({} bytes)", &text[..text.floor_char_boundary(max)], text.len()).into()
}

/// The first `max` of these names, and how many more there are.
pub fn few<S: AsRef<str>>(names: &[S], max: usize) -> String {
    let first: Vec<_> = names.iter().take(max).map(AsRef::as_ref).collect();
    let first = first.join(", ");
    match names.len().saturating_sub(max) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_names_stand_for_many() {
        let names = ["a", "b", "c"];
        assert_eq!(few(&names[..0], 2), "");
        assert_eq!(few(&names[..2], 2), "a, b");
        assert_eq!(few(&names, 2), "a, b and 1 more");
    }

    #[test]
    fn a_quote_is_short_whatever_is_quoted() {
        assert_eq!(quote("{}"), "{}");
        let whole = "x".repeat(QUOTE_MAX);
        assert_eq!(quote(&whole), whole);
        assert_eq!(
            quote(&"é".repeat(200_000)),
            format!("{}… (400000 bytes)", "é".repeat(128))
        );
    }
}
