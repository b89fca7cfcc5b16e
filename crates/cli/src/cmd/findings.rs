//! Options and output of the commands that report findings: the format, and a baseline of accepted
//! findings. What is found is decided elsewhere.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use muster_doctor::{RuleText, baseline, known_in, sarif};
use muster_model::check::CheckReport;

use crate::app::App;
use crate::exit::Failure;
use crate::output_files;
use crate::source::text;

/// Largest baseline in bytes: a million findings.
const MAX_BYTES: u64 = 256 << 20;

/// Baseline to read, or to write.
#[derive(Debug, clap::Args)]
pub struct BaselineArgs {
    /// File of accepted findings, as written by --write-baseline
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
    /// Write all findings to this file, for use with --baseline, and exit with 0; `-` is stdout
    #[arg(long, value_name = "FILE", conflicts_with_all = ["baseline", "json", "format"])]
    write_baseline: Option<PathBuf>,
}

/// Format of a report of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FindingsFormat {
    /// Text and tables for people
    Text,
    /// JSON for programs, as its schema describes it
    Json,
    /// SARIF 2.1.0 for code hosts
    Sarif,
}

impl BaselineArgs {
    /// Returns the fingerprints of the accepted findings.
    pub fn known(&self) -> Result<BTreeSet<String>> {
        let Some(path) = &self.baseline else { return Ok(BTreeSet::new()) };
        let (name, text) = text(path, MAX_BYTES)?;
        let wrong = |line| {
            Failure::usage(format!("{name}:{line} does not start with a fingerprint"))
                .hint("`--write-baseline FILE` writes such a file")
        };
        Ok(known_in(&text).map_err(wrong)?)
    }

    /// Writes the baseline if one is to be written, overwriting an existing one: it is rewritten
    /// whenever findings change. Returns whether it did.
    pub fn write(&self, app: &App, report: &CheckReport) -> Result<bool> {
        let Some(path) = &self.write_baseline else { return Ok(false) };
        let text = baseline(report);
        if path.as_os_str() == "-" {
            app.ui.data(&text)?
        } else {
            output_files::write(path, &text, true)?
        }
        app.ui.status(&format!(
            "{} findings written; --baseline accepts them from now on",
            report.findings.len()
        ));
        Ok(true)
    }
}

/// Writes a report as SARIF to stdout.
pub fn write_sarif(
    app: &App,
    report: &CheckReport,
    rules: &[RuleText],
    command: &str,
) -> Result<()> {
    app.ui.json(&sarif(report, rules, command, env!("CARGO_PKG_VERSION")))
}
