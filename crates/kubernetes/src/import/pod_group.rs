//! PodGroups, and Pods by hand that are one gang by the name of their PodGroup.

use muster_document::child;

use super::draft::job_name;
use super::found::{FoundJob, LeastPods};
use super::object::ImportedObject;
use crate::group::is_gang_key;
use crate::names;

/// Makes one job of Pods that name the same PodGroup and have equal tasks. Variables in which they differ
/// are left out: tasks know their rank.
pub(super) fn join_pods(objects: &mut [ImportedObject], jobs: &mut Vec<FoundJob>) {
    let mut kept: Vec<FoundJob> = Vec::new();
    for job in std::mem::take(jobs) {
        let group = group_of_pod(&objects[job.object]);
        let is_same = |one: &&mut FoundJob| {
            group.is_some()
                && group_of_pod(&objects[one.object]) == group
                && one.draft.groups[0].task == job.draft.groups[0].task
        };
        let Some(first) = kept.iter_mut().find(is_same) else {
            kept.push(job);
            continue;
        };
        first.draft.groups[0].pods += 1;
        first.draft.name = job_name(group.as_deref().unwrap_or_default());
        let differs = |variable: &(String, String)| {
            !(first.draft.env.contains(variable) && job.draft.env.contains(variable))
        };
        let all = first.draft.env.iter().chain(&job.draft.env);
        let different: Vec<String> =
            all.filter(|one| differs(one)).map(|(name, _)| name.clone()).collect();
        for index in [first.object, job.object] {
            let object = &mut objects[index];
            for entry in object.children("/spec/containers/0/env") {
                let name = object.peek_text(&format!("{entry}/name")).unwrap_or_default();
                if different.iter().any(|one| one == name) {
                    object.lost(&entry, "it differs between the pods; $RANK is set for each task");
                }
            }
        }
        first.draft.env.retain(|(name, _)| !different.contains(name));
    }
    *jobs = kept;
}

/// Returns the PodGroup that a Pod names; `None` for other objects.
fn group_of_pod(object: &ImportedObject) -> Option<String> {
    let is_pod = object.group().is_empty() && object.kind() == "Pod";
    groups(object, "").into_iter().next().filter(|_| is_pod)
}

/// Reads a PodGroup: the queue, and how many pods start together.
pub(super) fn read(index: usize, objects: &mut [ImportedObject], jobs: &mut [FoundJob]) {
    let name = objects[index].name().to_owned();
    let is_named = |job: &FoundJob| {
        let object = &objects[job.object];
        job.templates.iter().any(|at| groups(object, at).contains(&name))
    };
    let named: Vec<usize> = (0..jobs.len()).filter(|job| is_named(&jobs[*job])).collect();
    let Some((first, rest)) = named.split_first() else { return };
    let others = rest.iter().map(|other| jobs[*other].draft.pods()).sum();
    let job = &mut jobs[*first];
    let object = &mut objects[index];
    for at in ["/spec/schedulingPolicy/gang/minCount", "/spec/minMember"] {
        if let Some(pods) = object.number(at, "the size of the job") {
            job.least = Some(LeastPods { object: index, at: at.to_owned(), pods, others });
        }
    }
    if let Some(queue) = object.text("/spec/queue", "queue") {
        job.draft.queue = job.draft.queue.take().or(Some(crate::queue::path(&queue)));
    }
    for at in ["/spec/minResources", "/spec/minTaskMember", "/metadata"] {
        object.near(at, "the pods of the job say what they need");
    }
}

/// Reads the size of the PodGroup that KAI makes for the pods of a Job or JobSet.
pub(super) fn of_kai(object: &mut ImportedObject, job: &mut FoundJob) {
    let at = child("/metadata/annotations", names::KAI_MIN_MEMBER);
    if let Some(pods) = object.text(&at, "the size of the job").and_then(|text| text.parse().ok()) {
        job.least = Some(LeastPods::of_job(job, at, pods));
    }
}

/// Returns the PodGroups that the pods of a template name.
fn groups(object: &ImportedObject, at: &str) -> Vec<String> {
    let own = object.peek_text(&format!("{at}/spec/schedulingGroup/podGroupName"));
    let keys = ["labels", "annotations"].iter().flat_map(|part| {
        let entries = object.texts(&format!("{at}/metadata/{part}"));
        entries.into_iter().filter(|(key, _)| is_gang_key(key))
    });
    own.map(str::to_owned).into_iter().chain(keys.map(|(_, value)| value)).collect()
}
