//! One job in full: `muster show`.

use std::collections::BTreeMap;

use muster_model::notice::{NoticeState, NoticeView};
use muster_model::view::{ElementView, GpuUseView, JobView, MissingOutput, ServiceView};
use muster_model::{
    Outcome, OutputFiles, PythonEnvironment, TaskEnvironment, TaskExit, Time, signal_name,
};

use crate::RenderContext;
use crate::amount::{count, gpus, hours};
use crate::clock;
use crate::ps::{devices_of, holds, replicas, requested, tasks_between};
use crate::reason;
use crate::style::{Ink, clean};
use crate::table::{Labels, Table};
use crate::usage::{is_mostly_measured, percent_of};

/// Most log files listed; those of a wide gang differ only in a number.
const LOGS_LISTED: usize = 8;

/// A job's row and everything else that `muster show` prints.
#[derive(Clone, Copy, Debug)]
pub struct JobSheet<'a> {
    /// The job as a row of `muster ps`.
    pub job: &'a JobView,
    /// Commands by group; `None` if the reader may not see them.
    pub commands: Option<&'a BTreeMap<String, String>>,
    /// Working directory; `None` if the reader may not see it.
    pub workdir: Option<&'a str>,
    /// Files that the user named for the output.
    pub files: Option<&'a OutputFiles>,
    /// Environment of its program.
    pub environment: Option<&'a TaskEnvironment>,
    /// Log file per rank.
    pub logs: &'a [String],
    /// Tasks whose output is incomplete.
    pub missing_output: &'a [MissingOutput],
    /// Notices about the job, oldest first.
    pub notices: &'a [NoticeView],
    /// Instant since which all its GPUs have been idle, if that is long ago.
    pub idle_since: Option<Time>,
    /// Use of its GPUs, if it was measured.
    pub gpu_use: Option<&'a GpuUseView>,
    /// Sentences on which limits are enforced and which are conventions.
    pub enforcement: &'a [String],
}

/// Returns all details of a job as text.
#[must_use]
pub fn show(detail: &JobSheet<'_>, context: RenderContext) -> String {
    let job = detail.job;
    let mut text =
        format!("job {}: {}\n", job.label(), context.paint(Ink::Strong, &clean(&job.name)));
    for (label, value) in facts(detail, context) {
        let labels = Labels { indent: 2, width: 11, ink: Ink::Faint };
        text.push_str(&labels.lines(label, value.lines(), context));
    }
    let tasks = tasks(job, context);
    if !tasks.is_empty() {
        text.push('\n');
        text.push_str(&tasks);
    }
    text
}

fn facts(detail: &JobSheet<'_>, context: RenderContext) -> Vec<(&'static str, String)> {
    let job = detail.job;
    let at = |time: Time| clock::time(time, context);
    let mut facts = vec![("state", state(job, context))];
    if let Some(array) = &job.array {
        let cap =
            array.max_running.map_or(String::new(), |cap| format!(", at most {cap} at a time"));
        facts.push((
            "array",
            format!(
                "{}{cap}: {} done, {} failed, {} active, {} waiting",
                count(array.total.into(), "element"),
                array.succeeded,
                array.failed,
                array.active,
                array.waiting
            ),
        ));
    }
    let is_of_kubernetes = job.native.is_some();
    facts.extend(job.service.as_ref().map(|settings| service(settings, is_of_kubernetes)));
    facts.push(("user", job.user.to_string()));
    facts.push(("queue", format!("{}, priority {}", job.queue, job.priority)));
    facts.push((
        "asks for",
        format!(
            "{}, {}, {}",
            match &job.elastic {
                Some(elastic) => format!("{} tasks", tasks_between(elastic)),
                None => count(job.tasks.into(), "task"),
            },
            requested(job),
            lengths(job)
        ),
    ));
    facts.extend(elastic(job));
    facts.extend(job.idle.map(|idle| ("idle", format!("stopped after {idle} without activity"))));
    facts.push(("submitted", at(job.submitted)));
    if let Some(started) = job.started {
        let waited = clock::elapsed(started.since(job.submitted));
        facts.push(("started", format!("{} after waiting {waited}", at(started))));
    }
    if let Some(ended) = job.ended {
        let ran = job.started.map_or(String::new(), |started| {
            format!(" after running {}", clock::elapsed(ended.since(started)))
        });
        facts.push(("ended", format!("{}{ran}", at(ended))));
    } else {
        facts.extend(ends(job, context));
    }
    for element in &job.elements {
        facts.extend(checkpoint(job, element, context));
        facts.extend(checkpoint_asked(job, element, context));
    }
    facts.extend(last_ends(job));
    let attempts = job.elements.iter().map(|element| element.attempt).max().unwrap_or(0);
    if attempts > 1 {
        facts.push(("attempts", attempts.to_string()));
    }
    facts.extend(detail.idle_since.map(|since| {
        let text = format!("all its GPUs are under 5 % busy, since {}", at(since));
        ("idle GPUs", context.paint(Ink::Waiting, &text))
    }));
    facts.extend(detail.gpu_use.and_then(gpu_use));
    facts.extend(private(detail));
    if !detail.notices.is_empty() {
        facts.push(("notices", notices(detail.notices, context)));
    }
    facts
}

/// Returns the mean use of the GPUs, with the GPU-hours that it is of.
fn gpu_use(gpus: &GpuUseView) -> Option<(&'static str, String)> {
    let percent = percent_of(gpus.used_gpu_secs, gpus.measured_gpu_secs)?;
    let held = hours(gpus.held_gpu_secs);
    let text = if is_mostly_measured(gpus.measured_gpu_secs, gpus.held_gpu_secs) {
        format!("busy {percent} % of {held} GPU-hours")
    } else {
        let measured = hours(gpus.measured_gpu_secs);
        format!("busy {percent} % of {measured} GPU-hours measured, of {held} held")
    };
    Some(("GPU use", text))
}

/// Returns a line for each notice: `end to ada@example.org: sent 12:00:03`.
fn notices(notices: &[NoticeView], context: RenderContext) -> String {
    let at = |time: Time| clock::time(time, context);
    let lines = notices.iter().map(|notice| {
        let count =
            if notice.count > 1 { format!(" ({} times)", notice.count) } else { String::new() };
        let state = match &notice.state {
            NoticeState::Sent { at: sent } => format!("sent {}", at(*sent)),
            NoticeState::Waiting { error: None, .. } => "to be sent".to_owned(),
            NoticeState::Waiting { error: Some(error), next, .. } => {
                format!("not sent yet, next try {}: {error}", at(*next))
            }
            NoticeState::GivenUp { tries, error } => {
                format!("given up after {}: {error}", count_of(*tries))
            }
        };
        format!("{}{count} to {}: {}", notice.event.word(), clean(&notice.to), clean(&state))
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn count_of(tries: u32) -> String {
    if tries == 1 { "1 try".to_owned() } else { format!("{tries} tries") }
}

/// Returns the time limit, and the run time that is predicted.
fn lengths(job: &JobView) -> String {
    let limit =
        job.time_limit.map_or("no time limit".to_owned(), |limit| format!("at most {limit}"));
    match job.expected_runtime {
        Some(expected) => format!("{limit}, about {expected} predicted"),
        None => limit,
    }
}

/// Returns the latest end of what runs, and the predicted one.
fn ends(job: &JobView, context: RenderContext) -> Option<(&'static str, String)> {
    let at = |time: Time| clock::time(time, context);
    let limit = job.elements.iter().filter_map(|element| element.ends_by).max();
    let predicted = job.elements.iter().filter_map(|element| element.expected_end).max();
    match (limit, predicted) {
        (Some(limit), Some(predicted)) => Some((
            "ends by",
            format!("{} (time limit and grace), predicted {}", at(limit), at(predicted)),
        )),
        (Some(limit), None) => Some(("ends by", format!("{} (time limit and grace)", at(limit)))),
        (None, Some(predicted)) => {
            Some(("ends", format!("predicted {}; it has no time limit", at(predicted))))
        }
        (None, None) => None,
    }
}

/// Describes what an elastic gang holds now, and with how many tasks it resumes if it is being
/// resized.
fn elastic(job: &JobView) -> Option<(&'static str, String)> {
    let element = job.elements.first().filter(|element| holds(element.state) && !is_many(job))?;
    job.elastic?;
    let next = match element.restarts_with_tasks {
        None => String::new(),
        Some(tasks) if tasks as usize == element.tasks.len() => {
            "; stops, resumes on other GPUs".to_owned()
        }
        Some(tasks) => format!("; stops, resumes with {}", count(tasks.into(), "task")),
    };
    Some(("holds", format!("{}, {}{next}", count(job.tasks.into(), "task"), gpus(job.gpus))))
}

/// Describes the replicas of a service, and where they listen. On Kubernetes, which is the only external
/// scheduler of services, an autoscaler sets their number, and each has an address of its own.
fn service(service: &ServiceView, is_of_kubernetes: bool) -> (&'static str, String) {
    let mut text = format!(
        "{} replicas: {} ready, {} active, {} waiting",
        replicas(service),
        service.ready,
        service.active,
        service.waiting
    );
    if service.max > service.guaranteed {
        let own = match service.guaranteed {
            _ if is_of_kubernetes => "their number follows the load of their CPUs".to_owned(),
            0 => "all are opportunistic: they run in idle capacity".to_owned(),
            floor => {
                format!(
                    "{floor} are guaranteed, the others opportunistic: they run in idle capacity"
                )
            }
        };
        text.push_str(&format!("\n{own}"));
    }
    if let Some(port) = service.port {
        text.push_str(&if is_of_kubernetes {
            format!("\neach replica listens on port {port}")
        } else {
            format!("\nreplica 0 listens on port {port}, each further one on the next")
        });
    }
    ("service", text)
}

/// Describes how the last attempts of pending or restarted elements ended.
fn last_ends(job: &JobView) -> Option<(&'static str, String)> {
    let alive = job.elements.iter().filter(|element| !element.state.is_final());
    let line = |element: &ElementView| {
        let end = clean(&element.last_end.as_ref()?.to_string()).into_owned();
        Some(match job.elements.len() {
            1 => end,
            _ => format!("{}: {end}", element.element),
        })
    };
    let mut lines: Vec<String> = alive.filter_map(line).collect();
    let more = lines.len().saturating_sub(LOGS_LISTED);
    lines.truncate(LOGS_LISTED);
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    (!lines.is_empty()).then(|| ("last end", lines.join("\n")))
}

/// Describes age and label of an element's last checkpoint.
fn checkpoint(
    job: &JobView,
    element: &ElementView,
    context: RenderContext,
) -> Option<(&'static str, String)> {
    let saved = element.checkpoint.as_ref()?;
    let mut text = String::new();
    if is_many(job) {
        text = format!("{}: ", element.element);
    }
    text.push_str(&format!("{} ago", clock::elapsed(context.now.since(saved.at))));
    if !saved.label.is_empty() {
        text.push_str(&format!(" ({})", clean(&saved.label)));
    }
    if saved.attempt != element.attempt {
        text.push_str(&format!(", in attempt {}", saved.attempt));
    }
    Some(("checkpoint", text))
}

/// Describes a checkpoint request that is not acknowledged yet, and whether a process handles its
/// signal.
fn checkpoint_asked(
    job: &JobView,
    element: &ElementView,
    context: RenderContext,
) -> Option<(&'static str, String)> {
    let asked = element.checkpoint_asked.filter(|_| holds(element.state))?;
    let of = if is_many(job) { format!("{}: ", element.element) } else { String::new() };
    let since = clock::elapsed(context.now.since(asked.at));
    let what = match (asked.undelivered, element.tasks.len()) {
        (0, _) => "not acknowledged yet".to_owned(),
        (_, 1) => {
            format!("no process of it handles {}, so it was not sent", signal_name(asked.signal))
        }
        (undelivered, tasks) => format!(
            "no process handles {} in {undelivered} of {tasks} tasks, so it was not sent there",
            signal_name(asked.signal)
        ),
    };
    Some(("requested", format!("{of}a checkpoint, {since} ago; {what}")))
}

/// Returns the facts that only the owner and administrators see, and those on isolation.
fn private(detail: &JobSheet<'_>) -> Vec<(&'static str, String)> {
    let mut facts = Vec::new();
    if let Some(commands) = detail.commands {
        let lines: Vec<String> = commands
            .iter()
            .map(|(group, command)| {
                let command: Vec<String> =
                    command.lines().map(|line| clean(line).into_owned()).collect();
                match commands.len() {
                    1 => command.join("\n"),
                    _ => format!("{}: {}", clean(group), command.join("\n")),
                }
            })
            .collect();
        facts.push(("runs", lines.join("\n")));
    }
    facts.extend(detail.workdir.map(|workdir| ("in", clean(workdir).into_owned())));
    facts.extend(detail.environment.map(|environment| ("with", environment_lines(environment))));
    if let Some(files) = detail.files {
        let named = [("output", &files.output), ("error", &files.error)];
        facts.extend(
            named
                .iter()
                .filter_map(|(label, file)| Some((*label, clean(file.as_ref()?).into_owned()))),
        );
    }
    if !detail.logs.is_empty() {
        let mut logs: Vec<String> =
            detail.logs.iter().take(LOGS_LISTED).map(|log| clean(log).into_owned()).collect();
        if detail.logs.len() > LOGS_LISTED {
            logs.push(format!("and {} more, one per rank", detail.logs.len() - LOGS_LISTED));
        }
        facts.push(("logs", logs.join("\n")));
    }
    if !detail.missing_output.is_empty() {
        let lines: Vec<String> =
            detail.missing_output.iter().take(LOGS_LISTED).map(missing_output).collect();
        facts.push(("missing", lines.join("\n")));
    }
    if !detail.enforcement.is_empty() {
        facts.push(("isolation", detail.enforcement.join("\n")));
    }
    facts
}

/// Describes the environment of a program: names and paths, a line for each field.
fn environment_lines(environment: &TaskEnvironment) -> String {
    let TaskEnvironment { python, modules, env_files, secrets, image, mounts } = environment;
    let list = |items: &[std::sync::Arc<str>]| items.join(", ");
    let secrets: Vec<String> =
        secrets.iter().map(|(name, file)| format!("{name} from {file}")).collect();
    let python = match python {
        Some(PythonEnvironment::Venv(folder)) => ("venv", folder.to_string()),
        Some(PythonEnvironment::Conda(name)) => ("conda", name.to_string()),
        Some(PythonEnvironment::Uv(project)) => ("uv", project.to_string()),
        None => ("venv", String::new()),
    };
    let lines = [
        python,
        ("modules", list(modules)),
        ("image", image.as_deref().unwrap_or_default().to_owned()),
        ("mounts", list(mounts)),
        ("env-file", list(env_files)),
        ("secrets", secrets.join(", ")),
    ];
    let lines = lines.iter().filter(|(_, value)| !value.is_empty());
    lines.map(|(name, value)| format!("{name} {}", clean(value))).collect::<Vec<_>>().join("\n")
}

/// Describes how much of a task's output is missing, where, and why.
fn missing_output(missing: &MissingOutput) -> String {
    let MissingOutput { rank, dropped, dropped_after, disk_full } = *missing;
    let mut parts = Vec::new();
    if dropped > 0 {
        parts.push(format!(
            "{} after the first {dropped_after} (limit of output kept per task)",
            count(dropped, "byte")
        ));
    }
    if disk_full > 0 {
        parts.push(format!("{} while the disk was full", count(disk_full, "byte")));
    }
    format!("output of rank {rank}: {}", parts.join(", "))
}

fn state(job: &JobView, context: RenderContext) -> String {
    let word = context.paint(Ink::of(job.state), job.state.word());
    let mut outcomes = job.elements.iter().filter_map(|element| element.outcome.as_ref());
    let outcome = outcomes.find(|outcome| **outcome != Outcome::Succeeded);
    let why = match (outcome, &job.waiting_for, job.started) {
        (Some(outcome), _, _) if job.state.is_final() => {
            format!(": {}", clean(&outcome.to_string()))
        }
        (_, Some(why), _) if !job.state.is_final() && !is_many(job) => {
            format!(": {}", reason::short(why, context))
        }
        _ => String::new(),
    };
    format!("{word}{why}")
}

/// Returns the table of tasks of the elements in the view: all active ones, or the only one.
fn tasks(job: &JobView, context: RenderContext) -> String {
    let rows: Vec<(&ElementView, _)> = job
        .elements
        .iter()
        .flat_map(|element| element.tasks.iter().map(move |task| (element, task)))
        .collect();
    let one_group = rows.iter().all(|(_, task)| task.group == rows[0].1.group);
    let is_many = is_many(job);
    let label = job.label();
    let mut table = Table::of(&rows)
        .left("ELEMENT", |(element, _)| {
            if is_many { format!("{label}[{}]", element.element.index) } else { String::new() }
        })
        .right("RANK", |(_, task)| task.rank.to_string())
        .left("GROUP", |(_, task)| if one_group { "" } else { task.group.as_str() })
        .left("NODE", |(_, task)| task.node.as_str())
        .left("GPUS", |(_, task)| devices_of(&[*task], false))
        .left("STAGE", |(_, task)| format!("{:?}", task.stage).to_lowercase())
        .left("EXIT", |(_, task)| task.exit.as_ref().map_or(String::new(), exit))
        .left("ENDS BY", |(element, _)| match element.ends_by {
            Some(end) if is_many && !element.state.is_final() => clock::time(end, context),
            _ => String::new(),
        });
    if is_many && rows.iter().any(|(element, _)| element.expected_end.is_some()) {
        table = table.left("PREDICTED", |(element, _)| {
            element.expected_end.map_or(String::new(), |end| clock::time(end, context))
        });
    }
    table.indented(2).render(context)
}

/// Returns true for an array or a service, whose elements are shown with their index.
fn is_many(job: &JobView) -> bool {
    job.array.is_some() || job.service.is_some()
}

/// Describes how a task ended.
#[must_use]
pub fn exit(exit: &TaskExit) -> String {
    match exit {
        TaskExit::Code { code } => format!("exit {code}"),
        TaskExit::Signal { signal } => format!("signal {signal}"),
        TaskExit::OutOfMemory => "out of memory".to_owned(),
        TaskExit::TimedOut => "time limit".to_owned(),
        TaskExit::Stopped => "stopped".to_owned(),
        TaskExit::Idle { after } => format!("idle for {after}"),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::view::{JobState, TaskStage};
    use muster_model::{Rank, Span};

    use super::*;
    use crate::sample::{self, after};

    #[test]
    fn use_of_gpus_says_how_much_was_measured() {
        let check = |held_gpu_secs, measured_gpu_secs, used_gpu_secs| {
            let gpus = GpuUseView { held_gpu_secs, measured_gpu_secs, used_gpu_secs };
            super::gpu_use(&gpus).map(|(_, text)| text)
        };
        assert_eq!(check(36_000, 35_000, 8_750).unwrap(), "busy 25 % of 10.0 GPU-hours");
        let partly = check(36_000, 18_000, 9_000).unwrap();
        assert_eq!(partly, "busy 50 % of 5.0 GPU-hours measured, of 10.0 held");
        assert_eq!(check(36_000, 0, 0), None);
    }

    fn check(job: &JobView, private: bool) -> String {
        let commands =
            BTreeMap::from([("main".to_owned(), "python train.py\n  --epochs 3".to_owned())]);
        let logs = ["/state/jobs/1/0.log".to_owned(), "/state/jobs/1/1.log".to_owned()];
        let enforcement = [
            "GPU visibility is a convention: CUDA_VISIBLE_DEVICES".to_owned(),
            "memory: cgroup v2".to_owned(),
        ];
        let detail = JobSheet {
            job,
            commands: private.then_some(&commands),
            workdir: private.then_some("/home/alice"),
            files: None,
            logs: if private { &logs } else { &[] },
            environment: None,
            missing_output: &[],
            notices: &[],
            idle_since: None,
            gpu_use: None,
            enforcement: &enforcement,
        };
        show(&detail, RenderContext::plain().at(after(6)))
    }

    #[test]
    fn a_running_gang_as_its_owner_sees_it() {
        insta::assert_snapshot!(check(&sample::contention()[0], true), @r"
        job 1: left
          state      running
          user       alice
          queue      default, priority 0
          asks for   5 tasks, 5 GPUs, at most 20s
          submitted  12:00:00
          started    12:00:00 after waiting 0s
          ends by    12:00:20 (time limit and grace)
          runs       python train.py
                       --epochs 3
          in         /home/alice
          logs       /state/jobs/1/0.log
                     /state/jobs/1/1.log
          isolation  GPU visibility is a convention: CUDA_VISIBLE_DEVICES
                     memory: cgroup v2

          RANK  NODE  GPUS  STAGE
             0  host  0     running
             1  host  1     running
             2  host  2     running
             3  host  3     running
             4  host  4     running
        ");
    }

    #[test]
    fn a_waiting_gang_and_an_array_as_others_see_them() {
        insta::assert_snapshot!(check(&sample::contention()[1], false), @r"
        job 2: right
          state      pending: needs 5 GPUs together, 3 are free
          user       alice
          queue      default, priority 0
          asks for   5 tasks, 5 GPUs, at most 20s
          submitted  12:00:00
          isolation  GPU visibility is a convention: CUDA_VISIBLE_DEVICES
                     memory: cgroup v2
        ");
        insta::assert_snapshot!(check(&sample::contention()[2], false), @r"
        job 3: sweep
          state      running
          array      24 elements, at most 2 at a time: 7 done, 0 failed, 2 active, 15 waiting
          user       alice
          queue      default, priority 0
          asks for   1 task, 1 GPU, at most 20s
          submitted  12:00:00
          started    12:00:01 after waiting 1s
          ends by    12:00:09 (time limit and grace)
          isolation  GPU visibility is a convention: CUDA_VISIBLE_DEVICES
                     memory: cgroup v2

          ELEMENT  RANK  NODE  GPUS  STAGE    ENDS BY
          3[7]        0  host  5     running  12:00:09
          3[8]        0  host  6     running  12:00:09
        ");
    }

    #[test]
    fn a_predicted_end_stands_beside_the_limit() {
        let mut rows = sample::predicted();
        let line = |job: &JobView| {
            let text = check(job, false);
            let found = text.lines().find(|line| line.trim_start().starts_with("ends"));
            found.unwrap_or_default().trim().to_owned()
        };
        let both = "ends by    12:00:20 (time limit and grace), predicted 12:00:08";
        assert_eq!(line(&rows[0]), both);
        assert!(check(&rows[2], false).contains("ENDS BY   PREDICTED\n"));
        rows[0].elements[0].ends_by = None;
        assert_eq!(line(&rows[0]), "ends       predicted 12:00:08; it has no time limit");
    }

    #[test]
    fn an_elastic_gang_says_what_it_asks_for_and_what_it_holds() {
        let text = check(&sample::elastic()[1], false);
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| line.contains("asks for") || line.contains("holds"))
            .collect();
        assert_eq!(
            lines,
            [
                "  asks for   2..8 tasks, 2..8 GPUs, at most 20s",
                "  holds      5 tasks, 5 GPUs; stops, resumes with 8 tasks"
            ]
        );
    }

    #[test]
    fn a_predicted_run_time_stands_beside_the_limit() {
        let mut job = sample::job(7, "bad", JobState::Pending, 2);
        job.expected_runtime = Some(muster_model::Span::from_secs(12));
        assert_eq!(lengths(&job), "at most 20s, about 12s predicted");
        job.time_limit = None;
        assert_eq!(lengths(&job), "no time limit, about 12s predicted");
    }

    #[test]
    fn a_failure_says_which_rank_and_how() {
        let mut job = JobView {
            state: JobState::Failed,
            started: Some(after(1)),
            ended: Some(after(5)),
            elements: vec![sample::running(7, 0, 0..2, 20)],
            ..sample::job(7, "bad", JobState::Failed, 2)
        };
        job.elements[0].state = JobState::Failed;
        job.elements[0].attempt = 2;
        job.elements[0].outcome = Some(Outcome::Failed { rank: Rank(0), code: 3 });
        job.elements[0].tasks[0].exit = Some(TaskExit::Code { code: 3 });
        job.elements[0].tasks[1].exit = Some(TaskExit::Stopped);
        job.elements[0].tasks[1].group = "other".to_owned();
        job.elements[0].tasks[0].stage = TaskStage::Ended;
        insta::assert_snapshot!(check(&job, false), @r"
        job 7: bad
          state      failed: rank 0 exited with 3
          user       alice
          queue      default, priority 0
          asks for   2 tasks, 2 GPUs, at most 20s
          submitted  12:00:00
          started    12:00:01 after waiting 1s
          ended      12:00:05 after running 4s
          attempts   2
          isolation  GPU visibility is a convention: CUDA_VISIBLE_DEVICES
                     memory: cgroup v2

          RANK  GROUP  NODE  GPUS  STAGE    EXIT
             0  main   host  0     ended    exit 3
             1  other  host  1     running  stopped
        ");
    }

    #[test]
    fn every_exit_has_words() {
        let exits = [
            TaskExit::Code { code: 0 },
            TaskExit::Signal { signal: 11 },
            TaskExit::OutOfMemory,
            TaskExit::TimedOut,
            TaskExit::Stopped,
            TaskExit::Idle { after: Span::from_secs(7200) },
        ];
        let words: Vec<String> = exits.iter().map(exit).collect();
        assert_eq!(
            words,
            ["exit 0", "signal 11", "out of memory", "time limit", "stopped", "idle for 2h"]
        );
    }
}
