//! `muster __preflight`: runs the checks of `verify: true` before a job's program starts. The job's
//! script calls it in its allocation; it starts the ranks as probes first, with the same nodes and
//! environment as the program.

use std::path::PathBuf;

use anyhow::{Context, Result};
use muster_doctor::job::{ExpectedRank, JobEvidence, verify};

use super::{code, drive, leaves, now};
use crate::app::App;
use crate::exit::Failure;

/// `EX_CONFIG` of sysexits(3): the node is set up wrong, so that a restart does not help.
const NOT_AS_GIVEN: u8 = 78;

/// Separator between the commands of two components.
const COMPONENTS: &str = ":";

/// Check a job's allocation before its program starts; called by the job's script
#[derive(Debug, clap::Args)]
pub struct PreflightArgs {
    /// Number of the job
    #[arg(long, value_name = "JOB")]
    job: u64,
    /// Index of the array element
    #[arg(long, value_name = "N")]
    index: Option<u32>,
    /// Number of ranks of the job
    #[arg(long, value_name = "N")]
    ranks: u32,
    /// File for the report, as JSON
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
    /// Command that starts every rank; commands of several components are separated by `:`
    #[arg(last = true, required = true)]
    start: Vec<String>,
}

/// Runs `muster __preflight`; returns its exit code.
pub async fn run(app: &App, args: &PreflightArgs) -> Result<u8> {
    // 1. Run the probes.
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
        expected: (0..args.ranks)
            .map(|rank| ExpectedRank { rank, ..ExpectedRank::default() })
            .collect(),
        timed_out: driven.is_late,
        seen: driven.seen,
        reached: driven.reached,
        clocks: driven.clocks,
        leaves: leaves::of_slurm().await,
        ..JobEvidence::default()
    };

    // 2. Write and print the report.
    let report = verify(&evidence);
    let kept = serde_json::to_string_pretty(&report)?;
    std::fs::write(&args.report, kept)
        .with_context(|| format!("cannot write {}", args.report.display()))?;
    app.ui.status(&muster_report::verify::verify(
        &report,
        &report.job.to_string(),
        app.ui.context(),
    ));

    // 3. If no probe started, no check has failed: nothing was tested.
    if evidence.seen.is_empty() {
        return Err(Failure::new("no probe of a rank answered: nothing was tested").into());
    }
    Ok(if code(&report, false) == 0 { 0 } else { NOT_AS_GIVEN })
}
