//! Output of ranks, read from the files that the script writes: `ELEMENT/ATTEMPT/rank-N.log` in the
//! job's directory.

use std::collections::BTreeMap;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::last_lines::last_lines;
use crate::slurm::tool::Tools;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use muster_api::RouteResponse;
use muster_api::query::LogQuery;
use muster_model::JobId;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{RequestError, Result, SlurmScheduler};

/// Time between two reads of a file that may grow.
const READ_INTERVAL: Duration = Duration::from_millis(250);
/// Number of reads between two queries of Slurm whether the job has ended.
const READS_PER_QUERY: u32 = 8;
/// Number of bytes per read.
const CHUNK_BYTES: usize = 64 << 10;

impl SlurmScheduler {
    /// Streams the output of one rank.
    pub(super) async fn output(&self, job: JobId, query: LogQuery) -> Result<RouteResponse> {
        if query.since.is_some() {
            return Err(RequestError::refused("Slurm does not record when output was written")
                .hint("`--tail N` shows the last lines"));
        }
        // 1. Find the file.
        let records = self.records().await?;
        let resolved = self.resolve(job).await?;
        let record = match resolved.record.clone() {
            Some(record) => {
                // Slurm may have given the number to another job since.
                self.retain_own_rows(&resolved, &mut Vec::new(), false).await?;
                Some(record)
            }
            // The client ended before Slurm answered, so that the number was never recorded.
            None => self.rows_of(job).await?.1,
        };
        let Some(record) = record else {
            return Err(RequestError::not_found(format!(
                "job {job} was not submitted by this user through Muster on this cluster"
            ))
            .hint(format!("`scontrol show job {job}` has its output file as StdOut")));
        };
        let dir = records.dir(&record.id);
        let index = query.index.unwrap_or_else(|| first_element(&dir));
        let element = dir.join(index.to_string());
        let rank = query.rank.unwrap_or(0);
        let find = move |element: &Path| rank_file(element, query.attempt, rank);
        let number = record.number.unwrap_or(job.0);
        let target =
            if record.elements > 1 { format!("{number}_{index}") } else { number.to_string() };
        // 2. Return the file as it is, or follow it until the job has ended.
        if !query.follow {
            let Some(path) = find(&element) else {
                return Err(self.no_output_error(job, &dir, rank));
            };
            let file = open(&path, &query).await?;
            let state = OutputFollower {
                file: Some((path, file)),
                over: true,
                ..OutputFollower::of(target)
            };
            return Ok(RouteResponse::Bytes(stream::unfold(state, OutputFollower::next).boxed()));
        }
        let file = match find(&element) {
            Some(path) => {
                let file = open(&path, &query).await?;
                Some((path, file))
            }
            None => None,
        };
        let find = Arc::new(move || find(&element));
        let tools = Some((self.tools().clone(), Arc::clone(&self.ended)));
        let state = OutputFollower { file, find: Some(find), tools, ..OutputFollower::of(target) };
        Ok(RouteResponse::Bytes(stream::unfold(state, OutputFollower::next).boxed()))
    }

    /// Returns the error for a rank that has written nothing so far.
    fn no_output_error(&self, job: JobId, dir: &Path, rank: u32) -> RequestError {
        let refusal =
            RequestError::not_found(format!("rank {rank} of job {job} has written nothing so far"));
        match batch_logs(dir).first() {
            Some(path) => {
                refusal.hint(format!("messages from its start are in {}", path.display()))
            }
            None => refusal.hint(format!("`muster logs -f {job}` waits for it")),
        }
    }
}

/// Reads a file to its end, follows it while the job runs, and goes on with the file of the next
/// start.
struct OutputFollower {
    file: Option<(PathBuf, File)>,
    /// File of the next start; the open file is read to its end first.
    next: Option<PathBuf>,
    find: Option<Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>>,
    /// Set once the job has ended: the file is complete.
    over: bool,
    looks: u32,
    tools: Option<(Tools, Arc<EndedJobs>)>,
    target: String,
}

impl OutputFollower {
    fn of(target: String) -> Self {
        Self { file: None, next: None, find: None, over: false, looks: 0, tools: None, target }
    }

    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        loop {
            // 1. Return new output.
            if let Some((_, file)) = &mut self.file {
                let mut chunk = vec![0; CHUNK_BYTES];
                match file.read(&mut chunk).await {
                    Ok(0) if self.next.is_some() => {
                        self.open_next().await;
                        continue;
                    }
                    Ok(0) if self.over => return None,
                    Ok(0) => {}
                    Ok(length) => {
                        chunk.truncate(length);
                        return Some((Ok(Bytes::from(chunk)), self));
                    }
                    Err(error) => {
                        return Some((Err(error), Self { over: true, file: None, ..self }));
                    }
                }
            } else if self.over {
                return None;
            }
            // 2. Wait for more, and look for the file of the next start.
            tokio::time::sleep(READ_INTERVAL).await;
            let open = self.file.as_ref().map(|(path, _)| path);
            self.next =
                self.find.as_ref().and_then(|find| find()).filter(|path| Some(path) != open);
            if self.file.is_none() {
                self.open_next().await;
            }
            self.looks += 1;
            if self.looks.is_multiple_of(READS_PER_QUERY) {
                self.over = self.has_ended().await;
            }
        }
    }

    async fn open_next(&mut self) {
        if let Some(path) = self.next.take()
            && let Ok(file) = File::open(&path).await
        {
            self.file = Some((path, file));
        }
    }

    /// Returns whether Slurm no longer lists the job as pending or running. If the controller does
    /// not answer, the query is repeated later.
    async fn has_ended(&self) -> bool {
        let Some((tools, ended)) = &self.tools else { return true };
        // Followers of other ranks of the job share this answer.
        let mut known = ended.0.lock().await;
        if let Some((at, has_ended)) = known.get(&self.target)
            && at.elapsed() < READ_INTERVAL * READS_PER_QUERY / 2
        {
            return *has_ended;
        }
        let has_ended = match tools
            .output("squeue", &["--noheader", "--format=%T", "--jobs", &self.target])
            .await
        {
            Ok(states) => states.trim().is_empty(),
            Err(crate::slurm::tool::ToolError::Failed { message, .. }) => {
                message.contains("Invalid job id")
            }
            Err(_) => false,
        };
        known.insert(self.target.clone(), (Instant::now(), has_ended));
        has_ended
    }
}

/// Cache of whether jobs have ended whose output is followed, with the time of the query.
#[derive(Debug, Default)]
pub(super) struct EndedJobs(tokio::sync::Mutex<BTreeMap<String, (Instant, bool)>>);

async fn open(path: &Path, query: &LogQuery) -> Result<File> {
    let failed = |error: io::Error| {
        RequestError::internal(format!("cannot read {}: {error}", path.display()))
    };
    let mut file = File::open(path).await.map_err(failed)?;
    let from = match (query.offset, query.tail) {
        (Some(offset), _) => offset,
        (None, Some(lines)) => last_lines(&mut file, lines).await.map_err(failed)?,
        (None, None) => 0,
    };
    file.seek(SeekFrom::Start(from)).await.map_err(failed)?;
    Ok(file)
}

/// Returns the numeric names in a directory: elements that have started, or attempts of an element.
pub(super) fn numbers(dir: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Returns the output file of a rank, of this attempt or the last one; `None` where it has written nothing.
pub(super) fn rank_file(element: &Path, attempt: Option<u32>, rank: u32) -> Option<PathBuf> {
    let attempt = attempt.or_else(|| attempts(element).last().copied())?;
    let path = element.join(attempt.to_string()).join(format!("rank-{rank}.log"));
    path.exists().then_some(path)
}

fn attempts(element: &Path) -> Vec<u32> {
    numbers(element)
}

fn first_element(dir: &Path) -> u32 {
    numbers(dir).first().copied().unwrap_or(0)
}

/// Returns the number of tasks on each node at the last start of an element, as recorded by its
/// script: `2(x3),1`.
pub(super) fn tasks_by_node(dir: &Path, index: u32) -> Vec<u32> {
    let text =
        std::fs::read_to_string(dir.join(index.to_string()).join("starts")).unwrap_or_default();
    let last =
        text.lines().last().and_then(|line| line.split_whitespace().nth(4)).unwrap_or_default();
    let mut counts = Vec::new();
    for part in last.split(',') {
        let (count, times) = part.trim_end_matches(')').split_once("(x").unwrap_or((part, "1"));
        if let (Ok(count), Ok(times)) = (count.parse::<u32>(), times.parse::<usize>()) {
            counts.extend(std::iter::repeat_n(count, times));
        }
    }
    counts
}

/// Returns the log files of the batch scripts themselves.
fn batch_logs(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut logs: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs
}

/// Returns the output files of an element's last attempt, by rank, then those of the batch scripts.
pub(super) fn files(dir: &Path, index: u32) -> Vec<PathBuf> {
    let element = dir.join(index.to_string());
    let Some(attempt) = attempts(&element).last().copied() else { return batch_logs(dir) };
    let attempt = element.join(attempt.to_string());
    let ranks =
        (0..).map(|rank| attempt.join(format!("rank-{rank}.log"))).take_while(|path| path.exists());
    ranks.chain(batch_logs(dir)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_mark_says_how_many_tasks_each_node_has() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("3")).unwrap();
        let marks = "12 1 1700000000 node[1-2] 9(x2)\n12 2 1700000009 node[1-4] 2(x3),1\n";
        std::fs::write(dir.path().join("3/starts"), marks).unwrap();
        assert_eq!(tasks_by_node(dir.path(), 3), [2, 2, 2, 1]);
        assert!(tasks_by_node(dir.path(), 4).is_empty());
    }
}
