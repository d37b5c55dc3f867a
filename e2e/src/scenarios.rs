//! `scenarios.md` names only tests that exist. A test's crate is the directory of its package, its name the last part of
//! its path; the modules before it must be the file that it is in.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::{Path, PathBuf};

    const CRATES: [(&str, &str); 9] = [
        ("fleet-api", "api"),
        ("fleet-core", "core"),
        ("fleet-proto", "proto"),
        ("fleet-runtime", "runtime"),
        ("hub-agent", "hub-agent"),
        ("member-agent", "member-agent"),
        ("kubectl-fleet", "cli"),
        ("fleet-dashboard", "dashboard"),
        ("fleet-e2e", "e2e"),
    ];

    fn root() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
    }

    fn sources(dir: &Path, into: &mut Vec<(PathBuf, String)>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                into.push((path, text));
            }
        }
    }

    /// `crate path::name` in back quotes, of every table row.
    fn named(text: &str) -> Vec<(&str, &str)> {
        let rows = text.lines().filter(|line| line.starts_with('|'));
        rows.flat_map(|row| row.split('`').skip(1).step_by(2))
            .filter_map(|code| code.split_once(' '))
            .filter(|(_, path)| path.contains("::") && !path.contains(' '))
            .collect()
    }

    /// The files in which a test of this path may be: each module is a file, a directory, or inside its parent.
    fn holds(file: &Path, path: &str) -> bool {
        let file = file.with_extension("");
        let file = file.to_string_lossy().replace('/', "::");
        let modules = path.rsplit_once("::").map_or("", |(modules, _)| modules);
        let modules = modules.trim_end_matches("::tests");
        let parent = modules.rsplit_once("::").map_or(modules, |(parent, _)| parent);
        [modules, parent].iter().any(|m| file.ends_with(m))
            || file.ends_with(&format!("{modules}::tests"))
            || file.ends_with(&format!("{modules}::mod"))
            || file.ends_with(&format!("{modules}::main"))
            || file.contains(&format!("{modules}::tests::"))
    }

    /// Whether a test is one that nobody runs.
    fn is_held_back(text: &str, function: &str) -> bool {
        let before = text.split(function).next().unwrap_or_default();
        // The line of the function itself is not whole: its attributes are above, from the last to the first.
        let above = before.rsplit_once('\n').map_or("", |(above, _)| above);
        let mut attributes = above
            .lines()
            .rev()
            .take_while(|line| line.trim_start().starts_with("#["));
        attributes.any(|line| line.contains("#[ignore"))
    }

    #[test]
    fn what_is_held_back_is_seen() {
        let text = "#[test]\nfn runs() {}\n\n#[test]\n#[ignore = \"later\"]\nfn waits() {}\n\n#[test]\nfn goes() {}\n";
        assert!(!is_held_back(text, "fn runs("));
        assert!(is_held_back(text, "fn waits("));
        assert!(!is_held_back(text, "fn goes("));
    }

    #[test]
    fn every_test_that_is_named_exists() {
        let text = std::fs::read_to_string(root().join("e2e/scenarios.md")).unwrap();
        let named = named(&text);
        assert!(
            named.len() > 50,
            "only {} tests were found in scenarios.md",
            named.len()
        );
        let mut files: BTreeMap<&str, Vec<(PathBuf, String)>> = BTreeMap::new();
        let mut missing = Vec::new();
        for (package, path) in named {
            let Some((_, dir)) = CRATES.iter().find(|(name, _)| *name == package) else {
                missing.push(format!("{package} {path}: no such crate"));
                continue;
            };
            let files = files.entry(dir).or_insert_with(|| {
                let mut found = Vec::new();
                sources(&root().join(dir).join("src"), &mut found);
                sources(&root().join(dir).join("tests"), &mut found);
                found
            });
            let name = path.rsplit("::").next().unwrap_or(path);
            let function = format!("fn {name}(");
            let of = files
                .iter()
                .find(|(file, text)| text.contains(&function) && holds(file, path));
            match of {
                None => missing.push(format!("{package} {path}")),
                Some((_, text)) if is_held_back(text, &function) => {
                    missing.push(format!("{package} {path}: held back, so it shows nothing"));
                }
                Some(_) => {}
            }
        }
        assert!(
            missing.is_empty(),
            "named in scenarios.md, but not there:\n{}",
            missing.join("\n")
        );
    }

    #[test]
    fn rows_are_read_as_they_are_written() {
        let text = "| what | `a-crate x::y::z`, *Later*, `b w::v` |\n| `kubectl get` | `plain` |\n`not a::row`";
        assert_eq!(named(text), [("a-crate", "x::y::z"), ("b", "w::v")]);
    }
}
