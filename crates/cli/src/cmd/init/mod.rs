//! `muster init`: writes the files to set up a control plane; one file of this folder per control
//! plane. The user reads the files and installs them; nothing is installed or run here.

mod boundary;
mod check;
mod generated;
mod hybrid;
mod kubernetes;
mod none;
mod slurm;

use anyhow::Result;
use clap::Subcommand;

use crate::app::App;

/// Write the files to set up a control plane
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    #[command(subcommand)]
    plane: InitCommand,
}

#[derive(Debug, Subcommand)]
enum InitCommand {
    None(none::InitNoneArgs),
    Hybrid(Box<hybrid::InitHybridArgs>),
    Slurm(Box<slurm::InitSlurmArgs>),
    Kubernetes(kubernetes::InitKubernetesArgs),
}

/// Runs `muster init`; returns its exit code.
pub fn run(app: &App, args: &InitArgs) -> Result<u8> {
    match &args.plane {
        InitCommand::None(args) => none::run(app, args),
        InitCommand::Hybrid(args) => hybrid::run(app, args),
        InitCommand::Slurm(args) => slurm::run(app, args),
        InitCommand::Kubernetes(args) => kubernetes::run(app, args),
    }
}
