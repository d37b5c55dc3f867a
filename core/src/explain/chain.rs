//! What an explanation is: steps in order, each with a verdict, and for the first that is not done its cause.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

/// How far a step has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It is done.
    Done,
    /// It goes on by itself, or waits for somebody who is expected to do something.
    Waiting,
    /// It goes on only after somebody has repaired something.
    Failed,
    /// An earlier step is not done.
    NotReached,
}

/// Why a step is not done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cause {
    /// The cause in words.
    pub text: String,
    /// What waits for it; empty if nothing does.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub holds_back: String,
    /// The command to type next.
    pub next: String,
}

impl Cause {
    /// A cause and what to type next.
    pub fn new(text: impl Into<String>, next: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            holds_back: String::new(),
            next: next.into(),
        }
    }

    /// The same, which holds this back.
    #[must_use]
    pub fn holding(self, what: impl Into<String>) -> Self {
        Self {
            holds_back: what.into(),
            ..self
        }
    }
}

/// One step of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// The step's name: that of its condition where it has one.
    pub name: String,
    /// How far it has come.
    pub verdict: Verdict,
    /// In a few words, what is so; empty where the name says it all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub says: String,
    /// Since when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Why it is not done; only the first such step has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cause>,
}

impl Step {
    /// A step that is done.
    pub fn done(name: impl Into<String>, says: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            verdict: Verdict::Done,
            says: says.into(),
            since: None,
            cause: None,
        }
    }

    /// A step that goes on by itself or once somebody has decided.
    pub fn waiting(name: impl Into<String>, cause: Cause) -> Self {
        Self::unmet(name, Verdict::Waiting, cause)
    }

    /// A step that somebody has to repair.
    pub fn failed(name: impl Into<String>, cause: Cause) -> Self {
        Self::unmet(name, Verdict::Failed, cause)
    }

    /// A step that is not done.
    pub fn unmet(name: impl Into<String>, verdict: Verdict, cause: Cause) -> Self {
        Self {
            name: name.into(),
            verdict,
            says: String::new(),
            since: None,
            cause: Some(cause),
        }
    }

    /// The same, since then.
    #[must_use]
    pub fn since(self, since: Option<&Time>) -> Self {
        Self {
            since: since.cloned(),
            ..self
        }
    }
}

/// Something to know that stops nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Note {
    /// What is so.
    pub text: String,
    /// The command to type next.
    pub next: String,
}

/// An explanation: the steps of one subject in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Chain {
    /// What is explained, as one would name it to kubectl.
    pub subject: String,
    /// The steps in order.
    pub steps: Vec<Step>,
    /// What is worth knowing besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Note>,
}

impl Chain {
    /// A chain without steps.
    pub fn new(subject: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            steps: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// Adds a step. After one that is not done, the others are not reached: there is one thing to do at a time.
    pub fn push(&mut self, step: Step) {
        let reached = self.first_unmet().is_none();
        self.steps.push(if reached {
            step
        } else {
            Step {
                verdict: Verdict::NotReached,
                says: String::new(),
                since: None,
                cause: None,
                ..step
            }
        });
    }

    /// Adds something to know.
    pub fn note(&mut self, text: impl Into<String>, next: impl Into<String>) {
        self.notes.push(Note {
            text: text.into(),
            next: next.into(),
        });
    }

    /// The first step that is not done.
    pub fn first_unmet(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.verdict != Verdict::Done)
    }

    /// The cause of the first step that is not done.
    pub fn cause(&self) -> Option<&Cause> {
        self.first_unmet().and_then(|step| step.cause.as_ref())
    }

    /// The verdict on the whole: that of the first step that is not done.
    pub fn verdict(&self) -> Verdict {
        self.first_unmet().map_or(Verdict::Done, |step| step.verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_first_unmet_step_nothing_is_reached() {
        let mut chain = Chain::new("crp/web");
        chain.push(Step::done("a", "fine"));
        chain.push(Step::waiting("b", Cause::new("not yet", "kubectl get b")));
        chain.push(Step::done("c", "fine"));
        chain.push(Step::failed("d", Cause::new("broken", "kubectl get d")));
        let verdicts: Vec<_> = chain.steps.iter().map(|step| step.verdict).collect();
        assert_eq!(
            verdicts,
            [
                Verdict::Done,
                Verdict::Waiting,
                Verdict::NotReached,
                Verdict::NotReached
            ]
        );
        assert_eq!(chain.cause().map(|cause| cause.text.as_str()), Some("not yet"));
        assert_eq!(chain.verdict(), Verdict::Waiting);
        assert!(chain.steps[2..].iter().all(|step| step.cause.is_none()));
    }

    #[test]
    fn a_chain_is_plain_data() {
        let mut chain = Chain::new("crp/web");
        chain.push(Step::failed("b", Cause::new("broken", "kubectl get b").holding("all")));
        assert_eq!(
            serde_json::to_string(&chain).unwrap(),
            r#"{"subject":"crp/web","steps":[{"name":"b","verdict":"failed","cause":{"text":"broken","holdsBack":"all","next":"kubectl get b"}}]}"#
        );
    }
}
