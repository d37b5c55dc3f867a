//! No modules of a crate use each other in a circle, in no folder: whoever reads one needs to know only those below it.

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

    /// The parts of a group in braces, each to the end of the text.
    fn parts(group: &str) -> Vec<&str> {
        let (mut parts, mut depth, mut at_start) = (Vec::new(), 0, true);
        for (i, c) in group.char_indices() {
            match c {
                '{' if !at_start => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => at_start = true,
                c if at_start && !c.is_whitespace() => {
                    parts.push(&group[i..]);
                    at_start = false;
                }
                _ => {}
            }
        }
        parts
    }

    /// The paths that the text begins with: one, or those of a group in braces.
    fn paths(text: &str) -> Vec<Vec<&str>> {
        if let Some(group) = text.strip_prefix('{') {
            return parts(group).into_iter().flat_map(paths).collect();
        }
        let name = word(text);
        let rest = text[name.len()..].strip_prefix("::").filter(|_| !name.is_empty());
        let further = rest.map_or_else(|| vec![Vec::new()], paths);
        let with_name = further.into_iter().map(|path| [vec![name], path].concat());
        with_name.collect()
    }

    /// Everything that the code of a module names in its crate, from the root on.
    fn named<'a>(code: &'a str, module: &[&'a str]) -> Vec<Vec<&'a str>> {
        let mut all = Vec::new();
        for root in ["crate::", "self::", "super::"] {
            for (i, found) in code.match_indices(root) {
                let before = code[..i].chars().next_back();
                if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                    continue;
                }
                let (mut at, mut rest) = (module, &code[i + found.len()..]);
                match root {
                    "crate::" => at = &[],
                    "super::" => {
                        let mut up = 1;
                        while let Some(further) = rest.strip_prefix("super::") {
                            (rest, up) = (further, up + 1);
                        }
                        // Higher up than the root is nothing: such a path is of a module in the file itself.
                        let Some(left) = module.len().checked_sub(up) else {
                            continue;
                        };
                        at = &module[..left];
                    }
                    _ => {}
                }
                all.extend(paths(rest).into_iter().map(|path| [at, &path].concat()));
            }
        }
        all
    }

    type Names = BTreeMap<String, Vec<String>>;

    /// The names that a module has from elsewhere, and where they are from: what is below it may reach them through it.
    fn taken_in(code: &str, module: &[&str], is_module: impl Fn(&[&str]) -> bool) -> Names {
        let statements = code.split(';').filter_map(|statement| {
            let line = statement.rfind("\nuse ").map(|at| at + 5);
            let public = statement.rfind("pub").filter(|_| line.is_none()).and_then(|at| {
                let rest = statement[at..].find(" use ")?;
                Some(at + rest + 5)
            });
            line.or(public).map(|at| statement[at..].trim())
        });
        let mut names = Names::new();
        for path in statements.flat_map(paths) {
            let (Some(&first), Some(&name)) = (path.first(), path.last()) else {
                continue;
            };
            let root: &[&str] = match first {
                "crate" => &[],
                "self" => module,
                "super" => &module[..module.len().saturating_sub(1)],
                _ if is_module(&[module, &[first]].concat()) => module,
                _ => continue,
            };
            let rest = &path[usize::from(["crate", "self", "super"].contains(&first))..];
            let from = [root, rest].concat().into_iter().map(str::to_owned);
            names.insert(name.to_owned(), from.collect());
        }
        names
    }

    /// The module that a path leads to, also where a folder only hands on what is in another module.
    fn leads_to<'a>(
        path: &[&'a str],
        all: &BTreeSet<Vec<&'a str>>,
        from: &'a BTreeMap<Vec<&'a str>, Names>,
    ) -> Vec<&'a str> {
        let mut path = path.to_vec();
        // A name is handed on a few times at most; what refers to itself ends here too.
        for _ in 0..8 {
            let depth = (0..=path.len())
                .rev()
                .find(|n| all.contains(&path[..*n]))
                .unwrap_or_default();
            let handed_on = path.get(depth).and_then(|name| from.get(&path[..depth])?.get(*name));
            let Some(handed_on) = handed_on else {
                path.truncate(depth);
                return path;
            };
            path = handed_on
                .iter()
                .map(String::as_str)
                .chain(path[depth + 1..].iter().copied())
                .collect();
        }
        Vec::new()
    }

    fn uses(src: &Path) -> Uses {
        let mut files = Vec::new();
        sources(src, &mut files);
        let not_modules = ["lib", "main", "bin", "tests"];
        let modules: Vec<_> = files.iter().map(|file| (file, modules(src, file))).collect();
        let is_module = |path: &[String]| !path.iter().any(|part| not_modules.contains(&part.as_str()));
        let modules: Vec<_> = modules.into_iter().filter(|(_, path)| is_module(path)).collect();
        let all: BTreeSet<Vec<&str>> = modules
            .iter()
            .flat_map(|(_, path)| (1..=path.len()).map(|n| path[..n].iter().map(String::as_str).collect()))
            .collect();
        let texts: Vec<_> = modules
            .iter()
            .map(|(file, _)| code(&std::fs::read_to_string(file).unwrap()))
            .collect();
        let handed_on = modules.iter().zip(&texts).map(|((_, path), text)| {
            let path = as_strs(path);
            let names = taken_in(text, &path, |module| all.contains(module));
            (path, names)
        });
        let handed_on: BTreeMap<_, _> = handed_on.collect();
        let mut uses = Uses::new();
        for ((file, path), text) in modules.iter().zip(&texts) {
            let path = as_strs(path);
            for named in named(text, &path) {
                let named = leads_to(&named, &all, &handed_on);
                // Those of one folder, or their folders: what is in a module may use it, and is used by it.
                let same = path.iter().zip(&named).take_while(|(own, other)| own == other).count();
                if same < path.len() && same < named.len() {
                    let of = uses.entry(path[..=same].join("::")).or_default();
                    of.entry(named[..=same].join("::")).or_insert_with(|| (*file).clone());
                }
            }
        }
        uses
    }

    fn as_strs(path: &[String]) -> Vec<&str> {
        path.iter().map(String::as_str).collect()
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
    fn what_a_folder_hands_on_is_in_the_module_it_is_from() {
        let folder = code("mod table;\npub(crate) use self::event::{Event, Seen};\nuse table::Table;\nuse std::fmt;\n");
        let all: BTreeSet<_> = [vec![], vec!["cache"], vec!["cache", "event"], vec!["cache", "table"]].into();
        let from = BTreeMap::from([(
            vec!["cache"],
            taken_in(&folder, &["cache"], |module| all.contains(module)),
        )]);
        let leads = |path: &[&'static str]| leads_to(path, &all, &from).join("::");
        assert_eq!(leads(&["cache", "Event", "New"]), "cache::event");
        assert_eq!(leads(&["cache", "Table"]), "cache::table");
        assert_eq!(leads(&["cache", "fmt"]), "cache");
        assert_eq!(leads(&["cache", "table", "Row"]), "cache::table");
    }

    #[test]
    fn a_circle_is_found_and_named() {
        let text = "use crate::{\n    b::{c, d::E},\n    e,\n};\nfn f() { super::super::g::h(); self::i(); }\n// crate::comment\n";
        let code = code(text);
        let named = |module: &[&str]| {
            let all = named(&code, module).into_iter().map(|path| path.join("::"));
            all.collect::<BTreeSet<_>>()
        };
        let all = ["b::c", "b::d::E", "e", "g::h", "x::y::i"];
        assert_eq!(named(&["x", "y"]), all.map(str::to_owned).into());
        assert_eq!(
            named(&["x"]),
            ["b::c", "b::d::E", "e", "x::i"].map(str::to_owned).into()
        );
        let edge = |to: &str| BTreeMap::from([(to.to_owned(), PathBuf::new())]);
        let mut uses = Uses::from([("a".to_owned(), edge("b")), ("b".to_owned(), edge("c"))]);
        assert_eq!(circle(&uses), None);
        uses.insert("c".to_owned(), edge("b"));
        assert_eq!(circle(&uses), Some(vec!["b", "c", "b"]));
    }
}
