//! What people see while a command runs, and the clock. Data goes through [`crate::output`].

use jiff::{Timestamp, Zoned};

use crate::output::Style;

/// Where lines for people go: stderr, or the list of a test.
pub(crate) type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// A line for people.
pub(crate) fn note(line: &str) {
    eprintln!("{}", clean(line));
}

/// Others have written parts of what is said, webhooks among them: no control character of theirs reaches the terminal.
pub(crate) fn clean(text: &str) -> String {
    Style::default().finish(text)
}

/// A line with the time before it, as KubeFleet's plugin prints them.
pub(crate) fn log(line: &str) {
    let line = clean(line);
    eprintln!("{} {line}", Zoned::now().strftime("%Y/%m/%d %H:%M:%S"));
}

/// The time, as the API stores it.
#[expect(
    clippy::disallowed_methods,
    reason = "a command has no other clock; what decides gets the time passed in"
)]
pub(crate) fn now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_others_have_written_moves_no_cursor() {
        assert_eq!(
            super::clean("denied: \u{1b}[2J\u{1b}]0;x\u{7}\n  see there"),
            "denied: ?[2J?]0;x?\n  see there"
        );
    }
}
