//! The pods of a measurement, and their gang objects.

use serde_json::{Value, json};

/// Pods that are placed in one measurement, of one GPU each.
pub struct Workload {
    pub pods: u32,
    /// Pods in each gang; 1 for none.
    pub size: u32,
    pub gangs: GangStyle,
    /// Name in `schedulerName` of the pods.
    pub scheduler: String,
}

/// Way in which pods say that they are a gang.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum GangStyle {
    /// No gangs: each pod is placed by itself.
    None,
    /// With Muster's label and annotation.
    Label,
    /// With a PodGroup of Kubernetes itself.
    Native,
}

impl GangStyle {
    pub fn name(self) -> &'static str {
        match self {
            GangStyle::None => "none",
            GangStyle::Label => "label",
            GangStyle::Native => "native",
        }
    }
}

impl Workload {
    /// Returns the PodGroups that the pods need.
    pub fn pod_groups(&self) -> Vec<Value> {
        if self.gangs != GangStyle::Native {
            return Vec::new();
        }
        let group = |number| {
            json!({
                "apiVersion": "scheduling.k8s.io/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": format!("gang-{number}")},
                "spec": {"schedulingPolicy": {"gang": {"minCount": self.size}}},
            })
        };
        (0..self.pods / self.size).map(group).collect()
    }

    /// Returns the pods, gang after gang.
    pub fn pods(&self) -> Vec<Value> {
        (0..self.pods).map(|index| self.pod(index)).collect()
    }

    fn pod(&self, index: u32) -> Value {
        let gang = format!("gang-{}", index / self.size);
        let mut pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": format!("pod-{index}")},
            "spec": {
                "schedulerName": self.scheduler,
                "terminationGracePeriodSeconds": 0,
                "automountServiceAccountToken": false,
                "containers": [{
                    "name": "main",
                    "image": "none",
                    "resources": {"limits": {"nvidia.com/gpu": 1, "cpu": 1, "memory": "1Gi"}},
                }],
            },
        });
        match self.gangs {
            GangStyle::None => {}
            GangStyle::Label => {
                pod["metadata"]["labels"] = json!({"muster.run/gang": gang});
                pod["metadata"]["annotations"] =
                    json!({"muster.run/gang-size": self.size.to_string()});
            }
            GangStyle::Native => {
                pod["spec"]["schedulingGroup"] = json!({"podGroupName": gang});
            }
        }
        pod
    }
}
