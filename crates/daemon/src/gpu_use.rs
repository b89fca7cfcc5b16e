//! Use of the GPUs that jobs hold, summed from polls of the loads. Written to the accounting of their attempts once a
//! minute, so a daemon that is killed loses at most that much; time that no poll saw counts as not measured.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::unit::{Span, Time};
use muster_model::view::{ElementView, GpuLoadView, MeasuredUse};
use muster_model::{Attempt, AttemptId, NodeName};

/// Longest time between two polls that counts as measured: three polls.
const LONGEST_GAP: Span = Span::from_secs(60);
/// Longest time for which use is kept in memory only.
const WRITE_EVERY: Span = Span::from_secs(60);

/// Sums of the use of GPUs that are not in the store yet.
#[derive(Debug, Default)]
pub(crate) struct GpuUseMeter {
    last: Option<Time>,
    /// Instant since which use is only here; `None` if all is written.
    unwritten_since: Option<Time>,
    sums: BTreeMap<AttemptId, MeasuredUse>,
    /// True if an attempt with a sum held nothing at the last poll.
    has_ended: bool,
}

impl GpuUseMeter {
    /// Takes the loads of this instant. Each counts for the time since the last poll, or since the start of the
    /// attempt where that is later. What an attempt did between the last poll and its end is not measured.
    pub(crate) fn observe(&mut self, now: Time, elements: &[ElementView], loads: &[GpuLoadView]) {
        let last = self.last.replace(now);
        let Some(last) = last.filter(|last| now.since(*last) <= LONGEST_GAP) else { return };
        let busy: BTreeMap<(&NodeName, u16), u8> = loads
            .iter()
            .filter_map(|gpu| Some(((&gpu.node, gpu.index), gpu.load?.busy_percent?)))
            .collect();
        let held: BTreeSet<AttemptId> = elements.iter().map(attempt).collect();
        self.has_ended = self.sums.keys().any(|id| !held.contains(id));
        for element in elements {
            let Some(started) = element.started else { continue };
            let millis = now.since(started.max(last)).0;
            let mut seen = MeasuredUse::default();
            for task in &element.tasks {
                let known =
                    task.devices.iter().filter_map(|device| busy.get(&(&task.node, *device)));
                for percent in known {
                    let milli_ms = u64::from(task.share.0) * millis;
                    seen.measured += milli_ms;
                    seen.busy += milli_ms * u64::from((*percent).min(100)) / 100;
                }
            }
            if seen.measured > 0 {
                let sum = self.sums.entry(attempt(element)).or_default();
                sum.measured += seen.measured;
                sum.busy += seen.busy;
                self.unwritten_since.get_or_insert(last);
            }
        }
    }

    /// Returns the sums that are to be written now: all of them once a minute, and when an attempt has ended.
    pub(crate) fn due(&self, now: Time) -> Vec<(AttemptId, MeasuredUse)> {
        let is_due = |since: Time| self.has_ended || now.since(since) >= WRITE_EVERY;
        if !self.unwritten_since.is_some_and(is_due) {
            return Vec::new();
        }
        self.sums.iter().map(|(id, sum)| (*id, *sum)).collect()
    }

    /// Forgets the sums, which are written.
    pub(crate) fn written(&mut self) {
        self.sums.clear();
        self.unwritten_since = None;
        self.has_ended = false;
    }
}

fn attempt(element: &ElementView) -> AttemptId {
    AttemptId { element: element.element, attempt: Attempt(element.attempt) }
}

#[cfg(test)]
mod tests {
    use muster_model::view::{GpuLoad, JobState, TaskStage, TaskView};
    use muster_model::{ElementId, GpuMilli, JobId, Rank};

    use super::*;

    fn secs(n: u64) -> Time {
        Time(n * 1000)
    }

    /// Returns an element whose tasks hold one device each of `n1`.
    fn element(job: u64, attempt: u32, started: u64, share: u32, devices: &[u16]) -> ElementView {
        let mut view = ElementView::blank(ElementId::single(JobId(job)), JobState::Running);
        view.attempt = attempt;
        view.started = Some(secs(started));
        let task = |(rank, device): (u32, &u16)| TaskView {
            rank: Rank(rank),
            group: "main".to_owned(),
            node: "n1".into(),
            devices: vec![*device],
            share: GpuMilli(share),
            stage: TaskStage::Running,
            ready: false,
            exit: None,
        };
        view.tasks = (0..).zip(devices).map(task).collect();
        view
    }

    fn loads(busy: &[Option<u8>]) -> Vec<GpuLoadView> {
        let load = |busy: &Option<u8>| Some(GpuLoad { busy_percent: *busy, ..GpuLoad::default() });
        let view = |(index, busy)| GpuLoadView { node: "n1".into(), index, load: load(busy) };
        (0..).zip(busy).map(view).collect()
    }

    /// Returns job, attempt, measured and busy GPU-seconds of what is due.
    fn due(meter: &GpuUseMeter, now: u64) -> Vec<(u64, u32, u64, u64)> {
        let gpu_secs = |milli_ms: u64| milli_ms / 1_000_000;
        let row = |(id, sum): (AttemptId, MeasuredUse)| {
            (id.element.job.0, id.attempt.0, gpu_secs(sum.measured), gpu_secs(sum.busy))
        };
        meter.due(secs(now)).into_iter().map(row).collect()
    }

    #[test]
    fn use_is_summed_by_share_and_written_once_a_minute() {
        let mut meter = GpuUseMeter::default();
        // The load of device 3 is unknown.
        let busy = loads(&[Some(100), Some(50), Some(40), None]);
        let elements = [
            element(1, 1, 0, 1000, &[0, 1]),
            element(2, 1, 0, 500, &[2]),
            element(3, 1, 0, 1000, &[3]),
        ];
        for now in [100, 120, 140] {
            meter.observe(secs(now), &elements, &busy);
            assert_eq!(due(&meter, now), [], "{now}");
        }
        meter.observe(secs(160), &elements, &busy);
        assert_eq!(due(&meter, 160), [(1, 1, 120, 90), (2, 1, 30, 12)]);
        meter.written();
        assert_eq!(due(&meter, 300), []);
    }

    #[test]
    fn only_time_between_near_polls_of_one_attempt_is_measured() {
        let mut meter = GpuUseMeter::default();
        let busy = loads(&[Some(10)]);
        meter.observe(secs(100), &[element(1, 1, 0, 1000, &[0])], &busy);
        // No poll for more than a minute.
        meter.observe(secs(161), &[element(1, 1, 0, 1000, &[0])], &busy);
        // It started again 5 s ago; what the earlier attempt did is not known.
        meter.observe(secs(181), &[element(1, 2, 176, 1000, &[0])], &busy);
        meter.observe(secs(201), &[element(1, 2, 176, 1000, &[0])], &busy);
        assert_eq!(due(&meter, 201), []);
        // An attempt that has ended is written at once.
        meter.observe(secs(221), &[], &busy);
        assert_eq!(due(&meter, 221), [(1, 2, 25, 2)]);
    }
}
