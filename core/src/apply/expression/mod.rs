//! What people say of an object's availability: an expression in CEL over the live object, `self`.
//!
//! A tenant writes it and the agent of every member evaluates it, so it must cost little whatever it says. Its length and
//! shape are bounded before a parser sees it ([`parse`]), and each step of its evaluation is paid for out of a budget
//! that also bounds the memory ([`budget`]). Nothing is copied out of the object.

mod budget;
mod evaluate;
mod functions;
mod parse;
mod term;
#[cfg(test)]
mod tests;

use std::rc::Rc;

use serde_json::Value;

use self::{
    budget::Budget,
    evaluate::{Scope, evaluate},
    term::Term,
};

/// What the live object is called.
const NAMES: [&str; 2] = ["self", "object"];

/// The longest text of an answer, in bytes: it becomes part of a condition.
const TEXT_MAX: usize = 300;

/// What an expression says of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// It is true.
    Holds,
    /// It is false, or asks for a status that nobody has written yet.
    DoesNot,
    /// It cannot be decided, for this reason.
    Wrong(String),
}

/// Why an expression has no value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// Something that the object does not have, by the name that the expression gives it.
    Absent(Rc<str>),
    Wrong(Rc<str>),
    TooCostly,
}

impl Fault {
    fn wrong(text: impl AsRef<str>) -> Self {
        Self::Wrong(text.as_ref().into())
    }

    fn text(&self) -> String {
        match self {
            Self::Absent(name) => format!("no such key: {name}"),
            Self::Wrong(text) => text.as_ref().to_owned(),
            Self::TooCostly => "it costs too much on this object".to_owned(),
        }
    }
}

/// What `expression` says of `object`.
pub(super) fn judge(expression: &str, object: &Value) -> Answer {
    let tree = match parse::parse(expression) {
        Ok(tree) => tree,
        Err(text) => return Answer::Wrong(cut(&text, TEXT_MAX).to_owned()),
    };
    let [name, other] = NAMES;
    let live = Ok(Term::of(object));
    let outer = Scope {
        name: other,
        value: live.clone(),
        outer: None,
    };
    let scope = Scope {
        name,
        value: live,
        outer: Some(&outer),
    };
    match evaluate(&mut Budget::full(), &tree, &scope) {
        Ok(Term::Bool(true)) => Answer::Holds,
        Ok(Term::Bool(false)) => Answer::DoesNot,
        Ok(other) => Answer::Wrong(format!("it is {}, not true or false", other.kind())),
        Err(Fault::Absent(name)) if &*name == "status" && object.get("status").is_none() => Answer::DoesNot,
        Err(fault) => Answer::Wrong(cut(&fault.text(), TEXT_MAX).to_owned()),
    }
}

/// The beginning of `text`, at most so many bytes.
fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}
