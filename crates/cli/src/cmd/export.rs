//! `muster export`: a job as what others run. The script is the one that `muster run --on slurm`
//! hands on, without what Muster keeps of it.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;
use clap::Subcommand;
use muster_backends::slurm::script::{self, Script, Source};
use muster_model::{JobSpec, QueueName, Time, UserName};
use muster_spec::{Checked, Site};
use serde_json::Map;

use crate::app::App;
use crate::exit::Failure;
use crate::{output_files, source};

const EXAMPLES: &str = "\
Examples:
  muster export slurm train.yaml > train.sbatch
  muster export slurm train.yaml -o train.sbatch --force
  muster import train.sbatch | muster export slurm -
  muster export slurm jobs.yaml --document 2";

/// Write a job as a script that runs without Muster
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    target: Target,
}

#[derive(Debug, Subcommand)]
enum Target {
    Slurm(SlurmArgs),
}

/// Write a job file as a script for sbatch
///
/// The script needs Slurm and bash, and says in its head what it leaves out. No Slurm is needed to
/// make it. What Slurm cannot do is refused, as `muster run --on slurm` refuses it; what it does
/// otherwise is said on stderr.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
struct SlurmArgs {
    /// A job file; `-` is stdin
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Which of several documents, from 1
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    document: Option<u32>,
    /// Write the script here in place of stdout, which `-` is too
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    match &args.target {
        Target::Slurm(args) => slurm(app, args),
    }
}

fn slurm(app: &App, args: &SlurmArgs) -> Result<u8> {
    // 1. The job.
    let text = source::read(&args.file)?;
    let documents = muster_spec::parse(&text.source, text.file.as_deref(), &Map::new())
        .map_err(Failure::from)?;
    let queue = QueueName::from("default");
    let checked =
        muster_spec::check_all(&documents, &Site::unknown(UserName::from("nobody"), &queue))
            .map_err(Failure::from)?;
    let count = checked.len();
    let checked = chosen(checked, args.document)?;
    // 2. Its script.
    let script = scripted(&checked)?;
    match args.output.as_deref().filter(|path| *path != Path::new("-")) {
        Some(path) => output_files::write(path, &script.text, args.force)?,
        None => app.ui.bytes(script.text.as_bytes())?,
    }
    // 3. What is otherwise.
    for warning in checked.warnings.iter().chain(&script.warnings) {
        app.ui.warning(warning);
    }
    for (_, document) in &checked.after_documents {
        app.ui.warning(&format!(
            "it waits for document {} of {count}, whose number only sbatch gives: sbatch --dependency=afterok:NUMBER",
            document + 1
        ));
    }
    if checked.verify {
        app.ui.status(
            "left out: what `verify` looks at before the program starts: it is Muster that looks",
        );
    }
    for left_out in &script.left_out {
        app.ui.status(&format!("left out: {left_out}"));
    }
    Ok(0)
}

fn chosen(mut checked: Vec<Checked>, document: Option<u32>) -> Result<Checked, Failure> {
    let count = checked.len();
    let index = match document {
        None if count > 1 => {
            return Err(Failure::usage(format!(
                "the file holds {count} jobs, and a script is one"
            ))
            .hint("--document 1 takes the first"));
        }
        None => 0,
        Some(number) => usize::try_from(number - 1).unwrap_or(usize::MAX),
    };
    if index >= count {
        return Err(Failure::usage(format!(
            "there is no document {}: the file holds {count}",
            index + 1
        )));
    }
    Ok(checked.swap_remove(index))
}

fn scripted(checked: &Checked) -> Result<Script, Failure> {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Time(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
    let begin = checked.begin.map(|begin| begin.at(now)).or(checked.spec.begin);
    let spec = JobSpec { begin, ..checked.spec.clone() };
    let workdir = checked.workdir.as_ref().map(|dir| dir.to_string_lossy());
    let source = Source {
        spec: &spec,
        commands: &checked.commands,
        env: &checked.env,
        workdir: workdir.as_deref(),
        files: &checked.files,
        slurm: &checked.slurm,
        kept: None,
        // It is this program that verifies.
        verify: None,
        now,
    };
    script::render(&source).map_err(|unfit| {
        let what: Vec<&str> = unfit.iter().map(|one| one.what.as_str()).collect();
        let failure = Failure::usage(format!(
            "Slurm cannot have `{}` as it is: {}",
            spec.name,
            what.join("; ")
        ));
        unfit.iter().fold(failure, |failure, one| failure.hint(one.hint.clone()))
    })
}
