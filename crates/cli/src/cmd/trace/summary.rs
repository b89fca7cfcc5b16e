//! `muster trace summary`: `muster-sim` computes the statistics, `muster-report` renders them.

use anyhow::Result;
use muster_model::trace::BadRow;
use muster_sim::trace::{TraceSource, TraceSummarizer};

use super::TraceFileArgs;
use crate::app::App;
use crate::args::OutputArgs;
use crate::trace_file;

const EXAMPLES: &str = "\
Examples:
  muster trace summary KTH-SP2.swf.gz
  sacct -a -X -D -P -S 2026-01-01 -o JobID,User,Partition,State,Submit,Start,Elapsed,Timelimit,NNodes,ReqTRES,AllocTRES > jobs.txt
  muster trace summary jobs.txt
  kubectl get pods -A -o json | muster trace summary - --json";

/// Show statistics of a trace: jobs, users, sizes, runtimes, load and arrivals
///
/// Rows that cannot be parsed are skipped and counted; the first ones are shown with their line
/// numbers. JSON: a `TraceSummary`, as described by docs/schema/trace-summary.schema.json.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct TraceSummaryArgs {
    #[command(flatten)]
    trace: TraceFileArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs `muster trace summary`; returns its exit code.
pub fn run(app: &App, args: &TraceSummaryArgs) -> Result<u8> {
    let TraceFileArgs { file, format, strict } = &args.trace;
    let mut counted = TraceSummarizer::default();
    let read = trace_file::stream(file, *format, *strict, &mut |job| counted.add(&job))?;
    trace_file::warn_of_duplicate_ids(app, read.duplicate_ids);
    let summary = counted.finish(TraceSource {
        format: read.format.name().to_owned(),
        machine_processors: read.procs,
        zero: read.zero,
        duplicate_ids: read.duplicate_ids.jobs,
        bad: read.bad_count,
        bad_shown: read
            .bad
            .into_iter()
            .map(|row| BadRow { line: row.line, message: row.message })
            .collect(),
    });
    if args.output.json() {
        app.ui.json(&summary)?
    } else {
        app.ui.data(&muster_report::trace::summary(&summary, &read.name, app.ui.context()))?
    }
    Ok(0)
}
