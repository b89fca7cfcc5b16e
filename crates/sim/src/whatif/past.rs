//! Replay of past jobs from an idle site, as it is and changed: the same jobs both times, each with
//! its true runtime. A job that has not ended counts with its runtime so far.

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::simulation::Spread;
use muster_model::view::RoleView;
use muster_model::{Bytes, CpuMilli, GpuMilli, PastRun, QueueSpec, QueueTree, Span};
use muster_spec::{JobEnd, TraceJob};

use super::Situation;
use crate::flat::Estimates;
use crate::fleet::{FleetJob, FleetLoad, FleetSite, Loading, SharedLoad, SharedLoading};
use crate::measure::{secs, spread};

/// Two replays of one past.
#[derive(Clone, Debug)]
pub struct Replays {
    /// The site as it is, and its jobs.
    pub as_it_is: (FleetSite, Arc<Vec<FleetJob>>),
    /// The changed site, and its jobs.
    pub changed: (FleetSite, Arc<Vec<FleetJob>>),
    /// Jobs that never started.
    pub never_ran: u64,
    /// Jobs that exceed the idle site as it is.
    pub too_large: u64,
    /// Jobs that exceed the changed site only.
    pub no_longer_fit: u64,
    /// Jobs whose queue the site as it is does not have, which use its default queue; 0 if it has no other queue.
    pub strangers: u64,
    /// Seconds from submission to the first start in the past, of the replayed jobs for which it is known.
    pub first_start_secs: Spread,
    /// Number of these jobs.
    pub first_starts: u64,
}

impl Replays {
    /// Creates the replays of a site's past.
    #[must_use]
    pub fn of(as_it_is: &Situation, changed: &Situation) -> Self {
        let trace: Vec<TraceJob> = as_it_is.past.iter().map(job).collect();
        Self::of_trace(&trace, true, replayed(as_it_is.site()), replayed(changed.site()))
    }

    /// Creates the replays of a trace, whose jobs name their tasks or only totals.
    #[must_use]
    pub fn of_trace(
        trace: &[TraceJob],
        names_tasks: bool,
        site: FleetSite,
        changed_site: FleetSite,
    ) -> Self {
        let loading = |site| Loading::new(site, Estimates::Requested, names_tasks);
        let mut shared = SharedLoading::new(vec![loading(&site), loading(&changed_site)]);
        trace.iter().for_each(|job| shared.add(job));
        let [one, other] =
            <[SharedLoad; 2]>::try_from(shared.done()).expect("there are two loadings");
        let FleetLoad { jobs, never_ran, too_large, strangers } = one.load;
        let has_queues = site.tree != QueueTree::single();
        let waits: Vec<Span> = jobs.iter().filter_map(FleetJob::recorded_wait).collect();
        Self {
            never_ran,
            too_large,
            no_longer_fit: one.left_out,
            strangers: if has_queues { strangers } else { 0 },
            first_start_secs: spread(waits.iter().map(|wait| secs(*wait))),
            first_starts: waits.len() as u64,
            as_it_is: (site, jobs),
            changed: (changed_site, other.load.jobs),
        }
    }
}

/// Returns the site without limits on pending jobs, which would count elements of an array as jobs.
fn replayed(mut site: FleetSite) -> FleetSite {
    fn lift(queues: &mut [QueueSpec]) {
        for queue in queues {
            queue.limits.pending_jobs = None;
            lift(&mut queue.queues);
        }
    }
    lift(&mut site.tree.queues);
    site
}

fn job(run: &PastRun) -> TraceJob {
    TraceJob {
        id: run.element.to_string().into(),
        submit: run.submitted,
        runtime: (run.ran.0 > 0).then_some(run.ran),
        requested: run.limit,
        tasks: run.tasks.max(1),
        task: task(&run.roles, run.tasks.max(1)),
        user: Some(run.user.0.clone()),
        queue: Some(run.queue.0.clone()),
        priority: run.priority,
        started: Some(run.began),
        ended: if run.is_over { JobEnd::Completed } else { JobEnd::Unknown },
    }
}

/// Returns the resources of each task. Tasks of a fleet job are identical: with several roles, each
/// task counts with its part of the sum of all, rounded up to whole GPUs.
fn task(roles: &[RoleView], tasks: u32) -> Resources {
    let gpu = |milli: u64, models: Vec<_>| match milli {
        share @ 1..=999 => GpuRequest { devices: 0, share: GpuMilli(share as u32), models },
        whole => GpuRequest { devices: whole.div_ceil(1000) as u32, share: GpuMilli(0), models },
    };
    match roles {
        [only] => Resources {
            gpu: gpu(u64::from(only.gpus.0), only.models.clone()),
            cpus: only.cpus,
            memory: only.memory,
            ..Resources::default()
        },
        several => {
            let of_all = |each: fn(&RoleView) -> u64| -> u64 {
                let all: u64 = several.iter().map(|role| u64::from(role.tasks) * each(role)).sum();
                all.div_ceil(u64::from(tasks))
            };
            Resources {
                gpu: gpu(of_all(|role| u64::from(role.gpus.0)), Vec::new()),
                cpus: CpuMilli(of_all(|role| u64::from(role.cpus.0)) as u32),
                memory: Bytes(of_all(|role| role.memory.0)),
                ..Resources::default()
            }
        }
    }
}
