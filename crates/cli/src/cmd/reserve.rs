//! `muster reserve`.

use anyhow::Result;
use muster_api::types::{AdvanceReservationList, ReserveRequest};
use muster_model::Span;
use muster_operator::reader::ClusterReader;
use muster_report::advance_reservations::windows;
use muster_scheduler::ReservationState;

use crate::app::App;
use crate::args::OutputArgs;
use crate::cmd::nodes::{At, instant, parse_at, parse_in};
use crate::connect;
use crate::exit::Failure;
use crate::kubernetes::KubernetesArgs;

/// Create, change or delete an advance reservation of nodes or GPUs, or list all
///
/// Without a name it lists all reservations; JSON: an `AdvanceReservationList`. A job submitted with
/// `--reservation NAME` runs only inside that reservation. Before a reservation starts, other jobs
/// run there only if they end in time. On Kubernetes it lists the AdvanceReservation objects, which
/// kubectl changes. See docs/reservations.md.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["nodes", "gpus"]))]
pub struct ReserveArgs {
    /// Name of the reservation
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Delete the reservation; jobs that run in it keep running
    #[arg(long, requires = "name", conflicts_with_all = ["what", "gpu", "at", "after", "length", "every", "times", "until", "users", "queues", "stop", "reason"])]
    drop: bool,
    /// Nodes to reserve, entirely: `node07` or `node[01-04]`
    #[arg(long, value_name = "NODES", requires = "name")]
    nodes: Vec<String>,
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
    /// Users whose jobs may use it
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

/// Runs `muster reserve`; returns its exit code.
pub async fn run(app: &App, args: ReserveArgs) -> Result<u8> {
    if let Some(reader) = KubernetesArgs::default().reader(&app.global, None).await? {
        if args.name.is_some() {
            return Err(Failure::usage("the reservations of a Kubernetes cluster are objects")
                .hint("`kubectl apply` changes AdvanceReservation objects: docs/kubernetes.md")
                .into());
        }
        let list = of_cluster(app, &reader).await?;
        return show(app, &args, &list);
    }
    let client = connect::find(&app.global)?;
    let Some(name) = &args.name else {
        let list = client.reservations().await.map_err(Failure::from)?;
        return show(app, &args, &list);
    };
    let response = if args.drop {
        client.drop_reservation(name).await
    } else {
        client.reserve(name, &request(&args)?).await
    };
    app.ui.status(&response.map_err(Failure::from)?.message);
    Ok(0)
}

fn show(app: &App, args: &ReserveArgs, list: &AdvanceReservationList) -> Result<u8> {
    if args.output.json() {
        app.ui.json(list)?;
    } else {
        app.ui.data(&windows(&list.reservations, app.ui.context().at(list.now)))?;
    }
    Ok(0)
}

/// Returns the reservations of a Kubernetes cluster that are in force, and warns of those that are refused.
async fn of_cluster(app: &App, reader: &ClusterReader) -> Result<AdvanceReservationList> {
    let (now, all) = reader.reservations().await.map_err(Failure::from)?;
    let mut reservations = Vec::new();
    for one in all {
        match one.state {
            ReservationState::InForce(view) => reservations.push(*view),
            ReservationState::Refused(defect) => {
                app.ui.warning(&format!("{} is not in force: {defect}", one.name));
            }
            ReservationState::Over => {}
        }
    }
    Ok(AdvanceReservationList { now, reservations })
}

fn request(args: &ReserveArgs) -> Result<ReserveRequest> {
    let now = jiff::Zoned::now();
    let missing = |what: &str, hint: &str| {
        Failure::usage(format!("the reservation has no {what}")).hint(hint)
    };
    if args.nodes.is_empty() && args.gpus.is_none() {
        return Err(missing("nodes or GPUs", "add `--nodes node[01-04]` or `--gpus 8`").into());
    }
    if args.users.is_empty() && args.queues.is_empty() {
        return Err(
            missing("users or queues", "add `--users ann,bob` or `--queues research`").into()
        );
    }
    let length = args.length.ok_or_else(|| missing("duration", "add `--for 8h`"))?;
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
