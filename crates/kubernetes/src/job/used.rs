//! GPU time of a job, from its pods.

use muster_model::Time;
use serde_json::Value;

use super::view::queue_of;
use super::{JobObject, present_roles, tasks};

/// GPU time of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsedGpuTime {
    /// Queue of the job.
    pub queue: String,
    /// Number of its elements that have started.
    pub elements: u32,
    /// GPU-seconds of its tasks until their end, or the present time.
    pub gpu_secs: u64,
}

/// Sums the GPU time of a job's tasks: of the newest pod of each, for earlier ones are not kept.
#[must_use]
pub fn used(job: JobObject<'_>, pods: &[&Value], now: Time) -> UsedGpuTime {
    let roles = present_roles(job, pods);
    let tasks = tasks(job, &roles, pods);
    let mut milli_secs = 0;
    let mut started = 0;
    for task in &tasks {
        let Some(from) = task.started() else { continue };
        started += 1;
        let of_role = roles.iter().find(|role| role.name == task.role);
        let gpus = of_role.map_or(0, |role| u64::from(role.gpus.0));
        milli_secs += task.ended().unwrap_or(now).since(from).as_secs() * gpus;
    }
    let elements = if job.has_elements() { started } else { started.min(1) };
    UsedGpuTime { queue: queue_of(job), elements, gpu_secs: milli_secs / 1000 }
}
