//! What the hub's API server answers when it does not do what was asked, in words that say what to do.

use std::fmt;

use fleet_api::kind::Kind;

use crate::{exit::Exit, rights};

/// A request that failed.
#[derive(Debug)]
pub(crate) struct Problem {
    verb: &'static str,
    /// The plural, with a subresource.
    resource: String,
    group: &'static str,
    source: kube::Error,
}

impl Problem {
    /// A request about objects of a kind.
    pub(crate) fn new<K: Kind>(verb: &'static str, source: kube::Error) -> Self {
        Self {
            verb,
            resource: K::CRD.plural.to_owned(),
            group: K::GROUP,
            source,
        }
    }

    /// A request about their status.
    pub(crate) fn of_status<K: Kind>(verb: &'static str, source: kube::Error) -> Self {
        let resource = format!("{}/status", K::CRD.plural);
        let problem = Self::new::<K>(verb, source);
        Self { resource, ..problem }
    }

    fn status(&self) -> Option<&kube::core::Status> {
        match &self.source {
            kube::Error::Api(status) => Some(status),
            _ => None,
        }
    }

    fn has_code(&self, code: u16) -> bool {
        self.status().is_some_and(|status| status.code == code)
    }

    /// Somebody wrote to the object in between.
    pub(crate) fn is_conflict(&self) -> bool {
        self.has_code(409) && !self.is_taken()
    }

    /// There is an object of that name already.
    pub(crate) fn is_taken(&self) -> bool {
        self.status().is_some_and(|status| status.reason == "AlreadyExists")
    }

    /// There is no such object.
    pub(crate) fn is_missing(&self) -> bool {
        self.has_code(404) && !self.is_unserved()
    }

    /// The hub does not know the kind.
    pub(crate) fn is_unserved(&self) -> bool {
        let of_object = |status: &kube::core::Status| status.details.as_ref().is_some_and(|it| !it.name.is_empty());
        self.has_code(404) && !self.status().is_some_and(of_object)
    }

    /// A version that the API server has forgotten.
    pub(crate) fn is_expired(&self) -> bool {
        self.has_code(410)
    }

    /// The user may not do this, or an admission rule is against it.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.has_code(403)
    }

    /// Worth another try: the same request may succeed in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        match &self.source {
            kube::Error::Api(status) => matches!(status.code, 408 | 429 | 500..=599),
            kube::Error::HyperError(_) | kube::Error::Service(_) | kube::Error::ReadEvents(_) => true,
            _ => false,
        }
    }

    /// An admission rule is against it.
    pub(crate) fn is_denied(&self) -> bool {
        self.is_forbidden() && !self.is_missing_right()
    }

    /// Only rights are missing: an admission rule is against it for reasons of its own, and says so.
    fn is_missing_right(&self) -> bool {
        self.is_forbidden() && self.status().is_some_and(|status| status.message.contains("cannot "))
    }

    /// The credential is unknown or has expired.
    fn is_unauthenticated(&self) -> bool {
        self.has_code(401)
    }

    /// In a few words, why something could not be read.
    pub(crate) fn brief(&self) -> String {
        let (verb, resource, group) = (self.verb, &self.resource, self.group);
        if self.is_missing_right() {
            format!("no right to {verb} them")
        } else if self.is_unserved() {
            format!("the hub does not serve {resource}.{group}")
        } else {
            self.to_string()
        }
    }

    /// What to type next.
    pub(crate) fn next(&self) -> String {
        let (verb, resource, group) = (self.verb, &self.resource, self.group);
        if self.is_missing_right() {
            format!("kubectl auth can-i {verb} {resource}.{group} --all-namespaces")
        } else if self.is_unserved() {
            format!("kubectl api-resources --api-group={group}")
        } else if self.is_unauthenticated() {
            "kubectl auth whoami".to_owned()
        } else if self.status().is_none() || self.is_passing() {
            "kubectl cluster-info".to_owned()
        } else {
            format!("kubectl get {resource}.{group} --all-namespaces")
        }
    }

    pub(crate) fn exit(&self) -> Exit {
        if self.is_forbidden() {
            Exit::Refused
        } else {
            Exit::Error
        }
    }
}

/// The API server's own words first: scripts and people know them.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (verb, resource, group) = (self.verb, &self.resource, self.group);
        let Some(status) = self.status() else {
            return write!(
                f,
                "cannot {verb} {resource}.{group} on the hub: {}",
                chain(&self.source)
            );
        };
        if status.message.is_empty() {
            write!(f, "the hub answered {} to {verb} {resource}.{group}", status.code)?;
        } else {
            f.write_str(&status.message)?;
        }
        if self.is_missing_right() {
            write!(f, ". The right that is missing: {verb} {resource} in {group}")?;
            if let Some(role) = rights::role(verb, resource) {
                write!(f, ", which the hub chart's ClusterRole {role} has")?;
            }
        } else if self.is_unserved() {
            write!(
                f,
                ". The hub does not serve {resource}.{group}: are the CRDs installed, and is this the context of the hub?"
            )?;
        }
        Ok(())
    }
}

impl std::error::Error for Problem {}

/// All that an error says, each thing once.
fn chain(error: &dyn std::error::Error) -> String {
    let mut said = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        let text = error.to_string();
        if !said.contains(&text) {
            said = format!("{said}: {text}");
        }
        next = error.source();
    }
    said
}

/// In a few words, why something could not be listed that is no kind of ours.
pub(crate) fn brief(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if status.code == 403 => "no right to list them".to_owned(),
        error => said(error),
    }
}

/// An error of a request in words for people: what the API server said, or all causes.
pub(crate) fn said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server answered {}", status.code),
        error => chain(error),
    }
}

/// An error of ours, with what to type next.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) text: String,
    pub(crate) next: String,
    pub(crate) exit: Exit,
}

impl Failure {
    /// Something that is not there.
    pub(crate) fn error(text: impl Into<String>, next: impl Into<String>) -> anyhow::Error {
        Self::with(Exit::Error, text, next)
    }

    /// A command line that makes no sense. Without a next step, it is the command's own help.
    pub(crate) fn usage(text: impl Into<String>, next: impl Into<String>) -> anyhow::Error {
        Self::with(Exit::Usage, text, next)
    }

    /// A member that the hub does not know.
    pub(crate) fn no_member(cluster: &str) -> anyhow::Error {
        Self::error(
            format!("there is no MemberCluster {cluster:?} (`kubectl get memberclusters` lists them)"),
            "kubectl get memberclusters",
        )
    }

    fn with(exit: Exit, text: impl Into<String>, next: impl Into<String>) -> anyhow::Error {
        let (text, next) = (text.into(), next.into());
        Self { text, next, exit }.into()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

/// What to type after an error of a command.
pub(crate) fn next(error: &anyhow::Error, command: &str) -> String {
    if let Some(problem) = error.downcast_ref::<Problem>() {
        return problem.next();
    }
    if let Some(failure) = error
        .downcast_ref::<Failure>()
        .filter(|failure| !failure.next.is_empty())
    {
        return failure.next.clone();
    }
    let request = error.chain().find_map(|cause| cause.downcast_ref::<kube::Error>());
    match request {
        Some(kube::Error::Api(status)) if status.code == 401 => "kubectl auth whoami".to_owned(),
        Some(kube::Error::Api(status)) if status.code == 403 => "kubectl auth can-i --list".to_owned(),
        Some(kube::Error::Api(_)) => "kubectl fleet check".to_owned(),
        Some(_) => "kubectl cluster-info".to_owned(),
        None => format!("kubectl fleet {command} --help"),
    }
}

/// How a command ends that an error ends.
pub(crate) fn exit_of(error: &anyhow::Error) -> Exit {
    let failure = error.downcast_ref::<Failure>().map(|failure| failure.exit);
    let problem = error.downcast_ref::<Problem>().map(Problem::exit);
    let is_refusal = |cause: &kube::Error| matches!(cause, kube::Error::Api(status) if status.code == 403);
    let refused = error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<kube::Error>())
        .any(is_refusal);
    let other = if refused { Exit::Refused } else { Exit::Error };
    failure.or(problem).unwrap_or(other)
}

#[cfg(test)]
mod tests {
    use fleet_api::cluster::MemberCluster;
    use kube::core::Status;

    use super::*;

    fn problem(code: u16, message: &str, name: &str) -> Problem {
        let mut status = Status::failure(message, "Whatever").with_code(code);
        if !name.is_empty() {
            let details = serde_json::from_value(serde_json::json!({ "name": name })).expect("details");
            status = status.with_details(details);
        }
        Problem::new::<MemberCluster>("update", kube::Error::Api(status.boxed()))
    }

    #[test]
    fn a_missing_right_is_named_with_the_role_that_has_it() {
        let words = "memberclusters.cluster.kubernetes-fleet.io \"east\" is forbidden: User \"eve\" cannot update resource \
                     \"memberclusters\" in API group \"cluster.kubernetes-fleet.io\" at the cluster scope";
        let problem = problem(403, words, "east");
        assert_eq!(problem.exit(), Exit::Refused);
        assert_eq!(
            problem.to_string(),
            format!(
                "{words}. The right that is missing: update memberclusters in cluster.kubernetes-fleet.io, which the hub \
                 chart's ClusterRole fleet-operator has"
            )
        );
    }

    #[test]
    fn what_an_admission_rule_says_is_all_there_is_to_say() {
        let words = "admission webhook \"x\" denied the request: no";
        let problem = problem(403, words, "east");
        assert_eq!((problem.exit(), problem.to_string().as_str()), (Exit::Refused, words));
    }

    #[test]
    fn a_hub_without_the_kinds_is_told_from_an_object_that_is_not_there() {
        let absent = problem(404, "memberclusters \"east\" not found", "east");
        assert!(absent.is_missing());
        assert_eq!(absent.to_string(), "memberclusters \"east\" not found");
        let unserved = problem(404, "the server could not find the requested resource", "");
        assert!(!unserved.is_missing());
        assert_eq!(
            unserved.to_string(),
            "the server could not find the requested resource. The hub does not serve \
             memberclusters.cluster.kubernetes-fleet.io: are the CRDs installed, and is this the context of the hub?"
        );
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_said_with_every_cause_once() {
        let refused = std::io::Error::other("connection refused");
        let problem = Problem::new::<MemberCluster>("get", kube::Error::Service(Box::new(refused)));
        assert!(problem.is_passing() && problem.exit() == Exit::Error);
        assert_eq!(
            problem.to_string(),
            "cannot get memberclusters.cluster.kubernetes-fleet.io on the hub: ServiceError: connection refused"
        );
        let error = anyhow::Error::from(problem).context("failed to cordon");
        assert_eq!(exit_of(&error), Exit::Error);
        assert_eq!(next(&error, "cordon"), "kubectl cluster-info");
    }

    #[test]
    fn every_error_says_what_to_type_next() {
        let request = |code| {
            let status = Status::failure("no", "Whatever").with_code(code).boxed();
            anyhow::Error::from(kube::Error::Api(status)).context("cannot write it")
        };
        let rows = [
            (Failure::usage("odd words", ""), "kubectl fleet diff --help"),
            (Failure::error("absent", "kubectl get crp"), "kubectl get crp"),
            (anyhow::anyhow!("cannot write the file"), "kubectl fleet diff --help"),
            (request(401), "kubectl auth whoami"),
            (request(403), "kubectl auth can-i --list"),
            (request(500), "kubectl fleet check"),
        ];
        for (error, wanted) in rows {
            assert_eq!(next(&error, "diff"), wanted, "{error:#}");
        }
        assert_eq!(exit_of(&request(403)), Exit::Refused);
    }
}
