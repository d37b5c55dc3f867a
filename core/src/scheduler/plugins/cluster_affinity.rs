//! ClusterAffinity: which clusters a policy requires, and which it prefers.

use std::cmp::Ordering;

use fleet_api::conditions::decision::Rejection;
use fleet_api::placement::{
    ClusterAffinity, ClusterSelectorTerm, PlacementPolicy, PreferredClusterSelector, PropertyOperator,
    PropertyRequirement, SortOrder,
};

use crate::membership::properties::Quantity;
use crate::scheduler::plan::Problem;
use crate::scheduler::property::Property;
use crate::scheduler::selector::Selector;
use crate::scheduler::world::Cluster;

/// What a policy requires of a cluster: one of the terms. No terms require nothing.
#[derive(Debug, Clone, Default)]
pub struct Required {
    terms: Vec<Term>,
}

#[derive(Debug, Clone)]
struct Term {
    labels: Option<Selector>,
    properties: Vec<Expression>,
}

#[derive(Debug, Clone)]
struct Expression {
    property: Property,
    operator: Operator,
    value: Quantity,
}

#[derive(Debug, Clone, Copy)]
enum Operator {
    Eq,
    Ne,
    Gt,
    Ge,
    Lt,
    Le,
}

fn cluster_affinity(policy: Option<&PlacementPolicy>) -> Option<&ClusterAffinity> {
    policy?.affinity.as_ref()?.cluster_affinity.as_ref()
}

impl Required {
    /// What `policy` requires.
    pub fn new(policy: Option<&PlacementPolicy>) -> Result<Self, Problem> {
        let required = cluster_affinity(policy)
            .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution.as_ref());
        let terms = required
            .into_iter()
            .flat_map(|required| &required.cluster_selector_terms);
        Ok(Self {
            terms: terms.map(Term::new).collect::<Result<_, _>>()?,
        })
    }

    /// Rejects a cluster that matches no term.
    ///
    /// A value that cannot be compared makes its term undecidable for this cluster only: the fault is the cluster's, and
    /// others are not to suffer for it.
    pub fn filter(&self, cluster: &Cluster<'_>) -> Result<(), Rejection> {
        if self.terms.is_empty() {
            return Ok(());
        }
        let mut why = Rejection::Affinity;
        for term in &self.terms {
            match term.matches(cluster) {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(undecidable) => why = undecidable,
            }
        }
        Err(why)
    }

    /// The label keys that the answer depends on.
    pub fn label_keys(&self) -> impl Iterator<Item = &str> {
        self.terms
            .iter()
            .filter_map(|term| term.labels.as_ref())
            .flat_map(Selector::keys)
    }

    /// The properties that the answer depends on.
    pub fn properties(&self) -> impl Iterator<Item = &Property> {
        self.terms
            .iter()
            .flat_map(|term| &term.properties)
            .map(|expression| &expression.property)
    }
}

impl Term {
    fn new(term: &ClusterSelectorTerm) -> Result<Self, Problem> {
        let expressions = term
            .property_selector
            .iter()
            .flat_map(|selector| &selector.match_expressions);
        Ok(Self {
            labels: term.label_selector.as_ref().map(Selector::new).transpose()?,
            properties: expressions.map(Expression::new).collect::<Result<_, _>>()?,
        })
    }

    fn matches(&self, cluster: &Cluster<'_>) -> Result<bool, Rejection> {
        if self
            .labels
            .as_ref()
            .is_some_and(|labels| !labels.matches(cluster.labels))
        {
            return Ok(false);
        }
        for expression in &self.properties {
            if !expression.holds(cluster)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl Expression {
    fn new(requirement: &PropertyRequirement) -> Result<Self, Problem> {
        let PropertyRequirement { name, operator, values } = requirement;
        let bad_values = || Problem::PropertyValues {
            property: name.clone(),
            values: values.clone(),
        };
        let [value] = values.as_slice() else {
            return Err(bad_values());
        };
        Ok(Self {
            property: Property::new(name)?,
            operator: match operator {
                PropertyOperator::Eq => Operator::Eq,
                PropertyOperator::Ne => Operator::Ne,
                PropertyOperator::Gt => Operator::Gt,
                PropertyOperator::Ge => Operator::Ge,
                PropertyOperator::Lt => Operator::Lt,
                PropertyOperator::Le => Operator::Le,
                PropertyOperator::Unknown(word) => return Err(Problem::PropertyOperator(word.to_string())),
            },
            value: value.parse().map_err(|_| bad_values())?,
        })
    }

    /// A cluster that does not report the property matches nothing, not even `Ne`.
    fn holds(&self, cluster: &Cluster<'_>) -> Result<bool, Rejection> {
        let observed = self.property.quantity(cluster).map_err(|error| Rejection::Property {
            property: self.property.to_string(),
            error: error.to_string(),
        })?;
        Ok(observed.is_some_and(|observed| {
            let order = observed.cmp(&self.value);
            match self.operator {
                Operator::Eq => order == Ordering::Equal,
                Operator::Ne => order != Ordering::Equal,
                Operator::Gt => order == Ordering::Greater,
                Operator::Ge => order != Ordering::Less,
                Operator::Lt => order == Ordering::Less,
                Operator::Le => order != Ordering::Greater,
            }
        }))
    }
}

/// What a policy prefers, prepared for one fleet.
#[derive(Debug)]
pub struct Preferred {
    terms: Vec<Preference>,
}

#[derive(Debug)]
struct Preference {
    weight: i32,
    labels: Option<Selector>,
    sorter: Option<Ranking>,
}

/// How a property ranks clusters.
#[derive(Debug)]
struct Ranking {
    property: Property,
    order: SortOrder,
    /// The least and the greatest value in the whole fleet; none if they are the same or nobody has one.
    range: Option<(f64, f64)>,
}

impl Preferred {
    /// What `policy` prefers in a fleet of `clusters`, which are all clusters: also those that cannot be picked take part
    /// in the ranking.
    pub fn new(policy: Option<&PlacementPolicy>, clusters: &[&Cluster<'_>]) -> Result<Self, Problem> {
        let preferred = cluster_affinity(policy)
            .into_iter()
            .flat_map(|affinity| &affinity.preferred_during_scheduling_ignored_during_execution);
        // A term without weight cannot matter, whatever is wrong with it.
        let terms = preferred.filter(|term| term.weight != 0);
        Ok(Self {
            terms: terms
                .map(|term| Preference::new(term, clusters))
                .collect::<Result<_, _>>()?,
        })
    }

    /// How much the policy likes `cluster`.
    pub fn score(&self, cluster: &Cluster<'_>) -> i32 {
        self.terms
            .iter()
            .map(|term| term.score(cluster))
            .fold(0, i32::saturating_add)
    }
}

impl Preference {
    fn new(term: &PreferredClusterSelector, clusters: &[&Cluster<'_>]) -> Result<Self, Problem> {
        let PreferredClusterSelector { weight, preference } = term;
        let sorter = preference.property_sorter.as_ref().map(|sorter| {
            let property = Property::new(&sorter.name)?;
            let range = range(clusters.iter().filter_map(|cluster| number(&property, cluster)));
            Ok::<_, Problem>(Ranking {
                property,
                order: sorter.sort_order,
                range,
            })
        });
        Ok(Self {
            weight: *weight,
            labels: preference.label_selector.as_ref().map(Selector::new).transpose()?,
            sorter: sorter.transpose()?,
        })
    }

    fn score(&self, cluster: &Cluster<'_>) -> i32 {
        if self
            .labels
            .as_ref()
            .is_some_and(|labels| !labels.matches(cluster.labels))
        {
            return 0;
        }
        let Some(Ranking { property, order, range }) = &self.sorter else {
            return self.weight;
        };
        let (Some((least, greatest)), Some(value)) = (range, number(property, cluster)) else {
            return 0;
        };
        let share = (value - least) / (greatest - least);
        let share = match order {
            SortOrder::Descending => share,
            SortOrder::Ascending => 1.0 - share,
        };
        let score = (f64::from(self.weight) * share).round();
        #[expect(clippy::cast_possible_truncation, reason = "between zero and the weight")]
        let score = score as i32;
        score
    }
}

/// The value by which `cluster` is ranked. One that is no number ranks like one that is not reported: a preference never
/// excludes a cluster.
fn number(property: &Property, cluster: &Cluster<'_>) -> Option<f64> {
    property.quantity(cluster).ok().flatten().map(Quantity::as_f64)
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let (least, greatest) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(least, greatest), v| {
        (least.min(v), greatest.max(v))
    });
    (least < greatest).then_some((least, greatest))
}
