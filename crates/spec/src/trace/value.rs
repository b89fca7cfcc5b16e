//! Values that several formats write alike: instants, seconds, counts, states. Knows no format.

use muster_model::job::{GpuRequest, Resources};
use muster_model::{Bytes, CpuMilli, Span, Time};

use super::Ended;
use crate::quantity::parse_instant;

/// What stands for a value that is not there.
const MISSING: [&str; 7] = ["", "None", "Unknown", "NaN", "nan", "null", "N/A"];

/// The text, unless it says that there is none.
pub(super) fn given(text: &str) -> Option<&str> {
    let text = text.trim();
    (!MISSING.contains(&text)).then_some(text)
}

/// Seconds since the trace's own zero or the epoch, or a date; one without a zone is taken for UTC.
pub(super) fn instant(text: &str) -> Option<Time> {
    if let Some(span) = seconds(text) {
        return Some(Time(0) + span);
    }
    parse_instant(text).or_else(|_| parse_instant(&format!("{text}Z"))).ok()
}

/// Seconds with an optional fraction, to the millisecond.
pub(super) fn seconds(text: &str) -> Option<Span> {
    if let Ok(secs) = text.parse::<u64>() {
        return secs.checked_mul(1000).map(Span);
    }
    let secs: f64 = text.parse().ok()?;
    let millis = (secs * 1000.0).round();
    (0.0..1e18).contains(&millis).then_some(Span(millis as u64))
}

/// More GPUs, CPUs or nodes than this are taken for a mistake; sums of thousandths of so many still fit.
pub(super) const MAX_COUNT: u32 = 1_000_000;

/// A whole number, which some tools write as `8.0`.
pub(super) fn count(text: &str) -> Option<u32> {
    let count = text.strip_suffix(".0").unwrap_or(text).parse().ok()?;
    (count <= MAX_COUNT).then_some(count)
}

/// What a whole job holds, as most traces have it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Held {
    /// Nodes, where the trace says.
    pub(super) nodes: Option<u32>,
    /// GPUs in all.
    pub(super) gpus: u32,
    /// CPUs in all.
    pub(super) cpus: u32,
    /// Memory in all.
    pub(super) memory: Bytes,
}

impl Held {
    /// As equal tasks: one per node where the nodes share the GPUs evenly, else one per GPU; without GPUs and nodes, one.
    pub(super) fn tasks(self) -> (u32, Resources) {
        let nodes = self.nodes.filter(|nodes| *nodes > 0);
        let tasks = match nodes {
            Some(nodes) if self.gpus.is_multiple_of(nodes) => nodes,
            None if self.gpus == 0 => 1,
            _ => self.gpus.max(1),
        };
        let cpus_milli = u64::from(self.cpus) * 1000 / u64::from(tasks);
        let task = Resources {
            gpu: GpuRequest::whole(self.gpus / tasks),
            cpus: CpuMilli(u32::try_from(cpus_milli).unwrap_or(u32::MAX)),
            memory: Bytes(self.memory.0 / u64::from(tasks)),
            ..Resources::default()
        };
        (tasks, task)
    }
}

/// How a job ended, in the words of Slurm, Philly, Kubernetes and this project. A job that is out of time, memory or its node
/// failed; one that gave way to another did not fail, but somebody ended it.
pub(super) fn ended(state: &str) -> Ended {
    let word = state.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "COMPLETED" | "PASS" | "SUCCEEDED" => Ended::Completed,
        "CANCELLED" | "KILLED" | "REVOKED" | "PREEMPTED" => Ended::Cancelled,
        "FAILED" | "TIMEOUT" | "NODE_FAIL" | "OUT_OF_MEMORY" | "BOOT_FAIL" | "DEADLINE" | "LAUNCH_FAILED" => {
            Ended::Failed
        }
        _ => Ended::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_seconds_or_dates_in_utc() {
        for (text, millis) in [
            ("0", Some(0)),
            ("12.5", Some(12_500)),
            ("1970-01-02 00:00:01", Some(86_401_000)),
            ("1970-01-02T00:00:01", Some(86_401_000)),
            ("2023-03-01 00:18:22+08:00", Some(1_677_601_102_000)),
            ("2017-10-09T07:01:55Z", Some(1_507_532_515_000)),
            ("-1", None),
            ("tomorrow", None),
            ("inf", None),
        ] {
            assert_eq!(instant(text), millis.map(Time), "{text}");
        }
    }

    #[test]
    fn what_a_job_holds_is_split_evenly_or_by_gpu() {
        let check = |nodes, gpus, cpus, expected| {
            let (tasks, task) = Held { nodes, gpus, cpus, memory: Bytes(1000) }.tasks();
            assert_eq!((tasks, task.gpu.devices, task.cpus.0), expected);
            assert_eq!(task.memory.0, 1000 / u64::from(tasks));
        };
        check(Some(2), 16, 64, (2, 8, 32_000));
        check(Some(2), 9, 9, (9, 1, 1000));
        check(None, 4, 0, (4, 1, 0));
        check(None, 0, 3, (1, 0, 3000));
        check(Some(0), 0, 3, (1, 0, 3000));
    }
}
