//! How a command ends. Scripts rely on the numbers.

use std::process::ExitCode;

/// What the exit status says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// All that was asked for is done.
    Done,
    /// Something went wrong.
    Error,
    /// The command line makes no sense.
    Usage,
    /// It went well, but something of what was asked for is left to do.
    Left,
    /// The hub does not let this user do it.
    Refused,
    /// The time was up first.
    TimedOut,
}

impl Exit {
    /// The number that the shell sees.
    pub(crate) const fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Error => 1,
            Self::Usage => 2,
            Self::Left => 3,
            Self::Refused => 4,
            // As `timeout` of coreutils says it.
            Self::TimedOut => 124,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}
