//! The classes of errors, whose texts users see in conditions.

use std::fmt::Display;

/// What kind of error happened; its text comes first in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorClass {
    /// The user asked for something that cannot be done. Nothing helps until they change it.
    User,
    /// The API server refused or failed.
    ApiServer,
    /// Goes away by itself, e.g. once a cache has caught up.
    Expected,
    /// Somebody broke what we rely on, e.g. our labels.
    Unexpected,
}

impl ErrorClass {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::User, Self::ApiServer, Self::Expected, Self::Unexpected];

    /// The class in words, without the colon that follows it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "failed to process the request due to a client error",
            Self::ApiServer => "error returned by the API server",
            Self::Expected => "expected behavior which can be recovered by itself",
            Self::Unexpected => "unexpected behavior which cannot be handled by the controller",
        }
    }

    /// `error` with its class before it.
    pub fn prefix(self, error: impl Display) -> String {
        format!("{}: {error}", self.as_str())
    }

    /// `text` without the class before it, as bindings show errors.
    pub fn strip(text: &str) -> &str {
        let stripped = |class: Self| text.strip_prefix(class.as_str())?.strip_prefix(": ");
        Self::ALL.into_iter().find_map(stripped).unwrap_or(text)
    }
}

#[cfg(test)]
mod tests {
    use super::ErrorClass;

    #[test]
    fn a_class_is_put_on_and_taken_off() {
        for class in ErrorClass::ALL {
            assert_eq!(ErrorClass::strip(&class.prefix("boom: why")), "boom: why");
        }
        assert_eq!(ErrorClass::strip("boom: why"), "boom: why");
        assert_eq!(
            ErrorClass::User.prefix("parent placement not found"),
            "failed to process the request due to a client error: parent placement not found"
        );
    }
}
