//! What needs somebody: placements, members and runs with what is wrong, and what to do.

use fleet_core::{
    explain::{self, Cause, Verdict},
    membership::eligibility::eligibility,
};
use maud::{Markup, html};

use super::{Site, parts};
use crate::{
    hub::{Mark, Stand},
    view::{Name, View},
};

/// Nobody repairs more at once; the matrix has the rest.
const SHOWN_MAX: usize = 6;

struct Trouble {
    view: View,
    what: String,
    verdict: Verdict,
    cause: Cause,
}

/// The list, or that all is well.
pub(super) fn list(site: &Site<'_>, stands: &[Stand]) -> Markup {
    let all = troubles(site, stands);
    html! {
        section.mend aria-labelledby="mend" {
            h2 id="mend" { "Needs attention" }
            @if all.is_empty() {
                @match site.hub.gaps() {
                    None => p.fine { (parts::sign(parts::DONE)) "Nothing: every placement is where it should be." },
                    Some(gaps) => p { (parts::sign(parts::WAITING)) "Nothing that is known, but not everything is known: " (gaps) "." },
                }
            }
            ul {
                @for trouble in all.iter().take(SHOWN_MAX) {
                    li class=(parts::of_verdict(trouble.verdict).0) id={ "mend-" (trouble.view.url()) } {
                        (parts::sign(parts::of_verdict(trouble.verdict)))
                        a href=(trouble.view.url()) { (trouble.what) }
                        (parts::cause(site, &trouble.cause))
                    }
                }
            }
            @if all.len() > SHOWN_MAX { p { "and " (all.len() - SHOWN_MAX) " more, see below" } }
        }
    }
}

fn troubles(site: &Site<'_>, stands: &[Stand]) -> Vec<Trouble> {
    let hub = site.hub;
    let now = hub.clock.now();
    let mut gathering = hub.gather();
    // They come with the worst first; without any cluster, only the placement itself can say why.
    let placements: Vec<&Stand> = stands.iter().filter(|it| !it.is_fine()).take(SHOWN_MAX + 1).collect();
    let runs = super::runs::held(hub);
    let runs: Vec<&Name> = runs.iter().take(SHOWN_MAX + 1).collect();
    for stand in &placements {
        gathering.placement(&stand.name);
    }
    for name in &runs {
        gathering.run(name);
    }
    let objects = &gathering.objects;
    let mut all = Vec::new();
    for name in runs {
        let chain = explain::run(&objects.fleet(&name.namespace, now), &name.name);
        all.extend(trouble(
            View::Run(name.clone()),
            format!("Run {}", name.shown()),
            &chain,
        ));
    }
    for stand in placements {
        let name = &stand.name;
        let chain = explain::placement(&objects.fleet(&name.namespace, now), &name.name);
        let view = View::placement(name.clone());
        let what = format!("Placement {}", name.shown());
        let explained = trouble(view.clone(), what.clone(), &chain);
        all.push(explained.unwrap_or_else(|| unexplained(stand, view, what)));
    }
    let unusable = objects
        .members
        .iter()
        .filter(|member| eligibility(member, now).is_err());
    for member in unusable.take(SHOWN_MAX + 1) {
        let name = member.metadata.name.clone().unwrap_or_default();
        let chain = explain::member(&objects.fleet("", now), &name);
        all.extend(trouble(View::Member(name.clone()), format!("Member {name}"), &chain));
    }
    // Whoever has to repair something comes before whoever waits.
    all.sort_by_key(|trouble| trouble.verdict != Verdict::Failed);
    all
}

fn trouble(view: View, what: String, chain: &explain::Chain) -> Option<Trouble> {
    Some(Trouble {
        view,
        what,
        verdict: chain.verdict(),
        cause: chain.cause()?.clone(),
    })
}

/// What is not as it should be although every step is done: a drift that stops nothing.
fn unexplained(stand: &Stand, view: View, what: String) -> Trouble {
    let name = &stand.name;
    let cells = stand.column.cells.iter();
    let worst = cells.max_by(|(a, one), (b, two)| one.mark.cmp(&two.mark).then_with(|| b.cmp(a)));
    let worst = worst.filter(|(_, cell)| cell.mark >= stand.own.mark);
    let (says, cluster) = match worst {
        Some((cluster, cell)) => (format!("{cluster}: {}", cell.says), format!(" {cluster}")),
        None => (stand.own.says.clone(), String::new()),
    };
    let kind = name.word("crp", "rp");
    let next = format!("kubectl fleet why {kind}/{}{cluster}{}", name.name, name.flag());
    Trouble {
        view,
        what,
        verdict: if stand.worst() == Mark::Failed {
            Verdict::Failed
        } else {
            Verdict::Waiting
        },
        cause: Cause::new(says, next),
    }
}
