//! Jobs of a trace that can run on a site. Others are counted and left out, the same for every
//! scheduler.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::queue::PlannedRuntimes;
use muster_model::{Bytes, CpuMilli, QueueName, Span, Time, UserName};
use muster_spec::TraceJob;

use super::pool::Pool;
use super::site::FleetSite;
use crate::arrivals;
use crate::flat::Estimates;
use crate::rng::Rng;

/// Number of a job, from 0 in order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobNo(pub u32);

impl JobNo {
    /// Returns the number as an index.
    #[must_use]
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A job of a fleet: a gang of identical tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FleetJob {
    /// Identifier in the trace.
    pub id: Arc<str>,
    /// Time at which it is submitted.
    pub submit: Time,
    /// Time of work, at most the estimate: a job that would run longer is ended there.
    pub runtime: Span,
    /// Estimated runtime; `None` if unknown.
    pub estimate: Option<Span>,
    /// Number of tasks of the gang.
    pub tasks: u32,
    /// Resources of each task.
    pub task: Arc<Resources>,
    /// Thousandths of GPUs that each task asked for: less than it holds if the scheduler gives
    /// whole GPUs only.
    pub asked_milli: u32,
    /// User who submitted it.
    pub user: UserName,
    /// Queue of the job.
    pub queue: QueueName,
    /// Priority; higher goes first.
    pub priority: i32,
    /// Fewest nodes that could host it in the idle cluster.
    pub fewest_nodes: u32,
    /// User whose earlier jobs predict its runtime; `None` if schedulers know the estimate only.
    pub predicted_by: Option<UserName>,
    /// Start that the trace recorded; `None` if it did not.
    pub recorded_start: Option<Time>,
}

impl FleetJob {
    /// Returns the time from submission to start that the trace recorded; `None` if it did not, or
    /// if that start is before the submission.
    #[must_use]
    pub fn recorded_wait(&self) -> Option<Span> {
        let start = self.recorded_start.filter(|start| *start >= self.submit)?;
        Some(start.since(self.submit))
    }

    /// Returns its size in thousandths of requested GPUs, or of CPUs where the cluster has no GPU.
    #[must_use]
    pub fn width_milli(&self, has_gpus: bool) -> u64 {
        u64::from(self.tasks)
            * u64::from(if has_gpus { self.asked_milli } else { self.task.cpus.0 })
    }
}

/// Jobs in order of arrival, and counts of those left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FleetLoad {
    /// Jobs that can run; runs share them.
    pub jobs: Arc<Vec<FleetJob>>,
    /// Jobs whose runtime the trace does not have: they never ran, or still run at its end.
    pub never_ran: u64,
    /// Jobs that exceed the idle cluster.
    pub too_large: u64,
    /// Jobs of unknown queues, which go to the default queue.
    pub strangers: u64,
}

impl FleetLoad {
    /// Returns the load of a trace on a site. If the trace gives the total of GPUs or processors
    /// but no placement (`as_tasks` is false), a job gets the fewest nodes that can host it, with
    /// equally many on each.
    #[must_use]
    pub fn of(trace: &[TraceJob], site: &FleetSite, estimates: Estimates, as_tasks: bool) -> Self {
        let mut loading = Loading::new(site, estimates, as_tasks);
        trace.iter().for_each(|job| loading.add(job));
        loading.done()
    }

    /// Makes arrivals `factor` times as fast.
    #[must_use]
    pub fn at(mut self, factor: f64) -> Self {
        arrivals::shorten_intervals(
            Arc::make_mut(&mut self.jobs).iter_mut().map(|job| &mut job.submit),
            factor,
        );
        self
    }

    /// Replaces estimates by overestimates: each drawn from the runtime up to five times that, in
    /// order.
    #[must_use]
    pub fn with_noise(mut self, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        for job in Arc::make_mut(&mut self.jobs) {
            job.estimate = Some(arrivals::overestimated(job.runtime, &mut rng));
        }
        self
    }

    /// Returns the jobs for schedulers that give whole GPUs only: a job that requests a share holds
    /// a whole GPU.
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

/// Builder of a load, job by job, so that a trace need not be in memory beside it.
pub struct Loading<'s> {
    site: &'s FleetSite,
    estimates: Estimates,
    as_tasks: bool,
    /// User of jobs that name none.
    default_user: UserName,
    leaves: BTreeMap<String, QueueName>,
    shapes: JobShapes,
    jobs: Vec<FleetJob>,
    load: FleetLoad,
}

impl<'s> Loading<'s> {
    /// Starts without jobs; see [`FleetLoad::of`].
    #[must_use]
    pub fn new(site: &'s FleetSite, estimates: Estimates, as_tasks: bool) -> Self {
        Self {
            site,
            estimates,
            as_tasks,
            default_user: "all".into(),
            leaves: leaves(site),
            shapes: JobShapes::new(Pool::new(&site.nodes)),
            jobs: Vec::new(),
            load: FleetLoad::default(),
        }
    }

    /// Adds a job; the order does not matter.
    pub fn add(&mut self, job: &TraceJob) {
        // 1. Its runtime.
        let Some(runtime) = job.runtime else {
            self.load.never_ran += 1;
            return;
        };
        // 2. Its shape, if it fits.
        let Some((tasks, (task, fewest_nodes))) = self.shape(job) else {
            self.load.too_large += 1;
            return;
        };
        // 3. Its user and queue.
        let queue = job.queue.as_deref().and_then(|queue| self.leaves.get(queue));
        self.load.strangers += u64::from(job.queue.is_some() && queue.is_none());
        let estimate = match self.estimates {
            Estimates::Requested | Estimates::Predicted => job.requested,
            Estimates::Actual => Some(runtime),
        };
        let user = job.user.as_ref().or(job.queue.as_ref());
        let user =
            user.map_or_else(|| self.default_user.clone(), |user| UserName(Arc::clone(user)));
        let is_predicted = self.site.tree.estimates == PlannedRuntimes::Predicted;
        self.jobs.push(FleetJob {
            id: Arc::clone(&job.id),
            submit: job.submit,
            runtime: estimate.map_or(runtime, |estimate| runtime.min(estimate)),
            estimate,
            tasks,
            asked_milli: task.gpu.milli().0,
            task,
            predicted_by: is_predicted.then(|| user.clone()),
            user,
            queue: queue.unwrap_or(&self.site.tree.default_queue).clone(),
            priority: job.priority,
            fewest_nodes,
            recorded_start: job.started,
        });
    }

    /// Returns whether the idle cluster can host the job.
    pub(super) fn can_host(&mut self, job: &TraceJob) -> bool {
        self.shape(job).is_some()
    }

    /// Returns the GPUs of a job × its runtime, or its CPUs × runtime where the site has no GPU, in
    /// thousandths × milliseconds; 0 without a runtime.
    pub(super) fn gpu_time(&self, job: &TraceJob) -> u128 {
        let milli = if self.site.has_gpus() { job.task.gpu.milli().0 } else { job.task.cpus.0 };
        let millis = job.runtime.unwrap_or_default().0;
        u128::from(job.tasks) * u128::from(milli) * u128::from(millis)
    }

    /// Returns the number of tasks of a job and their shape; `None` if it does not fit.
    fn shape(&mut self, job: &TraceJob) -> Option<(u32, Fitting)> {
        if self.as_tasks {
            self.shapes.fitting(job.tasks, &job.task).map(|fitting| (job.tasks, fitting))
        } else {
            self.shapes.gather_tasks(job.tasks, &job.task)
        }
    }

    /// Returns all jobs, in order of arrival.
    #[must_use]
    pub fn done(mut self) -> FleetLoad {
        self.jobs.sort_by_key(|job| job.submit);
        FleetLoad { jobs: Arc::new(self.jobs), ..self.load }
    }
}

/// A shape that fits: shared resources of each task, and the fewest nodes.
type Fitting = (Arc<Resources>, u32);

/// Shapes of jobs, each computed once.
struct JobShapes {
    pool: Pool,
    /// Results by tasks and their resources; `None` if the shape never fits.
    known: BTreeMap<(u32, Resources), Option<Fitting>>,
    /// Results for totals of single units, gathered on few nodes.
    gathered: BTreeMap<(u32, Resources), Option<(u32, Fitting)>>,
}

impl JobShapes {
    fn new(pool: Pool) -> Self {
        Self { pool, known: BTreeMap::new(), gathered: BTreeMap::new() }
    }

    fn fitting(&mut self, tasks: u32, task: &Resources) -> Option<Fitting> {
        let pool = &self.pool;
        let shape = self.known.entry((tasks, task.clone())).or_insert_with_key(|(tasks, task)| {
            pool.has_capacity(task, *tasks)
                .then(|| (Arc::new(task.clone()), fewest(pool, task, *tasks)))
        });
        shape.clone()
    }

    /// Gathers tasks of one GPU (or processor) on the fewest nodes that can host them with equally
    /// many on each. Other tasks stay as they are.
    fn gather_tasks(&mut self, tasks: u32, task: &Resources) -> Option<(u32, Fitting)> {
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

/// Returns `count` tasks as one.
fn times(task: &Resources, count: u32) -> Resources {
    let mut gpu = task.gpu.clone();
    gpu.devices = gpu.devices.saturating_mul(count);
    let cpus = CpuMilli(task.cpus.0.saturating_mul(count));
    let memory = Bytes(task.memory.0.saturating_mul(u64::from(count)));
    Resources { gpu, cpus, memory, extras: task.extras.clone() }
}

/// Returns the fewest nodes that could host the tasks if all were idle, taking the roomiest first.
fn fewest(pool: &Pool, task: &Resources, tasks: u32) -> u32 {
    let mut capacities: Vec<u32> =
        pool.nodes().map(|(_, node)| node.capacity(task, tasks)).collect();
    capacities.sort_unstable_by(|one, other| other.cmp(one));
    let mut left = tasks;
    let mut nodes = 0;
    for capacity in capacities {
        if left == 0 {
            break;
        }
        (left, nodes) = (left.saturating_sub(capacity), nodes + 1);
    }
    nodes
}

/// Returns leaf queues by path, and by name where it is unique.
fn leaves(site: &FleetSite) -> BTreeMap<String, QueueName> {
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
        if queue.queues.is_empty() {
            paths.push((path, queue.name.to_string()))
        } else {
            walk(&queue.queues, &path, paths)
        }
    }
}

#[cfg(test)]
mod tests {
    use muster_model::{Device, NodeSpec};

    use super::*;

    /// Nodes with this many GPUs and 64 CPUs each.
    fn shapes(gpus: &[usize]) -> JobShapes {
        let device = Device::declared("a100", Bytes(0));
        let node = |(at, gpus): (usize, &usize)| NodeSpec {
            devices: vec![device.clone(); *gpus],
            ..NodeSpec::plain(format!("n{at}"), CpuMilli(64_000), Bytes(0))
        };
        let nodes: Vec<NodeSpec> = gpus.iter().enumerate().map(node).collect();
        JobShapes::new(Pool::new(&nodes))
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
            let got = shapes(nodes).gather_tasks(tasks, &task);
            let got = got.map(|(nodes, (task, _))| (nodes, task.gpu.devices, task.cpus.0));
            assert_eq!(got, found, "{nodes:?}: {tasks} of {task:?}");
        }
    }
}
