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
fn field(line: &str) -> String {
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
    let mut found: Value = serde_yaml_ng::from_str(printed)?;
    let mut wanted: Value = serde_yaml_ng::from_str(sample)?;
    let fields = found.as_object_mut().context("an object")?;
    fields.retain(|field, _| field == "spec" || field == "status");
    for value in [&mut found, &mut wanted] {
        blind(value, names);
    }
    ensure!(
        found == wanted,
        "sample:\n{}\nfound:\n{}",
        serde_yaml_ng::to_string(&wanted)?,
        serde_yaml_ng::to_string(&found)?
    );
    Ok(())
}

fn blind(value: &mut Value, names: &[(&str, &str)]) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| blind(value, names)),
        Value::Object(fields) => {
            if let Some(time) = fields.get_mut("lastTransitionTime") {
                *time = Value::from("<time>");
            }
            fields.values_mut().for_each(|value| blind(value, names));
        }
        Value::String(text) => *text = rename(text, names),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
