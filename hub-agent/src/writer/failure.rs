//! What the API server's answers mean for a report.

use std::time::Duration;

use fleet_runtime::logs;

/// Why something could not be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WriteFailure {
    /// Somebody else wrote in between: read again and decide again.
    Conflict,
    /// The object is gone.
    Gone,
    /// It would be too large.
    TooLarge(String),
    /// It will never be accepted.
    Invalid(String),
    /// Later it may work: the API server is away, busy or forbids it.
    Unavailable(String),
    /// Not now: the member has used up what it may have written. So long.
    Held(Duration),
}

impl WriteFailure {
    pub(crate) fn of(error: &kube::Error) -> Self {
        let kube::Error::Api(status) = error else {
            return Self::Unavailable(logs::chain(error).to_string());
        };
        let message = status.message.clone();
        match status.code {
            // The same code says that an object of this name exists already.
            409 if status.reason != "AlreadyExists" => Self::Conflict,
            404 => Self::Gone,
            413 => Self::TooLarge(message),
            500 if message.contains("request is too large") => Self::TooLarge(message),
            400 | 422 => Self::Invalid(message),
            _ => Self::Unavailable(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_apart() {
        let api = |code, message: &str| {
            WriteFailure::of(&kube::Error::Api(
                kube::core::Status::failure(message, "").with_code(code).boxed(),
            ))
        };
        assert_eq!(api(409, "x"), WriteFailure::Conflict);
        let exists = kube::core::Status::failure("x", "AlreadyExists").with_code(409);
        let exists = WriteFailure::of(&kube::Error::Api(exists.boxed()));
        assert_eq!(exists, WriteFailure::Unavailable("x".into()));
        assert_eq!(api(404, "x"), WriteFailure::Gone);
        assert_eq!(api(413, "x"), WriteFailure::TooLarge("x".into()));
        assert_eq!(api(422, "x"), WriteFailure::Invalid("x".into()));
        let etcd = "etcdserver: request is too large";
        assert_eq!(api(500, etcd), WriteFailure::TooLarge(etcd.into()));
        for code in [401, 403, 429, 500, 503, 504] {
            assert_eq!(api(code, "x"), WriteFailure::Unavailable("x".into()), "{code}");
        }
    }
}
