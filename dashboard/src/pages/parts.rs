//! What several pages show alike. Every state has a sign and a word besides its colour.

use fleet_core::explain::{Cause, Chain, Step, Verdict};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use maud::{Markup, html};

use super::{Site, typed};
use crate::{Act, hub::Mark, view::View};

/// A sign, its class and its word.
pub(super) type Sign = (&'static str, &'static str, &'static str);

pub(super) const DONE: Sign = ("done", "✓", "done");
pub(super) const WAITING: Sign = ("waiting", "◷", "waiting");
pub(super) const DRIFTED: Sign = ("drifted", "≠", "differs");
pub(super) const FAILED: Sign = ("failed", "✗", "failed");
pub(super) const NOT_YET: Sign = ("later", "·", "not reached");

pub(super) fn of_mark(mark: Mark) -> Sign {
    match mark {
        Mark::Done => DONE,
        Mark::Waiting => WAITING,
        Mark::Drifted => DRIFTED,
        Mark::Failed => FAILED,
    }
}

pub(super) fn of_verdict(verdict: Verdict) -> Sign {
    match verdict {
        Verdict::Done => DONE,
        Verdict::Waiting => WAITING,
        Verdict::Failed => FAILED,
        Verdict::NotReached => NOT_YET,
    }
}

/// A sign with its word for those who do not see it.
pub(super) fn sign((class, glyph, word): Sign) -> Markup {
    html! { span class={ "sign " (class) } { span aria-hidden="true" { (glyph) } span.unseen { (word) " " } } }
}

/// A sign with its word, and something more.
pub(super) fn badge((class, glyph, word): Sign, more: &str) -> Markup {
    html! {
        span class={ "badge " (class) } {
            span aria-hidden="true" { (glyph) " " }
            @if more.is_empty() { (word) } @else { (more) }
        }
    }
}

/// A link to another page.
pub(super) fn link(view: &View, text: &str) -> Markup {
    html! { a href=(view.url()) { (text) } }
}

/// A time: the script says how long ago it was.
pub(super) fn when(time: &Time) -> Markup {
    at(time.0)
}

pub(super) fn at(time: Timestamp) -> Markup {
    let exact = time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let shown = time.strftime("%Y-%m-%d %H:%M:%S UTC").to_string();
    html! { time datetime=(exact) title=(shown) { (shown) } }
}

/// A command to be typed, and a button that copies it.
pub(super) fn typed(site: &Site<'_>, text: &str) -> Markup {
    let typed = typed::with(&site.whose.flags, &typed::within(site.hub.namespace.as_deref(), text));
    html! {
        span.command {
            code { (typed.text) }
            @if typed.text.chars().any(is_unseen) {
                // Pasted, it would be another command than the one that was read.
                span.says { "which has characters that cannot be seen" }
            } @else if typed.lacks.is_empty() {
                button.copy type="button" data-copy=(typed.text) hidden { "Copy" }
            } @else {
                // Copied, it would be done by somebody else, or elsewhere.
                span.says { "which has no " @for flag in &typed.lacks { code { "--" (flag) } " " } }
            }
        }
    }
}

/// Whether a character ends a line, or is not seen: such change where text seems to be.
fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

/// The same, and the page that answers it if there is one.
pub(super) fn command(site: &Site<'_>, text: &str) -> Markup {
    html! {
        (typed(site, text))
        @if let Some(view) = View::of_command(text) { " " a.why href=(view.url()) { "Open" } }
    }
}

/// Why something is not done, what it holds back, and what to do next.
pub(super) fn cause(site: &Site<'_>, cause: &Cause) -> Markup {
    html! {
        p.cause { (cause.text) }
        @if !cause.holds_back.is_empty() { p.holds { "Holds back " (cause.holds_back) } }
        @if !cause.next.is_empty() { p.next { "Next: " (command(site, &cause.next)) } }
    }
}

/// An explanation: its steps in order.
pub(super) fn chain(site: &Site<'_>, chain: &Chain) -> Markup {
    html! {
        ol.chain {
            @for step in &chain.steps { (one(site, step)) }
        }
        @for note in &chain.notes {
            div.note { p { (note.text) } p.next { "Next: " (command(site, &note.next)) } }
        }
    }
}

fn one(site: &Site<'_>, step: &Step) -> Markup {
    let sign = of_verdict(step.verdict);
    html! {
        li class=(sign.0) {
            (self::sign(sign))
            strong { (step.name) }
            @if !step.says.is_empty() { " " span.says { (step.says) } }
            @if let Some(since) = &step.since { " " span.since { (when(since)) } }
            @if let Some(why) = &step.cause { (cause(site, why)) }
        }
    }
}

/// The same as a bar: one part for each step.
pub(super) fn bar(chain: &Chain) -> Markup {
    html! {
        ol.bar {
            @for step in &chain.steps {
                @let sign = of_verdict(step.verdict);
                li class=(sign.0) { (self::sign(sign)) (step.name) }
            }
        }
    }
}

/// Buttons that lead to what acts would do; disabled, with the reason, where the user may not.
pub(super) fn buttons(site: &Site<'_>, acts: &[Act]) -> Markup {
    let may = |act: &Act| {
        if site.read_only {
            return Err("Nothing can be changed: the dashboard was started with --read-only.".to_owned());
        }
        site.rights.known(&act.needs())
    };
    let answers: Vec<_> = acts.iter().map(|act| (act, may(act))).collect();
    let mut reasons: Vec<&String> = answers.iter().filter_map(|(_, may)| may.as_ref().err()).collect();
    reasons.dedup();
    html! {
        div.acts {
            @for (act, may) in &answers {
                @match may {
                    Ok(()) => a.button href=(act.url()) data-act=(act.verb()) { (act) "…" },
                    Err(_) => button type="button" disabled data-act=(act.verb()) aria-describedby="may-not" { (act) },
                }
            }
        }
        @if !reasons.is_empty() {
            div.refused id="may-not" { @for reason in reasons { p { (reason) } } }
        }
    }
}

/// A number as a share of another, drawn and written.
pub(super) fn meter(used: i128, of: i128, words: &str) -> Markup {
    let share = used
        .clamp(0, of.max(0))
        .checked_mul(1000)
        .map_or(0, |used| used / of.max(1));
    let width = format!("{}.{}", share / 10, share % 10);
    let class = if share > 900 { "plot high" } else { "plot" };
    html! {
        svg class=(class) viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=(words) {
            rect.all x="0" y="0" width="100" height="8" rx="2" {}
            rect.used x="0" y="0" width=(width) height="8" rx="2" {}
        }
        span.words { (words) }
    }
}

/// Earlier and later pages of a long list.
pub(super) fn pager(page: usize, pages: usize, what: &str, url: impl Fn(usize) -> String) -> Markup {
    html! {
        @if pages > 1 {
            nav.pager aria-label={ "Pages of " (what) } {
                @if page > 0 { a rel="prev" href=(url(page - 1)) { "← earlier " (what) } }
                span { (what) ", page " (page + 1) " of " (pages) }
                @if page + 1 < pages { a rel="next" href=(url(page + 1)) { "more " (what) " →" } }
            }
        }
    }
}

/// One page of a list: which it is, how many there are, and what is on it.
pub(super) fn paged<T>(all: &[T], page: usize, size: usize) -> (usize, usize, &[T]) {
    let pages = all.len().div_ceil(size).max(1);
    let page = page.min(pages - 1);
    let (from, to) = (page * size, ((page + 1) * size).min(all.len()));
    (page, pages, &all[from..to])
}

/// `1 cluster`, `2 clusters`.
pub(super) fn many(count: usize, one: &str) -> String {
    match count {
        1 => format!("1 {one}"),
        count => format!("{count} {one}s"),
    }
}

/// Nothing to show, and what to do about it.
pub(super) fn empty(site: &Site<'_>, says: &str, next: &str) -> Markup {
    html! {
        div.empty {
            p { (says) }
            @if !next.is_empty() { p.next { "Next: " (command(site, next)) } }
        }
    }
}

/// That there is nothing of these kinds, or that nobody knows.
pub(super) fn none(site: &Site<'_>, kinds: &[&str], says: &str, next: &str) -> Markup {
    match site.hub.kinds.unread(kinds) {
        Some(why) => empty(site, &format!("Nobody can say whether there are any: {why}."), ""),
        None => empty(site, says, next),
    }
}
