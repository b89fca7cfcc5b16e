//! The fields of a job document, one list for reader, schema and documentation. Their combinations
//! are checked in the sibling files.

use crate::field::{Flag, Many, Named, OneOrMany, Text, Whole, document};

use crate::job::fields::{
    After, ArrayRange, BeginTime, CheckpointReceivers, CheckpointSequel, CheckpointVoice, Cpus,
    Gpus, JobName, KindWord, Length, LengthOrNone, MAX_TASKS, Model, NodeNames, Program, Protect,
    ReplicaRange, RestartRule, SignalName, Size, TaskRange,
};
use crate::job::notify::Notify;
use crate::job::ray::runtime_env::RuntimeEnv;
use crate::job::sweep::fields::{EarlyStops, MetricDocument, Params};

/// Name of the only group of a job without `groups`.
pub(super) const ONLY_GROUP: &str = "main";

document! {
    /// A job for Muster. A small one needs only `name`, `run` and `gpus`.
    JobDocument ("job") requires [] foreign FOREIGN => {
        /// Name of the job: at most 64 letters, digits, `.`, `_` or `-`. By default the name of the
        /// file, or of the program.
        "name" name: JobName,
        /// Kind of workload: `task` (the default) runs to its end, `service` until it is cancelled,
        /// `notebook` until its time limit or until it is idle; `ray` runs its program on a Ray
        /// cluster, of which each task is a node; `sweep` runs it once for each point of its `params`.
        "kind" kind: KindWord,
        /// Number of replicas of a service, or a range. With `2..6`, 2 replicas are guaranteed, and
        /// up to 4 more run in idle capacity (opportunistic).
        "replicas" replicas: ReplicaRange,
        /// Port of a service: the first replica listens on it, each further one on the next port.
        /// Each replica has its port in `$PORT`.
        "port" port: Whole<1, 65_535>,
        /// Time without activity after which a notebook is stopped. 2h by default; `none` never
        /// stops it.
        "idle" idle: LengthOrNone,
        /// Number of nodes; each hosts `tasks-per-node` tasks. All start together or none does.
        "nodes" nodes: Whole<1, MAX_TASKS>,
        /// Fewest nodes: the job starts with at least these, grows to `nodes` in idle capacity, and
        /// shrinks again when other jobs wait.
        "min-nodes" min_nodes: Whole<1, MAX_TASKS>,
        /// GPUs per node: a whole number, or a share of one device such as 0.5. Without `nodes`:
        /// GPUs of the one task.
        "gpus" gpus: Gpus,
        /// GPU model, or a list of acceptable models. By default any.
        "gpu" gpu: OneOrMany<Model>,
        /// Number of tasks, placed wherever they fit. All start together or none does. With
        /// `2..16`, 2 start together, and up to 14 more run in idle capacity; the job shrinks again
        /// when other jobs wait.
        "tasks" tasks: TaskRange,
        /// For a job with a range of tasks and checkpoints: time at one size after which it may be
        /// restarted with more tasks. 10m by default; with `none` it only shrinks, when other jobs
        /// need capacity.
        "grow-after" grow_after: LengthOrNone,
        /// GPUs of each task: a whole number, or a share of one device such as 0.5.
        "gpus-per-task" gpus_per_task: Gpus,
        /// Tasks on each node; the GPUs of a node are divided among them. 1 by default where
        /// `nodes` is given.
        "tasks-per-node" tasks_per_node: Whole<1, MAX_TASKS>,
        /// CPUs allocated per task, such as 8 or 0.5. None by default.
        "cpus" cpus: Cpus,
        /// Memory allocated per task, such as 64GB or 64GiB. None by default.
        "memory" memory: Size,
        /// Named extras of the node that each task holds, in whole units: `{licence: 1}`.
        "extras" extras: Named<Whole<1, 1_000_000_000>>,
        /// Time limit, such as 12h, 90m or 1-12:00:00; `none` for no limit. Backfill relies on it.
        "time" time: LengthOrNone,
        /// Program of every task: text for the shell (or for the interpreter of a `#!` line), or a
        /// list of program and arguments.
        "run" run: Program,
        /// Queue to wait in, as a path such as research/vision; the last component alone is enough
        /// where it is unique.
        "queue" queue: Text,
        /// Priority within its queue; higher is scheduled first. 0 by default.
        "priority" priority: Whole<-1_000_000, 1_000_000>,
        /// Environment variables on top of the submitter's.
        "env" env: Named<Text>,
        /// Files with environment variables, `NAME=VALUE` lines; `env` overrides them. They are read when the job is
        /// submitted; a relative path starts at the folder of the job file.
        "env-file" env_files: OneOrMany<Text>,
        /// Environment variables whose values are secrets in files of yours: `{WANDB_API_KEY: ~/.wandb-key}`. Each file is
        /// read when the program starts, and must be readable by you alone.
        "secrets" secrets: Named<Text>,
        /// Python virtual environment to run in: its folder, as made by `python -m venv`.
        "venv" venv: Text,
        /// Conda environment to run in: its name, or its folder.
        "conda" conda: Text,
        /// Project of uv to run in: the folder with its `pyproject.toml`. Its `.venv` must be there; `uv sync` makes it.
        "uv" uv: Text,
        /// Environment modules to load, in this order: `[cuda/12.4, gcc]`.
        "modules" modules: OneOrMany<Text>,
        /// Image to run in: `nvcr.io/nvidia/pytorch:24.05-py3`, or a file. On Kubernetes that of its containers, on Slurm
        /// by Pyxis or Apptainer, on one machine by Apptainer, Podman or enroot.
        "image" image: Text,
        /// Directories mounted into the image, besides the working directory: `/data:/data`, `/models:/models:ro`.
        "mounts" mounts: OneOrMany<Text>,
        /// Working directory; a relative one starts at the submitter's. By default the submitter's.
        "workdir" workdir: Text,
        /// File for standard output, and for standard error unless `error` is set; a relative path
        /// starts at the working directory. Output is appended; the file and its directories are
        /// created if missing. `%j` is the job, `%A` and `%a` array and index, `%t` the rank, `%x`
        /// the name, `%u` the user. By default Muster keeps the output: `muster logs`.
        "output" output: Text,
        /// File for standard error, as `output`.
        "error" error: Text,
        /// Runs the job once per index: `0-199`, `0-199%32` for at most 32 at once, `1-9:2` in
        /// steps, or a count.
        "array" array: ArrayRange,
        /// For a sweep: its parameters. A mapping tries every combination of the lists, or draws `samples` points:
        /// `{lr: [1e-4, 3e-4], layers: [2, 4]}`, `{lr: {log: [1e-5, 1e-2]}, dropout: {uniform: [0, 0.5]}, layers:
        /// {whole: [1, 8]}}`. A list of rows is tried as it is: `[{lr: 1e-4, layers: 2}, …]`; so is a file of them,
        /// by its path (CSV with a header, or JSON).
        "params" params: Params,
        /// For a sweep: number of points to draw; without it, every combination is tried.
        "samples" samples: Whole<1, 100_000>,
        /// For a sweep with `samples`: seed of the draws. The same seed gives the same points. 0 by default.
        "seed" seed: Whole<0, 1_000_000_000>,
        /// For a sweep: most elements that run at once.
        "max-running" max_running: Whole<1, 100_000>,
        /// For a sweep: the figure that its elements report, and by which they are compared.
        "metric" metric: MetricDocument,
        /// For a sweep with a metric: stops elements that do badly: `asha`, `median`, or a mapping with its numbers.
        "early-stop" early_stop: EarlyStops,
        /// Jobs to wait for: a number or the name of an earlier document of the file, alone or as
        /// `afterok:`, `afternotok:`, `afterany:` or `after:`. Alone means `afterok`.
        "after" after: OneOrMany<After>,
        /// Submit on hold: it waits until it is released.
        "hold" hold: Flag,
        /// On Slurm: before its program starts, every rank checks its allocation, and a failed
        /// check ends the job; see docs/verify.md.
        "verify" verify: Flag,
        /// Earliest start: `+2h` after submission, or an instant such as 2026-08-01T06:00:00Z.
        "begin" begin: BeginTime,
        /// Signal that asks the job to save its progress, before its time limit and for `muster
        /// checkpoint`.
        "checkpoint" checkpoint: CheckpointDocument,
        /// Restarts after a task fails or is lost: `never`, `on-failure`, `always` (services only),
        /// a number of restarts, or a mapping. `never` by default; for a service `always`.
        "restart" restart: RestartRule,
        /// Time between SIGTERM and SIGKILL when it is stopped. 30s by default.
        "grace" grace: Length,
        /// Time for which it cannot be preempted once it holds its GPUs: `always`, a time such as
        /// 30m, or `none` (the default). With any protection it never starts on borrowed quota.
        "protect" protect: Protect,
        /// Addresses that are told when it ends, is preempted, leaves its GPUs idle, or comes near its time
        /// limit: a mail address, a URL, or a mapping with other events or a command. `none` for no notices.
        /// By default those of the user's own file, `~/.config/muster/notify.yaml`.
        "notify" notify: OneOrMany<Notify>,
        /// Labels that its nodes must carry: `{pool: train}`.
        "labels" labels: Named<Text>,
        /// Nodes that must not be used, such as `node07` or `node[01-04]`.
        "exclude" exclude: OneOrMany<NodeNames>,
        /// Placement of its nodes in the network topology: `{required: leaf}`, `{preferred: leaf}`
        /// or `{spread: leaf}`, with levels as the cluster names them, or `node`. Any by default.
        "topology" topology: TopologyDocument,
        /// Advance reservation in which it runs, and only in it; `muster reserve` lists them. Its
        /// time limit and grace must fit in.
        "reservation" reservation: Text,
        /// Options for Slurm in Slurm's own terms; other backends ignore them.
        "slurm" slurm: SlurmDocument,
        /// Options for Kubernetes in Kubernetes' own terms; other backends ignore them.
        "kubernetes" kubernetes: KubernetesDocument,
        /// Options of a job of kind `ray`.
        "ray" ray: RayDocument,
        /// Several roles in one gang, each with tasks and a program of its own. Then `nodes`,
        /// `tasks` and resources are given in the groups.
        "groups" groups: Many<GroupDocument>,
    }
}

document! {
    /// Options of a Ray cluster within a job.
    RayDocument ("ray") requires [] foreign &[("ray-version", "version"), ("include-dashboard", "dashboard"), ("object-store", "object-store-percent"), ("nodes", "wait"), ("min-nodes", "wait"), ("idle-timeout", "idle"), ("address", "join"), ("runtime_env", "runtime-env")] => {
        /// Version of Ray that every node must have, such as 2.60.0. By default any.
        "version" version: Text,
        /// Python interpreter that has Ray: a name in `PATH`, or a path. `python3` by default.
        "python" python: Text,
        /// Nodes that must have joined before the program starts. By default all of a job of fixed
        /// size, and the fewest of a range.
        "wait" wait: Whole<1, MAX_TASKS>,
        /// Share of each node's `memory` for Ray's object store, in percent. 30 by default.
        "object-store-percent" object_store_percent: Whole<1, 80>,
        /// Runs Ray's dashboard beside the head. True by default.
        "dashboard" dashboard: Flag,
        /// Time without work after which the cluster ends if the job has no `run`, and after which nodes that a
        /// growing cluster got leave it. 1m by default for the latter; otherwise never.
        "idle" idle: LengthOrNone,
        /// Address of the head of another Ray cluster, such as node1:6379: the tasks become nodes of that cluster,
        /// and the job has no `run`. A growing cluster submits such jobs itself.
        "join" join: Text,
        /// Runtime environment of Ray in Ray's own terms: `{working_dir: ., pip: [pandas], env_vars: {A: b}}`. The
        /// tasks and actors of programs have it, and of `env_vars` the programs, too.
        "runtime-env" runtime_env: RuntimeEnv,
    }
}

document! {
    /// One role of a job with several roles.
    GroupDocument ("group") requires ["name"] foreign FOREIGN => {
        /// Name of the role, unique in the job: trainer, rollout.
        "name" name: JobName,
        /// Number of nodes; each hosts `tasks-per-node` tasks.
        "nodes" nodes: Whole<1, MAX_TASKS>,
        /// GPUs per node. Without `nodes`: GPUs of the one task.
        "gpus" gpus: Gpus,
        /// GPU model, or a list of acceptable models. By default the job's.
        "gpu" gpu: OneOrMany<Model>,
        /// Number of tasks, placed wherever they fit; as a range such as `2..16` in one group.
        "tasks" tasks: TaskRange,
        /// GPUs of each task: a whole number, or a share of one device such as 0.5.
        "gpus-per-task" gpus_per_task: Gpus,
        /// Tasks on each node; the GPUs of a node are divided among them.
        "tasks-per-node" tasks_per_node: Whole<1, MAX_TASKS>,
        /// CPUs allocated per task.
        "cpus" cpus: Cpus,
        /// Memory allocated per task.
        "memory" memory: Size,
        /// Named extras of the node that each task holds, in whole units.
        "extras" extras: Named<Whole<1, 1_000_000_000>>,
        /// Program of the tasks of this role. By default the job's `run`.
        "run" run: Program,
        /// On Slurm: partition and features of this role, in place of the job's.
        "slurm" slurm: GroupSlurmDocument,
    }
}

document! {
    /// Placement of the nodes of a gang in the network topology.
    TopologyDocument ("topology") requires [] foreign &[("require", "required"), ("strict", "required"), ("prefer", "preferred"), ("level", "required"), ("segments", "segment"), ("slice", "segment")] => {
        /// All tasks in one domain of this level; it waits until there is one.
        "required" required: Text,
        /// In as few domains of this level as possible; the job never waits for that.
        "preferred" preferred: Text,
        /// In as many domains of this level as possible, evenly.
        "spread" spread: Text,
        /// Slices of the gang, each in one domain: `{tasks: 16, level: leaf}`.
        "segment" segment: SegmentDocument,
    }
}

document! {
    /// Slices of consecutive ranks.
    SegmentDocument ("segment") requires ["tasks", "level"] foreign &[("size", "tasks"), ("nodes", "tasks"), ("domain", "level")] => {
        /// Number of consecutive ranks of a slice; the tasks of each group are a multiple of it.
        "tasks" tasks: Whole<1, MAX_TASKS>,
        /// Level of which each slice is in one domain.
        "level" level: Text,
    }
}

document! {
    /// Checkpoint requests to the job, and their acknowledgement: the job writes to
    /// `$MUSTER_CHECKPOINT_FILE`.
    CheckpointDocument ("checkpoint") requires ["grace"] foreign &[("before", "grace"), ("lead", "grace"), ("time", "grace")] => {
        /// Signal to send, such as USR1 (the default) or 10.
        "signal" signal: SignalName,
        /// Time before the time limit at which the signal is sent, and for which `muster checkpoint
        /// --wait` waits for the acknowledgement.
        "grace" grace: Length,
        /// Ranks that must acknowledge for the gang: `rank0` (the default) or `all`.
        "by" by: CheckpointVoice,
        /// Action after the acknowledgement before the time limit: `continue` to the limit (the
        /// default), `stop` at once, or `requeue` the job.
        "then" then: CheckpointSequel,
        /// Processes that get the signal: `handlers`, all that handle it except forked copies of
        /// one that got it (the default); `outermost`, the first that handles it on each branch of
        /// the process tree; `all`, copies too. A process that does not handle it never gets it.
        "to" to: CheckpointReceivers,
    }
}

document! {
    /// Options of a job for Slurm, in Slurm's own terms.
    SlurmDocument ("slurm") requires [] foreign SLURM_FOREIGN => {
        /// Partition, or several, of which Slurm takes the one that starts first.
        "partition" partition: OneOrMany<Text>,
        /// Account that is charged. By default the last component of `queue`, or else the user's
        /// own default.
        "account" account: Text,
        /// Quality of service of Slurm (QOS).
        "qos" qos: Text,
        /// Features of its nodes, as Slurm combines them: `a100&nvlink`, `[rack1|rack2]`.
        "constraint" constraint: Text,
        /// Licences: `matlab`, or `matlab:2`.
        "licenses" licenses: OneOrMany<Text>,
        /// Nodes that must be among those of the job: `node07` or `node[01-04]`.
        "nodelist" nodelist: OneOrMany<NodeNames>,
        /// No other jobs on its nodes.
        "exclusive" exclusive: Flag,
        /// Only one job of this name and user at a time: it waits until earlier ones have ended.
        "singleton" singleton: Flag,
        /// Maximum number of leaf switches.
        "switches" switches: Whole<1, 10_000>,
        /// Time that Slurm waits for that many switches before it takes more. By default as long as
        /// the cluster allows.
        "switches-wait" switches_wait: Length,
        /// With topology/block: number of nodes that are together in one block.
        "segment" segment: Whole<1, 10_000>,
        /// True to requeue the job after a node failure or preemption. By default as the cluster
        /// has it.
        "requeue" requeue: Flag,
        /// Modules to load before the program runs.
        "modules" modules: OneOrMany<Text>,
        /// Conda environment, by name or path, that is activated before the program runs.
        "conda" conda: Text,
        /// Python virtual environment, by path, that is activated before the program runs.
        "venv" venv: Text,
        /// Image that the program runs in, by Pyxis where the cluster has it, else by Apptainer:
        /// `nvcr.io/nvidia/pytorch:24.05-py3`, or a file.
        "container" container: Text,
        /// Directories mounted into the container, besides the working directory: `/data:/data`,
        /// `/models:/models:ro`.
        "container-mounts" container_mounts: OneOrMany<Text>,
        /// Shell text that every task runs before its program.
        "setup" setup: Text,
        /// Further options of sbatch: `--mail-type=END`.
        "options" options: OneOrMany<Text>,
    }
}

document! {
    /// Options of a job for Kubernetes, in Kubernetes' own terms.
    KubernetesDocument ("kubernetes") requires [] foreign KUBERNETES_FOREIGN => {
        /// Image of its containers: `registry.example.com/train:1`.
        "image" image: Text,
        /// Namespace of the job. By default that of the context.
        "namespace" namespace: Text,
        /// Service account of its pods.
        "service-account" service_account: Text,
        /// Secrets with credentials for the registry of the image.
        "pull-secrets" pull_secrets: OneOrMany<Text>,
        /// Volume claims to mount: `data:/data`, `models:/models:ro`.
        "volumes" volumes: OneOrMany<Text>,
        /// Folder of up to 1 MB whose files are sent to the working directory of the tasks: `.`.
        "send" send: Text,
        /// Git repository whose files are in the working directory of the tasks.
        "git" git: GitDocument,
        /// Secrets and config maps whose keys become environment variables: `secret/wandb`,
        /// `configmap/settings`.
        "env-from" env_from: OneOrMany<Text>,
        /// Size of /dev/shm. By default up to the memory of the container.
        "shm" shm: Size,
        /// Name of the GPU resource, such as `amd.com/gpu`. `nvidia.com/gpu` by default.
        "gpu-resource" gpu_resource: Text,
        /// Use the network of the nodes, for example for RDMA.
        "host-network" host_network: Flag,
        /// Scheduler that starts its pods together: `muster`, `kueue`, `volcano`, `kai`, `pod-groups` or
        /// `none`. By default the one that the cluster has.
        "scheduler" scheduler: Text,
        /// Priority class of its pods.
        "priority-class" priority_class: Text,
        /// Runtime class of its pods.
        "runtime-class" runtime_class: Text,
        /// Run a job of `kind: ray` as a RayJob of KubeRay. By default it is a Job, which needs
        /// nothing in the cluster.
        "kuberay" kuberay: Flag,
        /// Run a service as an InferenceService of KServe. By default it is a Deployment, which needs
        /// nothing in the cluster.
        "kserve" kserve: Flag,
        /// Run a job of one role as a TrainJob of Kubeflow's Trainer. By default it is a Job, which
        /// needs nothing in the cluster.
        "trainer" trainer: Flag,
        /// Annotations of its pods: `{example.com/team: vision}`.
        "annotations" annotations: Named<Text>,
    }
}

document! {
    /// Git repository whose files are in the working directory of the tasks.
    GitDocument ("git") requires ["url"] foreign &[("repo", "url"), ("repository", "url"), ("branch", "ref"), ("tag", "ref"), ("commit", "ref"), ("revision", "ref"), ("rev", "ref")] => {
        /// Address of the repository: `https://git.example.com/team/train.git`.
        "url" url: Text,
        /// Branch, tag, or whole commit id. By default the default branch.
        "ref" reference: Text,
        /// Image that has git and `sh`. By default that of the job.
        "image" image: Text,
        /// Secret with `username` and `password`, or with `ssh-privatekey`, and perhaps `known_hosts`.
        "secret" secret: Text,
    }
}

document! {
    /// Options of one group for Slurm, which override those of the job.
    GroupSlurmDocument ("group's slurm") requires [] foreign SLURM_FOREIGN => {
        /// Partition of this group, or several of which Slurm takes the one that starts first.
        "partition" partition: OneOrMany<Text>,
        /// Features of the nodes of this group, as Slurm combines them.
        "constraint" constraint: Text,
    }
}

/// Names of these fields in Slurm, Kubernetes and other systems.
const FOREIGN: &[(&str, &str)] = &[
    ("command", "run"),
    ("cmd", "run"),
    ("script", "run"),
    ("args", "run"),
    ("gpu-type", "gpu"),
    ("gpu-model", "gpu"),
    ("model", "gpu"),
    ("num-gpus", "gpus"),
    ("gpus-per-node", "gpus"),
    ("gres", "gpus"),
    ("walltime", "time"),
    ("timeout", "time"),
    ("time-limit", "time"),
    ("limit", "time"),
    ("mem", "memory"),
    ("ntasks", "tasks"),
    ("workers", "tasks"),
    ("ntasks-per-node", "tasks-per-node"),
    ("cpus-per-task", "cpus"),
    ("partition", "queue"),
    ("qos", "queue"),
    ("account", "queue"),
    ("job-name", "name"),
    ("environment", "env"),
    ("export", "env"),
    ("env-files", "env-file"),
    ("envfile", "env-file"),
    ("dotenv", "env-file"),
    ("env_file", "env-file"),
    ("secret", "secrets"),
    ("virtualenv", "venv"),
    ("conda-env", "conda"),
    ("module", "modules"),
    ("container", "image"),
    ("container-image", "image"),
    ("docker", "image"),
    ("container-mounts", "mounts"),
    ("volumes", "mounts"),
    ("cwd", "workdir"),
    ("chdir", "workdir"),
    ("directory", "workdir"),
    ("stdout", "output"),
    ("log", "output"),
    ("logfile", "output"),
    ("stderr", "error"),
    ("working-dir", "workdir"),
    ("dependency", "after"),
    ("depends-on", "after"),
    ("needs", "after"),
    ("retries", "restart"),
    ("constraint", "labels"),
    ("advance-reservation", "reservation"),
    ("reserved", "reservation"),
    ("node-selector", "labels"),
    ("instances", "replicas"),
    ("scale", "replicas"),
    ("type", "kind"),
    ("ports", "port"),
    ("idle-timeout", "idle"),
    ("idle-time", "idle"),
    ("licenses", "slurm: {licenses: …}"),
    ("license", "slurm: {licenses: …}"),
    ("licences", "slurm: {licenses: …}"),
    ("licence", "slurm: {licenses: …}"),
];

/// Names of these fields in Kubernetes and other systems.
const KUBERNETES_FOREIGN: &[(&str, &str)] = &[
    ("container", "image"),
    ("serviceAccountName", "service-account"),
    ("service-account-name", "service-account"),
    ("imagePullSecrets", "pull-secrets"),
    ("image-pull-secrets", "pull-secrets"),
    ("pull-secret", "pull-secrets"),
    ("volume", "volumes"),
    ("mounts", "volumes"),
    ("claims", "volumes"),
    ("envFrom", "env-from"),
    ("secrets", "env-from"),
    ("shared-memory", "shm"),
    ("shm-size", "shm"),
    ("hostNetwork", "host-network"),
    ("schedulerName", "scheduler"),
    ("priorityClassName", "priority-class"),
    ("runtimeClassName", "runtime-class"),
];

/// Names of these fields in Slurm and other systems.
const SLURM_FOREIGN: &[(&str, &str)] = &[
    ("partitions", "partition"),
    ("features", "constraint"),
    ("license", "licenses"),
    ("licences", "licenses"),
    ("licence", "licenses"),
    ("module", "modules"),
    ("load", "modules"),
    ("virtualenv", "venv"),
    ("sbatch", "options"),
    ("sbatch-options", "options"),
    ("extra", "options"),
    ("nodes", "nodelist"),
    ("prolog", "setup"),
    ("pre", "setup"),
    ("image", "container"),
    ("container-image", "container"),
    ("mounts", "container-mounts"),
    ("volumes", "container-mounts"),
];
