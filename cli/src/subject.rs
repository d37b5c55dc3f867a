//! What a command is asked about: `crp/web`, `run/release`, `membercluster/east`, `deployment.apps/web`, or only a name.

use anyhow::Result;
use fleet_api::{
    cluster::{InternalMemberCluster, MemberCluster},
    kind::Kind,
    names::{MEMBER_NAMESPACE_PREFIX, Scope},
    placement::{
        ApprovalRequest, ClusterApprovalRequest, ClusterResourceBinding, ClusterResourcePlacement,
        ClusterResourcePlacementDisruptionBudget, ClusterResourcePlacementEviction, ClusterResourcePlacementStatus,
        ClusterStagedUpdateRun, ResourceBinding, ResourcePlacement, StagedUpdateRun, Work,
    },
};

use crate::problem::Failure;

/// Names an object of one of the two families.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    /// Empty for a cluster-scoped one.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl Key {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    pub(crate) fn scope(&self) -> Scope {
        if self.namespace.is_empty() {
            Scope::Cluster
        } else {
            Scope::Namespaced
        }
    }

    /// As kubectl takes it, for a kind that is called so in the cluster-scoped family and so in the other.
    pub(crate) fn shown(&self, wide: &str, namespaced: &str) -> String {
        match self.scope() {
            Scope::Cluster => format!("{wide}/{}", self.name),
            Scope::Namespaced => format!("{namespaced}/{} -n {}", self.name, self.namespace),
        }
    }

    /// A placement's key as kubectl takes it.
    pub(crate) fn placement(&self) -> String {
        self.shown("crp", "rp")
    }
}

/// What is asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Subject {
    Placement(Key),
    Run(Key),
    Approval(Key),
    Binding(Key),
    Member(String),
    Eviction(String),
    /// A Work of a member.
    Work {
        cluster: String,
        name: String,
    },
    /// Any other object.
    Object {
        kind: String,
        namespace: String,
        name: String,
    },
    /// Only a name: the first kind of the fleet that has it.
    Name(String),
}

/// The subject of a command line, and what else stands there: at most a cluster.
pub(crate) fn parse(words: &[String], namespace: &str) -> Result<(Subject, Option<String>)> {
    let (first, rest) = match words {
        [] => return Err(usage("say what to look at")),
        [first, rest @ ..] => (first.as_str(), rest),
    };
    let (subject, rest) = match (first.split_once('/'), rest) {
        (Some((kind, name)), rest) => (named(kind, name, namespace)?, rest),
        // As kubectl takes it too: the kind, and then the name.
        (None, [name, rest @ ..]) if of_fleet(&first.to_lowercase(), "", "").is_some() => {
            (named(first, name, namespace)?, rest)
        }
        (None, rest) => (Subject::Name(valid(first)?), rest),
    };
    let cluster = match rest {
        [] => None,
        [cluster] => Some(valid(cluster)?),
        [_, more, ..] => {
            return Err(usage(&format!(
                "what is {more:?}? After what is asked about, only a cluster follows"
            )));
        }
    };
    Ok((subject, cluster))
}

/// A placement, for commands that are about nothing else.
pub(crate) fn placement(words: &[String], namespace: &str) -> Result<(Subject, Option<String>)> {
    match parse(words, namespace)? {
        found @ (Subject::Placement(_) | Subject::Name(_), _) => Ok(found),
        _ => Err(usage(&format!("{:?} is no placement", words[0]))),
    }
}

fn usage(text: &str) -> anyhow::Error {
    Failure::usage(text, "")
}

fn named(kind: &str, name: &str, namespace: &str) -> Result<Subject> {
    let kind = kind.to_lowercase();
    if let Some(subject) = of_fleet(&kind, &valid(name)?, namespace) {
        return match subject {
            Subject::Work { .. } if !namespace.starts_with(MEMBER_NAMESPACE_PREFIX) => Err(Failure::usage(
                format!("a Work is in the namespace of its member: add -n {MEMBER_NAMESPACE_PREFIX}<member>"),
                "kubectl get works --all-namespaces",
            )),
            subject => Ok(subject),
        };
    }
    if kind.is_empty() || name.contains('/') {
        return Err(usage(&format!("{kind}/{name} names no object: want kind/name")));
    }
    Ok(Subject::Object {
        kind,
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// Whether kubectl takes this word for the kind.
fn is<K: Kind>(word: &str) -> bool {
    let word = word
        .strip_suffix(K::GROUP)
        .and_then(|word| word.strip_suffix('.'))
        .unwrap_or(word);
    word == K::CRD.plural || word == K::KIND.to_lowercase() || K::CRD.short_names.contains(&word)
}

fn of_fleet(kind: &str, name: &str, namespace: &str) -> Option<Subject> {
    let own = || name.to_owned();
    let (wide, namespaced) = (Key::new("", name), Key::new(namespace, name));
    Some(match kind {
        it if is::<ClusterResourcePlacement>(it) => Subject::Placement(wide),
        it if is::<ResourcePlacement>(it) || is::<ClusterResourcePlacementStatus>(it) => Subject::Placement(namespaced),
        it if is::<ClusterResourcePlacementDisruptionBudget>(it) => Subject::Placement(wide),
        it if is::<ClusterStagedUpdateRun>(it) => Subject::Run(wide),
        it if is::<StagedUpdateRun>(it) => Subject::Run(namespaced),
        it if is::<ClusterApprovalRequest>(it) => Subject::Approval(wide),
        it if is::<ApprovalRequest>(it) => Subject::Approval(namespaced),
        it if is::<ClusterResourceBinding>(it) => Subject::Binding(wide),
        it if is::<ResourceBinding>(it) => Subject::Binding(namespaced),
        it if is::<MemberCluster>(it) || is::<InternalMemberCluster>(it) || it == "member" => Subject::Member(own()),
        it if is::<ClusterResourcePlacementEviction>(it) || it == "eviction" => Subject::Eviction(own()),
        it if is::<Work>(it) => Subject::Work {
            cluster: namespace
                .strip_prefix(MEMBER_NAMESPACE_PREFIX)
                .unwrap_or_default()
                .to_owned(),
            name: own(),
        },
        _ => return None,
    })
}

/// A name that an object can have. It becomes part of selectors and paths, so nothing else may be in it.
fn valid(name: &str) -> Result<String> {
    let is_good = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | ':' | '_');
    if name.is_empty() || name.len() > 253 || !name.chars().all(is_good) || name == "." || name == ".." {
        return Err(usage(&format!("{name:?} is no name of an object")));
    }
    Ok(name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{exit::Exit, problem};

    fn read(line: &str) -> Result<(Subject, Option<String>)> {
        let words: Vec<_> = line
            .split(' ')
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        parse(&words, "team")
    }

    #[test]
    fn kinds_are_known_by_the_words_that_kubectl_takes() {
        let web = || Subject::Placement(Key::new("", "web"));
        for line in [
            "crp/web",
            "ClusterResourcePlacement/web",
            "clusterresourceplacements.placement.kubernetes-fleet.io/web",
        ] {
            assert_eq!(read(line).expect(line), (web(), None), "{line}");
            let on_east = read(&format!("{line} east")).expect(line);
            assert_eq!(on_east, (web(), Some("east".to_owned())), "{line}");
        }
        let east = Some("east".to_owned());
        let rows = [
            ("crp web east", web(), east.clone()),
            ("rp/web", Subject::Placement(Key::new("team", "web")), None),
            ("crpdb/web", web(), None),
            ("csur/r", Subject::Run(Key::new("", "r")), None),
            ("sur r", Subject::Run(Key::new("team", "r")), None),
            ("areq/r-after-s", Subject::Approval(Key::new("team", "r-after-s")), None),
            ("crb/web-east", Subject::Binding(Key::new("", "web-east")), None),
            ("membercluster/east", Subject::Member("east".into()), None),
            ("cluster east", Subject::Member("east".into()), None),
            ("imc/east", Subject::Member("east".into()), None),
            ("crpe/e", Subject::Eviction("e".into()), None),
            ("web east", Subject::Name("web".into()), east.clone()),
            (
                "deployment.apps/api east",
                Subject::Object {
                    kind: "deployment.apps".into(),
                    namespace: "team".into(),
                    name: "api".into(),
                },
                east,
            ),
        ];
        for (line, subject, cluster) in rows {
            assert_eq!(read(line).expect(line), (subject, cluster), "{line}");
        }
    }

    #[test]
    fn what_names_nothing_is_refused_with_what_to_type() {
        for line in [
            "",
            "crp/",
            "crp/a,b=c",
            "crp/a b c",
            "/web",
            "a/b/c",
            "crp/../x",
            "crp/web east=1",
            "we\u{301}b",
            "work/web",
            "crp/a&b",
        ] {
            let error = read(line).expect_err(line);
            assert_eq!(problem::exit_of(&error), Exit::Usage, "{line}");
            assert!(problem::next(&error, "diff").starts_with("kubectl "), "{line}");
        }
    }
}
