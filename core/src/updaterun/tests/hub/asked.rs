//! What tests ask the hub in memory.

use super::*;

impl Hub {
    /// Conditions of the run as `Type=Status Reason`.
    pub(in super::super) fn said(&self) -> Vec<String> {
        self.run.status.conditions.iter().map(line).collect()
    }

    /// `Progressing` and `Succeeded` of a stage, and each cluster's: `s | c1: Started … | c2:`.
    pub(in super::super) fn stage(&self, index: usize) -> String {
        let deletion = &self.run.status.deletion_stage_status;
        let stage = self.run.status.stages_status.iter().chain(deletion).nth(index).unwrap();
        let mut parts = vec![stage.conditions.iter().map(line).collect::<Vec<_>>().join(", ")];
        for cluster in &stage.clusters {
            let reasons: Vec<_> = cluster
                .conditions
                .iter()
                .map(|c| c.reason.replace("ClusterUpdating", ""))
                .collect();
            parts.push(format!("{}: {}", cluster.cluster_name, reasons.join(", ")));
        }
        parts.join(" | ")
    }

    pub(in super::super) fn message(&self, type_name: &str) -> &str {
        &conditions::find(&self.run.status.conditions, type_name)
            .unwrap()
            .message
    }

    /// What `kubectl fleet plan` would show.
    pub(in super::super) fn outline(&self) -> Outline {
        let bindings = self.view_bindings();
        Outline::of(&self.run.status, &bindings, "c0ffee")
    }

    /// The writes since the last call.
    pub(in super::super) fn written(&mut self) -> String {
        std::mem::take(&mut self.log).join("; ")
    }

    pub(in super::super) fn told(&mut self) -> Vec<String> {
        std::mem::take(&mut self.events)
    }

    pub(in super::super) fn every_condition(&self) -> Vec<&Condition> {
        let status = &self.run.status;
        let stages = status.stages_status.iter().chain(&status.deletion_stage_status);
        let inner = stages.flat_map(|stage| {
            let tasks = stage
                .before_stage_task_status
                .iter()
                .chain(&stage.after_stage_task_status);
            let clusters = stage.clusters.iter().flat_map(|cluster| &cluster.conditions);
            stage
                .conditions
                .iter()
                .chain(clusters)
                .chain(tasks.flat_map(|task| &task.conditions))
        });
        status.conditions.iter().chain(inner).collect()
    }
}

fn line(condition: &Condition) -> String {
    format!("{}={} {}", condition.type_, condition.status, condition.reason)
}
