//! Objects around the jobs: earlier jobs that they wait for, the Services by which their pods find each
//! other or are reached, and autoscalers. PodGroups are read by `pod_group`.

use muster_document::child;

use super::draft::JobDraft;
use super::found::FoundJob;
use super::object::ImportedObject;
use super::{files, pod_group, ray, services};
use crate::{kueue, names};

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
        let object = &mut objects[jobs[index].object];
        dependencies(object, &mut jobs[index].draft, &earlier);
        pod_group::of_kai(object, &mut jobs[index]);
        files::remove_workdir(&mut jobs[index].draft);
        ray::exported_program(objects, &mut jobs[index]);
    }
    for index in 0..objects.len() {
        match (objects[index].group(), objects[index].kind()) {
            ("", "ConfigMap") => {
                let drafts = jobs.iter_mut().map(|job| &mut job.draft);
                files::config_map(&mut objects[index], drafts);
            }
            ("", "Service") => service(index, objects, jobs),
            ("", "Secret") => ray::secret(&mut objects[index], jobs),
            (_, "PodGroup") => pod_group::read(index, objects, jobs),
            (kueue::GROUP, _) => queue(&mut objects[index]),
            ("autoscaling", "HorizontalPodAutoscaler") => {
                services::autoscaler(index, objects, jobs)
            }
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

/// Reads a Service: the port of a service, or the names that the pods of a job have.
fn service(index: usize, objects: &mut [ImportedObject], jobs: &mut [FoundJob]) {
    let selected = objects[index].texts("/spec/selector");
    let selects = |job: &&mut FoundJob| {
        let labels = objects[job.object].texts(&format!("{}/metadata/labels", job.templates[0]));
        !selected.is_empty() && selected.iter().all(|label| labels.contains(label))
    };
    let found = jobs.iter_mut().find(selects);
    let is_own = found.as_ref().is_some_and(|job| job.is_own);
    let is_headless = objects[index].peek_text("/spec/clusterIP") == Some("None");
    let says = match found.and_then(|job| job.draft.service.as_mut()) {
        Some(service) => {
            let object = &objects[index];
            let number = |field: &str| object.peek_number(&format!("/spec/ports/0/{field}"));
            service.port = service.port.or(number("targetPort")).or(number("port"));
            "port: replicas have an address each, which `muster show` names"
        }
        None if is_headless => "the address of rank 0 is in $MASTER_ADDR",
        None => return,
    };
    for at in ["/spec", "/metadata"] {
        if is_own { objects[index].field(at, says) } else { objects[index].near(at, says) }
    }
}

/// Notes an object of Kueue: a queue belongs to the site, and a job names it.
fn queue(object: &mut ImportedObject) {
    for at in ["/metadata", "/spec"] {
        object.near(
            at,
            "a queue of the site: a job names it, and the site's queues are a file of their own",
        );
    }
}
