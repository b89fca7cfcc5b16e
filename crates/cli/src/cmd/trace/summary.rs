//! `muster trace summary`: counted in `muster-sim`, drawn in `muster-report`.

use anyhow::Result;
use muster_model::trace::BadRow;
use muster_sim::trace::{Source, Summary};

use super::TraceArgs;
use crate::app::App;
use crate::args::Output;
use crate::trace_file;

const EXAMPLES: &str = "\
Examples:
  muster trace summary KTH-SP2.swf.gz
  sacct -a -X -P -S 2026-01-01 -o JobID,User,Partition,State,Submit,Start,Elapsed,Timelimit,NNodes,ReqTRES,AllocTRES > jobs.txt
  muster trace summary jobs.txt
  kubectl get pods -A -o json | muster trace summary - --json";

/// Show what is in a trace: jobs, users, sizes, runtimes, load, and when they arrive
///
/// Rows that cannot be read are counted, the first of them shown with their line, and left out.
/// JSON: a `TraceSummary`, as docs/schema/trace-summary.schema.json describes it.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    output: Output,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let TraceArgs { file, format, strict } = &args.trace;
    let mut counted = Summary::default();
    let read = trace_file::stream(file, *format, *strict, &mut |job| counted.add(&job))?;
    let summary = counted.finish(Source {
        format: read.format.name().to_owned(),
        machine_processors: read.procs,
        zero: read.zero,
        bad: read.bad_count,
        bad_shown: read
            .bad
            .into_iter()
            .map(|row| BadRow { line: row.line, message: row.message })
            .collect(),
    });
    match args.output.json() {
        true => app.ui.json(&summary)?,
        false => {
            app.ui.data(&muster_report::trace::summary(&summary, &read.name, &app.ui.style()))?
        }
    }
    Ok(0)
}
