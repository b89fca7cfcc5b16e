//! `muster reserve`.

use anyhow::Result;
use muster_api::types::ReserveRequest;
use muster_model::Span;
use muster_report::windows::windows;

use crate::app::App;
use crate::args::Output;
use crate::cmd::nodes::{At, instant, parse_at, parse_in};
use crate::connect;
use crate::exit::Failure;

/// Set nodes or GPUs aside for some users over a stretch of time, or list what is
///
/// Without a name it lists all reservations; JSON: a `WindowList`. Jobs run in one with
/// `--reservation NAME`, and only in it. Until it begins, others run there what ends in time.
/// docs/reservations.md says more.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["nodes", "gpus"]))]
pub struct Args {
    /// Name of the reservation
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Take it back; what runs in it goes on
    #[arg(long, requires = "name", conflicts_with_all = ["what", "gpu", "at", "after", "length", "every", "times", "until", "users", "queues", "stop", "reason"])]
    drop: bool,
    /// These nodes as a whole: `node07` or `node[01-04]`
    #[arg(long, value_name = "NODES", requires = "name")]
    nodes: Vec<String>,
    /// Or so many GPUs, wherever they are free then
    #[arg(long, value_name = "N", requires = "name")]
    gpus: Option<u32>,
    /// Model of these GPUs; by default any
    #[arg(long, value_name = "MODEL", requires = "gpus")]
    gpu: Option<String>,
    /// When it begins: `18:00` is the next such time here, or `2026-08-01T06:00:00Z`; by default
    /// now
    #[arg(long = "start", value_name = "TIME", value_parser = parse_at, conflicts_with = "after", id = "at", requires = "name")]
    start: Option<At>,
    /// Or so much later: `2h`
    #[arg(long = "in", value_name = "SPAN", value_parser = parse_in, id = "after", requires = "name")]
    after: Option<Span>,
    /// How long it is open
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_in, id = "length", requires = "name")]
    length: Option<Span>,
    /// Again after each such time: `1d`, `7d`
    #[arg(long, value_name = "SPAN", value_parser = parse_in, requires = "name")]
    every: Option<Span>,
    /// So many times in all; by default for ever
    #[arg(long, value_name = "N", requires = "every", conflicts_with = "until")]
    times: Option<u32>,
    /// Not again from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_at, requires = "every")]
    until: Option<At>,
    /// Whose jobs may name it
    #[arg(long, value_name = "USER,…", value_delimiter = ',', requires = "name")]
    users: Vec<String>,
    /// Queues whose jobs may name it, with all queues below
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',', requires = "name")]
    queues: Vec<String>,
    /// Stop what of others is still there when it begins, and queue it again
    #[arg(long, requires = "name")]
    stop: bool,
    /// What for, for people
    #[arg(long, default_value = "", hide_default_value = true, requires = "name")]
    reason: String,
    #[command(flatten)]
    output: Output,
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let Some(name) = &args.name else {
        let list = client.reservations().await.map_err(Failure::from)?;
        match args.output.json() {
            true => app.ui.json(&list)?,
            false => app.ui.data(&windows(&list.reservations, list.now, &app.ui.style()))?,
        }
        return Ok(0);
    };
    let response = match args.drop {
        true => client.drop_reservation(name).await,
        false => client.reserve(name, &request(&args)?).await,
    };
    app.ui.status(&response.map_err(Failure::from)?.message);
    Ok(0)
}

fn request(args: &Args) -> Result<ReserveRequest> {
    let now = jiff::Zoned::now();
    let missing =
        |what: &str, hint: &str| Failure::usage(format!("it does not say {what}")).hint(hint);
    if args.nodes.is_empty() && args.gpus.is_none() {
        return Err(missing("what to set aside", "`--nodes node[01-04]`, or `--gpus 8`").into());
    }
    if args.users.is_empty() && args.queues.is_empty() {
        return Err(missing("who may use it", "`--users ann,bob`, or `--queues research`").into());
    }
    let length = args.length.ok_or_else(|| missing("how long", "`--for 8h`"))?;
    Ok(ReserveRequest {
        nodes: args.nodes.clone(),
        gpus: args.gpus,
        gpu: args.gpu.clone(),
        users: args.users.clone(),
        queues: args.queues.clone(),
        at: args.start.map(|at| instant(at, &now)).transpose()?,
        after: args.after,
        length,
        every: args.every,
        times: args.times,
        until: args.until.map(|at| instant(at, &now)).transpose()?,
        stop: args.stop,
        reason: args.reason.clone(),
    })
}
