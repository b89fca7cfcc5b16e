//! A job as a TrainJob of Kubeflow's Trainer: the TrainJob has image, command, variables and resources of
//! its nodes, and a TrainingRuntime of the same name has the rest of their pods.

use serde_json::{Map, Value, json};

use super::objects::{network, object, secret, sent_files, started_by};
use super::pod::template;
use super::{GangScheduler, JobShape};

/// API version of both objects.
const VERSION: &str = "trainer.kubeflow.org/v1alpha1";
/// Name of the role, and of its first container: that in which a TrainJob replaces fields.
pub(super) const ROLE: &str = "node";
/// Label that tells the pods that train from those that prepare data.
const STEP: &str = "trainer.kubeflow.org/trainjob-ancestor-step";
/// Fields of the container that are in the TrainJob, and their names there.
const FIELDS: [(&str, &str); 4] =
    [("image", "image"), ("command", "command"), ("env", "env"), ("resources", "resourcesPerNode")];

/// Returns all objects of the job, the TrainJob last.
pub(super) fn objects(job: &JobShape<'_>) -> Vec<Value> {
    let train_job = object(job, VERSION, "TrainJob", started_by(job, specification(job)));
    sent_files(job).into_iter().chain(secret(job)).chain([runtime(job), train_job]).collect()
}

fn runtime(job: &JobShape<'_>) -> Value {
    let mut template = template(job, &job.roles[0]);
    let container = &mut template["spec"]["containers"][0];
    container["name"] = json!(ROLE);
    if let Some(fields) = container.as_object_mut() {
        fields.retain(|name, _| FIELDS.iter().all(|(moved, _)| moved != name));
    }
    let restart = &job.input.spec.restart;
    let restarts = if restart.on_failure { restart.max_restarts } else { 0 };
    let labels = json!({"labels": {STEP: "trainer"}});
    let pods = json!({"completionMode": "Indexed", "backoffLimit": 0, "template": template});
    let role = json!({"name": ROLE, "template": {"metadata": labels, "spec": pods}});
    let job_set = json!({
        "replicatedJobs": [role],
        "failurePolicy": {"maxRestarts": restarts},
        "network": network(job),
    });
    let mut spec = json!({"mlPolicy": {"numNodes": job.pods()}, "template": {"spec": job_set}});
    if job.input.scheduler == GangScheduler::Volcano {
        spec["podGroupPolicy"] = json!({"volcano": {}});
    }
    object(job, VERSION, "TrainingRuntime", spec)
}

fn specification(job: &JobShape<'_>) -> Value {
    let template = template(job, &job.roles[0]);
    let container = &template["spec"]["containers"][0];
    let mut trainer: Map<String, Value> = FIELDS
        .iter()
        .map(|(field, name)| ((*name).to_owned(), container[*field].clone()))
        .filter(|(_, value)| !value.is_null() && *value != json!({}))
        .collect();
    trainer.insert("numNodes".to_owned(), job.pods().into());
    json!({"runtimeRef": {"kind": "TrainingRuntime", "name": job.name}, "trainer": trainer})
}
