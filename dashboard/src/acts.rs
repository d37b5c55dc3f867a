//! What a page can change, and who does it.
//!
//! The dashboard itself writes nothing. An act is carried out by the code of the command that does the same, which its
//! caller hands in; so the page and the terminal can never differ in what they do.

use std::{borrow::Cow, fmt};

use fleet_api::{
    cluster::MemberCluster,
    kind::Kind,
    placement::{ApprovalRequest, ClusterApprovalRequest, ClusterStagedUpdateRun, StagedUpdateRun},
};
use form_urlencoded::Serializer;
use futures::future::BoxFuture;

use crate::{
    rights::Right,
    view::{Name, View, fits},
};

/// Something that a page can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    /// Approve what a run waits for.
    Approve {
        /// The approval request.
        request: Name,
        /// The run that asks.
        run: String,
    },
    /// Let a run start no more clusters.
    Stop(Name),
    /// Let a run begin that has its plan.
    Start(Name),
    /// Let a run go on.
    Resume(Name),
    /// Keep new placements off a member.
    Cordon(String),
    /// Take a member back.
    Uncordon(String),
    /// Take all placements off a member that may go.
    Drain(String),
}

/// Carries acts out.
pub trait Actor: Send + Sync + 'static {
    /// What would happen now, with nothing changed.
    fn preview<'a>(&'a self, act: &'a Act) -> BoxFuture<'a, Result<Effect, String>>;
    /// Does it, and says what has happened.
    fn perform<'a>(&'a self, act: &'a Act) -> BoxFuture<'a, Result<Effect, String>>;
}

/// What an act does, or has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Effect {
    /// In sentences.
    pub says: Vec<String>,
    /// What becomes of each placement, where several are concerned.
    pub rows: Vec<Row>,
    /// It has not done everything: something is left.
    pub left: bool,
}

/// What becomes of one placement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Which.
    pub name: Name,
    /// In a word.
    pub word: String,
    /// How that is meant.
    pub outcome: Outcome,
    /// Why.
    pub why: String,
}

/// How what becomes of a placement is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// As asked for.
    Good,
    /// Not yet.
    Held,
    /// Not at all.
    Refused,
}

impl Act {
    /// What a form or a link asks for.
    pub(crate) fn parse(query: &[u8]) -> Option<Self> {
        let (mut verb, mut namespace, mut name, mut run) =
            (Cow::default(), Cow::default(), Cow::default(), Cow::default());
        for (key, value) in form_urlencoded::parse(query) {
            match key.as_ref() {
                "act" => verb = value,
                "namespace" => namespace = value,
                "name" => name = value,
                "run" => run = value,
                _ => {}
            }
        }
        if name.is_empty() || !fits(&name) || !fits(&namespace) || !fits(&run) {
            return None;
        }
        let named = || Name::new(namespace.as_ref(), name.as_ref());
        Some(match verb.as_ref() {
            "approve" => Self::Approve {
                request: named(),
                run: run.into_owned(),
            },
            "stop" => Self::Stop(named()),
            "start" => Self::Start(named()),
            "resume" => Self::Resume(named()),
            "cordon" => Self::Cordon(name.into_owned()),
            "uncordon" => Self::Uncordon(name.into_owned()),
            "drain" => Self::Drain(name.into_owned()),
            _ => return None,
        })
    }

    /// The fields of a form that asks for it.
    pub(crate) fn fields(&self) -> Vec<(&'static str, &str)> {
        let mut fields = vec![("act", self.verb())];
        match self {
            Self::Approve { request, run } => {
                fields.extend([
                    ("namespace", request.namespace.as_str()),
                    ("name", &request.name),
                    ("run", run),
                ]);
            }
            Self::Stop(run) | Self::Start(run) | Self::Resume(run) => {
                fields.extend([("namespace", run.namespace.as_str()), ("name", &run.name)]);
            }
            Self::Cordon(cluster) | Self::Uncordon(cluster) | Self::Drain(cluster) => fields.push(("name", cluster)),
        }
        fields
    }

    /// The page that says what it would do.
    pub(crate) fn url(&self) -> String {
        let mut query = Serializer::new(String::new());
        query.extend_pairs(self.fields());
        format!("/act?{}", query.finish())
    }

    pub(crate) fn verb(&self) -> &'static str {
        match self {
            Self::Approve { .. } => "approve",
            Self::Stop(_) => "stop",
            Self::Start(_) => "start",
            Self::Resume(_) => "resume",
            Self::Cordon(_) => "cordon",
            Self::Uncordon(_) => "uncordon",
            Self::Drain(_) => "drain",
        }
    }

    /// The page that it is about.
    pub(crate) fn about(&self) -> View {
        match self {
            Self::Approve { request, run } => View::Run(Name::new(&*request.namespace, &**run)),
            Self::Stop(run) | Self::Start(run) | Self::Resume(run) => View::Run(run.clone()),
            Self::Cordon(cluster) | Self::Uncordon(cluster) | Self::Drain(cluster) => View::Member(cluster.clone()),
        }
    }

    /// The command that does the same.
    pub(crate) fn command(&self) -> String {
        match self {
            Self::Approve { request, .. } => format!(
                "kubectl fleet approve {} --name {}{}",
                request.word("clusterapprovalrequest", "approvalrequest"),
                request.name,
                request.flag()
            ),
            Self::Stop(run) => state(run, "Stop"),
            Self::Start(run) | Self::Resume(run) => state(run, "Run"),
            Self::Cordon(cluster) => format!("kubectl fleet cordon {cluster}"),
            Self::Uncordon(cluster) => format!("kubectl fleet uncordon {cluster}"),
            Self::Drain(cluster) => format!("kubectl fleet drain {cluster}"),
        }
    }

    /// What somebody must be allowed to do for it: a drain asks for more than one thing.
    pub(crate) fn needs(&self) -> Vec<Right> {
        let status = |name: &Name| match name.namespace.as_str() {
            "" => Right::of::<ClusterApprovalRequest>("update", "status", name),
            _ => Right::of::<ApprovalRequest>("update", "status", name),
        };
        let run = |name: &Name| match name.namespace.as_str() {
            "" => Right::of::<ClusterStagedUpdateRun>("update", "", name),
            _ => Right::of::<StagedUpdateRun>("update", "", name),
        };
        let member = |name: &str| Right::of::<MemberCluster>("update", "", &Name::new("", name));
        match self {
            Self::Approve { request, .. } => vec![status(request)],
            Self::Stop(name) | Self::Start(name) | Self::Resume(name) => vec![run(name)],
            Self::Cordon(cluster) | Self::Uncordon(cluster) => vec![member(cluster)],
            Self::Drain(cluster) => vec![
                member(cluster),
                Right::of::<fleet_api::placement::ClusterResourcePlacementEviction>("create", "", &Name::default()),
            ],
        }
    }
}

/// What it does, for a button and a heading.
impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Approve { request, .. } => write!(f, "Approve {}", request.shown()),
            Self::Stop(run) => write!(f, "Stop {}", run.shown()),
            Self::Start(run) => write!(f, "Start {}", run.shown()),
            Self::Resume(run) => write!(f, "Resume {}", run.shown()),
            Self::Cordon(cluster) => write!(f, "Cordon {cluster}"),
            Self::Uncordon(cluster) => write!(f, "Uncordon {cluster}"),
            Self::Drain(cluster) => write!(f, "Drain {cluster}"),
        }
    }
}

fn state(run: &Name, state: &str) -> String {
    let kind = match run.namespace.as_str() {
        "" => ClusterStagedUpdateRun::CRD.short_names[0],
        _ => StagedUpdateRun::CRD.short_names[0],
    };
    format!(
        "kubectl patch {kind} {}{} --type=merge -p '{{\"spec\":{{\"state\":\"{state}\"}}}}'",
        run.name,
        run.flag()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_act_is_asked_for_by_its_own_link() {
        let run = || Name::new("shop", "web-1");
        for (act, command) in [
            (
                Act::Approve {
                    request: Name::new("", "web-1-after-canary"),
                    run: "web-1".into(),
                },
                "kubectl fleet approve clusterapprovalrequest --name web-1-after-canary",
            ),
            (
                Act::Stop(run()),
                "kubectl patch sur web-1 -n shop --type=merge -p '{\"spec\":{\"state\":\"Stop\"}}'",
            ),
            (Act::Drain("east".into()), "kubectl fleet drain east"),
        ] {
            let url = act.url();
            let (path, query) = url.split_once('?').unwrap();
            assert_eq!(
                (path, Act::parse(query.as_bytes())),
                ("/act", Some(act.clone())),
                "{url}"
            );
            assert_eq!(act.command(), command);
        }
    }

    #[test]
    fn names_that_are_no_names_are_refused() {
        for query in [
            "",
            "act=drain",
            "act=drain&name=",
            "act=explode&name=a",
            "act=drain&name=a%20b",
            "act=drain&name=%24(reboot)",
            "act=stop&namespace=..%2F..&name=a",
        ] {
            assert_eq!(Act::parse(query.as_bytes()), None, "{query}");
        }
    }
}
