//! The fields of a recipe, and of a generator of Kueue's performance tests. Only their shape; what
//! they mean together is judged beside.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::diagnostic::Problems;
use crate::field::{Field, Many, OneOrMany, Text, Whole, document, inline_schema};
use crate::job::fields::{BeginTime, Cpus, Gpus, JobName, Length, Model, Size};
use crate::yaml::{Node, Value};

document! {
    /// A recipe for a trace: what jobs are submitted, how often, and how long they run.
    MixDocument ("trace-recipe") requires ["every", "classes"] foreign &[("count", "jobs"), ("duration", "length"), ("interval", "every"), ("mix", "classes")] => {
        /// How many jobs; where the length is given, too, whichever is reached first.
        "jobs" jobs: Whole<1, 100_000_000>,
        /// How long jobs are submitted, such as 7d.
        "length" length: Length,
        /// When the first may be submitted: `2026-03-02T00:00:00Z`; without it the trace has no
        /// dates, and starts on a Monday.
        "start" start: BeginTime,
        /// Mean time between two submits, such as 90s.
        "every" every: Length,
        /// `poisson`, where submits do not know of each other, or `regular`; poisson by default.
        "arrivals" arrivals: Text,
        /// How busy each hour of the day is, from midnight UTC: 24 numbers, only their proportions
        /// count.
        "hours" hours: Many<Whole<0, 1_000_000>>,
        /// How busy Saturday and Sunday are, in percent of other days; 100 by default.
        "weekend" weekend: Whole<0, 1_000>,
        /// How many users there are; 1 by default.
        "users" users: Whole<1, 100_000>,
        /// How unequal they are: user k submits in proportion to 1/k^(skew/100). 100 by default, 0
        /// makes them equal.
        "skew" skew: Whole<0, 400>,
        /// What kinds of jobs there are.
        "classes" classes: Many<ClassDocument>,
    }
}

document! {
    /// Jobs of one kind.
    ClassDocument ("trace-class") requires ["name", "runtime"] foreign &[("share", "weight"), ("nodes", "tasks"), ("duration", "runtime"), ("time", "requested"), ("model", "gpu"), ("mem", "memory")] => {
        /// What they are called; the beginning of their ids.
        "name" name: JobName,
        /// How many there are, in proportion to the other classes; 1 by default.
        "weight" weight: Whole<1, 1_000_000>,
        /// Tasks that run together; of several numbers, each is as likely. 1 by default.
        "tasks" tasks: OneOrMany<Whole<1, 10_000>>,
        /// GPUs of each task, or a share of one.
        "gpus" gpus: Gpus,
        /// Models of GPU that will do.
        "gpu" gpu: OneOrMany<Model>,
        /// CPUs of each task.
        "cpus" cpus: Cpus,
        /// Memory of each task.
        "memory" memory: Size,
        /// How long they run: `10m`, `{from: 1m, to: 2h}`, or `{median: 10m, p95: 6h, max: 2d}`.
        "runtime" runtime: Runtime,
        /// The time limit that they ask for; those that would run longer end there.
        "requested" requested: Length,
        /// They ask for between once and so many times what they run.
        "overestimate" overestimate: Whole<1, 1_000>,
        /// Where they are submitted.
        "queue" queue: Text,
        /// How many fail, in percent.
        "failed" failed: Whole<0, 100>,
    }
}

document! {
    /// Lengths of time that are drawn.
    RuntimeDocument ("trace-runtime") requires [] foreign &[("min", "from"), ("mean", "median")] => {
        /// The shortest; every order of magnitude up to the longest is as likely.
        "from" from: Length,
        /// The longest.
        "to" to: Length,
        /// Half of them are shorter: a log-normal distribution.
        "median" median: Length,
        /// All but 5 % of them are shorter.
        "p95" p95: Length,
        /// None of them is longer.
        "max" max: Length,
    }
}

/// One length of time, or how it is drawn.
#[derive(Clone, Debug)]
pub(crate) enum Runtime {
    Fixed(Length),
    Drawn(Box<RuntimeDocument>),
}

impl Field for Runtime {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Map(_) => {
                RuntimeDocument::read(node, name, problems).map(|drawn| Self::Drawn(drawn.into()))
            }
            _ => Length::read(node, name, problems).map(Self::Fixed),
        }
    }
}

impl JsonSchema for Runtime {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "runtime".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let (fixed, drawn) =
            (generator.subschema_for::<Length>(), generator.subschema_for::<RuntimeDocument>());
        schemars::json_schema!({ "anyOf": [fixed, drawn] })
    }
}

/// What is in a file and does not matter here.
#[derive(Clone, Debug)]
pub(crate) struct Ignored;

inline_schema!(Ignored, true);

impl Field for Ignored {
    fn read(_: &Node, _: &str, _: &mut Problems) -> Option<Self> {
        Some(Self)
    }
}

document! {
    /// A generator of Kueue's performance tests.
    KueueDocument ("kueue-generator") requires ["cohorts"] foreign &[] => {
        /// Sets of cohorts.
        "cohorts" cohorts: Many<CohortDocument>,
        /// Not read: what nodes there are.
        "topology" topology: Ignored,
        /// Not read.
        "resourceFlavor" flavor: Ignored,
        /// Not read.
        "dra" dra: Ignored,
    }
}

document! {
    /// Equal cohorts.
    CohortDocument ("kueue-cohort") requires ["className", "count", "queuesSets"] foreign &[] => {
        /// Beginning of their names.
        "className" class: Text,
        /// How many there are.
        "count" count: Whole<0, 10_000>,
        /// Sets of their queues.
        "queuesSets" queues: Many<QueuesSetDocument>,
    }
}

document! {
    /// Equal queues.
    QueuesSetDocument ("kueue-queues") requires ["className", "count", "workloadsSets"] foreign &[] => {
        /// Beginning of their names.
        "className" class: Text,
        /// How many there are.
        "count" count: Whole<0, 10_000>,
        /// Not read: a queue file says it.
        "nominalQuota" nominal: Ignored,
        /// Not read.
        "borrowingLimit" borrowing: Ignored,
        /// Not read.
        "reclaimWithinCohort" reclaim: Ignored,
        /// Not read.
        "withinClusterQueue" within: Ignored,
        /// Not read.
        "deviceNominalQuota" device_nominal: Ignored,
        /// Not read.
        "deviceBorrowingLimit" device_borrowing: Ignored,
        /// What is submitted to each.
        "workloadsSets" sets: Many<WorkloadsSetDocument>,
    }
}

document! {
    /// Workloads that are created one after the other.
    WorkloadsSetDocument ("kueue-workloads") requires ["count", "creationIntervalMs", "workloads"] foreign &[] => {
        /// How often all of them are created.
        "count" count: Whole<0, 10_000_000>,
        /// Time before each creation.
        "creationIntervalMs" interval_ms: Whole<0, 1_000_000_000>,
        /// What is created.
        "workloads" workloads: Many<WorkloadDocument>,
    }
}

document! {
    /// One workload.
    WorkloadDocument ("kueue-workload") requires ["className", "runtimeMs", "request"] foreign &[] => {
        /// What it is called.
        "className" class: Text,
        /// How long it runs once admitted.
        "runtimeMs" runtime_ms: Whole<0, 1_000_000_000_000>,
        /// Higher goes first.
        "priority" priority: Whole<-1_000_000_000, 1_000_000_000>,
        /// CPUs of each pod.
        "request" request: Cpus,
        /// Pods; read where the level is given, as Kueue has it.
        "podCount" pods: Whole<0, 1_000_000>,
        /// Not read: a trace has no wishes for places.
        "tasConstraint" constraint: Ignored,
        /// Level of the topology.
        "tasLevel" level: Ignored,
        /// Not read.
        "sliceSize" slice: Ignored,
        /// Devices of each pod.
        "devices" devices: Whole<0, 128>,
    }
}
