//! What one pod asks for, counted as kube-scheduler counts it.

use super::quantity::Quantity;

/// Processors and memory: the two resources that a fleet compares clusters by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amounts {
    /// Cores.
    pub cpu: Quantity,
    /// Bytes.
    pub memory: Quantity,
}

impl Amounts {
    /// Nothing.
    pub const ZERO: Self = Self {
        cpu: Quantity::ZERO,
        memory: Quantity::ZERO,
    };

    /// Both sums.
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.plus(other.cpu),
            memory: self.memory.plus(other.memory),
        }
    }

    /// Both differences.
    pub fn minus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.minus(other.cpu),
            memory: self.memory.minus(other.memory),
        }
    }

    /// The larger of each.
    pub fn max(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.max(other.cpu),
            memory: self.memory.max(other.memory),
        }
    }
}

/// An init container's part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitContainer {
    /// What it asks for.
    pub requests: Amounts,
    /// `restartPolicy: Always`: it stays, beside everything that starts after it.
    pub sidecar: bool,
}

/// The parts of a pod that decide what it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodRequests {
    /// Of each container.
    pub containers: Vec<Amounts>,
    /// Of each init container, in order.
    pub init_containers: Vec<InitContainer>,
    /// What the runtime needs besides.
    pub overhead: Amounts,
    /// `spec.resources.requests.cpu`, which replaces what the containers sum up to.
    pub pod_cpu: Option<Quantity>,
    /// `spec.resources.requests.memory`, likewise.
    pub pod_memory: Option<Quantity>,
}

impl PodRequests {
    /// What the pod occupies on its node.
    ///
    /// Containers run together, so they add up. Init containers run one after another before them, each beside the
    /// sidecars that started earlier, so the largest moment counts. Overhead comes on top.
    pub fn total(&self) -> Amounts {
        let mut running = self.containers.iter().fold(Amounts::ZERO, |sum, c| sum.plus(*c));
        let mut sidecars = Amounts::ZERO;
        let mut starting = Amounts::ZERO;
        for init in &self.init_containers {
            let moment = if init.sidecar {
                running = running.plus(init.requests);
                sidecars = sidecars.plus(init.requests);
                sidecars
            } else {
                init.requests.plus(sidecars)
            };
            starting = starting.max(moment);
        }
        let containers = running.max(starting);
        let pod = Amounts {
            cpu: self.pod_cpu.unwrap_or(containers.cpu),
            memory: self.pod_memory.unwrap_or(containers.memory),
        };
        pod.plus(self.overhead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(text: &str) -> Amounts {
        Amounts {
            cpu: text.parse().expect(text),
            memory: Quantity::ZERO,
        }
    }

    fn init(text: &str, sidecar: bool) -> InitContainer {
        InitContainer {
            requests: cpu(text),
            sidecar,
        }
    }

    #[track_caller]
    fn total(containers: &[&str], init_containers: &[InitContainer], overhead: &str, expected: &str) {
        let pod = PodRequests {
            containers: containers.iter().map(|c| cpu(c)).collect(),
            init_containers: init_containers.to_vec(),
            overhead: cpu(overhead),
            ..PodRequests::default()
        };
        assert_eq!(pod.total().cpu.to_string(), expected);
    }

    #[test]
    fn pods_are_counted_as_the_scheduler_counts_them() {
        total(&[], &[], "0", "0");
        total(&["1", "500m"], &[], "0", "1500m");
        total(&["1"], &[], "250m", "1250m");
        // The largest init container counts only where it is larger than the containers together.
        total(&["1", "1"], &[init("1500m", false)], "0", "2");
        total(&["1"], &[init("3", false), init("2", false)], "0", "3");
        // A sidecar runs beside the containers, and beside init containers after it but not before it.
        total(&["1"], &[init("1", true)], "0", "2");
        total(&["1"], &[init("4", false), init("1", true)], "0", "4");
        total(&["1"], &[init("1", true), init("4", false)], "0", "5");
        total(
            &["1"],
            &[init("1", true), init("1", true), init("1", false)],
            "100m",
            "3100m",
        );
    }

    #[test]
    fn requests_of_the_whole_pod_replace_those_of_its_containers() {
        let pod = PodRequests {
            containers: vec![cpu("1")],
            overhead: cpu("1"),
            pod_cpu: Some("3".parse().expect("number")),
            ..PodRequests::default()
        };
        assert_eq!(pod.total().cpu.to_string(), "4");
    }
}
