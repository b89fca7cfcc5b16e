//! The report of `muster check`: failed rules with evidence and cure, then the number of passed and
//! untested rules, then the next step. Nothing is evaluated here.

use std::fmt::Write as _;

use muster_model::check::{
    CheckFinding, CheckOutcome, CheckPlace, CheckReport, ProbeOutcome, Severity,
};

use crate::RenderContext;
use crate::amount::count;
use crate::style::{Ink, clean};
use crate::table::{Labels, Table};

/// Findings listed per rule; more are counted.
const LISTED: usize = 5;
/// Layout of the rows of a rule.
const ROW: Labels = Labels { indent: 2, width: 7, ink: Ink::Plain };
/// Fewest columns for the text of a row.
const MIN_WIDTH: usize = 20;
/// Columns if the output is not a terminal.
const WIDTH: usize = 120;

/// Returns the report as text; with `all`, also the passed and untested rules.
#[must_use]
pub fn check(report: &CheckReport, all: bool, context: RenderContext) -> String {
    // 1. The summary.
    let new: Vec<&CheckFinding> = report.findings.iter().filter(|finding| !finding.known).collect();
    let mut text = summary(report, &new);

    // 2. Failed rules.
    let mut at = 0;
    while at < new.len() {
        let same = new[at..].iter().take_while(|finding| finding.rule == new[at].rule).count();
        text.push('\n');
        rule(&mut text, &new[at..at + same], context);
        at += same;
    }

    // 3. Results of probes.
    if !report.probes.is_empty() {
        text.push('\n');
    }
    for probe in &report.probes {
        let (word, ink) = match probe.outcome {
            ProbeOutcome::Passed => ("passed", Ink::Good),
            ProbeOutcome::Failed => ("failed", Ink::Bad),
            ProbeOutcome::NotTested => ("not tested", Ink::Waiting),
        };
        let _ =
            writeln!(text, "{}  {}: {}", context.paint(ink, word), probe.probe, clean(&probe.text));
    }

    // 4. The other rules, and the next step.
    if all {
        outcomes(&mut text, "passed", &report.passed);
        outcomes(&mut text, "not tested, needed", &report.not_tested);
    }
    text.push('\n');
    row(&mut text, "read", &clean(&report.read.join(", ")), context);
    if let Some(next) = next(report, &new, all) {
        row(&mut text, "next", &next, context);
    }
    text
}

/// `slurm: 3 rules failed (1 high, 2 low), 40 passed, 9 not tested`.
fn summary(report: &CheckReport, new: &[&CheckFinding]) -> String {
    let rules = |severity: Option<Severity>| {
        let mut ids: Vec<&str> = new
            .iter()
            .filter(|finding| severity.is_none_or(|severity| finding.severity == severity))
            .map(|finding| finding.rule)
            .collect();
        ids.dedup();
        ids.len()
    };
    let mut text = format!("{}: ", report.subject);
    let disproved =
        report.probes.iter().filter(|probe| probe.outcome == ProbeOutcome::Failed).count();
    if disproved > 0 {
        let _ = write!(text, "{} failed, ", count(disproved as u64, "probe"));
    }
    if new.is_empty() {
        text.push_str(if disproved > 0 { "no rule failed" } else { "nothing wrong was found" });
    } else {
        let of_each: Vec<String> = [Severity::High, Severity::Medium, Severity::Low]
            .into_iter()
            .filter(|severity| rules(Some(*severity)) > 0)
            .map(|severity| format!("{} {}", rules(Some(severity)), severity.name()))
            .collect();
        let _ =
            write!(text, "{} failed ({})", count(rules(None) as u64, "rule"), of_each.join(", "));
    }
    let known = report.findings.len() - new.len();
    if known > 0 {
        let _ = write!(text, ", {} in the baseline", count(known as u64, "finding"));
    }
    let _ =
        writeln!(text, ", {} passed, {} not tested", report.passed.len(), report.not_tested.len());
    text
}

/// Appends the findings of one rule.
fn rule(text: &mut String, findings: &[&CheckFinding], context: RenderContext) {
    let first = findings[0];
    text.push_str(&heading(first.severity, first.title, first.rule, context));
    for finding in findings.iter().take(LISTED) {
        let place =
            finding.place.as_ref().map_or(String::new(), |place| format!(" ({})", written(place)));
        row(text, "found", &format!("{}{place}", clean(&finding.evidence)), context);
    }
    if findings.len() > LISTED {
        row(text, "", &format!("and {} more; --json has all", findings.len() - LISTED), context);
    }
    row(text, "means", first.meaning, context);
    row(text, "cure", first.cure, context);
    row(text, "page", &first.page, context);
}

/// Returns the first line about a failed rule of any kind.
pub(crate) fn heading(
    severity: Severity,
    title: &str,
    rule: &str,
    context: RenderContext,
) -> String {
    let labels = Labels { indent: 0, width: 8, ink: Ink::of_severity(severity) };
    let title = format!("{}  [{rule}]", context.paint(Ink::Strong, title));
    labels.lines(severity.name(), [title], context)
}

fn row(text: &mut String, name: &str, says: &str, context: RenderContext) {
    text.push_str(&ROW.wrapped(name, says, context.width.unwrap_or(WIDTH), MIN_WIDTH, context));
}

fn written(place: &CheckPlace) -> String {
    match place.line {
        Some(line) => format!("{}:{line}", clean(&place.source)),
        None => clean(&place.source).into_owned(),
    }
}

fn outcomes(text: &mut String, heading: &str, outcomes: &[CheckOutcome]) {
    if outcomes.is_empty() {
        return;
    }
    let table = Table::of(outcomes)
        .left("", |outcome| outcome.rule)
        .left("", |outcome| outcome.text.as_str())
        .indented(2);
    let _ = write!(text, "\n{heading}\n{}", table.render(RenderContext::plain()));
}

fn next(report: &CheckReport, new: &[&CheckFinding], all: bool) -> Option<String> {
    match new.first() {
        Some(_) => Some(format!(
            "muster check {} --write-baseline FILE accepts the known findings",
            report.subject
        )),
        None if !all && !report.not_tested.is_empty() => Some(format!(
            "muster check {} --all shows what is needed to test the rest",
            report.subject
        )),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use muster_model::check::CheckProbe;

    use super::*;

    fn finding(
        rule: &'static str,
        severity: Severity,
        evidence: &str,
        line: Option<u32>,
    ) -> CheckFinding {
        CheckFinding {
            rule,
            severity,
            title: "small jobs wait",
            evidence: evidence.to_owned(),
            place: line
                .map(|line| CheckPlace { source: "slurm.conf".to_owned(), line: Some(line) }),
            meaning: "what is behind the first job waits, too",
            cure: "SchedulerType=sched/backfill",
            page: "slurm.conf(5), SchedulerType".to_owned(),
            url: "https://slurm.schedmd.com/slurm.conf.html".to_owned(),
            fingerprint: "0000000000000000".to_owned(),
            known: false,
        }
    }

    fn report() -> CheckReport {
        let outcome = |rule, says: &str| CheckOutcome { rule, text: says.to_owned() };
        let mut findings =
            vec![finding("no-backfill", Severity::High, "SchedulerType=sched/builtin", Some(3))];
        findings.extend(
            (1..=7)
                .map(|n| finding("no-max-time", Severity::Low, &format!("partition p{n}"), None)),
        );
        let known = CheckFinding { known: true, ..finding("other", Severity::Low, "x", None) };
        findings.push(known);
        CheckReport {
            subject: "slurm",
            read: vec!["slurm.conf".to_owned()],
            findings,
            passed: vec![outcome("good", "A=1")],
            not_tested: vec![outcome("open", "cgroup.conf")],
            probes: Vec::new(),
        }
    }

    #[test]
    fn failures_come_first_with_evidence_and_cure() {
        insta::assert_snapshot!(check(&report(), true, RenderContext::plain()));
    }

    #[test]
    fn nothing_wrong_is_said_and_what_is_open_is_offered() {
        let report = CheckReport { findings: Vec::new(), ..report() };
        insta::assert_snapshot!(check(&report, false, RenderContext::plain()));
    }

    #[test]
    fn a_failed_probe_is_in_the_sum() {
        let probe =
            |probe, outcome, says: &str| CheckProbe { probe, outcome, text: says.to_owned() };
        let probes = vec![
            probe("one", ProbeOutcome::Failed, "2 files"),
            probe("two", ProbeOutcome::NotTested, "room"),
            probe("three", ProbeOutcome::Passed, "one leaf"),
        ];
        let report =
            CheckReport { findings: Vec::new(), not_tested: Vec::new(), probes, ..report() };
        insta::assert_snapshot!(check(&report, false, RenderContext::plain()));
    }

    #[test]
    fn rows_fit_a_narrow_terminal() {
        let text = check(&report(), false, RenderContext::plain().with_width(60));
        assert!(
            text.lines()
                .filter(|line| line.starts_with(' '))
                .all(|line| line.chars().count() <= 60),
            "{text}"
        );
    }
}
