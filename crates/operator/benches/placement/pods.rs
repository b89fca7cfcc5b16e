//! The pods of a measurement, and their gang objects.

use serde_json::{Value, json};

/// Queue of the pods, for schedulers with queues: it allows all of them at once.
const QUEUE: &str = "default";

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
    /// With a PodGroup of Volcano, also for a pod by itself.
    Volcano,
    /// As a suspended Job, which Kueue resumes; its controller creates the pods then.
    Kueue,
    /// With a PodGroup of KAI, also for a pod by itself.
    Kai,
}

impl GangStyle {
    pub const ALL: [GangStyle; 6] = [
        GangStyle::None,
        GangStyle::Label,
        GangStyle::Native,
        GangStyle::Volcano,
        GangStyle::Kueue,
        GangStyle::Kai,
    ];

    /// Returns the style of this name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|style| style.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            GangStyle::None => "none",
            GangStyle::Label => "label",
            GangStyle::Native => "native",
            GangStyle::Volcano => "volcano",
            GangStyle::Kueue => "kueue",
            GangStyle::Kai => "kai",
        }
    }

    /// Returns the API group and version of its PodGroups, if it has any.
    pub fn pod_group_api(self) -> Option<&'static str> {
        match self {
            GangStyle::None | GangStyle::Label | GangStyle::Kueue => None,
            GangStyle::Native => Some("scheduling.k8s.io/v1beta1"),
            GangStyle::Volcano => Some("scheduling.volcano.sh/v1beta1"),
            GangStyle::Kai => Some("scheduling.run.ai/v2alpha2"),
        }
    }
}

impl Workload {
    /// Returns the PodGroups that the pods need.
    pub fn pod_groups(&self) -> Vec<Value> {
        let Some(api) = self.gangs.pod_group_api() else { return Vec::new() };
        let spec = match self.gangs {
            GangStyle::Native => json!({"schedulingPolicy": {"gang": {"minCount": self.size}}}),
            _ => json!({"minMember": self.size, "queue": QUEUE}),
        };
        let group = |number| {
            json!({
                "apiVersion": api,
                "kind": "PodGroup",
                "metadata": {"name": format!("gang-{number}")},
                "spec": spec,
            })
        };
        (0..self.pods / self.size).map(group).collect()
    }

    /// Returns the pods, gang after gang; none if Jobs have them.
    pub fn pods(&self) -> Vec<Value> {
        let count = if self.gangs == GangStyle::Kueue { 0 } else { self.pods };
        (0..count).map(|index| self.pod(index)).collect()
    }

    /// Returns the Jobs that the pods come from, if they do.
    pub fn jobs(&self) -> Vec<Value> {
        let count = if self.gangs == GangStyle::Kueue { self.pods / self.size } else { 0 };
        (0..count).map(|number| self.job(number)).collect()
    }

    fn job(&self, number: u32) -> Value {
        let mut spec = self.pod(number)["spec"].take();
        spec["restartPolicy"] = json!("Never");
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": format!("gang-{number}"),
                "labels": {"kueue.x-k8s.io/queue-name": QUEUE},
            },
            "spec": {
                "suspend": true,
                "parallelism": self.size,
                "completions": self.size,
                "template": {"spec": spec},
            },
        })
    }

    fn pod(&self, index: u32) -> Value {
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
        self.mark(&mut pod, &format!("gang-{}", index / self.size));
        pod
    }

    /// Makes the pod a member of its gang.
    fn mark(&self, pod: &mut Value, gang: &str) {
        let size = self.size.to_string();
        match self.gangs {
            GangStyle::None | GangStyle::Kueue => {}
            GangStyle::Label => {
                pod["metadata"]["labels"] = json!({"muster.run/gang": gang});
                pod["metadata"]["annotations"] = json!({"muster.run/gang-size": size});
            }
            GangStyle::Native => {
                pod["spec"]["schedulingGroup"] = json!({"podGroupName": gang});
            }
            GangStyle::Volcano => {
                pod["metadata"]["annotations"] = json!({"scheduling.k8s.io/group-name": gang});
            }
            GangStyle::Kai => {
                pod["metadata"]["annotations"] = json!({"pod-group-name": gang});
            }
        }
    }
}
