//! The report of an import: options that could not be converted exactly, what the script starts,
//! and what is wrong with it. The job file itself is not part of it. Nothing is evaluated here.

use std::fmt::Write as _;

use muster_model::imported::{
    ImportFinding, ImportOutcome, ImportReport, ImportSource, ImportedOption, LaunchStep,
};

use crate::RenderContext;
use crate::amount::count;
use crate::check::heading;
use crate::style::{Ink, clean};
use crate::table::Labels;

/// Columns if the output is not a terminal.
const WIDTH: usize = 120;
/// Layout of the rows.
const ROW: Labels = Labels { indent: 2, width: 8, ink: Ink::Plain };
/// Fewest columns for the text of a row.
const MIN_WIDTH: usize = 20;

/// Returns the report of an import as text.
#[must_use]
pub fn import(report: &ImportReport, context: RenderContext) -> String {
    let mut text = String::new();
    // 1. Options; those converted exactly are only counted.
    let of =
        |becomes: ImportOutcome| report.options.iter().filter(move |one| one.becomes == becomes);
    let same = of(ImportOutcome::Field).count() + of(ImportOutcome::Near).count();
    let file = clean(&report.script);
    let lost = of(ImportOutcome::NotMapped).count();
    let _ = match report.source {
        ImportSource::Slurm => writeln!(
            text,
            "{file}: {} became fields of the job, {} handed on to sbatch, {lost} not mapped",
            count(same as u64, "option"),
            of(ImportOutcome::Raw).count(),
        ),
        ImportSource::Kubernetes | ImportSource::Determined => {
            let are = if same == 1 { "is" } else { "are" };
            let fields = count(same as u64, "field");
            writeln!(text, "{file}: {fields} {are} in the job, {lost} not mapped")
        }
    };
    of(ImportOutcome::NotMapped).for_each(|one| option(&mut text, "not", one, context));
    of(ImportOutcome::Near).for_each(|one| option(&mut text, "nearly", one, context));
    of(ImportOutcome::Raw).for_each(|one| option(&mut text, "handed", one, context));
    // 2. What runs.
    row(&mut text, "runs", &clean(&report.launch.text), context);
    for step in &report.launch.steps {
        row(&mut text, "starts", &started(step), context);
    }
    // 3. What is wrong.
    for (index, finding) in report.findings.iter().enumerate() {
        let again = index > 0 && report.findings[index - 1].rule == finding.rule;
        found(&mut text, finding, again, report, context);
    }
    text
}

fn option(text: &mut String, word: &str, one: &ImportedOption, context: RenderContext) {
    row(
        text,
        word,
        &format!("line {}: {}: {}", one.line, clean(&one.written), clean(&one.text)),
        context,
    );
}

/// `line 9: srun torchrun: 16 × 8 = 128 processes`.
fn started(step: &LaunchStep) -> String {
    let mut text = format!("line {}: {}: ", step.line, clean(&step.launchers.join(" ")));
    let unknown = step.unknown.join(", ");
    let unknown = clean(&unknown);
    let _ = match (step.tasks, step.per_task, step.processes) {
        (Some(tasks), Some(1), Some(_)) => write!(text, "{}", amount(tasks)),
        (Some(tasks), Some(each), Some(all)) => write!(text, "{tasks} × {each} = {}", amount(all)),
        (Some(tasks), Some(each), None) => {
            write!(text, "{} each time; not known: {unknown}", amount(tasks.saturating_mul(each)))
        }
        _ => write!(text, "number of processes unknown: {unknown}"),
    };
    text
}

fn amount(processes: u64) -> String {
    if processes == 1 { "1 process".to_owned() } else { format!("{processes} processes") }
}

fn found(
    text: &mut String,
    finding: &ImportFinding,
    again: bool,
    report: &ImportReport,
    context: RenderContext,
) {
    if !again {
        text.push('\n');
        text.push_str(&heading(finding.severity, finding.title, finding.rule, context));
    }
    let place =
        finding.line.map_or(String::new(), |line| format!(" ({}:{line})", clean(&report.script)));
    row(text, "found", &format!("{}{place}", clean(&finding.evidence)), context);
    let is_last = report.findings.iter().rfind(|other| other.rule == finding.rule) == Some(finding);
    if is_last {
        row(text, "cure", finding.cure, context);
    }
}

fn row(text: &mut String, name: &str, says: &str, context: RenderContext) {
    text.push_str(&ROW.wrapped(name, says, context.width.unwrap_or(WIDTH), MIN_WIDTH, context));
}
