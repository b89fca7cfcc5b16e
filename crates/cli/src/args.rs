//! The command line: verbs and the options that they share. Meaning is in `cmd`, one file per verb.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use muster_model::advice::Kind;
use muster_spec::parse_fact_value;

use crate::cmd;
use crate::exit;
use crate::on::On;

/// Runs GPU workloads whole or not at all, and says why one waits.
#[derive(Debug, Parser)]
#[command(
    name = "muster",
    version,
    propagate_version = false,
    after_long_help = exit::HELP,
    disable_help_subcommand = false,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub struct Cli {
    /// What applies to every verb.
    #[command(flatten)]
    pub global: Global,
    /// The verb.
    #[command(subcommand)]
    pub command: Command,
}

/// What applies to every verb.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Socket of the daemon; by default this user's own daemon, else the system's
    #[arg(long, global = true, env = "MUSTER_SOCKET", hide_env_values = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Where jobs run and are looked for: local (the daemon, the default), slurm, or slurm@HOST
    /// over ssh
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

/// Reads a whole number within bounds, both included; for options, in the words of files.
pub fn whole(
    min: u32,
    max: u32,
) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| {
        parse_fact_value(text, Kind::Count { min, max, default: min })
            .map_err(|malformed| malformed.label)
    }
}

/// How data is written.
#[derive(Clone, Copy, Debug, Args)]
pub struct Output {
    /// Write JSON; docs/openapi.json and docs/schema have its shapes
    #[arg(long)]
    json: bool,
    /// Write in this format
    #[arg(short = 'o', long, value_enum, value_name = "FORMAT", default_value_t = Format::Text, hide_default_value = true)]
    output: Format,
}

impl Output {
    /// Whether JSON is wanted.
    pub fn json(self) -> bool {
        self.json || self.output == Format::Json
    }
}

/// Output formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Every verb.
#[derive(Debug, Subcommand)]
pub enum Command {
    Run(Box<cmd::run::Args>),
    Ps(cmd::ps::Args),
    Show(cmd::show::Args),
    Logs(cmd::logs::Args),
    Attach(cmd::attach::Args),
    Explain(cmd::explain::Args),
    Verify(cmd::verify::Args),
    Wait(cmd::wait::Args),
    Cancel(cmd::cancel::Args),
    Hold(cmd::hold::Args),
    Release(cmd::release::Args),
    Requeue(cmd::requeue::Args),
    Scale(cmd::scale::Args),
    Checkpoint(cmd::checkpoint::Args),
    Queues(cmd::queues::Args),
    Usage(cmd::usage::Args),
    Nodes(cmd::nodes::Args),
    #[command(visible_alias = "reservations")]
    Reserve(Box<cmd::reserve::Args>),
    Advise(Box<cmd::advise::Args>),
    Compare(Box<cmd::compare::Args>),
    Check(cmd::check::Args),
    Inventory(cmd::inventory::Args),
    Import(cmd::import::Args),
    Export(cmd::export::Args),
    Init(cmd::init::Args),
    Serve(cmd::serve::Args),
    StopDaemon(cmd::stop_daemon::Args),
    Simulate(Box<cmd::simulate::Args>),
    #[command(name = "whatif", visible_alias = "what-if")]
    WhatIf(Box<cmd::whatif::Args>),
    Prove(cmd::prove::Args),
    Trace(cmd::trace::Args),
    Schema(cmd::schema::Args),
    Completions(cmd::completions::Args),
    Man(cmd::man::Args),
    #[command(hide = true)]
    Info(cmd::info::Args),
    #[command(name = "__names", hide = true)]
    Names(cmd::names::Args),
    #[command(name = "__docs", hide = true)]
    Docs(cmd::docs::Args),
    #[command(name = "__probe", hide = true)]
    Probe(cmd::verify::probe::Args),
    #[command(name = "__preflight", hide = true)]
    Preflight(cmd::verify::preflight::Args),
}

/// Whom a verb asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Whoever runs jobs, wherever that is.
    Place,
    /// The daemon of this machine.
    Daemon,
    /// Nobody, or whom it names itself.
    Nobody,
}

impl Command {
    /// Whom it asks.
    pub fn asks(&self) -> Asks {
        match self {
            Command::Run(_)
            | Command::Ps(_)
            | Command::Show(_)
            | Command::Logs(_)
            | Command::Attach(_)
            | Command::Explain(_)
            | Command::Verify(_)
            | Command::Wait(_)
            | Command::Cancel(_)
            | Command::Hold(_)
            | Command::Release(_)
            | Command::Requeue(_)
            | Command::Scale(_)
            | Command::Checkpoint(_)
            | Command::Queues(_)
            | Command::Usage(_)
            | Command::Nodes(_)
            | Command::Reserve(_)
            | Command::Names(_)
            | Command::Check(_) => Asks::Place,
            Command::StopDaemon(_) | Command::WhatIf(_) | Command::Info(_) => Asks::Daemon,
            Command::Advise(_)
            | Command::Compare(_)
            | Command::Inventory(_)
            | Command::Import(_)
            | Command::Export(_)
            | Command::Init(_)
            | Command::Serve(_)
            | Command::Simulate(_)
            | Command::Prove(_)
            | Command::Trace(_)
            | Command::Schema(_)
            | Command::Completions(_)
            | Command::Man(_)
            | Command::Docs(_)
            | Command::Probe(_)
            | Command::Preflight(_) => Asks::Nobody,
        }
    }
}
