//! Values common to several formats: instants, seconds, counts, states.

use muster_model::job::{GpuRequest, Resources};
use muster_model::{Bytes, CpuMilli, Span, Time};

use super::JobEnd;
use crate::quantity::{decimal, parse_instant};

/// Returns the text; `None` if it is one of the words for a missing value.
pub(super) fn given(text: &str) -> Option<&str> {
    let is_trimmed = |end: Option<&u8>| end.is_none_or(u8::is_ascii_graphic);
    let first = text.as_bytes().first();
    let last = text.as_bytes().last();
    let text = if is_trimmed(first) && is_trimmed(last) { text } else { text.trim() };
    (!matches!(text, "" | "None" | "Unknown" | "NaN" | "nan" | "null" | "N/A")).then_some(text)
}

/// Parses seconds since the trace's own zero or the epoch, or a date; a date without a zone is
/// taken as UTC.
pub(super) fn instant(text: &str) -> Option<Time> {
    if let Some(span) = seconds(text) {
        return Some(Time(0) + span);
    }
    parse_instant(text).or_else(|_| parse_instant(&format!("{text}Z"))).ok()
}

/// Parses seconds with an optional fraction, to the millisecond.
pub(super) fn seconds(text: &str) -> Option<Span> {
    // With this few digits, the result equals that of floating point.
    if let Some((number, places @ 0..=3)) =
        decimal(text).filter(|(number, _)| *number < 1_000_000_000_000)
    {
        return Some(Span(number as u64 * 10u64.pow(3 - places)));
    }
    if let Ok(secs) = text.parse::<u64>() {
        return secs.checked_mul(1000).map(Span);
    }
    let secs: f64 = text.parse().ok()?;
    let millis = (secs * 1000.0).round();
    (0.0..1e18).contains(&millis).then_some(Span(millis as u64))
}

/// Returns a number as text, written to `digits`, without an allocation.
pub(super) fn decimal_text(number: u64, digits: &mut [u8; 20]) -> &str {
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return std::str::from_utf8(&digits[at..]).expect("digits are text");
        }
    }
}

/// Most GPUs, CPUs or nodes of a job; more are taken for a mistake. Sums of thousandths still fit.
pub(super) const MAX_COUNT: u32 = 1_000_000;

/// Parses a whole number, which some tools write as `8.0`.
pub(super) fn count(text: &str) -> Option<u32> {
    let count = text.strip_suffix(".0").unwrap_or(text).parse().ok()?;
    (count <= MAX_COUNT).then_some(count)
}

/// Resources of a whole job, as most traces record them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct JobResources {
    /// Number of nodes; `None` if it is unknown.
    pub(super) nodes: Option<u32>,
    /// Total number of GPUs.
    pub(super) gpus: u32,
    /// Total number of CPUs.
    pub(super) cpus: u32,
    /// Total amount of memory.
    pub(super) memory: Bytes,
}

impl JobResources {
    /// Splits the resources into equal tasks: one per node if the GPUs divide evenly, else one per
    /// GPU; without GPUs and nodes, one.
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

/// Parses an end state of Slurm, Philly, Kubernetes or Muster. A job that ran out of time or memory
/// or lost its node failed; a preempted job is cancelled, not failed.
pub(super) fn ended(state: &str) -> JobEnd {
    let word = state.split_whitespace().next().unwrap_or_default().to_ascii_uppercase();
    match word.as_str() {
        "COMPLETED" | "PASS" | "SUCCEEDED" => JobEnd::Completed,
        "CANCELLED" | "KILLED" | "REVOKED" | "PREEMPTED" => JobEnd::Cancelled,
        "FAILED" | "TIMEOUT" | "NODE_FAIL" | "OUT_OF_MEMORY" | "BOOT_FAIL" | "DEADLINE"
        | "LAUNCH_FAILED" => JobEnd::Failed,
        _ => JobEnd::Unknown,
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
    fn seconds_are_cut_to_no_other_millisecond_than_floating_point_has() {
        let check = |text: &str| {
            let secs: f64 = text.parse().unwrap();
            assert_eq!(seconds(text), Some(Span((secs * 1000.0).round() as u64)), "{text}");
        };
        for whole in [0, 1, 95_902, 1_700_000_000, 99_999_999_999u64] {
            check(&format!("{whole}"));
            (0..10).for_each(|digit| check(&format!("{whole}.{digit}")));
            (0..1000).for_each(|millis| check(&format!("{whole}.{millis:03}")));
        }
        for text in
            ["0.0004", "0.0005", "1.9996", "7.", ".5", "+2", "+2.5", "1e3", "999999999999.999"]
        {
            check(text);
        }
        for (text, expected) in [
            ("18446744073709551", Some(18_446_744_073_709_551_000)),
            ("18446744073709552", None),
            ("99999999999999999999", None),
            ("1.2.3", None),
            ("2h", None),
            ("1 ", None),
            ("", None),
        ] {
            assert_eq!(seconds(text), expected.map(Span), "{text}");
        }
    }

    #[test]
    fn numbers_are_written_as_everywhere() {
        for number in [0, 9, 10, 1_234_567_890, u64::MAX] {
            assert_eq!(decimal_text(number, &mut [0; _]), number.to_string());
        }
    }

    #[test]
    fn what_is_not_there_is_said_in_many_words() {
        for text in ["", "  ", "None", " NaN\t", "N/A", "\u{a0}null\u{a0}"] {
            assert_eq!(given(text), None, "{text:?}");
        }
        for (text, expected) in [("none", "none"), (" a b ", "a b"), ("\u{a0}é", "é"), ("0", "0")]
        {
            assert_eq!(given(text), Some(expected));
        }
    }

    #[test]
    fn what_a_job_holds_is_split_evenly_or_by_gpu() {
        let check = |nodes, gpus, cpus, expected| {
            let (tasks, task) = JobResources { nodes, gpus, cpus, memory: Bytes(1000) }.tasks();
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
