//! How the modelled site has set Slurm up: defaults (SchedMD/slurm at 284c3b9) where they suit GPUs, and what SchedMD's own
//! pages advise where they do not. Names are those of slurm.conf(5). Nothing here is taken from a result.

use muster_model::Span;

// ---- PriorityType=priority/multifactor ----

/// `PriorityWeightAge`, `PriorityWeightFairshare` and `PriorityWeightJobSize`. By default all are 0, which is first come, first
/// served; these are the ones of SchedMD's example for a site with decay (doc/html/priority_multifactor.shtml, "Configuration
/// Example"). There is one partition and one QOS, so that their weights change nothing.
pub(super) const WEIGHT_AGE: u64 = 1_000;
pub(super) const WEIGHT_FAIR_SHARE: u64 = 10_000;
pub(super) const WEIGHT_JOB_SIZE: u64 = 1_000;
/// `PriorityMaxAge` of the same example. `PriorityDecayHalfLife` is that of the site's queue tree.
pub(super) const MAX_AGE: Span = Span::from_secs(14 * 86_400);
/// `PriorityCalcPeriod`, default.
pub(super) const CALC_PERIOD: Span = Span::from_secs(5 * 60);

// ---- SchedulerParameters ----

/// `default_queue_depth`, default: jobs that a pass after an event looks at.
pub(super) const QUEUE_DEPTH: usize = 100;
/// `batch_sched_delay`, default: such passes have at least so much time between them. (`sched_min_interval` is 2 µs by default,
/// and does not matter beside it.)
pub(super) const SCHED_DELAY: Span = Span::from_secs(3);
/// `sched_interval`, default: so often a pass looks at all jobs.
pub(super) const SCHED_INTERVAL: Span = Span::from_secs(60);
/// `bf_interval`, default.
pub(super) const BF_INTERVAL: Span = Span::from_secs(30);
/// `bf_max_job_test`, default: jobs that a backfill pass tries (src/plugins/sched/backfill/backfill.c, DEF_BF_MAX_JOB_TEST).
pub(super) const BF_MAX_JOB_TEST: usize = 500;
/// `bf_node_space_size`, by default the same as `bf_max_job_test`: stretches of time that the plan may have.
pub(super) const BF_NODE_SPACE_SIZE: usize = BF_MAX_JOB_TEST;
/// `bf_resolution`, default.
pub(super) const BF_RESOLUTION: Span = Span::from_secs(60);
/// `bf_window`: as long as the longest time limit, as slurm.conf(5) advises. With the default of one day long jobs starve.
pub(super) const BF_WINDOW: Span = MAX_TIME;

// ---- the partition ----

/// `MaxTime` and `DefaultTime`: the time limit of a job that names none. By default there is no limit at all, under which nothing
/// can be planned; seven days is a limit that many sites have. Assumption. A job that runs longer is not ended here, since the
/// trace says that it was not: it counts as about to end.
pub(super) const MAX_TIME: Span = Span::from_secs(7 * 86_400);
/// Time limits are whole minutes, rounded up.
pub(super) const MINUTE: Span = Span::from_secs(60);

// ---- after a node has failed ----

/// A job that is requeued may not start before so long: `cred_expire` of AuthInfo, 120 s by default, and a second
/// (src/slurmctld/job_mgr.c, batch_requeue_fini; on a real 22.05 it was 121 s).
pub(super) const REQUEUE_DELAY: Span = Span::from_secs(121);
