//! `muster init`: writes the files to set up a control plane; one file of this folder per control
//! plane. The user reads the files and installs them; nothing is installed or run here.

mod boundary;
mod check;
mod generated;
mod hybrid;
mod kubernetes;
mod none;
mod ray;
mod site;
mod slurm;

pub use ray::RayHost;

use anyhow::Result;
use clap::Subcommand;

use crate::app::App;
use crate::on::Endpoint;

/// Write the files to set up a control plane
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    #[command(subcommand)]
    plane: InitCommand,
}

#[derive(Debug, Subcommand)]
enum InitCommand {
    Site(site::InitSiteArgs),
    None(none::InitNoneArgs),
    Hybrid(Box<hybrid::InitHybridArgs>),
    Slurm(Box<slurm::InitSlurmArgs>),
    Kubernetes(kubernetes::InitKubernetesArgs),
    Ray(Box<ray::InitRayArgs>),
}

impl InitArgs {
    /// Returns the cluster that the subcommand uses: none, but `ray` writes for the kind that `--on` names.
    pub fn endpoint(&self) -> Endpoint {
        if matches!(self.plane, InitCommand::Ray(_)) { Endpoint::FilesFor } else { Endpoint::None }
    }
}

/// Runs `muster init`; returns its exit code.
pub fn run(app: &App, args: &InitArgs) -> Result<u8> {
    match &args.plane {
        InitCommand::Site(args) => site::run(app, args),
        InitCommand::None(args) => none::run(app, args),
        InitCommand::Hybrid(args) => hybrid::run(app, args),
        InitCommand::Slurm(args) => slurm::run(app, args),
        InitCommand::Kubernetes(args) => kubernetes::run(app, args),
        InitCommand::Ray(args) => ray::run(app, args),
    }
}
