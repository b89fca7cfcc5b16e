//! How the modelled site has set Slurm up: by default the defaults (SchedMD/slurm at 284c3b9) where
//! they suit GPUs, and what SchedMD's own pages advise where they do not; else what the site's
//! slurm.conf says. Names are those of slurm.conf(5). Nothing here is taken from a result.

use muster_model::Span;

/// What of a slurm.conf the model goes by. `PriorityDecayHalfLife` is not here: it is that of the
/// site's queue tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    // ---- PriorityType=priority/multifactor ----
    /// `PriorityWeightAge`.
    pub weight_age: u64,
    /// `PriorityWeightFairshare`.
    pub weight_fair_share: u64,
    /// `PriorityWeightJobSize`.
    pub weight_job_size: u64,
    /// `PriorityMaxAge`.
    pub max_age: Span,
    /// `PriorityCalcPeriod`.
    pub calc_period: Span,

    // ---- SchedulerParameters ----
    /// `default_queue_depth`: jobs that a pass after an event looks at.
    pub queue_depth: usize,
    /// `batch_sched_delay`: such passes have at least so much time between them.
    /// (`sched_min_interval` is 2 µs by default, and does not matter beside it.)
    pub sched_delay: Span,
    /// `sched_interval`: so often a pass looks at all jobs.
    pub sched_interval: Span,
    /// `bf_interval`.
    pub bf_interval: Span,
    /// `bf_max_job_test`: jobs that a backfill pass tries.
    pub bf_max_job_test: usize,
    /// `bf_node_space_size`: stretches of time that the plan may have.
    pub bf_node_space_size: usize,
    /// `bf_resolution`; at least a second.
    pub bf_resolution: Span,
    /// `bf_window`.
    pub bf_window: Span,
    /// `bf_window_linear`: windows in which ends of running jobs are looked at grow by so much;
    /// else to twice as much.
    pub bf_window_linear: Option<Span>,

    // ---- the partition ----
    /// `DefaultTime`, or `MaxTime` where there is none: the time limit of a job that names none. A
    /// job that runs longer is not ended here, since the trace says that it was not: it counts as
    /// about to end.
    pub default_time: Span,

    // ---- after a node has failed ----
    /// A job that is requeued may not start before so long: `cred_expire` of `AuthInfo`, and a
    /// second (src/slurmctld/job_mgr.c, batch_requeue_fini; on a real 22.05 it was 121 s).
    pub requeue_delay: Span,
}

impl Default for Settings {
    fn default() -> Self {
        // Many sites have this limit. By default there is none at all, under which nothing can be
        // planned. Assumption.
        let max_time = Span::from_secs(7 * 86_400);
        Self {
            // By default all weights are 0, which is first come, first served; these are the ones
            // of SchedMD's example for a site with decay (doc/html/priority_multifactor.shtml,
            // "Configuration Example"). There is one partition and one QOS, so that their weights
            // change nothing.
            weight_age: 1_000,
            weight_fair_share: 10_000,
            weight_job_size: 1_000,
            // Of the same example.
            max_age: Span::from_secs(14 * 86_400),
            // Defaults from here on; of `bf_max_job_test` in src/plugins/sched/backfill/backfill.c,
            // DEF_BF_MAX_JOB_TEST.
            calc_period: Span::from_secs(5 * 60),
            queue_depth: 100,
            sched_delay: Span::from_secs(3),
            sched_interval: Span::from_secs(60),
            bf_interval: Span::from_secs(30),
            bf_max_job_test: 500,
            bf_node_space_size: 500,
            bf_resolution: Span::from_secs(60),
            // As long as the longest time limit, as slurm.conf(5) advises. With the default of one
            // day long jobs starve.
            bf_window: max_time,
            bf_window_linear: None,
            default_time: max_time,
            requeue_delay: Span::from_secs(121),
        }
    }
}

/// Time limits are whole minutes, rounded up.
pub(super) const MINUTE: Span = Span::from_secs(60);
