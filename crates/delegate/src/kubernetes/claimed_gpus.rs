//! Clusters whose GPUs are claimed (dynamic resource allocation) and not counted: jobs ask for a counted resource, and
//! would wait there for ever.

use muster_kubernetes::device::{CLASSES, GROUP, SLICES};
use muster_kubernetes::render::NVIDIA;
use muster_spec::CheckedJob;
use serde_json::Value;

use super::server::ApiServer;
use super::{RequestError, Result};

/// GPU resources, each with the driver that has the same GPUs claimed.
const DRIVERS: [(&str, &str); 2] = [(NVIDIA, "gpu.nvidia.com"), ("amd.com/gpu", "gpu.amd.com")];

/// Refuses a job that asks for a GPU resource of which no node has any, while a driver offers the same GPUs as
/// devices. A user who may not look is not refused.
pub(super) async fn check(server: &ApiServer, checked: &CheckedJob) -> Result<()> {
    let resource = checked.kubernetes.gpu_resource.as_deref().unwrap_or(NVIDIA);
    let asks = checked.spec.groups.iter().any(|group| !group.task.gpu.is_none());
    let driver = DRIVERS.iter().find(|(counted, _)| *counted == resource).map(|(_, driver)| driver);
    let (Some(driver), Some(root)) = (driver.filter(|_| asks), server.root(GROUP, SLICES)) else {
        return Ok(());
    };
    let slices = format!("{root}/{SLICES}?limit=1&fieldSelector=spec.driver%3D{driver}");
    if items(server, slices).await?.is_empty() {
        return Ok(());
    }
    let nodes = items(server, "/api/v1/nodes".to_owned());
    let classes = items(server, format!("{root}/{CLASSES}"));
    let (nodes, classes) = tokio::try_join!(nodes, classes)?;
    // Without the right to list them, nothing is known of them.
    if nodes.is_empty() || is_counted(resource, &nodes, &classes) {
        return Ok(());
    }
    let name = &checked.spec.name;
    Err(RequestError::refused(format!(
        "`{name}` asks for {resource}, which no node of this cluster has: its GPUs are claimed as devices of {driver}"
    ))
    .hint(format!("an administrator can name the resource in a DeviceClass (`extendedResourceName: {resource}`, Kubernetes 1.34 and newer), or install the device plugin"))
    .hint("`muster export kubernetes` writes the objects to a file, in which the pods can name a claim"))
}

/// Returns what a list has; nothing where it is forbidden.
async fn items(server: &ApiServer, path: String) -> Result<Vec<Value>> {
    match server.list(path).await {
        Ok(listed) => Ok(listed.items),
        Err(error) if error.is_forbidden() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Returns true if pods can ask for a resource: a node has it, or a class of devices stands for it.
fn is_counted(resource: &str, nodes: &[Value], classes: &[Value]) -> bool {
    let has_it = |node: &Value| {
        let amount = node["status"]["allocatable"][resource].as_str();
        amount.is_some_and(|amount| amount != "0")
    };
    nodes.iter().any(has_it)
        || classes.iter().any(|class| class["spec"]["extendedResourceName"] == resource)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resource_is_counted_by_a_node_or_a_class_of_devices() {
        let node = |amount: Value| json!({"status": {"allocatable": {NVIDIA: amount}}});
        let class = |resource: &str| json!({"spec": {"extendedResourceName": resource}});
        let is_counted = |node: Value, class: Value| is_counted(NVIDIA, &[node], &[class]);
        assert!(is_counted(node(json!("8")), json!({})));
        assert!(is_counted(node(json!("0")), class(NVIDIA)));
        assert!(!is_counted(node(json!("0")), class("amd.com/gpu")));
        assert!(!is_counted(node(Value::Null), json!({})));
    }
}
