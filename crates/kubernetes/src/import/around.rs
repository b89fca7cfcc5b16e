//! Objects around the jobs: earlier jobs that they wait for, the Services by which their pods find each
//! other, and the PodGroups of their schedulers.

use super::document::child;
use super::draft::JobDraft;
use super::found::{FoundJob, LeastPods};
use super::object::ImportedObject;
use crate::names;

/// Reads the objects around the jobs.
pub(super) fn read(objects: &mut [ImportedObject], jobs: &mut [FoundJob]) {
    for index in 0..jobs.len() {
        let earlier: Vec<(String, String)> = jobs[..index]
            .iter()
            .map(|job| {
                let object = &objects[job.object];
                let reference = format!("{}/{}", object.kind().to_lowercase(), object.name());
                (reference, job.draft.name.clone())
            })
            .collect();
        dependencies(&mut objects[jobs[index].object], &mut jobs[index].draft, &earlier);
    }
    for index in 0..objects.len() {
        match (objects[index].group(), objects[index].kind()) {
            ("", "Service") => service(&mut objects[index], jobs),
            (_, "PodGroup") => pod_group(index, objects, jobs),
            _ => {}
        }
    }
}

/// Converts the names of objects to those of earlier jobs of the file.
fn dependencies(object: &mut ImportedObject, job: &mut JobDraft, earlier: &[(String, String)]) {
    let at = child("/metadata/annotations", names::AFTER);
    let mut kept = Vec::new();
    for one in std::mem::take(&mut job.after) {
        let (kind, reference) = one.split_once(':').unwrap_or(("afterok", &one));
        match earlier.iter().find(|(known, _)| known == reference) {
            Some((_, name)) => kept.push(format!("{kind}:{name}")),
            None => object.lost(&at, "it waits for an object that is not before it in the file"),
        }
    }
    job.after = kept;
}

/// Notes a headless Service, by which the pods of a job have names.
fn service(object: &mut ImportedObject, jobs: &[FoundJob]) {
    let selected = object.texts("/spec/selector");
    let is_headless = object.peek_text("/spec/clusterIP") == Some("None");
    let is_own =
        jobs.iter().any(|job| job.is_own && selected.iter().any(|(key, _)| key == names::JOB));
    if is_headless {
        let says = "the address of rank 0 is in $MASTER_ADDR";
        for at in ["/spec", "/metadata"] {
            if is_own { object.field(at, says) } else { object.near(at, says) }
        }
    }
}

/// Annotations and labels of pods that name their PodGroup: of coscheduling, Volcano and KAI.
const POD_GROUP_KEYS: [&str; 3] =
    ["scheduling.x-k8s.io/pod-group", "scheduling.k8s.io/group-name", "pod-group-name"];

/// Reads a PodGroup: the queue, and how many pods start together.
fn pod_group(index: usize, objects: &mut [ImportedObject], jobs: &mut [FoundJob]) {
    let name = objects[index].name().to_owned();
    let is_named = |job: &&mut FoundJob| {
        let object = &objects[job.object];
        job.templates.iter().any(|at| names_group(object, at, &name))
    };
    let Some(job) = jobs.iter_mut().find(is_named) else { return };
    let object = &mut objects[index];
    for at in ["/spec/schedulingPolicy/gang/minCount", "/spec/minMember"] {
        if let Some(pods) = object.number(at, "the size of the job") {
            job.least = Some(LeastPods { object: index, at: at.to_owned(), pods });
        }
    }
    if let Some(queue) = object.text("/spec/queue", "queue") {
        job.draft.queue = job.draft.queue.take().or(Some(crate::queue::path(&queue)));
    }
    for at in ["/spec/minResources", "/spec/minTaskMember", "/metadata"] {
        object.near(at, "the pods of the job say what they need");
    }
}

/// Returns true if the pods of a template are in the group of this name.
fn names_group(object: &ImportedObject, at: &str, name: &str) -> bool {
    let own = object.peek_text(&format!("{at}/spec/schedulingGroup/podGroupName"));
    let keys = ["labels", "annotations"].iter().flat_map(|part| {
        let entries = object.texts(&format!("{at}/metadata/{part}"));
        entries.into_iter().filter(|(key, _)| POD_GROUP_KEYS.contains(&key.as_str()))
    });
    own == Some(name) || keys.into_iter().any(|(_, value)| value == name)
}
