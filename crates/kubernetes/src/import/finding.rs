//! Facts about objects, and what a rule is: data with a function from facts to what it found. It never
//! guesses, and reports nothing that is uncertain. The rules are in `rules`.

use muster_model::NodeSpec;
use muster_model::check::Severity;
use muster_model::imported::ImportedOption;

use super::draft::GroupDraft;
use super::found::FoundJob;
use super::object::ImportedObject;

/// Facts that rules examine.
pub(super) struct ObjectFacts<'a> {
    pub(super) objects: &'a [ImportedObject],
    pub(super) jobs: &'a [FoundJob],
    /// Results for the fields of each object.
    pub(super) options: &'a [Vec<ImportedOption>],
    /// Nodes of the cluster; `None` where they are not known.
    pub(super) nodes: Option<&'a [NodeSpec]>,
}

/// Role of a job, with its object.
pub(super) struct RoleFacts<'a> {
    pub(super) object: &'a ImportedObject,
    pub(super) job: &'a FoundJob,
    pub(super) group: &'a GroupDraft,
    /// Pointer of its pod template.
    pub(super) at: &'a str,
}

impl ObjectFacts<'_> {
    /// Returns every role of every job.
    pub(super) fn roles(&self) -> impl Iterator<Item = RoleFacts<'_>> {
        self.jobs.iter().flat_map(|job| {
            let object = &self.objects[job.object];
            let templates = job.draft.groups.iter().zip(&job.templates);
            templates.map(move |(group, at)| RoleFacts { object, job, group, at })
        })
    }
}

impl RoleFacts<'_> {
    /// Returns the line of a field of its pods.
    pub(super) fn line(&self, field: &str) -> Option<u32> {
        self.object.line(&format!("{}/spec/{field}", self.at))
    }

    /// Returns true if all fields of its pods are in the file; the runtime of a TrainJob may not be.
    pub(super) fn has_whole_template(&self) -> bool {
        self.job.trainer.as_ref().is_none_or(|trainer| trainer.has_runtime)
    }

    /// Returns the pod of the role in words: `pods of Job train`.
    pub(super) fn title(&self) -> String {
        match self.job.draft.groups.len() {
            1 => self.object.title(),
            _ => format!("{}, {}", self.object.title(), self.group.name),
        }
    }
}

/// Match of a rule: a line, and the evidence there.
pub(super) type RuleHit = (Option<u32>, String);

/// Rule with a function that examines the objects of a file.
pub(super) struct ObjectRule {
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// Problem in general terms.
    pub(super) title: &'static str,
    /// Next step for the user.
    pub(super) cure: &'static str,
    pub(super) find: fn(&ObjectFacts<'_>) -> Vec<RuleHit>,
}
