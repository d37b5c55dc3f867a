//! Data for people and programs, on stdout: tables as kubectl prints them, or JSON. No colours.

use std::{fmt, fmt::Write as _, io::Write as _};

use anyhow::Result;
use serde::Serialize;

/// How data is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For programs
    Json,
}

/// Something that can be printed either way.
pub(crate) trait Shown: Serialize {
    /// As a table.
    fn table(&self) -> Table;
}

/// Prints it. A reader who has gone, such as `head`, is no error.
pub(crate) fn print(shown: &impl Shown, format: Format) -> Result<()> {
    let text = match format {
        Format::Table => shown.table().to_string(),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(shown)?),
    };
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// What stands between two columns.
const GAP: &str = "   ";

/// Rows under headings. A cell may have several lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column));
        let lines = cells.flat_map(|cell| cell.lines()).map(|line| line.chars().count());
        let heading = self.headings.get(column).map_or(0, |heading| heading.len());
        lines.max().unwrap_or(0).max(heading)
    }
}

/// Nothing at all where there are no rows.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        let widths: Vec<_> = (0..self.headings.len()).map(|column| self.width(column)).collect();
        let headings: Vec<_> = self.headings.iter().map(|heading| (*heading).to_owned()).collect();
        for row in std::iter::once(&headings).chain(&self.rows) {
            let height = row.iter().map(|cell| cell.lines().count()).max().unwrap_or(0);
            for line in 0..height {
                let mut text = String::new();
                for (cell, width) in row.iter().zip(&widths) {
                    let part = cell.lines().nth(line).unwrap_or_default();
                    write!(text, "{part:width$}{GAP}")?;
                }
                writeln!(f, "{}", text.trim_end())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_cells_may_have_several_lines() {
        let mut table = Table::new(&["PLACEMENT", "OUTCOME", "HELD UP BY"]);
        table.row(["web".to_owned(), "blocked".to_owned(), "one\ntwo".to_owned()]);
        table.row(["größer-als-das".to_owned(), "evicted".to_owned(), String::new()]);
        let wanted = "\
PLACEMENT        OUTCOME   HELD UP BY
web              blocked   one
                           two
größer-als-das   evicted
";
        assert_eq!(table.to_string(), wanted);
    }

    #[test]
    fn a_table_without_rows_is_nothing() {
        assert_eq!(Table::new(&["A"]).to_string(), "");
    }
}
