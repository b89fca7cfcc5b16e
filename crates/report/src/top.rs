//! `muster top`: every GPU with its load and who holds it, and the jobs below.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::view::{DeviceView, GpuLoad, GpuLoadView, IdleView, JobView, NodeView};
use muster_model::{Bytes, ElementId, JobId, NodeName};

use crate::RenderContext;
use crate::amount::{count, element};
use crate::clock;
use crate::nodes::foreign_processes;
use crate::ps;
use crate::style::Ink;
use crate::table::{Cell, Table};

/// Cells of the bar of a busy GPU.
const BAR: u32 = 10;
/// A GPU that is held counts as idle below this many percent.
pub const IDLE_BELOW_PERCENT: u8 = 5;
/// Lines of a frame that are neither GPUs nor jobs: the first line, two headings, and what separates them.
const OVERHEAD: usize = 7;

/// Content of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Top<'a> {
    /// Nodes with their devices.
    pub nodes: &'a [NodeView],
    /// Loads of the devices; empty where none can be read.
    pub loads: &'a [GpuLoadView],
    /// Elements of jobs that have left all their GPUs idle for long.
    pub idle: &'a [IdleView],
    /// Jobs that wait or run, those that run first.
    pub jobs: &'a [JobView],
    /// Number of all jobs, of which `jobs` may be the first.
    pub total_jobs: usize,
    /// Job whose row is marked.
    pub chosen: Option<JobId>,
    /// Most lines; `None` for all.
    pub height: Option<usize>,
}

/// GPU as a row.
struct GpuRow<'a> {
    node: &'a NodeName,
    device: &'a DeviceView,
    load: Option<GpuLoad>,
}

/// Returns the view as text: GPUs above, jobs below.
#[must_use]
pub fn frame(top: &Top<'_>, context: RenderContext) -> String {
    let gpus = gpus(top);
    let (gpu_lines, job_lines) = shares(top.height, gpus.len(), top.jobs.len());
    let mut text = format!("{}\n", heading(top, &gpus, context));
    if !gpus.is_empty() {
        text.push('\n');
        text.push_str(&gpu_table(top, &gpus[..gpu_lines], context));
        text.push_str(&more(gpus.len() - gpu_lines, "GPU"));
    }
    if !top.jobs.is_empty() {
        let from = first_shown(top, job_lines);
        text.push('\n');
        text.push_str(&job_table(top, &gpus, &top.jobs[from..from + job_lines], context));
        text.push_str(&more(top.total_jobs - job_lines, "job"));
    }
    text
}

/// Returns how many GPUs and how many jobs have room: half of it each, unless one needs less.
fn shares(height: Option<usize>, gpus: usize, jobs: usize) -> (usize, usize) {
    let Some(height) = height else { return (gpus, jobs) };
    let room = height.saturating_sub(OVERHEAD).max(2);
    let of_gpus = gpus.min(room.saturating_sub(jobs).max(room / 2));
    (of_gpus, jobs.min(room - of_gpus))
}

/// Returns the place of the first job that is shown, so that the chosen one is.
fn first_shown(top: &Top<'_>, room: usize) -> usize {
    let chosen = top.jobs.iter().position(|job| Some(job.job) == top.chosen).unwrap_or(0);
    (chosen + 1).saturating_sub(room)
}

fn more(hidden: usize, noun: &str) -> String {
    match hidden {
        0 => String::new(),
        _ => format!("  … {} more\n", count(hidden as u64, noun)),
    }
}

fn gpus<'a>(top: &Top<'a>) -> Vec<GpuRow<'a>> {
    let loads: BTreeMap<(&NodeName, u16), Option<GpuLoad>> =
        top.loads.iter().map(|gpu| ((&gpu.node, gpu.index), gpu.load)).collect();
    let of_node = |node: &'a NodeView| node.devices.iter().map(move |device| (&node.name, device));
    let row = |(node, device): (&'a NodeName, &'a DeviceView)| GpuRow {
        node,
        device,
        load: loads.get(&(node, device.index)).copied().flatten(),
    };
    top.nodes.iter().flat_map(of_node).map(row).collect()
}

/// Returns the first line: `12:00:03  8 GPUs: 5 held, 2 of them idle; 5 jobs: 3 running, 2 waiting`.
fn heading(top: &Top<'_>, gpus: &[GpuRow<'_>], context: RenderContext) -> String {
    let held = gpus.iter().filter(|gpu| !gpu.device.elements.is_empty());
    let idle = held.clone().filter(|gpu| is_idle(gpu)).count();
    let idle = if idle > 0 { format!(", {idle} of them idle") } else { String::new() };
    let running = top.jobs.iter().filter(|job| ps::holds(job.state)).count();
    let text = format!(
        "{}  {}: {} held{idle}; {}: {running} running, {} waiting",
        clock::time(context.now, context),
        count(gpus.len() as u64, "GPU"),
        held.count(),
        count(top.total_jobs as u64, "job"),
        top.total_jobs - running,
    );
    context.paint(Ink::Strong, &text)
}

fn is_idle(gpu: &GpuRow<'_>) -> bool {
    gpu.load.and_then(|load| load.busy_percent).is_some_and(|busy| busy < IDLE_BELOW_PERCENT)
}

fn gpu_table(top: &Top<'_>, gpus: &[GpuRow<'_>], context: RenderContext) -> String {
    let names: BTreeMap<JobId, &JobView> = top.jobs.iter().map(|job| (job.job, job)).collect();
    Table::of(gpus)
        .left("NODE", |gpu| if top.nodes.len() > 1 { gpu.node.as_str() } else { "" })
        .right("GPU", |gpu| gpu.device.index.to_string())
        .left("MODEL", |gpu| gpu.device.model.as_str())
        .left("BUSY", busy)
        .left("MEMORY", |gpu| {
            gpu.load
                .and_then(|load| load.memory_used)
                .map_or(String::new(), |used| memory(used, gpu.device.memory))
        })
        .right("POWER", |gpu| gpu.load.map_or(String::new(), power))
        .left("HELD BY", |gpu| holder(gpu, &names))
        .render(context)
}

/// `██████····  63 %`; of a GPU that is held, idleness is marked.
fn busy(gpu: &GpuRow<'_>) -> Cell {
    let Some(percent) = gpu.load.and_then(|load| load.busy_percent) else {
        let text = if gpu.device.is_virtual { "simulated" } else { "unknown" };
        return Cell::inked(text, Ink::Faint);
    };
    let full = (u32::from(percent) * BAR).div_ceil(100).min(BAR) as usize;
    let bar = "█".repeat(full) + &"·".repeat(BAR as usize - full);
    let is_held = !gpu.device.elements.is_empty();
    let ink = if is_held && is_idle(gpu) { Ink::Waiting } else { Ink::Plain };
    Cell::inked(format!("{bar} {percent:>3} %"), ink)
}

fn memory(used: Bytes, total: Bytes) -> String {
    match total.0 {
        0 => used.to_string(),
        _ => format!("{used} of {total}"),
    }
}

fn power(load: GpuLoad) -> String {
    match (load.power_watts, load.power_limit_watts) {
        (None, _) => String::new(),
        (Some(watts), None) => format!("{watts} W"),
        (Some(watts), Some(limit)) => format!("{watts} of {limit} W"),
    }
}

/// `12 train (ann)`, or why nobody can hold it.
fn holder(gpu: &GpuRow<'_>, jobs: &BTreeMap<JobId, &JobView>) -> Cell {
    let name = |id: &ElementId| match jobs.get(&id.job) {
        Some(job) => {
            let has_elements = job.array.is_some() || job.service.is_some();
            let index = if has_elements { format!("[{}]", id.index) } else { String::new() };
            format!("{}{index} {} ({})", job.label(), job.name, job.user)
        }
        None => element(*id),
    };
    let device = gpu.device;
    let holders: BTreeSet<&ElementId> = device.elements.iter().collect();
    let held: Vec<String> = holders.into_iter().map(name).collect();
    match held.as_slice() {
        [] if device.drained => Cell::inked("out of service", Ink::Waiting),
        [] if device.foreign => {
            let by = foreign_processes(&device.foreign_processes);
            let by = if by.is_empty() { "a process".to_owned() } else { by + "," };
            Cell::inked(format!("{by} outside Muster"), Ink::Waiting)
        }
        [] => Cell::inked("free", Ink::Faint),
        held => Cell::from(held.join(", ")),
    }
}

fn job_table(
    top: &Top<'_>,
    gpus: &[GpuRow<'_>],
    jobs: &[JobView],
    context: RenderContext,
) -> String {
    let mut of_job: BTreeMap<JobId, Vec<GpuLoad>> = BTreeMap::new();
    for gpu in gpus {
        // Once, though several tasks of the job may hold parts of it.
        let holders: BTreeSet<JobId> = gpu.device.elements.iter().map(|id| id.job).collect();
        for job in holders {
            of_job.entry(job).or_default().extend(gpu.load);
        }
    }
    let loads = |job: &JobView| of_job.get(&job.job).map_or(&[][..], Vec::as_slice);
    let others = ps::OtherJobs::of(top.jobs, &[]);
    let idle_since = |job: JobId| {
        let elements = top.idle.iter().filter(|idle| idle.element.job == job);
        elements.map(|idle| idle.since).min()
    };
    let rows: Vec<(&JobView, &[GpuLoad])> = jobs.iter().map(|job| (job, loads(job))).collect();
    Table::of(&rows)
        .left("", |(job, _)| if Some(job.job) == top.chosen { ">" } else { "" })
        .left("JOB", |(job, _)| job.label())
        .left("NAME", |(job, _)| &job.name)
        .left("USER", |(job, _)| job.user.as_str())
        .dropped(3)
        .left("STATE", |(job, _)| Cell::inked(job.state.word(), Ink::of(job.state)))
        .left("GPUS", |(job, _)| ps::gpus_held(job, top.nodes.len() > 1))
        .right("BUSY", |(_, loads)| mean_busy(loads))
        .right("MEMORY", |(_, loads)| {
            let used = loads.iter().filter_map(|load| load.memory_used);
            used.map(|bytes| bytes.0)
                .reduce(|sum, one| sum + one)
                .map_or(String::new(), |sum| Bytes(sum).to_string())
        })
        .dropped(1)
        .right("POWER", |(_, loads)| {
            let watts = loads.iter().filter_map(|load| load.power_watts);
            watts.reduce(|sum, one| sum + one).map_or(String::new(), |sum| format!("{sum} W"))
        })
        .dropped(2)
        .left("TIME", |(job, _)| {
            let from = job.started.unwrap_or(job.submitted);
            clock::elapsed(context.now.since(from))
        })
        .left("NOTE", |(job, _)| match idle_since(job.job) {
            Some(since) => Cell::inked(
                format!("GPUs idle for {}", clock::elapsed(context.now.since(since))),
                Ink::Waiting,
            ),
            None => Cell::from(ps::note(job, &others, context)),
        })
        .render(context)
}

/// Returns the mean over the GPUs of a job; those of which several jobs hold parts count for each.
fn mean_busy(loads: &[GpuLoad]) -> String {
    let busy: Vec<u64> = loads.iter().filter_map(|load| load.busy_percent).map(u64::from).collect();
    match busy.as_slice() {
        [] => String::new(),
        busy => format!("{} %", busy.iter().sum::<u64>() / busy.len() as u64),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::view::JobState;
    use muster_model::{CpuMilli, GpuMilli};

    use super::*;
    use crate::sample;

    fn device(index: u16, elements: Vec<ElementId>) -> DeviceView {
        DeviceView {
            index,
            model: "h100".into(),
            memory: Bytes(80 << 30),
            is_virtual: false,
            used: GpuMilli(0),
            foreign: false,
            foreign_processes: Vec::new(),
            drained: false,
            drain: None,
            elements,
        }
    }

    fn node(devices: Vec<DeviceView>) -> NodeView {
        NodeView {
            name: "box".into(),
            up: true,
            drained: None,
            drain: None,
            cpus: CpuMilli(64_000),
            cpus_used: CpuMilli(0),
            memory: Bytes(256 << 30),
            memory_used: Bytes(0),
            devices,
            advance_reservations: Vec::new(),
        }
    }

    fn shown(height: Option<usize>) -> String {
        let mut devices: Vec<DeviceView> =
            (0..2).map(|index| device(index, vec![sample::id(1, 0)])).collect();
        // Two tasks of one element share it.
        devices.push(device(2, vec![sample::id(2, 3), sample::id(2, 3)]));
        devices.push(DeviceView { drained: true, ..device(3, Vec::new()) });
        devices.push(DeviceView { is_virtual: true, ..device(4, Vec::new()) });
        let load = |busy: u8| GpuLoad {
            busy_percent: Some(busy),
            memory_used: Some(Bytes(41 << 30)),
            power_watts: Some(300),
            power_limit_watts: Some(700),
        };
        let slice = GpuLoad { memory_used: Some(Bytes(1 << 30)), ..GpuLoad::default() };
        let loads: Vec<GpuLoadView> = [Some(load(98)), Some(load(2)), Some(slice), None, None]
            .into_iter()
            .zip(0..)
            .map(|(load, index)| GpuLoadView { node: "box".into(), index, load })
            .collect();
        let runs = |number, name: &str, gpus: std::ops::Range<u16>| JobView {
            started: Some(sample::NOON),
            elements: vec![sample::running(number, 0, gpus, 20)],
            ..sample::job(number, name, JobState::Running, 1)
        };
        let mut jobs = vec![runs(1, "train", 0..2), runs(2, "eval", 2..3)];
        jobs.extend((3..6).map(|number| sample::job(number, "waits", JobState::Pending, 8)));
        frame(
            &Top {
                nodes: &[node(devices)],
                loads: &loads,
                idle: &[],
                jobs: &jobs,
                total_jobs: jobs.len() + 2,
                chosen: Some(JobId(3)),
                height,
            },
            RenderContext::plain(),
        )
    }

    #[test]
    fn gpus_have_their_load_and_jobs_that_of_their_gpus() {
        insta::assert_snapshot!(shown(None), @r"
        00:00:00  5 GPUs: 3 held, 1 of them idle; 7 jobs: 2 running, 5 waiting

        GPU  MODEL  BUSY              MEMORY                 POWER  HELD BY
          0  h100   ██████████  98 %  41GiB of 80GiB  300 of 700 W  1 train (alice)
          1  h100   █·········   2 %  41GiB of 80GiB  300 of 700 W  1 train (alice)
          2  h100   unknown           1GiB of 80GiB                 2 eval (alice)
          3  h100   unknown                                         out of service
          4  h100   simulated                                       free

           JOB  NAME   USER   STATE    GPUS    BUSY  MEMORY  POWER  TIME  NOTE
           1    train  alice  running  0,1     50 %   82GiB  600 W  0s    2 of 2 ranks
           2    eval   alice  running  2               1GiB         0s
        >  3    waits  alice  pending  0 of 8                       0s
           4    waits  alice  pending  0 of 8                       0s
           5    waits  alice  pending  0 of 8                       0s
          … 2 jobs more
        ");
    }

    #[test]
    fn a_low_screen_shows_the_chosen_job() {
        let text = shown(Some(13));
        assert!(text.lines().count() <= 13, "{text}");
        assert!(text.contains(">  3") && text.contains("more"), "{text}");
    }

    #[test]
    fn room_is_shared() {
        for (height, gpus, jobs, expected) in [
            (None, 9, 99, (9, 99)),
            (Some(27), 8, 99, (8, 12)),
            (Some(27), 64, 99, (10, 10)),
            (Some(27), 64, 3, (17, 3)),
            (Some(3), 8, 8, (1, 1)),
        ] {
            assert_eq!(shares(height, gpus, jobs), expected, "{height:?} {gpus} {jobs}");
        }
    }
}
