//! The sizes of a gang in Slurm's words: nodes, tasks per node, GPUs per node or task. One request
//! for roles that need the same; roles that differ are components of a heterogeneous job.

use muster_model::slurm::{GroupOptions, SlurmOptions};
use muster_model::{JobSpec, Kind, TaskGroup};

use super::request::{Directive, Unfit};

/// Bytes of what sbatch calls `M`.
const MEBIBYTE: u64 = 1 << 20;

/// One component of a job: roles that ask for the same, in one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Component {
    /// Its roles: name, first rank, tasks.
    pub(super) roles: Vec<Role>,
    /// Tasks on each node, where that is fixed.
    pub(super) tasks_per_node: Option<u32>,
    /// GPUs of each task.
    pub(super) gpus_per_task: u32,
    /// CPUs of each task; 0 is what the cluster gives.
    pub(super) cpus_per_task: u32,
    /// What is asked for.
    pub(super) directives: Vec<Directive>,
    /// Where it waits, where that is said of it alone.
    pub(super) own: GroupOptions,
}

/// Ranks that run the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) name: String,
    pub(super) first_rank: u32,
    pub(super) tasks: u32,
}

/// The components of a gang.
pub(super) fn components(
    spec: &JobSpec,
    slurm: &SlurmOptions,
    warnings: &mut Vec<String>,
    unfit: &mut Vec<Unfit>,
) -> Vec<Component> {
    let mut components: Vec<(TaskGroup, Component)> = Vec::new();
    let mut rank = 0;
    for group in &spec.groups {
        let role = Role { name: group.name.to_string(), first_rank: rank, tasks: group.min_tasks };
        rank += group.min_tasks;
        // Roles side by side that need the same are one allocation; their ranks stay in order.
        let own = slurm.groups.get(&group.name).cloned().unwrap_or_default();
        let same = |known: &TaskGroup| {
            known.task == group.task && known.tasks_per_node == group.tasks_per_node
        };
        match components.last_mut().filter(|(known, component)| same(known) && component.own == own)
        {
            Some((known, component)) => {
                (known.min_tasks, known.max_tasks) =
                    (known.min_tasks + group.min_tasks, known.max_tasks + group.max_tasks);
                component.roles.push(role);
            }
            None => components.push((
                group.clone(),
                Component {
                    roles: vec![role],
                    tasks_per_node: group.tasks_per_node,
                    gpus_per_task: group.task.gpu.devices,
                    cpus_per_task: group.task.cpus.0.div_ceil(1000),
                    directives: Vec::new(),
                    own,
                },
            )),
        }
    }
    let elastic = spec.elastic();
    let is_alone =
        components.len() == 1 && components.iter().all(|(_, component)| component.roles.len() == 1);
    for (group, component) in &mut components {
        if !is_alone {
            group.max_tasks = group.min_tasks;
        }
        // A task by itself lies on one node.
        component.tasks_per_node = component.tasks_per_node.or((group.max_tasks == 1).then_some(1));
    }
    // sbatch refuses memory by node in one component beside memory by CPU in another (tried on
    // 22.05).
    let is_by_cpu = components
        .iter()
        .any(|(group, component)| component.tasks_per_node.is_none() && group.task.memory.0 > 0);
    for (group, component) in &mut components {
        component.directives = sizes(group, component, is_by_cpu, unfit);
    }
    if let Some(elastic) = elastic.filter(|_| {
        components
            .iter()
            .any(|(group, _)| group.min_tasks == group.max_tasks || group.tasks_per_node.is_none())
    }) {
        warnings.push(format!(
            "Slurm fixes the number of tasks at submission: it runs with {}, not with up to {}; `nodes` with `min-nodes` leaves \
             the choice to Slurm",
            elastic.min, elastic.max
        ));
    }
    if let Kind::Service(_) = spec.kind {
        // A replica is an element of an array; arrays of several components do not exist in Slurm.
        refuse_several(&components, "a service", unfit);
    }
    if spec.array.is_some() {
        refuse_several(&components, "an array", unfit);
    }
    components.into_iter().map(|(_, component)| component).collect()
}

fn refuse_several(components: &[(TaskGroup, Component)], what: &str, unfit: &mut Vec<Unfit>) {
    if components.len() > 1 {
        unfit.push(Unfit::new(
            format!("{what} whose roles need different resources: Slurm has no arrays of heterogeneous jobs"),
            "submit its elements one by one, or give every role the same resources",
        ));
    }
}

fn sizes(
    group: &TaskGroup,
    component: &Component,
    is_by_cpu: bool,
    unfit: &mut Vec<Unfit>,
) -> Vec<Directive> {
    let mut directives = Vec::new();
    let mut set = |name, value: String| directives.push(Directive::new(name, value));
    let tasks = group.min_tasks;
    // 1. Nodes and tasks.
    match component.tasks_per_node {
        Some(per_node) => {
            let most = group.max_tasks / per_node;
            let nodes = match (tasks / per_node, most) {
                (fewest, most) if fewest == most => fewest.to_string(),
                (fewest, most) => format!("{}-{most}", fewest.max(1)),
            };
            set("nodes", nodes);
            set("ntasks-per-node", per_node.to_string());
        }
        None => {
            set("ntasks", tasks.to_string());
        }
    }
    if component.cpus_per_task > 0 {
        set("cpus-per-task", component.cpus_per_task.to_string());
    }
    // 2. GPUs.
    let gpu = &group.task.gpu;
    if gpu.share.0 > 0 {
        unfit.push(Unfit::new(
            "a share of a GPU: what Slurm counts as `shard` or `mps` differs from site to site",
            "ask for whole GPUs, or for shards with `extras: {shard: 4}` where the site has them",
        ));
    }
    let typed = |count: u32| match gpu.models.as_slice() {
        [] => count.to_string(),
        [model, ..] => format!("{model}:{count}"),
    };
    if gpu.models.len() > 1 {
        unfit.push(Unfit::new(
            "several GPU models: Slurm takes one type per request",
            "name one model, or leave `gpu` out and choose by `slurm: {constraint: \"[a100|h100]\"}` where nodes have such features",
        ));
    }
    match (gpu.devices, component.tasks_per_node) {
        (0, _) => {}
        (devices, Some(per_node)) => set("gpus-per-node", typed(devices * per_node)),
        (devices, None) => set("gpus-per-task", typed(devices)),
    }
    // 3. Memory, rounded up to what sbatch counts in.
    let mebibytes = group.task.memory.0.div_ceil(MEBIBYTE);
    match component.tasks_per_node {
        _ if mebibytes == 0 => {}
        Some(per_node) if !is_by_cpu => set("mem", format!("{}M", mebibytes * u64::from(per_node))),
        _ => set(
            "mem-per-cpu",
            format!("{}M", mebibytes.div_ceil(u64::from(component.cpus_per_task.max(1)))),
        ),
    }
    // 4. Other resources of nodes.
    directives.extend(gres(group, component, unfit));
    directives
}

/// Other resources, which Slurm counts per node.
fn gres(group: &TaskGroup, component: &Component, unfit: &mut Vec<Unfit>) -> Option<Directive> {
    let Some(per_node) = component.tasks_per_node else {
        let (name, count) = group.task.extras.first_key_value()?;
        unfit.push(Unfit::new(
            format!("`extras: {{{name}: {count}}}` of tasks that go anywhere: Slurm counts them per node"),
            "say how many tasks a node gets: `nodes` and `tasks-per-node`",
        ));
        return None;
    };
    let extras = group
        .task
        .extras
        .iter()
        .map(|(name, count)| format!("{name}:{}", count * u64::from(per_node)));
    let extras: Vec<String> = extras.collect();
    (!extras.is_empty()).then(|| Directive::new("gres", extras.join(",")))
}
