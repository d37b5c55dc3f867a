//! The pages: each takes what it needs from the hub's stores and says what it shows, for whom a terminal says the same.

mod act;
mod difference;
mod fleet;
mod member;
mod members;
mod mend;
mod on;
mod parts;
mod placement;
mod placements;
mod run;
mod runs;
mod shell;
mod snapshots;
mod timeline;
mod typed;

use maud::{Markup, html};

pub(crate) use self::{
    act::{asked, done},
    run::approving,
    shell::{fragment, onward, refused, whole},
};
use crate::{
    hub::Hub,
    rights::Rights,
    view::{self, Name, View},
};
pub(crate) use snapshots::changes;
pub use typed::Flags;

/// What all pages are made with.
pub(crate) struct Site<'a> {
    pub(crate) hub: &'a Hub,
    pub(crate) rights: &'a Rights,
    /// Whose hub it is: the context, its server, and the user.
    pub(crate) whose: &'a Whose,
    /// Nothing can be changed, because it was started so.
    pub(crate) read_only: bool,
    /// What forms carry.
    pub(crate) form: &'a str,
}

/// Whose hub it is.
#[derive(Debug, Clone, Default)]
pub(crate) struct Whose {
    pub(crate) context: String,
    pub(crate) server: String,
    pub(crate) user: String,
    pub(crate) flags: Flags,
}

/// What a page shows.
pub(crate) struct Page {
    pub(crate) title: String,
    /// The command that says the same.
    pub(crate) command: String,
    pub(crate) body: Markup,
}

/// The page of a view. What is not there has a page too: it may come.
pub(crate) fn page(site: &Site<'_>, view: &View) -> Page {
    if let Some(odd) = view.names().into_iter().find(|name| !view::fits(name)) {
        return nobody(site, odd);
    }
    if let Some(name) = view.object().filter(|name| site.hub.passes_over(&name.namespace)) {
        return elsewhere(site, name);
    }
    match view {
        View::Fleet(filter) => fleet::page(site, filter),
        View::Placements(number) => placements::page(site, *number),
        View::Placement(name, turned) => placement::page(site, name, *turned),
        View::On(name, cluster) => on::page(site, name, cluster),
        View::Differences(name) => difference::page(site, name),
        // What two of them hold is read when it is asked for, and does not change.
        View::Snapshots(name) | View::Changes(name, ..) => snapshots::page(site, name),
        View::Runs(number) => runs::page(site, *number),
        View::Run(name) => run::page(site, name),
        View::Members(number) => members::page(site, *number),
        View::Member(name) => member::page(site, name),
        View::Timeline(about) => timeline::page(site, about.as_ref()),
    }
}

/// A name that nothing can have. Commands are made from names, and this one must not get into a shell.
fn nobody(site: &Site<'_>, odd: &str) -> Page {
    let body = html! {
        h1 { "There is no such name" }
        (parts::empty(site, &format!("Nothing can be called {odd:?}: names have letters, digits, dashes and dots."), ""))
    };
    Page {
        title: "No such name".into(),
        command: String::new(),
        body,
    }
}

/// Something in a namespace that is not looked at: nobody here knows whether it is there.
fn elsewhere(site: &Site<'_>, name: &Name) -> Page {
    let body = html! {
        h1 { (name.shown()) }
        (parts::empty(site, "Its namespace is not looked at: the dashboard was started for another one.", ""))
    };
    Page {
        title: name.shown().into_owned(),
        command: String::new(),
        body,
    }
}

/// The acts that a page offers, so that their rights can be asked for before it is rendered.
pub(crate) fn acts(hub: &Hub, view: &View) -> Vec<crate::Act> {
    match view {
        View::Run(name) => run::acts(hub, name),
        View::Member(name) => member::acts(hub, name),
        _ => Vec::new(),
    }
}
