//! What is around every page: where one is, whose hub it is, and what may be old or hidden.

use fleet_api::{kind::Kind as _, placement::ResourcePlacement};
use maud::{DOCTYPE, Markup, html};

use super::{Page, Site, parts};
use crate::{
    door::Refusal,
    hub::{Reception, unreadable},
    view::View,
};

/// A whole page. Its live part is what [`fragment`] sends again when something changes.
pub(crate) fn whole(site: &Site<'_>, page: &Page, live: Option<&str>, at: Option<&View>) -> Markup {
    let here = |view: &View| (at.map(section) == Some(section(view))).then_some("page");
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(&page.title))
            body {
                a.skip href="#page" { "Skip to the page" }
                header {
                    a.brand href="/" { img src="/assets/icon.svg" alt="" width="20" height="20"; "Flotilla" }
                    nav aria-label="Pages" {
                        @for (view, word) in [
                            (View::fleet(), "Fleet"), (View::Placements(0), "Placements"), (View::Runs(0), "Runs"),
                            (View::Members(0), "Members"), (View::Timeline(None), "Timeline"),
                        ] {
                            a href=(view.url()) aria-current=[here(&view)] { (word) }
                        }
                    }
                    div.whose {
                        span title=(site.whose.server) { (site.whose.context) }
                        @if !site.whose.user.is_empty() { span { (site.whose.user) } }
                        @if site.read_only { span.badge { "read only" } }
                    }
                }
                main id="page" tabindex="-1" data-live=[live] { (fragment(site, page)) }
            }
        }
    }
}

/// The part of a page that changes.
pub(crate) fn fragment(site: &Site<'_>, page: &Page) -> Markup {
    html! {
        div id="fragment" data-title=(page.title) {
            (alone(site))
            (reception(&site.hub.kinds.reception(), site.hub.namespace.is_some()))
            (page.body)
            @if !page.command.is_empty() {
                footer { "In a terminal: " (parts::typed(site, &page.command)) }
            }
        }
    }
}

fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · Flotilla" }
            link rel="icon" href="/assets/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/assets/style.css";
            script src="/assets/live.js" defer {}
        }
    }
}

/// That only one namespace is looked at.
fn alone(site: &Site<'_>) -> Markup {
    html! {
        @if let Some(namespace) = &site.hub.namespace {
            div.banner role="note" {
                strong { "Namespace " (namespace) " alone." }
                " Placements and runs of other namespaces are not looked at, nor are Events that are not in it."
            }
        }
    }
}

/// What the user should know of what is shown.
fn reception(reception: &Reception, alone: bool) -> Markup {
    let Reception {
        forbidden,
        missing,
        lost,
        odd,
        starting,
        stale,
    } = reception;
    html! {
        @if let Some((since, why)) = stale {
            div.banner.stale role="status" {
                strong { "Stale since " (parts::at(*since)) "." }
                " " span.says { (why) }
            }
        }
        @if !starting.is_empty() {
            div.banner role="status" { "Reading " (starting.join(", ")) " …" }
        }
        @if !forbidden.is_empty() {
            div.banner role="note" {
                strong { "Hidden: " } (forbidden.join(", "))
                ". You lack the right to list and watch them"
                @if !alone { " in all namespaces" }
                ", so what they would tell is missing here."
                @if !alone && forbidden.contains(&ResourcePlacement::CRD.plural) {
                    " If you have it in one namespace, start the dashboard with " code { "-n" } "."
                }
            }
        }
        @for (kind, names) in odd {
            div.banner.stale role="status" {
                strong { "Not shown: " } (unreadable(kind, names))
                ". They are not as this program knows them: they were changed by hand, or are of another version."
            }
        }
        @for (kind, since) in lost {
            div.banner.stale role="status" {
                strong { "Stale since " (parts::at(*since)) ": " (kind) }
                ". They cannot be read any more: you have lost the right, or the hub has lost them. What is shown of them is from before."
            }
        }
        @if !missing.is_empty() {
            div.banner role="note" {
                strong { "Not on this hub: " } (missing.join(", "))
                ". Their CRDs are not installed, or older than this program."
            }
        }
    }
}

/// What is said to whom is not let in, or asks for what is not there.
pub(crate) fn refused(title: &str, says: &str) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title))
            body {
                main.alone id="page" {
                    h1 { (title) }
                    p { (says) "." }
                    p { a href="/" { "To the fleet" } }
                }
            }
        }
    }
}

/// What is said to a browser that comes from elsewhere, or has just been let in: it goes on from a page of ours, so that the
/// cookie counts.
pub(crate) fn onward(view: &View) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="refresh" content={ "0;url=" (view.url()) };
                title { "Flotilla" }
                link rel="stylesheet" href="/assets/style.css";
            }
            body { main.alone { p { a href=(view.url()) { "To the page" } } } }
        }
    }
}

impl Refusal {
    pub(crate) fn page(self) -> Markup {
        let text = self.to_string();
        let mut says = text.chars();
        let says: String = says
            .next()
            .map(|first| first.to_uppercase().chain(says).collect())
            .unwrap_or_default();
        refused("Not let in", &says)
    }
}

/// Which entry of the menu a page belongs to.
fn section(view: &View) -> u8 {
    match view {
        View::Fleet(_) => 0,
        View::Placements(_)
        | View::Placement(..)
        | View::On(..)
        | View::Differences(_)
        | View::Snapshots(_)
        | View::Changes(..) => 1,
        View::Runs(_) | View::Run(_) => 2,
        View::Members(_) | View::Member(_) => 3,
        View::Timeline(_) => 4,
    }
}
