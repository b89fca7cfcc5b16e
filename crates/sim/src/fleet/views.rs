//! Views of a run for reports: named events, Gantt charts, and the state at an instant.

use muster_model::simulation::{
    FleetEvent, FleetEventKind, FleetInstant, FleetWaiting, Gantt, GanttBar, GanttJob,
};
use muster_model::{NodeId, Time};

use super::load::JobNo;
use super::record::{AllocationBar, ClusterEvent};
use super::run::Fleet;
use super::scheduler::SchedulerKind;
use super::site::FleetSite;

/// Number of pending jobs that the state at an instant lists with reasons.
const MOST_WAITING: usize = 20;

/// Converts an event to one with names.
#[must_use]
pub fn event(fleet: &Fleet, at: Time, happening: &ClusterEvent) -> FleetEvent {
    let cluster = fleet.cluster();
    let id = |job: JobNo| cluster.job(job).id.to_string();
    let name = |node: NodeId| cluster.pool().node(node).spec.name.to_string();
    let what = match *happening {
        ClusterEvent::Arrived(job) => FleetEventKind::Arrived { job: id(job) },
        ClusterEvent::Placed(job, rank, node, devices) => {
            let devices = devices.iter().map(|device| device as u16).collect();
            FleetEventKind::Placed { job: id(job), rank, node: name(node), devices }
        }
        ClusterEvent::Began(job) => FleetEventKind::Began { job: id(job) },
        ClusterEvent::Ended(job) => FleetEventKind::Ended { job: id(job) },
        ClusterEvent::Stopped(job, lost) => {
            FleetEventKind::Stopped { job: id(job), lost_ms: lost.0 }
        }
        ClusterEvent::Removed(job, rank, node) => {
            FleetEventKind::Removed { job: id(job), rank, node: name(node) }
        }
        ClusterEvent::NodeDown(node) => FleetEventKind::NodeDown { node: name(node) },
        ClusterEvent::NodeUp(node) => FleetEventKind::NodeUp { node: name(node) },
        ClusterEvent::DeviceBroken(node, device) => {
            FleetEventKind::DeviceBroken { node: name(node), device: device as u16 }
        }
        ClusterEvent::DeviceMended(node, device) => {
            FleetEventKind::DeviceMended { node: name(node), device: device as u16 }
        }
    };
    FleetEvent { at_ms: at.0, what }
}

/// Returns the Gantt chart of a run that was recorded.
#[must_use]
pub fn gantt(scheduler: SchedulerKind, site: &FleetSite, fleet: &Fleet) -> Gantt {
    let cluster = fleet.cluster();
    let nodes = site.nodes.iter().map(|node| (node.name.to_string(), node.devices.len() as u32));
    let jobs = cluster
        .jobs()
        .iter()
        .map(|job| GanttJob { id: job.id.to_string(), user: job.user.to_string() });
    let mut gantt = Gantt::new(scheduler.name(), nodes, jobs.collect());
    for AllocationBar { job, node, devices, from, to, runs } in cluster.bars() {
        let bar =
            GanttBar { job: job.0, first_row: 0, last_row: 0, from_ms: from.0, to_ms: to.0, runs };
        gantt.hold(node.0 as usize, devices, bar);
    }
    gantt
}

/// Returns the current state; of pending jobs the first, and the jobs in `asked`, with reasons.
#[must_use]
pub fn instant(scheduler: SchedulerKind, fleet: &mut Fleet, asked: &[JobNo]) -> FleetInstant {
    let jobs = || (0..fleet.cluster().jobs().len() as u32).map(JobNo);
    let cluster = fleet.cluster();
    let waits = |job: &JobNo| {
        !cluster.has_ended(*job) && !cluster.runs(*job) && !cluster.status(*job).is_refused
    };
    let mut shown: Vec<JobNo> = jobs().filter(waits).take(MOST_WAITING).collect();
    shown.extend(asked.iter().filter(|job| !shown.contains(job)).copied().collect::<Vec<_>>());
    let held: u64 = cluster.held_milli();
    let instant = FleetInstant {
        scheduler: scheduler.name().to_owned(),
        at_ms: cluster.now().0,
        arrived: cluster.jobs().len() as u64,
        ended: jobs().filter(|job| cluster.has_ended(*job)).count() as u64,
        running: jobs().filter(|job| cluster.runs(*job)).count() as u64,
        waiting: jobs().filter(waits).count() as u64,
        size_milli: cluster.size_milli(),
        held_milli: held,
        jobs: Vec::new(),
    };
    let jobs = shown.into_iter().map(|job| waiting(fleet, job)).collect();
    FleetInstant { jobs, ..instant }
}

fn waiting(fleet: &mut Fleet, job: JobNo) -> FleetWaiting {
    let cluster = fleet.cluster();
    let there = cluster.job(job);
    let status = cluster.status(job);
    let waits = status.ended.is_none() && !cluster.runs(job);
    let shown = FleetWaiting {
        job: there.id.to_string(),
        user: there.user.to_string(),
        queue: there.queue.to_string(),
        tasks: there.tasks,
        placed: cluster.placed(job),
        waited_ms: cluster.waited(job).0,
        running_since_ms: cluster.runs_since(job).map(|since| since.0),
        ended_ms: status.ended.map(|ended| ended.0),
        why: String::new(),
    };
    FleetWaiting { why: if waits { fleet.why(job) } else { String::new() }, ..shown }
}
