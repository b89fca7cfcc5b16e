//! Delivery of the checkpoint signal to the processes of a task that handle it.
//!
//! The default action of most signals ends a process, so one that does not handle the signal (the
//! shell around a program, a launcher, a helper) never gets it. Programs install handlers some time
//! after their start: until the request is answered or its time is over, the processes are looked
//! at again, and each gets the signal once.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use muster_model::{Checkpoint, CheckpointTo};
use rustix::process::Signal;

use crate::process::{self, Disposition, Stat};

/// Pause before the second look; it doubles with each.
const PAUSE_MIN: Duration = Duration::from_millis(100);
/// Longest pause between two looks.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// One request on its way to the processes of a task.
#[derive(Debug)]
pub(super) struct Delivery {
    terms: Checkpoint,
    until: Duration,
    next_look: Duration,
    pause: Duration,
    /// Processes that got it, by pid and start time.
    reached: BTreeSet<(i32, u64)>,
    /// Processes that blocked the signal at the last look.
    blocked: BTreeSet<(i32, u64)>,
}

/// What is known of one process.
#[derive(Clone, Copy, Debug)]
struct Process {
    parent: i32,
    start_ticks: u64,
    handles: bool,
    /// Where its program lies in memory: the same as its parent's only in a fork of that.
    image: Option<process::Image>,
}

impl Delivery {
    /// A request made at `now`.
    pub(super) fn new(terms: Checkpoint, now: Duration) -> Self {
        Self {
            terms,
            until: now + Duration::from_millis(terms.lead.0),
            next_look: now,
            pause: PAUSE_MIN,
            reached: BTreeSet::new(),
            blocked: BTreeSet::new(),
        }
    }

    /// When to look again.
    pub(super) fn due(&self) -> Duration {
        self.next_look
    }

    /// True when it is no longer worth looking.
    pub(super) fn is_over(&self, now: Duration) -> bool {
        now >= self.until
    }

    /// Processes that got the signal so far.
    pub(super) fn reached(&self) -> u32 {
        self.reached.len() as u32
    }

    /// Signals every process of `pids` that is to get it and has not yet.
    pub(super) fn look(&mut self, pids: &[i32], now: Duration) {
        self.next_look = now + self.pause;
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

    fn read(&mut self, pids: &[i32]) -> BTreeMap<i32, Process> {
        let mut blocked = BTreeSet::new();
        let mut processes = BTreeMap::new();
        for pid in pids.iter().copied() {
            let Some(stat) = Stat::read(pid).filter(|stat| !stat.is_zombie) else { continue };
            let key = (pid, stat.start_ticks);
            let handles = match Disposition::of(pid, self.terms.signal) {
                Disposition::Caught => true,
                // A bash with an EXIT trap would run that and end. Where the job chooses who gets
                // the signal, it vouches for it.
                Disposition::CaughtLikeAll => self.terms.to != CheckpointTo::Handlers,
                // A program that waits for signals (sigwait, signalfd) blocks them throughout;
                // others do for a moment.
                Disposition::Blocked => {
                    blocked.insert(key);
                    self.blocked.contains(&key)
                }
                Disposition::Ignored | Disposition::Default => false,
            };
            let image = process::Image::of(pid);
            let process =
                Process { parent: stat.parent, start_ticks: stat.start_ticks, handles, image };
            processes.insert(pid, process);
        }
        self.blocked = blocked;
        processes
    }
}

/// The processes that get the signal, out of all of the task.
fn receivers(processes: &BTreeMap<i32, Process>, to: CheckpointTo) -> Vec<i32> {
    // Where its image cannot be read it may be one that is just about to execute another program:
    // the next look tells.
    let is_copy = |process: &Process| {
        let parent = processes.get(&process.parent).filter(|parent| parent.handles);
        parent.is_some_and(|parent| process.image.is_none() || parent.image == process.image)
    };
    let is_inner = |process: &Process| {
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
    let gets = |process: &Process| match to {
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
    fn tree() -> BTreeMap<i32, Process> {
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
            (pid, Process { parent, start_ticks: 1, handles, image })
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
