//! Words that must not stand in the code, each rule with the place where it holds and its reason.
//! They look at code with comments and text blanked, so a rule may be named freely in a comment.

use super::Violation;
use super::lexer::matching;
use super::source::{Rust, Tree, line_at, words};

/// Rooms whose state and order must be exact, so that replaying the journal gives the same state.
const EXACT: [&str; 4] = ["engine", "model", "policy", "runtime"];
/// What is measured and only shown: means and quotients, of which no state and no order comes.
const MEASURES: [&str; 3] = [
    "crates/model/src/simulation.rs",
    "crates/model/src/simulation/fleet.rs",
    "crates/model/src/advice/proof.rs",
];

/// Places in tests that may sleep: how often, and why that is not a guess at a duration. A test
/// waits for a condition with a deadline; the pause between two looks at the condition is such a
/// place.
const SLEEPS: &[(&str, usize, &str)] = &[
    ("crates/backends/tests/common/mod.rs", 1, "between two looks at a condition with a deadline"),
    ("crates/daemon/tests/it/site.rs", 1, "between two looks at a condition with a deadline"),
    ("crates/cli/tests/it/crash.rs", 1, "the moment of the kill is what is random here"),
    ("crates/cli/tests/it/home.rs", 1, "between two looks at a condition with a deadline"),
    ("crates/cli/tests/system/site.rs", 1, "between two looks at a condition with a deadline"),
    ("crates/cli/tests/slurm/cluster.rs", 1, "between two looks at a condition with a deadline"),
    ("crates/cli/tests/it/pty.rs", 2, "between two looks at a condition with a deadline"),
    ("crates/cli/tests/programs/shells.rs", 1, "between two looks at a condition with a deadline"),
];

/// Unfinished work does not land.
pub fn unfinished(tree: &Tree) -> Vec<Violation> {
    const WORDS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
    everywhere(tree, |file| {
        WORDS
            .iter()
            .flat_map(|word| {
                hits(&file.code, word, &format!("`{word}`: finish it, or refuse with an error"))
            })
            .collect()
    })
}

/// A panic names the invariant that it relied on.
pub fn unwraps(tree: &Tree) -> Vec<Violation> {
    let message = "`.unwrap()`: return the error, or `expect(\"the invariant\")`";
    everywhere(tree, |file| hits(&file.production, ".unwrap()", message))
}

/// A silenced lint says why.
pub fn allows(tree: &Tree) -> Vec<Violation> {
    everywhere(tree, |file| {
        let mut found = Vec::new();
        for word in ["allow(", "expect("] {
            for offset in words(&file.code, word) {
                let end = matching(&file.code, offset + word.len() - 1);
                let inside = &file.code[offset..end];
                if in_attribute(&file.code, offset) && words(inside, "reason").is_empty() {
                    let message = format!("`{word}…)` without `reason = \"…\"`");
                    found.push((line_at(&file.code, offset), message));
                }
            }
        }
        found
    })
}

/// A skipped test says why, and what runs it.
pub fn ignored(tree: &Tree) -> Vec<Violation> {
    let message = "ignored without a reason: write `#[ignore = \"why, and what runs it\"]`";
    everywhere(tree, |file| hits(&file.code, "#[ignore]", message))
}

/// A test waits for a condition, not for a time.
pub fn sleeps(tree: &Tree) -> Vec<Violation> {
    let mut violations = everywhere(tree, |file| {
        let found = hits(
            &file.test_code(),
            "sleep(",
            "sleeps in a test: wait for the condition, with a deadline",
        );
        let allowed =
            SLEEPS.iter().find(|(path, ..)| *path == file.path).map_or(0, |(_, count, _)| *count);
        if found.len() > allowed { found } else { Vec::new() }
    });
    for (path, count, _) in SLEEPS {
        let actual = tree
            .rust()
            .iter()
            .find(|file| file.path == *path)
            .map_or(0, |file| words(&file.test_code(), "sleep(").len());
        if actual < *count && tree.has("xtask/src/tidy/words.rs") {
            let message = format!(
                "{path} sleeps {actual} times in tests, not {count}: lower the number in SLEEPS"
            );
            violations.push(Violation { path: "xtask/src/tidy/words.rs".into(), line: 0, message });
        }
    }
    violations
}

/// Floating point rounds differently by order of operations; usage and shares are integers.
pub fn floats(tree: &Tree) -> Vec<Violation> {
    everywhere(tree, |file| {
        let is_exact = file.path.starts_with("crates/") && EXACT.contains(&file.room());
        if !is_exact || MEASURES.contains(&file.path.as_str()) {
            return Vec::new();
        }
        let message =
            "floating point in a room whose state and order must replay exactly: use integers";
        ["f32", "f64"].iter().flat_map(|word| hits(&file.production, word, message)).collect()
    })
}

/// A module is named after what it holds.
pub fn catch_alls(tree: &Tree) -> Vec<Violation> {
    const NAMES: [&str; 6] = ["util", "utils", "common", "helpers", "helper", "misc"];
    everywhere(tree, |file| {
        let mut parts = file.path.split('/').rev().map(|part| part.trim_end_matches(".rs"));
        let name = parts.find(|part| *part != "mod").unwrap_or_default();
        match file.path.contains("/src/") && NAMES.contains(&name) {
            true => {
                vec![(
                    0,
                    format!(
                        "a module named `{name}` gathers everything: name it after what it holds"
                    ),
                )]
            }
            false => Vec::new(),
        }
    })
}

fn everywhere(tree: &Tree, rule: impl Fn(&Rust) -> Vec<(usize, String)>) -> Vec<Violation> {
    let mut violations = Vec::new();
    for file in tree.rust() {
        for (line, message) in rule(file) {
            violations.push(Violation { path: file.path.clone(), line, message });
        }
    }
    violations
}

fn hits(code: &str, word: &str, message: &str) -> Vec<(usize, String)> {
    words(code, word)
        .into_iter()
        .map(|offset| (line_at(code, offset), message.to_owned()))
        .collect()
}

/// True when the offset lies in `#[…]` or `#![…]`.
fn in_attribute(code: &str, offset: usize) -> bool {
    let before = &code[..offset];
    [before.rfind("#["), before.rfind("#![")].into_iter().flatten().max().is_some_and(|start| {
        code[start..].find('[').is_some_and(|open| matching(code, start + open) > offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&Tree) -> Vec<Violation>, path: &str, text: &str, lines: &[usize]) {
        let found: Vec<usize> =
            rule(&Tree::of(&[(path, text)])).iter().map(|violation| violation.line).collect();
        assert_eq!(found, lines, "{path}: {text}");
    }

    #[test]
    fn unfinished_work_is_seen_in_code_and_not_in_text() {
        check(
            unfinished,
            "crates/x/src/a.rs",
            "fn a() {\n todo!()\n}\nfn b() { unimplemented!(\"x\") }",
            &[2, 4],
        );
        check(unfinished, "crates/x/tests/a.rs", "dbg!(1);", &[1]);
        check(unfinished, "crates/x/src/a.rs", "// todo!()\nlet a = \"dbg!(x)\"; my_todo!();", &[]);
    }

    #[test]
    fn unwrap_is_seen_outside_tests_only() {
        check(
            unwraps,
            "crates/x/src/a.rs",
            "a.unwrap();\nb.unwrap_or(1);\n#[cfg(test)]\nmod t { fn f() { a.unwrap() } }",
            &[1],
        );
        check(unwraps, "crates/x/tests/a.rs", "a.unwrap();", &[]);
    }

    #[test]
    fn an_allow_needs_a_reason() {
        check(allows, "a.rs", "#[allow(dead_code)]\nfn a() {}", &[1]);
        check(allows, "a.rs", "#![cfg_attr(test, allow(clippy::unwrap_used))]", &[1]);
        check(allows, "a.rs", "#[allow(\n  dead_code,\n  reason = \"x\"\n)]\nfn a() {}", &[]);
        check(
            allows,
            "a.rs",
            "#[expect(dead_code)]\nfn a() { b.expect(\"c\"); policy.allow(d); }",
            &[1],
        );
    }

    #[test]
    fn an_ignored_test_needs_a_reason() {
        check(ignored, "a.rs", "#[test]\n#[ignore]\nfn a() {}", &[2]);
        check(ignored, "a.rs", "#[test]\n#[ignore = \"needs a GPU; run by hand\"]\nfn a() {}", &[]);
    }

    #[test]
    fn a_sleep_is_seen_in_tests_only() {
        check(sleeps, "crates/x/tests/a.rs", "std::thread::sleep(d);", &[1]);
        check(
            sleeps,
            "crates/x/src/a.rs",
            "sleep(d);\n#[cfg(test)]\nmod t {\n fn f() { sleep(d) }\n}",
            &[4],
        );
        check(sleeps, "crates/x/tests/a.rs", "// sleep(d)\nno_sleep(d);", &[]);
    }

    #[test]
    fn a_permission_to_sleep_that_nobody_uses_is_seen() {
        check(sleeps, "xtask/src/tidy/words.rs", "", &vec![0; SLEEPS.len()]);
    }

    #[test]
    fn floats_are_seen_where_state_must_be_exact() {
        check(floats, "crates/engine/src/a.rs", "let a: f64 = 1.0;\nstruct S(f32);", &[2, 1]);
        check(floats, "crates/report/src/a.rs", "let a: f64 = 1.0;", &[]);
        check(
            floats,
            "crates/engine/src/a.rs",
            "// f64\nlet bf64 = 1;\n#[cfg(test)]\nmod t { const A: f64 = 1.0; }",
            &[],
        );
    }

    #[test]
    fn catch_all_modules_are_seen() {
        check(catch_alls, "crates/x/src/utils.rs", "", &[0]);
        check(catch_alls, "crates/x/src/common/mod.rs", "", &[0]);
        check(catch_alls, "crates/x/tests/common/mod.rs", "", &[]);
    }
}
