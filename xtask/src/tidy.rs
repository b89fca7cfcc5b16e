//! Checks of the project's rules (STYLE.md), each a function from the source tree to violations. A
//! rule reads text only, no clock and no network. Rules that a compiler lint can check are left to
//! the lint.

mod budget;
mod docs;
mod language;
mod lexer;
mod manifests;
mod modules;
mod source;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::arrows;
use source::SourceTree;

/// A violation of a rule, with its position.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TidyViolation {
    /// File, relative to the root.
    pub path: String,
    /// Line, from 1; 0 for the whole file.
    pub line: usize,
    /// Description of the defect and the next step.
    pub message: String,
}

impl fmt::Display for TidyViolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Reads the tree, prints its sizes, checks every rule, and fails when there are violations.
pub fn run(root: &Path) -> Result<()> {
    let tree = SourceTree::read(root)?;
    println!("{}", budget::sizes(&tree));
    println!("{}", language::counts(&tree));
    let mut lines: Vec<String> = check(&tree).iter().map(TidyViolation::to_string).collect();
    lines.extend(arrows::drift(root)?.iter().map(|line| format!("{}: {line}", arrows::GOLDEN)));
    if lines.is_empty() {
        println!("tidy: {} files, no violations", tree.len());
        return Ok(());
    }
    bail!("{}\ntidy: {} violations", lines.join("\n"), lines.len())
}

/// Checks every rule, in the order of the style guide.
fn check(tree: &SourceTree) -> Vec<TidyViolation> {
    const RULES: &[fn(&SourceTree) -> Vec<TidyViolation>] = &[
        budget::headers,
        budget::files,
        budget::functions,
        budget::orphans,
        words::unfinished,
        words::unwraps,
        words::allows,
        words::ignored,
        words::sleeps,
        words::floats,
        words::catch_alls,
        manifests::lints,
        manifests::versions,
        manifests::bans,
        docs::machine_paths,
        docs::examples,
        docs::links,
        docs::named_files,
        docs::fields,
        modules::cycles,
        language::openings,
        language::short_docs,
        language::tuple_lets,
        language::shared_names,
    ];
    let mut violations: Vec<TidyViolation> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    violations.sort();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the same checks as `cargo xtask tidy`, so that `cargo test` alone finds violations.
    #[test]
    fn the_tree_is_tidy() {
        let root = crate::root();
        if let Err(error) = run(&root) {
            panic!("{error:#}");
        }
    }

    #[test]
    fn a_violation_shows_its_position() {
        let violation = |line| TidyViolation { path: "a.rs".into(), line, message: "bad".into() };
        assert_eq!(violation(3).to_string(), "a.rs:3: bad");
        assert_eq!(violation(0).to_string(), "a.rs: bad");
    }
}
