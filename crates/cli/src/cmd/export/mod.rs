//! `muster export`: writes a job for another system, so that it runs there without Muster.

pub(in crate::cmd) mod kubernetes;
mod slurm;

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Subcommand;
use muster_kubernetes::render::JobForm;
use muster_model::{QueueName, Unsupported, UserName};
use muster_slurm::script::operator::SlurmOperator;
use muster_spec::{CheckedJob, SubmissionSite};
use serde_json::Map;

use crate::app::App;
use crate::environment::read_env_files;
use crate::exit::Failure;
use crate::{output_files, points_file, source};

/// Write a job for another system
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    #[command(subcommand)]
    target: ExportCommand,
}

#[derive(Debug, Subcommand)]
enum ExportCommand {
    Slurm(slurm::SlurmArgs),
    Kubernetes(kubernetes::KubernetesArgs),
    Trainer(kubernetes::TrainerArgs),
    #[command(name = "kuberay")]
    KubeRay(kubernetes::KubeRayArgs),
    Slinky(slurm::SlinkyArgs),
    Soperator(slurm::SoperatorArgs),
}

/// Job to write, and where to.
#[derive(Debug, clap::Args)]
struct FileArgs {
    /// Job file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of the document in the file, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    document: Option<u32>,
    /// Write to this file; `-` is stdout, the default
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Jobs of a file, one of which is written.
struct FileJobs {
    all: Vec<CheckedJob>,
    /// Position of the job that is written.
    selected: usize,
}

impl FileJobs {
    fn selected(&self) -> &CheckedJob {
        &self.all[self.selected]
    }
}

impl FileArgs {
    fn read(&self) -> Result<FileJobs> {
        let text = source::read(&self.file)?;
        let file = text.file.as_deref();
        let documents = points_file::parse(&text.source, file, Map::new())?;
        let queue = QueueName::from("default");
        let site = SubmissionSite::unknown(UserName::from("nobody"), &queue);
        let mut all = muster_spec::check_all(&documents, &site).map_err(Failure::from)?;
        let env_files = read_env_files(&documents, file)?;
        for job in &mut all {
            job.add_env_files(&env_files).expect("every file that the jobs name was read");
        }
        let selected = select_document(all.len(), self.document)?;
        Ok(FileJobs { all, selected })
    }

    fn write(&self, app: &App, text: &str) -> Result<()> {
        match self.output.as_deref().filter(|path| *path != Path::new("-")) {
            Some(path) => output_files::write(path, text, self.force)?,
            None => app.ui.bytes(text.as_bytes())?,
        }
        Ok(())
    }
}

/// Runs `muster export`; returns its exit code.
pub fn run(app: &App, args: &ExportArgs) -> Result<u8> {
    match &args.target {
        ExportCommand::Slurm(args) => slurm::run(app, args),
        ExportCommand::Kubernetes(args) => kubernetes::run(app, &args.objects, JobForm::Simplest),
        ExportCommand::Trainer(args) => kubernetes::run(app, &args.objects, JobForm::TrainJob),
        ExportCommand::KubeRay(args) => kubernetes::run(app, &args.objects, JobForm::RayJob),
        ExportCommand::Slinky(args) => slurm::run_inside(app, &args.inside, SlurmOperator::Slinky),
        ExportCommand::Soperator(args) => {
            slurm::run_inside(app, &args.inside, SlurmOperator::Soperator)
        }
    }
}

/// Returns the refusal of a job by a system, with every reason.
fn refusal(system: &str, job: &str, unfit: &[Unsupported]) -> Failure {
    let what: Vec<&str> = unfit.iter().map(|one| one.what.as_str()).collect();
    let failure =
        Failure::usage(format!("{system} cannot run `{job}` as it is: {}", what.join("; ")));
    unfit.iter().fold(failure, |failure, one| failure.hint(one.hint.clone()))
}

/// Reports the `verify` checks of a job, which no other system runs.
fn report_verify(app: &App, checked: &CheckedJob) {
    if checked.verify {
        app.ui.status(
            "left out: the `verify` checks before the program starts, which only Muster runs",
        );
    }
}

/// Warns that what is written has the values of the files that a job names.
fn report_env_files(app: &App, checked: &CheckedJob) {
    let files = checked.environment.env_files.join(", ");
    if !files.is_empty() {
        app.ui.warning(&format!(
            "the values of {files} are written out; `secrets` and `kubernetes: {{env-from: …}}` keep them apart"
        ));
    }
}

/// Returns the position of the job that is written, of a file with this number of jobs.
fn select_document(count: usize, document: Option<u32>) -> Result<usize, Failure> {
    let index = match document {
        None if count > 1 => {
            return Err(Failure::usage(format!(
                "the file holds {count} jobs, but only one is written"
            ))
            .hint("--document 1 selects the first"));
        }
        None => 0,
        Some(number) => usize::try_from(number - 1).unwrap_or(usize::MAX),
    };
    if index >= count {
        return Err(Failure::usage(format!(
            "there is no document {}; the file holds {count}",
            index + 1
        )));
    }
    Ok(index)
}
