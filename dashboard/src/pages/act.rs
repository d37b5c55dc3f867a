//! Before something is changed: what it would do. Afterwards: what it has done.

use maud::{Markup, html};

use super::{Page, Site, parts};
use crate::{
    acts::{Act, Effect, Outcome},
    view::View,
};

/// What an act would do, and the button that does it.
pub(crate) fn asked(site: &Site<'_>, act: &Act, effect: Result<Effect, String>) -> Page {
    let may = if site.read_only {
        Err("The dashboard was started with --read-only.".to_owned())
    } else {
        site.rights.known(&act.needs())
    };
    let (may, effect) = match (may, effect) {
        (Ok(()), Err(why)) => (Err(why), Effect::default()),
        (may, effect) => (may, effect.unwrap_or_default()),
    };
    let body = html! {
        // The heading has the focus, not the button: a key that is held down while the page comes must change nothing.
        h1 tabindex="-1" autofocus { (act) "?" }
        section.card {
            h2 { "What it does" }
            (shown(&effect))
            @match &may {
                Ok(()) => {
                    form.act method="post" action="/act" {
                        input type="hidden" name="form" value=(site.form);
                        @for (name, value) in act.fields() { input type="hidden" name=(name) value=(value); }
                        button.go { (act) }
                        " " a href=(act.about().url()) { "Leave it" }
                    }
                },
                Err(why) => {
                    p.refused role="alert" { (parts::sign(parts::FAILED)) (why) }
                    p { a href=(act.about().url()) { "Back" } }
                },
            }
        }
    };
    page(act, body)
}

/// What an act has done.
pub(crate) fn done(act: &Act, effect: &Result<Effect, String>) -> Page {
    let body = html! {
        h1 { (act) }
        section.card role="status" {
            @match effect {
                Ok(effect) => {
                    @if effect.left { p { (parts::sign(parts::WAITING)) "Not everything is done. What is left:" } }
                    @else { p.fine { (parts::sign(parts::DONE)) "Done." } }
                    (shown(effect))
                },
                Err(why) => p.refused role="alert" { (parts::sign(parts::FAILED)) (why) },
            }
            p { a.button href=(act.about().url()) autofocus { "Back to what it is about" } }
        }
    };
    page(act, body)
}

fn page(act: &Act, body: Markup) -> Page {
    Page {
        title: act.to_string(),
        command: act.command(),
        body,
    }
}

fn shown(effect: &Effect) -> Markup {
    html! {
        @for line in &effect.says { p { (line) } }
        @if !effect.rows.is_empty() {
            div.scroll {
                table.list {
                    thead { tr { th { "Placement" } th { "Becomes" } th { "Why" } } }
                    tbody {
                        @for row in &effect.rows {
                            @let sign = match row.outcome {
                                Outcome::Good => parts::DONE,
                                Outcome::Held => parts::WAITING,
                                Outcome::Refused => parts::FAILED,
                            };
                            tr {
                                td { (parts::link(&View::placement(row.name.clone()), &row.name.shown())) }
                                td { (parts::badge(sign, &row.word)) }
                                td { (row.why) }
                            }
                        }
                    }
                }
            }
        }
    }
}
