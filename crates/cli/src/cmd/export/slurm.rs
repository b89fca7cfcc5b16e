//! `muster export slurm`: writes a job as an sbatch script: the one that `muster run --on slurm` submits,
//! without Muster's own bookkeeping; also for Slurm inside Kubernetes.

use anyhow::Result;
use muster_model::JobSpec;
use muster_model::slurm::SlurmContainer;
use muster_slurm::script::operator::{self, SlurmOperator};
use muster_slurm::script::{self, GeneratedScript, ScriptInput};
use muster_spec::CheckedJob;

use super::{FileArgs, refusal, report_env_files, report_verify};
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

const SLINKY_EXAMPLES: &str = "\
Examples:
  muster export slinky train.yaml > train.sbatch
  muster export slinky train.yaml --namespace ml -o train.sbatch";

/// Write a job file as a script for Slurm that Slinky runs in Kubernetes
///
/// Users of Slinky submit with sbatch from its login pods, so this is the script of `muster export
/// slurm`, with a comment on how to get it there and which GPUs the workers need. The image of
/// `kubernetes: {image: …}` becomes the container if the job names no other for Slurm.
#[derive(Debug, clap::Args)]
#[command(after_long_help = SLINKY_EXAMPLES)]
pub(super) struct SlinkyArgs {
    #[command(flatten)]
    pub(super) inside: InsideArgs,
}

const SOPERATOR_EXAMPLES: &str = "\
Examples:
  muster export soperator train.yaml > train.sbatch";

/// Write a job file as a script for Slurm that Soperator runs in Kubernetes
///
/// Users of Soperator submit with sbatch from its login pods, so this is the script of `muster export
/// slurm`, with a comment on how to get it there and which GPUs the workers need. The image of
/// `kubernetes: {image: …}` becomes the container if the job names no other for Slurm.
#[derive(Debug, clap::Args)]
#[command(after_long_help = SOPERATOR_EXAMPLES)]
pub(super) struct SoperatorArgs {
    #[command(flatten)]
    pub(super) inside: InsideArgs,
}

/// Job to write for Slurm in Kubernetes.
#[derive(Debug, clap::Args)]
pub(super) struct InsideArgs {
    #[command(flatten)]
    job: FileArgs,
    /// Namespace of the Slurm cluster; by default that of the operator's documentation
    #[arg(long, value_name = "NAMESPACE")]
    namespace: Option<String>,
}

/// Runs `muster export slurm`; returns its exit code.
pub(super) fn run(app: &App, args: &SlurmArgs) -> Result<u8> {
    write(app, &args.job, render)
}

/// Runs `muster export slinky` or `muster export soperator`; returns the exit code.
pub(super) fn run_inside(app: &App, args: &InsideArgs, operator: SlurmOperator) -> Result<u8> {
    let namespace = args.namespace.as_deref().unwrap_or(operator.default_namespace());
    write(app, &args.job, |checked| {
        let mut script = render(&in_its_image(checked))?;
        script.text = operator::with_comment(&script.text, &checked.spec, operator, namespace);
        if !checked.kubernetes.volumes.is_empty() {
            let claims = "`kubernetes: {volumes: …}` is ignored: workers have the mounts of their NodeSet; `slurm: {container-mounts: …}` shows them to the container";
            script.warnings.push(claims.to_owned());
        }
        Ok(script)
    })
}

/// Returns a job that runs in the image that it names for Kubernetes, unless it names another one.
fn in_its_image(checked: &CheckedJob) -> CheckedJob {
    let mut job = checked.clone();
    let has_image = job.slurm.container.is_some() || job.environment.image.is_some();
    if let (false, Some(image)) = (has_image, &job.kubernetes.image) {
        job.slurm.container = Some(SlurmContainer { image: image.clone(), mounts: Vec::new() });
    }
    job
}

/// Writes the script of a job, and prints what is different and left out.
fn write(
    app: &App,
    args: &FileArgs,
    render: impl FnOnce(&CheckedJob) -> Result<GeneratedScript, Failure>,
) -> Result<u8> {
    let jobs = args.read()?;
    let checked = jobs.selected();
    let script = render(checked)?;
    args.write(app, &script.text)?;
    for warning in checked.warnings.iter().chain(&script.warnings) {
        app.ui.warning(warning);
    }
    report_env_files(app, checked);
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
        sweep: checked.sweep.as_ref(),
        notices: &checked.notices,
        files: &checked.files,
        slurm: &checked.environment.for_slurm(&checked.slurm),
        secrets: &checked.environment.secrets,
        directory: None,
        // `verify` is run by Muster, which an exported script does not need.
        program: None,
        verify: false,
        now,
    };
    script::render(&source).map_err(|unfit| refusal("Slurm", &spec.name, &unfit))
}
