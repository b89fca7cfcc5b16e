//! What a run is told of as: events by name for whoever follows, who held what to be drawn, and how
//! things stand at an instant.

use muster_model::simulation::{
    FleetEvent, FleetHappening, FleetInstant, FleetWaiting, Gantt, GanttBar, GanttJob,
};
use muster_model::{NodeId, Time};

use super::load::JobNo;
use super::plane::Scheduler;
use super::record::{Bar, Happening};
use super::run::Fleet;
use super::site::Site;

/// Jobs that wait of which an instant tells why.
const MOST_WAITING: usize = 20;

/// An event by the names of what it is about.
#[must_use]
pub fn event(fleet: &Fleet, at: Time, happening: &Happening) -> FleetEvent {
    let desk = fleet.desk();
    let id = |job: JobNo| desk.job(job).id.to_string();
    let name = |node: NodeId| desk.pool().node(node).spec.name.to_string();
    let what = match *happening {
        Happening::Arrived(job) => FleetHappening::Arrived { job: id(job) },
        Happening::Placed(job, rank, node, devices) => {
            let devices = devices.iter().map(|device| device as u16).collect();
            FleetHappening::Placed { job: id(job), rank, node: name(node), devices }
        }
        Happening::Began(job) => FleetHappening::Began { job: id(job) },
        Happening::Ended(job) => FleetHappening::Ended { job: id(job) },
        Happening::Stopped(job, lost) => FleetHappening::Stopped { job: id(job), lost_ms: lost.0 },
        Happening::Removed(job, rank, node) => {
            FleetHappening::Removed { job: id(job), rank, node: name(node) }
        }
        Happening::NodeDown(node) => FleetHappening::NodeDown { node: name(node) },
        Happening::NodeUp(node) => FleetHappening::NodeUp { node: name(node) },
        Happening::DeviceBroken(node, device) => {
            FleetHappening::DeviceBroken { node: name(node), device: device as u16 }
        }
        Happening::DeviceMended(node, device) => {
            FleetHappening::DeviceMended { node: name(node), device: device as u16 }
        }
    };
    FleetEvent { at_ms: at.0, what }
}

/// Who held what, of a run that has kept it.
#[must_use]
pub fn gantt(scheduler: Scheduler, site: &Site, fleet: &Fleet) -> Gantt {
    let desk = fleet.desk();
    let nodes = site.nodes.iter().map(|node| (node.name.to_string(), node.devices.len() as u32));
    let jobs = desk
        .jobs()
        .iter()
        .map(|job| GanttJob { id: job.id.to_string(), user: job.user.to_string() });
    let mut gantt = Gantt::new(scheduler.name(), nodes, jobs.collect());
    for Bar { job, node, devices, from, to, runs } in desk.bars() {
        let bar =
            GanttBar { job: job.0, first_row: 0, last_row: 0, from_ms: from.0, to_ms: to.0, runs };
        gantt.hold(node.0 as usize, devices, bar);
    }
    gantt
}

/// How things stand; of the jobs that wait the first, and those that were asked for, with why.
#[must_use]
pub fn instant(scheduler: Scheduler, fleet: &mut Fleet, asked: &[JobNo]) -> FleetInstant {
    let jobs = || (0..fleet.desk().jobs().len() as u32).map(JobNo);
    let desk = fleet.desk();
    let waits =
        |job: &JobNo| !desk.has_ended(*job) && !desk.runs(*job) && !desk.fate(*job).is_refused;
    let mut shown: Vec<JobNo> = jobs().filter(waits).take(MOST_WAITING).collect();
    shown.extend(asked.iter().filter(|job| !shown.contains(job)).copied().collect::<Vec<_>>());
    let held: u64 = desk.held_milli();
    let instant = FleetInstant {
        scheduler: scheduler.name().to_owned(),
        at_ms: desk.now().0,
        arrived: desk.jobs().len() as u64,
        ended: jobs().filter(|job| desk.has_ended(*job)).count() as u64,
        running: jobs().filter(|job| desk.runs(*job)).count() as u64,
        waiting: jobs().filter(waits).count() as u64,
        size_milli: desk.size_milli(),
        held_milli: held,
        jobs: Vec::new(),
    };
    let jobs = shown.into_iter().map(|job| waiting(fleet, job)).collect();
    FleetInstant { jobs, ..instant }
}

fn waiting(fleet: &mut Fleet, job: JobNo) -> FleetWaiting {
    let desk = fleet.desk();
    let (there, fate) = (desk.job(job), desk.fate(job));
    let waits = fate.ended.is_none() && !desk.runs(job);
    let shown = FleetWaiting {
        job: there.id.to_string(),
        user: there.user.to_string(),
        queue: there.queue.to_string(),
        tasks: there.tasks,
        placed: desk.placed(job),
        waited_ms: desk.waited(job).0,
        running_since_ms: desk.runs_since(job).map(|since| since.0),
        ended_ms: fate.ended.map(|ended| ended.0),
        why: String::new(),
    };
    FleetWaiting { why: if waits { fleet.why(job) } else { String::new() }, ..shown }
}
