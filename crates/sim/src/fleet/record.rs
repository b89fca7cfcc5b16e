//! Counts during a fleet run: sums over time, a curve of bounded length, and on request who held
//! which devices when. Whole numbers only: GPUs in thousandths, time in milliseconds.

use muster_model::{DeviceSet, NodeId, Span, Time};

use super::load::JobNo;

/// A period in which a job held devices of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocationBar {
    /// The job that held them.
    pub job: JobNo,
    /// Node of the devices.
    pub node: NodeId,
    /// Devices of the node.
    pub devices: DeviceSet,
    /// Begin of the period.
    pub from: Time,
    /// End of the period.
    pub to: Time,
    /// True if the job ran meanwhile; else it held them and waited for the rest of its resources.
    pub runs: bool,
}

/// An event in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClusterEvent {
    /// A job arrived in its queue.
    Arrived(JobNo),
    /// A task of a job, by rank, holds devices of a node.
    Placed(JobNo, u32, NodeId, DeviceSet),
    /// All tasks of a job hold what they need: it runs.
    Began(JobNo),
    /// A job has done its work.
    Ended(JobNo),
    /// A job stopped and lost this much work.
    Stopped(JobNo, Span),
    /// A task no longer holds anything.
    Removed(JobNo, u32, NodeId),
    /// A node failed with its tasks.
    NodeDown(NodeId),
    /// A node was repaired.
    NodeUp(NodeId),
    /// A device of a node failed.
    DeviceBroken(NodeId, usize),
    /// A device of a node was repaired.
    DeviceMended(NodeId, usize),
}

/// Sums over a period, in thousandths of GPUs × milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageSums {
    /// Held by running jobs, as much as they asked for.
    pub running: u128,
    /// Held by tasks, or withheld.
    pub held: u128,
    /// Out of service after failures.
    pub down: u128,
    /// Idle although pending jobs could use it: see `waiting.rs`.
    pub stranded: u128,
    /// Pending jobs × milliseconds.
    pub waiting: u128,
    /// Length of the period in milliseconds.
    pub millis: u128,
}

impl UsageSums {
    fn add(&mut self, other: &UsageSums) {
        self.running += other.running;
        self.held += other.held;
        self.down += other.down;
        self.stranded += other.stranded;
        self.waiting += other.waiting;
        self.millis += other.millis;
    }
}

/// Amounts between two instants.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageLevels {
    pub(super) running: u64,
    pub(super) held: u64,
    /// Withheld, and held by no task.
    pub(super) withheld: u64,
    pub(super) down: u64,
    /// Idle, and usable by pending jobs.
    pub(super) stranded: u64,
    pub(super) waiting: u64,
}

/// Most points of a curve; beyond that, pairs of points are merged.
const MOST_POINTS: usize = 512;

/// All counts of a run.
#[derive(Clone, Debug)]
pub struct FleetRecord {
    /// Time of the first arrival.
    pub first: Option<Time>,
    /// Sums over all time since then.
    pub total: UsageSums,
    /// Sums over periods of equal length from `first` on; the last is unfinished.
    pub curve: Vec<UsageSums>,
    /// Length of these periods.
    pub width: Span,
    /// Lost work and restart time, in thousandths of GPUs × milliseconds.
    pub lost: u128,
    /// Evictions of running jobs.
    pub evictions: u64,
    /// Running jobs that lost a node or a device.
    pub breakdowns: u64,
    /// Periods in which devices were held; `None` unless recorded.
    pub bars: Option<Vec<AllocationBar>>,
    /// Events since they were last taken; `None` unless recorded.
    pub events: Option<Vec<(Time, ClusterEvent)>>,
}

impl FleetRecord {
    pub(super) fn new() -> Self {
        Self {
            first: None,
            total: UsageSums::default(),
            curve: Vec::new(),
            width: Span(1000),
            lost: 0,
            evictions: 0,
            breakdowns: 0,
            bars: None,
            events: None,
        }
    }

    /// Adds a period in which the amounts did not change.
    pub(super) fn pass(&mut self, from: Time, to: Time, levels: &UsageLevels) {
        let Some(first) = self.first else { return };
        let mut at = from;
        while at < to {
            let bucket = (at.since(first).0 / self.width.0) as usize;
            if bucket >= MOST_POINTS {
                self.halve();
                continue;
            }
            let end = (first + Span(self.width.0 * (bucket as u64 + 1))).min(to);
            let part = sums(end.since(at), levels);
            if self.curve.len() <= bucket {
                self.curve.resize(bucket + 1, UsageSums::default());
            }
            self.curve[bucket].add(&part);
            self.total.add(&part);
            at = end;
        }
    }

    fn halve(&mut self) {
        self.width = Span(self.width.0 * 2);
        let pairs = self.curve.chunks(2).map(|pair| {
            let mut sum = pair[0];
            pair.get(1).inspect(|other| sum.add(other));
            sum
        });
        self.curve = pairs.collect();
    }

    pub(super) fn record_event(&mut self, now: Time, what: ClusterEvent) {
        if let Some(happenings) = &mut self.events {
            happenings.push((now, what));
        }
    }
}

fn sums(span: Span, levels: &UsageLevels) -> UsageSums {
    let millis = u128::from(span.0);
    UsageSums {
        running: u128::from(levels.running) * millis,
        held: u128::from(levels.held + levels.withheld) * millis,
        down: u128::from(levels.down) * millis,
        stranded: u128::from(levels.stranded) * millis,
        waiting: u128::from(levels.waiting) * millis,
        millis,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_halves_and_keeps_its_sum() {
        let mut record = FleetRecord::new();
        record.first = Some(Time(5_000));
        let levels =
            UsageLevels { running: 3, held: 3, withheld: 1, down: 1, stranded: 5, waiting: 2 };
        for step in 0..700 {
            let from = Time(5_000 + step * 1_700);
            record.pass(from, from + Span(1_700), &levels);
        }
        let millis = 700 * 1_700;
        assert!(record.curve.len() <= MOST_POINTS && record.curve.len() > MOST_POINTS / 2);
        assert_eq!(record.width, Span(4_000));
        let mut sum = UsageSums::default();
        record.curve.iter().for_each(|part| sum.add(part));
        assert_eq!(sum, record.total);
        assert_eq!((sum.running, sum.stranded, sum.waiting), (3 * millis, 5 * millis, 2 * millis));
        assert!(record.curve[..200].iter().all(|part| part.millis == 4_000));
    }
}
