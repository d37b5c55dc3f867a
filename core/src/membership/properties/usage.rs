//! Running sums over a cluster's nodes and pods: one addition or subtraction per change, whatever the size.

use std::collections::BTreeMap;

use super::quantity::{Format, Quantity};
use super::requests::Amounts;

/// The SKU under which nodes without one are counted.
pub const UNDEFINED_SKU: &str = "undefined";

/// The parts of a node that count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeFacts {
    /// What it has.
    pub capacity: Amounts,
    /// What pods may use of it.
    pub allocatable: Amounts,
    /// Its instance type, empty if it has none.
    pub sku: String,
}

/// What all nodes and pods of a cluster sum up to.
#[derive(Debug, Default)]
pub struct Usage {
    nodes: BTreeMap<Box<str>, NodeFacts>,
    pods: BTreeMap<Box<str>, Amounts>,
    skus: BTreeMap<String, usize>,
    capacity: Sum,
    allocatable: Sum,
    requested: Sum,
}

/// One sum of both resources, with the formats of its operands.
#[derive(Debug, Default, Clone)]
struct Sum {
    cpu: Total,
    memory: Total,
}

/// A sum that also counts in which formats its operands came. Operands come and go, so "the first one's format" would
/// depend on history; the most frequent does not, and is the same wherever all operands agree.
#[derive(Debug, Default, Clone)]
struct Total {
    nanos: i128,
    formats: [u32; 3],
}

impl Total {
    fn add(&mut self, operand: Quantity) {
        self.nanos += operand.nanos();
        if !operand.is_zero() {
            self.formats[operand.format() as usize] += 1;
        }
    }

    fn subtract(&mut self, operand: Quantity) {
        self.nanos -= operand.nanos();
        if !operand.is_zero() {
            self.formats[operand.format() as usize] -= 1;
        }
    }

    fn quantity(&self) -> Quantity {
        let [decimal, binary, exponent] = self.formats;
        let format = if binary >= decimal && binary >= exponent && binary > 0 {
            Format::BinarySi
        } else if decimal >= exponent {
            Format::DecimalSi
        } else {
            Format::DecimalExponent
        };
        Quantity::from_nanos(self.nanos, format)
    }
}

impl Sum {
    fn add(&mut self, operand: Amounts) {
        self.cpu.add(operand.cpu);
        self.memory.add(operand.memory);
    }

    fn subtract(&mut self, operand: Amounts) {
        self.cpu.subtract(operand.cpu);
        self.memory.subtract(operand.memory);
    }

    fn amounts(&self) -> Amounts {
        Amounts {
            cpu: self.cpu.quantity(),
            memory: self.memory.quantity(),
        }
    }
}

impl Usage {
    /// A node appeared or changed. True if anything that is reported changed.
    pub fn set_node(&mut self, name: &str, facts: NodeFacts) -> bool {
        if self.nodes.get(name) == Some(&facts) {
            return false;
        }
        self.remove_node(name);
        self.capacity.add(facts.capacity);
        self.allocatable.add(facts.allocatable);
        *self.skus.entry(sku(&facts).to_owned()).or_default() += 1;
        self.nodes.insert(name.into(), facts);
        true
    }

    /// A node is really gone. True if it was there.
    pub fn remove_node(&mut self, name: &str) -> bool {
        let Some(facts) = self.nodes.remove(name) else {
            return false;
        };
        self.capacity.subtract(facts.capacity);
        self.allocatable.subtract(facts.allocatable);
        if let Some(count) = self.skus.get_mut(sku(&facts)) {
            *count -= 1;
            if *count == 0 {
                self.skus.remove(sku(&facts));
            }
        }
        true
    }

    /// A pod occupies this much, or nothing (not on a node, or finished). Keyed by uid or namespace and name.
    pub fn set_pod(&mut self, key: &str, occupies: Option<Amounts>) {
        if let Some(old) = self.pods.remove(key) {
            self.requested.subtract(old);
        }
        if let Some(new) = occupies {
            self.requested.add(new);
            self.pods.insert(key.into(), new);
        }
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, key: &str) {
        self.set_pod(key, None);
    }

    /// How many nodes, in any state.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Nodes by SKU.
    pub fn skus(&self) -> &BTreeMap<String, usize> {
        &self.skus
    }

    /// What all nodes have.
    pub fn capacity(&self) -> Amounts {
        self.capacity.amounts()
    }

    /// What pods may use of it.
    pub fn allocatable(&self) -> Amounts {
        self.allocatable.amounts()
    }

    /// What pods have asked for.
    pub fn requested(&self) -> Amounts {
        self.requested.amounts()
    }

    /// What no pod has asked for; never below zero, even on an over-committed cluster.
    pub fn available(&self) -> Amounts {
        self.allocatable().minus(self.requested()).max(Amounts::ZERO)
    }
}

fn sku(facts: &NodeFacts) -> &str {
    if facts.sku.is_empty() {
        UNDEFINED_SKU
    } else {
        &facts.sku
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(cpu: &str, memory: &str) -> Amounts {
        Amounts {
            cpu: cpu.parse().expect(cpu),
            memory: memory.parse().expect(memory),
        }
    }

    fn node(cpu: &str, memory: &str) -> NodeFacts {
        NodeFacts {
            capacity: amounts(cpu, memory),
            allocatable: amounts(cpu, memory),
            sku: String::new(),
        }
    }

    #[test]
    fn available_is_what_no_pod_has_asked_for() {
        let mut usage = Usage::default();
        usage.set_node("n1", node("4", "8Gi"));
        usage.set_pod("a", Some(amounts("280m", "1Mi")));
        assert_eq!(usage.available().cpu.to_string(), "3720m");
        assert_eq!(usage.available().memory.to_string(), "8191Mi");
        usage.set_pod("b", Some(amounts("40", "1Ki")));
        assert_eq!(usage.available().cpu.to_string(), "0");
        usage.set_pod("b", None);
        assert_eq!(usage.available().cpu.to_string(), "3720m");
    }

    #[test]
    fn nodes_without_a_sku_count_as_undefined() {
        let mut usage = Usage::default();
        usage.set_node("n1", node("1", "1"));
        usage.set_node(
            "n2",
            NodeFacts {
                sku: "D4".into(),
                ..node("1", "1")
            },
        );
        usage.set_node(
            "n2",
            NodeFacts {
                sku: "D8".into(),
                ..node("1", "1")
            },
        );
        assert_eq!(
            usage.skus(),
            &BTreeMap::from([("D8".into(), 1), ("undefined".into(), 1)])
        );
        assert!(!usage.set_node("n1", node("1", "1")), "nothing changed");
    }

    #[test]
    fn sums_are_exact_after_ten_thousand_random_steps() {
        let mut rng = fastrand::Rng::with_seed(7);
        let mut usage = Usage::default();
        let mut nodes: BTreeMap<String, NodeFacts> = BTreeMap::new();
        let mut pods: BTreeMap<String, Amounts> = BTreeMap::new();
        for step in 0..10_000 {
            let key = format!("k{}", rng.u32(0..80));
            let cpu = ["0", "100m", "1", "1500m", "3n", "0.1"][rng.usize(0..6)];
            let memory = ["0", "1Ki", "1Gi", "1000Ki", "3Mi"][rng.usize(0..5)];
            match rng.u32(0..6) {
                0 | 1 => {
                    let facts = NodeFacts {
                        sku: format!("s{}", rng.u32(0..3)),
                        ..node(cpu, memory)
                    };
                    usage.set_node(&key, facts.clone());
                    nodes.insert(key, facts);
                }
                2 => assert_eq!(usage.remove_node(&key), nodes.remove(&key).is_some()),
                3 | 4 => {
                    usage.set_pod(&key, Some(amounts(cpu, memory)));
                    pods.insert(key, amounts(cpu, memory));
                }
                _ => {
                    usage.remove_pod(&key);
                    pods.remove(&key);
                }
            }
            if step % 100 == 99 {
                let capacity = nodes.values().fold(Amounts::ZERO, |sum, n| sum.plus(n.capacity));
                let requested = pods.values().fold(Amounts::ZERO, |sum, p| sum.plus(*p));
                assert_eq!(usage.capacity(), capacity, "step {step}");
                assert_eq!(
                    usage.capacity().memory.to_string(),
                    capacity.memory.to_string(),
                    "step {step}"
                );
                assert_eq!(usage.requested(), requested, "step {step}");
                assert_eq!(usage.skus().values().sum::<usize>(), nodes.len(), "step {step}");
                assert_eq!(
                    usage.available(),
                    capacity.minus(requested).max(Amounts::ZERO),
                    "step {step}"
                );
            }
        }
        for node in usage.nodes.keys().cloned().collect::<Vec<_>>() {
            usage.remove_node(&node);
        }
        for pod in usage.pods.keys().cloned().collect::<Vec<_>>() {
            usage.remove_pod(&pod);
        }
        assert_eq!(usage.capacity(), Amounts::ZERO);
        assert_eq!(usage.requested().memory.to_string(), "0");
        assert!(usage.skus().is_empty());
    }
}
