//! `muster advise`: facts in, the control plane that fits out. Decided in `muster-advise`, written in `muster-report`.

use anyhow::Result;
use muster_report::advise::Depth;

use crate::app::App;
use crate::args::Output;
use crate::exit::Failure;
use crate::facts::{FactArgs, RuleArgs};

/// Say which control plane fits a workload, why, and what would change the answer
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    facts: FactArgs,
    #[command(flatten)]
    rules: RuleArgs,
    /// Show everything: sources, how failures show and what cures them, what each page says where they disagree
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    output: Output,
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    if args.facts.is_empty() {
        return Err(Failure::usage("nothing is known of the workload")
            .hint("such as `muster advise --nodes 4 --tightly-coupled`")
            .into());
    }
    let mut workload = args.facts.read()?;
    args.rules.apply(&mut workload.thresholds)?;
    let advice = muster_advise::advise(&workload.facts, &workload.thresholds, args.rules.ruleset());
    if args.output.json() {
        app.ui.json(&advice)?;
    } else {
        let depth = Depth { details: args.details, next: Vec::new() };
        app.ui.data(&muster_report::advise::advice(&advice, &depth, &app.ui.style()))?;
    }
    Ok(0)
}
