//! A service as a Deployment: replicas that are independent of each other, one address for all, and for
//! a range of replicas an autoscaler.

use serde_json::{Value, json};

use muster_model::{Replicas, Service};

use super::JobShape;
use super::objects::{object, sent_files};
use super::pod::template;
use crate::names;

/// Share of its CPU request that a replica may use on average before there are more replicas, in percent.
const CPU_PERCENT: u32 = 80;

/// Returns all objects of a service, the Deployment last.
pub(super) fn objects(job: &JobShape<'_>, service: &Service) -> Vec<Value> {
    let mut objects: Vec<Value> = sent_files(job).into_iter().collect();
    if let Some(port) = service.port {
        let spec = json!({"selector": {names::JOB: job.name}, "ports": [{"port": port}]});
        objects.push(object(job, "v1", "Service", spec));
    }
    if service.replicas.guaranteed != service.replicas.max {
        let spec = autoscaler(job, service.replicas);
        objects.push(object(job, "autoscaling/v2", "HorizontalPodAutoscaler", spec));
    }
    let mut template = template(job, &job.roles[0]);
    let container = &mut template["spec"]["containers"][0];
    if let Some(port) = service.port {
        container["ports"] = json!([{"containerPort": port}]);
        container["readinessProbe"] = json!({"tcpSocket": {"port": port}});
    }
    let spec = json!({
        "replicas": service.replicas.guaranteed,
        "selector": {"matchLabels": {names::JOB: job.name}},
        // An update takes no GPUs beside those of the replicas.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "template": template,
    });
    objects.push(object(job, "apps/v1", "Deployment", spec));
    objects
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
