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
}

/// Number of pods that start together, as a field says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeastPods {
    pub(super) object: usize,
    pub(super) at: String,
    pub(super) pods: u64,
}

impl FoundJob {
    /// Returns the processes that a launcher starts in each task of a group; `None` if unknown.
    pub(super) fn processes(&self, group: &GroupDraft, launcher: &FoundLauncher) -> Option<u64> {
        // Muster sets PET_NPROC_PER_NODE to the GPUs of a task.
        let own = self.is_own.then_some(group.task.gpus.max(1));
        let given = self.draft.env.iter().find(|(name, _)| name == "PET_NPROC_PER_NODE");
        let given = given.and_then(|(_, count)| count.parse().ok());
        launcher.processes(group.task.gpus, given.or(own))
    }
}

/// Reads a role of a job.
pub(super) fn role(object: &mut ImportedObject, found: &mut FoundJob, template: &PodTemplate<'_>) {
    let own = pod::read(object, template, &mut found.draft);
    let is_first = found.templates.is_empty();
    found.is_own = own.is_some() && (found.is_own || is_first);
    if let Some(own) = own {
        found.draft.name = own.job;
    }
    found.templates.push(template.at.to_owned());
    let group = found.draft.groups.last_mut().expect("reading a template adds a group");
    if group.task.run == ProgramDraft::default() {
        let image = found.draft.kubernetes.image.as_deref().unwrap_or("the image");
        let text = format!("echo 'write the command of {image} here' >&2\nexit 78\n");
        group.task.run = ProgramDraft::Text(text);
    }
}
