//! What really happened in a storm, counted: a story that exercises nothing is a defect. Counts
//! only.

use std::fmt;

use muster_model::Outcome;

macro_rules! cover {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Counts over one story or many.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Cover {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Cover {
            /// Adds the counts of another story.
            pub fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Every count by name.
            #[must_use]
            pub fn counts(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

cover! {
    /// Steps that the daemon took.
    steps,
    /// Whole audits: plan again, replay, restore.
    audits,
    /// Jobs accepted.
    jobs,
    /// Submissions refused.
    refused,
    /// Submissions that were sent again under their key.
    resent,
    /// Gangs that started though small jobs without a time limit kept coming.
    sieges,
    /// Elements that became the first of their queue without a planned start.
    heads,
    /// Places kept for such an element by a plan that starts others.
    kept_places,
    /// Attempts started.
    starts,
    /// Of these, of more than one task.
    gangs,
    /// Of these, of more than one group.
    groups,
    /// Of these, that passed a blocked job.
    backfills,
    /// Of these, of elements of arrays.
    array_starts,
    /// Of these, of elements that had been started before.
    restarts,
    /// Of these, on a part of a device.
    shares,
    /// Elements that ended well.
    succeeded,
    /// Elements that failed: code, signal, memory.
    failed,
    /// Elements that reached their time limit.
    timed_out,
    /// Elements that were lost.
    lost_elements,
    /// Elements that could not be started.
    start_failed,
    /// Elements that were cancelled.
    cancelled,
    /// Elements whose dependency became impossible.
    dependency_failed,
    /// Requeues accepted.
    requeues,
    /// Holds accepted.
    holds,
    /// Queue files replaced.
    queue_files,
    /// Waits for a start that were given up.
    overdue,
    /// The daemon died before a batch was durable.
    died_before,
    /// The daemon died after it.
    died_after,
    /// The daemon died between orders, or between steps.
    died_between,
    /// An append failed and the daemon lived.
    failed_appends,
    /// Steps refused by a full disk.
    full_disk,
    /// The state could not be read back.
    unreadable,
    /// Snapshots kept.
    snapshots,
    /// Reports lost on their way.
    lost,
    /// Reports late.
    late,
    /// Reports twice.
    doubled,
    /// Tasks that were refused, slow or mute.
    bad_starts,
    /// Nodes that died.
    nodes_lost,
    /// Nodes drained.
    drains,
    /// Devices that others took, or that went out of service.
    foreign,
    /// The clock jumped forward.
    clock_forward,
    /// The clock jumped back.
    clock_back,
    /// Attempts told to go since their queue had borrowed.
    reclaimed,
    /// Attempts told to go for a higher priority.
    outranked,
    /// Attempts told to go since they ran in what was idle.
    yielded,
    /// Gangs told to go on with fewer tasks.
    shrunk,
    /// Gangs that made room for themselves with more tasks.
    grown,
    /// Starts of gangs with more than their fewest tasks.
    larger,
    /// Attempts moved out of the way of a gang.
    moved,
    /// Starts of replicas of services.
    replicas,
    /// Services that were given other numbers.
    scaled,
    /// Of these, stopped without having saved their progress in time.
    unsaved,
    /// Promised places that were kept.
    kept,
    /// Promised places that were given up, since the world had changed.
    given_up,
    /// Checkpoints that people asked for.
    checkpoints,
    /// Checkpoints acknowledged.
    saved,
    /// Attempts whose tasks exited with 0 when they were asked to save.
    exited_when_asked,
    /// Attempts of which a task died when it was asked to save.
    died_when_asked,
    /// Starts of gangs that must lie in one domain, or in slices.
    together,
    /// Nodes or GPUs set aside.
    windows,
    /// Of these, that were over.
    windows_over,
    /// Starts in what was set aside for them.
    inside,
    /// Starts that a budget pays for.
    budgeted,
    /// Levels of the topology replaced.
    levels,
    /// Notebooks that were stopped since nobody used them.
    idle,
    /// Elements that were left waiting at the end, for a reason that is true.
    left_waiting,
}

impl Cover {
    /// An element has ended so.
    pub(crate) fn ended(&mut self, outcome: &Outcome) {
        let count = match outcome {
            Outcome::Succeeded => &mut self.succeeded,
            Outcome::Idle { .. } => &mut self.idle,
            Outcome::Failed { .. }
            | Outcome::Signaled { .. }
            | Outcome::OutOfMemory { .. }
            | Outcome::Native { .. } => &mut self.failed,
            Outcome::TimedOut => &mut self.timed_out,
            Outcome::Cancelled { .. } => &mut self.cancelled,
            Outcome::Lost { .. } => &mut self.lost_elements,
            Outcome::StartFailed { .. } => &mut self.start_failed,
            Outcome::DependencyFailed { .. } => &mut self.dependency_failed,
        };
        *count += 1;
    }
}

impl fmt::Display for Cover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> = self
            .counts()
            .into_iter()
            .map(|(name, count)| format!("{} {count}", name.replace('_', " ")))
            .collect();
        f.write_str(&counts.join(", "))
    }
}
