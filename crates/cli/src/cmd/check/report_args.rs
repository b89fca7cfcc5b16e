//! Options and output that the checks of every kind of cluster share.

use std::collections::BTreeSet;

use anyhow::Result;
use clap::ValueEnum;
use muster_doctor::{RuleText, explain};
use muster_model::check::{CheckReport, ProbeOutcome, Severity};
use muster_report::RenderContext;
use muster_report::table::Table;

use crate::app::App;
use crate::cmd::findings::{BaselineArgs, FindingsFormat, write_sarif};
use crate::exit::{FAILURE, Failure};

/// Options for the report of a check.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    #[command(flatten)]
    baseline: BaselineArgs,
    /// Exit with 1 on findings of this severity or above
    #[arg(long, value_enum, value_name = "SEVERITY", default_value_t = FailOn::Medium)]
    fail_on: FailOn,
    /// Also list rules that passed, and what is needed to test the others
    #[arg(long)]
    all: bool,
    /// Same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Format of the report
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = FindingsFormat::Text)]
    format: FindingsFormat,
    /// List the rules, without checking
    #[arg(long, conflicts_with = "explain")]
    rules: bool,
    /// Explain a rule, without checking
    #[arg(long, value_name = "RULE")]
    explain: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum FailOn {
    /// Only findings that break a guarantee of the cluster
    High,
    /// Also findings that sometimes treat jobs or users wrongly
    Medium,
    /// Findings of any severity
    Low,
}

impl FailOn {
    fn severity(self) -> Severity {
        match self {
            Self::High => Severity::High,
            Self::Medium => Severity::Medium,
            Self::Low => Severity::Low,
        }
    }
}

impl ReportArgs {
    /// Lists or explains these rules if that was asked for; returns whether it was.
    pub fn describe(
        &self,
        app: &App,
        rules: impl Iterator<Item = RuleText>,
        command: &str,
    ) -> Result<bool> {
        if self.rules {
            app.ui.data(&rule_list(&rules.collect::<Vec<_>>()))?;
            return Ok(true);
        }
        let Some(id) = &self.explain else { return Ok(false) };
        let unknown = || {
            Failure::usage(format!("no rule is named `{id}`"))
                .hint(format!("`{command} --rules` lists them"))
        };
        app.ui.data(&explain(rules, id).ok_or_else(unknown)?)?;
        Ok(true)
    }

    /// Returns the fingerprints of the accepted findings.
    pub fn known(&self) -> Result<BTreeSet<String>> {
        self.baseline.known()
    }

    /// Prints the report, or writes it as the baseline; returns the exit code.
    pub fn print(
        &self,
        app: &App,
        report: &CheckReport,
        rules: &[RuleText],
        command: &str,
    ) -> Result<u8> {
        if self.baseline.write(app, report)? {
            return Ok(0);
        }
        match if self.json { FindingsFormat::Json } else { self.format } {
            FindingsFormat::Text => {
                app.ui.data(&muster_report::check::check(report, self.all, app.ui.context()))?
            }
            FindingsFormat::Json => app.ui.json(report)?,
            FindingsFormat::Sarif => write_sarif(app, report, rules, command)?,
        }
        Ok(code(report, self.fail_on.severity()))
    }
}

/// Returns the list of rules, one per line.
fn rule_list(rules: &[RuleText]) -> String {
    Table::of(rules)
        .left("", |rule| rule.id)
        .left("", |rule| rule.severity.name())
        .left("", |rule| rule.title)
        .render(RenderContext::plain())
}

fn code(report: &CheckReport, fail_on: Severity) -> u8 {
    let found = report.findings.iter().any(|finding| !finding.known && finding.severity >= fail_on);
    let disproved = report.probes.iter().any(|probe| probe.outcome == ProbeOutcome::Failed);
    if found || disproved { FAILURE } else { 0 }
}
