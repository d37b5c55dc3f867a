//! What people see while a command runs, and the clock. Data goes through [`crate::output`].

use jiff::{Timestamp, Zoned};

/// Where lines for people go: stderr, or the list of a test.
pub(crate) type Say<'a> = &'a (dyn Fn(&str) + Sync);

/// A line for people.
pub(crate) fn note(line: &str) {
    eprintln!("{line}");
}

/// A line with the time before it, as KubeFleet's plugin prints them.
pub(crate) fn log(line: &str) {
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
