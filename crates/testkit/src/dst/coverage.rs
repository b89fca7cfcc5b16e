//! Counts of what happened in a run: a run that exercises nothing is a defect of the test.

use std::fmt;

use muster_model::Outcome;

macro_rules! coverage {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts over one run or many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Coverage {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Coverage {
            /// Adds the counts of another run.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Returns every count with its name.
            #[must_use]
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

coverage! {
    /// Steps of the daemon.
    steps,
    /// Full audits: plan again, replay, restore.
    audits,
    /// Jobs that were accepted.
    jobs,
    /// Submissions that were refused.
    refused,
    /// Submissions that were sent again under their key.
    resent,
    /// Gangs that started although small jobs without a time limit kept arriving.
    starvation_tests,
    /// Elements that became the head of their queue without a planned start.
    heads,
    /// Placements reserved for such a head by a plan that starts other elements.
    kept_places,
    /// Attempts that were started.
    starts,
    /// Of these, attempts with more than one task.
    gangs,
    /// Of these, attempts with more than one group.
    groups,
    /// Of these, attempts that passed a blocked job.
    backfills,
    /// Of these, elements of arrays.
    array_starts,
    /// Of these, elements that had started before.
    restarts,
    /// Of these, attempts on a share of a device.
    shares,
    /// Elements that ended with success.
    succeeded,
    /// Elements that failed by exit code, signal or memory.
    failed,
    /// Elements that reached their time limit.
    timed_out,
    /// Elements whose task was lost.
    lost_elements,
    /// Elements that could not be started.
    start_failed,
    /// Elements that were cancelled.
    cancelled,
    /// Elements whose dependency became impossible.
    dependency_failed,
    /// Requeues that were accepted.
    requeues,
    /// Holds that were accepted.
    holds,
    /// Queue files that were replaced.
    queue_files,
    /// Starts that were given up because tasks were not ready in time.
    overdue,
    /// Crashes of the daemon before a batch was durable.
    died_before,
    /// Crashes of the daemon after a batch was durable.
    died_after,
    /// Crashes of the daemon between orders, or between steps.
    died_between,
    /// Appends that failed without a crash.
    failed_appends,
    /// Steps that a full disk refused.
    full_disk,
    /// Reads of the state that failed.
    unreadable,
    /// Snapshots that were written.
    snapshots,
    /// Reports that were lost on the network.
    lost,
    /// Reports that arrived late.
    late,
    /// Reports that arrived twice.
    doubled,
    /// Tasks whose start was refused, slow or silent.
    bad_starts,
    /// Nodes that failed or vanished.
    nodes_lost,
    /// Nodes that were drained.
    drains,
    /// Devices used by other processes or out of service.
    foreign,
    /// Forward jumps of the clock.
    clock_forward,
    /// Backward jumps of the clock.
    clock_back,
    /// Attempts evicted because their queue had borrowed.
    reclaimed,
    /// Attempts evicted for a higher priority.
    outranked,
    /// Opportunistic attempts evicted for others.
    yielded,
    /// Gangs shrunk to fewer tasks.
    shrunk,
    /// Gangs evicted to restart with more tasks.
    grown,
    /// Starts of gangs above their minimum size.
    larger,
    /// Attempts moved to make a gang fit.
    moved,
    /// Starts of service replicas.
    replicas,
    /// Services that were scaled.
    scaled,
    /// Evicted attempts that were stopped without a checkpoint in time.
    unsaved,
    /// Starts on a nominated placement.
    nominations_kept,
    /// Nominations that were dropped because the cluster had changed.
    nominations_dropped,
    /// Checkpoints that users requested.
    checkpoints,
    /// Checkpoints that were acknowledged.
    saved,
    /// Attempts whose tasks exited with 0 upon a checkpoint request.
    exited_when_asked,
    /// Attempts of which a task died upon a checkpoint request.
    died_when_asked,
    /// Starts of gangs with a required domain or with segments.
    topology_starts,
    /// Reservations of nodes or GPUs.
    reservations,
    /// Of these, reservations that ended.
    reservations_over,
    /// Starts inside a reservation.
    reserved_starts,
    /// Starts charged to a budget.
    budgeted,
    /// Changes of the topology levels.
    levels,
    /// Notebooks stopped for being idle.
    idle,
    /// Elements left pending at the end, for a true reason.
    left_waiting,
}

impl Coverage {
    /// Counts the end of an element.
    pub(crate) fn ended(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::Idle { .. } | Outcome::StoppedEarly { .. } => &mut self.idle,
            Outcome::Failed { .. }
            | Outcome::Signaled { .. }
            | Outcome::OutOfMemory { .. }
            | Outcome::Native { .. } => &mut self.failed,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Cancelled { .. } | Outcome::IdleGpus { .. } => &mut self.cancelled,
            Outcome::Lost { .. } => &mut self.lost_elements,
            Outcome::StartFailed { .. } => &mut self.start_failed,
            Outcome::DependencyFailed { .. } => &mut self.dependency_failed,
        };
        *count += 1;
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self
            .counts()
            .into_iter()
            .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
            .collect();
        f.write_str(&counts.join(", "))
    }
}
