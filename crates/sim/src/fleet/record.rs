//! What is counted while a fleet runs: sums over time, a curve that never grows beyond so many
//! points, and, where asked for, who held what from when to when. Whole numbers only: GPUs in
//! thousandths, time in milliseconds.

use muster_model::{DeviceSet, NodeId, Span, Time};

use super::load::JobNo;

/// Somebody held devices of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Who.
    pub job: JobNo,
    /// Where.
    pub node: NodeId,
    /// Which of its devices.
    pub devices: DeviceSet,
    /// From when.
    pub from: Time,
    /// Until when.
    pub to: Time,
    /// The job ran meanwhile; else it held them and waited for the rest of what it needs.
    pub runs: bool,
}

/// Something that happened, for whoever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A job arrived.
    Arrived(JobNo),
    /// A task of it holds devices of a node.
    Placed(JobNo, u32, NodeId, DeviceSet),
    /// All of its tasks hold what they need: it runs.
    Began(JobNo),
    /// It has done its work.
    Ended(JobNo),
    /// It no longer runs, and so much of its work is lost.
    Stopped(JobNo, Span),
    /// A task of it no longer holds anything.
    Removed(JobNo, u32, NodeId),
    /// A node is gone.
    NodeDown(NodeId),
    /// It is back.
    NodeUp(NodeId),
    /// A device of a node is out of order.
    DeviceBroken(NodeId, usize),
    /// It is mended.
    DeviceMended(NodeId, usize),
}

/// Sums over a stretch of time, in thousandths of GPUs × milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Held by jobs that ran, as much as they asked for.
    pub running: u128,
    /// Held or kept, however.
    pub held: u128,
    /// Out of order.
    pub down: u128,
    /// Idle, and of use to jobs that waited: see `waiting.rs`.
    pub stranded: u128,
    /// Jobs that waited × milliseconds.
    pub waiting: u128,
    /// The stretch itself, in milliseconds.
    pub millis: u128,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.running += other.running;
        self.held += other.held;
        self.down += other.down;
        self.stranded += other.stranded;
        self.waiting += other.waiting;
        self.millis += other.millis;
    }
}

/// How things stand between two instants.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Levels {
    pub(super) running: u64,
    pub(super) held: u64,
    /// Kept from others, and held by no task.
    pub(super) kept: u64,
    pub(super) down: u64,
    /// Of what was idle, as much as waiting jobs could use.
    pub(super) stranded: u64,
    pub(super) waiting: u64,
}

/// Most points of a curve. Where there would be more, two become one.
const MOST_POINTS: usize = 512;

/// Everything counted.
#[derive(Clone, Debug)]
pub struct Record {
    /// When the first job arrived.
    pub first: Option<Time>,
    /// Over all time since.
    pub total: Sums,
    /// The same by stretches of equal length from `first` on, the last of them unfinished.
    pub curve: Vec<Sums>,
    /// How long each is.
    pub width: Span,
    /// Work that was done and lost, and time to restart, in thousandths of GPUs × milliseconds.
    pub lost: u128,
    /// How often a job that ran was made to go for another.
    pub evictions: u64,
    /// How often a job that ran lost a node or a device.
    pub breakdowns: u64,
    /// Who held what; `None` where nobody asked.
    pub bars: Option<Vec<Bar>>,
    /// What happened since it was last taken; `None` where nobody follows.
    pub happenings: Option<Vec<(Time, Happening)>>,
}

impl Record {
    pub(super) fn new() -> Self {
        Self {
            first: None,
            total: Sums::default(),
            curve: Vec::new(),
            width: Span(1000),
            lost: 0,
            evictions: 0,
            breakdowns: 0,
            bars: None,
            happenings: None,
        }
    }

    /// Time passes while things stand like this.
    pub(super) fn pass(&mut self, from: Time, to: Time, levels: &Levels) {
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
                self.curve.resize(bucket + 1, Sums::default());
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

    pub(super) fn tell(&mut self, now: Time, what: Happening) {
        if let Some(happenings) = &mut self.happenings {
            happenings.push((now, what));
        }
    }
}

fn sums(span: Span, levels: &Levels) -> Sums {
    let millis = u128::from(span.0);
    Sums {
        running: u128::from(levels.running) * millis,
        held: u128::from(levels.held + levels.kept) * millis,
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
        let mut record = Record::new();
        record.first = Some(Time(5_000));
        let levels = Levels { running: 3, held: 3, kept: 1, down: 1, stranded: 5, waiting: 2 };
        for step in 0..700 {
            let from = Time(5_000 + step * 1_700);
            record.pass(from, from + Span(1_700), &levels);
        }
        let millis = 700 * 1_700;
        assert!(record.curve.len() <= MOST_POINTS && record.curve.len() > MOST_POINTS / 2);
        assert_eq!(record.width, Span(4_000));
        let mut sum = Sums::default();
        record.curve.iter().for_each(|part| sum.add(part));
        assert_eq!(sum, record.total);
        assert_eq!((sum.running, sum.stranded, sum.waiting), (3 * millis, 5 * millis, 2 * millis));
        assert!(record.curve[..200].iter().all(|part| part.millis == 4_000));
    }
}
