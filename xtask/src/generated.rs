//! Generated files: printed by other programs of the workspace from code, and committed so that
//! users and tools can read them without a build. This module runs those programs, compares and
//! writes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::binaries;

/// Example that prints the documents that crates make from their types.
const DOCUMENTS: &str = "documents";

/// The `muster` binary, which prints its own command line and schemas.
const MUSTER: &str = "muster";

/// Generated files, each with the program that prints it and its arguments.
const FILES: &[(&str, &str, &str)] = &[
    ("docs/openapi.json", DOCUMENTS, "openapi"),
    ("docs/schema/job.schema.json", DOCUMENTS, "job"),
    ("docs/schema/queues.schema.json", DOCUMENTS, "queues"),
    ("docs/schema/cluster.schema.json", DOCUMENTS, "cluster"),
    ("docs/schema/facts.schema.json", DOCUMENTS, "facts"),
    ("docs/schema/site.schema.json", DOCUMENTS, "site"),
    ("packaging/helm/muster/templates/muster.yaml", DOCUMENTS, "chart"),
    ("docs/schema/advice.schema.json", MUSTER, "schema advice"),
    ("docs/schema/site-advice.schema.json", MUSTER, "schema site-advice"),
    ("docs/schema/comparison.schema.json", MUSTER, "schema comparison"),
    ("docs/schema/gang-proof.schema.json", MUSTER, "schema gang-proof"),
    ("docs/schema/gang-orders.schema.json", MUSTER, "schema gang-orders"),
    ("docs/schema/gang-sweep.schema.json", MUSTER, "schema gang-sweep"),
    ("docs/schema/trace-recipe.schema.json", MUSTER, "schema trace-recipe"),
    ("docs/schema/trace-summary.schema.json", MUSTER, "schema trace-summary"),
    ("docs/schema/flat-comparison.schema.json", MUSTER, "schema flat-comparison"),
    ("docs/schema/fleet-comparison.schema.json", MUSTER, "schema fleet-comparison"),
    ("docs/schema/fleet-event.schema.json", MUSTER, "schema fleet-event"),
    ("docs/schema/fleet-instant.schema.json", MUSTER, "schema fleet-instant"),
    ("docs/schema/policy-state.schema.json", MUSTER, "schema policy-state"),
    ("docs/schema/policy-answer.schema.json", MUSTER, "schema policy-answer"),
    ("docs/schema/what-if.schema.json", MUSTER, "schema what-if"),
    ("docs/schema/packing-comparison.schema.json", MUSTER, "schema packing-comparison"),
    ("docs/schema/check-report.schema.json", MUSTER, "schema check-report"),
    ("docs/schema/verify-report.schema.json", MUSTER, "schema verify-report"),
    ("docs/schema/import-report.schema.json", MUSTER, "schema import-report"),
    ("docs/cli.md", MUSTER, "__docs"),
    ("docs/check.md", MUSTER, "__docs check"),
    ("docs/verify.md", MUSTER, "__docs verify"),
    ("docs/advise.md", MUSTER, "__docs advise"),
];

/// Generates and writes every file.
pub fn write(root: &Path) -> Result<()> {
    let programs = programs(root)?;
    for (path, program, arguments) in FILES {
        let target = root.join(path);
        let folder = target.parent().context("a generated file has a folder")?;
        std::fs::create_dir_all(folder)?;
        std::fs::write(&target, printed(root, &programs[program], arguments)?)
            .with_context(|| format!("writing {path}"))?;
        println!("wrote {path}");
    }
    Ok(())
}

/// Fails when a committed file differs from the present output.
pub fn check(root: &Path) -> Result<()> {
    let programs = programs(root)?;
    let mut stale = Vec::new();
    for (path, program, arguments) in FILES {
        let committed = std::fs::read_to_string(root.join(path)).unwrap_or_default();
        if let Some(difference) =
            difference(&committed, &printed(root, &programs[program], arguments)?)
        {
            stale.push(format!("{path}: {difference}"));
        }
    }
    if stale.is_empty() {
        println!("{} generated files are current", FILES.len());
        return Ok(());
    }
    bail!("{}\nhint: cargo xtask gen", stale.join("\n"))
}

/// Builds the programs; returns their paths by name.
fn programs(root: &Path) -> Result<BTreeMap<&'static str, PathBuf>> {
    let path = |name| Ok((name, binaries::program(root, name)?));
    [DOCUMENTS, MUSTER].into_iter().map(path).collect()
}

fn printed(root: &Path, program: &Path, arguments: &str) -> Result<String> {
    let output = Command::new(program)
        .args(arguments.split(' '))
        .current_dir(root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} did not start", program.display()))?;
    if !output.status.success() || output.stdout.is_empty() {
        bail!("`{} {arguments}` printed nothing: {}", program.display(), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Describes the first line that differs; `None` when there is none.
fn difference(committed: &str, current: &str) -> Option<String> {
    if committed == current {
        return None;
    }
    let mut committed_lines = committed.lines();
    let mut current_lines = current.lines();
    for number in 1.. {
        let old = committed_lines.next();
        let new = current_lines.next();
        if old != new {
            let show = |line: Option<&str>| {
                line.map_or("nothing".to_owned(), |line| format!("`{}`", line.trim()))
            };
            return Some(format!("line {number} is {}, the code prints {}", show(old), show(new)));
        }
        if old.is_none() {
            break;
        }
    }
    Some("line ends differ".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_difference_is_shown() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(
            difference("a\nb\n", "a\n c\n").as_deref(),
            Some("line 2 is `b`, the code prints `c`")
        );
        assert_eq!(
            difference("", "a\n").as_deref(),
            Some("line 1 is nothing, the code prints `a`")
        );
        assert_eq!(difference("a", "a\n").as_deref(), Some("line ends differ"));
    }
}
