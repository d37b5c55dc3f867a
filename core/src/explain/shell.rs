//! Words of others in commands that are copied into a shell.

use std::borrow::Cow;
use std::fmt::Write as _;

/// `word` as a shell takes it: as one word, on one line, and as nothing else. Most words stay as they are.
///
/// Names of Roles, contexts and policies may hold anything, also what a shell runs, or what hides that from who reads it.
pub fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:@=,+".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.into();
    }
    if !word.chars().any(escaped) {
        return format!("'{}'", word.replace('\'', r"'\''")).into();
    }
    let mut out = "$'".to_owned();
    for c in word.chars() {
        _ = match c {
            '\'' | '\\' => write!(out, "\\{c}"),
            c if c.is_ascii() && escaped(c) => write!(out, "\\{:03o}", u32::from(c)),
            c if escaped(c) => write!(out, "\\u{:04x}", u32::from(c)),
            c => write!(out, "{c}"),
        };
    }
    out.push('\'');
    out.into()
}

/// What ends a line, moves the cursor, or turns the order of what is read; and what stands between commands, so that these can
/// be told from each other without understanding quotes.
fn escaped(c: char) -> bool {
    c.is_control()
        || c == ';'
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_what_is_quoted_as_one_word() {
        for (word, typed) in [
            ("web", "web"),
            (
                "role.rbac.authorization.k8s.io/system:node",
                "role.rbac.authorization.k8s.io/system:node",
            ),
            ("", "''"),
            ("a b", "'a b'"),
            ("$(reboot)", "'$(reboot)'"),
            ("a;reboot", r"$'a\073reboot'"),
            ("it's", r"'it'\''s'"),
            ("a\nreboot", r"$'a\012reboot'"),
            ("a\u{1b}[2K\\'b", r"$'a\033[2K\\\'b'"),
            ("a\u{202e}b", r"$'a\u202eb'"),
        ] {
            assert_eq!(quoted(word), typed, "{word:?}");
        }
    }

    #[test]
    fn a_shell_gives_the_word_back() {
        // Of the first 128 characters each does something in some shell; bash knows no zero.
        let word: String = (1..=127_u8).map(char::from).chain("é\u{85}\u{202e}".chars()).collect();
        let script = format!("LC_ALL=C.UTF-8; printf %s {}", quoted(&word));
        let Ok(printed) = std::process::Command::new("bash").args(["-c", &script]).output() else {
            return; // No bash here.
        };
        assert_eq!(String::from_utf8_lossy(&printed.stdout), word);
    }
}
