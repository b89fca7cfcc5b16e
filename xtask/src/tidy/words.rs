//! Rules on words that must not occur in code, each with its scope and reason. They check code with
//! comments and strings blanked.

use super::TidyViolation;
use super::lexer::matching;
use super::source::{RustFile, SourceTree, line_at, words};

/// Crates whose state and order must be exact, so that replaying the journal gives the same state.
const EXACT_CRATES: [&str; 4] = ["engine", "model", "policy", "runtime"];
/// Files of those crates with values that are only displayed (means, quotients, metrics of programs), never part of
/// state or order.
const DISPLAY_ONLY: [&str; 6] = [
    "crates/model/src/simulation.rs",
    "crates/model/src/simulation/calibration.rs",
    "crates/model/src/simulation/fleet.rs",
    "crates/model/src/simulation/variant.rs",
    "crates/model/src/advice/proof.rs",
    "crates/model/src/sweep.rs",
];

/// Test files that may call sleep: the number of calls, and the reason. A test must wait for a
/// condition with a deadline; the pause between two checks of the condition is a valid reason.
const SLEEPS: &[(&str, usize, &str)] = &[
    ("crates/backends/tests/common/mod.rs", 1, "between two checks of a condition with a deadline"),
    ("crates/daemon/tests/it/site.rs", 1, "between two checks of a condition with a deadline"),
    (
        "crates/operator/benches/placement/cluster.rs",
        1,
        "between two checks of a condition that nobody reports",
    ),
    ("crates/cli/tests/it/crash.rs", 1, "the time of the kill is the random input of this test"),
    (
        "crates/cli/tests/recipes/ray_kills.rs",
        1,
        "the time of the kill is the random input of this test",
    ),
    ("crates/cli/tests/it/home.rs", 1, "between two checks of a condition with a deadline"),
    ("crates/cli/tests/system/site.rs", 1, "between two checks of a condition with a deadline"),
    ("crates/cli/tests/slurm/cluster.rs", 1, "between two checks of a condition with a deadline"),
    ("crates/cli/tests/it/pty.rs", 2, "between two checks of a condition with a deadline"),
    (
        "crates/cli/tests/kubernetes/chaos.rs",
        1,
        "the time of the kill is the random input of this test",
    ),
    (
        "crates/cli/tests/kubernetes/scheduler_process.rs",
        2,
        "between two checks of a condition with a deadline, and of whether a process runs",
    ),
    ("crates/cli/tests/programs/shells.rs", 1, "between two checks of a condition with a deadline"),
];

/// Rejects macros of unfinished code.
pub fn unfinished(tree: &SourceTree) -> Vec<TidyViolation> {
    const WORDS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];
    everywhere(tree, |file| {
        WORDS
            .iter()
            .flat_map(|word| {
                hits(&file.code, word, &format!("`{word}`: finish the code, or return an error"))
            })
            .collect()
    })
}

/// Rejects `unwrap` in production code: `expect` names the invariant that makes the panic
/// impossible.
pub fn unwraps(tree: &SourceTree) -> Vec<TidyViolation> {
    let message = "`.unwrap()`: return the error, or `expect(\"the invariant\")`";
    everywhere(tree, |file| hits(&file.production, ".unwrap()", message))
}

/// Requires a reason for each silenced lint.
pub fn allows(tree: &SourceTree) -> Vec<TidyViolation> {
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

/// Requires a reason for each ignored test.
pub fn ignored(tree: &SourceTree) -> Vec<TidyViolation> {
    let message = "ignored without a reason: write `#[ignore = \"why, and what runs it\"]`";
    everywhere(tree, |file| hits(&file.code, "#[ignore]", message))
}

/// Rejects sleeps in tests, except those in [`SLEEPS`]: tests wait for a condition, not for a time.
pub fn sleeps(tree: &SourceTree) -> Vec<TidyViolation> {
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
                "{path} has {actual} sleeps in tests, not {count}: lower the number in SLEEPS"
            );
            violations.push(TidyViolation {
                path: "xtask/src/tidy/words.rs".into(),
                line: 0,
                message,
            });
        }
    }
    violations
}

/// Rejects floating point in [`EXACT_CRATES`]: its rounding depends on the order of operations.
pub fn floats(tree: &SourceTree) -> Vec<TidyViolation> {
    everywhere(tree, |file| {
        let is_exact =
            file.path.starts_with("crates/") && EXACT_CRATES.contains(&file.crate_folder());
        if !is_exact || DISPLAY_ONLY.contains(&file.path.as_str()) {
            return Vec::new();
        }
        let message =
            "floating point in a crate whose state and order must replay exactly: use integers";
        ["f32", "f64"].iter().flat_map(|word| hits(&file.production, word, message)).collect()
    })
}

/// Rejects modules with catch-all names.
pub fn catch_alls(tree: &SourceTree) -> Vec<TidyViolation> {
    const NAMES: [&str; 6] = ["util", "utils", "common", "helpers", "helper", "misc"];
    everywhere(tree, |file| {
        let mut parts = file.path.split('/').rev().map(|part| part.trim_end_matches(".rs"));
        let name = parts.find(|part| *part != "mod").unwrap_or_default();
        if !file.path.contains("/src/") || !NAMES.contains(&name) {
            return Vec::new();
        }
        let message =
            format!("module name `{name}` says nothing about its contents: name it after them");
        vec![(0, message)]
    })
}

fn everywhere(
    tree: &SourceTree,
    rule: impl Fn(&RustFile) -> Vec<(usize, String)>,
) -> Vec<TidyViolation> {
    let mut violations = Vec::new();
    for file in tree.rust() {
        for (line, message) in rule(file) {
            violations.push(TidyViolation { path: file.path.clone(), line, message });
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

/// Returns true when the offset is inside `#[…]` or `#![…]`.
fn in_attribute(code: &str, offset: usize) -> bool {
    let before = &code[..offset];
    [before.rfind("#["), before.rfind("#![")].into_iter().flatten().max().is_some_and(|start| {
        code[start..].find('[').is_some_and(|open| matching(code, start + open) > offset)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&SourceTree) -> Vec<TidyViolation>, path: &str, text: &str, lines: &[usize]) {
        let found: Vec<usize> =
            rule(&SourceTree::of(&[(path, text)])).iter().map(|violation| violation.line).collect();
        assert_eq!(found, lines, "{path}: {text}");
    }

    #[test]
    fn unfinished_code_is_found_in_code_and_not_in_strings() {
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
    fn unwrap_is_found_outside_tests_only() {
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
    fn a_sleep_is_found_in_tests_only() {
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
    fn an_unused_permission_to_sleep_is_found() {
        check(sleeps, "xtask/src/tidy/words.rs", "", &vec![0; SLEEPS.len()]);
    }

    #[test]
    fn floats_are_found_where_state_must_be_exact() {
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
    fn catch_all_modules_are_found() {
        check(catch_alls, "crates/x/src/utils.rs", "", &[0]);
        check(catch_alls, "crates/x/src/common/mod.rs", "", &[0]);
        check(catch_alls, "crates/x/tests/common/mod.rs", "", &[]);
    }
}
