//! `muster prove`.

use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::Result;
use clap::Subcommand;
use muster_report::prove;
use muster_sim::prove::{
    CountError, GangScenario, ScenarioError, SweepError, all_orders, play_engine, sweep,
};

use crate::app::App;
use crate::args::{OutputArgs, whole_number};
use crate::exit::Failure;

/// Demonstrate a scheduling property on the real scheduler
///
/// Nothing is run and no daemon is needed: the scheduler that places jobs decides here about a
/// simulated pool. The same input always gives the same result.
#[derive(Debug, clap::Args)]
pub struct ProveArgs {
    #[command(subcommand)]
    claim: ProveCommand,
}

#[derive(Debug, Subcommand)]
enum ProveCommand {
    Gang(Box<GangArgs>),
}

/// Show that gangs placed pod by pod can deadlock, and that gang scheduling prevents it
///
/// Gangs compete for one pool of GPUs. A gang runs only when all its pods hold GPUs, and no pod
/// releases its GPU before. Each order of arrivals is given to the scheduler twice: pod by pod,
/// each pod a job of its own, as in a scheduler without gangs; and with gang scheduling, each gang
/// submitted whole when its first pod arrives.
///
/// Verdicts: deadlock (incomplete gangs hold GPUs, no further pod can get one, nothing runs), waste
/// (a gang runs, and an incomplete gang holds GPUs), whole (no incomplete gang holds a GPU), open
/// (a pod that has not arrived could still get a GPU, so the rest of the order decides).
///
/// JSON: a `GangProof`, with --all-orders a `GangOrders`, with --sweep a `GangSweep`; numbers of
/// orders are exact integers of up to 38 digits. The exit code is 0 for every verdict.
#[derive(Debug, clap::Args)]
struct GangArgs {
    /// GPUs of the pool, at most 128
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true, value_parser = whole_number(0, u32::MAX))]
    gpus: u32,
    /// Number of pods of each gang; the gangs are called a, b, c, in this order
    #[arg(long, value_name = "PODS,...", value_delimiter = ',', default_value = "5,5",
          allow_negative_numbers = true, value_parser = whole_number(0, u32::MAX))]
    need: Vec<u32>,
    /// Order of arrivals, one letter per pod, such as abab; by default the gangs alternate
    #[arg(long, value_name = "LETTERS")]
    order: Option<String>,
    /// Number of GPUs per pod
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole_number(0, u32::MAX))]
    gpus_per_pod: u32,
    /// Count the verdicts over all orders of arrivals
    #[arg(long, conflicts_with = "order")]
    all_orders: bool,
    /// Count the verdicts for two equal gangs, over ranges of pool and gang sizes
    #[arg(long, conflicts_with_all = ["order", "all_orders", "gpus", "need"])]
    sweep: bool,
    /// With --sweep: pool sizes, in GPUs
    #[arg(long, value_name = "FROM..TO", requires = "sweep", default_value = "1..16")]
    pools: SizeRange,
    /// With --sweep: gang sizes, in pods
    #[arg(long, value_name = "FROM..TO", requires = "sweep", default_value = "1..8")]
    sizes: SizeRange,
    #[command(flatten)]
    output: OutputArgs,
}

/// Range of sizes, inclusive: `4..16`, or `8`.
#[derive(Clone, Debug)]
struct SizeRange(RangeInclusive<u32>);

impl FromStr for SizeRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let size = |text: &str| match text.parse::<u32>() {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(format!("`{text}` is not a size; expected `4..16` (inclusive) or `8`")),
        };
        let from = size(from)?;
        let to = size(to)?;
        if from > to {
            return Err(format!("the start is above the end; did you mean `{to}..{from}`?"));
        }
        Ok(Self(from..=to))
    }
}

/// Runs `muster prove`; returns its exit code.
pub fn run(app: &App, args: &ProveArgs) -> Result<u8> {
    let ProveCommand::Gang(args) = &args.claim;
    let json = args.output.json();
    if args.sweep {
        let found = sweep(args.pools.0.clone(), args.sizes.0.clone(), args.gpus_per_pod)
            .map_err(sweep_failure)?;
        if json {
            app.ui.json(&found)?
        } else {
            app.ui.data(&prove::sweep(&found, app.ui.context()))?
        }
        return Ok(0);
    }
    let scenario = GangScenario::new(args.gpus, args.gpus_per_pod, args.need.clone())
        .map_err(scenario_failure)?;
    if args.all_orders {
        let found = all_orders(&scenario).map_err(count_failure)?;
        if json {
            app.ui.json(&found)?
        } else {
            app.ui.data(&prove::orders(&found, app.ui.context()))?
        }
        return Ok(0);
    }
    let order = args
        .order
        .as_ref()
        .map(|letters| scenario.order(letters))
        .transpose()
        .map_err(scenario_failure)?;
    let proof = play_engine(&scenario, &order.unwrap_or_else(|| scenario.in_turns()))?;
    if json {
        app.ui.json(&proof)?
    } else {
        app.ui.data(&prove::gang(&proof, app.ui.context()))?
    }
    Ok(0)
}

fn scenario_failure(error: ScenarioError) -> Failure {
    Failure::usage(error.to_string()).hint(error.hint())
}

fn count_failure(error: CountError) -> Failure {
    match error {
        CountError::TooManyOrders { .. } | CountError::TooManySteps => {
            Failure::usage(error.to_string())
                .hint("use fewer or smaller gangs; a single `--order` has no such limit")
        }
        CountError::World(_) => Failure::new(error.to_string()),
    }
}

fn sweep_failure(error: SweepError) -> Failure {
    match error {
        SweepError::Scenario(error) => scenario_failure(error),
        SweepError::Count(error @ CountError::World(_)) => count_failure(error),
        SweepError::Count(error) => {
            Failure::usage(error.to_string()).hint("narrow `--pools` or `--sizes`")
        }
    }
}
