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

/// `kubectl describe`, line by line. Metadata below its heading is what the API server counts; an Event's age is not told
/// twice the same.
pub(crate) fn describes(printed: &str, sample: &str, names: &[(&str, &str)]) -> Result<()> {
    let mut lines = Vec::new();
    let (mut in_metadata, mut in_events) = (false, false);
    for line in rename(printed, names).lines() {
        let outer = !line.starts_with(' ');
        if outer {
            in_metadata = line == "Metadata:";
            in_events = line == "Events:";
        }
        if in_metadata && !outer {
            continue;
        }
        let key = line.trim_start().split_once(':').map(|(key, _)| key);
        if key == Some("Last Transition Time") {
            let (head, _) = line.split_once(':').context("it has a colon")?;
            lines.push(format!("{head}:  <time>"));
        } else if in_events && !outer {
            lines.push(event(line));
        } else {
            lines.push(line.trim_end().to_owned());
        }
    }
    let expected: Vec<_> = sample.lines().map(str::trim_end).collect();
    for (n, (found, wanted)) in lines.iter().zip(&expected).enumerate() {
        ensure!(
            found == wanted,
            "line {}\nsample: {wanted}\nfound:  {found}\n\n{printed}",
            n + 1
        );
    }
    ensure!(
        lines.len() == expected.len(),
        "{} lines, the sample has {}\n{printed}",
        lines.len(),
        expected.len()
    );
    Ok(())
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
