//! Context that every subcommand is given: the shared options and the terminal.

use anyhow::Result;

use crate::args::{CliCommand, Endpoint, Global};
use crate::cmd;
use crate::on::On;
use crate::remote;
use crate::ui::Ui;

/// Context of a subcommand.
pub struct App {
    /// Options that every subcommand takes.
    pub global: Global,
    /// Standard streams and how to write to them.
    pub ui: Ui,
}

impl App {
    /// Runs a subcommand to its end and returns the exit code.
    pub async fn run(&self, command: CliCommand) -> Result<u8> {
        if let Some(On::SlurmAt(host)) = &self.global.on
            && command.endpoint() == Endpoint::Cluster
        {
            // Completion while typing: an ssh connection would block the shell.
            if let CliCommand::Names(_) = command {
                return Ok(0);
            }
            return remote::run(self, host, &command);
        }
        match command {
            CliCommand::Run(args) => cmd::run::run(self, *args).await,
            CliCommand::Ps(args) => cmd::ps::run(self, args).await,
            CliCommand::Show(args) => cmd::show::run(self, args).await,
            CliCommand::Logs(args) => cmd::logs::run(self, args).await,
            CliCommand::Attach(args) => cmd::attach::run(self, args).await,
            CliCommand::Explain(args) => cmd::explain::run(self, args).await,
            CliCommand::Verify(args) => cmd::verify::run(self, args).await,
            CliCommand::Wait(args) => cmd::wait::run(self, args).await,
            CliCommand::Cancel(args) => cmd::cancel::run(self, args).await,
            CliCommand::Hold(args) => cmd::hold::run(self, args).await,
            CliCommand::Release(args) => cmd::release::run(self, args).await,
            CliCommand::Requeue(args) => cmd::requeue::run(self, args).await,
            CliCommand::Scale(args) => cmd::scale::run(self, args).await,
            CliCommand::Checkpoint(args) => cmd::checkpoint::run(self, args).await,
            CliCommand::Queues(args) => cmd::queues::run(self, args).await,
            CliCommand::Usage(args) => cmd::usage::run(self, args).await,
            CliCommand::Nodes(args) => cmd::nodes::run(self, args).await,
            CliCommand::Reserve(args) => cmd::reserve::run(self, *args).await,
            CliCommand::StopDaemon(args) => cmd::stop_daemon::run(self, args).await,
            CliCommand::Advise(args) => cmd::advise::run(self, &args).await,
            CliCommand::Simulate(args) => cmd::simulate::run(self, &args).await,
            CliCommand::WhatIf(args) => cmd::whatif::run(self, *args).await,
            CliCommand::Prove(args) => cmd::prove::run(self, &args),
            CliCommand::Trace(args) => cmd::trace::run(self, &args),
            CliCommand::Compare(args) => cmd::compare::run(self, &args),
            CliCommand::Check(args) => cmd::check::run(self, args).await,
            CliCommand::Inventory(args) => cmd::inventory::run(self, &args),
            CliCommand::Import(args) => cmd::import::run(self, &args),
            CliCommand::Export(args) => cmd::export::run(self, &args),
            CliCommand::Init(args) => cmd::init::run(self, &args),
            CliCommand::Schema(args) => cmd::schema::run(self, &args),
            CliCommand::Completions(args) => cmd::completions::run(self, &args),
            CliCommand::Man(args) => cmd::man::run(self, &args),
            CliCommand::Info(args) => cmd::info::run(self, args).await,
            CliCommand::Names(args) => cmd::names::run(self, args).await,
            CliCommand::Docs(args) => cmd::docs::run(self, &args),
            CliCommand::Probe(args) => cmd::verify::probe::run(&args),
            CliCommand::Preflight(args) => cmd::verify::preflight::run(self, &args).await,
            CliCommand::Serve(args) => cmd::serve::run(&args),
        }
    }
}
