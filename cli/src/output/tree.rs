//! A tree as text: what belongs to what, with marks, and the next command below what is in trouble.

use std::fmt::Write as _;

use super::{Mark, Style};

/// One entry and what is below it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) mark: Option<Mark>,
    pub(crate) text: String,
    /// The command to type next; none where nothing is wrong.
    pub(crate) next: Option<String>,
    pub(crate) below: Vec<Node>,
}

impl Node {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    pub(crate) fn marked(mark: Mark, text: impl Into<String>) -> Self {
        Self {
            mark: Some(mark),
            text: text.into(),
            ..Self::default()
        }
    }

    /// The whole tree.
    pub(crate) fn text(&self, style: &Style) -> String {
        let mut out = String::new();
        self.write(style, "", "", &mut out);
        out
    }

    fn write(&self, style: &Style, before: &str, beside: &str, out: &mut String) {
        let mark = self
            .mark
            .map(|mark| format!("{} ", style.mark(mark)))
            .unwrap_or_default();
        let begun = before.chars().count() + mark.chars().count();
        let indent = beside.chars().count() + 2;
        let words = style.wrapped(&self.text, begun, indent);
        let mut lines = words.lines();
        _ = writeln!(out, "{before}{mark}{}", lines.next().unwrap_or_default());
        for line in lines {
            _ = writeln!(out, "{beside}  {}", line.trim_start());
        }
        for (at, node) in self.below.iter().enumerate() {
            let (branch, under) = style.branch(at + 1 == self.below.len());
            node.write(style, &format!("{beside}{branch}"), &format!("{beside}{under}"), out);
        }
        if let Some(next) = &self.next {
            _ = writeln!(out, "{beside}  next: {next}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_stands_behind_lines() {
        let mut root = Node::new("crp/web");
        let mut east = Node::marked(Mark::Failed, "east, which has words that do not fit");
        east.next = Some("kubectl fleet why crp/web east".to_owned());
        east.below.push(Node::new("work"));
        root.below = vec![east, Node::marked(Mark::Done, "west")];
        let narrow = Style {
            unicode: true,
            width: Some(24),
            ..Style::default()
        };
        let wanted = "\
crp/web
├─ ✗ east, which has
│    words that do not
│    fit
│  └─ work
│    next: kubectl fleet why crp/web east
└─ ✓ west
";
        assert_eq!(root.text(&narrow), wanted);
        let plain = root.text(&Style::default());
        assert!(plain.is_ascii() && plain.contains("|- FAILED east"), "{plain}");
    }
}
