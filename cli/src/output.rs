//! Data on stdout, for people and programs: what every command that shows something has in common.
//!
//! `-o` chooses: a table or a text, `wide` for more columns, `name` for what kubectl takes, `json` and `yaml` for programs, both
//! from one struct. Text is plain first, then cleaned of control characters, since others may have written parts of it, and
//! only then coloured.

pub(crate) mod style;
pub(crate) mod tree;

use std::{fmt, fmt::Write as _, io::Write as _};

use anyhow::Result;
use serde::Serialize;

pub(crate) use style::{Mark, Style, is_mark};
pub(crate) use tree::Node;

/// How data is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Format {
    /// For people
    #[default]
    Table,
    /// For people, with more columns
    Wide,
    /// Names that kubectl takes
    Name,
    /// For programs
    Json,
    /// For programs
    Yaml,
}

/// Something that can be printed in every way.
pub(crate) trait Shown: Serialize {
    /// As a table.
    fn table(&self) -> Table;

    /// For people.
    fn text(&self, _style: &Style) -> String {
        self.table().to_string()
    }

    /// What is shown, as kubectl takes it.
    fn names(&self) -> Vec<String>;
}

/// Prints it. A reader who has gone, such as `head`, is no error.
pub(crate) fn print(shown: &impl Shown, format: Format) -> Result<()> {
    let style = Style::of_stdout(format == Format::Wide);
    write(&rendered(shown, format, &style)?)
}

/// Writes a text to stdout.
pub(crate) fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// What is printed.
pub(crate) fn rendered(shown: &impl Shown, format: Format, style: &Style) -> Result<String> {
    Ok(match format {
        Format::Table | Format::Wide => style.finish(&shown.text(style)),
        Format::Name => shown
            .names()
            .iter()
            .fold(String::new(), |text, name| text + name + "\n"),
        Format::Json => format!("{}\n", serde_json::to_string_pretty(shown)?),
        Format::Yaml => serde_saphyr::to_string(shown)?,
    })
}

/// Prints one line of data.
pub(crate) fn line(text: &str) -> Result<()> {
    match writeln!(std::io::stdout(), "{text}") {
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
    gap: &'static str,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Self {
            headings: headings.to_vec(),
            rows: Vec::new(),
            gap: GAP,
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The same without its last column.
    pub(crate) fn without_last(&self) -> Self {
        let mut table = self.clone();
        table.headings.pop();
        table.rows.iter_mut().for_each(|row| row.truncate(table.headings.len()));
        table
    }

    /// As text that fits: with less between columns, then without the last ones, which matter least.
    pub(crate) fn fitting(&self, style: &Style) -> String {
        let Some(limit) = style.width else {
            return self.to_string();
        };
        let mut table = self.clone();
        for gap in [GAP, " "] {
            table.gap = gap;
            if table.widest() <= limit {
                return table.to_string();
            }
        }
        while table.widest() > limit && table.headings.len() > 3 {
            table.headings.pop();
            table.rows.iter_mut().for_each(|row| row.truncate(table.headings.len()));
        }
        let cut = |line: &str| -> String { line.chars().take(limit).collect::<String>() + "\n" };
        table.to_string().lines().map(cut).collect()
    }

    fn widest(&self) -> usize {
        let columns = 0..self.headings.len();
        let widths: usize = columns.clone().map(|column| self.width(column)).sum();
        widths + self.gap.len() * columns.len().saturating_sub(1)
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
                    write!(text, "{part:width$}{}", self.gap)?;
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
