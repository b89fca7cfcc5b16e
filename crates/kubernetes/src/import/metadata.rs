//! Metadata of the object that is a job: its name, its queue, and when it may start.

use muster_document::child;

use super::draft::JobDraft;
use super::object::ImportedObject;
use super::pod::queue;
use super::reasons::TOPOLOGY;
use crate::names;

/// Annotations that Muster writes for itself.
const OWN: [&str; 6] = [
    names::USER,
    names::SUBMISSION,
    names::SUBMITTED,
    names::ADMITTED,
    names::AFTER_STATUS,
    names::CANCELLED,
];

/// Reads labels and annotations of an object. Names of objects in `after` are converted later.
pub(super) fn read(object: &mut ImportedObject, job: &mut JobDraft) {
    job.kubernetes.namespace = object.text("/metadata/namespace", "kubernetes: {namespace}");
    let labels = "/metadata/labels";
    for (key, _) in object.texts(labels) {
        let at = child(labels, &key);
        match key.as_str() {
            names::JOB => object.field(&at, "name"),
            names::QUEUE | names::KUEUE_QUEUE | names::KAI_QUEUE | names::VOLCANO_QUEUE_LABEL => {
                queue(object, &at, &key, job)
            }
            names::RAY_PRIORITY_CLASS => {
                let class = object.text(&at, "kubernetes: {priority-class}");
                let own = &mut job.kubernetes.priority_class;
                *own = own.take().or(class);
            }
            "kueue.x-k8s.io/priority-class" => {
                object.lost(&at, "`priority` is a number: the class of Kueue has it");
            }
            _ => object.near(&at, "labels of objects choose nothing in Muster"),
        }
    }
    let annotations = "/metadata/annotations";
    for (key, value) in object.texts(annotations) {
        let at = child(annotations, &key);
        match key.as_str() {
            names::JOB_NAME => {
                job.name = value;
                object.field(&at, "name");
            }
            names::HELD => {
                job.is_held = value == "true";
                object.field(&at, "hold");
            }
            names::BEGIN => match crate::instant::of_user(&value) {
                Some(begin) => {
                    job.begin = Some(crate::instant::text(begin));
                    object.field(&at, "begin");
                }
                None => object.lost(&at, "not an instant"),
            },
            names::AFTER => {
                job.after = value.split(',').map(|part| part.trim().to_owned()).collect();
                object.field(&at, "after");
            }
            names::VOLCANO_QUEUE => queue(object, &at, &key, job),
            names::CHECKPOINT => match serde_json::from_str(&value) {
                Ok(checkpoint) => {
                    job.checkpoint = Some(checkpoint);
                    object.field(&at, "checkpoint");
                }
                Err(_) => object.lost(&at, "not the settings of a checkpoint"),
            },
            names::SWEEP => object.field(&at, "params, metric"),
            names::ARRAY | names::REPLICAS => object.field(&at, "array, replicas"),
            _ if OWN.contains(&key.as_str()) => object.field(&at, "Muster's own"),
            _ if key.starts_with("kai.scheduler/topology") => object.lost(&at, TOPOLOGY),
            _ if object.is_noted(&at) => {}
            _ => object.near(&at, "annotations of objects other than pods are not in a job"),
        }
    }
    suspended(object, job);
}

/// A suspended object waits for its scheduler, for a term of its start, or for its user.
fn suspended(object: &mut ImportedObject, job: &mut JobDraft) {
    let waits = ["labels", "annotations"].iter().any(|part| {
        let keys = object.texts(&format!("/metadata/{part}"));
        keys.iter().any(|(key, _)| {
            [names::QUEUE, names::KUEUE_QUEUE, names::HELD, names::BEGIN, names::AFTER]
                .contains(&key.as_str())
        })
    });
    if object.is_set("/spec/suspend") && !waits {
        job.is_held = true;
    }
    object.field("/spec/suspend", if job.is_held { "hold" } else { "the scheduler starts it" });
}
