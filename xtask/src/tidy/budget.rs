//! Rules on size and structure: headers, length of files and functions, files without a module
//! declaration. Tests are not counted, so that these limits do not discourage them.

use super::TidyViolation;
use super::lexer::matching;
use super::source::{RustFile, SourceTree, line_at, module_folder, words};

/// Maximum number of lines of a file.
const FILE_LINES: usize = 800;

/// Goal for the median length of files; reported, not enforced.
const MEDIAN_LINES: usize = 200;

/// Maximum number of lines of a function: one screen.
const FUNCTION_LINES: usize = 70;

/// Requires a module header in every file.
pub fn headers(tree: &SourceTree) -> Vec<TidyViolation> {
    let broken = tree.rust().iter().filter(|file| {
        let first = file.text.lines().next().unwrap_or_default();
        first.strip_prefix("//!").is_none_or(|header| header.trim().is_empty())
    });
    broken
        .map(|file| {
            at(
                file,
                1,
                "has no `//!` header: describe the module's purpose, main type and invariant"
                    .into(),
            )
        })
        .collect()
}

/// Rejects files longer than [`FILE_LINES`].
pub fn files(tree: &SourceTree) -> Vec<TidyViolation> {
    let sized = tree.rust().iter().map(|file| (file, lines_without_tests(file)));
    sized
        .filter(|(_, lines)| *lines > FILE_LINES)
        .map(|(file, lines)| {
            at(
                file,
                0,
                format!("{lines} lines without tests, at most {FILE_LINES}: split the file"),
            )
        })
        .collect()
}

/// Rejects functions longer than [`FUNCTION_LINES`].
pub fn functions(tree: &SourceTree) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for file in tree.rust() {
        for (line, name, lines) in functions_of(&file.production) {
            if lines > FUNCTION_LINES {
                let message = format!(
                    "fn {name} has {lines} lines, at most {FUNCTION_LINES}: extract its phases into functions"
                );
                violations.push(at(file, line, message));
            }
        }
    }
    violations
}

/// Rejects files without a module declaration, which are never compiled.
pub fn orphans(tree: &SourceTree) -> Vec<TidyViolation> {
    let named = |file: &RustFile| {
        let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
        let (home, module) = match name {
            "mod.rs" => folder.rsplit_once('/').unwrap_or(("", folder)),
            _ => (folder, name.trim_end_matches(".rs")),
        };
        let parents = tree
            .rust()
            .iter()
            .filter(|parent| parent.path != file.path && module_folder(&parent.path) == home);
        parents.into_iter().any(|parent| !words(&parent.code, &format!("mod {module};")).is_empty())
    };
    let is_root = |file: &RustFile| {
        file.path.ends_with("src/lib.rs")
            || file.path.ends_with("src/main.rs")
            || file.path.contains("src/bin/")
    };
    let inside = tree.rust().iter().filter(|file| file.path.contains("/src/") && !is_root(file));
    inside
        .filter(|file| !named(file))
        .map(|file| at(file, 0, "no module declares this file: declare or delete it".into()))
        .collect()
}

/// Returns a line with the sizes of the tree, for the log.
pub fn sizes(tree: &SourceTree) -> String {
    let mut sized: Vec<(usize, &str)> = tree
        .rust()
        .iter()
        .map(|file| (lines_without_tests(file), file.path.as_str()))
        .filter(|(lines, _)| *lines > 0)
        .collect();
    sized.sort_unstable();
    let Some((longest, path)) = sized.last() else { return "no Rust files".to_owned() };
    let rank = |percent: usize| sized[(sized.len() - 1) * percent / 100].0;
    let mut functions: Vec<usize> = tree
        .rust()
        .iter()
        .flat_map(|file| functions_of(&file.production))
        .map(|(_, _, lines)| lines)
        .collect();
    functions.sort_unstable();
    let longest_function = functions.last().copied().unwrap_or(0);
    format!(
        "sizes without tests: {} files, median {} lines (goal {MEDIAN_LINES}), 90 % under {}, longest {longest} ({path}); \
         longest function {longest_function} lines",
        sized.len(),
        rank(50),
        rank(90) + 1,
    )
}

/// Returns the number of lines outside test items; comments count.
fn lines_without_tests(file: &RustFile) -> usize {
    if file.is_test() || (file.production.trim().is_empty() && !file.code.trim().is_empty()) {
        return 0;
    }
    let tests = file.test_code();
    let test_lines = tests.lines().filter(|line| !line.trim().is_empty()).count();
    file.text.lines().count() - test_lines
}

/// Returns line, name and length of every function with a body; the length is the distance from
/// `fn` to its last line.
fn functions_of(code: &str) -> Vec<(usize, String, usize)> {
    let mut found = Vec::new();
    for start in words(code, "fn") {
        let rest = code[start + 2..].trim_start();
        let name: String = rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        if name.is_empty() {
            continue;
        }
        let Some(open) = body_of(code, start) else { continue };
        let first = line_at(code, start);
        let last = line_at(code, matching(code, open) - 1);
        found.push((first, name, last - first));
    }
    found
}

/// Returns the offset of the bracket that opens the body; `None` for a declaration.
fn body_of(code: &str, start: usize) -> Option<usize> {
    let mut skip_to = start;
    for (offset, byte) in code.bytes().enumerate().skip(start) {
        match byte {
            _ if offset < skip_to => {}
            b'(' | b'[' => skip_to = matching(code, offset),
            b'{' => return Some(offset),
            b';' => return None,
            _ => {}
        }
    }
    None
}

fn at(file: &RustFile, line: usize, message: String) -> TidyViolation {
    TidyViolation { path: file.path.clone(), line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(
        rule: fn(&SourceTree) -> Vec<TidyViolation>,
        files: &[(&str, &str)],
        expected: &[&str],
    ) {
        let found: Vec<String> =
            rule(&SourceTree::of(files)).iter().map(TidyViolation::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found} does not start with {expected}");
        }
    }

    #[test]
    fn a_file_without_a_header_is_found() {
        let files = [
            ("a.rs", "//! good\n"),
            ("b.rs", "fn b() {}\n"),
            ("c.rs", "//!\n"),
            ("d.rs", "\n//! late"),
            ("e.txt", ""),
        ];
        check(headers, &files, &["b.rs:1: has no `//!` header", "c.rs:1: ", "d.rs:1: "]);
    }

    #[test]
    fn a_long_file_is_found_and_its_tests_are_not_counted() {
        let code = "fn a() {}\n".repeat(801);
        let tests = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{code}}}\n");
        let tree = [
            ("crates/x/src/a.rs", &*code),
            ("crates/x/src/b.rs", &*tests),
            ("crates/x/tests/c.rs", &*code),
        ];
        check(files, &tree, &["crates/x/src/a.rs: 801 lines without tests"]);
    }

    #[test]
    fn a_long_function_is_found_and_one_at_the_limit_is_not() {
        let function = |lines: usize| {
            format!(
                "impl A {{\n    fn f(x: [u8; 3]) -> bool {{\n{}    }}\n}}\n",
                "x;\n".repeat(lines - 1)
            )
        };
        check(functions, &[("a.rs", &function(70))], &[]);
        check(functions, &[("a.rs", &function(71))], &["a.rs:2: fn f has 71 lines"]);
        check(functions, &[("tests/a.rs", &function(99))], &[]);
        check(functions, &[("a.rs", "trait T {\n fn f();\n}\nstruct S {\n f: fn(u8),\n}\n")], &[]);
    }

    #[test]
    fn a_file_without_a_module_declaration_is_found() {
        let files = [
            ("crates/x/src/lib.rs", "mod a;\nmod b;\n"),
            ("crates/x/src/a.rs", "pub mod inner;"),
            ("crates/x/src/a/inner.rs", ""),
            ("crates/x/src/a/lost.rs", ""),
            ("crates/x/src/b/mod.rs", ""),
            ("crates/x/src/main.rs", ""),
            ("crates/x/tests/free.rs", ""),
        ];
        check(orphans, &files, &["crates/x/src/a/lost.rs: no module declares this file"]);
    }

    #[test]
    fn sizes_are_measured_without_tests() {
        let tree = SourceTree::of(&[("a.rs", "//! a\nfn a() {\n}\n"), ("tests/b.rs", "//! b\n")]);
        assert!(
            sizes(&tree).starts_with("sizes without tests: 1 files, median 3 lines"),
            "{}",
            sizes(&tree)
        );
    }
}
