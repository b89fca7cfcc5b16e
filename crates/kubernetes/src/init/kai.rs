//! Files for KAI: a Queue per queue of the tree, with its GPUs, and the topology.

use serde_json::{Value, json};

use muster_model::Protection;

use super::shares::{PlannedQueue, Shares};
use super::{NODE_LABELS, QUEUES, QueueFilesInput, TOPOLOGY, file, labels, object};

pub(super) fn files(
    input: &QueueFilesInput<'_>,
    shares: &Shares<'_>,
) -> Vec<(&'static str, String)> {
    let mut files = Vec::new();
    files.extend(labels::script(input, &[]).map(|script| (NODE_LABELS, script)));
    let queues: Vec<Value> = shares.queues.iter().map(|one| queue(shares, one)).collect();
    files.push((QUEUES, file(QUEUES_COMMENT, &queues)));
    if !input.levels.is_empty() {
        let levels = labels::topology(input);
        let topology = object("kai.scheduler/v1alpha1", "Topology", "muster", &levels);
        files.push((TOPOLOGY, file(TOPOLOGY_COMMENT, &[topology])));
    }
    files
}

const QUEUES_COMMENT: &str = "\
The queues of KAI 0.12; -1 is no limit. CPUs and memory are not divided.
  kubectl apply -f queues.yaml";

const TOPOLOGY_COMMENT: &str = "\
The topology. Workloads ask for it with the annotations kai.scheduler/topology: muster and
kai.scheduler/topology-required-placement (or -preferred-placement) with one of the labels.
Label the nodes before (node-labels.sh), then: kubectl apply -f topology.yaml";

fn queue(shares: &Shares<'_>, queue: &PlannedQueue<'_>) -> Value {
    let owned = shares.owned_in_all(queue.spec).gpus;
    let weight = queue.spec.weight;
    let limit = queue.most_gpus(owned).map_or(json!(-1), |most| json!(most));
    let undivided = json!({"quota": -1, "limit": -1, "overQuotaWeight": weight});
    let mut spec = json!({
        "displayName": queue.path,
        "resources": {
            "gpu": {"quota": owned, "limit": limit, "overQuotaWeight": weight},
            "cpu": undivided,
            "memory": undivided,
        },
    });
    if let Some(parent) = &queue.parent {
        spec["parentQueue"] = json!(crate::queue::object_name(parent));
    }
    if let Some(Protection::For(span)) = queue.spec.protect {
        let span = json!(format!("{}s", span.0.div_ceil(1000)));
        spec["preemptMinRuntime"] = span.clone();
        spec["reclaimMinRuntime"] = span;
    }
    object("scheduling.run.ai/v2", "Queue", &queue.name(), &spec)
}
