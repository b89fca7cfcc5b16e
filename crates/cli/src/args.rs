//! Options that several subcommands share. The subcommands themselves are in `cmd`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use muster_model::advice::FactKind;
use muster_spec::parse_fact_value;

use crate::on::On;

/// Options that every subcommand takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Socket of the daemon; by default this user's own daemon, else the system's
    #[arg(long, global = true, env = "MUSTER_SOCKET", hide_env_values = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Cluster to use: local (the daemon of this machine, the default), slurm, slurm@HOST over ssh,
    /// kubernetes, or kubernetes@CONTEXT; for `run` and `ps` also auto, which reads the site file;
    /// for `ps` also several, such as slurm,kubernetes; for `init ray` what the files are for
    #[arg(
        long,
        global = true,
        env = "MUSTER_ON",
        hide_env_values = true,
        value_name = "WHERE",
        conflicts_with = "socket"
    )]
    pub on: Option<On>,
}

/// Returns a parser of whole numbers from `min` to `max` for options. Its errors are worded as
/// those of the file parsers.
pub fn whole_number(
    min: u32,
    max: u32,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        parse_fact_value(text, FactKind::Count { min, max, default: min })
            .map_err(|malformed| malformed.label)
    }
}

/// Options for the format of the output.
#[derive(Clone, Copy, Debug, Args)]
pub struct OutputArgs {
    /// Write JSON; docs/openapi.json and docs/schema describe it
    #[arg(long)]
    json: bool,
    /// Format of the output
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", default_value_t = OutputFormat::Text, hide_default_value = true)]
    output: OutputFormat,
}

impl OutputArgs {
    /// Returns whether JSON was requested.
    pub fn json(self) -> bool {
        self.json || self.output == OutputFormat::Json
    }
}

/// Format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// Text and tables for people
    Text,
    /// JSON for programs to parse
    Json,
}
