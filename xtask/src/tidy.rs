//! House rules over the tree, each a function from sources to violations. A rule looks at text and
//! never at a clock or the network; what a compiler lint can say is left to the lint.

mod budget;
mod docs;
mod lexer;
mod manifests;
mod source;
mod words;

use std::fmt;
use std::path::Path;

use anyhow::{Result, bail};

use crate::arrows;
use source::Tree;

/// A place that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Violation {
    /// File, relative to the root.
    pub path: String,
    /// Line, from 1; 0 when the whole file is meant.
    pub line: usize,
    /// What is wrong and what to do.
    pub message: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// Reads the tree, applies every rule, prints the sizes, and fails when something is broken.
pub fn run(root: &Path) -> Result<()> {
    let tree = Tree::read(root)?;
    println!("{}", budget::sizes(&tree));
    let mut lines: Vec<String> = check(&tree).iter().map(Violation::to_string).collect();
    lines.extend(arrows::drift(root)?.iter().map(|line| format!("{}: {line}", arrows::GOLDEN)));
    if lines.is_empty() {
        println!("tidy: {} files, nothing to mend", tree.len());
        return Ok(());
    }
    bail!("{}\ntidy: {} places to mend", lines.join("\n"), lines.len())
}

/// Every rule, in the order of the style guide.
fn check(tree: &Tree) -> Vec<Violation> {
    const RULES: &[fn(&Tree) -> Vec<Violation>] = &[
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
        docs::places,
        docs::links,
        docs::names,
        docs::fields,
    ];
    let mut violations: Vec<Violation> = RULES.iter().flat_map(|rule| rule(tree)).collect();
    violations.sort();
    violations
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same as `cargo xtask tidy`, so that `cargo test` alone tells.
    #[test]
    fn the_tree_is_tidy() {
        let root = crate::root();
        if let Err(error) = run(&root) {
            panic!("{error:#}");
        }
    }

    #[test]
    fn a_violation_names_its_place() {
        let violation = |line| Violation { path: "a.rs".into(), line, message: "bad".into() };
        assert_eq!(violation(3).to_string(), "a.rs:3: bad");
        assert_eq!(violation(0).to_string(), "a.rs: bad");
    }
}
