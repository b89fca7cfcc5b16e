//! `muster export`: writes a job as an sbatch script: the one that `muster run --on slurm` submits,
//! without Muster's own bookkeeping.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Subcommand;
use muster_model::{JobSpec, QueueName, UserName};
use muster_slurm::script::{self, GeneratedScript, ScriptInput};
use muster_spec::{CheckedJob, SubmissionSite};
use serde_json::Map;

use crate::app::App;
use crate::exit::Failure;
use crate::ui::now;
use crate::{output_files, source};

const EXAMPLES: &str = "\
Examples:
  muster export slurm train.yaml > train.sbatch
  muster export slurm train.yaml -o train.sbatch --force
  muster import train.sbatch | muster export slurm -
  muster export slurm jobs.yaml --document 2";

/// Write a job as a script that runs without Muster
#[derive(Debug, clap::Args)]
pub struct ExportArgs {
    #[command(subcommand)]
    target: ExportCommand,
}

#[derive(Debug, Subcommand)]
enum ExportCommand {
    Slurm(SlurmArgs),
}

/// Write a job file as a script for sbatch
///
/// The script needs Slurm and bash; its header lists what is left out. Slurm is not needed to write
/// it. Jobs that Slurm cannot run are rejected, as by `muster run --on slurm`; differences in
/// behaviour are printed on stderr.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
struct SlurmArgs {
    /// Job file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Number of the document in the file, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    document: Option<u32>,
    /// Write the script to this file; `-` is stdout, the default
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
}

/// Runs `muster export`; returns its exit code.
pub fn run(app: &App, args: &ExportArgs) -> Result<u8> {
    match &args.target {
        ExportCommand::Slurm(args) => slurm(app, args),
    }
}

fn slurm(app: &App, args: &SlurmArgs) -> Result<u8> {
    // 1. Read the job.
    let text = source::read(&args.file)?;
    let documents = muster_spec::parse(&text.source, text.file.as_deref(), &Map::new())
        .map_err(Failure::from)?;
    let queue = QueueName::from("default");
    let checked = muster_spec::check_all(
        &documents,
        &SubmissionSite::unknown(UserName::from("nobody"), &queue),
    )
    .map_err(Failure::from)?;
    let count = checked.len();
    let checked = select_document(checked, args.document)?;
    // 2. Write its script.
    let script = render(&checked)?;
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => output_files::write(path, &script.text, args.force)?,
        None => app.ui.bytes(script.text.as_bytes())?,
    }
    // 3. Print what differs.
    for warning in checked.warnings.iter().chain(&script.warnings) {
        app.ui.warning(warning);
    }
    for (_, document) in &checked.after_documents {
        app.ui.warning(&format!(
            "the job depends on document {} of {count}; add its Slurm job id when submitting: sbatch --dependency=afterok:ID",
            document + 1
        ));
    }
    if checked.verify {
        app.ui.status(
            "left out: the `verify` checks before the program starts, which only Muster runs",
        );
    }
    for left_out in &script.left_out {
        app.ui.status(&format!("left out: {left_out}"));
    }
    Ok(0)
}

fn select_document(
    mut checked: Vec<CheckedJob>,
    document: Option<u32>,
) -> Result<CheckedJob, Failure> {
    let count = checked.len();
    let index = match document {
        None if count > 1 => {
            return Err(Failure::usage(format!(
                "the file holds {count} jobs, but a script holds one"
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
    Ok(checked.swap_remove(index))
}

fn render(checked: &CheckedJob) -> Result<GeneratedScript, Failure> {
    let now = now();
    let begin = checked.begin.map(|begin| begin.at(now)).or(checked.spec.begin);
    let spec = JobSpec { begin, ..checked.spec.clone() };
    let workdir = checked.workdir.as_ref().map(|dir| dir.to_string_lossy());
    let source = ScriptInput {
        spec: &spec,
        commands: &checked.commands,
        env: &checked.env,
        workdir: workdir.as_deref(),
        files: &checked.files,
        slurm: &checked.slurm,
        directory: None,
        // `verify` is run by Muster, which an exported script does not need.
        verify: None,
        now,
    };
    script::render(&source).map_err(|unfit| {
        let what: Vec<&str> = unfit.iter().map(|one| one.what.as_str()).collect();
        let failure = Failure::usage(format!(
            "Slurm cannot run `{}` as it is: {}",
            spec.name,
            what.join("; ")
        ));
        unfit.iter().fold(failure, |failure, one| failure.hint(one.hint.clone()))
    })
}
