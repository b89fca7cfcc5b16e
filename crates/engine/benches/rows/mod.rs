//! Rows of the benchmark table: each sets up a cluster and passes the measured section to the
//! meter, repeatedly. Goals are those of docs/PERFORMANCE.md. The caller chooses the number of
//! samples, the clock and the sizes.

mod gangs;
mod memory;
mod passes;
pub mod print;
mod reclaim;
mod starts;

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

use crate::mix::Scale;

/// One row of the table.
pub struct BenchRow {
    /// Name of the row, for `--only`.
    pub name: &'static str,
    pub what: &'static str,
    pub goal: Option<Goal>,
    pub unit: RowUnit,
    /// Size of the cluster. Other sizes double one of its numbers; 0 stays 0.
    pub scale: Scale,
    pub run: fn(Scale, &mut Meter),
}

/// Goal of a row.
#[derive(Clone, Copy, Debug)]
pub enum Goal {
    AtLeast(f64),
    AtMost(f64),
}

/// Unit of a row's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowUnit {
    /// Median time in seconds.
    Seconds,
    /// 99th percentile in seconds.
    P99,
    /// Rate; the number of items in one sample.
    PerSecond(u32),
    Bytes,
}

/// 5,000 nodes, 20 queues, half full with 4,000 jobs.
const USUAL: Scale = Scale { nodes: 5_000, running: 4_000, pending: 0, queues: 20 };

/// Returns all rows, in the order of the table.
pub fn all() -> Vec<BenchRow> {
    [starts::rows(), gangs::rows(), passes::rows(), reclaim::rows(), memory::rows()]
        .into_iter()
        .flatten()
        .collect()
}

/// Collects samples of a measured section.
pub struct Meter {
    wanted: usize,
    /// Minimum number of samples, and the time after which it suffices.
    patience: Option<(usize, Duration)>,
    pub taken: Vec<Duration>,
    /// Set instead of samples by rows that measure bytes.
    pub bytes: Option<u64>,
}

impl Meter {
    /// Takes exactly this number of samples.
    pub fn exactly(wanted: usize) -> Self {
        Self { wanted, patience: None, taken: Vec::new(), bytes: None }
    }

    /// Takes this number of samples, or at least `few` if they take longer than `patience`.
    pub fn within(wanted: usize, few: usize, patience: Duration) -> Self {
        Self { patience: Some((few, patience)), ..Self::exactly(wanted) }
    }

    /// Returns true while more samples are wanted.
    pub fn needs_more(&self) -> bool {
        let taken = self.taken.len();
        let spent: Duration = self.taken.iter().sum();
        let is_enough =
            self.patience.is_some_and(|(few, patience)| taken >= few && spent >= patience);
        taken < self.wanted && !is_enough
    }

    /// Measures one sample of a section.
    pub fn measure<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let begin = own_time();
        let made = measured_section(work);
        self.taken.push(own_time() - begin);
        made
    }
}

/// Returns the CPU time of this thread, so that other load on the machine matters little. Measured
/// sections do not block.
pub fn own_time() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).expect("Linux has this clock");
    Duration::from(time)
}

/// Runs a measured section. A function of its own, since the instruction counter finds it by name.
#[inline(never)]
fn measured_section<T>(work: impl FnOnce() -> T) -> T {
    work()
}
