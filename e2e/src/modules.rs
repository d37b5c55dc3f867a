//! No crate's modules use each other in a circle: whoever reads one needs to know only those below it.

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::{Path, PathBuf};

    /// What a module uses, and a file that does so.
    type Uses = BTreeMap<String, BTreeMap<String, PathBuf>>;

    fn crates() -> Vec<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut all: Vec<_> = std::fs::read_dir(root)
            .into_iter()
            .flatten()
            .flatten()
            .map(|e| e.path())
            .collect();
        all.retain(|dir| dir.join("Cargo.toml").is_file() && dir.join("src").is_dir());
        all.sort();
        all
    }

    fn sources(dir: &Path, into: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() {
                sources(&path, into);
            } else if path.extension().is_some_and(|e| e == "rs") {
                into.push(path);
            }
        }
    }

    /// The modules that lead to a file: `a::b` for `a/b.rs` and `a/b/mod.rs`.
    fn modules(src: &Path, file: &Path) -> Vec<String> {
        let file = file.strip_prefix(src).unwrap_or(file).with_extension("");
        let mut parts: Vec<_> = file.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        if parts.last().is_some_and(|last| last == "mod") {
            parts.pop();
        }
        parts
    }

    /// Without comments, and without the tests at its end: these may look at everything.
    fn code(text: &str) -> String {
        let text = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        lines.collect::<Vec<_>>().join("\n")
    }

    fn word(text: &str) -> &str {
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_');
        &text[..end.unwrap_or(text.len())]
    }

    /// The names that a path goes on with: one, or those of a group in braces.
    fn next_names(text: &str) -> Vec<&str> {
        let Some(group) = text.strip_prefix('{') else {
            return vec![word(text)];
        };
        let (mut names, mut depth, mut at_start) = (Vec::new(), 0, true);
        for (i, c) in group.char_indices() {
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => at_start = true,
                c if at_start && !c.is_whitespace() => {
                    names.push(word(&group[i..]));
                    at_start = false;
                }
                _ => {}
            }
        }
        names
    }

    /// What the code of a file that is `depth` modules deep names at the root of its crate.
    fn named_at_root(code: &str, depth: usize) -> BTreeSet<&str> {
        let up = "super::".repeat(depth);
        let mut names = BTreeSet::new();
        for root in ["crate::", up.as_str()] {
            for (i, found) in code.match_indices(root) {
                let before = code[..i].chars().next_back();
                if before.is_none_or(|c| !c.is_alphanumeric() && c != '_' && c != ':') {
                    // Higher up than the root is nothing: such a path is of a module that is further down.
                    let next = next_names(&code[i + found.len()..]);
                    names.extend(next.into_iter().filter(|name| *name != "super"));
                }
            }
        }
        names
    }

    fn uses(src: &Path) -> Uses {
        let mut files = Vec::new();
        sources(src, &mut files);
        let paths: Vec<_> = files.iter().map(|file| modules(src, file)).collect();
        let not_modules = ["lib", "main", "bin", "tests"];
        let is_module = |path: &&Vec<String>| !path.iter().any(|part| not_modules.contains(&part.as_str()));
        let tops: BTreeSet<&str> = paths.iter().filter(is_module).map(|path| path[0].as_str()).collect();
        let mut uses = Uses::new();
        for (file, path) in files.iter().zip(&paths).filter(|(_, path)| is_module(path)) {
            let text = code(&std::fs::read_to_string(file).unwrap());
            for name in named_at_root(&text, path.len()) {
                if name != path[0] && tops.contains(name) {
                    let of = uses.entry(path[0].clone()).or_default();
                    of.entry(name.to_owned()).or_insert_with(|| file.clone());
                }
            }
        }
        uses
    }

    /// A circle, if there is one: every module in it uses the next.
    fn circle(uses: &Uses) -> Option<Vec<&str>> {
        fn walk<'a>(uses: &'a Uses, at: &'a str, way: &mut Vec<&'a str>, done: &mut BTreeSet<&'a str>) -> bool {
            if let Some(start) = way.iter().position(|module| *module == at) {
                way.drain(..start);
                way.push(at);
                return true;
            }
            if !done.insert(at) {
                return false;
            }
            way.push(at);
            for next in uses.get(at).into_iter().flat_map(BTreeMap::keys) {
                if walk(uses, next, way, done) {
                    return true;
                }
            }
            way.pop();
            false
        }
        let (mut way, mut done) = (Vec::new(), BTreeSet::new());
        uses.keys()
            .any(|module| walk(uses, module, &mut way, &mut done))
            .then_some(way)
    }

    #[test]
    fn no_modules_use_each_other_in_a_circle() {
        let mut found = Vec::new();
        for dir in crates() {
            let uses = uses(&dir.join("src"));
            if let Some(way) = circle(&uses) {
                let step = |pair: &[&str]| format!("{} → {} in {}", pair[0], pair[1], uses[pair[0]][pair[1]].display());
                found.push(way.windows(2).map(step).collect::<Vec<_>>().join("\n"));
            }
        }
        assert!(found.is_empty(), "modules that use each other:\n{}", found.join("\n\n"));
    }

    #[test]
    fn a_circle_is_found_and_named() {
        let text = "use crate::{\n    b::{c, d},\n    e,\n};\nfn f() { super::super::g::h(); }\n// crate::comment\n";
        let code = code(text);
        assert_eq!(named_at_root(&code, 2), BTreeSet::from(["b", "e", "g"]));
        assert_eq!(named_at_root(&code, 1), BTreeSet::from(["b", "e"]));
        let edge = |to: &str| BTreeMap::from([(to.to_owned(), PathBuf::new())]);
        let mut uses = Uses::from([("a".to_owned(), edge("b")), ("b".to_owned(), edge("c"))]);
        assert_eq!(circle(&uses), None);
        uses.insert("c".to_owned(), edge("b"));
        assert_eq!(circle(&uses), Some(vec!["b", "c", "b"]));
    }
}
