//! The fields of a recipe, and of a generator of Kueue's performance tests. Their combinations are
//! checked in the parent module.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::diagnostic::Problems;
use crate::field::{Field, Many, OneOrMany, Text, Whole, document, inline_schema};
use crate::job::fields::{BeginTime, Cpus, Gpus, JobName, Length, Model, Size};
use crate::yaml::{Node, Value};

document! {
    /// A recipe for a trace: the jobs, their arrival rate, and their runtimes.
    RecipeDocument ("trace-recipe") requires ["every", "classes"] foreign &[("count", "jobs"), ("duration", "length"), ("interval", "every"), ("mix", "classes")] => {
        /// Number of jobs; with `length`, whichever is reached first.
        "jobs" jobs: Whole<1, 100_000_000>,
        /// Length of time in which jobs are submitted, such as 7d.
        "length" length: Length,
        /// Start of the trace: `2026-03-02T00:00:00Z`; without it the trace has no dates, and
        /// starts on a Monday.
        "start" start: BeginTime,
        /// Mean time between two submits, such as 90s.
        "every" every: Length,
        /// `poisson`, with independent submits, or `regular`; poisson by default.
        "arrivals" arrivals: Text,
        /// Arrival rate in each hour of the day, from midnight UTC: 24 numbers, only their
        /// proportions count.
        "hours" hours: Many<Whole<0, 1_000_000>>,
        /// Arrival rate on Saturday and Sunday, in percent of other days; 100 by default.
        "weekend" weekend: Whole<0, 1_000>,
        /// Number of users; 1 by default.
        "users" users: Whole<1, 100_000>,
        /// Inequality of users: user k submits in proportion to 1/k^(skew/100). 100 by default, 0
        /// makes them equal.
        "skew" skew: Whole<0, 400>,
        /// Classes of jobs, chosen by weight.
        "classes" classes: Many<ClassDocument>,
    }
}

document! {
    /// One class of jobs.
    ClassDocument ("trace-class") requires ["name", "runtime"] foreign &[("share", "weight"), ("nodes", "tasks"), ("duration", "runtime"), ("time", "requested"), ("model", "gpu"), ("mem", "memory")] => {
        /// Name of the class; prefix of the ids of its jobs.
        "name" name: JobName,
        /// Number of jobs in proportion to the other classes; 1 by default.
        "weight" weight: Whole<1, 1_000_000>,
        /// Tasks of a job; several numbers are equally likely. 1 by default.
        "tasks" tasks: OneOrMany<Whole<1, 10_000>>,
        /// GPUs of each task, or a share of one.
        "gpus" gpus: Gpus,
        /// Acceptable GPU models. All by default.
        "gpu" gpu: OneOrMany<Model>,
        /// CPUs of each task.
        "cpus" cpus: Cpus,
        /// Memory of each task.
        "memory" memory: Size,
        /// Runtime: `10m`, `{from: 1m, to: 2h}`, or `{median: 10m, p95: 6h, max: 2d}`.
        "runtime" runtime: RuntimeField,
        /// Time limit; jobs that would run longer end there.
        "requested" requested: Length,
        /// Largest ratio of the time limit to the runtime; the ratio is drawn between 1 and this.
        "overestimate" overestimate: Whole<1, 1_000>,
        /// Queue that the jobs are submitted to.
        "queue" queue: Text,
        /// Share of jobs that fail, in percent.
        "failed" failed: Whole<0, 100>,
    }
}

document! {
    /// Distribution of the runtimes of a class.
    RuntimeDocument ("trace-runtime") requires [] foreign &[("min", "from"), ("mean", "median")] => {
        /// Shortest runtime of a log-uniform distribution.
        "from" from: Length,
        /// Longest runtime of a log-uniform distribution.
        "to" to: Length,
        /// Median of a log-normal distribution.
        "median" median: Length,
        /// 95th percentile of a log-normal distribution.
        "p95" p95: Length,
        /// Longest runtime, at which the distribution is cut.
        "max" max: Length,
    }
}

/// A fixed runtime, or its distribution.
#[derive(Clone, Debug)]
pub(crate) enum RuntimeField {
    Fixed(Length),
    Drawn(Box<RuntimeDocument>),
}

impl Field for RuntimeField {
    fn read(node: &Node, name: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Map(_) => {
                RuntimeDocument::read(node, name, problems).map(|drawn| Self::Drawn(drawn.into()))
            }
            _ => Length::read(node, name, problems).map(Self::Fixed),
        }
    }
}

impl JsonSchema for RuntimeField {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "runtime".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let fixed = generator.subschema_for::<Length>();
        let drawn = generator.subschema_for::<RuntimeDocument>();
        schemars::json_schema!({ "anyOf": [fixed, drawn] })
    }
}

/// A field that is ignored.
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
        /// Sets of identical cohorts.
        "cohorts" cohorts: Many<CohortDocument>,
        /// Nodes; ignored by Muster.
        "topology" topology: Ignored,
        /// Resource flavor; ignored by Muster.
        "resourceFlavor" flavor: Ignored,
        /// Dynamic resource allocation; ignored by Muster.
        "dra" dra: Ignored,
    }
}

document! {
    /// A set of identical cohorts.
    CohortDocument ("kueue-cohort") requires ["className", "count", "queuesSets"] foreign &[] => {
        /// Prefix of their names.
        "className" class: Text,
        /// Number of cohorts to create.
        "count" count: Whole<0, 10_000>,
        /// Sets of their queues.
        "queuesSets" queues: Many<QueuesSetDocument>,
    }
}

document! {
    /// A set of identical queues.
    QueuesSetDocument ("kueue-queues") requires ["className", "count", "workloadsSets"] foreign &[] => {
        /// Prefix of their names.
        "className" class: Text,
        /// Number of queues to create.
        "count" count: Whole<0, 10_000>,
        /// Nominal quota; ignored, since a queue file sets it.
        "nominalQuota" nominal: Ignored,
        /// Borrowing limit; ignored, since a queue file sets it.
        "borrowingLimit" borrowing: Ignored,
        /// Preemption in the cohort; ignored, since a queue file sets it.
        "reclaimWithinCohort" reclaim: Ignored,
        /// Preemption in the queue; ignored, since a queue file sets it.
        "withinClusterQueue" within: Ignored,
        /// Nominal quota of devices; ignored, since a queue file sets it.
        "deviceNominalQuota" device_nominal: Ignored,
        /// Borrowing limit of devices; ignored, since a queue file sets it.
        "deviceBorrowingLimit" device_borrowing: Ignored,
        /// Sets of workloads that are submitted to each queue.
        "workloadsSets" sets: Many<WorkloadsSetDocument>,
    }
}

document! {
    /// Workloads that are created one after the other.
    WorkloadsSetDocument ("kueue-workloads") requires ["count", "creationIntervalMs", "workloads"] foreign &[] => {
        /// Number of times that all of them are created.
        "count" count: Whole<0, 10_000_000>,
        /// Time before each creation.
        "creationIntervalMs" interval_ms: Whole<0, 1_000_000_000>,
        /// Workloads to create in each set.
        "workloads" workloads: Many<WorkloadDocument>,
    }
}

document! {
    /// A workload of a set.
    WorkloadDocument ("kueue-workload") requires ["className", "runtimeMs", "request"] foreign &[] => {
        /// Name of its class.
        "className" class: Text,
        /// Runtime once admitted, in milliseconds.
        "runtimeMs" runtime_ms: Whole<0, 1_000_000_000_000>,
        /// Priority; higher is scheduled first.
        "priority" priority: Whole<-1_000_000_000, 1_000_000_000>,
        /// CPUs of each pod.
        "request" request: Cpus,
        /// Number of pods; used only if `tasLevel` is set, as in Kueue.
        "podCount" pods: Whole<0, 1_000_000>,
        /// Topology constraint; ignored, since a trace has none.
        "tasConstraint" constraint: Ignored,
        /// Level of the topology.
        "tasLevel" level: Ignored,
        /// Size of a slice; ignored by Muster.
        "sliceSize" slice: Ignored,
        /// Devices of each pod.
        "devices" devices: Whole<0, 128>,
    }
}
