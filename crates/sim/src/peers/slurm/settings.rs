//! Slurm settings of the modelled site: the defaults (SchedMD/slurm at 284c3b9) where they suit
//! GPUs, and the advice of SchedMD's own pages where they do not; or those of the site's
//! slurm.conf. Names are those of slurm.conf(5). Nothing here is fitted to a result.

use muster_model::Span;

/// Settings of a slurm.conf that the model uses. `PriorityDecayHalfLife` is that of the site's
/// queue tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlurmSettings {
    // ---- PriorityType=priority/multifactor ----
    /// `PriorityWeightAge`: weight of a job's age.
    pub weight_age: u64,
    /// `PriorityWeightFairshare`: weight of the user's rank.
    pub weight_fair_share: u64,
    /// `PriorityWeightJobSize`: weight of a job's size.
    pub weight_job_size: u64,
    /// `PriorityMaxAge`: age that counts as 1.
    pub max_age: Span,
    /// `PriorityCalcPeriod`: time between calculations of priorities.
    pub calc_period: Span,

    // ---- SchedulerParameters ----
    /// `default_queue_depth`: jobs that a pass after an event looks at.
    pub queue_depth: usize,
    /// `batch_sched_delay`: least time between such passes. (`sched_min_interval` is 2 µs by
    /// default, which is negligible.)
    pub sched_delay: Span,
    /// `sched_interval`: time between passes over all jobs.
    pub sched_interval: Span,
    /// `bf_interval`: time between backfill passes.
    pub bf_interval: Span,
    /// `bf_max_job_test`: jobs that a backfill pass tries.
    pub bf_max_job_test: usize,
    /// `bf_node_space_size`: most slots of the plan.
    pub bf_node_space_size: usize,
    /// `bf_resolution`; at least a second.
    pub bf_resolution: Span,
    /// `bf_window`: time that a plan reaches ahead.
    pub bf_window: Span,
    /// `bf_window_linear`: growth of the windows in which ends of running jobs are examined;
    /// `None`: they double.
    pub bf_window_linear: Option<Span>,

    // ---- the partition ----
    /// `DefaultTime`, or `MaxTime` if there is none: the time limit of a job that names none. A job
    /// that runs longer is not ended here, since the trace says that it was not: it counts as about
    /// to end.
    pub default_time: Span,

    // ---- PreemptType=preempt/qos, PreemptMode=REQUEUE ----
    /// Settings of preemption by QOS; `None`: `PreemptType=preempt/none`.
    pub preemption: Option<QosPreemption>,

    // ---- after a node has failed, or a preemption ----
    /// Delay before a requeued job may start: `cred_expire` of `AuthInfo`, and a second
    /// (src/slurmctld/job_mgr.c, batch_requeue_fini; on a real 22.05 it was 121 s).
    pub requeue_delay: Span,
}

/// Times for which running jobs of lower QOS are spared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QosPreemption {
    /// `PreemptExemptTime`: time for which a job runs before it may be preempted.
    pub exempt_time: Span,
    /// `GraceTime` of each QOS: time for which a preempted job runs on.
    pub grace_time: Span,
}

impl Default for SlurmSettings {
    fn default() -> Self {
        // Many sites have this limit. By default there is none, under which nothing can be planned.
        // Assumption.
        let max_time = Span::from_secs(7 * 86_400);
        Self {
            // By default all weights are 0, which is first come, first served; these are the ones
            // of SchedMD's example for a site with decay (doc/html/priority_multifactor.shtml,
            // "Configuration Example"). There is one partition and one QOS, so that their weights
            // change nothing.
            weight_age: 1_000,
            weight_fair_share: 10_000,
            weight_job_size: 1_000,
            // From the same example.
            max_age: Span::from_secs(14 * 86_400),
            // Defaults from here on; `bf_max_job_test` from src/plugins/sched/backfill/backfill.c,
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
            preemption: None,
            requeue_delay: Span::from_secs(121),
        }
    }
}

/// Unit of time limits, which are rounded up.
pub(super) const MINUTE: Span = Span::from_secs(60);
