//! What a terminal can show: its width, its characters, colours.

use std::io::IsTerminal as _;

/// How a text is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Style {
    /// Whether anything but ASCII may be used for marks and lines.
    pub(crate) unicode: bool,
    pub(crate) color: bool,
    /// Columns of the terminal; none where lines may have any length.
    pub(crate) width: Option<usize>,
    /// Whether `-o wide` was asked for.
    pub(crate) wide: bool,
}

/// What a line is marked with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    Done,
    Failed,
    Waiting,
    NotReached,
    Note,
}

const MARKS: [(Mark, &str, &str, &str); 5] = [
    (Mark::Done, "✓", "ok", "\x1b[32m"),
    (Mark::Failed, "✗", "FAILED", "\x1b[31m"),
    (Mark::Waiting, "…", "waits", "\x1b[33m"),
    (Mark::NotReached, "·", "-", "\x1b[2m"),
    (Mark::Note, "‼", "note", "\x1b[33m"),
];
const PLAIN: &str = "\x1b[0m";

/// Whether a word is one of the marks.
pub(crate) fn is_mark(word: &str) -> bool {
    MARKS.iter().any(|(_, sign, text, _)| word == *sign || word == *text)
}

impl Style {
    /// What stdout can show. What is piped gets ASCII without colours, in lines of any length.
    pub(crate) fn of_stdout(wide: bool) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        if !std::io::stdout().is_terminal() {
            return Self {
                wide,
                ..Self::default()
            };
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find(|name| is_set(name));
        let locale = locale.and_then(|name| std::env::var(name).ok()).unwrap_or_default();
        let locale = locale.to_uppercase().replace('-', "");
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        Self {
            unicode: locale.contains("UTF8") && !is_dumb,
            color: !is_set("NO_COLOR") && !is_dumb,
            width: terminal_size::terminal_size().map(|(width, _)| usize::from(width.0).max(20)),
            wide,
        }
    }

    /// A mark, as wide as all others.
    pub(crate) fn mark(&self, mark: Mark) -> String {
        let text = self.bare_mark(mark);
        if self.unicode {
            text.to_owned()
        } else {
            format!("{text:6}")
        }
    }

    /// A mark for cells of tables.
    pub(crate) fn bare_mark(&self, mark: Mark) -> &'static str {
        let found = MARKS.iter().find(|(known, ..)| *known == mark);
        found.map_or("", |(_, sign, word, _)| if self.unicode { sign } else { word })
    }

    /// The lines of a tree, before an entry and before what is below it.
    pub(crate) fn branch(&self, is_last: bool) -> (&'static str, &'static str) {
        match (self.unicode, is_last) {
            (true, false) => ("├─ ", "│  "),
            (true, true) => ("└─ ", "   "),
            (false, false) => ("|- ", "|  "),
            (false, true) => ("`- ", "   "),
        }
    }

    /// A text in lines that fit, each after `indent`; the first line is expected to begin after `begun` characters.
    pub(crate) fn wrapped(&self, text: &str, begun: usize, indent: usize) -> String {
        let mut out = String::new();
        let mut at = begun;
        // What others have written may hold anything, also ends of lines.
        for word in text.split_whitespace() {
            let length = word.chars().count();
            let is_first = at == begun && out.is_empty();
            let is_over = self.width.is_some_and(|width| at + 1 + length > width);
            if !is_first && is_over && at > indent {
                out.push('\n');
                out.extend(std::iter::repeat_n(' ', indent));
                at = indent;
            } else if !is_first {
                out.push(' ');
                at += 1;
            }
            out.push_str(word);
            at += length;
        }
        out
    }

    /// A text that can be shown: without control characters, with colours if there are to be some.
    pub(crate) fn finish(&self, text: &str) -> String {
        let clean: String = text.chars().map(|c| if is_odd(c) { '?' } else { c }).collect();
        if !self.color {
            return clean;
        }
        let mut out = String::with_capacity(clean.len());
        for line in clean.split_inclusive('\n') {
            out.push_str(&self.colored(line));
        }
        out
    }

    fn colored(&self, line: &str) -> String {
        let is_frame = |c: char| c == ' ' || "├└│─|`-".contains(c);
        let begin = line.find(|c| !is_frame(c)).unwrap_or(0);
        let (frame, rest) = line.split_at(begin);
        for (mark, .., code) in MARKS {
            let sign = self.bare_mark(mark);
            if let Some(after) = rest.strip_prefix(sign).filter(|after| after.starts_with(' ')) {
                return format!("{frame}{code}{sign}{PLAIN}{after}");
            }
        }
        line.to_owned()
    }
}

/// Characters that do something to a terminal, or to the order in which text is shown.
fn is_odd(c: char) -> bool {
    (c.is_control() && c != '\n')
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_have_written_does_nothing_to_the_terminal() {
        let style = Style::default();
        assert_eq!(style.finish("a\x1b[2Jb\u{202e}c\rd\te\n"), "a?[2Jb?c?d?e\n");
    }

    #[test]
    fn only_marks_are_coloured_and_only_where_lines_begin() {
        let style = Style {
            unicode: true,
            color: true,
            ..Style::default()
        };
        assert_eq!(
            style.finish("│  ✓ east ✗\nplain\n"),
            "│  \x1b[32m✓\x1b[0m east ✗\nplain\n"
        );
    }

    #[test]
    fn lines_fit_and_words_stay_whole() {
        let style = Style {
            width: Some(20),
            ..Style::default()
        };
        assert_eq!(style.wrapped("one two\nthree four", 6, 4), "one two three\n    four");
        let long = "a-word-that-is-longer-than-the-terminal";
        assert_eq!(style.wrapped(&format!("x {long} y"), 2, 2), format!("x\n  {long}\n  y"));
        assert_eq!(Style::default().wrapped(&"word ".repeat(50), 0, 2).lines().count(), 1);
    }
}
