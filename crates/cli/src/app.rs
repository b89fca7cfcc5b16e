//! What every verb is given: the shared options and the terminal.

use anyhow::Result;

use crate::args::{Asks, Command, Global};
use crate::cmd;
use crate::on::On;
use crate::remote;
use crate::ui::Ui;

/// The surroundings of a verb.
pub struct App {
    /// Shared options.
    pub global: Global,
    /// Streams.
    pub ui: Ui,
}

impl App {
    /// Runs a verb to its end and answers its exit code.
    pub async fn run(&self, command: Command) -> Result<u8> {
        if let Some(On::SlurmAt(host)) = &self.global.on
            && command.asks() == Asks::Place
        {
            // A shell would wait for the connection.
            if let Command::Names(_) = command {
                return Ok(0);
            }
            return remote::run(self, host, &command);
        }
        match command {
            Command::Run(args) => cmd::run::run(self, *args).await,
            Command::Ps(args) => cmd::ps::run(self, args).await,
            Command::Show(args) => cmd::show::run(self, args).await,
            Command::Logs(args) => cmd::logs::run(self, args).await,
            Command::Attach(args) => cmd::attach::run(self, args).await,
            Command::Explain(args) => cmd::explain::run(self, args).await,
            Command::Verify(args) => cmd::verify::run(self, args).await,
            Command::Wait(args) => cmd::wait::run(self, args).await,
            Command::Cancel(args) => cmd::cancel::run(self, args).await,
            Command::Hold(args) => cmd::hold::run(self, args).await,
            Command::Release(args) => cmd::release::run(self, args).await,
            Command::Requeue(args) => cmd::requeue::run(self, args).await,
            Command::Scale(args) => cmd::scale::run(self, args).await,
            Command::Checkpoint(args) => cmd::checkpoint::run(self, args).await,
            Command::Queues(args) => cmd::queues::run(self, args).await,
            Command::Usage(args) => cmd::usage::run(self, args).await,
            Command::Nodes(args) => cmd::nodes::run(self, args).await,
            Command::Reserve(args) => cmd::reserve::run(self, *args).await,
            Command::StopDaemon(args) => cmd::stop_daemon::run(self, args).await,
            Command::Advise(args) => cmd::advise::run(self, &args).await,
            Command::Simulate(args) => cmd::simulate::run(self, &args).await,
            Command::WhatIf(args) => cmd::whatif::run(self, *args).await,
            Command::Prove(args) => cmd::prove::run(self, &args),
            Command::Trace(args) => cmd::trace::run(self, &args),
            Command::Compare(args) => cmd::compare::run(self, &args),
            Command::Check(args) => cmd::check::run(self, args).await,
            Command::Inventory(args) => cmd::inventory::run(self, &args),
            Command::Import(args) => cmd::import::run(self, &args),
            Command::Export(args) => cmd::export::run(self, &args),
            Command::Init(args) => cmd::init::run(self, &args),
            Command::Schema(args) => cmd::schema::run(self, &args),
            Command::Completions(args) => cmd::completions::run(self, &args),
            Command::Man(args) => cmd::man::run(self, &args),
            Command::Info(args) => cmd::info::run(self, args).await,
            Command::Names(args) => cmd::names::run(self, args).await,
            Command::Docs(args) => cmd::docs::run(self, &args),
            Command::Probe(args) => cmd::verify::probe::run(&args),
            Command::Preflight(args) => cmd::verify::preflight::run(self, &args).await,
            Command::Serve(args) => cmd::serve::run(&args),
        }
    }
}
