//! Objects of Kubernetes that run a job: an Indexed Job, a JobSet for several roles, a Job of Volcano, a
//! TrainJob or a RayJob, with what their gang scheduler reads. Pure functions. Anything that Kubernetes cannot do
//! is refused or reported in a warning, never dropped silently.

mod command;
mod files;
mod git;
mod objects;
mod pod;
mod ray_job;
mod refusals;
mod secret;
mod service;
mod sweep;
mod sweep_size;
mod train_job;

pub(crate) use command::own_program;
pub(crate) use files::{COPY, SENT, WORKDIR, is_copier};
pub(crate) use git::{CREDENTIALS, fetched_source};
pub(crate) use objects::disruptions_ignored;
pub(crate) use ray_job::{has_token, version_of_image};

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::kubernetes::KubernetesOptions;
use muster_model::payload::TaskCommand;
use muster_model::sweep::Sweep;
use muster_model::{
    DependencyKind, JobSpec, Service, TaskEnvironment, TaskGroup, Unsupported, WorkloadKind,
};
use serde_json::Value;

pub use files::SentFile;
pub use muster_model::kubernetes::GangScheduler;
pub use pod::NVIDIA;

use crate::node::GpuLabels;
use crate::{instant, names};

/// Kind of the object that has the tasks of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JobForm {
    /// The simplest that can run it: a Job, a JobSet, or a Job of Volcano; a Deployment for a service.
    #[default]
    Simplest,
    /// TrainJob of Kubeflow's Trainer, with a runtime of its own.
    TrainJob,
    /// RayJob of KubeRay, for a job of kind `ray`.
    RayJob,
    /// InferenceService of KServe, for a service.
    InferenceService,
}

impl JobForm {
    /// Returns the form of a job with these options: one that asks for KubeRay is a RayJob, one that asks for
    /// KServe an InferenceService, and one that asks for the Trainer a TrainJob.
    #[must_use]
    pub fn with(self, options: &KubernetesOptions) -> Self {
        match self {
            Self::Simplest if options.is_kuberay => Self::RayJob,
            Self::Simplest if options.is_kserve => Self::InferenceService,
            Self::Simplest if options.is_train_job => Self::TrainJob,
            _ => self,
        }
    }
}

/// Runs the first argument as a file, so that its first line names the interpreter.
const FROM_FILE: &str = r#"muster_program=$(mktemp) || exit 1
printf '%s' "$1" > "$muster_program" && chmod +x "$muster_program" || exit 1
exec "$muster_program"
"#;

/// Input of the objects of a job.
#[derive(Clone, Copy, Debug)]
pub struct RenderInput<'a> {
    /// Job as it was checked, with its begin time as an instant.
    pub spec: &'a JobSpec,
    /// Command of each group, by name.
    pub commands: &'a BTreeMap<Arc<str>, TaskCommand>,
    /// Parameters of a sweep; `None` for other jobs.
    pub sweep: Option<&'a Sweep>,
    /// Environment variables of the job.
    pub env: &'a BTreeMap<String, String>,
    /// Working directory in the containers; `None` means that of the image.
    pub workdir: Option<&'a str>,
    /// Labels that name the GPU models of the cluster's nodes; none where no cluster is known.
    pub gpu_labels: &'a GpuLabels,
    /// Files that are in the working directory of every task.
    pub files: &'a [SentFile],
    /// True if the job names files for its output.
    pub has_output_files: bool,
    /// Objects that the job waits for, as [`main_object`] names them.
    pub after: &'a [(DependencyKind, String)],
    /// Options for Kubernetes only.
    pub options: &'a KubernetesOptions,
    /// Environment of its program, of which a pod has the image only.
    pub environment: &'a TaskEnvironment,
    /// Scheduler of the cluster.
    pub scheduler: GangScheduler,
    /// Kind of the object that has the tasks.
    pub form: JobForm,
    /// Text after the job's name in the names of its objects, which makes them unique; `None` for the
    /// name alone.
    pub suffix: Option<&'a str>,
}

/// Objects of a job, with notes for the user.
#[derive(Clone, Debug, PartialEq)]
pub struct RenderedJob {
    /// Objects, in the order in which they are created.
    pub objects: Vec<Value>,
    /// Settings of the job that Kubernetes handles differently.
    pub warnings: Vec<String>,
}

/// Returns the objects of a job.
///
/// # Errors
/// All settings of the job that Kubernetes, or the scheduler, cannot support.
pub fn render(input: &RenderInput<'_>) -> Result<RenderedJob, Vec<Unsupported>> {
    let unfit = refusals::unsupported(input);
    if !unfit.is_empty() {
        return Err(unfit);
    }
    let job = JobShape::of(input);
    let mut warnings = refusals::differences(input);
    if input.suffix.is_none() && *job.name != *input.spec.name {
        warnings.push(format!(
            "the objects are named {}: names of Kubernetes have lower-case letters, digits and `-`, and those of pods at most 63",
            job.name
        ));
    }
    let objects = match job.service() {
        Some(service) => service::objects(&job, service),
        None if job.kind == JobKind::TrainJob => train_job::objects(&job),
        None if job.kind == JobKind::RayJob => ray_job::objects(&job),
        None => objects::all(&job),
    };
    Ok(RenderedJob { objects, warnings })
}

/// Returns the name of the object whose pods are the tasks of a job, as `job/train`.
#[must_use]
pub fn main_object(input: &RenderInput<'_>) -> String {
    let job = JobShape::of(input);
    let kind = match job.kind {
        JobKind::Job => "job",
        JobKind::JobSet => "jobset",
        JobKind::Volcano => "vcjob",
        JobKind::Deployment => "deployment",
        JobKind::InferenceService => "inferenceservice",
        JobKind::TrainJob => "trainjob",
        JobKind::RayJob => "rayjob",
    };
    format!("{kind}/{}", job.name)
}

/// Returns objects as a stream of YAML documents.
#[must_use]
pub fn yaml(objects: &[Value]) -> String {
    serde_saphyr::to_string_multiple(objects).expect("JSON values are YAML values")
}

/// Form in which a job is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobKind {
    /// Job of `batch/v1`: one role.
    Job,
    /// JobSet: several roles, a gang that restarts as a whole, or a gang of KAI.
    JobSet,
    /// Job of `batch.volcano.sh`, with a task for each role.
    Volcano,
    /// Deployment, whose pods are the replicas of a service.
    Deployment,
    /// InferenceService of `serving.kserve.io`, which makes a Deployment.
    InferenceService,
    /// TrainJob of `trainer.kubeflow.org`, which becomes a JobSet of one role.
    TrainJob,
    /// RayJob of `ray.io`, which makes a RayCluster.
    RayJob,
}

/// A job as pods: each has the tasks of one node, or one task.
struct JobShape<'a> {
    input: &'a RenderInput<'a>,
    name: String,
    kind: JobKind,
    roles: Vec<Role<'a>>,
}

/// The pods of a task group.
struct Role<'a> {
    group: &'a TaskGroup,
    name: String,
    /// Rank of its first task.
    first_rank: u32,
    /// Pods of the roles before it.
    first_pod: u32,
    pods: u32,
    /// Tasks of each pod, a container each.
    tasks_per_pod: u32,
}

impl<'a> JobShape<'a> {
    fn of(input: &'a RenderInput<'a>) -> Self {
        let mut roles = Vec::new();
        let mut first_rank = 0;
        let mut first_pod = 0;
        for group in &input.spec.groups {
            let tasks_per_pod = group.tasks_per_node.unwrap_or(1);
            let pods = group.min_tasks / tasks_per_pod;
            let name = role_name(group);
            roles.push(Role { group, name, first_rank, first_pod, pods, tasks_per_pod });
            first_rank += group.min_tasks;
            first_pod += pods;
        }
        let restarts_whole = input.spec.restart.on_failure && first_pod > 1;
        let kind = match input.scheduler {
            _ if matches!(input.spec.kind, WorkloadKind::Service(_)) => match input.form {
                JobForm::InferenceService => JobKind::InferenceService,
                JobForm::Simplest | JobForm::TrainJob | JobForm::RayJob => JobKind::Deployment,
            },
            _ if input.form == JobForm::TrainJob => JobKind::TrainJob,
            _ if input.form == JobForm::RayJob => JobKind::RayJob,
            GangScheduler::Volcano => JobKind::Volcano,
            // Versions of KAI that do not read the annotation know JobSets as gangs, but no Jobs.
            GangScheduler::Kai if first_pod > 1 => JobKind::JobSet,
            _ if roles.len() > 1 || restarts_whole => JobKind::JobSet,
            _ => JobKind::Job,
        };
        if kind == JobKind::TrainJob {
            roles.iter_mut().for_each(|role| role.name = train_job::ROLE.to_owned());
        }
        let has_roles = matches!(kind, JobKind::JobSet | JobKind::Volcano | JobKind::TrainJob);
        let in_pod_names = if has_roles { &roles[..] } else { &[] };
        let longest_role = in_pod_names.iter().map(|role| role.name.len()).max().unwrap_or(0);
        let suffix = input.suffix.map_or(String::new(), |suffix| format!("-{suffix}"));
        let longest = if kind == JobKind::RayJob { ray_job::MAX_NAME } else { MAX_NAMES };
        let longest = longest - longest_role - suffix.len();
        let name = format!("{}{suffix}", object_name(&input.spec.name, longest));
        Self { input, name, kind, roles }
    }

    fn pods(&self) -> u32 {
        self.roles.iter().map(|role| role.pods).sum()
    }

    fn tasks(&self) -> u32 {
        self.input.spec.min_tasks()
    }

    /// Returns the name of the first pod of a role in the gang's DNS domain.
    fn address(&self, role: &Role<'_>) -> String {
        let name = &self.name;
        let role = &role.name;
        match self.kind {
            // The addresses of a RayJob are KubeRay's.
            JobKind::Job | JobKind::Deployment | JobKind::InferenceService | JobKind::RayJob => {
                format!("{name}-0.{name}")
            }
            JobKind::JobSet | JobKind::TrainJob => format!("{name}-{role}-0-0.{name}"),
            JobKind::Volcano => format!("{name}-{role}-0.{name}"),
        }
    }

    /// Returns the settings of a service; `None` for other jobs.
    fn service(&self) -> Option<&Service> {
        match &self.input.spec.kind {
            WorkloadKind::Service(service) => Some(service),
            WorkloadKind::Task | WorkloadKind::Notebook(_) => None,
        }
    }

    /// Returns true for a gang that Muster starts, and that waits again as a whole when it was preempted: as pods
    /// it would have failed. KubeRay replaces the pods of its own clusters.
    fn is_gang_of_muster(&self) -> bool {
        self.input.scheduler == GangScheduler::Muster
            && self.pods() > 1
            && self.input.spec.array.is_none()
            && self.service().is_none()
            && self.kind != JobKind::RayJob
    }

    /// Returns the annotations that say when Muster's scheduler, or a user, may start the job.
    fn start_terms(&self) -> Vec<(&'static str, String)> {
        let spec = self.input.spec;
        let held = spec.held.then(|| (names::HELD, "true".to_owned()));
        let begin = spec.begin.map(|begin| (names::BEGIN, instant::text(begin)));
        let after: Vec<String> = self.input.after.iter().map(dependency).collect();
        let after = (!after.is_empty()).then(|| (names::AFTER, after.join(",")));
        [held, begin, after].into_iter().flatten().collect()
    }

    /// Returns the queue as the value of a label; `None` for the default queue.
    fn queue(&self) -> Option<String> {
        let spec = self.input.spec;
        names_queue(spec).then(|| crate::queue::object_name(spec.queue.as_str()))
    }
}

/// Returns true for a job that names a queue other than the default one.
fn names_queue(spec: &JobSpec) -> bool {
    !matches!(spec.queue.as_str(), "" | "default")
}

fn dependency((kind, object): &(DependencyKind, String)) -> String {
    format!("{}:{object}", kind.word())
}

/// Longest name of a job, with that of its role where pods have both in their names:
/// `NAME-ROLE-0-9999-xxxxx` is a label of DNS, of at most 63 characters.
const MAX_NAMES: usize = 49;
/// Longest name of a role: half of both.
const MAX_ROLE: usize = 24;

/// Returns the name of a group in its objects.
fn role_name(group: &TaskGroup) -> String {
    object_name(&group.name, MAX_ROLE)
}

/// Returns a name as Kubernetes allows it for objects whose pods have a host name.
fn object_name(name: &str, longest: usize) -> String {
    let replace = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let name: String = name.chars().map(replace).collect();
    let name = name.trim_matches('-');
    let prefix = match name.chars().next() {
        None => "job",
        Some(first) if first.is_ascii_digit() => "job-",
        Some(_) => "",
    };
    let name: String = prefix.chars().chain(name.chars()).take(longest).collect();
    name.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests;
