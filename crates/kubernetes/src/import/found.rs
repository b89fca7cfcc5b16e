//! Object that is a job, while its roles are read.

use super::draft::{GroupDraft, JobDraft, ProgramDraft};
use super::launch::FoundLauncher;
use super::object::ImportedObject;
use super::pod::{self, PodTemplate};

/// Object that is a job, as the job file that it becomes.
pub(super) struct FoundJob {
    /// Position among the objects.
    pub(super) object: usize,
    pub(super) draft: JobDraft,
    /// Pointers of the pod templates, one for each group.
    pub(super) templates: Vec<String>,
    /// True if `muster export` wrote it.
    pub(super) is_own: bool,
    /// Pods that start together by its scheduler's object: the field, its object and the number.
    pub(super) least: Option<LeastPods>,
    pub(super) mpi: Option<MpiFacts>,
    pub(super) trainer: Option<TrainerFacts>,
    pub(super) ray: Option<RayFacts>,
}

/// Number of pods that start together, as a field says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeastPods {
    pub(super) object: usize,
    pub(super) at: String,
    pub(super) pods: u64,
    /// Pods that it counts and that are no tasks: the launcher of an MPIJob.
    pub(super) others: u64,
}

/// Facts of an MPIJob that rules compare with its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MpiFacts {
    /// Processes that the host file allows on each worker.
    pub(super) slots: u64,
    pub(super) workers: u64,
    /// GPUs of each worker.
    pub(super) worker_gpus: u64,
    /// GPUs of the launcher, if it is no worker as well.
    pub(super) launcher_gpus: u64,
    /// Number of processes in the command of the launcher.
    pub(super) ranks: Option<u64>,
    /// True if ranks became tasks.
    pub(super) has_rank_tasks: bool,
}

/// Facts of a TrainJob that rules compare with its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TrainerFacts {
    pub(super) has_runtime: bool,
    /// True if its runtime makes a PodGroup for all pods.
    pub(super) has_pod_group: bool,
    /// Processes on each node; `None` means one for each GPU.
    pub(super) processes: Option<u64>,
}

/// Facts of a Ray cluster that rules compare with its pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RayFacts {
    /// Pointer of the cluster in its object; `None` for a RayJob on a cluster that exists.
    pub(super) cluster: Option<String>,
    /// Head and groups of workers that have pods, in the order of the templates.
    pub(super) groups: Vec<RayGroup>,
    /// Line by which the program starts; `None` where there is none.
    pub(super) entrypoint: Option<String>,
}

/// Group of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RayGroup {
    /// Pointer of the group in its object.
    pub(super) at: String,
    /// Name of the group; `head` for the head.
    pub(super) name: String,
}

impl LeastPods {
    /// Makes the number that a field of the job's own object says.
    pub(super) fn of_job(found: &FoundJob, at: String, pods: u64) -> Self {
        let others = found.mpi.as_ref().filter(|mpi| mpi.has_rank_tasks).map_or(0, |_| 1);
        Self { object: found.object, at, pods, others }
    }
}

impl FoundJob {
    /// Returns the processes that a launcher starts in each task of a group; `None` if unknown.
    pub(super) fn processes(&self, group: &GroupDraft, launcher: &FoundLauncher) -> Option<u64> {
        // Muster and Kubeflow's Trainer set PET_NPROC_PER_NODE to the GPUs of a task.
        let sets_it = self.is_own || self.trainer.is_some();
        let own = sets_it.then_some(group.task.gpus.max(1));
        let given = self.draft.env.iter().find(|(name, _)| name == "PET_NPROC_PER_NODE");
        let given = given.and_then(|(_, count)| count.parse().ok());
        launcher.processes(group.task.gpus, given.or(own))
    }
}

/// Reads a role of a job; one without pods is left out.
pub(super) fn role(object: &mut ImportedObject, found: &mut FoundJob, template: &PodTemplate<'_>) {
    if template.pods == 0 {
        object.near(template.at, "a role without pods is left out");
        return;
    }
    let own = pod::read(object, template, &mut found.draft);
    let is_first = found.templates.is_empty();
    found.is_own = own.is_some() && (found.is_own || is_first);
    if let Some(own) = own {
        found.draft.name = own.job;
    }
    found.templates.push(template.at.to_owned());
    let group = found.draft.groups.last_mut().expect("reading a template adds a group");
    // A Ray cluster may have no program.
    if group.task.run == ProgramDraft::default() && found.draft.ray.is_none() {
        let image = found.draft.kubernetes.image.as_deref().unwrap_or("the image");
        let text = format!("echo 'write the command of {image} here' >&2\nexit 78\n");
        group.task.run = ProgramDraft::Text(text);
    }
}

/// Makes one role of two with equal tasks: ranks are numbered over all.
pub(super) fn merge_equal(found: &mut FoundJob) {
    let groups = &mut found.draft.groups;
    if let [first, second] = &mut groups[..]
        && first.task == second.task
    {
        first.pods += second.pods;
        groups.truncate(1);
        found.templates.truncate(1);
    }
}
