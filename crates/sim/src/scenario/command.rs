//! What a line of a script can say. The words of the language stand here once: reader, errors and
//! the check of the documentation use this table. It must not know how anything is carried out.

use std::sync::Arc;

use muster_model::{DeviceSet, QueueTree, Replicas, Span, TaskExit, Window};
use muster_spec::{Cluster, Document};

/// Every verb and how it is used.
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

/// One line.
#[derive(Clone, Debug)]
pub(crate) enum Command {
    /// Something that happens in the world; several can happen at one instant.
    Happens(Happening),
    /// How the world behaves from now on; nobody is told.
    Arrange(Arrangement),
    /// Time passes.
    Advance(Span),
    /// Time passes up to the next such time of day, in seconds since midnight.
    Until(u64),
    /// Time passes until nothing more is due.
    UntilIdle,
    /// The daemon comes back and reads its journal.
    Restart,
    /// Something is asked; nothing changes.
    Ask(Question),
}

/// Something that happens.
#[derive(Clone, Debug)]
pub(crate) enum Happening {
    /// Nodes join, or come back with other capacity.
    Cluster(Cluster),
    /// The queue tree is set.
    Queues(QueueTree),
    /// A user submits jobs.
    Submit { user: String, conduct: Conduct, documents: Vec<Document> },
    /// A user asks for something about a job.
    Request { verb: Request, who: Who },
    /// Tasks do something by themselves.
    Tasks { who: Who, deed: Deed },
    /// Something happens to nodes.
    Nodes { names: Vec<String>, change: NodeChange },
    /// Something is set aside; `after` is how long it lies ahead.
    Reserve { window: Box<Window>, after: Span },
    /// And taken back.
    Unreserve { name: String },
}

/// What a user asks for.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Cancel { by: Option<String> },
    Hold,
    Release,
    Requeue,
    Scale { replicas: Replicas, by: Option<String> },
}

/// What tasks do.
#[derive(Clone, Debug)]
pub(crate) enum Deed {
    /// All of them exit with success.
    End,
    /// They have done nothing for so long that they are stopped.
    Idle,
    /// One of them ends so.
    Fail(TaskExit),
    /// Nobody knows what became of one of them.
    Lose,
    /// They say that their progress is saved.
    Save(Save),
}

/// What a task says of its progress.
#[derive(Clone, Debug)]
pub(crate) struct Save {
    pub(crate) age: Age,
    /// By how much the clock of its machine is wrong, in milliseconds.
    pub(crate) clock: i64,
    pub(crate) label: Arc<str>,
}

/// Since when what a task has saved is saved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Age {
    /// Since it was last asked to.
    Asked,
    /// Since before it was last asked to.
    Unasked,
    /// Since before what it has said already.
    Old,
}

/// What happens to a node.
#[derive(Clone, Debug)]
pub(crate) enum NodeChange {
    Down,
    Up,
    /// Without GPUs, the node as a whole.
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

/// How the world behaves from now on.
#[derive(Clone, Debug)]
pub(crate) enum Arrangement {
    /// How tasks become ready on nodes.
    Starts { names: Vec<String>, how: Starts },
    /// The daemon dies.
    Crash(Crash),
    /// Whether the store can be written.
    Disk { full: bool },
}

/// How tasks become ready on a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Starts {
    /// At once.
    #[default]
    Works,
    /// After so long.
    Takes(Span),
    /// Never, and says so.
    Fails(Arc<str>),
    /// Never, and says nothing. No line of a script arranges this; storms do.
    Mute,
}

/// When the daemon dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Crash {
    /// Between two lines.
    Now,
    /// In the next line, before its first batch is durable.
    BeforeWrite,
    /// In the next line, after its first batch is durable and before an effect leaves.
    AfterWrite,
}

/// Something asked.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Explain(Who),
    /// What would become of jobs if they were submitted.
    Would {
        user: String,
        documents: Vec<Document>,
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

/// How the tasks of a job behave by themselves.
#[derive(Clone, Debug)]
pub(crate) struct Conduct {
    /// They run so long; without it until they are told or reach their limit.
    pub(crate) lasts: Option<Span>,
    /// And then end so.
    pub(crate) exit: TaskExit,
    /// When they are to end they use the whole grace; others end at once.
    pub(crate) stubborn: bool,
}

/// A job, an element of an array, or one task: `left`, `sweep[3]`, `left/1`.
#[derive(Clone, Debug)]
pub(crate) struct Who {
    pub(crate) job: String,
    pub(crate) index: Option<u32>,
    pub(crate) rank: Option<u32>,
}
