//! What goes wrong.

use serde_json::{Value, json};

/// Requests that fail.
#[derive(Debug, Clone, Default)]
pub struct Fault {
    method: Option<&'static str>,
    path: String,
    code: u16,
    after: usize,
    times: Option<usize>,
    applied: bool,
    writes: bool,
}

impl Fault {
    /// Requests to paths with `path` in them are answered with `code`, from now on.
    pub fn new(path: &str, code: u16) -> Self {
        Self {
            path: path.to_owned(),
            code,
            ..Self::default()
        }
    }

    /// Of this method only.
    pub fn of(self, method: &'static str) -> Self {
        Self {
            method: Some(method),
            ..self
        }
    }

    /// Only those that write.
    pub fn writes(self) -> Self {
        Self { writes: true, ..self }
    }

    /// After so many that succeed.
    pub fn after(self, good: usize) -> Self {
        Self { after: good, ..self }
    }

    /// So many times, and then no more.
    pub fn times(self, times: usize) -> Self {
        Self {
            times: Some(times),
            ..self
        }
    }

    /// What is asked for is done all the same: only the answer is lost.
    pub fn done_all_the_same(self) -> Self {
        Self { applied: true, ..self }
    }

    /// Whether this request fails; with what, and whether it is carried out before.
    pub(crate) fn strikes(&mut self, method: &str, path: &str) -> Option<(u16, bool)> {
        let other = self.method.is_some_and(|own| own != method) || self.writes && method == "GET";
        if other || !path.contains(&self.path) {
            return None;
        }
        if self.after > 0 {
            self.after -= 1;
            return None;
        }
        match &mut self.times {
            Some(0) => return None,
            Some(times) => *times -= 1,
            None => {}
        }
        Some((self.code, self.applied))
    }

    pub(crate) fn is_over(&self) -> bool {
        self.times == Some(0)
    }
}

/// An answer that says what is wrong. `name`: about this object; without it nobody serves the path.
pub(crate) fn refusal(code: u16, message: &str, name: Option<&str>) -> (u16, Value) {
    let reason = match code {
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        406 => "NotAcceptable",
        409 if message.contains("exists") => "AlreadyExists",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        503 => "ServiceUnavailable",
        _ => "InternalError",
    };
    let details = name.map_or_else(|| json!({}), |name| json!({ "name": name }));
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message, "reason": reason,
        "details": details,
    });
    (code, status)
}
