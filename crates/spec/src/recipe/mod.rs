//! Reader of recipes for traces: Muster's own, or a generator of Kueue's performance tests, which
//! is recognised by its `cohorts`. Nothing is drawn here.

mod document;

use std::sync::Arc;

use muster_model::job::{GpuRequest, Resources};
use muster_model::{Span, Time};

use crate::diagnostic::{Diagnostics, Problem, Problems};
use crate::field::{Field, Located, Many, ROOT, Whole};
use crate::quantity::EarliestStart;
use crate::source::Sources;
use crate::yaml::{self, Value};
pub(crate) use document::RecipeDocument;
use document::{
    ClassDocument, KueueDocument, QueuesSetDocument, RuntimeDocument, RuntimeField,
    WorkloadsSetDocument,
};

const HOURS: usize = 24;
/// Start of traces without dates: a Monday, four days after the epoch, which was a Thursday.
const MONDAY: Time = Time(4 * 86_400_000);

/// A recipe for a trace.
#[derive(Clone, Debug, PartialEq)]
pub enum Recipe {
    /// Jobs that are drawn from a mix of classes.
    Mix(Mix),
    /// Workloads that are created at fixed times, per queue.
    Kueue(Vec<KueueQueue>),
}

/// A mix of classes that arrive at random.
#[derive(Clone, Debug, PartialEq)]
pub struct Mix {
    /// Most jobs; `None` for no limit.
    pub jobs: Option<u64>,
    /// Length of time in which jobs are submitted; `None` for no limit.
    pub length: Option<Span>,
    /// Start of the trace.
    pub start: Time,
    /// Instant subtracted from submit times, so that a trace without dates starts at 0.
    pub zero: Time,
    /// Mean time between submits.
    pub every: Span,
    /// True if the time between submits is constant.
    pub regular: bool,
    /// Weight of each hour of the day.
    pub hours: Vec<u64>,
    /// Weight of weekends in percent.
    pub weekend_percent: u64,
    /// Number of users that submit jobs.
    pub users: u32,
    /// Exponent of their inequality, in hundredths.
    pub skew_percent: u32,
    /// Classes of jobs, chosen by weight.
    pub classes: Vec<Class>,
}

/// One class of jobs.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// Prefix of the ids of its jobs.
    pub name: String,
    /// Weight among the classes.
    pub weight: u64,
    /// Numbers of tasks, equally likely.
    pub tasks: Vec<u32>,
    /// Resources of each task.
    pub task: Resources,
    /// Distribution of the runtimes.
    pub runtime: RuntimeDistribution,
    /// Time limits of the jobs.
    pub requested: LimitDistribution,
    /// Queue that they are submitted to; `None` for the default.
    pub queue: Option<Arc<str>>,
    /// Share of jobs that fail, in percent.
    pub failed_percent: u64,
}

/// Distribution of lengths of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum RuntimeDistribution {
    /// The same runtime for every job.
    Fixed(Span),
    /// Log-uniform between two lengths.
    LogUniform(Span, Span),
    /// Log-normal, by median and 95th percentile, cut at the longest.
    LogNormal(Span, Span, Option<Span>),
}

/// Time limits that are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LimitDistribution {
    /// Jobs without a time limit.
    Nothing,
    /// A constant time limit.
    Fixed(Span),
    /// Up to this many times the runtime.
    Times(u32),
}

/// A queue of Kueue and the workloads created in it.
#[derive(Clone, Debug, PartialEq)]
pub struct KueueQueue {
    /// Name, as Kueue's generator forms it.
    pub name: Arc<str>,
    /// Sets of workloads, created in parallel.
    pub sets: Vec<KueueSet>,
}

/// Workloads that are created one after the other.
#[derive(Clone, Debug, PartialEq)]
pub struct KueueSet {
    /// Number of times that all of them are created.
    pub count: u64,
    /// Time before each creation.
    pub interval: Span,
    /// Class, number of pods, resources of each pod, runtime, and priority.
    pub workloads: Vec<(Arc<str>, u32, Resources, Span, i32)>,
}

/// Reads a recipe.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse_recipe(source: &str, file: Option<&str>) -> Result<Recipe, Diagnostics> {
    let sources = Arc::new(Sources::new(source, file));
    let mut problems = Problems::default();
    let smallest = "{jobs: 10, every: 1m, classes: [{name: a, gpus: 1, runtime: 10m}]}";
    let recipe = yaml::read_one(&sources, "recipes", smallest, &mut problems).and_then(|node| {
        let is_kueue = match &node.value {
            Value::Map(entries) => entries.iter().any(|entry| entry.key == "cohorts"),
            _ => false,
        };
        if is_kueue {
            KueueDocument::read(&node, ROOT, &mut problems)
                .map(|document| Recipe::Kueue(kueue(&document)))
        } else {
            RecipeDocument::read(&node, ROOT, &mut problems)
                .and_then(|document| mix(&document, &mut problems))
                .map(Recipe::Mix)
        }
    });
    match recipe {
        Some(recipe) => problems.finish(recipe, &sources),
        None => Err(problems.into_diagnostics(&sources)),
    }
}

/// Returns a whole number as written, or its default.
fn whole<const MIN: i64, const MAX: i64>(
    written: &Option<Located<Whole<MIN, MAX>>>,
    default: u64,
) -> u64 {
    written.as_ref().and_then(|written| u64::try_from(written.value.0).ok()).unwrap_or(default)
}

fn mix(document: &RecipeDocument, problems: &mut Problems) -> Option<Mix> {
    let before = problems.len();
    let every = document.every.as_ref()?;
    if document.jobs.is_none() && document.length.is_none() {
        problems.add(
            Problem::new("the trace has no end")
                .at(every.key, "jobs would arrive forever")
                .hint("add `jobs: 1000`, or `length: 7d`".to_owned()),
        );
    }
    if every.value.0 == Span(0) {
        problems.add(
            Problem::new("`every` is 0").at(every.place, "expected a length of time above zero"),
        );
    }
    let regular = regular(document, problems);
    let (start, zero) = match document.start.as_ref().map(|start| start.value.0) {
        Some(EarliestStart::At(time)) => (time, Time(0)),
        Some(EarliestStart::After(span)) => (MONDAY + span, MONDAY),
        None => (MONDAY, MONDAY),
    };
    let classes = document.classes.iter().flat_map(|classes| &classes.value.0);
    let classes = classes.filter_map(|item| class(&item.value, problems)).collect();
    let mix = Mix {
        jobs: document.jobs.as_ref().and_then(|jobs| u64::try_from(jobs.value.0).ok()),
        length: document.length.as_ref().map(|length| length.value.0),
        start,
        zero,
        every: every.value.0,
        regular,
        hours: hours(document.hours.as_ref(), problems),
        weekend_percent: whole(&document.weekend, 100),
        users: u32::try_from(whole(&document.users, 1)).unwrap_or(1),
        skew_percent: u32::try_from(whole(&document.skew, 100)).unwrap_or(100),
        classes,
    };
    (problems.len() == before).then_some(mix)
}

fn regular(document: &RecipeDocument, problems: &mut Problems) -> bool {
    let Some(written) = &document.arrivals else { return false };
    match (written.value.0.as_str(), document.hours.as_ref().map(|hours| hours.key)) {
        ("poisson", _) => false,
        ("regular", None) if document.weekend.is_none() => true,
        ("regular", hours) => {
            let busy = hours
                .or(document.weekend.as_ref().map(|weekend| weekend.key))
                .unwrap_or(written.place);
            problems.add(
                Problem::new("regular arrivals cannot have busy hours")
                    .at(written.place, "the same time between all submits")
                    .also(busy, "busier at some times than at others"),
            );
            true
        }
        (_, _) => {
            problems.add(
                Problem::new("`arrivals` is not a known distribution")
                    .at(written.place, "expected `poisson` or `regular`"),
            );
            false
        }
    }
}

fn hours(
    written: Option<&Located<Many<Whole<0, 1_000_000>>>>,
    problems: &mut Problems,
) -> Vec<u64> {
    let Some(written) = written else { return vec![1; HOURS] };
    let hours: Vec<u64> = written.value.0.iter().map(|hour| hour.value.0.unsigned_abs()).collect();
    if hours.len() != HOURS || hours.iter().sum::<u64>() == 0 {
        let message = match hours.len() {
            HOURS => "every hour is 0: nothing would arrive".to_owned(),
            count => format!("{count} numbers; a day has {HOURS} hours"),
        };
        problems.add(Problem::new("`hours` is not a day").at(written.place, message));
    }
    hours
}

fn class(document: &ClassDocument, problems: &mut Problems) -> Option<Class> {
    let gpus = document.gpus.as_ref().map(|gpus| &gpus.value.0);
    let mut gpu = GpuRequest::default();
    if let Some(amount) = gpus {
        (gpu.devices, gpu.share) = (amount.devices, amount.share);
    }
    gpu.models.extend(
        document.gpu.iter().flat_map(|models| &models.value.0).map(|model| model.value.0.clone()),
    );
    let requested = match (&document.requested, &document.overestimate) {
        (Some(fixed), Some(times)) => {
            problems.add(
                Problem::new("both `requested` and `overestimate`")
                    .at(times.key, "sets the time limit to a multiple of the runtime")
                    .also(fixed.key, "sets the same time limit for all jobs"),
            );
            return None;
        }
        (Some(fixed), None) => LimitDistribution::Fixed(fixed.value.0),
        (None, Some(times)) => LimitDistribution::Times(u32::try_from(times.value.0).unwrap_or(1)),
        (None, None) => LimitDistribution::Nothing,
    };
    let tasks: Vec<u32> = document
        .tasks
        .iter()
        .flat_map(|tasks| &tasks.value.0)
        .filter_map(|tasks| u32::try_from(tasks.value.0).ok())
        .collect();
    Some(Class {
        name: document.name.as_ref()?.value.0.clone(),
        weight: whole(&document.weight, 1),
        tasks: if tasks.is_empty() { vec![1] } else { tasks },
        task: Resources {
            gpu,
            cpus: document.cpus.as_ref().map(|cpus| cpus.value.0).unwrap_or_default(),
            memory: document.memory.as_ref().map(|memory| memory.value.0).unwrap_or_default(),
            ..Resources::default()
        },
        runtime: lengths(document.runtime.as_ref()?, problems)?,
        requested,
        queue: document.queue.as_ref().map(|queue| queue.value.0.as_str().into()),
        failed_percent: whole(&document.failed, 0),
    })
}

/// Returns the distribution, which must be given in exactly one of the ways.
fn lengths(
    written: &Located<RuntimeField>,
    problems: &mut Problems,
) -> Option<RuntimeDistribution> {
    let drawn = match &written.value {
        RuntimeField::Fixed(length) => return Some(RuntimeDistribution::Fixed(length.0)),
        RuntimeField::Drawn(drawn) => drawn,
    };
    let RuntimeDocument { from, to, median, p95, max } = drawn.as_ref();
    let [from, to, median, p95, max] =
        [from, to, median, p95, max].map(|span| span.as_ref().map(|span| span.value.0));
    let in_order = |low: Span, high: Span| Span(0) < low && low <= high;
    let lengths = match (from, to, median, p95, max) {
        (Some(from), Some(to), None, None, None) if in_order(from, to) => {
            RuntimeDistribution::LogUniform(from, to)
        }
        (None, None, Some(median), Some(p95), max) if in_order(median, p95) => {
            RuntimeDistribution::LogNormal(median, p95, max)
        }
        _ => {
            let label = "expected a shorter `from` and a longer `to`, or a `median` and a longer `p95`, with a `max` or without";
            problems
                .add(Problem::new("`runtime` is not a range of lengths").at(written.place, label));
            return None;
        }
    };
    Some(lengths)
}

fn kueue(document: &KueueDocument) -> Vec<KueueQueue> {
    let mut queues = Vec::new();
    for cohorts in document.cohorts.iter().flat_map(|cohorts| &cohorts.value.0) {
        let class = cohorts.value.class.as_ref().map_or("", |class| class.value.0.as_str());
        for cohort in 0..whole(&cohorts.value.count, 0) {
            let sets = cohorts.value.queues.iter().flat_map(|sets| &sets.value.0);
            for (set, item) in sets.enumerate() {
                queues.extend(kueue_queues(&item.value, set, &format!("{class}-{cohort}")));
            }
        }
    }
    queues
}

/// Returns queues, named as Kueue's generator does (test/performance/scheduler/runner/generator,
/// generateQueue).
fn kueue_queues(document: &QueuesSetDocument, set: usize, cohort: &str) -> Vec<KueueQueue> {
    let class = document.class.as_ref().map_or("", |class| class.value.0.as_str());
    let sets: Vec<KueueSet> = document
        .sets
        .iter()
        .flat_map(|sets| &sets.value.0)
        .map(|item| kueue_set(&item.value))
        .collect();
    let queue = |number: u64| KueueQueue {
        name: format!("{class}-{set}-{number}-{cohort}").into(),
        sets: sets.clone(),
    };
    (0..whole(&document.count, 0)).map(queue).collect()
}

/// Returns a set of workloads. Without a level of the topology, Kueue's generator ignores the count
/// and makes one pod.
fn kueue_set(document: &WorkloadsSetDocument) -> KueueSet {
    let workloads =
        document.workloads.iter().flat_map(|workloads| &workloads.value.0).map(|item| {
            let workload = &item.value;
            let pods = if workload.level.is_some() { whole(&workload.pods, 1).max(1) } else { 1 };
            let task = Resources {
                gpu: GpuRequest::whole(u32::try_from(whole(&workload.devices, 0)).unwrap_or(0)),
                cpus: workload.request.as_ref().map(|request| request.value.0).unwrap_or_default(),
                ..Resources::default()
            };
            let class = workload.class.as_ref().map_or("", |class| class.value.0.as_str());
            let runtime = Span(whole(&workload.runtime_ms, 0));
            let priority = workload.priority.as_ref().map_or(0, |priority| priority.value.0 as i32);
            (class.into(), u32::try_from(pods).unwrap_or(u32::MAX), task, runtime, priority)
        });
    KueueSet {
        count: whole(&document.count, 0),
        interval: Span(whole(&document.interval_ms, 0)),
        workloads: workloads.collect(),
    }
}
