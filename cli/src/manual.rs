//! The manual, made from the command line itself: pages for `man`, and `docs/operations/cli.md`.

use std::{fmt::Write as _, path::PathBuf};

use anyhow::{Context as _, Result};
use clap::{Arg, Command};

use crate::{exit::Exit, output};

/// Write the manual.
///
/// Man pages into a directory, or all of it as Markdown on stdout.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  kubectl fleet manual --man ~/.local/share/man/man1")]
pub(crate) struct Args {
    /// Write a man page for each command into this directory
    #[arg(long, value_name = "DIR")]
    man: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<Exit> {
    command.build();
    match &args.man {
        Some(folder) => pages(&command, folder)?,
        None => output::write(&markdown(&command))?,
    }
    Ok(Exit::Done)
}

fn pages(command: &Command, folder: &std::path::Path) -> Result<()> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for (name, command) in all(command) {
        let name = name.replace(' ', "-");
        let mut page = Vec::new();
        let named = command.clone().display_name(name.clone());
        clap_mangen::Man::new(named)
            .title(name.to_uppercase())
            .render(&mut page)?;
        let path = folder.join(format!("{name}.1"));
        std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The command itself and all below it that are shown, each with its whole name.
fn all(command: &Command) -> Vec<(String, &Command)> {
    let mut found = vec![("kubectl-fleet".to_owned(), command)];
    let mut at = 0;
    while let Some((name, command)) = found.get(at).cloned() {
        let below = command.get_subcommands().filter(|it| shown(it));
        found.extend(below.map(|it| (format!("{name} {}", it.get_name()), it)));
        at += 1;
    }
    found
}

fn shown(command: &Command) -> bool {
    !command.is_hide_set() && command.get_name() != "help"
}

/// Every command with its flags, in the order of `--help`.
pub(crate) fn markdown(command: &Command) -> String {
    let mut text = String::new();
    write_all(command, &mut text).expect("a string grows");
    text
}

fn write_all(command: &Command, out: &mut String) -> std::fmt::Result {
    writeln!(out, "# `kubectl fleet`\n")?;
    writeln!(
        out,
        "<!-- Written by `make generate` from the command line itself. Do not edit. -->\n"
    )?;
    writeln!(
        out,
        "`kubectl fleet` is the `kubectl-fleet` binary on your `PATH`. Data goes to stdout, everything else to stderr. Exit \
         status:\n0 done, 1 error, 2 usage, 3 something is left, differs or is not well, 4 refused, 124 the time was up.\n\nIt reaches \
         clusters as kubectl does, through `HTTPS_PROXY` or the kubeconfig's `proxy-url` too.\n"
    )?;
    writeln!(out, "| command | |\n|---|---|")?;
    for command in command.get_subcommands().filter(|it| shown(it)) {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        let name = command.get_name();
        writeln!(out, "| [`{name}`](#{name}) | {} |", escaped(&about))?;
    }
    for command in command.get_subcommands().filter(|it| shown(it)) {
        one(command, "##", "", out)?;
    }
    Ok(())
}

fn one(command: &Command, level: &str, above: &str, out: &mut String) -> std::fmt::Result {
    let name = format!("{above}{}", command.get_name());
    writeln!(out, "\n{level} {name}\n")?;
    let about = command.get_long_about().or(command.get_about());
    writeln!(out, "{}", about.map(ToString::to_string).unwrap_or_default())?;
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set() && arg.get_id() != "help" && arg.get_id() != "version")
        .collect();
    if !arguments.is_empty() {
        writeln!(out, "\n| | |\n|---|---|")?;
    }
    for arg in arguments {
        writeln!(out, "| `{}` | {} |", usage(arg), escaped(&described(arg)))?;
    }
    if let Some(examples) = command.get_after_help() {
        let examples = examples.to_string();
        let lines = examples.lines().filter(|line| line.starts_with("  "));
        let lines: Vec<_> = lines.map(str::trim).collect();
        if !lines.is_empty() {
            writeln!(out, "\n```sh\n{}\n```", lines.join("\n"))?;
        }
    }
    for below in command.get_subcommands().filter(|it| shown(it)) {
        one(below, &format!("{level}#"), &format!("{name} "), out)?;
    }
    Ok(())
}

fn usage(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let value = names
        .first()
        .map_or_else(|| arg.get_id().as_str().to_uppercase(), ToString::to_string);
    let mut text = String::new();
    if let Some(short) = arg.get_short() {
        let _ = write!(text, "-{short}, ");
    }
    match arg.get_long() {
        Some(long) => {
            let _ = write!(text, "--{long}");
            if arg.get_action().takes_values() {
                let _ = write!(text, " {value}");
            }
        }
        None => text.push_str(&value),
    }
    text
}

fn described(arg: &Arg) -> String {
    let mut text = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let values: Vec<_> = arg
        .get_possible_values()
        .iter()
        .filter(|it| !it.is_hide_set())
        .map(|it| it.get_name().to_owned())
        .collect();
    if !values.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " ({})", values.join(", "));
    }
    let defaults: Vec<_> = arg.get_default_values().iter().filter_map(|it| it.to_str()).collect();
    if !defaults.is_empty() && arg.get_action().takes_values() {
        let _ = write!(text, " [default: {}]", defaults.join(", "));
    }
    text
}

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;").replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_page_in_docs_is_what_the_command_line_says() {
        let mut command = crate::Args::command();
        command.build();
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/operations/cli.md");
        let written = std::fs::read_to_string(page).unwrap_or_default();
        assert!(
            written == markdown(&command),
            "docs/operations/cli.md is not up to date: run `make generate`"
        );
    }

    #[test]
    fn every_command_has_a_page_and_an_example() {
        let mut command = crate::Args::command();
        command.build();
        let folder = tempfile::tempdir().expect("a directory");
        pages(&command, folder.path()).expect("they are written");
        let commands = all(&command);
        assert!(commands.iter().any(|(name, _)| name == "kubectl-fleet rollout watch"));
        for (name, command) in commands {
            let page = folder.path().join(format!("{}.1", name.replace(' ', "-")));
            assert!(page.exists(), "{}", page.display());
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let has_example = examples.contains("kubectl fleet ");
            assert!(
                has_example || command.has_subcommands() || name.ends_with(" version"),
                "{name}"
            );
        }
    }

    #[test]
    fn help_tells_all_that_is_to_be_known() {
        let mut command = crate::Args::command();
        command.build();
        for (name, command) in all(&command) {
            let words = command.get_long_about().map(ToString::to_string).unwrap_or_default();
            let is_short = ["kubectl-fleet", "kubectl-fleet rollout", "kubectl-fleet version"].contains(&name.as_str());
            assert!(is_short || words.lines().count() > 1, "{name}: {words}");
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(about.chars().count() <= 120, "{name}: {about}");
        }
    }
}
