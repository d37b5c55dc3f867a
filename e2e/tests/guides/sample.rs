//! Comparing what kubectl prints with a sample.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// Puts names in place of what differs from run to run: each pair is a text and what the sample has instead.
fn rename(text: &str, names: &[(&str, &str)]) -> String {
    let mut text = text.to_owned();
    for (from, to) in names {
        text = text.replace(from, to);
    }
    text
}

/// `kubectl describe`, line by line. Metadata below its heading is what the API server counts; how far values are indented
/// depends on the longest name around them; Events of one second come in any order and of any age.
pub(crate) fn describes(printed: &str, sample: &str, names: &[(&str, &str)]) -> Result<()> {
    let (found, wanted) = (described(&rename(printed, names)), described(sample));
    for (n, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
        ensure!(
            found == wanted,
            "line {}\nsample: {wanted}\nfound:  {found}\n\n{printed}",
            n + 1
        );
    }
    ensure!(
        found.len() == wanted.len(),
        "{} lines, the sample has {}\n{printed}",
        found.len(),
        wanted.len()
    );
    Ok(())
}

fn described(text: &str) -> Vec<String> {
    let (mut lines, mut events) = (Vec::new(), Vec::new());
    let mut section = "";
    for line in text.lines() {
        if !line.starts_with(' ') {
            section = line;
        }
        match section {
            "Metadata:" if section != line => {}
            "Events:" if section != line => events.push(event(line)),
            _ => lines.push(field(line)),
        }
    }
    events.sort();
    lines.extend(events);
    lines
}

/// A name and its value, two blanks apart.
pub(crate) fn field(line: &str) -> String {
    match line.split_once(':') {
        Some((name, _)) if name.trim_start() == "Last Transition Time" => format!("{name}:  <time>"),
        Some((name, value)) => format!("{name}:  {}", value.trim()),
        None => line.trim_end().to_owned(),
    }
}

/// Type, reason, source and message of a line of the table of Events.
fn event(line: &str) -> String {
    let cells: Vec<_> = line
        .split("  ")
        .map(str::trim)
        .filter(|cell| !cell.is_empty())
        .collect();
    match cells.as_slice() {
        [type_, reason, _age, from, message] => format!("  {type_}  {reason}  <age>  {from}  {message}"),
        _ => line.to_owned(),
    }
}

/// `kubectl get -o yaml`: spec and status, as values. Names come before parsing, since long lines are folded.
pub(crate) fn shows(printed: &str, sample: &str, names: &[(&str, &str)]) -> Result<()> {
    let mut found: Value = serde_saphyr::from_str(printed)?;
    let mut wanted: Value = serde_saphyr::from_str(sample)?;
    let fields = found.as_object_mut().context("an object")?;
    fields.retain(|field, _| field == "spec" || field == "status");
    for value in [&mut found, &mut wanted] {
        blind(value, names);
    }
    ensure!(
        found == wanted,
        "sample:\n{}\nfound:\n{}",
        serde_saphyr::to_string(&wanted)?,
        serde_saphyr::to_string(&found)?
    );
    Ok(())
}

pub(crate) fn blind(value: &mut Value, names: &[(&str, &str)]) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| blind(value, names)),
        Value::Object(fields) => {
            for name in ["lastTransitionTime", "startTime"] {
                if let Some(time) = fields.get_mut(name) {
                    *time = Value::from("<time>");
                }
            }
            fields.values_mut().for_each(|value| blind(value, names));
        }
        Value::String(text) => *text = rename(text, names),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A part of `kubectl describe`, as guides show it: these lines, one after the other.
pub(crate) fn describes_part(printed: &str, sample: &str, names: &[(&str, &str)]) -> Result<()> {
    let lines = |text: &str| text.lines().map(field).collect::<Vec<_>>();
    let (found, wanted) = (lines(&rename(printed, names)), lines(sample));
    let is_there = found.windows(wanted.len()).any(|part| part == wanted);
    ensure!(
        is_there,
        "sample:\n{}\n\nfound:\n{}",
        wanted.join("\n"),
        found.join("\n")
    );
    Ok(())
}

/// A part of `kubectl get -o yaml`, as guides show it: the fields of the sample. Lists are shown as a whole, unless `...` is
/// their last entry.
pub(crate) fn shows_part(printed: &str, sample: &str, names: &[(&str, &str)]) -> Result<()> {
    let mut found: Value = serde_saphyr::from_str(printed)?;
    let mut wanted: Value = serde_saphyr::from_str(sample)?;
    for value in [&mut found, &mut wanted] {
        blind(value, names);
    }
    let part = cut(&found, &wanted);
    ensure!(
        part == wanted,
        "sample:\n{}\nfound:\n{}",
        serde_saphyr::to_string(&wanted)?,
        serde_saphyr::to_string(&part)?
    );
    Ok(())
}

/// What there is of the fields that somebody asks for.
pub(crate) fn cut(found: &Value, wanted: &Value) -> Value {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => {
            let asked = wanted
                .iter()
                .filter_map(|(name, wanted)| Some((name.clone(), cut(found.get(name)?, wanted))));
            Value::Object(asked.collect())
        }
        (Value::Array(found), Value::Array(wanted)) if wanted.last().is_some_and(|last| last == "...") => {
            let shown = found.iter().take(wanted.len() - 1).cloned();
            Value::Array(shown.chain([Value::from("...")]).collect())
        }
        _ => found.clone(),
    }
}

/// A table: its heads, and the cells below them. Ages are not compared; a cell may be empty.
pub(crate) fn tabulates(printed: &str, sample: &str, names: &[(&str, &str)]) -> Result<()> {
    let (found, wanted) = (cells(printed, names), cells(sample, &[]));
    ensure!(found == wanted, "sample: {wanted:#?}\nfound: {found:#?}");
    Ok(())
}

pub(crate) fn cells(table: &str, names: &[(&str, &str)]) -> Vec<Vec<String>> {
    let mut lines = table.lines();
    let head = lines.next().unwrap_or_default();
    let starts: Vec<_> = head
        .match_indices(|c: char| c != ' ')
        .map(|(at, _)| at)
        .filter(|at| *at == 0 || head[..*at].ends_with(' '))
        .collect();
    let row = |line: &str| {
        let ends = starts.iter().skip(1).copied().chain([usize::MAX]);
        let cells = starts.iter().zip(ends).map(|(start, end)| {
            let (start, end) = (line.len().min(*start), line.len().min(end));
            rename(line[start..end].trim(), names)
        });
        cells.collect::<Vec<_>>()
    };
    let mut rows = vec![row(head)];
    rows.extend(lines.filter(|line| !line.is_empty()).map(|line| {
        let mut cells = row(line);
        cells.pop();
        cells
    }));
    rows
}
