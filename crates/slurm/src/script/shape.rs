//! Sizes of a gang in Slurm's terms: nodes, tasks per node, GPUs per node or task. Roles with the
//! same request share one component; roles that differ are components of a heterogeneous job.

use muster_model::slurm::{GroupOptions, SlurmOptions};
use muster_model::{JobSpec, TaskGroup, Unsupported, WorkloadKind};

use super::directive::Directive;

/// Bytes of sbatch's unit `M`.
const MEBIBYTE: u64 = 1 << 20;

/// Component of a job: roles with the same request, in one allocation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Component {
    /// Roles with their ranks.
    pub(super) roles: Vec<RankRange>,
    /// Number of tasks per node, where fixed.
    pub(super) tasks_per_node: Option<u32>,
    /// Number of GPUs per task.
    pub(super) gpus_per_task: u32,
    /// Number of CPUs per task; 0 is the cluster's default.
    pub(super) cpus_per_task: u32,
    /// Options of the component.
    pub(super) directives: Vec<Directive>,
    /// Partition and constraint options of this component only.
    pub(super) own: GroupOptions,
}

/// Consecutive ranks with the same program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RankRange {
    pub(super) name: String,
    pub(super) first_rank: u32,
    pub(super) tasks: u32,
}

/// Returns the components of a gang.
pub(super) fn components(
    spec: &JobSpec,
    slurm: &SlurmOptions,
    warnings: &mut Vec<String>,
    unfit: &mut Vec<Unsupported>,
) -> Vec<Component> {
    let mut components = merged_roles(spec, slurm);
    let elastic = spec.elastic();
    let is_alone =
        components.len() == 1 && components.iter().all(|(_, component)| component.roles.len() == 1);
    for (group, component) in &mut components {
        if !is_alone {
            group.max_tasks = group.min_tasks;
        }
        // A single task is on one node.
        component.tasks_per_node = component.tasks_per_node.or((group.max_tasks == 1).then_some(1));
    }
    // sbatch refuses memory per node in one component together with memory per CPU in another
    // (tested on 22.05).
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
            "Slurm fixes the number of tasks at submission: the job runs with {} instead of up to {}; use `nodes` with `min-nodes` to leave \
             the choice to Slurm",
            elastic.min, elastic.max
        ));
    }
    if let WorkloadKind::Service(_) = spec.kind {
        // A replica is an element of an array; Slurm has no arrays of heterogeneous jobs.
        refuse_several(&components, "a service", unfit);
    }
    if spec.array.is_some() {
        refuse_several(&components, "an array", unfit);
    }
    components.into_iter().map(|(_, component)| component).collect()
}

/// Merges adjacent roles with the same request into components, each with the group of its sizes.
fn merged_roles(spec: &JobSpec, slurm: &SlurmOptions) -> Vec<(TaskGroup, Component)> {
    let mut components: Vec<(TaskGroup, Component)> = Vec::new();
    let mut rank = 0;
    for group in &spec.groups {
        let role =
            RankRange { name: group.name.to_string(), first_rank: rank, tasks: group.min_tasks };
        rank += group.min_tasks;
        // Adjacent roles with the same request share an allocation; their ranks stay in order.
        let own = slurm.groups.get(&group.name).cloned().unwrap_or_default();
        let same = |known: &TaskGroup| {
            known.task == group.task && known.tasks_per_node == group.tasks_per_node
        };
        match components.last_mut().filter(|(known, component)| same(known) && component.own == own)
        {
            Some((known, component)) => {
                known.min_tasks += group.min_tasks;
                known.max_tasks += group.max_tasks;
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
    components
}

fn refuse_several(components: &[(TaskGroup, Component)], what: &str, unfit: &mut Vec<Unsupported>) {
    if components.len() > 1 {
        unfit.push(Unsupported::new(
            format!("{what} whose roles need different resources: Slurm has no arrays of heterogeneous jobs"),
            "submit the elements separately, or request the same resources for every role",
        ));
    }
}

fn sizes(
    group: &TaskGroup,
    component: &Component,
    is_by_cpu: bool,
    unfit: &mut Vec<Unsupported>,
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
        unfit.push(Unsupported::new(
            "a share of a GPU: Slurm's `shard` and `mps` differ from site to site",
            "request whole GPUs, or shards with `extras: {shard: 4}` where the site has them",
        ));
    }
    let typed = |count: u32| match gpu.models.as_slice() {
        [] => count.to_string(),
        [model, ..] => format!("{model}:{count}"),
    };
    if gpu.models.len() > 1 {
        unfit.push(Unsupported::new(
            "several GPU models: Slurm takes one type per request",
            "name one model, or omit `gpu` and select by `slurm: {constraint: \"[a100|h100]\"}` where nodes have such features",
        ));
    }
    match (gpu.devices, component.tasks_per_node) {
        (0, _) => {}
        (devices, Some(per_node)) => set("gpus-per-node", typed(devices * per_node)),
        (devices, None) => set("gpus-per-task", typed(devices)),
    }
    // 3. Memory, rounded up to sbatch's unit.
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

/// Returns the option for other resources, which Slurm counts per node.
fn gres(
    group: &TaskGroup,
    component: &Component,
    unfit: &mut Vec<Unsupported>,
) -> Option<Directive> {
    let Some(per_node) = component.tasks_per_node else {
        let (name, count) = group.task.extras.first_key_value()?;
        unfit.push(Unsupported::new(
            format!("`extras: {{{name}: {count}}}` of tasks without a fixed node count: Slurm counts them per node"),
            "set the tasks per node with `nodes` and `tasks-per-node`",
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
