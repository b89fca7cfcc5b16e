//! Cycles between the modules of a crate. A module is a file; it uses another when a path in its
//! code leads there, through re-exports too. Uses between a module and those above or below it are
//! ordinary and do not count. Paths are read from text: macros and the types of values are unseen.

use std::collections::{BTreeMap, BTreeSet};

use super::TidyViolation;
use super::source::{RustFile, SourceTree, line_at, words};

/// Path of a module within its crate, or of an item.
type Segments = Vec<String>;

/// Imported names of a module, by the name that they have there.
type Imports = BTreeMap<String, Segments>;

/// Modules of one crate and the names that each imports.
struct Modules<'a> {
    files: BTreeMap<Segments, &'a RustFile>,
    imports: BTreeMap<Segments, Imports>,
    globs: BTreeMap<Segments, Vec<Segments>>,
}

/// Finds the cycles between modules that do not lie on one line of descent.
pub fn cycles(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut crates: BTreeMap<&str, BTreeMap<Segments, &RustFile>> = BTreeMap::new();
    for file in tree.rust().iter().filter(|file| !file.is_test()) {
        if let Some((folder, module)) = module_of(&file.path) {
            crates.entry(folder).or_default().insert(module, file);
        }
    }
    let mut violations = Vec::new();
    for files in crates.into_values() {
        violations.extend(Modules::new(files).cycles());
    }
    violations
}

/// Returns the crate's folder and the module of a source file: `crates/spec` and `job::check` for
/// `crates/spec/src/job/check.rs`.
fn module_of(path: &str) -> Option<(&str, Segments)> {
    let (folder, file) = path.split_once("/src/")?;
    let file = file.strip_suffix(".rs")?;
    let module = file.strip_suffix("/mod").unwrap_or(file);
    let is_root = matches!(module, "lib" | "main");
    Some((folder, if is_root { Vec::new() } else { segments(module, "/") }))
}

fn segments(text: &str, separator: &str) -> Segments {
    text.split(separator).map(str::to_owned).collect()
}

impl<'a> Modules<'a> {
    fn new(files: BTreeMap<Segments, &'a RustFile>) -> Self {
        let mut modules = Self { files, imports: BTreeMap::new(), globs: BTreeMap::new() };
        for (module, file) in &modules.files {
            let mut names = Imports::new();
            let mut globs = Vec::new();
            for (_, path, name) in used(&file.production) {
                match name.as_deref() {
                    Some("*") => globs.push(path),
                    Some(name) => _ = names.insert(name.to_owned(), path),
                    None => {}
                }
            }
            modules.imports.insert(module.clone(), names);
            modules.globs.insert(module.clone(), globs);
        }
        modules
    }

    /// Returns a violation per set of modules that reach each other, in order of path.
    fn cycles(&self) -> Vec<TidyViolation> {
        let uses: BTreeMap<&Segments, BTreeMap<&Segments, usize>> =
            self.files.keys().map(|module| (module, self.uses(module))).collect();
        let reach: BTreeMap<&Segments, BTreeSet<&Segments>> =
            uses.keys().map(|module| (*module, reachable(&uses, module))).collect();
        let mut reported: BTreeSet<&Segments> = BTreeSet::new();
        let mut violations = Vec::new();
        for (module, reached) in &reach {
            if !reached.contains(*module) || reported.contains(*module) {
                continue;
            }
            let members: Vec<&Segments> =
                reached.iter().filter(|other| reach[**other].contains(*module)).copied().collect();
            reported.extend(&members);
            let mut edges = Vec::new();
            for from in &members {
                for (to, line) in uses[from].iter().filter(|(to, _)| members.contains(to)) {
                    edges.push(format!("{}:{line} -> {}", from.join("::"), to.join("::")));
                }
            }
            violations.push(TidyViolation {
                path: self.files[*module].path.clone(),
                line: 0,
                message: format!(
                    "{} modules use each other; move what they share to its owner or to their \
                     parent: {}",
                    members.len(),
                    edges.join(", ")
                ),
            });
        }
        violations
    }

    /// Returns the modules that a module uses, except those above and below it, each with the first
    /// line that does.
    fn uses(&self, module: &Segments) -> BTreeMap<&Segments, usize> {
        let code = &self.files[module].production;
        let mut found = BTreeMap::new();
        let mut paths: Vec<(usize, Segments)> =
            used(code).into_iter().map(|(offset, path, _)| (offset, path)).collect();
        // Paths that begin with an imported module: `use super::cmd; … cmd::run()`.
        for (name, import) in &self.imports[module] {
            for offset in words(code, &format!("{name}::")) {
                if !code[..offset].ends_with(':') {
                    let mut path = import.clone();
                    path.extend(path_at(code, offset).into_iter().skip(1));
                    paths.push((offset, path));
                }
            }
        }
        for (offset, path) in paths {
            let Some(target) = self.resolve(module, &path, 0) else { continue };
            if !target.starts_with(module) && !module.starts_with(target) {
                found.entry(target).or_insert_with(|| line_at(code, offset));
            }
        }
        found
    }

    /// Returns the module that a path leads to, or in which its item is; `None` for other crates.
    fn resolve(&self, from: &Segments, path: &[String], depth: usize) -> Option<&Segments> {
        /// Re-exports of re-exports that are followed.
        const MAX_DEPTH: usize = 8;
        let mut at = from.clone();
        let mut rest = path;
        while let Some((first, others)) = rest.split_first() {
            match first.as_str() {
                "crate" => at.clear(),
                "super" => _ = at.pop(),
                "self" => {}
                _ => break,
            }
            rest = others;
        }
        let is_relative = rest.len() < path.len();
        for (index, name) in rest.iter().enumerate() {
            at.push(name.clone());
            if self.files.contains_key(&at) {
                continue;
            }
            at.pop();
            if depth < MAX_DEPTH
                && let Some(target) = self.imports.get(&at)?.get(name)
                && target.as_slice() != path
            {
                let mut target = target.clone();
                target.extend_from_slice(&rest[index + 1..]);
                if let Some(module) = self.resolve(&at, &target, depth + 1) {
                    return Some(module);
                }
            }
            if index == 0 && !is_relative {
                return None;
            }
            for glob in self.globs[&at].iter().filter(|_| depth < MAX_DEPTH) {
                let module = self.resolve(&at, glob, depth + 1);
                if let Some(module) = module.filter(|module| self.defines(module, name)) {
                    return Some(module);
                }
            }
            break;
        }
        self.files.get_key_value(&at).map(|(module, _)| module)
    }

    fn defines(&self, module: &Segments, name: &str) -> bool {
        const KINDS: [&str; 7] = ["struct", "enum", "trait", "fn", "type", "const", "static"];
        let code = &self.files[module].production;
        words(code, name).into_iter().any(|offset| {
            let before = code[..offset].trim_end();
            KINDS.iter().any(|kind| before.ends_with(kind))
        })
    }
}

/// Returns the modules that can be reached from a module in one step or more.
fn reachable<'a>(
    uses: &BTreeMap<&'a Segments, BTreeMap<&'a Segments, usize>>,
    from: &'a Segments,
) -> BTreeSet<&'a Segments> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&Segments> = vec![from];
    while let Some(module) = open.pop() {
        open.extend(uses[module].keys().filter(|next| found.insert(**next)));
    }
    found
}

/// Returns the paths in the code, each with its offset and, for an import, the name that it gets
/// (`*` for all names of a module).
fn used(code: &str) -> Vec<(usize, Segments, Option<String>)> {
    let mut found = Vec::new();
    let mut imports = Vec::new();
    for offset in words(code, "use ") {
        let Some(end) = code[offset..].find(';').map(|length| offset + length) else { continue };
        imports.push(offset..end);
        for (path, name) in import_tree(&code[offset + "use ".len()..end]) {
            found.push((offset, path, Some(name)));
        }
    }
    for root in ["crate::", "super::", "self::"] {
        for offset in words(code, root) {
            let is_first = !code[..offset].ends_with(':');
            if is_first && !imports.iter().any(|import| import.contains(&offset)) {
                found.push((offset, path_at(code, offset), None));
            }
        }
    }
    found
}

/// Returns the path that begins at an offset.
fn path_at(code: &str, offset: usize) -> Segments {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let path = code[offset..].split(|c| !is_part(c)).next().unwrap_or_default();
    segments(path.trim_end_matches(':'), "::")
}

/// Returns the paths of an import, `a::{b, c as d}`, each with the name that it gets.
fn import_tree(tree: &str) -> Vec<(Segments, String)> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = segments(path.trim(), "::");
        if path.len() > 1 && path.last().is_some_and(|last| last == "self" || last == "*") {
            let last = path.pop().unwrap_or_default();
            let own = path.last().cloned().unwrap_or_default();
            return vec![(path, if last == "*" { last } else { own })];
        }
        let name = path.last().cloned().unwrap_or_default();
        return vec![(path, if alias.is_empty() { name } else { alias.trim().to_owned() })];
    };
    let prefix = prefix.trim();
    let mut paths = Vec::new();
    let mut depth = 0;
    let mut start = 0;
    for (offset, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' | '}' if depth == 0 => {
                let part = group[start..offset].trim();
                if !part.is_empty() {
                    paths.extend(import_tree(&format!("{prefix}{part}")));
                }
                start = offset + 1;
            }
            _ => {}
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let files: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("crates/x/src/{path}"), *text)).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), *text)).collect();
        let found = cycles(&SourceTree::of(&files));
        let edges: Vec<&str> = found
            .iter()
            .filter_map(|violation| Some(violation.message.split_once("parent: ")?.1))
            .collect();
        assert_eq!(edges, expected, "{files:?}");
    }

    #[test]
    fn cycles_between_siblings_are_found_and_families_are_not() {
        let root = ("lib.rs", "mod a;\nmod b;");
        check(&[root, ("a.rs", "use crate::b::B;"), ("b.rs", "use crate::A;")], &[]);
        check(
            &[root, ("a.rs", "use crate::b::B;"), ("b.rs", "\nfn f(a: &super::a::A) {}")],
            &["a:1 -> b, b:2 -> a"],
        );
        check(&[("a.rs", "mod c; use self::c::C;"), ("a/c.rs", "use super::{A, B as D};")], &[]);
        check(
            &[
                ("a.rs", "use super::b;\nfn f() { b::c::C }"),
                ("b.rs", "mod c;"),
                ("b/c.rs", "use crate::a::A;"),
            ],
            &["a:2 -> b::c, b::c:1 -> a"],
        );
        check(
            &[("a.rs", "use std::{fmt, io::{self, b}};"), ("b.rs", "use crate::a::{self, A};")],
            &[],
        );
    }

    #[test]
    fn test_code_is_left_out() {
        let test = "#[cfg(test)]\nmod tests { use crate::a::A; }";
        check(&[("a.rs", "use crate::b;"), ("b.rs", test)], &[]);
    }

    #[test]
    fn re_exports_lead_to_the_module_that_defines_the_item() {
        let a = ("a.rs", "use super::B;");
        let b = ("b.rs", "pub struct B; use super::a::A;");
        let expected: &[&str] = &["a:1 -> b, b:1 -> a"];
        check(&[("lib.rs", "pub use b::{B, C as D};"), a, b], expected);
        check(&[("lib.rs", "pub use self::b::*;"), a, b], expected);
        check(&[("lib.rs", "pub use self::c::*;"), a, b], &[]);
    }
}
