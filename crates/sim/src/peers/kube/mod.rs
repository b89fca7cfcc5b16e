//! Models of how Kubernetes places pods: pod by pod, as it does by itself, and gangs whole, as it
//! can since 1.36.
//!
//! * `nodes.rs`: which node a pod gets
//! * `client.rs`: how many pods a second the scheduler may bind
//! * `waiting.rs`: pods that wait, in their order, with their back-off
//! * `pod_by_pod.rs`, `gang.rs`: the two schedulers
//!
//! Sources, for each constant beside it: kubernetes/kubernetes, pkg/scheduler and
//! pkg/controller/job, release 1.36. What is not modelled: preemption by priority (traces have
//! none), affinity, taints, images, volumes, and the time that a cycle takes.

mod client;
mod gang;
mod nodes;
mod pod_by_pod;
mod waiting;

pub use gang::KubeGang;
pub use pod_by_pod::{Creation, KubeDefault};
