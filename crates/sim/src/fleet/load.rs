//! What arrives: the jobs of a trace, as they can run on a site. What cannot is counted and left
//! out, the same for whoever decides.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::{Bytes, CpuMilli, QueueName, Span, Time, UserName};
use muster_spec::TraceJob;

use super::pool::Pool;
use super::site::Site;
use crate::arrivals;
use crate::dice::Dice;
use crate::flat::Estimates;

/// Number of a job, from 0 in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobNo(pub u32);

impl JobNo {
    /// As an index.
    #[must_use]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A job of a fleet: so many tasks, all alike, that work together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetJob {
    /// As the trace calls it.
    pub id: Arc<str>,
    /// When it arrives.
    pub submit: Time,
    /// How long it works. Never longer than it is believed to: who promised less is ended at the
    /// limit.
    pub runtime: Span,
    /// How long it is believed to run; `None` when nobody says.
    pub estimate: Option<Span>,
    /// Tasks.
    pub tasks: u32,
    /// What each holds.
    pub task: Arc<Resources>,
    /// GPUs that each asked for: less than it holds where only whole ones are given.
    pub asked_milli: u32,
    /// Whose it is.
    pub user: UserName,
    /// Where it waits.
    pub queue: QueueName,
    /// Higher goes first.
    pub priority: i32,
    /// Fewest nodes that could host it, were all idle.
    pub fewest_nodes: u32,
}

impl FleetJob {
    /// Its size in thousandths of GPUs as it asked for them, or of CPUs where the cluster has no
    /// GPU.
    #[must_use]
    pub fn width_milli(&self, has_gpus: bool) -> u64 {
        u64::from(self.tasks)
            * u64::from(if has_gpus { self.asked_milli } else { self.task.cpus.0 })
    }
}

/// Jobs in order of arrival, and what was left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetLoad {
    /// Jobs that can run; runs share them.
    pub jobs: Arc<Vec<FleetJob>>,
    /// Jobs that never ran where they come from.
    pub never_ran: u64,
    /// Jobs that not even the idle cluster could host.
    pub too_large: u64,
    /// Jobs of queues that the site does not have: they wait in its default queue.
    pub strangers: u64,
}

impl FleetLoad {
    /// The load that a trace is on a site. Where the trace says how many GPUs or processors a job
    /// had, and not how they lay (`as_tasks` is false), a job gets as few nodes as can host it,
    /// with equally many on each.
    #[must_use]
    pub fn of(trace: &[TraceJob], site: &Site, estimates: Estimates, as_tasks: bool) -> Self {
        let mut loading = Loading::new(site, estimates, as_tasks);
        trace.iter().for_each(|job| loading.add(job));
        loading.done()
    }

    /// The same with arrivals `factor` times as fast.
    #[must_use]
    pub fn at(mut self, factor: f64) -> Self {
        arrivals::hasten(
            Arc::make_mut(&mut self.jobs).iter_mut().map(|job| &mut job.submit),
            factor,
        );
        self
    }

    /// The same where users promise too much: each says any time from its runtime to five times
    /// that, drawn in order.
    #[must_use]
    pub fn with_noise(mut self, seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        for job in Arc::make_mut(&mut self.jobs) {
            job.estimate = Some(arrivals::noisy(job.runtime, &mut dice));
        }
        self
    }

    /// The jobs as they are where only whole GPUs are given: who asks for a share holds a whole
    /// one.
    #[must_use]
    pub fn in_whole_gpus(&self) -> Arc<Vec<FleetJob>> {
        let asks_for_share = |job: &FleetJob| job.task.gpu.devices == 0 && job.task.gpu.share.0 > 0;
        if !self.jobs.iter().any(asks_for_share) {
            return Arc::clone(&self.jobs);
        }
        let mut jobs = self.jobs.to_vec();
        let mut rounded: BTreeMap<Resources, Arc<Resources>> = BTreeMap::new();
        for job in jobs.iter_mut().filter(|job| asks_for_share(job)) {
            let task = rounded.entry((*job.task).clone()).or_insert_with_key(|task| {
                let gpu = GpuRequest { models: task.gpu.models.clone(), ..GpuRequest::whole(1) };
                Arc::new(Resources { gpu, ..task.clone() })
            });
            job.task = Arc::clone(task);
        }
        Arc::new(jobs)
    }
}

/// A load that is put together job by job, so that a trace need not be in memory beside it.
pub struct Loading<'s> {
    site: &'s Site,
    estimates: Estimates,
    as_tasks: bool,
    /// Whose jobs are that name nobody.
    nobody: UserName,
    leaves: BTreeMap<String, QueueName>,
    shapes: Shapes,
    jobs: Vec<FleetJob>,
    load: FleetLoad,
}

impl<'s> Loading<'s> {
    /// Nothing yet; for the rest see [`FleetLoad::of`].
    #[must_use]
    pub fn new(site: &'s Site, estimates: Estimates, as_tasks: bool) -> Self {
        Self {
            site,
            estimates,
            as_tasks,
            nobody: "all".into(),
            leaves: leaves(site),
            shapes: Shapes::new(Pool::new(&site.nodes)),
            jobs: Vec::new(),
            load: FleetLoad::default(),
        }
    }

    /// Another job, in any order.
    pub fn add(&mut self, job: &TraceJob) {
        // 1. What it is.
        let Some(runtime) = job.runtime else {
            self.load.never_ran += 1;
            return;
        };
        // 2. Whether it fits.
        let found = if self.as_tasks {
            self.shapes.fitting(job.tasks, &job.task).map(|fitting| (job.tasks, fitting))
        } else {
            self.shapes.gathered(job.tasks, &job.task)
        };
        let Some((tasks, (task, fewest_nodes))) = found else {
            self.load.too_large += 1;
            return;
        };
        // 3. Whose it is and where it waits.
        let queue = job.queue.as_deref().and_then(|queue| self.leaves.get(queue));
        self.load.strangers += u64::from(job.queue.is_some() && queue.is_none());
        let estimate = match self.estimates {
            Estimates::Requested => job.requested,
            Estimates::Actual => Some(runtime),
        };
        let user = job.user.as_ref().or(job.queue.as_ref());
        self.jobs.push(FleetJob {
            id: Arc::clone(&job.id),
            submit: job.submit,
            runtime: estimate.map_or(runtime, |estimate| runtime.min(estimate)),
            estimate,
            tasks,
            asked_milli: task.gpu.milli().0,
            task,
            user: user.map_or_else(|| self.nobody.clone(), |user| UserName(Arc::clone(user))),
            queue: queue.unwrap_or(&self.site.tree.default_queue).clone(),
            priority: job.priority,
            fewest_nodes,
        });
    }

    /// All jobs, in order of arrival.
    #[must_use]
    pub fn done(mut self) -> FleetLoad {
        self.jobs.sort_by_key(|job| job.submit);
        FleetLoad { jobs: Arc::new(self.jobs), ..self.load }
    }
}

/// What fits: what each task holds, to be shared, and the fewest nodes.
type Fitting = (Arc<Resources>, u32);

/// What jobs ask for, each looked at once.
struct Shapes {
    /// All idle.
    pool: Pool,
    /// By tasks and what each holds; `None` for what never fits.
    known: BTreeMap<(u32, Resources), Option<Fitting>>,
    /// By what was asked for one by one: so many tasks of it, gathered.
    gathered: BTreeMap<(u32, Resources), Option<(u32, Fitting)>>,
}

impl Shapes {
    fn new(pool: Pool) -> Self {
        Self { pool, known: BTreeMap::new(), gathered: BTreeMap::new() }
    }

    fn fitting(&mut self, tasks: u32, task: &Resources) -> Option<Fitting> {
        let pool = &self.pool;
        let shape = self.known.entry((tasks, task.clone())).or_insert_with_key(|(tasks, task)| {
            pool.has_room(task, *tasks)
                .then(|| (Arc::new(task.clone()), fewest(pool, task, *tasks)))
        });
        shape.clone()
    }

    /// One-GPU (or one-processor) tasks, on as few nodes as can host them with equally many on
    /// each. Others stay as they are.
    fn gathered(&mut self, tasks: u32, task: &Resources) -> Option<(u32, Fitting)> {
        if let Some(known) = self.gathered.get(&(tasks, task.clone())) {
            return known.clone();
        }
        let is_unit = if task.gpu.is_none() { task.cpus.0 > 0 } else { task.gpu.devices == 1 };
        let nodes = if is_unit { 1..=tasks } else { tasks..=tasks };
        let found = nodes
            .filter(|nodes| tasks.is_multiple_of(*nodes))
            .find_map(|nodes| Some((nodes, self.fitting(nodes, &times(task, tasks / nodes))?)));
        self.gathered.insert((tasks, task.clone()), found.clone());
        found
    }
}

/// So many tasks as one.
fn times(task: &Resources, count: u32) -> Resources {
    let mut gpu = task.gpu.clone();
    gpu.devices = gpu.devices.saturating_mul(count);
    let cpus = CpuMilli(task.cpus.0.saturating_mul(count));
    let memory = Bytes(task.memory.0.saturating_mul(u64::from(count)));
    Resources { gpu, cpus, memory, extras: task.extras.clone() }
}

/// Fewest nodes that could host it, were all idle: those with most room first.
fn fewest(pool: &Pool, task: &Resources, tasks: u32) -> u32 {
    let mut rooms: Vec<u32> = pool.nodes().map(|(_, node)| node.room(task, tasks)).collect();
    rooms.sort_unstable_by(|one, other| other.cmp(one));
    let (mut left, mut nodes) = (tasks, 0);
    for room in rooms {
        if left == 0 {
            break;
        }
        (left, nodes) = (left.saturating_sub(room), nodes + 1);
    }
    nodes
}

/// Leaf queues by their path, and by their own name where it is the only one.
fn leaves(site: &Site) -> BTreeMap<String, QueueName> {
    let mut paths = Vec::new();
    walk(&site.tree.queues, "", &mut paths);
    let mut leaves = BTreeMap::new();
    for (path, name) in &paths {
        if paths.iter().filter(|(_, other)| other == name).count() == 1 {
            leaves.insert(name.clone(), QueueName::from(path.as_str()));
        }
    }
    leaves.extend(paths.iter().map(|(path, _)| (path.clone(), QueueName::from(path.as_str()))));
    leaves
}

fn walk(queues: &[muster_model::QueueSpec], above: &str, paths: &mut Vec<(String, String)>) {
    for queue in queues {
        let path = if above.is_empty() {
            queue.name.to_string()
        } else {
            format!("{above}/{}", queue.name)
        };
        match queue.queues.is_empty() {
            true => paths.push((path, queue.name.to_string())),
            false => walk(&queue.queues, &path, paths),
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::{Device, NodeSpec};

    use super::*;

    /// Nodes with so many GPUs and 64 CPUs each.
    fn shapes(gpus: &[usize]) -> Shapes {
        let device = Device {
            model: "a100".into(),
            memory: Bytes(0),
            uuid: "".into(),
            is_virtual: true,
            slice_of: None,
        };
        let node = |(at, gpus): (usize, &usize)| NodeSpec {
            name: format!("n{at}").into(),
            devices: vec![device.clone(); *gpus],
            cpus: CpuMilli(64_000),
            memory: Bytes(0),
            extras: [].into(),
            labels: [].into(),
            domains: Vec::new(),
        };
        let nodes: Vec<NodeSpec> = gpus.iter().enumerate().map(node).collect();
        Shapes::new(Pool::new(&nodes))
    }

    #[test]
    fn a_total_becomes_equal_parts_of_as_few_nodes_as_can_host_it() {
        let task = |devices, cpus| Resources {
            gpu: GpuRequest::whole(devices),
            cpus: CpuMilli(cpus),
            ..Resources::default()
        };
        // 32 GPUs do not fit twice on the one large node; 10 CPUs with each GPU are too many for 8
        // on a node; a task of two GPUs stays what it is; so many CPUs are as few nodes as can be.
        for (nodes, tasks, task, found) in [
            (&[8; 16][..], 1, task(1, 0), Some((1, 1, 0))),
            (&[8; 16], 16, task(1, 0), Some((2, 8, 0))),
            (&[8; 16], 12, task(1, 0), Some((2, 6, 0))),
            (&[8; 16], 9, task(1, 0), Some((3, 3, 0))),
            (&[8; 16], 11, task(1, 0), Some((11, 1, 0))),
            (&[16, 8, 8, 8, 8], 32, task(1, 0), Some((4, 8, 0))),
            (&[8, 8], 8, task(1, 10_000), Some((2, 4, 40_000))),
            (&[8, 8], 3, task(2, 0), Some((3, 2, 0))),
            (&[8, 8], 100, task(0, 1_000), Some((2, 0, 50_000))),
            (&[8, 8], 17, task(1, 0), None),
        ] {
            let got = shapes(nodes).gathered(tasks, &task);
            let got = got.map(|(nodes, (task, _))| (nodes, task.gpu.devices, task.cpus.0));
            assert_eq!(got, found, "{nodes:?}: {tasks} of {task:?}");
        }
    }
}
