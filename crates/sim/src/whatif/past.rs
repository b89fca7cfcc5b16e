//! What has run, once more from an idle site. A run is as long as it was in fact, whatever the queue does to it; one that has
//! not ended is as long as it has run by now.

use muster_model::job::{GpuRequest, Resources};
use muster_model::simulation::Spread;
use muster_model::view::RoleView;
use muster_model::{GpuMilli, PastRun};
use muster_spec::{Ended, TraceJob};

use crate::flat::Estimates;
use crate::fleet::{FleetLoad, Site};
use crate::measure::{secs, spread};

/// The load that the past is on a site.
#[must_use]
pub fn load(past: &[PastRun], site: &Site) -> FleetLoad {
    let trace: Vec<TraceJob> = past.iter().map(job).collect();
    FleetLoad::of(&trace, site, Estimates::Requested, true)
}

/// Seconds from submission to the first start, as they were.
#[must_use]
pub fn waited(past: &[PastRun]) -> Spread {
    spread(past.iter().map(|run| secs(run.began.since(run.submitted))))
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
        ended: if run.is_over { Ended::Completed } else { Ended::Unknown },
    }
}

/// What each task holds. Jobs of the simulated world have tasks that are all alike: where there are several roles, each task
/// counts with its part of what all of them hold, rounded up to whole GPUs.
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
                cpus: muster_model::CpuMilli(of_all(|role| u64::from(role.cpus.0)) as u32),
                memory: muster_model::Bytes(of_all(|role| role.memory.0)),
                ..Resources::default()
            }
        }
    }
}
