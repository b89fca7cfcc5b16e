//! Output of tasks, as the API server has it: stdout and stderr of a container, as long as its pod
//! exists.

use bytes::Bytes;
use futures_util::{AsyncReadExt, StreamExt, stream};
use muster_api::query::{AttachQuery, LogQuery};
use muster_api::{Responder, RouteResponse};
use muster_kubernetes::job::{self, JobTask};
use muster_kubernetes::{instant, names};
use muster_model::JobId;
use serde_json::Value;

use super::list::FoundJob;
use super::{KubernetesScheduler, REREAD_INTERVAL, RequestError, Result};

/// Most bytes that one read returns.
const CHUNK_BYTES: usize = 64 << 10;

/// Container of a task.
struct TaskContainer {
    pod: String,
    container: String,
    /// True once its process has started, so that there may be output.
    has_started: bool,
    /// True while its process runs.
    runs: bool,
}

impl KubernetesScheduler {
    /// Streams the output of one task.
    pub(super) async fn output(&self, job: JobId, query: LogQuery) -> Result<RouteResponse> {
        if query.attempt.is_some() {
            return Err(RequestError::refused("output of earlier attempts is in their own pods")
                .hint("`kubectl get pods` lists them, `kubectl logs POD` shows their output"));
        }
        let (found, task) = self.started_task(job, &query).await?;
        let is_submitter = |pod: &&Value| {
            let mut containers = pod["spec"]["containers"].as_array().into_iter().flatten();
            pod["metadata"]["name"] == *task.pod
                && containers.any(|one| one["name"] == names::RAY_SUBMITTER)
        };
        let has_submitter = found.job().is_ray() && found.pods.iter().any(|pod| is_submitter(&pod));
        let container = if has_submitter { names::RAY_SUBMITTER } else { &task.container };
        let mut path = log_path(&found, &task.pod, container);
        if query.follow {
            path.push_str("&follow=true");
        }
        if let Some(lines) = query.tail.filter(|_| query.offset.is_none()) {
            path.push_str(&format!("&tailLines={lines}"));
        }
        if let Some(since) = query.since.filter(|_| query.offset.is_none()) {
            path.push_str(&format!("&sinceTime={}", instant::text(since)));
        }
        let reader = Box::pin(self.server().await?.stream(&path).await?);
        let chunks = stream::try_unfold(reader, |mut reader| async move {
            let mut chunk = vec![0; CHUNK_BYTES];
            let length = reader.read(&mut chunk).await?;
            chunk.truncate(length);
            Ok((length > 0).then(|| (Bytes::from(chunk), reader)))
        });
        Ok(RouteResponse::Bytes(chunks.boxed()))
    }

    /// Returns a command that runs a program beside a task, on the terminal of the caller.
    pub(super) async fn terminal(&self, job: JobId, query: AttachQuery) -> Result<RouteResponse> {
        let query = LogQuery { index: query.index, rank: query.rank, ..LogQuery::default() };
        let (found, task) = self.started_task(job, &query).await?;
        if !task.runs {
            let label = self.label(job).unwrap_or_default();
            return Err(RequestError::refused(format!(
                "rank {} of {label} has ended",
                query.rank.unwrap_or(0)
            ))
            .hint(format!("`muster logs {label}` shows its output")));
        }
        Ok(RouteResponse::Terminal(self.exec(&found, &["--tty"], &task.pod, &task.container)))
    }

    /// Returns command lines that each run a program on this machine for a task that runs: it gets the
    /// task's rank, GPUs and node, and the command that runs further words in the task's container.
    pub(super) async fn beside_each_task(
        &self,
        job: JobId,
        index: Option<u32>,
        program: &[String],
    ) -> Result<Vec<Vec<String>>> {
        let found = self.find(job).await?;
        let ordinal = index.map(|index| ordinal_of(&found, index)).transpose()?;
        let pods = found.pods();
        let roles = job::present_roles(found.job(), &pods);
        let tasks = job::tasks(found.job(), &roles, &pods);
        let runs = |task: &&JobTask<'_>| {
            task.container_state()["running"].is_object()
                && ordinal.is_none_or(|ordinal| task.ordinal == ordinal)
        };
        let command = |task: &JobTask<'_>| {
            let role = roles.iter().find(|role| role.name == task.role);
            let text = |path: &str| task.pod.pointer(path).and_then(Value::as_str);
            let pod = text("/metadata/name").unwrap_or_default();
            let mut words = program.to_vec();
            words.push(format!("--rank={}", task.rank));
            let gpus = role.map_or(0, |role| role.gpus.0);
            if (1..1000).contains(&gpus) {
                words.extend(["--gpus=1".to_owned(), format!("--gpu-share-millis={gpus}")]);
            // Devices of other vendors have no variable that names them.
            } else if task.limits().any(|name| name.starts_with("nvidia.com/")) {
                words.push(format!("--gpus={}", gpus / 1000));
            }
            words.push(format!("--node={}", text("/spec/nodeName").unwrap_or_default()));
            words.push("--".to_owned());
            words.extend(self.exec(&found, &[], pod, task.container));
            words
        };
        Ok(tasks.iter().filter(runs).map(command).collect())
    }

    /// Returns a command that runs further words in a container.
    pub(super) fn exec(
        &self,
        found: &FoundJob,
        options: &[&str],
        pod: &str,
        container: &str,
    ) -> Vec<String> {
        let mut words = vec!["kubectl".to_owned()];
        words.extend(self.settings.context.iter().map(|context| format!("--context={context}")));
        words.extend(["exec", "--stdin"].map(str::to_owned));
        words.extend(options.iter().map(|option| (*option).to_owned()));
        words.push(format!("--namespace={}", found.key.namespace));
        words.extend([pod.to_owned(), format!("--container={container}"), "--".to_owned()]);
        words
    }

    /// Returns the container of a task that has started; to follow one, its start is waited for.
    async fn started_task(
        &self,
        job: JobId,
        query: &LogQuery,
    ) -> Result<(FoundJob, TaskContainer)> {
        loop {
            let found = self.find(job).await?;
            let task = container_of(&found, query)?;
            let task_exists = task.is_some();
            if let Some(task) = task.filter(|task| task.has_started) {
                return Ok((found, task));
            }
            let pods = found.pods();
            let shown = job::view(found.job(), &pods, &found.key.namespace);
            let rank = query.rank.unwrap_or(0);
            let name = self.label(job).unwrap_or_default();
            if shown.state.is_final() {
                let text = if task_exists {
                    format!("rank {rank} of {name} never started")
                } else {
                    format!("rank {rank} of {name} has no pod any more, and its output is gone")
                };
                return Err(RequestError::not_found(text)
                    .hint(format!("`muster show {name}` says how it ended")));
            }
            if !query.follow {
                return Err(RequestError::not_found(format!(
                    "rank {rank} of {name} has not started"
                ))
                .hint(format!(
                    "`muster explain {name}` says why, `muster logs -f {name}` waits for it"
                )));
            }
            self.server().await?.wait_for_change(&self.last_lists(), REREAD_INTERVAL).await;
        }
    }
}

/// Returns the path of the output of a container.
pub(super) fn log_path(found: &FoundJob, pod: &str, container: &str) -> String {
    format!("/api/v1/namespaces/{}/pods/{pod}/log?container={container}", found.key.namespace)
}

/// Returns the container of a task; `None` before its pod exists.
fn container_of(found: &FoundJob, query: &LogQuery) -> Result<Option<TaskContainer>> {
    let pods = found.pods();
    let roles = job::present_roles(found.job(), &pods);
    let tasks = job::tasks(found.job(), &roles, &pods);
    let name = &found.key.name;
    let rank = query.rank.unwrap_or(0);
    let ordinal = query.index.map(|index| ordinal_of(found, index)).transpose()?;
    let ranks = job::ranks(found.job(), &roles);
    if rank >= ranks {
        return Err(RequestError::not_found(format!(
            "{name} has no rank {rank}: its {ranks} tasks are counted from 0"
        ))
        .hint(format!("`muster show {name}` lists them")));
    }
    let is_it = |task: &&JobTask<'_>| {
        task.rank == rank && ordinal.is_none_or(|ordinal| task.ordinal == ordinal)
    };
    // Of an array without an index, the first element that has started.
    let chosen = tasks.iter().filter(is_it).min_by_key(|task| (!task.has_started(), task.ordinal));
    Ok(chosen.map(|task| {
        // What kept the task from starting is all that there is to read.
        let failed = task.failed_before().filter(|_| !task.has_started());
        TaskContainer {
            pod: task.pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            container: failed.unwrap_or(task.container).to_owned(),
            has_started: failed.is_some() || task.has_started(),
            runs: task.container_state()["running"].is_object(),
        }
    }))
}

/// Returns the position of an element of an array or service by its index.
pub(super) fn ordinal_of(found: &FoundJob, index: u32) -> Result<u32> {
    let ordinal = match found.job().array() {
        Some(array) => array.ordinal_of(index),
        None => Some(index).filter(|_| found.key.api.is_service()),
    };
    ordinal.ok_or_else(|| {
        RequestError::not_found(format!("{} has no element {index}", found.key.name))
    })
}
