//! Figures of a site in the text format of Prometheus: `muster metrics`, and what `muster scheduler` serves. Names end in
//! their units, as its guidelines ask: <https://prometheus.io/docs/practices/naming/>.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use muster_model::unit::Time;
use muster_model::view::{
    DaemonCounters, GpuLoadView, IdleView, JobState, JobView, NodeView, QueueView, QuotaView,
};
use muster_model::{GpuMilli, GpuModel, QueueName, UserName};

use crate::reason;

/// State of a site, as its routes give it.
#[derive(Clone, Copy, Debug)]
pub struct SiteState<'a> {
    /// Present time by the clock of the site.
    pub now: Time,
    /// Queues, parents and leaves.
    pub queues: &'a [QueueView],
    /// Nodes with their devices, lost ones too.
    pub nodes: &'a [NodeView],
    /// Loads of GPUs; empty where none can be read.
    pub loads: &'a [GpuLoadView],
    /// Work of the daemon; `None` for other schedulers.
    pub counters: Option<&'a DaemonCounters>,
    /// Number of warnings that the daemon shows to users.
    pub warnings: usize,
}

/// Job as the figures count it, without the cost of a view.
#[derive(Clone, Copy, Debug)]
pub struct JobFigures<'a> {
    /// Leaf queue of the job.
    pub queue: &'a QueueName,
    /// User of the job.
    pub user: &'a UserName,
    /// State of the job; ended ones do not count.
    pub state: JobState,
    /// Time of its submission; read of pending jobs alone.
    pub submitted: Time,
    /// Number of elements that wait.
    pub waiting: u32,
    /// Word for why the first of them waits.
    pub reason: Option<&'static str>,
    /// Thousandths of GPUs that its tasks hold.
    pub held_milli: u64,
    /// Number of GPUs that it holds and leaves idle.
    pub idle: u32,
}

impl<'a> JobFigures<'a> {
    /// Returns the figures of a job. `idle` are the elements of all jobs that leave GPUs idle.
    #[must_use]
    pub fn of(job: &'a JobView, idle: &[IdleView]) -> Self {
        let tasks = job.elements.iter().filter(|element| crate::ps::holds(element.state));
        let tasks = tasks.flat_map(|element| &element.tasks);
        let own = idle.iter().filter(|idle| idle.element.job == job.job);
        Self {
            queue: &job.queue,
            user: &job.user,
            state: job.state,
            submitted: job.submitted,
            waiting: match &job.array {
                Some(array) => array.waiting,
                None => u32::from(matches!(job.state, JobState::Pending | JobState::Held)),
            },
            reason: job.waiting_for.as_ref().map(reason::word),
            held_milli: tasks.map(|task| task.devices.len() as u64 * u64::from(task.share.0)).sum(),
            idle: own.map(|idle| idle.gpus).sum(),
        }
    }
}

/// Returns the text that Prometheus reads, of a site and its jobs.
#[must_use]
pub fn metrics<'a>(
    site: &SiteState<'_>,
    jobs: impl IntoIterator<Item = JobFigures<'a>>,
) -> MetricsText {
    let mut text = MetricsText::default();
    let mut sums = JobSums::default();
    for job in jobs {
        sums.add(site.now, &job);
    }
    sums.write(&mut text);
    queues(site, &mut text);
    nodes(site, &mut text);
    loads(site, &mut text);
    if let Some(counters) = site.counters {
        daemon(counters, site.warnings, &mut text);
    }
    text
}

/// Text of metrics that are complete: each has its help, its type and all its values together.
#[derive(Debug, Default)]
pub struct MetricsText(String);

impl MetricsText {
    /// Ends the list of metrics; returns it as Prometheus reads it.
    #[must_use]
    pub fn into_text(self) -> String {
        self.0
    }

    /// Adds a counter without labels; its name ends in `_total`.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.metric((name, "counter", help), [], [([], value)]);
    }

    /// Adds a gauge with its values by labels; nothing if there are none.
    pub fn gauge<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        labels: [&str; N],
        values: impl IntoIterator<Item = ([String; N], impl Display)>,
    ) {
        self.metric((name, "gauge", help), labels, values);
    }

    fn metric<const N: usize>(
        &mut self,
        (name, kind, help): (&str, &str, &str),
        labels: [&str; N],
        values: impl IntoIterator<Item = ([String; N], impl Display)>,
    ) {
        let mut values = values.into_iter().peekable();
        if values.peek().is_none() {
            return;
        }
        let _ = writeln!(self.0, "# HELP muster_{name} {help}\n# TYPE muster_{name} {kind}");
        for (of_labels, value) in values {
            let pairs: Vec<String> = labels
                .iter()
                .zip(&of_labels)
                .map(|(label, value)| format!("{label}=\"{}\"", escaped(value)))
                .collect();
            let pairs =
                if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) };
            let _ = writeln!(self.0, "muster_{name}{pairs} {value}");
        }
    }
}

/// Escapes the value of a label.
fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Returns GPUs as a decimal number.
fn whole(gpus: GpuMilli) -> f64 {
    f64::from(gpus.0) / 1000.0
}

/// Sums over the jobs of a site.
#[derive(Default)]
struct JobSums<'a> {
    /// Jobs by queue and state.
    by_state: BTreeMap<(&'a QueueName, &'static str), u64>,
    /// Waiting elements by queue and reason.
    by_reason: BTreeMap<(&'a QueueName, &'static str), u64>,
    /// Longest wait of a pending job by queue, in seconds.
    oldest: BTreeMap<&'a QueueName, u64>,
    /// Thousandths of GPUs that the jobs of a user hold.
    held: BTreeMap<&'a UserName, u64>,
    /// GPUs that jobs hold and leave idle, by queue.
    idle: BTreeMap<&'a QueueName, u64>,
}

impl<'a> JobSums<'a> {
    fn add(&mut self, now: Time, job: &JobFigures<'a>) {
        if job.idle > 0 {
            *self.idle.entry(job.queue).or_default() += u64::from(job.idle);
        }
        if job.state.is_final() {
            return;
        }
        *self.by_state.entry((job.queue, job.state.word())).or_default() += 1;
        if let Some(reason) = job.reason.filter(|_| job.waiting > 0) {
            *self.by_reason.entry((job.queue, reason)).or_default() += u64::from(job.waiting);
        }
        if job.state == JobState::Pending {
            let longest = self.oldest.entry(job.queue).or_default();
            *longest = (now.since(job.submitted).0 / 1000).max(*longest);
        }
        if job.held_milli > 0 {
            *self.held.entry(job.user).or_default() += job.held_milli;
        }
    }

    fn write(self, text: &mut MetricsText) {
        text.gauge(
            "jobs",
            "Jobs that have not ended, by the state of their least advanced element.",
            ["queue", "state"],
            self.by_state.into_iter().map(of_queue_and_word),
        );
        text.gauge(
            "waiting_elements",
            "Elements of jobs that wait, by the reason of the first of each job.",
            ["queue", "reason"],
            self.by_reason.into_iter().map(of_queue_and_word),
        );
        text.gauge(
            "oldest_waiting_seconds",
            "Time since the submission of the pending job that has waited longest.",
            ["queue"],
            self.oldest.into_iter().map(of_queue),
        );
        text.gauge(
            "user_gpus",
            "GPUs that the jobs of a user hold.",
            ["user"],
            self.held.into_iter().map(|(user, milli)| ([user.to_string()], milli as f64 / 1000.0)),
        );
        text.gauge(
            "idle_held_gpus",
            "GPUs that jobs hold and have left idle for as long as their queue says, by default half an hour.",
            ["queue"],
            self.idle.into_iter().map(of_queue),
        );
    }
}

/// Turns a sum over a queue into labels and their value.
fn of_queue((queue, sum): (&QueueName, u64)) -> ([String; 1], u64) {
    ([queue.to_string()], sum)
}

/// Turns a sum over a queue and a state or reason into labels and their value.
fn of_queue_and_word(((queue, word), sum): ((&QueueName, &str), u64)) -> ([String; 2], u64) {
    ([queue.to_string(), word.to_owned()], sum)
}

fn queues(site: &SiteState<'_>, text: &mut MetricsText) {
    let models = |queue: &'_ QueueView| -> Vec<([String; 2], QuotaView)> {
        let labels = |gpus: &QuotaView| [queue.name.to_string(), gpus.model.to_string()];
        queue.gpus.iter().map(|gpus| (labels(gpus), gpus.clone())).collect()
    };
    let of_models = || site.queues.iter().flat_map(models);
    text.gauge(
        "queue_quota_gpus",
        "Nominal quota of a queue.",
        ["queue", "model"],
        of_models().filter_map(|(labels, gpus)| Some((labels, whole(gpus.nominal?)))),
    );
    text.gauge(
        "queue_used_gpus",
        "GPUs that the jobs of a queue and of those below it hold.",
        ["queue", "model"],
        of_models().map(|(labels, gpus)| (labels, whole(gpus.used))),
    );
    text.gauge(
        "queue_borrowed_gpus",
        "GPUs that a queue holds beyond its nominal quota.",
        ["queue", "model"],
        of_models().map(|(labels, gpus)| (labels, whole(gpus.borrowed))),
    );
    let leaves = || site.queues.iter().filter(|queue| queue.is_leaf);
    text.gauge(
        "queue_share_ratio",
        "Part of the decayed usage of all queues, from 0 to 1.",
        ["queue"],
        leaves().map(|queue| ([queue.name.to_string()], queue.share_ppm as f64 / 1e6)),
    );
}

fn nodes(site: &SiteState<'_>, text: &mut MetricsText) {
    text.gauge(
        "node_up",
        "1 if a node answers, 0 if it is lost.",
        ["node"],
        site.nodes.iter().map(|node| ([node.name.to_string()], u8::from(node.up))),
    );
    text.gauge(
        "gpus",
        "GPUs: held by jobs, free, used by processes outside Muster, or out of service.",
        ["node", "model", "state"],
        site.nodes.iter().flat_map(|node| {
            let label = |(model, state): (&GpuModel, &str)| {
                [node.name.to_string(), model.to_string(), state.to_owned()]
            };
            gpus_of(node).into_iter().map(move |(of, gpus)| (label(of), gpus))
        }),
    );
}

/// Returns the number of GPUs of a node by model and state.
fn gpus_of(node: &NodeView) -> BTreeMap<(&GpuModel, &'static str), f64> {
    let mut gpus = BTreeMap::new();
    for device in &node.devices {
        let used = whole(device.used);
        *gpus.entry((&device.model, "held")).or_default() += used;
        let rest = if device.foreign {
            "used_outside"
        } else if device.drained || node.drained.is_some() || !node.up {
            "out_of_service"
        } else {
            "free"
        };
        *gpus.entry((&device.model, rest)).or_default() += 1.0 - used;
    }
    gpus
}

fn loads(site: &SiteState<'_>, text: &mut MetricsText) {
    let all = || site.loads.iter().filter_map(|gpu| Some((gpu, gpu.load?)));
    let labels = |gpu: &GpuLoadView| [gpu.node.to_string(), gpu.index.to_string()];
    text.gauge(
        "gpu_busy_ratio",
        "Part of about the last second in which a GPU computed, from 0 to 1.",
        ["node", "gpu"],
        all().filter_map(|(gpu, load)| Some((labels(gpu), f64::from(load.busy_percent?) / 100.0))),
    );
    text.gauge(
        "gpu_memory_used_bytes",
        "Memory of a GPU that is allocated.",
        ["node", "gpu"],
        all().filter_map(|(gpu, load)| Some((labels(gpu), load.memory_used?.0))),
    );
    text.gauge(
        "gpu_power_watts",
        "Power that a GPU draws.",
        ["node", "gpu"],
        all().filter_map(|(gpu, load)| Some((labels(gpu), load.power_watts?))),
    );
}

fn daemon(counters: &DaemonCounters, warnings: usize, text: &mut MetricsText) {
    let seconds = |micros: u64| micros as f64 / 1e6;
    for (name, help, value) in [
        ("passes_total", "Scheduling passes since the daemon started.", counters.passes as f64),
        (
            "pass_seconds_total",
            "Time spent in them, with writing the state.",
            seconds(counters.pass_micros),
        ),
        ("starts_total", "Starts of elements that were ordered.", counters.starts as f64),
        ("stops_total", "Stops of elements that were ordered.", counters.stops as f64),
        (
            "refused_starts_total",
            "Tasks that could not be prepared on their node.",
            counters.refused_starts as f64,
        ),
        (
            "store_failures_total",
            "Passes whose state could not be written.",
            counters.store_failures as f64,
        ),
        (
            "refused_plans_total",
            "Plans that failed their check; each is a defect.",
            counters.refused_plans as f64,
        ),
    ] {
        text.counter(name, help, value);
    }
    for (name, help, value) in [
        (
            "pass_seconds_max",
            "Longest pass since the daemon started.",
            seconds(counters.longest_pass_micros),
        ),
        ("notices_waiting", "Notices that are to be sent.", counters.notices_waiting as f64),
        ("warnings", "Warnings that the daemon shows to users.", warnings as f64),
    ] {
        text.gauge(name, help, [], [([], value)]);
    }
}

#[cfg(test)]
mod tests {
    use muster_model::view::GpuLoad;

    use super::*;
    use crate::sample;

    #[test]
    fn metrics_of_a_site() {
        let jobs = sample::contention();
        let load = GpuLoad { busy_percent: Some(97), power_watts: Some(640), ..GpuLoad::default() };
        let loads = [GpuLoadView { node: "gpu\"1".into(), index: 0, load: Some(load) }];
        let counters =
            DaemonCounters { passes: 3, pass_micros: 4_500, ..DaemonCounters::default() };
        let site = SiteState {
            now: sample::after(60),
            queues: &[],
            nodes: &[],
            loads: &loads,
            counters: Some(&counters),
            warnings: 1,
        };
        let text = metrics(&site, jobs.iter().map(|job| JobFigures::of(job, &[]))).into_text();
        insta::assert_snapshot!(text, @r#"
        # HELP muster_jobs Jobs that have not ended, by the state of their least advanced element.
        # TYPE muster_jobs gauge
        muster_jobs{queue="default",state="pending"} 1
        muster_jobs{queue="default",state="running"} 2
        # HELP muster_waiting_elements Elements of jobs that wait, by the reason of the first of each job.
        # TYPE muster_waiting_elements gauge
        muster_waiting_elements{queue="default",reason="array cap"} 15
        muster_waiting_elements{queue="default",reason="capacity"} 1
        # HELP muster_oldest_waiting_seconds Time since the submission of the pending job that has waited longest.
        # TYPE muster_oldest_waiting_seconds gauge
        muster_oldest_waiting_seconds{queue="default"} 60
        # HELP muster_user_gpus GPUs that the jobs of a user hold.
        # TYPE muster_user_gpus gauge
        muster_user_gpus{user="alice"} 7
        # HELP muster_gpu_busy_ratio Part of about the last second in which a GPU computed, from 0 to 1.
        # TYPE muster_gpu_busy_ratio gauge
        muster_gpu_busy_ratio{node="gpu\"1",gpu="0"} 0.97
        # HELP muster_gpu_power_watts Power that a GPU draws.
        # TYPE muster_gpu_power_watts gauge
        muster_gpu_power_watts{node="gpu\"1",gpu="0"} 640
        # HELP muster_passes_total Scheduling passes since the daemon started.
        # TYPE muster_passes_total counter
        muster_passes_total 3
        # HELP muster_pass_seconds_total Time spent in them, with writing the state.
        # TYPE muster_pass_seconds_total counter
        muster_pass_seconds_total 0.0045
        # HELP muster_starts_total Starts of elements that were ordered.
        # TYPE muster_starts_total counter
        muster_starts_total 0
        # HELP muster_stops_total Stops of elements that were ordered.
        # TYPE muster_stops_total counter
        muster_stops_total 0
        # HELP muster_refused_starts_total Tasks that could not be prepared on their node.
        # TYPE muster_refused_starts_total counter
        muster_refused_starts_total 0
        # HELP muster_store_failures_total Passes whose state could not be written.
        # TYPE muster_store_failures_total counter
        muster_store_failures_total 0
        # HELP muster_refused_plans_total Plans that failed their check; each is a defect.
        # TYPE muster_refused_plans_total counter
        muster_refused_plans_total 0
        # HELP muster_pass_seconds_max Longest pass since the daemon started.
        # TYPE muster_pass_seconds_max gauge
        muster_pass_seconds_max 0
        # HELP muster_notices_waiting Notices that are to be sent.
        # TYPE muster_notices_waiting gauge
        muster_notices_waiting 0
        # HELP muster_warnings Warnings that the daemon shows to users.
        # TYPE muster_warnings gauge
        muster_warnings 1
        "#);
    }

    #[test]
    fn a_metric_without_values_is_left_out() {
        let nothing = SiteState {
            now: Time(0),
            queues: &[],
            nodes: &[],
            loads: &[],
            counters: None,
            warnings: 0,
        };
        assert_eq!(metrics(&nothing, []).into_text(), "");
    }
}
