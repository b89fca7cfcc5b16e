//! Streams the output of a task.

use anyhow::Result;
use futures_util::StreamExt;
use muster_api::query::LogQuery;
use muster_api::{Client, ClientError};
use muster_model::view::JobView;

use crate::app::App;
use crate::exit::Failure;
use crate::jobref::Target;

/// Which output, and how much of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Which {
    /// Rank; `None` is 0.
    pub rank: Option<u32>,
    /// Attempt; `None` is the current or last one.
    pub attempt: Option<u32>,
    /// Only so many last lines.
    pub tail: Option<u32>,
}

/// Copies what there is to stdout.
pub async fn print(app: &App, client: &Client, target: Target, which: Which) -> Result<()> {
    copy(app, client, target, which, false).await
}

/// Copies to stdout until the task has ended.
pub async fn follow(app: &App, client: &Client, target: Target, which: Which) -> Result<()> {
    copy(app, client, target, which, true).await
}

async fn copy(app: &App, client: &Client, target: Target, which: Which, follow: bool) -> Result<()> {
    let query = LogQuery {
        index: target.index,
        rank: which.rank,
        attempt: which.attempt,
        follow,
        tail: which.tail,
        offset: None,
    };
    let mut stream = client.logs(target.job, query).await.map_err(Failure::from)?;
    while let Some(bytes) = stream.next().await {
        match bytes {
            Ok(bytes) => app.ui.bytes(&bytes)?,
            Err(error @ ClientError::Io(_)) => {
                return Err(Failure::from(error)
                    .hint(format!("`muster logs -f {}` takes it up again", target.text()))
                    .into());
            }
            Err(error) => return Err(Failure::from(error).into()),
        }
    }
    Ok(())
}

/// Says how jobs ended, where it was not well.
pub fn say_end(app: &App, rows: &[JobView]) {
    for row in rows {
        let outcome =
            row.elements.iter().filter_map(|element| element.outcome.as_ref()).find(|o| !o.is_success());
        if let Some(outcome) = outcome {
            app.ui.status(&format!("job {} {}: {outcome}", row.job, row.state.word()));
        }
    }
}
