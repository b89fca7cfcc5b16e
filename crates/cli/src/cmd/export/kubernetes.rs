//! `muster export kubernetes`, `muster export trainer` and `muster export kuberay`: write a job as objects of
//! Kubernetes.

use std::path::Path;

use anyhow::Result;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use muster_delegate::kubernetes::send::read_folder;
use muster_kubernetes::node::GpuLabels;
use muster_kubernetes::render::{self, GangScheduler, JobForm, RenderInput, SentFile};
use muster_model::{DependencyKind, JobSpec};
use muster_spec::CheckedJob;

use super::{FileArgs, refusal, report_env_files, report_verify};
use crate::app::App;
use crate::exit::Failure;
use crate::ui::now;

const EXAMPLES: &str = "\
Examples:
  muster export kubernetes train.yaml | kubectl apply -f -
  muster export kubernetes train.yaml --scheduler kueue -o train-objects.yaml
  muster import train.sbatch | muster export kubernetes -";

/// Write a job file as objects of Kubernetes
///
/// One task per pod, or the tasks of one node with `nodes`; the tasks find `RANK`, `WORLD_SIZE`,
/// `MASTER_ADDR`, `PET_*` and `MUSTER_ARRAY_INDEX` as on one machine. Needs `kubernetes: {image: …}`
/// in the job. What Kubernetes or the scheduler cannot do is rejected; differences in behaviour are
/// printed on stderr. No cluster is needed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct KubernetesArgs {
    #[command(flatten)]
    pub(super) objects: ObjectArgs,
}

const TRAINER_EXAMPLES: &str = "\
Examples:
  muster export trainer train.yaml | kubectl apply -f -
  muster export trainer train.yaml --scheduler volcano -o train-objects.yaml";

/// Write a job file as a TrainJob of Kubeflow's Trainer
///
/// The TrainJob has image, command, variables and resources of its nodes; a TrainingRuntime of the
/// same name has the rest of their pods, so that nothing has to be installed besides Trainer. What a
/// TrainJob cannot do is rejected; differences in behaviour are printed on stderr. No cluster is
/// needed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = TRAINER_EXAMPLES)]
pub(super) struct TrainerArgs {
    #[command(flatten)]
    pub(super) objects: ObjectArgs,
}

const KUBERAY_EXAMPLES: &str = "\
Examples:
  muster export kuberay tune.yaml | kubectl apply -f -
  muster export kuberay tune.yaml --scheduler kueue -o tune-rayjob.yaml";

/// Write a job file of `kind: ray` as a RayJob of KubeRay
///
/// The first task is the head of the cluster, and the others are groups of workers; KubeRay starts
/// the program in the head's pod once `wait` nodes have joined. A range of sizes becomes the bounds
/// of KubeRay's autoscaler. Without KubeRay in the cluster, `muster export kubernetes` writes the same
/// job. What a RayJob cannot do is rejected; differences in behaviour are printed on stderr. No
/// cluster is needed.
#[derive(Debug, clap::Args)]
#[command(after_long_help = KUBERAY_EXAMPLES)]
pub(super) struct KubeRayArgs {
    #[command(flatten)]
    pub(super) objects: ObjectArgs,
}

/// Job to write as objects, and its scheduler.
#[derive(Debug, clap::Args)]
pub(super) struct ObjectArgs {
    #[command(flatten)]
    job: FileArgs,
    /// Scheduler that starts the pods of a gang together in the cluster; by default the one that the job
    /// file names, or Muster's
    #[arg(long, value_name = "SCHEDULER", value_parser = gang_scheduler())]
    scheduler: Option<GangScheduler>,
}

impl ObjectArgs {
    fn scheduler_of(&self, job: &CheckedJob) -> GangScheduler {
        self.scheduler.or(job.kubernetes.scheduler).unwrap_or(GangScheduler::Muster)
    }
}

/// Returns a parser of schedulers by their words, each with its help.
pub(in crate::cmd) fn gang_scheduler() -> impl TypedValueParser<Value = GangScheduler> {
    let value =
        |scheduler: GangScheduler| PossibleValue::new(scheduler.word()).help(help(scheduler));
    PossibleValuesParser::new(GangScheduler::ALL.map(value))
        .map(|word| GangScheduler::named(&word).expect("the parser admits only these words"))
}

fn help(scheduler: GangScheduler) -> &'static str {
    match scheduler {
        GangScheduler::Muster => "Muster's (`muster init kubernetes`)",
        GangScheduler::Kueue => "Kueue, with the last part of the queue as its LocalQueue",
        GangScheduler::Volcano => "Volcano, with its own kind of Job",
        GangScheduler::Kai => "KAI, with a JobSet for a gang",
        GangScheduler::PodGroups => {
            "kube-scheduler with PodGroups (Kubernetes 1.37, feature gate GenericWorkload)"
        }
        GangScheduler::None => "kube-scheduler alone, for jobs of one pod",
    }
}

/// Runs `muster export kubernetes`, `trainer` or `kuberay`; returns the exit code.
pub(super) fn run(app: &App, args: &ObjectArgs, form: JobForm) -> Result<u8> {
    let jobs = args.job.read()?;
    let mut checked = jobs.selected().clone();
    muster_ray::set_token(&mut checked.env, &checked.commands, getrandom::fill)
        .map_err(|error| Failure::new(format!("cannot get random numbers: {error}")))?;
    let checked = &checked;
    let scheduler = args.scheduler_of(checked);
    let mut after = Vec::new();
    for (kind, document) in &checked.after_documents {
        let other = &jobs.all[*document];
        if other.kubernetes.namespace != checked.kubernetes.namespace {
            return Err(Failure::usage(format!(
                "`{}` depends on document {}, which is written for another namespace",
                checked.spec.name,
                document + 1
            ))
            .hint("a Job waits for objects of its own namespace only: give both the same `kubernetes: {namespace: …}`")
            .into());
        }
        let scheduler = args.scheduler_of(other);
        let name =
            with_input(other, &[], &[], scheduler, form, |input| render::main_object(&input));
        after.push((*kind, name));
    }
    let files = match &checked.kubernetes.send {
        Some(folder) => read_folder(Path::new(&**folder)).map_err(|error| {
            let hint = error.hint();
            Failure::new(error.to_string()).hint(hint)
        })?,
        None => Vec::new(),
    };
    let rendered =
        with_input(checked, &after, &files, scheduler, form, |input| render::render(&input))
            .map_err(|unfit| refusal("Kubernetes", &checked.spec.name, &unfit))?;
    args.job.write(app, &render::yaml(&rendered.objects))?;
    for warning in checked.warnings.iter().chain(&rendered.warnings) {
        app.ui.warning(warning);
    }
    report_verify(app, checked);
    report_env_files(app, checked);
    Ok(0)
}

/// Calls a function with the input of the objects of a job.
pub(in crate::cmd) fn with_input<T>(
    checked: &CheckedJob,
    after: &[(DependencyKind, String)],
    files: &[SentFile],
    scheduler: GangScheduler,
    form: JobForm,
    make: impl FnOnce(RenderInput<'_>) -> T,
) -> T {
    let begin = checked.begin.map(|begin| begin.at(now())).or(checked.spec.begin);
    let spec = JobSpec { begin, ..checked.spec.clone() };
    let workdir = checked.workdir.as_ref().map(|dir| dir.to_string_lossy());
    make(RenderInput {
        spec: &spec,
        commands: &checked.commands,
        sweep: checked.sweep.as_ref(),
        env: &checked.env,
        workdir: workdir.as_deref(),
        gpu_labels: &GpuLabels::default(),
        files,
        has_output_files: !checked.files.is_empty(),
        after,
        options: &checked.environment.for_kubernetes(&checked.kubernetes),
        environment: &checked.environment,
        scheduler,
        form: form.with(&checked.kubernetes),
        suffix: None,
    })
}
