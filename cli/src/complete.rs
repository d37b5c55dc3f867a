//! What a shell asks while somebody types, and the scripts that make it ask.
//!
//! kubectl itself asks plugins: for `kubectl fleet <TAB>` it runs `kubectl_complete-fleet` with the words so far and expects one
//! candidate a line and, last, a line `:4` (nothing of the file system is meant).

use anyhow::Result;
use clap::{Command, ValueEnum};
use clap_complete::{Shell, generate};

use crate::{exit::Exit, output};

/// What kubectl runs for `kubectl fleet <TAB>`.
pub(crate) const PROGRAM: &str = "kubectl_complete-fleet";
/// No file names.
const NO_FILES: &str = ":4";

/// Print what makes a shell complete this command.
///
/// With `kubectl` it prints the program that kubectl itself asks for `kubectl fleet <TAB>`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  source <(kubectl fleet completion bash)\n  \
                  kubectl fleet completion fish > ~/.config/fish/completions/kubectl-fleet.fish\n  \
                  kubectl fleet completion kubectl > ~/bin/kubectl_complete-fleet && chmod +x ~/bin/kubectl_complete-fleet")]
pub(crate) struct Args {
    /// The shell; `kubectl` for the program that kubectl itself asks
    #[arg(value_enum)]
    shell: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Bash,
    Zsh,
    Fish,
    Kubectl,
}

pub(crate) fn run(args: &Args, mut command: Command) -> Result<()> {
    let shell = match args.shell {
        Kind::Bash => Shell::Bash,
        Kind::Zsh => Shell::Zsh,
        Kind::Fish => Shell::Fish,
        Kind::Kubectl => {
            return output::write(
                "#!/bin/sh\n# Asked by kubectl for `kubectl fleet <TAB>`.\nexec kubectl-fleet __complete \"$@\"\n",
            );
        }
    };
    // The program that the shell runs has another name than what people type.
    let mut script = Vec::new();
    generate(shell, &mut command, "kubectl-fleet", &mut script);
    output::write(&String::from_utf8_lossy(&script))
}

/// Answers kubectl: the words so far, the last one unfinished.
pub(crate) fn answer(words: &[String], command: &Command) -> Result<Exit> {
    let mut text = String::new();
    for candidate in candidates(words, command) {
        text.push_str(&candidate);
        text.push('\n');
    }
    text.push_str(NO_FILES);
    text.push('\n');
    output::write(&text)?;
    Ok(Exit::Done)
}

/// What may follow, each with its description after a tab.
fn candidates(words: &[String], command: &Command) -> Vec<String> {
    let Some((last, before)) = words.split_last() else {
        return Vec::new();
    };
    let mut at = command;
    let mut flag = None;
    for word in before {
        flag = None;
        if let Some(long) = word.strip_prefix("--") {
            flag = at
                .get_arguments()
                .find(|arg| arg.get_long() == Some(long) && arg.get_action().takes_values());
        } else if let Some(next) = at.find_subcommand(word) {
            at = next;
        }
    }
    let mut found: Vec<String> = Vec::new();
    if let Some(flag) = flag {
        let values = flag.get_possible_values();
        found.extend(values.iter().map(|value| value.get_name().to_owned()));
    } else if last.starts_with('-') {
        let flags = at.get_arguments().filter(|arg| !arg.is_hide_set());
        for flag in flags {
            let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
            if let Some(long) = flag.get_long() {
                found.push(format!("--{long}\t{help}"));
            }
        }
    } else {
        let commands = at.get_subcommands().filter(|command| !command.is_hide_set());
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            found.push(format!("{}\t{about}", command.get_name()));
        }
        let values = at.get_positionals().flat_map(clap::Arg::get_possible_values);
        found.extend(values.map(|value| value.get_name().to_owned()));
    }
    found.retain(|candidate| candidate.starts_with(last.as_str()));
    found
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn answers(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
        let found = candidates(&words, &crate::Args::command());
        found
            .iter()
            .map(|it| it.split('\t').next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn commands_flags_and_values_are_completed() {
        assert_eq!(answers(&["pl"]), ["plan"]);
        assert!(answers(&[""]).contains(&"check".to_owned()));
        assert_eq!(answers(&["plan", "--str"]), ["--strategy"]);
        assert!(answers(&["check", "--output", ""]).contains(&"short".to_owned()));
        assert_eq!(answers(&["completion", "z"]), ["zsh"]);
        assert!(answers(&[]).is_empty() && answers(&["nonsense", "--x", "y"]).is_empty());
        assert!(
            !answers(&[""]).iter().any(|name| name.starts_with('_')),
            "what is hidden is not offered"
        );
    }

    #[test]
    fn every_shell_gets_a_script() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            generate(shell, &mut crate::Args::command(), "kubectl-fleet", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("kubectl-fleet") && script.contains("plan"), "{shell}");
        }
    }
}
