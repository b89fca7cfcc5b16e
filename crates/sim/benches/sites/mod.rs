//! Clusters and a generated mix that several benches replay.

/// Cluster of a lab: 128 GPUs.
pub const LAB_CLUSTER: &str =
    "nodes:\n- {name: 'n[1-16]', cpus: 128, memory: 2TiB, gpus: 8, gpu: h100}\n";

/// Cluster for the trace of Philly: 640 GPUs.
pub const PHILLY_CLUSTER: &str =
    "nodes:\n- {name: 'n[1-80]', cpus: 64, memory: 512GiB, gpus: 8, gpu: p100}\n";

/// Mix of docs/simulate.md, longer. Run times do not depend on the user.
pub const LAB: &str = "\
length: 14d
every: 150s
users: 30
classes:
- {name: small, weight: 85, gpus: 1, runtime: {median: 30m, p95: 8h, max: 1d}, overestimate: 4}
- {name: node, weight: 10, gpus: 8, runtime: {median: 1h, p95: 8h, max: 1d}, overestimate: 4}
- {name: gang, weight: 5, gpus: 8, tasks: [2, 4], runtime: {median: 1h, p95: 6h, max: 12h}, overestimate: 4}
";
