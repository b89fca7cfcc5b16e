//! `muster init`: the files with which a control plane starts, a file of this folder per plane.
//! They are written for people to read and put in place; nothing is installed or run.

mod boundary;
mod check;
mod generated;
mod hybrid;
mod none;
mod slurm;

use anyhow::Result;
use clap::Subcommand;

use crate::app::App;

/// Write the files to start a control plane with
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    plane: Plane,
}

#[derive(Debug, Subcommand)]
enum Plane {
    None(none::Args),
    Hybrid(Box<hybrid::Args>),
    Slurm(Box<slurm::Args>),
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    match &args.plane {
        Plane::None(args) => none::run(app, args),
        Plane::Hybrid(args) => hybrid::run(app, args),
        Plane::Slurm(args) => slurm::run(app, args),
    }
}
