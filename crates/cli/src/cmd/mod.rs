//! The subcommands. Each has a file with its options, their help texts, and its implementation.

pub mod advise;
pub mod attach;
pub mod cancel;
pub mod check;
pub mod checkpoint;
pub mod compare;
pub mod completions;
pub mod debug_dump;
pub mod docs;
pub mod explain;
pub mod export;
pub mod findings;
pub mod hold;
mod hold_gpu;
pub mod import;
pub mod info;
pub mod init;
pub mod inventory;
pub mod logs;
pub mod man;
pub mod mcp;
#[cfg(test)]
mod mentioned;
pub mod metrics;
mod names;
pub mod nodes;
pub mod prove;
pub mod ps;
pub mod queues;
pub mod ray;
pub mod release;
pub mod requeue;
pub mod reserve;
pub mod run;
pub mod scale;
pub mod scheduler;
pub mod schema;
pub mod serve;
pub mod show;
pub mod simulate;
pub mod stop_daemon;
pub mod top;
pub mod trace;
pub mod ui;
pub mod usage;
pub mod verify;
pub mod wait;
pub mod whatif;

use anyhow::Result;
use clap::{Parser, Subcommand};
use muster_api::types::ActionRequest;
use muster_api::{Client, JobAction};

use crate::app::App;
use crate::args::Global;
use crate::exit::{self, Failure};
use crate::jobref::JobTarget;
use crate::on::Endpoint;

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

/// Subcommands of `muster`, in the order of the help.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    Run(Box<run::RunArgs>),
    Ps(ps::PsArgs),
    Top(top::TopArgs),
    Ui(ui::UiArgs),
    Show(show::ShowArgs),
    Logs(logs::LogsArgs),
    Attach(attach::AttachArgs),
    Explain(explain::ExplainArgs),
    Verify(verify::VerifyArgs),
    Wait(wait::WaitArgs),
    Cancel(cancel::CancelArgs),
    Hold(hold::HoldArgs),
    Release(release::ReleaseArgs),
    Requeue(requeue::RequeueArgs),
    Scale(scale::ScaleArgs),
    Checkpoint(checkpoint::CheckpointArgs),
    Ray(ray::RayArgs),
    Queues(queues::QueuesArgs),
    Usage(usage::UsageArgs),
    Nodes(nodes::NodesArgs),
    Metrics(metrics::MetricsArgs),
    Mcp(mcp::McpArgs),
    #[command(visible_alias = "reservations")]
    Reserve(Box<reserve::ReserveArgs>),
    Advise(Box<advise::AdviseArgs>),
    Compare(Box<compare::CompareArgs>),
    Check(check::CheckArgs),
    Inventory(inventory::InventoryArgs),
    Import(import::ImportArgs),
    Export(export::ExportArgs),
    Init(init::InitArgs),
    Serve(serve::ServeArgs),
    StopDaemon(stop_daemon::StopDaemonArgs),
    Scheduler(scheduler::SchedulerArgs),
    Simulate(Box<simulate::SimulateArgs>),
    #[command(name = "whatif", visible_alias = "what-if")]
    WhatIf(Box<whatif::WhatIfArgs>),
    Prove(prove::ProveArgs),
    Trace(trace::TraceArgs),
    Schema(schema::SchemaArgs),
    Completions(completions::CompletionsArgs),
    Man(man::ManArgs),
    DebugDump(debug_dump::DebugDumpArgs),
    #[command(hide = true)]
    Info(info::InfoArgs),
    #[command(name = "__names", hide = true)]
    Names(names::NamesArgs),
    #[command(name = "__docs", hide = true)]
    Docs(docs::DocsArgs),
    #[command(name = "__probe", hide = true)]
    Probe(verify::probe::ProbeArgs),
    #[command(name = "__hold-gpu", hide = true)]
    HoldGpu(hold_gpu::HoldGpuArgs),
    #[command(name = "__preflight", hide = true)]
    Preflight(verify::preflight::PreflightArgs),
}

impl CliCommand {
    /// Returns the service that the subcommand sends its requests to.
    pub fn endpoint(&self) -> Endpoint {
        match self {
            CliCommand::Check(args) => args.endpoint(),
            CliCommand::Init(args) => args.endpoint(),
            CliCommand::Ps(_) => Endpoint::Clusters,
            CliCommand::Run(_) => Endpoint::ClusterOfJob,
            CliCommand::Show(_)
            | CliCommand::Logs(_)
            | CliCommand::Attach(_)
            | CliCommand::Explain(_)
            | CliCommand::Wait(_)
            | CliCommand::Cancel(_)
            | CliCommand::Hold(_)
            | CliCommand::Release(_)
            | CliCommand::Requeue(_)
            | CliCommand::Verify(_)
            | CliCommand::Usage(_)
            | CliCommand::Scale(_)
            | CliCommand::Checkpoint(_)
            | CliCommand::Ray(_)
            | CliCommand::Queues(_)
            | CliCommand::Reserve(_)
            | CliCommand::Nodes(_)
            | CliCommand::Metrics(_)
            | CliCommand::Mcp(_)
            | CliCommand::Top(_)
            | CliCommand::Ui(_)
            | CliCommand::Names(_) => Endpoint::AnyCluster,
            CliCommand::StopDaemon(_)
            | CliCommand::WhatIf(_)
            | CliCommand::DebugDump(_)
            | CliCommand::Info(_) => Endpoint::LocalDaemon,
            CliCommand::Advise(_)
            | CliCommand::Compare(_)
            | CliCommand::Inventory(_)
            | CliCommand::Import(_)
            | CliCommand::Export(_)
            | CliCommand::Serve(_)
            | CliCommand::Scheduler(_)
            | CliCommand::Simulate(_)
            | CliCommand::Prove(_)
            | CliCommand::Trace(_)
            | CliCommand::Schema(_)
            | CliCommand::Completions(_)
            | CliCommand::Man(_)
            | CliCommand::Docs(_)
            | CliCommand::Probe(_)
            | CliCommand::HoldGpu(_)
            | CliCommand::Preflight(_) => Endpoint::None,
        }
    }
}

/// Runs a subcommand to its end and returns the exit code.
pub async fn run_command(app: &App, command: CliCommand) -> Result<u8> {
    match command {
        CliCommand::Run(args) => run::run(app, *args).await,
        CliCommand::Ps(args) => ps::run(app, args).await,
        CliCommand::Top(args) => top::run(app, args).await,
        CliCommand::Ui(args) => ui::run(app, args).await,
        CliCommand::Show(args) => show::run(app, args).await,
        CliCommand::Logs(args) => logs::run(app, args).await,
        CliCommand::Attach(args) => attach::run(app, args).await,
        CliCommand::Explain(args) => explain::run(app, args).await,
        CliCommand::Verify(args) => verify::run(app, args).await,
        CliCommand::Wait(args) => wait::run(app, args).await,
        CliCommand::Cancel(args) => cancel::run(app, args).await,
        CliCommand::Hold(args) => hold::run(app, args).await,
        CliCommand::Release(args) => release::run(app, args).await,
        CliCommand::Requeue(args) => requeue::run(app, args).await,
        CliCommand::Scale(args) => scale::run(app, args).await,
        CliCommand::Checkpoint(args) => checkpoint::run(app, args).await,
        CliCommand::Ray(args) => ray::run(app, args).await,
        CliCommand::Queues(args) => queues::run(app, args).await,
        CliCommand::Usage(args) => usage::run(app, args).await,
        CliCommand::Nodes(args) => nodes::run(app, args).await,
        CliCommand::Metrics(args) => metrics::run(app, args).await,
        CliCommand::Mcp(args) => mcp::run(app, args).await,
        CliCommand::Reserve(args) => reserve::run(app, *args).await,
        CliCommand::StopDaemon(args) => stop_daemon::run(app, args).await,
        CliCommand::Advise(args) => advise::run(app, &args).await,
        CliCommand::Simulate(args) => simulate::run(app, &args).await,
        CliCommand::WhatIf(args) => whatif::run(app, *args).await,
        CliCommand::Prove(args) => prove::run(app, &args),
        CliCommand::Trace(args) => trace::run(app, &args),
        CliCommand::Compare(args) => compare::run(app, &args),
        CliCommand::Check(args) => check::run(app, args).await,
        CliCommand::Inventory(args) => inventory::run(app, &args),
        CliCommand::Import(args) => import::run(app, &args),
        CliCommand::Export(args) => export::run(app, &args),
        CliCommand::Init(args) => init::run(app, &args),
        CliCommand::Schema(args) => schema::run(app, &args),
        CliCommand::Completions(args) => completions::run(app, &args),
        CliCommand::DebugDump(args) => debug_dump::run(app, args).await,
        CliCommand::Man(args) => man::run(app, &args),
        CliCommand::Info(args) => info::run(app, args).await,
        CliCommand::Names(args) => names::run(app, args).await,
        CliCommand::Docs(args) => docs::run(app, &args),
        CliCommand::Probe(args) => verify::probe::run(&args),
        CliCommand::HoldGpu(args) => hold_gpu::run(&args).await,
        CliCommand::Preflight(args) => verify::preflight::run(app, &args).await,
        CliCommand::Serve(args) => serve::run(&args),
        CliCommand::Scheduler(args) => scheduler::run(&args),
    }
}

async fn act_on(client: &Client, target: JobTarget, action: JobAction) -> Result<String> {
    let request = ActionRequest { index: target.index };
    let response = client.act(target.job, action, request).await.map_err(Failure::from)?;
    Ok(response.message)
}
