//! `muster nodes`.

use anyhow::Result;
use clap::Subcommand;
use jiff::civil;
use muster_api::types::{DrainRequest, NodeList, ResumeRequest};
use muster_model::{Span, Time};
use muster_report::nodes::nodes;
use muster_spec::quantity::{parse_instant, parse_span};

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;
use crate::kubernetes::KubernetesArgs;

/// List nodes and their GPUs, or drain and resume them
///
/// Simulated GPUs are marked as virtual. GPUs in use by processes outside Muster are not allocated.
/// JSON: a `NodeList`.
#[derive(Debug, clap::Args)]
pub struct NodesArgs {
    #[command(subcommand)]
    action: Option<NodesCommand>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    kubernetes: KubernetesArgs,
}

#[derive(Debug, Subcommand)]
enum NodesCommand {
    /// Drain a node or some of its GPUs: no job starts there, running jobs keep running
    ///
    /// With `--at` or `--in`, jobs whose time limit and grace period end before that time still
    /// start there.
    Drain(DrainArgs),
    /// Return a drained node, or drained GPUs, to service
    Resume {
        /// Name of the node
        #[arg(value_name = "NODE")]
        node: String,
        /// Only these GPUs, if they were drained individually: `3`, `0-3`, or a UUID
        #[arg(long, value_name = "GPU,…", value_delimiter = ',')]
        gpu: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct DrainArgs {
    /// Name of the node
    #[arg(value_name = "NODE")]
    node: String,
    /// Only these GPUs: `3`, `0-3`, a UUID, or the UUID of a GPU for all its MIG slices
    #[arg(long, value_name = "GPU,…", value_delimiter = ',')]
    gpu: Vec<String>,
    /// Start of the drain: `18:00` for the next 18:00 local time, or `2026-08-01T06:00:00Z`; by
    /// default now
    #[arg(long, value_name = "TIME", value_parser = parse_at, conflicts_with = "after")]
    at: Option<At>,
    /// Time until the drain starts: `2h`
    #[arg(long = "in", value_name = "SPAN", value_parser = parse_in, id = "after")]
    after: Option<Span>,
    /// Stop jobs that still run there when the drain starts, and requeue them
    #[arg(long)]
    stop: bool,
    /// Reason, shown in `muster nodes`
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

/// Instant, or a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// Absolute time, as typed with a date.
    Instant(Time),
    /// Next occurrence of a local time of day.
    TimeOfDay(civil::Time),
}

/// Runs `muster nodes`; returns its exit code.
pub async fn run(app: &App, args: NodesArgs) -> Result<u8> {
    if let Some(reader) = args.kubernetes.reader(&app.global, None).await? {
        if args.action.is_some() {
            return Err(Failure::usage("nodes of a Kubernetes cluster are not drained by Muster")
                .hint("`kubectl cordon NODE` keeps new pods away, `kubectl drain NODE` evicts, too")
                .into());
        }
        let (now, nodes) = reader.nodes().await.map_err(Failure::from)?;
        return show(app, args.output, &NodeList { now, nodes });
    }
    let client = connect::find(&app.global)?;
    let response = match args.action {
        Some(NodesCommand::Drain(drain)) => {
            let now = jiff::Zoned::now();
            let at = drain.at.map(|at| instant(at, &now)).transpose()?;
            let request = DrainRequest {
                reason: drain.reason,
                gpus: drain.gpu,
                at,
                after: drain.after,
                stop: drain.stop,
            };
            client.drain(&drain.node, &request).await.map_err(Failure::from)?
        }
        Some(NodesCommand::Resume { node, gpu }) => {
            let request = ResumeRequest { gpus: gpu };
            client.resume(&node, &request).await.map_err(Failure::from)?
        }
        None => {
            let list = client.nodes().await.map_err(Failure::from)?;
            return show(app, args.output, &list);
        }
    };
    app.ui.status(&response.message);
    Ok(0)
}

fn show(app: &App, output: OutputArgs, list: &NodeList) -> Result<u8> {
    if output.json() {
        app.ui.json(list)?;
    } else {
        app.ui.data(&nodes(&list.nodes, app.ui.context().at(list.now)))?;
    }
    Ok(0)
}

/// Returns the instant of a time as typed; for a time of day, its next occurrence after `now`.
pub fn instant(at: At, now: &jiff::Zoned) -> Result<Time> {
    let time = match at {
        At::Instant(time) => return Ok(time),
        At::TimeOfDay(time) => time,
    };
    let today = now.date().to_datetime(time).to_zoned(now.time_zone().clone())?;
    let next = if today > *now {
        today
    } else {
        now.date().tomorrow()?.to_datetime(time).to_zoned(now.time_zone().clone())?
    };
    Ok(Time(u64::try_from(next.timestamp().as_millisecond())?))
}

/// Parses an instant or a time of day.
pub fn parse_at(text: &str) -> Result<At, String> {
    let is_time_of_day = text.len() <= 8 && text.contains(':');
    let time = is_time_of_day.then(|| text.parse::<civil::Time>().ok()).flatten();
    match time {
        Some(time) => Ok(At::TimeOfDay(time)),
        None => parse_instant(text).map(At::Instant).map_err(|_| {
            "expected a time of day such as 18:00, or an instant such as 2026-08-01T06:00:00Z"
                .to_owned()
        }),
    }
}

/// Parses a duration such as `2h`.
pub fn parse_in(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|error| error.label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_day_is_the_next_one() {
        let now: jiff::Zoned = "2026-11-20T12:00:00+00:00[UTC]".parse().unwrap();
        let millis = |text: &str| {
            Time(text.parse::<jiff::Timestamp>().unwrap().as_millisecond().unsigned_abs())
        };
        for (text, expected) in [
            ("18:00", "2026-11-20T18:00:00Z"),
            ("12:00", "2026-11-21T12:00:00Z"),
            ("06:30:15", "2026-11-21T06:30:15Z"),
            ("2026-11-19T06:00:00Z", "2026-11-19T06:00:00Z"),
        ] {
            assert_eq!(instant(parse_at(text).unwrap(), &now).unwrap(), millis(expected), "{text}");
        }
        for wrong in ["25:00", "noon", "2h", ""] {
            assert!(parse_at(wrong).is_err(), "{wrong}");
        }
    }
}
