//! Commands of a script line. The words of the language are defined once, here: reader, errors and
//! the check of the documentation use this table.

use std::sync::Arc;

use muster_model::{AdvanceReservation, DeviceSet, QueueTree, Replicas, Span, TaskExit};
use muster_spec::{Cluster, ParsedJob};

/// Every verb and its usage.
pub const VERBS: [(&str, &str); 38] = [
    ("cluster", "cluster: {nodes: …}"),
    ("queues", "queues: {queues: …}, or `queues` alone to see them"),
    (
        "submit",
        "submit USER [lasts SPAN] [exits CODE | signal N | out-of-memory] [stubborn]: {name: …}",
    ),
    ("would", "would USER: {name: …}"),
    ("cancel", "cancel JOB [by USER]"),
    ("hold", "hold JOB"),
    ("release", "release JOB"),
    ("requeue", "requeue JOB"),
    ("scale", "scale JOB REPLICAS [by USER]"),
    ("ends", "ends JOB"),
    ("idles", "idles JOB"),
    ("saves", "saves JOB[/RANK] [unasked | old] [clock +SPAN | clock -SPAN] [LABEL]"),
    ("fails", "fails JOB[/RANK] [exits CODE | signal N | out-of-memory]"),
    ("loses", "loses JOB[/RANK]"),
    ("node-down", "node-down NODES"),
    ("node-up", "node-up NODES"),
    ("drain", "drain NODES [at +SPAN] [stop] [REASON]"),
    ("undrain", "undrain NODES"),
    ("gpu-drain", "gpu-drain NODE GPUS [at +SPAN] [stop] [REASON]"),
    ("gpu-undrain", "gpu-undrain NODE GPUS"),
    (
        "reserve",
        "reserve NAME nodes NODES | gpus N [of MODEL], at +SPAN for SPAN [every SPAN [times N]] [users A,B] [queues Q,R] [stop] [REASON]",
    ),
    ("unreserve", "unreserve NAME"),
    ("foreign", "foreign NODE none, or: foreign NODE [gpus GPUS] [cpus N] [memory SIZE]"),
    ("start-fails", "start-fails NODES [REASON]"),
    ("start-takes", "start-takes NODES SPAN"),
    ("start-works", "start-works NODES"),
    ("advance", "advance SPAN"),
    ("until", "until HH:MM[:SS], or: until idle"),
    ("crash", "crash, or for the next line: crash before-write | crash after-write"),
    ("restart", "restart"),
    ("disk-full", "disk-full"),
    ("disk-free", "disk-free"),
    ("explain", "explain JOB"),
    ("ps", "ps [all]"),
    ("usage", "usage"),
    ("nodes", "nodes"),
    ("reservations", "reservations"),
    ("windows", "windows"),
];

/// Command of a line.
#[derive(Clone, Debug)]
pub(crate) enum ScriptCommand {
    /// An event; several can happen at one instant.
    Happens(WorldEvent),
    /// A setting of the world from now on, without an event.
    Arrange(WorldSetting),
    /// Advances time by a span.
    Advance(Span),
    /// Advances time to the next such time of day, in seconds since midnight.
    Until(u64),
    /// Advances time until nothing more is due.
    UntilIdle,
    /// Restarts the daemon, which reads its journal.
    Restart,
    /// A query, which changes nothing.
    Ask(ScriptQuestion),
}

/// An event of the script.
#[derive(Clone, Debug)]
pub(crate) enum WorldEvent {
    /// Nodes join, or come back with other capacity.
    Cluster(Cluster),
    /// The queue tree is set.
    Queues(QueueTree),
    /// A user submits jobs.
    Submit { user: String, behaviour: ScriptedBehaviour, documents: Vec<ParsedJob> },
    /// A user request about a job.
    JobRequest { verb: JobRequest, who: ScriptJobRef },
    /// Tasks change by themselves.
    Tasks { who: ScriptJobRef, task_event: TaskEvent },
    /// Nodes change their state.
    Nodes { names: Vec<String>, change: NodeChange },
    /// A reservation is set; `after` is the time until it starts.
    Reserve { window: Box<AdvanceReservation>, after: Span },
    /// A reservation is dropped.
    Unreserve { name: String },
}

/// Kinds of user requests.
#[derive(Clone, Debug)]
pub(crate) enum JobRequest {
    Cancel { by: Option<String> },
    Hold,
    Release,
    Requeue,
    Scale { replicas: Replicas, by: Option<String> },
}

#[derive(Clone, Debug)]
pub(crate) enum TaskEvent {
    /// All of them exit with success.
    End,
    /// All of them are stopped for being idle.
    Idle,
    /// One of them ends with this exit.
    Fail(TaskExit),
    /// One of them is lost.
    Lose,
    /// All of them save a checkpoint.
    ScriptCheckpoint(ScriptCheckpoint),
}

/// Checkpoint of a task.
#[derive(Clone, Debug)]
pub(crate) struct ScriptCheckpoint {
    pub(crate) age: SaveAge,
    /// Error of its machine's clock, in milliseconds.
    pub(crate) clock: i64,
    pub(crate) label: Arc<str>,
}

/// Age of the saved state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SaveAge {
    /// Saved since the last request.
    Asked,
    /// Saved before the last request.
    Unasked,
    /// Older than a checkpoint that was acknowledged already.
    Old,
}

/// Changes of a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeChange {
    Down,
    Up,
    /// Without GPUs, the whole node.
    Drain {
        gpus: Option<DeviceSet>,
        after: Span,
        stop: bool,
        reason: Arc<str>,
    },
    Undrain {
        gpus: Option<DeviceSet>,
    },
    Foreign {
        gpus: Vec<usize>,
        cpus: muster_model::CpuMilli,
        memory: muster_model::Bytes,
    },
}

/// Settings of the world from now on.
#[derive(Clone, Debug)]
pub(crate) enum WorldSetting {
    /// Sets how tasks become ready on nodes.
    StartBehaviour { names: Vec<String>, how: StartBehaviour },
    /// The daemon crashes at this point.
    CrashPoint(CrashPoint),
    /// Fills or frees the disk of the store.
    Disk { full: bool },
}

/// Readiness of tasks on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum StartBehaviour {
    /// Tasks are ready at once.
    #[default]
    Works,
    /// Tasks are ready after this time.
    Takes(Span),
    /// The start is refused with this reason.
    Fails(Arc<str>),
    /// Never, without a report. Only the DST uses it, no script does.
    Mute,
}

/// Instant at which the daemon crashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CrashPoint {
    /// At once, between two lines.
    Now,
    /// In the next line, before its first batch is durable.
    BeforeWrite,
    /// In the next line, after its first batch is durable and before an effect leaves.
    AfterWrite,
}

/// Queries of a script.
#[derive(Clone, Debug)]
pub(crate) enum ScriptQuestion {
    Explain(ScriptJobRef),
    /// Explains jobs without submitting them.
    Would {
        user: String,
        documents: Vec<ParsedJob>,
    },
    Ps {
        all: bool,
    },
    Queues,
    Usage,
    Nodes,
    Reservations,
    Windows,
}

/// Behaviour of a job's tasks.
#[derive(Clone, Debug)]
pub(crate) struct ScriptedBehaviour {
    /// Runtime; `None`: until they are stopped or reach their limit.
    pub(crate) lasts: Option<Span>,
    /// Exit at the end of the runtime.
    pub(crate) exit: TaskExit,
    /// True if they use the whole grace when stopped; otherwise they end at once.
    pub(crate) stubborn: bool,
}

/// A job, an element of an array, or one task: `left`, `sweep[3]`, `left/1`.
#[derive(Clone, Debug)]
pub(crate) struct ScriptJobRef {
    pub(crate) job: String,
    pub(crate) index: Option<u32>,
    pub(crate) rank: Option<u32>,
}
