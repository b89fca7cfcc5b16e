//! A service as a Deployment or an InferenceService of KServe: replicas that are independent of each other, one
//! address for all, and for a range of replicas an autoscaler.

use serde_json::{Value, json};

use muster_model::{Replicas, Service};

use super::objects::{object, sent_files};
use super::pod::template;
use super::{JobKind, JobShape};
use crate::names;

/// Share of its CPU request that a replica may use on average before there are more replicas, in percent.
const CPU_PERCENT: u32 = 80;

/// Annotation, with its value, of an InferenceService without Knative, whose pods may have rules for nodes. KServe 0.15
/// knows no other value for it; 0.16 and newer also accept `Standard`.
const KSERVE_MODE: [&str; 2] = ["serving.kserve.io/deploymentMode", "RawDeployment"];

/// Returns all objects of a service, that with its replicas last.
pub(super) fn objects(job: &JobShape<'_>, service: &Service) -> Vec<Value> {
    let mut objects: Vec<Value> = sent_files(job).into_iter().collect();
    if job.kind == JobKind::InferenceService {
        objects.push(inference_service(job, service));
        return objects;
    }
    if let Some(port) = service.port {
        let spec = json!({"selector": {names::JOB: job.name}, "ports": [{"port": port}]});
        objects.push(object(job, "v1", "Service", spec));
    }
    if service.replicas.guaranteed != service.replicas.max {
        let spec = autoscaler(job, service.replicas);
        objects.push(object(job, "autoscaling/v2", "HorizontalPodAutoscaler", spec));
    }
    let spec = json!({
        "replicas": service.replicas.guaranteed,
        "selector": {"matchLabels": {names::JOB: job.name}},
        "strategy": update_strategy(),
        "template": replica(job, service),
    });
    objects.push(object(job, "apps/v1", "Deployment", spec));
    objects
}

/// Returns the template of a replica.
fn replica(job: &JobShape<'_>, service: &Service) -> Value {
    let mut template = template(job, &job.roles[0]);
    let container = &mut template["spec"]["containers"][0];
    if let Some(port) = service.port {
        container["ports"] = json!([{"containerPort": port}]);
        container["readinessProbe"] = json!({"tcpSocket": {"port": port}});
    }
    template
}

/// Returns how replicas are replaced: an update takes no GPUs beside those of the replicas.
fn update_strategy() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}})
}

fn autoscaler(job: &JobShape<'_>, replicas: Replicas) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": CPU_PERCENT});
    json!({
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": job.name},
        "minReplicas": replicas.guaranteed,
        "maxReplicas": replicas.max,
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    })
}

/// Returns the object from which KServe makes Deployment, Service and autoscaler.
fn inference_service(job: &JobShape<'_>, service: &Service) -> Value {
    let mut template = replica(job, service);
    let mut predictor = template["spec"].take();
    predictor["containers"][0]["name"] = names::KSERVE_CONTAINER.into();
    for field in ["labels", "annotations"] {
        if template["metadata"][field].is_object() {
            predictor[field] = template["metadata"][field].take();
        }
    }
    predictor["minReplicas"] = service.replicas.guaranteed.into();
    predictor["maxReplicas"] = service.replicas.max.into();
    if service.replicas.guaranteed != service.replicas.max {
        predictor["scaleMetric"] = "cpu".into();
        predictor["scaleTarget"] = CPU_PERCENT.into();
    }
    predictor["deploymentStrategy"] = update_strategy();
    let spec = json!({"predictor": predictor});
    let mut object = object(job, "serving.kserve.io/v1beta1", "InferenceService", spec);
    let [key, mode] = KSERVE_MODE;
    object["metadata"]["annotations"][key] = mode.into();
    object
}
