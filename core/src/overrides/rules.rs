//! Which rules of an override apply on a cluster.

use fleet_api::placement::{ClusterSelectorTerm, OverridePolicy, OverrideRule};

use super::LabelledCluster;
use crate::scheduler::{BadSelector, Selector};

/// A rule that cannot be matched against any cluster.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("override snapshot {snapshot}: overrideRules[{rule}] has an invalid label selector: {source}")]
pub struct BadRule {
    /// The override snapshot, if known.
    pub snapshot: String,
    /// The rule's position.
    pub rule: usize,
    /// What is wrong with it.
    pub source: BadSelector,
}

impl BadRule {
    pub(super) fn in_snapshot(self, snapshot: &str) -> Self {
        Self {
            snapshot: snapshot.into(),
            ..self
        }
    }
}

/// The rules for this cluster, with their positions, in order.
///
/// A rule without cluster selector is for no cluster, one without terms for every cluster; terms are alternatives, and
/// one without label selector selects nothing.
pub fn matching<'a>(
    policy: &'a OverridePolicy,
    cluster: &LabelledCluster<'_>,
) -> Result<Vec<(usize, &'a OverrideRule)>, BadRule> {
    let mut rules = Vec::new();
    for (index, rule) in policy.override_rules.iter().enumerate() {
        let Some(selector) = &rule.cluster_selector else {
            continue;
        };
        let mut matches = selector.cluster_selector_terms.is_empty();
        for term in &selector.cluster_selector_terms {
            let bad = |source| BadRule {
                snapshot: String::new(),
                rule: index,
                source,
            };
            matches |= term_matches(term, cluster).map_err(bad)?;
        }
        if matches {
            rules.push((index, rule));
        }
    }
    Ok(rules)
}

fn term_matches(term: &ClusterSelectorTerm, cluster: &LabelledCluster<'_>) -> Result<bool, BadSelector> {
    let Some(selector) = &term.label_selector else {
        return Ok(false);
    };
    Ok(Selector::new(selector)?.matches(cluster.labels))
}
