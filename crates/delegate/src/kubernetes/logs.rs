//! Output of tasks, as the API server has it: stdout and stderr of a container, as long as its pod
//! exists.

use bytes::Bytes;
use futures_util::{AsyncReadExt, StreamExt, stream};
use muster_api::RouteResponse;
use muster_api::query::{AttachQuery, LogQuery};
use muster_kubernetes::job::{self, JobTask};
use muster_model::JobId;

use super::list::FoundJob;
use super::{KubernetesScheduler, RequestError, Result};

/// Most bytes that one read returns.
const CHUNK_BYTES: usize = 64 << 10;

/// Longest wait for a change, after which the pods are read again in any case.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(30);

/// Container of a task.
struct TaskContainer {
    pod: String,
    container: String,
    /// True once its process has started, so that there may be output.
    has_started: bool,
}

impl KubernetesScheduler {
    /// Streams the output of one task.
    pub(super) async fn output(&self, job: JobId, query: LogQuery) -> Result<RouteResponse> {
        if query.attempt.is_some() {
            return Err(RequestError::refused("output of earlier attempts is in their own pods")
                .hint("`kubectl get pods` lists them, `kubectl logs POD` shows their output"));
        }
        let (found, task) = self.started_task(job, &query).await?;
        let mut path = format!(
            "/api/v1/namespaces/{}/pods/{}/log?container={}",
            found.key.namespace, task.pod, task.container
        );
        if query.follow {
            path.push_str("&follow=true");
        }
        if let Some(lines) = query.tail.filter(|_| query.offset.is_none()) {
            path.push_str(&format!("&tailLines={lines}"));
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
        let mut words = vec!["kubectl".to_owned()];
        words.extend(self.settings.context.iter().map(|context| format!("--context={context}")));
        let namespace = format!("--namespace={}", found.key.namespace);
        let container = format!("--container={}", task.container);
        let rest = ["exec", "--stdin", "--tty", &namespace, &task.pod, &container, "--"];
        words.extend(rest.map(str::to_owned));
        Ok(RouteResponse::Terminal(words))
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
            if let Some(task) = task.filter(|task| task.has_started) {
                return Ok((found, task));
            }
            let pods = found.pods();
            let shown = job::view(found.job(), &pods, &found.key.namespace);
            let rank = query.rank.unwrap_or(0);
            let name = &found.key.name;
            if shown.state.is_final() {
                return Err(RequestError::not_found(format!(
                    "the pod of rank {rank} of {name} no longer exists, and its output with it"
                ))
                .hint("a collector of logs in the cluster may have it"));
            }
            if !query.follow {
                return Err(RequestError::not_found(format!(
                    "rank {rank} of {name} has written nothing so far"
                ))
                .hint(format!("`muster logs -f {name}` waits for it")));
            }
            let listed =
                self.listed.lock().expect("no thread panics while holding this lock").clone();
            self.server().await?.wait_for_change(&listed, PATIENCE).await;
        }
    }
}

/// Returns the container of a task; `None` before its pod exists.
fn container_of(found: &FoundJob, query: &LogQuery) -> Result<Option<TaskContainer>> {
    let roles = job::roles(found.job());
    let pods = found.pods();
    let tasks = job::tasks(found.job(), &roles, &pods);
    let name = &found.key.name;
    let rank = query.rank.unwrap_or(0);
    let array = found.job().array();
    let ordinal =
        match (&array, query.index) {
            (Some(array), Some(index)) => Some(array.ordinal_of(index).ok_or_else(|| {
                RequestError::not_found(format!("{name} has no element {index}"))
            })?),
            (None, Some(index)) => {
                return Err(RequestError::not_found(format!(
                    "{name} is no array: it has no element {index}"
                )));
            }
            (_, None) => None,
        };
    let expected: u32 = roles.iter().map(job::JobRole::tasks).sum();
    if rank >= expected {
        return Err(RequestError::not_found(format!(
            "{name} has no rank {rank}: its {expected} tasks are counted from 0"
        )));
    }
    let is_it = |task: &&JobTask<'_>| {
        task.rank == rank && ordinal.is_none_or(|ordinal| task.ordinal == ordinal)
    };
    Ok(tasks.iter().find(is_it).map(|task| TaskContainer {
        pod: task.pod["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
        container: task.container.to_owned(),
        has_started: {
            let state = task.container_state();
            state["running"].is_object() || state["terminated"].is_object()
        },
    }))
}
