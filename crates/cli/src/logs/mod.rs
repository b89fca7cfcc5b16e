//! Output of tasks on stdout: that of one task as it is, that of several as prefixed lines.

mod lines;
mod many;

use std::path::PathBuf;

use anyhow::Result;
use futures_util::StreamExt;
use muster_api::query::LogQuery;
use muster_api::types::JobDetail;
use muster_api::{Client, ClientError};
use muster_model::Time;
use regex::bytes::Regex;

use crate::app::App;
use crate::exit::Failure;
use crate::jobref::JobTarget;
use crate::named_file::{self, Stream};
use lines::{LinePrinter, Prefix, TaskKey};

/// Ranks whose output is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ranks {
    /// All; of a Ray cluster rank 0, which runs the program.
    #[default]
    Usual,
    /// Every rank of the job.
    All,
    /// The rank with this number.
    One(u32),
}

/// Ranks, attempt and part of the output that are shown.
#[derive(Clone, Debug, Default)]
pub struct OutputSelection {
    /// Ranks of the tasks.
    pub ranks: Ranks,
    /// Number of the attempt; `None` is the current or last one.
    pub attempt: Option<u32>,
    /// Number of last lines of each task; `None` is all.
    pub tail: Option<u32>,
    /// Instant before which output is left out.
    pub since: Option<Time>,
    /// Pattern of the lines that are shown; `None` shows all.
    pub filter: Option<Regex>,
    /// True to continue until the tasks have ended.
    pub follow: bool,
}

impl OutputSelection {
    fn query(&self, index: Option<u32>, rank: u32) -> LogQuery {
        LogQuery {
            index,
            rank: Some(rank),
            attempt: self.attempt,
            follow: self.follow,
            tail: self.tail,
            since: self.since,
            offset: None,
        }
    }
}

/// Copies output of a job, or of one element of it, to stdout. Returns the ranks that were shown.
pub async fn print(
    app: &App,
    client: &Client,
    target: JobTarget,
    which: &OutputSelection,
) -> Result<Ranks> {
    if let (Some(_), Ranks::One(rank)) = (target.index, which.ranks) {
        print_one(app, client, target, which, rank).await?;
        return Ok(which.ranks);
    }
    let detail = client.job(target.job, target.index).await.map_err(Failure::from)?;
    let job = &detail.job;
    let has_elements = job.array.is_some() || job.service.is_some();
    let rank = match which.ranks {
        Ranks::One(rank) => Some(rank),
        Ranks::Usual if detail.has_ray => Some(0),
        // The number of tasks of an elastic gang changes.
        _ if many::tasks(job) == 1 && job.elastic.is_none() => Some(0),
        Ranks::Usual | Ranks::All => None,
    };
    match rank {
        Some(rank) if target.index.is_some() || !has_elements => {
            print_one(app, client, target, which, rank).await?
        }
        _ => many::print(app, client, target, detail, which, rank).await?,
    }
    Ok(rank.map_or(Ranks::All, Ranks::One))
}

/// Copies the output of one task.
async fn print_one(
    app: &App,
    client: &Client,
    target: JobTarget,
    which: &OutputSelection,
    rank: u32,
) -> Result<()> {
    let mut stream = open(client, target, &which.query(target.index, rank)).await?;
    let task = TaskKey { index: 0, rank };
    let mut lines = LinePrinter::new(app, which.filter.as_ref(), Prefix::default());
    while let Some(bytes) = stream.next().await {
        let bytes = bytes.map_err(|error| broken(error, target, client))?;
        match which.filter {
            Some(_) => lines.add(task, &bytes)?,
            None => app.ui.bytes(&bytes)?,
        }
    }
    lines.end(task)
}

/// Returns the failure of a stream that was cut off, with the command that goes on.
fn broken(error: ClientError, target: JobTarget, client: &Client) -> Failure {
    match error {
        ClientError::Io(_) => {
            Failure::from(error).hint(format!("`muster logs -f {}` continues", target.text(client)))
        }
        error => error.into(),
    }
}

/// Opens the output of one task, wherever it is.
pub async fn open(client: &Client, target: JobTarget, query: &LogQuery) -> Result<Stream> {
    // Without a daemon this process reads the files anyway, and looking the job up would cost a
    // request to Slurm.
    let detail = match client.socket() {
        Some(_) => Some(client.job(target.job, target.index).await.map_err(Failure::from)?),
        None => None,
    };
    match detail.map(|detail| named(client, &detail, query)).transpose()?.flatten() {
        Some(file) => named_file::open(client, target, file, query).await,
        None => Ok(stored(client, target, *query).await.map_err(Failure::from)?),
    }
}

/// Returns the file that the user named for the output of a task; `None` where Muster stores it.
fn named(client: &Client, detail: &JobDetail, query: &LogQuery) -> Result<Option<PathBuf>> {
    let file = named_file::of(client, detail, query)?;
    if file.is_some() && query.since.is_some() {
        return Err(Failure::usage("the times of output in a file of its own are not recorded")
            .hint("`--tail N` shows the last lines")
            .into());
    }
    Ok(file)
}

/// Opens the output that Muster stores, as opposed to a file that the user named.
async fn stored(
    client: &Client,
    target: JobTarget,
    query: LogQuery,
) -> std::result::Result<Stream, ClientError> {
    let stream = client.logs(target.job, query).await?;
    Ok(stream.map(|bytes| bytes.map(|bytes| bytes.to_vec())).boxed())
}
