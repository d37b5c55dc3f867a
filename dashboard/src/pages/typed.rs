//! Commands as they have to be typed to mean the hub that the page shows: with the flags that the dashboard was started with.

use std::borrow::Cow;

/// Which flags of kubectl the dashboard was started with, by name, without dashes.
pub type Flags = Vec<(&'static str, String)>;

/// A command for a terminal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Typed {
    pub(super) text: String,
    /// Flags that it would need and does not have.
    pub(super) lacks: Vec<&'static str>,
}

/// Commands of the first hour, which know one flag and the environment.
const OLD: [&str; 7] = [
    "approve",
    "cordon",
    "uncordon",
    "drain",
    "draincluster",
    "uncordoncluster",
    "join",
];

/// The command with these flags. Several that follow each other each get them.
pub(super) fn with(flags: &Flags, command: &str) -> Typed {
    let mut whole = Typed::default();
    for (at, one) in each(command).into_iter().enumerate() {
        let typed = single(flags, one);
        if at > 0 {
            whole.text.push_str("; ");
        }
        whole.text.push_str(&typed.text);
        whole.lacks.extend(typed.lacks);
    }
    whole
}

/// The command without what it asks of other namespaces than this one, if only this one is looked at.
pub(super) fn within<'a>(namespace: Option<&str>, command: &'a str) -> Cow<'a, str> {
    let Some(namespace) = namespace else {
        return Cow::Borrowed(command);
    };
    let all = each(command).into_iter().map(|one| match one.strip_suffix(" -A") {
        Some(rest) => format!("{rest} -n {}", quoted(namespace)),
        None => one.to_owned(),
    });
    Cow::Owned(all.collect::<Vec<_>>().join("; "))
}

/// The commands that follow each other. What is quoted is a name, whatever it looks like.
fn each(command: &str) -> Vec<&str> {
    let (mut all, mut begin, mut in_quotes, mut escaped) = (Vec::new(), 0, false, false);
    for (at, letter) in command.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' if !in_quotes => escaped = true,
            '\'' => in_quotes = !in_quotes,
            ';' if !in_quotes && command[at..].starts_with("; kubectl ") => {
                all.push(&command[begin..at]);
                begin = at + 2;
            }
            _ => {}
        }
    }
    all.push(&command[begin..]);
    all
}

fn single(flags: &Flags, command: &str) -> Typed {
    let as_it_is = || Typed {
        text: command.to_owned(),
        lacks: Vec::new(),
    };
    let Some(rest) = command.strip_prefix("kubectl ") else {
        return as_it_is();
    };
    let Some(words) = rest.strip_prefix("fleet ") else {
        // What is asked of a member goes there; only the file that knows it is the same.
        let to_member = rest.starts_with("--context ");
        let wanted = flags.iter().filter(|(name, _)| !to_member || *name == "kubeconfig");
        return Typed {
            text: format!(
                "kubectl {}{rest}",
                wanted.map(|flag| shown(flag) + " ").collect::<String>()
            ),
            lacks: Vec::new(),
        };
    };
    let verb = words.split(' ').next().unwrap_or_default();
    if !OLD.contains(&verb) {
        let all: Vec<_> = std::iter::once(command.to_owned())
            .chain(flags.iter().map(shown))
            .collect();
        return Typed {
            text: all.join(" "),
            lacks: Vec::new(),
        };
    }
    let mut typed = as_it_is();
    for (name, value) in flags {
        match *name {
            "context" => typed.text = format!("{} --hub-cluster-context {}", typed.text, quoted(value)),
            "kubeconfig" => typed.text = format!("KUBECONFIG={} {}", quoted(value), typed.text),
            other => typed.lacks.push(other),
        }
    }
    typed
}

fn shown((name, value): &(&'static str, String)) -> String {
    format!("--{name} {}", quoted(value))
}

/// A value that a shell takes as one word and as nothing else.
pub(super) fn quoted(value: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._/:@=,+".contains(&byte);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_means_the_hub_that_the_page_shows() {
        let flags: Flags = vec![("context", "prod".into()), ("kubeconfig", "/home/a b/c".into())];
        for (command, typed) in [
            (
                "kubectl fleet why crp/web east -n shop",
                "kubectl fleet why crp/web east -n shop --context prod --kubeconfig '/home/a b/c'",
            ),
            (
                "kubectl fleet drain east",
                "KUBECONFIG='/home/a b/c' kubectl fleet drain east --hub-cluster-context prod",
            ),
            (
                "kubectl get csur; kubectl get sur -A",
                "kubectl --context prod --kubeconfig '/home/a b/c' get csur; \
                 kubectl --context prod --kubeconfig '/home/a b/c' get sur -A",
            ),
            (
                "kubectl --context east get pods",
                "kubectl --kubeconfig '/home/a b/c' --context east get pods",
            ),
            (
                "kubectl fleet check --member-context east",
                "kubectl fleet check --member-context east --context prod --kubeconfig '/home/a b/c'",
            ),
            (
                "kubectl get memberclusters -o yaml | grep window",
                "kubectl --context prod --kubeconfig '/home/a b/c' get memberclusters -o yaml | grep window",
            ),
            ("helm upgrade", "helm upgrade"),
        ] {
            assert_eq!(with(&flags, command).text, typed);
            assert_eq!(
                with(&Flags::new(), command).text,
                command,
                "what was not given is not added"
            );
        }
    }

    #[test]
    fn a_command_asks_for_the_namespace_that_is_looked_at() {
        let both = "kubectl get crp; kubectl get rp -A";
        assert_eq!(within(Some("shop"), both), "kubectl get crp; kubectl get rp -n shop");
        assert_eq!(within(None, both), both);
        let named = "kubectl fleet why 'x; kubectl get rp -A' east";
        assert_eq!(within(Some("shop"), named), named);
    }

    #[test]
    fn a_name_that_looks_like_a_command_is_a_name() {
        let flags: Flags = vec![("kubeconfig", "/home/a b/c".into())];
        for name in ["a; kubectl delete crp web", "it's; kubectl delete crp web"] {
            let command = format!("kubectl fleet why {}", quoted(name));
            assert_eq!(
                with(&flags, &command).text,
                format!("{command} --kubeconfig '/home/a b/c'")
            );
        }
    }

    #[test]
    fn what_a_command_cannot_be_told_is_said() {
        let flags: Flags = vec![("context", "it's".into()), ("as", "alice".into())];
        let typed = with(&flags, "kubectl fleet approve clusterapprovalrequest --name a");
        assert_eq!(typed.lacks, ["as"]);
        assert!(
            typed.text.ends_with(r"--hub-cluster-context 'it'\''s'"),
            "{}",
            typed.text
        );
        let typed = with(&flags, "kubectl fleet status");
        assert_eq!(typed.text, r"kubectl fleet status --context 'it'\''s' --as alice");
    }
}
