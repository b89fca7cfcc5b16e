//! The `muster` binary: parses the command line and runs the subcommand. Subcommands are in `cmd`,
//! one file each; `muster-report` renders their output. No scheduling decision is made here.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail"))]

mod act;
mod app;
mod args;
mod cmd;
mod config_files;
mod connect;
mod dashes;
mod environment;
mod exit;
mod facts;
mod failures;
mod jobref;
mod json_error;
mod kubectl;
mod kubernetes;
mod logging;
mod logs;
mod mistyped;
mod named_file;
mod notify_file;
mod notify_process;
mod on;
mod output_files;
mod past;
mod points_file;
mod queue_objects;
mod ray_cluster;
mod remote;
mod screen;
mod select;
mod site_file;
mod source;
mod terminal;
mod topology_label;
mod trace_file;
mod track;
mod ui;
mod watch;
mod withdraw;

use std::io::ErrorKind;
use std::process::ExitCode;

use anyhow::{Context, Result};
use muster_model::ClusterName;

use crate::app::App;
use crate::cmd::CliCommand;
use crate::exit::{FAILURE, Failure};
use crate::on::{Endpoint, On};
use crate::ui::Ui;

fn main() -> ExitCode {
    // This binary is also the supervisor of a task. A supervisor must start fast and small, so this
    // comes before any other set-up.
    let mut words = std::env::args_os();
    if words.nth(1).is_some_and(|verb| verb == "__supervise" || verb == "__exec") {
        return muster_backends::local::supervise::main(std::env::args_os());
    }
    if std::env::args_os().nth(1).is_some_and(|verb| verb == notify_process::NOTIFY) {
        return notify_process::main();
    }
    let ui = Ui::detect();
    let cli = match kubectl::parse() {
        Ok(cli) => cli,
        Err(error) => match mistyped::explain(&error) {
            Some(failure) => return ExitCode::from(report(&ui, &failure.into())),
            None if error.use_stderr() && json_error::is_wanted(&dashes::object_conditions()) => {
                return ExitCode::from(report(&ui, &mistyped::as_failure(&error).into()));
            }
            None => error.exit(),
        },
    };
    let app = App { global: cli.global, ui };
    let result = kubectl::check(&app.global).and_then(|()| run(&app, cli.command));
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => ExitCode::from(report(&app.ui, &error)),
    }
}

fn run(app: &App, command: CliCommand) -> Result<u8> {
    on::check_applies(app.global.on.as_ref(), command.endpoint())?;
    // The daemon and the scheduler set up their own multi-threaded runtimes.
    if let CliCommand::Serve(args) = &command {
        return cmd::serve::run(args);
    }
    if let CliCommand::Scheduler(args) = &command {
        return cmd::scheduler::run(args);
    }
    if let Some(On::Cluster(ClusterName::SlurmAt(host))) = &app.global.on
        && matches!(
            command.endpoint(),
            Endpoint::Cluster | Endpoint::AnyCluster | Endpoint::ClusterOfJob | Endpoint::Clusters
        )
    {
        return match command {
            // Completion while typing: an ssh connection would block the shell.
            CliCommand::Names(_) => Ok(0),
            _ => remote::run(app, host, &command),
        };
    }
    // A client needs one thread only.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot set up asynchronous input and output")?;
    runtime.block_on(cmd::run_command(app, command))
}

/// Prints an error with its hints and returns its exit code. A broken pipe on stdout (as of `muster
/// ps | head`) is no error.
fn report(ui: &Ui, error: &anyhow::Error) -> u8 {
    let closed = |cause: &(dyn std::error::Error + 'static)| {
        cause
            .downcast_ref::<std::io::Error>()
            .is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
    };
    if error.chain().any(closed) {
        return 0;
    }
    let is_json = json_error::is_wanted(&dashes::object_conditions());
    let Some(failure) = error.downcast_ref::<Failure>() else {
        if is_json {
            ui.status(&json_error::line(&Failure::new(format!("{error:#}"))))
        } else {
            ui.error(&format!("{error:#}"))
        }
        return FAILURE;
    };
    if is_json {
        ui.status(&json_error::line(failure));
        return failure.code;
    }
    match &failure.rendered {
        Some(rendered) => ui.status(rendered),
        None => ui.error(&failure.message),
    }
    for hint in &failure.hints {
        ui.hint(hint);
    }
    failure.code
}
