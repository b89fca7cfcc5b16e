//! `muster __names`: prints numbers and names of jobs for shell completion. It must be fast, and it
//! ignores all errors, since the user is typing a command line.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use anyhow::Result;
use muster_api::query::JobFilter;

use crate::app::App;
use crate::connect;
use crate::jobref;

/// Longest time that completion may take.
const PATIENCE: Duration = Duration::from_millis(700);
/// Largest number of jobs that are completed.
const MOST: u32 = 300;

/// Print numbers and names of jobs, for completion
#[derive(Debug, clap::Args)]
pub struct NamesArgs {
    /// Include jobs that have ended
    #[arg(short, long)]
    all: bool,
}

/// Prints the user's own jobs, each name once.
pub async fn run(app: &App, args: NamesArgs) -> Result<u8> {
    let Ok(client) = connect::find(&app.global) else { return Ok(0) };
    let user = Some(jobref::own_name().to_string());
    let filter = JobFilter { all: args.all, user, first: Some(MOST), ..JobFilter::default() };
    let Ok(Ok(list)) = tokio::time::timeout(PATIENCE, client.jobs(filter)).await else {
        return Ok(0);
    };
    let mut words = String::new();
    let mut names = BTreeSet::new();
    for job in &list.jobs {
        let _ = writeln!(words, "{}", job.label());
        // Names that would need quoting are completed by label only.
        let is_plain =
            job.name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
        if is_plain && names.insert(&job.name) {
            let _ = writeln!(words, "{}", job.name);
        }
    }
    app.ui.bytes(words.as_bytes())?;
    Ok(0)
}
