//! Finds changes with which a pending job would start now, by simulation in Muster's own engine: it
//! is given Slurm's nodes, the running jobs with their ends, the jobs before this one, and the GPUs
//! that limits leave. No change is reported where the engine's state differs from Slurm's;
//! reservations are not modelled.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_engine::Engine;
use muster_model::job::{GpuRequest, Resources, TaskGroup};
use muster_model::queue::Backfill;
use muster_model::view::JobChange;
use muster_model::{
    Attempt, AttemptId, Bytes, CpuMilli, Decision, Device, DeviceSet, ElementId, Event, GpuMilli,
    JobId, JobSpec, NodeId, NodeSpec, Plan, QueueTree, Span, TaskPlacement, Time,
};
use muster_slurm::gres;
use muster_slurm::job::NativeJob;
use muster_slurm::node::NativeNode;

use super::headroom::Headroom;

/// Maximum number of jobs before it that are simulated: each costs a pass, and those far before it
/// matter little.
const MAX_PENDING_BEFORE: usize = 200;
const MINUTE: Span = Span::from_secs(60);

/// Returns changes that would each start the job now. `ahead` are the pending jobs before it in
/// order; `bound` is what a limit on the job leaves it.
pub(super) fn sooner(
    row: &NativeJob,
    bound: Option<Headroom>,
    all: &[NativeJob],
    ahead: &[&NativeJob],
    hosts: &[NativeNode],
    now: Time,
) -> Vec<JobChange> {
    // 1. Build the nodes of its partitions, with the running jobs.
    let shares = |partition: &str| row.partition.split(',').any(|own| own == partition);
    let of_its: Vec<&NativeNode> = hosts
        .iter()
        .filter(|host| {
            host.takes_work() && host.partitions.iter().any(|partition| shares(partition))
        })
        .collect();
    let Some(mut picture) = EngineReplica::of(&of_its, now) else { return Vec::new() };
    let is_there =
        all.iter().filter(|other| !other.nodes.is_empty() && !other.state.state(false).is_final());
    if !is_there.into_iter().all(|other| picture.place(other)) || !picture.matches_usage(&of_its) {
        return Vec::new();
    }
    // 2. Add the jobs before it. A job that could start and does not is held back by something that
    // is not modelled.
    for other in ahead.iter().take(MAX_PENDING_BEFORE).filter(|other| waits_for_resources(other)) {
        let Some(spec) = job_of_row(other) else { continue };
        picture.submit(spec);
    }
    // A shorter job can be backfilled before their planned starts.
    picture.engine.plan(now);
    // 3. Collect the changes. If the job would start unchanged, Slurm has a reason that the engine
    // does not model.
    let Some(spec) = job_of_row(row) else { return Vec::new() };
    // Starts planned by Slurm must not be delayed either.
    let planned = ahead.iter().filter_map(|other| other.start).min().map(|start| start.since(now));
    let found = match bound {
        None => picture
            .changes(&spec)
            .into_iter()
            .filter_map(|change| ends_before(change, None))
            .collect(),
        Some(bound) => {
            let tried = variants_within(&spec, bound);
            tried
                .iter()
                .filter_map(|(spec, change)| picture.change_that_starts(spec, change))
                .collect::<Vec<_>>()
        }
    };
    found
        .into_iter()
        .filter_map(|change| ends_before(change, planned.or(Some(Span(u64::MAX)))))
        .collect()
}

/// Rounds a time limit down to whole minutes, as Slurm counts, and to a minute before the next
/// planned start: Slurm reserves nodes from the minute of a planned start, and schedules at
/// intervals. Without a planned start the limit itself is the bound.
fn ends_before(change: JobChange, then: Option<Span>) -> Option<JobChange> {
    let JobChange::TimeLimit { limit } = change else { return Some(change) };
    let limit = limit.0.min(then.unwrap_or(limit).0.saturating_sub(MINUTE.0)) / MINUTE.0 * MINUTE.0;
    (limit > 0).then_some(JobChange::TimeLimit { limit: Span(limit) })
}

/// Returns whether the job waits only for resources and its priority.
pub(super) fn waits_for_resources(row: &NativeJob) -> bool {
    matches!(row.reason.as_str(), "" | "None" | "Priority" | "Resources")
}

/// Returns the largest variants of the job that the limit permits, each with its change.
fn variants_within(spec: &JobSpec, bound: Headroom) -> Vec<(JobSpec, JobChange)> {
    let [group] = &spec.groups[..] else { return Vec::new() };
    let nodes = group.max_tasks;
    let each = group.task.gpu.devices;
    let fewer_nodes = |fewer: Option<u32>| {
        let fewer = fewer.filter(|fewer| (1..nodes).contains(fewer))?;
        let mut group = TaskGroup::of("main", fewer, group.task.clone());
        group.tasks_per_node = Some(1);
        Some((JobSpec { groups: vec![group], ..spec.clone() }, JobChange::Nodes { nodes: fewer }))
    };
    let fewer_gpus = |fewer: Option<u32>| {
        let fewer = fewer.filter(|fewer| (1..each).contains(fewer))?;
        let mut group = group.clone();
        group.task.gpu.devices = fewer;
        let change = JobChange::GpusPerTask { gpus: fewer, per_node: Some(fewer) };
        Some((JobSpec { groups: vec![group], ..spec.clone() }, change))
    };
    let shorter = |limit| {
        (JobSpec { time_limit: Some(limit), ..spec.clone() }, JobChange::TimeLimit { limit })
    };
    match bound {
        Headroom::Gpus(gpus) => {
            let found = [fewer_nodes(gpus.checked_div(each)), fewer_gpus(gpus.checked_div(nodes))];
            found.into_iter().flatten().collect()
        }
        Headroom::Nodes(nodes) => fewer_nodes(Some(nodes)).into_iter().collect(),
        Headroom::Time(limit) => vec![shorter(limit)],
    }
}

/// Engine with the state of Slurm's cluster.
struct EngineReplica {
    engine: Engine,
    nodes: BTreeMap<String, NodeId>,
    now: Time,
    last: u64,
}

impl EngineReplica {
    fn of(hosts: &[&NativeNode], now: Time) -> Option<Self> {
        // As in Slurm's backfill, every job before it has a planned start.
        let backfill = Backfill::Conservative { depth: MAX_PENDING_BEFORE as u32 };
        let mut engine = Engine::new(QueueTree { backfill, ..QueueTree::single() }).ok()?;
        let mut nodes = BTreeMap::new();
        for (at, host) in hosts.iter().enumerate() {
            let event = Event::NodeJoined(Box::new(node(host)));
            engine.validate(&event).ok()?;
            engine.apply(now, &event);
            nodes.insert(host.name.clone(), NodeId(u32::try_from(at).ok()?));
        }
        Some(Self { engine, nodes, now, last: 0 })
    }

    fn submit(&mut self, spec: JobSpec) -> Option<JobId> {
        let job = JobId(self.last + 1);
        let event = Event::Submitted { job, spec: Arc::new(spec) };
        self.engine.validate(&event).ok()?;
        self.engine.apply(self.now, &event);
        self.last = job.0;
        Some(job)
    }

    /// Places a job where Slurm has it. Returns false where it does not fit: then the engine's
    /// state is not Slurm's.
    fn place(&mut self, row: &NativeJob) -> bool {
        // 1. Collect its part on each of the nodes.
        let names = muster_spec::expand_names(&row.nodes).unwrap_or_default();
        let count = u32::try_from(names.len()).unwrap_or(u32::MAX).max(1);
        let mut groups: Vec<TaskGroup> = Vec::new();
        let mut placement = Vec::new();
        for (at, name) in names.iter().enumerate() {
            let Some(node) = self.nodes.get(name) else { continue };
            let numbers =
                row.gres_by_node.get(at).map(|gres| gres::devices(gres)).unwrap_or_default();
            let devices: DeviceSet = numbers.iter().map(|number| usize::from(*number)).collect();
            let gpus = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
            let share = GpuMilli(if gpus > 0 { 1000 } else { 0 });
            placement.push(TaskPlacement {
                group: groups.len() as u16,
                node: *node,
                devices,
                share,
            });
            groups.push(TaskGroup::of(
                name.as_str(),
                1,
                part(row.cpus, &row.tres_allocated, gpus, count),
            ));
        }
        if groups.is_empty() {
            return true;
        }
        // 2. Start it with its remaining time.
        let rest = row.end.map(|end| Span(end.0.saturating_sub(self.now.0).max(1000)));
        let spec =
            JobSpec { time_limit: rest, ..JobSpec::plain(row.name.as_str(), "slurm", groups) };
        let Some(job) = self.submit(spec) else { return false };
        let id = AttemptId { element: ElementId { job, index: 0 }, attempt: Attempt(1) };
        let start = Decision::Start { id, placement: placement.into(), backfilled: false };
        let plan = Plan { decisions: vec![start], ..Plan::default() };
        let fits = self.engine.check(self.now, &plan).is_ok();
        if fits {
            self.engine.commit(self.now, &plan);
        }
        fits
    }

    /// Returns changes that would each start the job now.
    fn changes(&mut self, spec: &JobSpec) -> Vec<JobChange> {
        let shown = |change: &JobChange| {
            matches!(
                change,
                JobChange::Tasks { .. }
                    | JobChange::Nodes { .. }
                    | JobChange::GpusPerTask { .. }
                    | JobChange::TimeLimit { .. }
            )
        };
        self.engine.explain_submission(self.now, spec).sooner.into_iter().filter(shown).collect()
    }

    /// Returns the change that made this variant if it would start now, else a larger change of the
    /// same kind.
    fn change_that_starts(&mut self, spec: &JobSpec, change: &JobChange) -> Option<JobChange> {
        let explained = self.engine.explain_submission(self.now, spec);
        if explained.reasons.is_empty() && explained.eta.is_some_and(|eta| eta.start <= self.now) {
            return Some(change.clone());
        }
        let is_kind =
            |other: &JobChange| std::mem::discriminant(other) == std::mem::discriminant(change);
        explained.sooner.into_iter().find(is_kind).and_then(|change| ends_before(change, None))
    }

    /// Returns whether the engine and Slurm have the same number of free GPUs on each node.
    fn matches_usage(&self, hosts: &[&NativeNode]) -> bool {
        let views = self.engine.nodes();
        hosts.iter().all(|host| {
            let view = views.iter().find(|view| view.name.as_str() == host.name);
            let used =
                view.map(|view| view.devices.iter().filter(|device| device.used.0 > 0).count());
            used == Some((host.gpu_count() - host.gpus_free()) as usize)
        })
    }
}

fn node(host: &NativeNode) -> NodeSpec {
    let device = |kind: &str| Device {
        model: kind.into(),
        memory: Bytes(0),
        uuid: "".into(),
        is_virtual: true,
        slice_of: None,
    };
    let of_kind =
        |(kind, count): &(String, u32)| std::iter::repeat_n(device(kind), *count as usize);
    NodeSpec {
        name: host.name.as_str().into(),
        devices: host.gpus.iter().flat_map(of_kind).take(DeviceSet::MAX_DEVICES).collect(),
        cpus: CpuMilli(host.cpus.saturating_mul(1000)),
        memory: Bytes(host.memory_mebibytes << 20),
        extras: BTreeMap::new(),
        labels: BTreeMap::new(),
        domains: Vec::new(),
    }
}

/// Returns the job's resources on one of `parts` equal parts.
fn part(cpus: u32, tres: &str, gpus: u32, parts: u32) -> Resources {
    Resources {
        gpu: GpuRequest::whole(gpus),
        cpus: CpuMilli(cpus.saturating_mul(1000) / parts),
        memory: Bytes(muster_slurm::tres::memory(tres).0 / u64::from(parts)),
        extras: BTreeMap::new(),
    }
}

/// Builds a job from a pending row's request; `None` where Slurm's answer is incomplete.
fn job_of_row(row: &NativeJob) -> Option<JobSpec> {
    let nodes = row.node_count.max(1);
    let gpus = muster_slurm::tres::gpus(&row.tres_requested);
    // GPUs that the nodes do not divide evenly have no known distribution.
    if !gpus.is_multiple_of(nodes) {
        return None;
    }
    let mut group =
        TaskGroup::of("main", nodes, part(row.cpus, &row.tres_requested, gpus / nodes, nodes));
    group.tasks_per_node = Some(1);
    let kind = |part: &str| Some(part.strip_prefix("gres/gpu:")?.split('=').next()?.to_owned());
    group.task.gpu.models =
        row.tres_requested.split(',').filter_map(kind).map(|kind| kind.as_str().into()).collect();
    Some(JobSpec {
        time_limit: row.time_limit,
        ..JobSpec::plain(row.name.as_str(), "slurm", vec![group])
    })
}

#[cfg(test)]
mod tests {
    use muster_slurm::state::NativeState;

    use super::*;

    const NOW: Time = Time(1_000_000);
    const HOUR: u64 = 3_600_000;

    /// Returns four nodes with 8 GPUs, of which the first `held` are in use.
    fn hosts(held: u32) -> Vec<NativeNode> {
        let host = |at: u32| NativeNode {
            name: format!("n{at}"),
            state: "IDLE".to_owned(),
            partitions: vec!["gpu".to_owned()],
            cpus: 64,
            memory_mebibytes: 512 << 10,
            gpus: vec![("h100".to_owned(), 8)],
            gpus_used: if at <= held { (0..8).collect() } else { Vec::new() },
            ..NativeNode::default()
        };
        (1..=4).map(host).collect()
    }

    fn waiting(nodes: u32, hours: u64) -> NativeJob {
        NativeJob {
            id: 9,
            name: "waits".to_owned(),
            partition: "gpu".to_owned(),
            state: NativeState::new(["PENDING"]),
            reason: "Resources".to_owned(),
            node_count: nodes,
            cpus: 8 * nodes,
            tres_requested: format!(
                "cpu={},mem={}G,node={nodes},billing=1,gres/gpu={}",
                8 * nodes,
                64 * nodes,
                8 * nodes
            ),
            time_limit: Some(Span(hours * HOUR)),
            ..NativeJob::default()
        }
    }

    /// Returns a job on the first two nodes with one hour left.
    fn running() -> NativeJob {
        NativeJob {
            id: 1,
            name: "runs".to_owned(),
            partition: "gpu".to_owned(),
            state: NativeState::new(["RUNNING"]),
            nodes: "n[1-2]".to_owned(),
            node_count: 2,
            cpus: 128,
            tres_allocated: "cpu=128,mem=1T,node=2,gres/gpu=16".to_owned(),
            gres_by_node: vec!["gpu:h100:8(IDX:0-7)".to_owned(); 2],
            end: Some(Time(NOW.0 + HOUR)),
            ..NativeJob::default()
        }
    }

    #[test]
    fn fewer_nodes_start_now() {
        let changes = sooner(&waiting(3, 5), None, &[running()], &[], &hosts(2), NOW);
        assert_eq!(changes, [JobChange::Nodes { nodes: 2 }]);
    }

    #[test]
    fn a_shorter_job_ends_before_those_before_it_start() {
        let first = NativeJob { id: 8, ..waiting(4, 5) };
        let changes =
            sooner(&waiting(2, 5), None, &[running(), first.clone()], &[&first], &hosts(2), NOW);
        let [JobChange::TimeLimit { limit }] = changes.as_slice() else { panic!("{changes:?}") };
        assert!(
            limit.0.is_multiple_of(60_000) && (HOUR - 180_000..=HOUR - 60_000).contains(&limit.0),
            "{limit}"
        );
        // Slurm has planned it for earlier than the engine has.
        let sooner_planned =
            NativeJob { start: Some(Time(NOW.0 + HOUR / 2 + 30_000)), ..first.clone() };
        let changes = sooner(
            &waiting(2, 5),
            None,
            &[running(), sooner_planned.clone()],
            &[&sooner_planned],
            &hosts(2),
            NOW,
        );
        assert_eq!(changes, [JobChange::TimeLimit { limit: Span(HOUR / 2 - 60_000) }]);
        // A job that waits for a limit does not reserve nodes.
        let held = NativeJob { reason: "QOSMaxGRESPerUser".to_owned(), ..first };
        assert_eq!(
            sooner(&waiting(2, 5), None, &[running(), held.clone()], &[&held], &hosts(2), NOW),
            []
        );
    }

    #[test]
    fn a_job_that_a_limit_keeps_is_made_as_small_as_the_limit_and_the_nodes_want() {
        // 32 GPUs are requested, 16 are free on two nodes.
        let changes = |left| {
            sooner(&waiting(4, 5), Some(Headroom::Gpus(left)), &[running()], &[], &hosts(2), NOW)
        };
        assert_eq!(changes(10), [JobChange::Nodes { nodes: 1 }]);
        assert_eq!(changes(24), [JobChange::Nodes { nodes: 2 }]);
        assert_eq!(changes(3), []);
        let free = sooner(&waiting(4, 5), Some(Headroom::Gpus(10)), &[], &[], &hosts(0), NOW);
        let fewer_gpus = JobChange::GpusPerTask { gpus: 2, per_node: Some(2) };
        assert_eq!(free, [JobChange::Nodes { nodes: 1 }, fewer_gpus]);
    }

    #[test]
    fn a_time_limit_that_is_too_long_is_cut_to_what_is_allowed_or_planned() {
        let changes = |first: &NativeJob| {
            let all = [running(), first.clone()];
            sooner(
                &waiting(2, 5),
                Some(Headroom::Time(Span(HOUR / 3))),
                &all,
                &[first],
                &hosts(2),
                NOW,
            )
        };
        let first = NativeJob { id: 8, ..waiting(4, 5) };
        assert_eq!(changes(&first), [JobChange::TimeLimit { limit: Span(HOUR / 3) }]);
        let soon = NativeJob { start: Some(Time(NOW.0 + HOUR / 4)), ..first };
        assert_eq!(changes(&soon), [JobChange::TimeLimit { limit: Span(HOUR / 4 - 60_000) }]);
    }

    #[test]
    fn nothing_is_claimed_of_a_picture_that_is_not_slurms() {
        // A third node is in use by an unknown job.
        assert_eq!(sooner(&waiting(3, 5), None, &[running()], &[], &hosts(3), NOW), []);
        // Two jobs hold the same devices.
        assert_eq!(sooner(&waiting(3, 5), None, &[running(), running()], &[], &hosts(2), NOW), []);
    }
}
