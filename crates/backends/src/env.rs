//! Computes the environment of one task from its gang's order and the leased rendezvous ports.
//!
//! Pure: it does not read this process's own environment. [`task_env`] documents each variable.

use std::collections::BTreeMap;

use crate::order::{GangOrder, TaskOrder};

/// Variable that tags every process of one task, so that they can be found where there is no
/// cgroup.
pub const TAG_VARIABLE: &str = "MUSTER_ATTEMPT_TAG";

/// Variable with the path of the pipe to which a task writes checkpoint acknowledgements.
pub const CHECKPOINT_VARIABLE: &str = "MUSTER_CHECKPOINT_FILE";

/// Variable with the path of the pipe to which rank 0 of an element of a sweep writes its metric.
pub const REPORT_VARIABLE: &str = "MUSTER_REPORT_FILE";

/// Variable with the names of the variables that are secrets, separated by commas: a job that is submitted from
/// inside of the task does not get their values, which would be stored with it.
pub const SECRETS_VARIABLE: &str = "MUSTER_SECRETS";

/// Variable with the index of the service replica that a task belongs to.
const REPLICA_VARIABLE: &str = "MUSTER_REPLICA";

/// Variable with the port on which a service replica must listen; the usual name on hosting
/// platforms.
const PORT_VARIABLE: &str = "PORT";

/// Variables that only Muster sets. They are removed from the submitter's environment first, so
/// that a job submitted from inside another job does not inherit that job's ranks and devices.
const OWNED: [&str; 34] = [
    "MASTER_ADDR",
    "MASTER_PORT",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "PET_NNODES",
    "PET_NPROC_PER_NODE",
    "PET_NODE_RANK",
    "PET_MASTER_ADDR",
    "PET_MASTER_PORT",
    "PET_RDZV_BACKEND",
    "PET_RDZV_ENDPOINT",
    "PET_RDZV_ID",
    "MUSTER_JOB_ID",
    "MUSTER_JOB_NAME",
    "MUSTER_TASK",
    "MUSTER_GROUP",
    "MUSTER_ATTEMPT",
    "MUSTER_ARRAY_INDEX",
    REPLICA_VARIABLE,
    "MUSTER_GPU_SHARE",
    "MUSTER_RESTART_COUNT",
    "MUSTER_LAST_CHECKPOINT",
    CHECKPOINT_VARIABLE,
    REPORT_VARIABLE,
    "CUDA_VISIBLE_DEVICES",
    "NVIDIA_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "GPU_DEVICE_ORDINAL",
    TAG_VARIABLE,
    SECRETS_VARIABLE,
];

/// Returns true for a variable that only Muster sets.
pub(crate) fn is_owned(name: &str) -> bool {
    OWNED.contains(&name)
}

/// Rendezvous of a gang: the address and ports at which its ranks connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendezvous {
    /// Host name or address of rank 0.
    pub address: String,
    /// One port per task group, in order of the group's first rank. The first is `MASTER_PORT`.
    pub ports: Vec<u16>,
}

/// Returns the names of the task groups of a gang, in order of first rank.
#[must_use]
pub fn groups(order: &GangOrder) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for task in &order.tasks {
        if !names.contains(&task.group.as_ref()) {
            names.push(&task.group);
        }
    }
    names
}

/// Returns the index of the task's group among the gang's groups, and of the task within its group.
#[must_use]
pub fn place_in_group(order: &GangOrder, task: &TaskOrder) -> (usize, usize) {
    let group = groups(order).iter().position(|name| *name == task.group.as_ref()).unwrap_or(0);
    let within = order
        .tasks
        .iter()
        .filter(|other| other.group == task.group && other.rank < task.rank)
        .count();
    (group, within)
}

/// Returns the whole environment of one task: the submitter's, overridden by Muster's own
/// variables.
///
/// | variable | meaning |
/// |---|---|
/// | `RANK`, `WORLD_SIZE` | this task among all tasks of the gang |
/// | `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | this task among the gang's tasks on its node |
/// | `NODE_RANK` | its node among the gang's nodes |
/// | `MASTER_ADDR`, `MASTER_PORT` | where rank 0 listens; the port is leased for this attempt |
/// | `PET_NNODES`, `PET_NODE_RANK` | torchrun's agents: one per task of this task's group. With one task per node (the default) that is the number of nodes |
/// | `PET_NPROC_PER_NODE` | workers per agent: the task's GPUs, at least 1 |
/// | `PET_MASTER_*`, `PET_RDZV_*` | rendezvous of the group's agents: a port per group, so that two roles can both use torchrun |
/// | `MUSTER_TASK`, `MUSTER_GROUP` | rank, and name of the role |
/// | `MUSTER_RESTART_COUNT` | attempts before this one; 0 in the first |
/// | `MUSTER_LAST_CHECKPOINT` | label of the last checkpoint acknowledged by an earlier attempt; absent without one |
/// | `MUSTER_CHECKPOINT_FILE` | pipe for checkpoint acknowledgements; set where the task is launched |
/// | `MUSTER_GPU_SHARE` | thousandths held of each visible device; absent without a device |
/// | `MUSTER_REPLICA`, `PORT` | for services: index of the replica, and the port on which its rank 0 must listen |
///
/// So `torchrun train.py` needs no argument with `nodes: 2, gpus: 8` (two agents of eight workers),
/// and with `tasks: 5, gpus-per-task: 1` (five agents of one worker); `python train.py` reads
/// `RANK` in the latter.
///
/// Visible devices: exactly the task's. NVIDIA devices go by UUID in `CUDA_` and
/// `NVIDIA_VISIBLE_DEVICES`; AMD devices by UUID in `ROCR_VISIBLE_DEVICES`, with
/// `CUDA_VISIBLE_DEVICES` counting what ROCr leaves visible, since HIP applies it on top; virtual
/// devices by index in all three. A task without a GPU gets an empty `CUDA_` and
/// `ROCR_VISIBLE_DEVICES` (no device, for both runtimes) and `NVIDIA_VISIBLE_DEVICES=void` (the
/// container toolkit's word for "as if there were no GPU").
#[must_use]
pub fn task_env(
    order: &GangOrder,
    task: &TaskOrder,
    rendezvous: &Rendezvous,
    tag: &str,
) -> BTreeMap<String, String> {
    let mut env = order.env.clone();
    for name in OWNED {
        env.remove(name);
    }
    let own = [
        rank_variables(order, task),
        rendezvous_variables(order, task, rendezvous),
        job_variables(order, task, tag),
        device_variables(task),
    ];
    env.extend(own.into_iter().flatten().map(|(name, value)| (name.to_owned(), value)));
    env
}

/// Name and value of one variable.
type Variable = (&'static str, String);

/// Returns the variables for the task's rank in the gang, on its node and in its group.
fn rank_variables(order: &GangOrder, task: &TaskOrder) -> Vec<Variable> {
    let (_, within) = place_in_group(order, task);
    let agents = order.tasks.iter().filter(|other| other.group == task.group).count();
    vec![
        ("RANK", task.rank.to_string()),
        ("WORLD_SIZE", order.tasks.len().to_string()),
        ("LOCAL_RANK", task.local_rank.to_string()),
        ("LOCAL_WORLD_SIZE", task.local_world_size.to_string()),
        ("NODE_RANK", task.node_rank.to_string()),
        ("PET_NNODES", agents.to_string()),
        ("PET_NODE_RANK", within.to_string()),
        ("PET_NPROC_PER_NODE", task.devices.len().max(1).to_string()),
    ]
}

/// Returns the variables for the rendezvous; none when no port was leased.
fn rendezvous_variables(
    order: &GangOrder,
    task: &TaskOrder,
    rendezvous: &Rendezvous,
) -> Vec<Variable> {
    let (group, _) = place_in_group(order, task);
    let (Some(master), Some(port)) = (rendezvous.ports.first(), rendezvous.ports.get(group)) else {
        return Vec::new();
    };
    let element = order.id.element;
    let id = format!("{}-{}-{}-{}", element.job, element.index, order.id.attempt, task.group);
    vec![
        ("MASTER_ADDR", rendezvous.address.clone()),
        ("MASTER_PORT", master.to_string()),
        ("PET_MASTER_ADDR", rendezvous.address.clone()),
        ("PET_MASTER_PORT", port.to_string()),
        ("PET_RDZV_BACKEND", "static".to_owned()),
        ("PET_RDZV_ENDPOINT", format!("{}:{port}", rendezvous.address)),
        ("PET_RDZV_ID", id),
    ]
}

/// Returns the variables for the identity of the task: job, attempt, array element, replica.
fn job_variables(order: &GangOrder, task: &TaskOrder, tag: &str) -> Vec<Variable> {
    let mut variables = vec![
        ("MUSTER_JOB_ID", order.id.element.job.to_string()),
        ("MUSTER_JOB_NAME", order.job_name.to_string()),
        ("MUSTER_TASK", task.rank.to_string()),
        ("MUSTER_GROUP", task.group.to_string()),
        ("MUSTER_ATTEMPT", order.id.attempt.to_string()),
        ("MUSTER_RESTART_COUNT", order.id.attempt.0.saturating_sub(1).to_string()),
        (TAG_VARIABLE, tag.to_owned()),
    ];
    if let Some(label) = &order.last_checkpoint {
        variables.push(("MUSTER_LAST_CHECKPOINT", label.to_string()));
    }
    if let Some(index) = order.array_index {
        variables.push(("MUSTER_ARRAY_INDEX", index.to_string()));
    }
    if let Some(replica) = order.replica {
        variables.push((REPLICA_VARIABLE, replica.index.to_string()));
        variables.extend(replica.port.map(|port| (PORT_VARIABLE, port.to_string())));
    }
    variables
}

/// Returns the variables for the devices that the task may use.
fn device_variables(task: &TaskOrder) -> Vec<Variable> {
    let visible = VisibleDevices::of(task);
    let mut variables = vec![
        ("CUDA_VISIBLE_DEVICES", visible.cuda),
        ("NVIDIA_VISIBLE_DEVICES", visible.nvidia),
        ("ROCR_VISIBLE_DEVICES", visible.rocr),
    ];
    if !task.devices.is_empty() {
        variables.push(("MUSTER_GPU_SHARE", task.share.0.to_string()));
    }
    variables
}

/// Values of the visible-devices variables.
struct VisibleDevices {
    cuda: String,
    nvidia: String,
    rocr: String,
}

impl VisibleDevices {
    fn of(task: &TaskOrder) -> Self {
        let names = task.device_names.iter().map(AsRef::as_ref).collect::<Vec<&str>>().join(",");
        if task.devices.is_empty() {
            Self { cuda: String::new(), nvidia: "void".to_owned(), rocr: String::new() }
        } else if task.virtual_devices {
            let indices =
                task.devices.iter().map(|index| index.to_string()).collect::<Vec<_>>().join(",");
            Self { cuda: indices.clone(), nvidia: indices.clone(), rocr: indices }
        } else if task.device_names.iter().all(|name| is_amd_uuid(name)) {
            let positions =
                (0..task.device_names.len()).map(|n| n.to_string()).collect::<Vec<_>>().join(",");
            Self { cuda: positions, nvidia: "void".to_owned(), rocr: names }
        } else {
            Self { cuda: names.clone(), nvidia: names, rocr: String::new() }
        }
    }
}

/// Returns the UUIDs of a task's NVIDIA GPUs; none for virtual and AMD devices.
#[must_use]
pub fn nvidia_uuids(task: &TaskOrder) -> Vec<String> {
    let names = task.device_names.iter().filter(|name| !task.virtual_devices && !is_amd_uuid(name));
    names.map(ToString::to_string).collect()
}

/// Returns true for the names that [`crate::gpu`] gives to AMD devices: `GPU-` and 16 hex digits,
/// as ROCr accepts them. NVIDIA's UUIDs have dashes.
fn is_amd_uuid(name: &str) -> bool {
    name.strip_prefix("GPU-")
        .is_some_and(|hex| hex.len() == 16 && hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use crate::order::{GangOrder, TaskOrder};
    use muster_model::payload::{Identity, TaskCommand};
    use muster_model::{
        Attempt, AttemptId, Bytes, CpuMilli, DeviceSet, ElementId, GpuMilli, JobId, Rank, Span,
    };

    use super::*;

    fn task(rank: u32, group: &str, devices: &[usize], names: &[&str]) -> TaskOrder {
        TaskOrder {
            rank: Rank(rank),
            group: group.into(),
            command: TaskCommand::Argv(vec!["true".into()]),
            node: "here".into(),
            node_rank: 0,
            local_rank: rank,
            local_world_size: 1,
            devices: devices.iter().copied().collect::<DeviceSet>(),
            device_names: names.iter().map(|name| (*name).into()).collect(),
            virtual_devices: false,
            share: GpuMilli(1000),
            cpus: CpuMilli(0),
            memory: Bytes(0),
        }
    }

    fn gang(mut tasks: Vec<TaskOrder>) -> GangOrder {
        let count = tasks.len() as u32;
        for task in &mut tasks {
            task.local_world_size = count;
        }
        GangOrder {
            id: AttemptId { element: ElementId { job: JobId(7), index: 3 }, attempt: Attempt(2) },
            job_name: "fsdp".into(),
            array_index: Some(3),
            identity: Identity { user: "ada".into(), uid: 1000, gid: 1000 },
            env: [("HOME", "/home/ada"), ("RANK", "99"), ("HIP_VISIBLE_DEVICES", "0")]
                .into_iter()
                .map(|(k, v)| (k.to_owned(), v.to_owned()))
                .collect(),
            workdir: PathBuf::from("/"),
            umask: 0o022,
            interactive: false,
            files: muster_model::OutputFiles::default(),
            environment: muster_model::TaskEnvironment::default(),
            time_limit: None,
            grace: Span::from_secs(30),
            checkpoint: None,
            last_checkpoint: None,
            replica: None,
            idle: None,
            metric: None,
            starts_at_once: false,
            tasks,
        }
    }

    fn render(order: &GangOrder, rank: usize) -> String {
        let rendezvous = Rendezvous { address: "127.0.0.1".into(), ports: vec![20_000, 20_001] };
        task_env(order, &order.tasks[rank], &rendezvous, "tag")
            .iter()
            .map(|(name, value)| format!("{name}={value}\n"))
            .collect()
    }

    #[test]
    fn five_one_gpu_tasks_are_five_ranks_and_five_agents() {
        let names = ["0", "1", "2", "3", "4"];
        let order = gang(
            (0..5)
                .map(|rank| TaskOrder {
                    virtual_devices: true,
                    ..task(rank, "main", &[rank as usize], &names[rank as usize..=rank as usize])
                })
                .collect(),
        );
        insta::assert_snapshot!("virtual_rank_3", render(&order, 3));
    }

    #[test]
    fn one_task_with_eight_gpus_is_one_agent_of_eight_workers() {
        let uuids: Vec<String> =
            (0..8).map(|n| format!("GPU-0000000{n}-1111-2222-3333-444444444444")).collect();
        let names: Vec<&str> = uuids.iter().map(String::as_str).collect();
        let order = gang(vec![task(0, "main", &[0, 1, 2, 3, 4, 5, 6, 7], &names)]);
        insta::assert_snapshot!("nvidia_whole_node", render(&order, 0));
    }

    #[test]
    fn groups_meet_on_ports_of_their_own_and_amd_goes_through_rocr() {
        let mut rollout = task(2, "rollout", &[1], &["GPU-00aabbccddeeff11"]);
        rollout.share = GpuMilli(250);
        let order = gang(vec![task(0, "trainer", &[], &[]), task(1, "rollout", &[], &[]), rollout]);
        insta::assert_snapshot!("second_group_on_an_amd_share", render(&order, 2));
        insta::assert_snapshot!("without_a_gpu", render(&order, 0));
    }
}
