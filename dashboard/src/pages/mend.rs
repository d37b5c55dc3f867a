//! What needs somebody: placements, members and runs with what is wrong, and what to do.

use std::sync::Arc;

use fleet_core::{
    explain::{self, Cause, Verdict},
    membership::eligibility::eligibility,
};
use maud::{Markup, html};

use super::{Site, parts};
use crate::{
    hub::{Column, Mark},
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
pub(super) fn list(site: &Site<'_>, columns: &[(Name, Arc<Column>)]) -> Markup {
    let all = troubles(site, columns);
    html! {
        section.mend aria-labelledby="mend" {
            h2 id="mend" { "Needs attention" }
            @if all.is_empty() {
                p.fine { (parts::sign(parts::DONE)) "Nothing: every placement is where it should be." }
            }
            ul {
                @for trouble in all.iter().take(SHOWN_MAX) {
                    li class=(parts::of_verdict(trouble.verdict).0) {
                        (parts::sign(parts::of_verdict(trouble.verdict)))
                        a href=(trouble.view.url()) { (trouble.what) }
                        (parts::cause(&trouble.cause))
                    }
                }
            }
            @if all.len() > SHOWN_MAX { p { "and " (all.len() - SHOWN_MAX) " more, see below" } }
        }
    }
}

fn troubles(site: &Site<'_>, columns: &[(Name, Arc<Column>)]) -> Vec<Trouble> {
    let hub = site.hub;
    let now = hub.clock.now();
    let mut gathering = hub.gather();
    // Columns come with the worst first; without any cluster, only the placement itself can say why.
    let placements: Vec<&Name> = columns
        .iter()
        .filter(|(_, column)| column.at_least(Mark::Waiting) > 0 || column.cells.is_empty())
        .map(|(name, _)| name)
        .take(SHOWN_MAX + 1)
        .collect();
    let runs = super::runs::held(hub);
    let runs: Vec<&Name> = runs.iter().take(SHOWN_MAX + 1).collect();
    for name in &placements {
        gathering.placement(name);
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
    for name in placements {
        let chain = explain::placement(&objects.fleet(&name.namespace, now), &name.name);
        all.extend(trouble(
            View::Placement(name.clone(), 0),
            format!("Placement {}", name.shown()),
            &chain,
        ));
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
