//! How placements stand as a whole. Their bindings do not tell everything: who finds too few clusters has good bindings on
//! those that it has found.

use std::sync::Arc;

use fleet_api::{
    conditions::{self, Status, placement::Step},
    kind::{HasSpec as _, HasStatus as _, Resource as _},
    names,
    placement::{ApplyStrategyType, Scope},
};
use fleet_core::explain::{self, Verdict};
use fleet_runtime::Key;

use super::{Cell, Column, Family, Hub, Mark, name};
use crate::view::Name;

/// A placement.
#[derive(Clone)]
pub(crate) struct Stand {
    pub(crate) name: Name,
    /// On every member.
    pub(crate) column: Arc<Column>,
    /// As a whole.
    pub(crate) own: Cell,
}

impl Stand {
    /// The worst there is about it.
    pub(crate) fn worst(&self) -> Mark {
        self.own.mark.max(self.on_clusters())
    }

    /// What its clusters do not tell: it is worse than any of them.
    pub(crate) fn beyond_clusters(&self) -> Option<&Cell> {
        (self.own.mark > self.on_clusters()).then_some(&self.own)
    }

    fn on_clusters(&self) -> Mark {
        let cells = Mark::ALL.into_iter().rev().find(|mark| self.column.count(*mark) > 0);
        cells.unwrap_or(Mark::Done)
    }

    /// Whether it is where it should be; on no cluster at all is nowhere.
    pub(crate) fn is_fine(&self) -> bool {
        self.worst() == Mark::Done && !self.column.cells.is_empty()
    }
}

impl Hub {
    /// All placements, those in trouble first.
    pub(crate) fn stands(&self) -> Vec<Stand> {
        self.grid.keep(&self.placements());
        let mut all = Vec::new();
        of(self, &self.cluster, &mut all);
        of(self, &self.namespaced, &mut all);
        let key = |it: &Stand| {
            let counts = [Mark::Failed, Mark::Drifted, Mark::Waiting].map(|mark| it.column.count(mark));
            (it.worst(), counts)
        };
        all.sort_by(|a, b| key(b).cmp(&key(a)).then_with(|| a.name.cmp(&b.name)));
        all
    }
}

fn of<S: Scope>(hub: &Hub, family: &Family<S>, all: &mut Vec<Stand>) {
    for placement in family.placements.all() {
        let name = name(&Key::of(&*placement));
        let column = hub.grid.column(hub, &name);
        let own = whole::<S>(&placement, &column);
        all.push(Stand { name, column, own });
    }
}

/// How a placement stands as a whole: the first of its steps that is not done.
fn whole<S: Scope>(placement: &S::Placement, column: &Column) -> Cell {
    let (meta, spec) = (placement.meta(), placement.spec());
    let cell = |mark, says: String| Cell { mark, says };
    if meta.deletion_timestamp.is_some() {
        return cell(Mark::Waiting, "is being deleted".to_owned());
    }
    let list = placement
        .status()
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let scope = match meta.namespace {
        Some(_) => names::Scope::Namespaced,
        None => names::Scope::Cluster,
    };
    let strategy = spec.strategy.as_ref().and_then(|it| it.apply_strategy.as_ref());
    let compares = strategy.is_some_and(|it| it.type_ == ApplyStrategyType::ReportDiff);
    let generation = meta.generation.unwrap_or_default();
    for step in std::iter::once(&Step::Scheduled).chain(Step::expected(compares)) {
        let name = step.on_cluster();
        let Some(condition) = conditions::fresh(list, step.on_placement(scope), generation) else {
            return cell(Mark::Waiting, format!("{name}: not yet"));
        };
        let means_failure = explain::meaning(&condition.reason).is_some_and(|it| it.verdict == Verdict::Failed);
        let failed = match (Status::of(condition), step) {
            (Status::True, _) => continue,
            (Status::False, Step::Scheduled) => true,
            // Where clusters are behind, their own signs say how bad that is.
            _ => means_failure && (*step == Step::Scheduled || column.at_least(Mark::Waiting) == 0),
        };
        let mark = if failed { Mark::Failed } else { Mark::Waiting };
        return cell(mark, format!("{name}: {}", condition.reason));
    }
    cell(Mark::Done, String::new())
}
