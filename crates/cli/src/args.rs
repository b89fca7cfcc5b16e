//! The command line: subcommands and the options that they share. Each subcommand is implemented in
//! its own file in `cmd`.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use muster_model::advice::FactKind;
use muster_spec::parse_fact_value;

use crate::cmd;
use crate::exit;
use crate::on::On;

/// Schedules GPU jobs: all processes of a job start together, and `explain` says why a job is
/// pending.
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
    /// Options that every subcommand takes.
    #[command(flatten)]
    pub global: Global,
    /// Subcommand and its options.
    #[command(subcommand)]
    pub command: CliCommand,
}

/// Options that every subcommand takes.
#[derive(Clone, Debug, Args)]
pub struct Global {
    /// Socket of the daemon; by default this user's own daemon, else the system's
    #[arg(long, global = true, env = "MUSTER_SOCKET", hide_env_values = true, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Cluster to use: local (the daemon of this machine, the default), slurm, or slurm@HOST over
    /// ssh
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

/// Subcommands of `muster`, in the order of the help.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Run(Box<cmd::run::RunArgs>),
    Ps(cmd::ps::PsArgs),
    Show(cmd::show::ShowArgs),
    Logs(cmd::logs::LogsArgs),
    Attach(cmd::attach::AttachArgs),
    Explain(cmd::explain::ExplainArgs),
    Verify(cmd::verify::VerifyArgs),
    Wait(cmd::wait::WaitArgs),
    Cancel(cmd::cancel::CancelArgs),
    Hold(cmd::hold::HoldArgs),
    Release(cmd::release::ReleaseArgs),
    Requeue(cmd::requeue::RequeueArgs),
    Scale(cmd::scale::ScaleArgs),
    Checkpoint(cmd::checkpoint::CheckpointArgs),
    Queues(cmd::queues::QueuesArgs),
    Usage(cmd::usage::UsageArgs),
    Nodes(cmd::nodes::NodesArgs),
    #[command(visible_alias = "reservations")]
    Reserve(Box<cmd::reserve::ReserveArgs>),
    Advise(Box<cmd::advise::AdviseArgs>),
    Compare(Box<cmd::compare::CompareArgs>),
    Check(cmd::check::CheckArgs),
    Inventory(cmd::inventory::InventoryArgs),
    Import(cmd::import::ImportArgs),
    Export(cmd::export::ExportArgs),
    Init(cmd::init::InitArgs),
    Serve(cmd::serve::ServeArgs),
    StopDaemon(cmd::stop_daemon::StopDaemonArgs),
    Simulate(Box<cmd::simulate::SimulateArgs>),
    #[command(name = "whatif", visible_alias = "what-if")]
    WhatIf(Box<cmd::whatif::WhatIfArgs>),
    Prove(cmd::prove::ProveArgs),
    Trace(cmd::trace::TraceArgs),
    Schema(cmd::schema::SchemaArgs),
    Completions(cmd::completions::CompletionsArgs),
    Man(cmd::man::ManArgs),
    #[command(hide = true)]
    Info(cmd::info::InfoArgs),
    #[command(name = "__names", hide = true)]
    Names(cmd::names::NamesArgs),
    #[command(name = "__docs", hide = true)]
    Docs(cmd::docs::DocsArgs),
    #[command(name = "__probe", hide = true)]
    Probe(cmd::verify::probe::ProbeArgs),
    #[command(name = "__preflight", hide = true)]
    Preflight(cmd::verify::preflight::PreflightArgs),
}

/// Service that a subcommand sends its requests to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// The cluster that `--on` names.
    Cluster,
    /// Always the daemon of this machine.
    LocalDaemon,
    /// None, or one that the subcommand has its own options for.
    None,
}

impl CliCommand {
    /// Returns the service that the subcommand sends its requests to.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            CliCommand::Run(_)
            | CliCommand::Ps(_)
            | CliCommand::Show(_)
            | CliCommand::Logs(_)
            | CliCommand::Attach(_)
            | CliCommand::Explain(_)
            | CliCommand::Verify(_)
            | CliCommand::Wait(_)
            | CliCommand::Cancel(_)
            | CliCommand::Hold(_)
            | CliCommand::Release(_)
            | CliCommand::Requeue(_)
            | CliCommand::Scale(_)
            | CliCommand::Checkpoint(_)
            | CliCommand::Queues(_)
            | CliCommand::Usage(_)
            | CliCommand::Nodes(_)
            | CliCommand::Reserve(_)
            | CliCommand::Names(_)
            | CliCommand::Check(_) => Endpoint::Cluster,
            CliCommand::StopDaemon(_) | CliCommand::WhatIf(_) | CliCommand::Info(_) => {
                Endpoint::LocalDaemon
            }
            CliCommand::Advise(_)
            | CliCommand::Compare(_)
            | CliCommand::Inventory(_)
            | CliCommand::Import(_)
            | CliCommand::Export(_)
            | CliCommand::Init(_)
            | CliCommand::Serve(_)
            | CliCommand::Simulate(_)
            | CliCommand::Prove(_)
            | CliCommand::Trace(_)
            | CliCommand::Schema(_)
            | CliCommand::Completions(_)
            | CliCommand::Man(_)
            | CliCommand::Docs(_)
            | CliCommand::Probe(_)
            | CliCommand::Preflight(_) => Endpoint::None,
        }
    }
}
