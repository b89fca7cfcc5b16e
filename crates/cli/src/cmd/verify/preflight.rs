//! `muster __preflight`: the check before a job's program starts, called by the job's own script in
//! its allocation. Its ranks start as probes first, in the very place and environment that the
//! program gets.

use std::path::PathBuf;

use anyhow::{Context, Result};
use muster_doctor::job::{Expected, JobEvidence, verify};

use super::{code, drive, now, topology};
use crate::app::App;
use crate::exit::Failure;

/// As sysexits(3) calls it: something is set up wrong, and starting again does not help.
const NOT_AS_GIVEN: u8 = 78;

/// Stands between the words of two components.
const COMPONENTS: &str = ":";

/// Check a job's place before its program starts; called by the job's script
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The job
    #[arg(long, value_name = "JOB")]
    job: u64,
    /// Which element of an array
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Ranks
    #[arg(long, value_name = "N")]
    ranks: u32,
    /// Where the answer is kept, as JSON
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// Words that start every rank; those of several components with `:` between them
    #[arg(last = true, required = true)]
    start: Vec<String>,
}

/// Runs the verb.
pub async fn run(app: &App, args: &Args) -> Result<u8> {
    // 1. Look.
    let starts: Vec<Vec<String>> =
        args.start.split(|word| word == COMPONENTS).map(<[String]>::to_vec).collect();
    let driven = drive::drive(&starts, args.ranks as usize, &[], &[]).await;
    if driven.seen.len() < args.ranks as usize {
        let why = driven.why.map_or(String::new(), |why| format!(": {why}"));
        app.ui.warning(&format!("{} of {} ranks answered{why}", driven.seen.len(), args.ranks));
    }
    let evidence = JobEvidence {
        job: args.job,
        index: args.index,
        at: now(),
        expected: (0..args.ranks).map(|rank| Expected { rank, ..Expected::default() }).collect(),
        is_late: driven.is_late,
        seen: driven.seen,
        reached: driven.reached,
        clocks: driven.clocks,
        leaves: topology().await,
        ..JobEvidence::default()
    };

    // 2. Say.
    let report = verify(&evidence);
    let kept = serde_json::to_string_pretty(&report)?;
    std::fs::write(&args.report, kept)
        .with_context(|| format!("cannot write {}", args.report.display()))?;
    app.ui.status(&muster_report::verify::verify(&report, &app.ui.style()));

    // 3. A job whose probes do not even start has not been found wrong: nothing was tested.
    if evidence.seen.is_empty() {
        return Err(Failure::new("no rank could be looked at: nothing was tested").into());
    }
    Ok(if code(&report, false) == 0 { 0 } else { NOT_AS_GIVEN })
}
