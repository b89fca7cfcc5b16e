//! Reads output from the file that a job's `output:` names. The daemon of a shared machine runs as
//! root and does not open paths that users chose; this process runs as the user and does.

use std::io::{self, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use futures_util::stream::{self, BoxStream, StreamExt};
use muster_api::query::LogQuery;
use muster_api::types::JobDetail;
use muster_api::{Client, ClientError};
use muster_delegate::last_lines;
use muster_model::Rank;
use muster_model::output::{self, OutputPlace};
use muster_model::view::JobView;
use tokio::fs::File;
use tokio::io::{AsyncReadExt, AsyncSeekExt};

use crate::exit::Failure;
use crate::jobref::JobTarget;

/// Time between two reads of a file that may grow.
const LOOK: Duration = Duration::from_millis(200);
/// Number of reads of the file between two requests whether the task has ended.
const LOOKS_PER_QUESTION: u32 = 5;
/// Size of the read buffer in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Stream of chunks of output.
pub type Stream = BoxStream<'static, std::result::Result<Vec<u8>, ClientError>>;

/// Returns the path of a rank's output file; `None` if Muster stores the output itself.
///
/// # Errors
/// When the file is another user's and this process is root, or when an attempt is requested, which
/// the file does not distinguish.
pub fn of(client: &Client, detail: &JobDetail, query: &LogQuery) -> Result<Option<PathBuf>> {
    // On Slurm, without a daemon, the client reads the file.
    let pattern = detail.files.as_ref().and_then(|files| files.output.as_deref());
    let Some(pattern) = pattern.filter(|_| client.socket().is_some()) else { return Ok(None) };
    let job = &detail.job;
    let rank = query.rank.unwrap_or(0);
    let place = OutputPlace {
        job: job.job,
        index: index(job, query),
        rank: Rank(rank),
        name: &job.name,
        user: job.user.as_str(),
    };
    let path = PathBuf::from(output::expand(pattern, &place));
    if rustix::process::getuid().is_root() && job.user.as_str() != "root" {
        return Err(Failure::usage(format!(
            "the output of job {} is in {}, a path chosen by {}, which root does not open",
            job.job,
            path.display(),
            job.user
        ))
        .hint(format!("`sudo -u {} muster logs {}` reads it as that user", job.user, job.job))
        .into());
    }
    if query.attempt.is_some() {
        return Err(Failure::usage(format!(
            "all attempts of job {} write to {}, so --attempt cannot select one",
            job.job,
            path.display()
        ))
        .into());
    }
    Ok(Some(path))
}

/// Returns the index in the name of an element's file; `None` for a job that is neither an array
/// nor a service.
fn index(job: &JobView, query: &LogQuery) -> Option<u32> {
    let has_elements = job.array.is_some() || job.service.is_some();
    let first = || job.elements.first().map_or(0, |element| element.element.index);
    has_elements.then(|| query.index.unwrap_or_else(first))
}

/// Opens the file as a stream; with `follow`, the stream ends when the task has ended.
pub async fn open(
    client: &Client,
    target: JobTarget,
    path: PathBuf,
    query: &LogQuery,
) -> Result<Stream> {
    let mut reading = FileFollower {
        client: client.clone(),
        target: JobTarget { index: target.index.or(query.index), ..target },
        path,
        file: None,
        tail: query.tail,
        is_over: !query.follow,
        looks: 0,
    };
    match reading.open_file().await {
        Ok(()) => {}
        Err(error) if is_missing(&error) && query.follow => {}
        Err(error) if is_missing(&error) => {
            return Err(Failure::not_found(format!(
                "job {} has no output so far: {} does not exist",
                target.text(client),
                reading.path.display()
            ))
            .hint(format!("`muster logs -f {}` waits for it", target.text(client)))
            .into());
        }
        Err(error) => {
            return Err(
                Failure::new(format!("cannot read {}: {error}", reading.path.display())).into()
            );
        }
    }
    Ok(stream::unfold(reading, FileFollower::next).boxed())
}

/// Returns whether the file does not exist: the task has not created it, or could not because a
/// part of its path is not a directory.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

struct FileFollower {
    client: Client,
    target: JobTarget,
    path: PathBuf,
    file: Option<File>,
    tail: Option<u32>,
    /// True if the task has ended, so that the file does not grow any more.
    is_over: bool,
    looks: u32,
}

impl FileFollower {
    async fn next(mut self) -> Option<(std::result::Result<Vec<u8>, ClientError>, Self)> {
        loop {
            // 1. Read what is there.
            if let Some(file) = &mut self.file {
                let mut chunk = vec![0; CHUNK_BYTES];
                match file.read(&mut chunk).await {
                    Ok(0) => {}
                    Ok(length) => {
                        chunk.truncate(length);
                        return Some((Ok(chunk), self));
                    }
                    Err(error) => {
                        self.file = None;
                        self.is_over = true;
                        return Some((Err(ClientError::Io(error)), self));
                    }
                }
            }
            if self.is_over {
                return None;
            }
            // 2. Wait for more. The state is requested before the last read, so that everything
            //    written before the end is read.
            if self.looks.is_multiple_of(LOOKS_PER_QUESTION) {
                match self.has_ended().await {
                    Ok(has_ended) => self.is_over = has_ended,
                    Err(error) => {
                        self.is_over = true;
                        return Some((Err(error), self));
                    }
                }
            }
            self.looks += 1;
            if !self.is_over {
                tokio::time::sleep(LOOK).await;
            }
            if self.file.is_none() {
                // The file may have been created meanwhile.
                let _ = self.open_file().await;
            }
        }
    }

    /// Opens the file if it exists. Only a regular file is accepted: reading a FIFO could block.
    async fn open_file(&mut self) -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
        let file = options.open(&self.path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("not a regular file"));
        }
        let mut file = File::from_std(file);
        if let Some(lines) = self.tail {
            let from = last_lines(&mut file, lines).await?;
            file.seek(SeekFrom::Start(from)).await?;
        }
        self.file = Some(file);
        Ok(())
    }

    async fn has_ended(&self) -> std::result::Result<bool, ClientError> {
        let job = self.client.job(self.target.job, self.target.index).await?.job;
        let element = job.elements.iter().find(|one| Some(one.element.index) == self.target.index);
        Ok(element.map_or(job.state, |element| element.state).is_final())
    }
}
