//! What is measured: each row builds a world, and hands the one thing that counts to the meter,
//! again and again. Goals are those of docs/PERFORMANCE.md. How often, with which clock and at
//! which sizes is the business of who runs them.

mod gangs;
mod memory;
mod passes;
pub mod print;
mod reclaim;
mod starts;

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::mix::Scale;

/// One line of the table.
pub struct Row {
    /// For `--only`.
    pub name: &'static str,
    pub what: &'static str,
    pub goal: Option<Goal>,
    pub unit: Unit,
    /// Other sizes double one of its numbers; what is 0 stays 0.
    pub scale: Scale,
    pub run: fn(Scale, &mut Meter),
}

/// What must be reached.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// What the number of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Median, in seconds.
    Seconds,
    /// The time that 99 of 100 stay under, in seconds.
    Worst,
    /// So many of what is measured are in one sample.
    PerSecond(u32),
    Bytes,
}

/// 5,000 nodes, 20 queues, half full with 4,000 jobs.
const USUAL: Scale = Scale { nodes: 5_000, running: 4_000, pending: 0, queues: 20 };

/// All rows, in the order of the table.
pub fn all() -> Vec<Row> {
    [starts::rows(), gangs::rows(), passes::rows(), reclaim::rows(), memory::rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// Takes samples of what it is given.
pub struct Meter {
    wanted: usize,
    /// So few are enough once they took so long.
    patience: Option<(usize, Duration)>,
    pub taken: Vec<Duration>,
    /// Set instead of samples where bytes are counted.
    pub bytes: Option<u64>,
}

impl Meter {
    /// So many samples.
    pub fn exactly(wanted: usize) -> Self {
        Self { wanted, patience: None, taken: Vec::new(), bytes: None }
    }

    /// So many samples, or fewer if they take longer than this.
    pub fn within(wanted: usize, few: usize, patience: Duration) -> Self {
        Self { patience: Some((few, patience)), ..Self::exactly(wanted) }
    }

    /// True while more samples are wanted.
    pub fn goes_on(&self) -> bool {
        let taken = self.taken.len();
        let spent: Duration = self.taken.iter().sum();
        let is_enough =
            self.patience.is_some_and(|(few, patience)| taken >= few && spent >= patience);
        taken < self.wanted && !is_enough
    }

    /// One sample.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begin = own_time();
        let made = measured_section(work);
        self.taken.push(own_time() - begin);
        made
    }
}

/// Time that this thread has had a processor, so that others who want it count for little. Nothing
/// that is measured waits.
pub fn own_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    Duration::from(time)
}

/// Found by its name by whoever counts instructions, so it must be a function of its own.
#[inline(never)]
fn measured_section<T>(work: impl FnOnce() -> T) -> T {
    work()
}
