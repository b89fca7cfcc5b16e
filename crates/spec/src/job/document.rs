//! The fields of a job as they may be written, one list for reader, schema and documentation. What
//! they mean together is in the sibling files.

use crate::field::{Flag, Many, Named, OneOrMany, Text, Whole, document};

use crate::job::fields::{
    After, ArrayRange, BeginTime, CheckpointReceivers, CheckpointSequel, CheckpointVoice, Cpus,
    Gpus, JobName, KindWord, Length, LengthOrNone, Model, NodeNames, Program, Protect,
    ReplicaRange, RestartRule, SignalName, Size, TaskRange,
};
use crate::job::slurm::{GroupSlurmDocument, SlurmDocument};

/// Tasks of one job at most, over all groups.
pub(crate) const MAX_TASKS: i64 = 10_000;

document! {
    /// A job for Muster. `name` and `run` with `gpus` is all that a small one needs.
    JobDocument ("job") requires [] foreign FOREIGN, later LATER => {
        /// Name for people: at most 64 letters, digits, `.`, `_` or `-`. By default the name of the
        /// file, or of the program.
        "name" name: JobName,
        /// What kind of workload it is: `task` (the default) runs to its end, `service` until it is
        /// cancelled, `notebook` until its time is over or it is idle.
        "kind" kind: KindWord,
        /// Of a service: how many times it runs, as a number or as a range. Of `2..6`, 2 are its
        /// own, and up to 4 more run in what is idle.
        "replicas" replicas: ReplicaRange,
        /// Of a service: the first replica listens here, each further one on the next port. It
        /// finds its own in `$PORT`.
        "port" port: Whole<1, 65_535>,
        /// Of a notebook: it is stopped after so long without activity. 2h by default; `none` lets
        /// it idle.
        "idle" idle: LengthOrNone,
        /// Number of nodes; each hosts `tasks-per-node` tasks. All start together or none does.
        "nodes" nodes: Whole<1, MAX_TASKS>,
        /// It starts with as few nodes as this, and grows to `nodes` in what is idle; it shrinks
        /// again when others wait.
        "min-nodes" min_nodes: Whole<1, MAX_TASKS>,
        /// GPUs per node: a whole number, or a share of one device such as 0.5. Without `nodes`:
        /// GPUs of the one task.
        "gpus" gpus: Gpus,
        /// GPU model, or a list of acceptable models. By default any.
        "gpu" gpu: OneOrMany<Model>,
        /// Number of tasks, placed wherever they fit. All start together or none does. Of `2..16`,
        /// 2 start together, and up to 14 more run in what is idle; it shrinks again when others
        /// wait.
        "tasks" tasks: TaskRange,
        /// Of a job with a range of tasks: once it has run so long at its size, it may be started
        /// again with more tasks, if it takes checkpoints. 10m by default; `none`: its size changes
        /// only when others need room.
        "grow-after" grow_after: LengthOrNone,
        /// GPUs of each task: a whole number, or a share of one device such as 0.5.
        "gpus-per-task" gpus_per_task: Gpus,
        /// Tasks on each node; the GPUs of a node are divided among them. 1 by default where
        /// `nodes` is given.
        "tasks-per-node" tasks_per_node: Whole<1, MAX_TASKS>,
        /// CPUs set aside per task, such as 8 or 0.5. None by default.
        "cpus" cpus: Cpus,
        /// Memory set aside per task, such as 64GB or 64GiB. None by default.
        "memory" memory: Size,
        /// Named extras of the node that each task holds, in whole units: `{licence: 1}`.
        "extras" extras: Named<Whole<1, 1_000_000_000>>,
        /// Walltime limit, such as 12h, 90m or 1-12:00:00; `none` is endless. Backfill relies on
        /// it.
        "time" time: LengthOrNone,
        /// What every task runs: text for the shell (or for the interpreter of a `#!` line), or a
        /// list of program and arguments.
        "run" run: Program,
        /// Queue to wait in, as a path such as research/vision; the last component alone is enough
        /// where it is unique.
        "queue" queue: Text,
        /// Higher goes first within its queue. 0 by default.
        "priority" priority: Whole<-1_000_000, 1_000_000>,
        /// Environment variables on top of the submitter's.
        "env" env: Named<Text>,
        /// Working directory; a relative one starts at the submitter's. By default the submitter's.
        "workdir" workdir: Text,
        /// File for what it writes to standard output, and to standard error where `error` names no
        /// other; a relative one starts at the working directory. It is appended to, and made with
        /// its folders where it is not there. `%j` is the job, `%A` and `%a` array and index, `%t`
        /// the rank, `%x` the name, `%u` the user. By default Muster keeps the output: `muster
        /// logs`.
        "output" output: Text,
        /// File for what it writes to standard error, as `output`.
        "error" error: Text,
        /// Runs the job once per index: `0-199`, `0-199%32` for at most 32 at once, `1-9:2` in
        /// steps, or a count.
        "array" array: ArrayRange,
        /// Jobs to wait for: a number or the name of an earlier document of the file, alone or as
        /// `afterok:`, `afternotok:`, `afterany:` or `after:`. Alone means `afterok`.
        "after" after: OneOrMany<After>,
        /// Submit on hold: it waits until it is released.
        "hold" hold: Flag,
        /// On Slurm: before its program starts, every rank checks its place, and what is wrong ends
        /// the job; docs/verify.md.
        "verify" verify: Flag,
        /// Not before: `+2h` after submission, or an instant such as 2026-08-01T06:00:00Z.
        "begin" begin: BeginTime,
        /// Signal that asks the job to save its progress, before its time limit and for `muster
        /// checkpoint`.
        "checkpoint" checkpoint: CheckpointDocument,
        /// What happens when a task fails or is lost: `never`, `on-failure`, `always` (services
        /// only), a number of restarts, or a mapping. `never` by default; of a service `always`.
        "restart" restart: RestartRule,
        /// Time between SIGTERM and SIGKILL when it is stopped. 30s by default.
        "grace" grace: Length,
        /// How long it is safe from being preempted once it holds its GPUs: `always`, a time such
        /// as 30m, or `none` (the default). With any protection it never starts on borrowed quota.
        "protect" protect: Protect,
        /// Labels that its nodes must carry: `{pool: train}`.
        "labels" labels: Named<Text>,
        /// Nodes that must not be used, such as `node07` or `node[01-04]`.
        "exclude" exclude: OneOrMany<NodeNames>,
        /// How its nodes lie to each other in the network: `{required: leaf}`, `{preferred: leaf}`
        /// or `{spread: leaf}`, with levels as the cluster names them, or `node`. By default it
        /// does not matter.
        "topology" topology: TopologyDocument,
        /// Advance reservation in which it runs, and only in it; `muster reserve` lists them. Its
        /// time limit and grace must fit in.
        "reservation" reservation: Text,
        /// What it says to Slurm in Slurm's own words; other places to run do not read it.
        "slurm" slurm: SlurmDocument,
        /// Several roles in one gang, each with tasks and a program of its own. Then `nodes`,
        /// `tasks` and resources stand in the groups.
        "groups" groups: Many<GroupDocument>,
    }
}

document! {
    /// One role of a job with several.
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
        /// CPUs set aside per task.
        "cpus" cpus: Cpus,
        /// Memory set aside per task.
        "memory" memory: Size,
        /// Named extras of the node that each task holds, in whole units.
        "extras" extras: Named<Whole<1, 1_000_000_000>>,
        /// What the tasks of this role run. By default the job's `run`.
        "run" run: Program,
        /// On Slurm: partition and features of this role, in place of the job's.
        "slurm" slurm: GroupSlurmDocument,
    }
}

document! {
    /// How the nodes of a gang lie to each other.
    TopologyDocument ("topology") requires [] foreign &[("require", "required"), ("strict", "required"), ("prefer", "preferred"), ("level", "required"), ("segments", "segment"), ("slice", "segment")] => {
        /// All tasks in one domain of this level; it waits until there is one.
        "required" required: Text,
        /// In as few domains of this level as can be; it never waits for that.
        "preferred" preferred: Text,
        /// In as many domains of this level as can be, evenly.
        "spread" spread: Text,
        /// Slices of the gang, each in one domain: `{tasks: 16, level: leaf}`.
        "segment" segment: SegmentDocument,
    }
}

document! {
    /// Slices of consecutive ranks.
    SegmentDocument ("segment") requires ["tasks", "level"] foreign &[("size", "tasks"), ("nodes", "tasks"), ("domain", "level")] => {
        /// So many consecutive ranks of a group are a slice; the tasks of each group are a multiple
        /// of it.
        "tasks" tasks: Whole<1, MAX_TASKS>,
        /// Each slice lies in one domain of this level.
        "level" level: Text,
    }
}

document! {
    /// How the job is asked to save its progress, and how it answers: it writes to
    /// `$MUSTER_CHECKPOINT_FILE`.
    CheckpointDocument ("checkpoint") requires ["grace"] foreign &[("before", "grace"), ("lead", "grace"), ("time", "grace")] => {
        /// Signal to send, such as USR1 (the default) or 10.
        "signal" signal: SignalName,
        /// How long before the time limit it is sent, and how long `muster checkpoint --wait` waits
        /// for an answer.
        "grace" grace: Length,
        /// Whose answer counts for the gang: `rank0` (the default) or `all`.
        "by" by: CheckpointVoice,
        /// After an answer to the warning before the limit: `continue` to the limit (the default),
        /// `stop` at once, or `requeue` to wait for the next turn.
        "then" then: CheckpointSequel,
        /// Which processes get the signal: `handlers`, all that handle it except forked copies of
        /// one that got it (the default); `outermost`, the first that handles it on each branch of
        /// the process tree; `all`, copies too. A process that does not handle it never gets it.
        "to" to: CheckpointReceivers,
    }
}

document! {
    /// Restarting the whole gang.
    RestartDocument ("restart") requires [] foreign &[("retries", "max"), ("limit", "max"), ("delay", "backoff")] => {
        /// Restart when a task fails or is lost. True by default in this form.
        "on-failure" on_failure: Flag,
        /// Restarts at most. 3 by default.
        "max" max: Whole<1, 1_000>,
        /// Wait before the first restart; doubles each time, up to 10m. 10s by default.
        "backoff" backoff: Length,
    }
}

/// Fields that are planned. Saying so is better than `did you mean`, and ignoring them would be
/// worst.
const LATER: &[(&str, &str)] = &[
    ("image", "containers come in a later version"),
    ("container", "containers come in a later version"),
];

/// What Slurm, Kubernetes and others call our fields.
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
