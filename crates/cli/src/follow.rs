//! Streams the output of tasks to stdout.

use std::collections::BTreeMap;

use anyhow::Result;
use futures_util::StreamExt;
use futures_util::stream::{BoxStream, SelectAll};
use muster_api::query::LogQuery;
use muster_api::{Client, ClientError};

use crate::app::App;
use crate::exit::Failure;
use crate::jobref::JobTarget;
use crate::named_file::{self, Stream};

/// Selection of output: rank, attempt and number of lines.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutputSelection {
    /// Rank of the task; `None` is 0.
    pub rank: Option<u32>,
    /// Number of the attempt; `None` is the current or last one.
    pub attempt: Option<u32>,
    /// Number of last lines to show; `None` is all.
    pub tail: Option<u32>,
}

/// Copies the present output to stdout.
pub async fn print(
    app: &App,
    client: &Client,
    target: JobTarget,
    which: OutputSelection,
) -> Result<()> {
    copy(app, client, target, which, false).await
}

/// Copies output to stdout until the task has ended.
pub async fn follow(
    app: &App,
    client: &Client,
    target: JobTarget,
    which: OutputSelection,
) -> Result<()> {
    copy(app, client, target, which, true).await
}

async fn copy(
    app: &App,
    client: &Client,
    target: JobTarget,
    which: OutputSelection,
    follow: bool,
) -> Result<()> {
    let query = LogQuery {
        index: target.index,
        rank: which.rank,
        attempt: which.attempt,
        follow,
        tail: which.tail,
        offset: None,
    };
    let mut stream = open(client, target, &query).await?;
    while let Some(bytes) = stream.next().await {
        match bytes {
            Ok(bytes) => app.ui.bytes(&bytes)?,
            Err(error @ ClientError::Io(_)) => {
                return Err(Failure::from(error)
                    .hint(format!("`muster logs -f {}` continues", target.text(client)))
                    .into());
            }
            Err(error) => return Err(Failure::from(error).into()),
        }
    }
    Ok(())
}

/// Opens the output of one task, wherever it is.
pub async fn open(client: &Client, target: JobTarget, query: &LogQuery) -> Result<Stream> {
    // Without a daemon this process reads the files anyway, and looking the job up would cost a
    // request to Slurm.
    let named = match client.socket() {
        Some(_) => {
            let detail = client.job(target.job, target.index).await.map_err(Failure::from)?;
            named_file::of(client, &detail, query)?
        }
        None => None,
    };
    match named {
        Some(file) => named_file::open(client, target, file, query).await,
        None => Ok(stored_output(client, target, *query).await.map_err(Failure::from)?),
    }
}

/// Returns the output that Muster stores, as opposed to a file that the user named.
async fn stored_output(
    client: &Client,
    target: JobTarget,
    query: LogQuery,
) -> Result<Stream, ClientError> {
    let stream = client.logs(target.job, query).await?;
    Ok(stream.map(|bytes| bytes.map(|bytes| bytes.to_vec())).boxed())
}

/// Largest number of ranks that are followed together: each takes a connection.
const MAX_FOLLOWED: u32 = 256;

/// Copies the lines of all ranks to stdout, each prefixed with its rank: rank by rank, or with
/// `follow` as they are written, until the tasks have ended.
pub async fn print_all_ranks(
    app: &App,
    client: &Client,
    target: JobTarget,
    which: OutputSelection,
    follow: bool,
) -> Result<()> {
    let detail = client.job(target.job, target.index).await.map_err(Failure::from)?;
    let job = &detail.job;
    let placed = job.elements.iter().map(|element| element.tasks.len()).max().unwrap_or(0);
    let ranks = job.tasks.max(u32::try_from(placed).unwrap_or(u32::MAX)).max(1);
    if follow && ranks > MAX_FOLLOWED {
        return Err(Failure::usage(format!(
            "the job has {ranks} ranks, but at most {MAX_FOLLOWED} can be followed together"
        ))
        .hint("`--rank N` follows one; without --follow, all are shown")
        .into());
    }
    let width = (ranks - 1).to_string().len();
    let query = |rank| LogQuery {
        index: target.index,
        rank: Some(rank),
        attempt: which.attempt,
        follow,
        tail: which.tail,
        offset: None,
    };
    let mut open = SelectAll::new();
    let mut silent = None;
    // In a file that all ranks write to, lines cannot be attributed to a rank.
    if let Some(file) = named_file::of(client, &detail, &query(0))?.filter(|file| file.is_shared) {
        app.ui.status("all ranks write to one file; its lines are shown without ranks");
        return copy_unchanged(app, named_file::open(client, target, file, &query(0)).await?).await;
    }
    for rank in 0..ranks {
        let opened = match named_file::of(client, &detail, &query(rank))? {
            Some(file) => Ok(named_file::open(client, target, file, &query(rank)).await?),
            None => stored_output(client, target, query(rank)).await,
        };
        let stream = match opened {
            Ok(stream) => stream
                .map(move |bytes| (rank, bytes))
                .chain(futures_util::stream::once(end_of_output(rank))),
            // A rank that has written nothing has no file.
            Err(ClientError::Api(body)) if body.code == "not_found" => {
                silent.get_or_insert(body);
                continue;
            }
            Err(error) => return Err(Failure::from(error).into()),
        };
        open.push(stream.boxed());
        if !follow {
            copy_lines(app, &mut open, width).await?;
            silent = None;
            open = SelectAll::new();
        }
    }
    match silent {
        Some(body) if ranks == 1 || (follow && open.is_empty()) => {
            Err(Failure::from(ClientError::Api(body)).into())
        }
        _ => copy_lines(app, &mut open, width).await,
    }
}

/// Copies a stream to stdout unchanged.
async fn copy_unchanged(app: &App, mut stream: Stream) -> Result<()> {
    while let Some(bytes) = stream.next().await {
        app.ui.bytes(&bytes.map_err(Failure::from)?)?;
    }
    Ok(())
}

type RankChunk = (u32, std::result::Result<Vec<u8>, ClientError>);

/// Returns an empty chunk, which ends an incomplete last line.
async fn end_of_output(rank: u32) -> RankChunk {
    (rank, Ok(Vec::new()))
}

/// Copies whole lines, each prefixed with its rank.
async fn copy_lines(
    app: &App,
    streams: &mut SelectAll<BoxStream<'_, RankChunk>>,
    width: usize,
) -> Result<()> {
    let mut begun: BTreeMap<u32, Vec<u8>> = BTreeMap::new();
    while let Some((rank, bytes)) = streams.next().await {
        let bytes = bytes.map_err(Failure::from)?;
        let line = begun.entry(rank).or_default();
        if bytes.is_empty() && !line.is_empty() {
            line.push(b'\n');
        }
        line.extend_from_slice(&bytes);
        let whole = line.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let mut text = Vec::new();
        for one in line[..whole].split_inclusive(|byte| *byte == b'\n') {
            text.extend_from_slice(format!("{rank:>width$}: ").as_bytes());
            text.extend_from_slice(one);
        }
        app.ui.bytes(&text)?;
        line.drain(..whole);
    }
    Ok(())
}
