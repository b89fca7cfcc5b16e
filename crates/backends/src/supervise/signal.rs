//! Delivery of the checkpoint signal to the processes of a task that handle it.
//!
//! The default action of most signals ends a process, so a process without a handler (the shell
//! around a program, a launcher, a helper) never gets the signal. Programs install handlers some
//! time after their start: the processes are checked repeatedly until the request is answered or
//! expires, and each gets the signal once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_model::{Checkpoint, CheckpointTo};
use rustix::process::Signal;

use crate::process::{self, Disposition, Stat};

/// Pause between the first two rounds; it doubles with each round.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause between two rounds.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One request on its way to the processes of a task.
#[derive(Debug)]
pub(super) struct SignalDelivery {
    terms: Checkpoint,
    until: Duration,
    next_round: Duration,
    pause: Duration,
    /// Processes that got the signal, by pid and start time.
    reached: BTreeSet<(i32, u64)>,
    /// Processes that blocked the signal in the last round.
    blocked: BTreeSet<(i32, u64)>,
}

/// Properties of one process that decide whether it gets the signal.
#[derive(Clone, Copy, Debug)]
struct SignalTarget {
    parent: i32,
    start_ticks: u64,
    handles: bool,
    /// Memory layout of its program: equal to its parent's only in a fork without an exec.
    image: Option<process::Image>,
}

impl SignalDelivery {
    /// Starts the delivery of a request made at `now`.
    pub(super) fn new(terms: Checkpoint, now: Duration) -> Self {
        Self {
            terms,
            until: now + Duration::from_millis(terms.lead.0),
            next_round: now,
            pause: PAUSE_MIN,
            reached: BTreeSet::new(),
            blocked: BTreeSet::new(),
        }
    }

    /// Returns the time of the next round.
    pub(super) fn due(&self) -> Duration {
        self.next_round
    }

    /// Returns true once the request has expired.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// Returns the number of processes that got the signal so far.
    pub(super) fn reached(&self) -> u32 {
        self.reached.len() as u32
    }

    /// Signals every process of `pids` that should get the signal and has not got it yet.
    pub(super) fn run_round(&mut self, pids: &[i32], now: Duration) {
        self.next_round = now + self.pause;
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        let Some(signal) = Signal::from_named_raw(self.terms.signal) else { return };
        let processes = self.read(pids);
        for pid in receivers(&processes, self.terms.to) {
            let key = (pid, processes[&pid].start_ticks);
            if !self.reached.contains(&key) {
                let is_same = |pid| Stat::read(pid).is_some_and(|stat| stat.start_ticks == key.1);
                process::signal_checked(pid, signal, is_same);
                self.reached.insert(key);
            }
        }
    }

    fn read(&mut self, pids: &[i32]) -> BTreeMap<i32, SignalTarget> {
        let mut blocked = BTreeSet::new();
        let mut processes = BTreeMap::new();
        for pid in pids.iter().copied() {
            let Some(stat) = Stat::read(pid).filter(|stat| !stat.is_zombie) else { continue };
            let key = (pid, stat.start_ticks);
            let handles = match Disposition::of(pid, self.terms.signal) {
                Disposition::Caught => true,
                // A bash with an EXIT trap would run the trap and exit. A job that chooses the
                // receivers itself accepts that.
                Disposition::CaughtLikeAll => self.terms.to != CheckpointTo::Handlers,
                // A program that waits for signals (sigwait, signalfd) blocks them all the time;
                // others only for a moment, so it must be blocked in two rounds in a row.
                Disposition::Blocked => {
                    blocked.insert(key);
                    self.blocked.contains(&key)
                }
                Disposition::Ignored | Disposition::Default => false,
            };
            let image = process::Image::of(pid);
            let process =
                SignalTarget { parent: stat.parent, start_ticks: stat.start_ticks, handles, image };
            processes.insert(pid, process);
        }
        self.blocked = blocked;
        processes
    }
}

/// Returns the pids that get the signal, out of all processes of the task.
fn receivers(processes: &BTreeMap<i32, SignalTarget>, to: CheckpointTo) -> Vec<i32> {
    // A process whose image cannot be read may be about to execute another program: the next round
    // decides.
    let is_copy = |process: &SignalTarget| {
        let parent = processes.get(&process.parent).filter(|parent| parent.handles);
        parent.is_some_and(|parent| process.image.is_none() || parent.image == process.image)
    };
    let is_inner = |process: &SignalTarget| {
        let mut parent = process.parent;
        let mut seen = BTreeSet::new();
        while let Some(above) = processes.get(&parent).filter(|_| seen.insert(parent)) {
            if above.handles {
                return true;
            }
            parent = above.parent;
        }
        false
    };
    let gets = |process: &SignalTarget| match to {
        CheckpointTo::Handlers => !is_copy(process),
        CheckpointTo::Outermost => !is_inner(process),
        CheckpointTo::All => true,
    };
    let handling = processes.iter().filter(|(_, process)| process.handles && gets(process));
    handling.map(|(pid, _)| *pid).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell, a launcher that handles the signal, two programs of it that do, a fork of the
    /// first, and a helper of that.
    fn tree() -> BTreeMap<i32, SignalTarget> {
        let rows = [
            (10, 1, false, 1),
            (11, 10, true, 2),
            (12, 11, true, 3),
            (13, 11, true, 4),
            (14, 12, true, 3),
            (15, 14, true, 5),
            (16, 12, false, 3),
        ];
        let process = |(pid, parent, handles, start)| {
            let image = Some(process::Image { code: 4096, stack: start });
            (pid, SignalTarget { parent, start_ticks: 1, handles, image })
        };
        rows.into_iter().map(process).collect()
    }

    #[test]
    fn only_processes_that_handle_the_signal_get_it() {
        for (to, expected) in [
            (CheckpointTo::Handlers, vec![11, 12, 13, 15]),
            (CheckpointTo::Outermost, vec![11]),
            (CheckpointTo::All, vec![11, 12, 13, 14, 15]),
        ] {
            assert_eq!(receivers(&tree(), to), expected, "{to:?}");
        }
    }

    #[test]
    fn without_an_outer_handler_each_branch_has_its_own_outermost() {
        let mut tree = tree();
        tree.get_mut(&11).unwrap().handles = false;
        assert_eq!(receivers(&tree, CheckpointTo::Outermost), [12, 13]);
        assert_eq!(receivers(&tree, CheckpointTo::Handlers), [12, 13, 15]);
    }

    #[test]
    fn a_child_whose_image_cannot_be_read_is_left_alone_for_now() {
        let mut tree = tree();
        tree.get_mut(&13).unwrap().image = None;
        assert_eq!(receivers(&tree, CheckpointTo::Handlers), [11, 12, 15]);
    }
}
