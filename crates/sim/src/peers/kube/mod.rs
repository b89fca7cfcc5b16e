//! Models of pod placement in Kubernetes: pod by pod, as stock, and gang scheduling, which is off by
//! default.
//!
//! * `nodes.rs`: which node a pod gets
//! * `client.rs`: rate limits of requests
//! * `controller.rs`: creation of pods; `rendezvous.rs`: pods that wait for others of their job
//! * `waiting.rs`: pending pods in order, with back-off
//! * `pod_by_pod.rs`, `gang.rs`: the two schedulers
//!
//! Sources, for each constant beside it: kubernetes/kubernetes, pkg/scheduler and
//! pkg/controller/job, release 1.37. Not modelled: preemption by priority, affinity, taints, images,
//! volumes, and the time of a cycle.

mod client;
mod controller;
mod gang;
mod nodes;
mod pod_by_pod;
mod rendezvous;
mod waiting;

pub use controller::Creation;
pub use gang::KubeGang;
pub use nodes::Scoring;
pub use pod_by_pod::KubeDefault;
