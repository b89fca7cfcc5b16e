//! `muster trace`: summarises and generates traces. One file per subcommand.

mod generate;
mod summary;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use muster_spec::TraceFormat;

use crate::app::App;

/// Summarise or generate a trace: a record of submitted jobs with their times and sizes
///
/// Traces of public archives and exports of other tools are accepted, plain or compressed with
/// gzip. No daemon is needed. docs/traces.md describes the formats.
#[derive(Debug, clap::Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    command: TraceCommand,
}

#[derive(Debug, Subcommand)]
enum TraceCommand {
    Summary(summary::TraceSummaryArgs),
    Generate(generate::TraceGenerateArgs),
}

/// Trace file and how to parse it.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceFileArgs {
    /// Trace file; `-` is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Format of the trace; by default detected from its first lines
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<TraceFormat>,
    /// Fail on a row that cannot be parsed; by default such rows are skipped with a warning
    #[arg(long)]
    pub strict: bool,
}

/// Returns a parser of format names.
pub fn formats() -> impl TypedValueParser<Value = TraceFormat> {
    let by_name = |name: String| TraceFormat::ALL.into_iter().find(|(known, _)| *known == name);
    PossibleValuesParser::new(TraceFormat::ALL.map(|(name, _)| name))
        .try_map(move |name| by_name(name).map(|(_, format)| format).ok_or("no such format"))
}

/// Runs `muster trace`; returns its exit code.
pub fn run(app: &App, args: &TraceArgs) -> Result<u8> {
    match &args.command {
        TraceCommand::Summary(args) => summary::run(app, args),
        TraceCommand::Generate(args) => generate::run(app, args),
    }
}
