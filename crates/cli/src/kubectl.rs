//! `kubectl muster`: kubectl runs the program `kubectl-muster` of the search path. Under that name this
//! binary works on Kubernetes, as with `--on kubernetes`.

use std::path::Path;

use anyhow::Result;
use clap::error::Error;
use clap::{CommandFactory, FromArgMatches};
use muster_model::ClusterName;

use crate::args::Global;
use crate::cmd::Cli;
use crate::exit::Failure;
use crate::on::{self, On};

/// Name by which kubectl finds its subcommand.
const PROGRAM: &str = "kubectl-muster";
/// Name in the help, as users type it.
const TYPED: &str = "kubectl muster";

/// Returns true if kubectl, or the user, ran this program as a subcommand of kubectl.
fn is_plugin() -> bool {
    let program = std::env::args_os().next().unwrap_or_default();
    Path::new(&program).file_name().is_some_and(|name| name == PROGRAM)
}

/// Parses the command line of this process.
///
/// # Errors
/// The error of clap, also for `--help`.
pub fn parse() -> Result<Cli, Error> {
    let mut command = Cli::command();
    if is_plugin() {
        command = command.bin_name(TYPED);
    }
    let mut matches = command.clone().try_get_matches_from(words())?;
    let mut cli =
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))?;
    if is_plugin() && !on::is_typed() {
        cli.global.on = Some(On::Cluster(ClusterName::Kubernetes(None)));
    }
    Ok(cli)
}

/// Returns the command line; clap takes the first word for the name in the help.
fn words() -> impl Iterator<Item = std::ffi::OsString> {
    let first = std::ffi::OsString::from("muster");
    std::iter::once(first).chain(std::env::args_os().skip(1))
}

/// Rejects another cluster than that of kubectl.
pub fn check(global: &Global) -> Result<()> {
    if is_plugin() && global.on.as_ref().and_then(On::kubernetes).is_none() {
        return Err(Failure::usage(format!("`{TYPED}` works on Kubernetes only"))
            .hint("leave out --on, or run `muster`")
            .into());
    }
    Ok(())
}
