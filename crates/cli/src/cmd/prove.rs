//! `muster prove`.

use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::Result;
use clap::Subcommand;
use muster_report::prove;
use muster_sim::prove::{CountError, Scenario, ScenarioError, SweepError, all_orders, sweep, walk};

use crate::app::App;
use crate::args::{Output, whole};
use crate::exit::Failure;

/// Show on the real engine what a claim about scheduling comes to
///
/// Nothing is run and no daemon is needed: the engine that schedules jobs decides here about a pool
/// that exists only for the question. The same question always gets the same answer.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    claim: Claim,
}

#[derive(Debug, Subcommand)]
enum Claim {
    Gang(Box<GangArgs>),
}

/// Pods placed one by one can deadlock; gangs placed whole cannot
///
/// Gangs contend for one pool of GPUs. A gang runs only when all its pods hold GPUs, and nobody
/// gives a GPU back before. Each order of arrivals is put to the engine twice: pod by pod, where
/// every pod is a job of its own, as a scheduler without gangs sees it; and with gang admission,
/// where a gang is submitted whole when its first pod arrives.
///
/// Verdicts: deadlock (incomplete gangs hold GPUs, no further pod can have one, nothing runs),
/// waste (something runs, and an incomplete gang holds GPUs), whole (no incomplete gang holds any
/// GPU), open (a pod that has not arrived would still get a GPU, so the rest of the order decides).
///
/// JSON: a `GangProof`, with --all-orders a `GangOrders`, with --sweep a `GangSweep`; numbers of
/// orders are exact integers of up to 38 digits. Exits 0 whenever it answers, whatever the answer.
#[derive(Debug, clap::Args)]
struct GangArgs {
    /// GPUs of the pool, at most 128
    #[arg(long, value_name = "N", default_value_t = 8, allow_negative_numbers = true, value_parser = whole(0, u32::MAX))]
    gpus: u32,
    /// Pods that each gang needs; gangs are a, b, c, in this order
    #[arg(long, value_name = "PODS,...", value_delimiter = ',', default_value = "5,5",
          allow_negative_numbers = true, value_parser = whole(0, u32::MAX))]
    need: Vec<u32>,
    /// Arrivals, one letter per pod, as abab; without it the gangs take turns until all have
    /// arrived
    #[arg(long, value_name = "LETTERS")]
    order: Option<String>,
    /// GPUs that each pod asks for
    #[arg(long, value_name = "N", default_value_t = 1, allow_negative_numbers = true, value_parser = whole(0, u32::MAX))]
    gpus_per_pod: u32,
    /// Count the outcomes of all orders in which the pods can arrive
    #[arg(long, conflicts_with = "order")]
    all_orders: bool,
    /// Count them for two equal gangs, over sizes of pool and gangs
    #[arg(long, conflicts_with_all = ["order", "all_orders", "gpus", "need"])]
    sweep: bool,
    /// With --sweep: pool sizes, in GPUs
    #[arg(long, value_name = "FROM..TO", requires = "sweep", default_value = "1..16")]
    pools: Sizes,
    /// With --sweep: gang sizes, in pods
    #[arg(long, value_name = "FROM..TO", requires = "sweep", default_value = "1..8")]
    sizes: Sizes,
    #[command(flatten)]
    output: Output,
}

/// Sizes from one to another, both included: `4..16`, or `8`.
#[derive(Clone, Debug)]
struct Sizes(RangeInclusive<u32>);

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let size = |text: &str| match text.parse::<u32>() {
            Ok(size) if size > 0 => Ok(size),
            _ => Err(format!("`{text}` is no size; sizes are `4..16`, both included, or `8`")),
        };
        let (from, to) = (size(from)?, size(to)?);
        if from > to {
            return Err(format!("it starts above its end; did you mean `{to}..{from}`?"));
        }
        Ok(Self(from..=to))
    }
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    let Claim::Gang(args) = &args.claim;
    let json = args.output.json();
    if args.sweep {
        let found =
            sweep(args.pools.0.clone(), args.sizes.0.clone(), args.gpus_per_pod).map_err(swept)?;
        match json {
            true => app.ui.json(&found)?,
            false => app.ui.data(&prove::sweep(&found, &app.ui.style()))?,
        }
        return Ok(0);
    }
    let scenario = Scenario::new(args.gpus, args.gpus_per_pod, args.need.clone()).map_err(wrong)?;
    if args.all_orders {
        let found = all_orders(&scenario).map_err(counted)?;
        match json {
            true => app.ui.json(&found)?,
            false => app.ui.data(&prove::orders(&found, &app.ui.style()))?,
        }
        return Ok(0);
    }
    let order =
        args.order.as_ref().map(|letters| scenario.order(letters)).transpose().map_err(wrong)?;
    let proof = walk(&scenario, &order.unwrap_or_else(|| scenario.in_turns()))?;
    match json {
        true => app.ui.json(&proof)?,
        false => app.ui.data(&prove::gang(&proof, &app.ui.style()))?,
    }
    Ok(0)
}

fn wrong(error: ScenarioError) -> Failure {
    Failure::usage(error.to_string()).hint(error.hint())
}

fn counted(error: CountError) -> Failure {
    match error {
        CountError::TooManyOrders { .. } | CountError::TooManySteps => {
            Failure::usage(error.to_string())
                .hint("fewer or smaller gangs; a single order, with `--order`, has no such limit")
        }
        CountError::World(_) => Failure::new(error.to_string()),
    }
}

fn swept(error: SweepError) -> Failure {
    match error {
        SweepError::Scenario(error) => wrong(error),
        SweepError::Count(error @ CountError::World(_)) => counted(error),
        SweepError::Count(error) => {
            Failure::usage(error.to_string()).hint("narrow `--pools` or `--sizes`")
        }
    }
}
