//! `muster trace`: what is done with traces themselves. One file per command.

mod generate;
mod summary;

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use muster_spec::TraceFormat;

use crate::app::App;

/// Look into traces, and make some: what jobs were submitted somewhere, when, and how long they ran
///
/// Traces are read as public archives publish them and as other tools export them, plain or packed
/// with gzip. No daemon is needed. docs/traces.md has the formats.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Summary(summary::Args),
    Generate(generate::Args),
}

/// Which trace, and how it is to be read.
#[derive(Clone, Debug, clap::Args)]
pub struct TraceArgs {
    /// The trace; `-` is stdin
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// How it is written, where the first lines do not tell
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub format: Option<TraceFormat>,
    /// Refuse a trace with a row that cannot be read, in place of counting it and leaving it out
    #[arg(long)]
    pub strict: bool,
}

/// The formats by their names.
pub fn formats() -> impl TypedValueParser<Value = TraceFormat> {
    let by_name = |name: String| TraceFormat::ALL.into_iter().find(|(known, _)| *known == name);
    PossibleValuesParser::new(TraceFormat::ALL.map(|(name, _)| name))
        .try_map(move |name| by_name(name).map(|(_, format)| format).ok_or("no such format"))
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    match &args.command {
        Command::Summary(args) => summary::run(app, args),
        Command::Generate(args) => generate::run(app, args),
    }
}
