//! Output of ranks, from the files that the script writes: `ELEMENT/ATTEMPT/rank-N.log` in the
//! job's folder.

use std::collections::BTreeMap;
use std::io::{self, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream;
use muster_api::Answer;
use muster_api::query::LogQuery;
use muster_backends::slurm::tool::Tools;
use muster_model::JobId;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use super::{Refusal, Result, Slurm};

/// Between two looks at a file that may grow.
const LOOK: Duration = Duration::from_millis(250);
/// Looks at the file between two questions to Slurm, whether the job goes on.
const LOOKS_PER_QUESTION: u32 = 8;
/// Read at once.
const CHUNK_BYTES: usize = 64 << 10;

impl Slurm {
    /// Output of one rank.
    pub(super) async fn output(&self, job: JobId, query: LogQuery) -> Result<Answer> {
        // 1. Which file.
        let records = self.records().await?;
        let meant = self.meant(job).await?;
        let record = match meant.record.clone() {
            Some(record) => {
                // Its number may be another job's by now.
                self.own_rows(&meant, &mut Vec::new(), false).await?;
                Some(record)
            }
            // Its number was never noted: its client ended before Slurm had answered.
            None => self.rows_of(job).await?.1,
        };
        let Some(record) = record else {
            return Err(Refusal::not_found(format!(
                "job {job} was not handed on by Muster for this user, or elsewhere"
            ))
            .hint(format!("`scontrol show job {job}` names its output as StdOut")));
        };
        let dir = records.dir(&record.id);
        let index = query.index.unwrap_or_else(|| first_element(&dir));
        let element = dir.join(index.to_string());
        let rank = query.rank.unwrap_or(0);
        let find = move |element: &Path| {
            let attempt = query.attempt.or_else(|| attempts(element).last().copied())?;
            let path = element.join(attempt.to_string()).join(format!("rank-{rank}.log"));
            path.exists().then_some(path)
        };
        let number = record.number.unwrap_or(job.0);
        let target =
            if record.elements > 1 { format!("{number}_{index}") } else { number.to_string() };
        // 2. What there is, or all until the job has ended.
        if !query.follow {
            let Some(path) = find(&element) else {
                return Err(self.silent(job, &dir, rank));
            };
            let file = open(&path, &query).await?;
            let state = Following { file: Some((path, file)), over: true, ..Following::of(target) };
            return Ok(Answer::Bytes(stream::unfold(state, Following::next).boxed()));
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
        let state = Following { file, find: Some(find), tools, ..Following::of(target) };
        Ok(Answer::Bytes(stream::unfold(state, Following::next).boxed()))
    }

    /// Nothing was written so far.
    fn silent(&self, job: JobId, dir: &Path, rank: u32) -> Refusal {
        let refusal =
            Refusal::not_found(format!("rank {rank} of job {job} has written nothing so far"));
        match batch_logs(dir).first() {
            Some(path) => {
                refusal.hint(format!("what Slurm said of its start is in {}", path.display()))
            }
            None => refusal.hint(format!("`muster logs -f {job}` waits for it")),
        }
    }
}

/// A file that is read to its end, and on while the job runs; and after it that of the next start.
struct Following {
    file: Option<(PathBuf, File)>,
    /// The next start has one: what is open is read to its end first.
    next: Option<PathBuf>,
    find: Option<Arc<dyn Fn() -> Option<PathBuf> + Send + Sync>>,
    /// The job has ended: what is in the file is all.
    over: bool,
    looks: u32,
    tools: Option<(Tools, Arc<Ended>)>,
    target: String,
}

impl Following {
    fn of(target: String) -> Self {
        Self { file: None, next: None, find: None, over: false, looks: 0, tools: None, target }
    }

    async fn next(mut self) -> Option<(io::Result<Bytes>, Self)> {
        loop {
            // 1. What is there.
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
            // 2. What comes.
            tokio::time::sleep(LOOK).await;
            let open = self.file.as_ref().map(|(path, _)| path);
            self.next =
                self.find.as_ref().and_then(|find| find()).filter(|path| Some(path) != open);
            if self.file.is_none() {
                self.open_next().await;
            }
            self.looks += 1;
            if self.looks.is_multiple_of(LOOKS_PER_QUESTION) {
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

    /// Slurm no longer has it among those that wait or run. Silence of the controller is no answer:
    /// it is asked again.
    async fn has_ended(&self) -> bool {
        let Some((tools, ended)) = &self.tools else { return true };
        // Those that follow other ranks of the job ask with this one.
        let mut known = ended.0.lock().await;
        if let Some((at, has_ended)) = known.get(&self.target)
            && at.elapsed() < LOOK * LOOKS_PER_QUESTION / 2
        {
            return *has_ended;
        }
        let has_ended = match tools
            .output("squeue", &["--noheader", "--format=%T", "--jobs", &self.target])
            .await
        {
            Ok(states) => states.trim().is_empty(),
            Err(muster_backends::slurm::tool::ToolError::Failed { message, .. }) => {
                message.contains("Invalid job id")
            }
            Err(_) => false,
        };
        known.insert(self.target.clone(), (Instant::now(), has_ended));
        has_ended
    }
}

/// Whether jobs have ended whose output is followed, and when Slurm was asked.
#[derive(Debug, Default)]
pub(super) struct Ended(tokio::sync::Mutex<BTreeMap<String, (Instant, bool)>>);

async fn open(path: &Path, query: &LogQuery) -> Result<File> {
    let failed =
        |error: io::Error| Refusal::internal(format!("cannot read {}: {error}", path.display()));
    let mut file = File::open(path).await.map_err(failed)?;
    let from = match (query.offset, query.tail) {
        (Some(offset), _) => offset,
        (None, Some(lines)) => tail(&tokio::fs::read(path).await.map_err(failed)?, lines),
        (None, None) => 0,
    };
    file.seek(SeekFrom::Start(from)).await.map_err(failed)?;
    Ok(file)
}

/// Where the last lines begin.
fn tail(bytes: &[u8], lines: u32) -> u64 {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let ends = body.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n');
    match (lines, ends.map(|(at, _)| at + 1).nth(lines.saturating_sub(1) as usize)) {
        (0, _) => bytes.len() as u64,
        (_, Some(at)) => at as u64,
        (_, None) => 0,
    }
}

/// Elements that have started, attempts of an element: folders that are numbers.
pub(super) fn numbers(dir: &Path) -> Vec<u32> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> = entries
        .filter_map(|entry| entry.file_name().to_str().and_then(|name| name.parse().ok()))
        .collect();
    numbers.sort_unstable();
    numbers
}

fn attempts(element: &Path) -> Vec<u32> {
    numbers(element)
}

fn first_element(dir: &Path) -> u32 {
    numbers(dir).first().copied().unwrap_or(0)
}

/// Tasks on each node of the last start of an element, as its script marked it: `2(x3),1`.
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

/// What the batch scripts themselves wrote.
fn batch_logs(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut logs: Vec<PathBuf> = entries
        .filter(|path| path.extension().is_some_and(|extension| extension == "log"))
        .collect();
    logs.sort();
    logs
}

/// Files of the last attempt of an element, by rank, and then those of the batch scripts.
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

    #[test]
    fn the_last_lines_begin_where_they_do() {
        for (text, lines, rest) in [
            ("a\nb\nc\n", 1, "c\n"),
            ("a\nb\nc", 2, "b\nc"),
            ("a\nb\n", 9, "a\nb\n"),
            ("a\n", 0, ""),
            ("", 3, ""),
        ] {
            let at = usize::try_from(tail(text.as_bytes(), lines)).unwrap();
            assert_eq!(&text[at..], rest, "{text:?} {lines}");
        }
    }
}
