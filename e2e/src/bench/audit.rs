//! The hub's audit log: who asked for what.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::Deserialize;

use crate::fleet::Fleet;

/// A cluster's log.
#[derive(Debug, Clone)]
pub struct Log {
    path: PathBuf,
}

/// A place in the log.
#[derive(Debug, Clone, Copy)]
pub struct Mark(u64);

/// A finished request.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: Object,
    #[serde(default)]
    response_status: Answer,
}

#[derive(Debug, Clone, Deserialize)]
struct User {
    username: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Answer {
    #[serde(default)]
    code: u16,
}

impl Request {
    /// Whether it was a watch that has ended.
    pub fn is_watch(&self) -> bool {
        self.verb == "watch"
    }
}

impl Log {
    /// The log of the hub.
    pub fn of_hub(fleet: &Fleet) -> Result<Self> {
        let path = fleet
            .cluster("hub")?
            .audit_log
            .clone()
            .context("the hub writes no audit log")?;
        Ok(Self { path })
    }

    /// Its end now.
    pub fn mark(&self) -> Result<Mark> {
        Ok(Mark(std::fs::metadata(&self.path)?.len()))
    }

    /// What a user has asked for since then, without watches.
    pub fn since(&self, mark: Mark, user: &str) -> Result<Vec<Request>> {
        let mut file = File::open(&self.path).with_context(|| format!("cannot read {}", self.path.display()))?;
        file.seek(SeekFrom::Start(mark.0))?;
        let (mut reader, mut line, mut found) = (BufReader::with_capacity(1 << 20, file), Vec::new(), Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 {
            // The last line may be half written.
            if line.ends_with(b"\n") {
                let request: Request = serde_json::from_slice(&line).context("a line of the audit log")?;
                if request.user.username == user && request.verb != "watch" {
                    found.push(request);
                }
            }
            line.clear();
        }
        Ok(found)
    }
}

impl Request {
    /// Whether it changes something. Reviews are questions, though they are posted; leases are renewed whatever happens.
    pub fn is_write(&self) -> bool {
        let counts = !["tokenreviews", "leases"].contains(&self.object_ref.resource.as_str());
        counts && !matches!(self.verb.as_str(), "get" | "list")
    }

    /// Resource and subresource.
    pub fn resource(&self) -> String {
        let Object {
            resource, subresource, ..
        } = &self.object_ref;
        if subresource.is_empty() {
            resource.clone()
        } else {
            format!("{resource}/{subresource}")
        }
    }

    /// Verb and resource, and the answer if it was a refusal.
    pub fn what(&self) -> String {
        match self.response_status.code {
            code @ 400.. => format!("{} {} ({code})", self.verb, self.resource()),
            _ => format!("{} {}", self.verb, self.resource()),
        }
    }

    /// Whether it is about this member: its MemberCluster, namespace, ClusterProfile or Events.
    pub fn concerns(&self, member: &str) -> bool {
        let Object { namespace, name, .. } = &self.object_ref;
        let own = format!("fleet-member-{member}");
        name == member || *namespace == own || *name == own || self.is_event_about(member)
    }

    /// Whether it writes an Event about an object of this name.
    pub fn is_event_about(&self, object: &str) -> bool {
        let Object { resource, name, .. } = &self.object_ref;
        resource == "events" && name.strip_prefix(object).is_some_and(|rest| rest.starts_with('.'))
    }
}

/// Without what members and leases cause whatever is placed.
pub fn placing(requests: Vec<Request>) -> Vec<Request> {
    let of_placements = |r: &Request| {
        let resource = &r.object_ref.resource;
        let others = [
            "memberclusters",
            "internalmemberclusters",
            "clusterprofiles",
            "leases",
            "tokenreviews",
        ];
        !others.contains(&resource.as_str())
    };
    requests.into_iter().filter(of_placements).collect()
}

/// How many of each.
pub fn tally<'a>(requests: impl IntoIterator<Item = &'a Request>) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for request in requests {
        *counts.entry(request.what()).or_default() += 1;
    }
    counts
}

/// A tally as one line.
pub fn line(tally: &BTreeMap<String, u64>) -> String {
    let list = tally.iter().map(|(what, n)| format!("{n} {what}")).collect::<Vec<_>>();
    if list.is_empty() {
        "none".to_owned()
    } else {
        list.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn requests_are_told_by_user_and_member() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let log = Log {
            path: file.path().to_owned(),
        };
        let mut line = |verb: &str, user: &str, object: &str| {
            writeln!(
                file,
                r#"{{"verb":"{verb}","user":{{"username":"{user}"}},"objectRef":{object},"responseStatus":{{"code":200}}}}"#
            )
            .unwrap();
        };
        line("patch", "a", r#"{"resource":"leases"}"#);
        let mark = log.mark().unwrap();
        line(
            "patch",
            "a",
            r#"{"resource":"memberclusters","subresource":"status","name":"m"}"#,
        );
        line("watch", "a", r#"{"resource":"memberclusters"}"#);
        line("create", "b", r#"{"resource":"roles","namespace":"fleet-member-m"}"#);
        line(
            "create",
            "a",
            r#"{"resource":"events","namespace":"default","name":"m.1"}"#,
        );
        line("create", "a", r#"{"resource":"tokenreviews"}"#);
        file.write_all(b"{\"half").unwrap();
        let found = log.since(mark, "a").unwrap();
        assert_eq!(
            self::line(&tally(&found)),
            "1 create events, 1 create tokenreviews, 1 patch memberclusters/status"
        );
        assert_eq!(found.iter().filter(|r| r.concerns("m")).count(), 2);
        assert_eq!(found.iter().filter(|r| r.is_event_about("m")).count(), 1);
        assert_eq!(found.iter().filter(|r| r.is_write()).count(), 2);
    }
}
