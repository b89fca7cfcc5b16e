//! `muster reserve`.

use anyhow::Result;
use muster_api::types::ReserveRequest;
use muster_model::Span;
use muster_report::advance_reservations::windows;
use serde::Serialize;

use crate::app::App;
use crate::args::OutputArgs;
use crate::cmd::nodes::{At, instant, parse_at, parse_in};
use crate::connect;
use crate::exit::Failure;
use crate::withdraw::or_withdraw;

/// Create, change or delete an advance reservation of nodes or GPUs, or list all
///
/// Without a name it lists all reservations; JSON: an `AdvanceReservationList`, and with a name its
/// name and a message. A job submitted with `--reservation NAME` runs only inside that reservation.
/// Before a reservation starts, other jobs run there only if they end in time. On Kubernetes a
/// reservation is an AdvanceReservation object. See docs/reservations.md.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["nodes", "gpus"]))]
pub struct ReserveArgs {
    /// Name of the reservation
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Delete the reservation; jobs that run in it keep running
    #[arg(long, requires = "name", conflicts_with_all = ["what", "node_selector", "gpu", "at", "after", "length", "every", "times", "until", "users", "queues", "stop", "reason"])]
    drop: bool,
    /// Nodes to reserve, entirely: `node07` or `node[01-04]`
    #[arg(long, value_name = "NODES", requires = "name")]
    nodes: Vec<String>,
    /// On Kubernetes, reserve all nodes with these labels, or with `--gpus`, GPUs of them
    #[arg(long, value_name = "LABEL=VALUE,…", value_delimiter = ',', value_parser = parse_label, requires = "name", conflicts_with = "nodes")]
    node_selector: Vec<(String, String)>,
    /// Number of GPUs to reserve, on any nodes
    #[arg(long, value_name = "N", requires = "name")]
    gpus: Option<u32>,
    /// Model of the GPUs; by default any
    #[arg(long, value_name = "MODEL", requires = "gpus")]
    gpu: Option<String>,
    /// Start: `18:00` for the next 18:00 local time, or `2026-08-01T06:00:00Z`; by default now
    #[arg(long = "start", value_name = "TIME", value_parser = parse_at, conflicts_with = "after", id = "at", requires = "name")]
    start: Option<At>,
    /// Time until the start: `2h`
    #[arg(long = "in", value_name = "SPAN", value_parser = parse_in, id = "after", requires = "name")]
    after: Option<Span>,
    /// Duration of the reservation
    #[arg(long = "for", value_name = "SPAN", value_parser = parse_in, id = "length", requires = "name")]
    length: Option<Span>,
    /// Repeat with this period: `1d`, `7d`
    #[arg(long, value_name = "SPAN", value_parser = parse_in, requires = "name")]
    every: Option<Span>,
    /// Total number of occurrences; by default unlimited
    #[arg(long, value_name = "N", requires = "every", conflicts_with = "until")]
    times: Option<u32>,
    /// Do not repeat after this time
    #[arg(long, value_name = "TIME", value_parser = parse_at, requires = "every")]
    until: Option<At>,
    /// Users whose jobs may use it; on Kubernetes, namespaces
    #[arg(long, value_name = "USER,…", value_delimiter = ',', requires = "name")]
    users: Vec<String>,
    /// Queues whose jobs may use it, including all queues below
    #[arg(long, value_name = "QUEUE,…", value_delimiter = ',', requires = "name")]
    queues: Vec<String>,
    /// Stop other jobs that still run there when it starts, and requeue them
    #[arg(long, requires = "name")]
    stop: bool,
    /// Purpose, shown in the list
    #[arg(long, default_value = "", hide_default_value = true, requires = "name")]
    reason: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// Result of a creation or deletion.
#[derive(Serialize)]
struct Reserved<'a> {
    name: &'a str,
    message: String,
}

/// Runs `muster reserve`; returns its exit code.
pub async fn run(app: &App, args: ReserveArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let Some(name) = &args.name else {
        let list = client.reservations().await.map_err(Failure::from)?;
        if args.output.json() {
            app.ui.json(&list)?;
        } else {
            app.ui.data(&windows(&list.reservations, app.ui.context().at(list.now)))?;
        }
        return Ok(0);
    };
    let response = if args.drop {
        client.drop_reservation(name).await
    } else {
        let request = request(&args)?;
        or_withdraw(&client, client.reserve(name, &request)).await
    };
    let message = response.map_err(Failure::from)?.message;
    if args.output.json() {
        app.ui.json(&Reserved { name, message })?;
    } else {
        app.ui.status(&message);
    }
    Ok(0)
}

/// Parses a label with its value; the value may be empty.
fn parse_label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((label, value)) if !label.is_empty() => Ok((label.to_owned(), value.to_owned())),
        _ => Err("expected a label with its value, such as `pool=exam`".to_owned()),
    }
}

fn request(args: &ReserveArgs) -> Result<ReserveRequest> {
    let now = jiff::Zoned::now();
    let missing = |what: &str, hint: &str| {
        Failure::usage(format!("the reservation has no {what}")).hint(hint)
    };
    if args.nodes.is_empty() && args.gpus.is_none() && args.node_selector.is_empty() {
        let hint = "add `--nodes node[01-04]` or `--gpus 8`; on Kubernetes also `--node-selector pool=exam`";
        return Err(missing("nodes or GPUs", hint).into());
    }
    if args.users.is_empty() && args.queues.is_empty() {
        return Err(
            missing("users or queues", "add `--users ann,bob` or `--queues research`").into()
        );
    }
    let length = args.length.ok_or_else(|| missing("duration", "add `--for 8h`"))?;
    Ok(ReserveRequest {
        nodes: args.nodes.clone(),
        node_selector: args.node_selector.iter().cloned().collect(),
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
