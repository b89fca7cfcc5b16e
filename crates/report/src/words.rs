//! Words for jobs, their parts and their GPUs: those of Muster's own jobs, or those of Kubernetes, where
//! a job is a gang of pods with a name and without a number.

use std::collections::BTreeMap;

use muster_model::{ElementId, JobId};

use crate::amount::{count, element, ranges};
use crate::style::clean;

/// Words that a text is written in.
#[derive(Clone, Copy, Debug)]
pub enum Words<'a> {
    /// Jobs by number, with tasks.
    Jobs,
    /// Gangs by namespace and name, with pods. Which GPUs a pod has is the kubelet's choice.
    Pods(&'a BTreeMap<JobId, String>),
}

impl Words<'_> {
    /// Returns a number of tasks or pods: `3 pods`.
    pub(crate) fn tasks(self, n: u32) -> String {
        count(n.into(), self.task())
    }

    /// Returns the noun for a part of a job.
    pub(crate) fn task(self) -> &'static str {
        match self {
            Words::Jobs => "task",
            Words::Pods(_) => "pod",
        }
    }

    /// Returns a job in a sentence: `job 3[7]`, `vision/train`.
    pub(crate) fn job(self, id: ElementId) -> String {
        match self {
            Words::Jobs => format!("job {}", element(id)),
            Words::Pods(_) => self.short_job(id),
        }
    }

    /// Returns a job in a table row: `3[7]`, `vision/train`.
    pub(crate) fn short_job(self, id: ElementId) -> String {
        match self {
            Words::Jobs => element(id),
            Words::Pods(names) => names
                .get(&id.job)
                .map_or("another gang".to_owned(), |name| clean(name).into_owned()),
        }
    }

    /// Returns a job whose name is known: `left (1)`, `vision/left`.
    pub(crate) fn named_job(self, name: &str, id: ElementId) -> String {
        match self {
            Words::Jobs => format!("{} ({})", clean(name), element(id)),
            Words::Pods(_) => self.short_job(id),
        }
    }

    /// Returns the GPUs of one node: `GPUs 0-2,5`, `4 GPUs`.
    pub(crate) fn gpu_list(self, devices: &[u16]) -> String {
        let indices: Vec<u32> = devices.iter().map(|index| u32::from(*index)).collect();
        match self {
            Words::Jobs if devices.len() == 1 => format!("GPU {}", ranges(&indices)),
            Words::Jobs => format!("GPUs {}", ranges(&indices)),
            Words::Pods(_) => count(devices.len() as u64, "GPU"),
        }
    }
}
