//! What an update run still has to do, on paper.

use fleet_core::plan::StageLeft;
use serde::Serialize;

use super::show::few;
use crate::output::{self, Style, Table};

/// What a run still has to do, as it is printed.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::plan) struct Left {
    #[serde(skip)]
    kind: String,
    run: String,
    placement: String,
    index: String,
    stages: Vec<StageLeft>,
}

impl Left {
    pub(in crate::plan) fn new(kind: &str, run: &str, placement: &str, index: &str, stages: Vec<StageLeft>) -> Self {
        Self {
            kind: kind.to_lowercase(),
            run: run.to_owned(),
            placement: placement.to_owned(),
            index: index.to_owned(),
            stages,
        }
    }

    /// Whether nothing is left.
    pub(in crate::plan) fn is_done(&self) -> bool {
        self.stages.iter().all(StageLeft::is_done)
    }
}

impl output::Shown for Left {
    fn names(&self) -> Vec<String> {
        vec![format!("{}/{}", self.kind, self.run)]
    }

    fn text(&self, style: &Style) -> String {
        self.table().fitting(style)
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&["STAGE", "DONE", "FAILED", "UNDER WAY", "STILL TO COME", "WAITS FOR"]);
        for stage in &self.stages {
            table.row([
                stage.name.clone(),
                stage.done.to_string(),
                few(&stage.failed),
                few(&stage.updating),
                few(&stage.waiting),
                stage.tasks.join("\n"),
            ]);
        }
        table
    }
}
