//! `muster export slurm`: writes a job as an sbatch script: the one that `muster run --on slurm` submits,
//! without Muster's own bookkeeping.

use anyhow::Result;
use muster_model::JobSpec;
use muster_slurm::script::{self, GeneratedScript, ScriptInput};
use muster_spec::CheckedJob;

use super::{FileArgs, refusal, report_verify};
use crate::app::App;
use crate::exit::Failure;
use crate::ui::now;

const EXAMPLES: &str = "\
Examples:
  muster export slurm train.yaml > train.sbatch
  muster export slurm train.yaml -o train.sbatch --force
  muster import train.sbatch | muster export slurm -
  muster export slurm jobs.yaml --document 2";

/// Write a job file as a script for sbatch
///
/// The script needs Slurm and bash; its header lists what is left out. Slurm is not needed to write
/// it. Jobs that Slurm cannot run are rejected, as by `muster run --on slurm`; differences in
/// behaviour are printed on stderr.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct SlurmArgs {
    #[command(flatten)]
    job: FileArgs,
}

/// Runs `muster export slurm`; returns its exit code.
pub(super) fn run(app: &App, args: &SlurmArgs) -> Result<u8> {
    let jobs = args.job.read()?;
    let checked = jobs.selected();
    let script = render(checked)?;
    args.job.write(app, &script.text)?;
    for warning in checked.warnings.iter().chain(&script.warnings) {
        app.ui.warning(warning);
    }
    for (_, document) in &checked.after_documents {
        app.ui.warning(&format!(
            "the job depends on document {} of {}; add its Slurm job id when submitting: sbatch --dependency=afterok:ID",
            document + 1,
            jobs.all.len()
        ));
    }
    report_verify(app, checked);
    for left_out in &script.left_out {
        app.ui.status(&format!("left out: {left_out}"));
    }
    Ok(0)
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
    script::render(&source).map_err(|unfit| refusal("Slurm", &spec.name, &unfit))
}
