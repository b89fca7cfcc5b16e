//! `muster nodes`.

use anyhow::Result;
use clap::Subcommand;
use jiff::civil;
use muster_api::types::{DrainRequest, ResumeRequest};
use muster_model::{Span, Time};
use muster_report::nodes::nodes;
use muster_spec::quantity::{parse_instant, parse_span};

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;

/// List nodes and their GPUs, or take nodes and GPUs out of service
///
/// Virtual GPUs are marked as virtual; GPUs that a foreign process uses are not given away. JSON: a
/// `NodeList`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start nothing new on a node, or on some of its GPUs; what runs goes on
    ///
    /// With `--at` or `--in`, what ends before that time, its limit and grace counted, still starts
    /// there.
    Drain(Drain),
    /// Take a drained node, or drained GPUs, back
    Resume {
        /// Name of the node
        #[arg(value_name = "NODE")]
        node: String,
        /// Only these GPUs, which were drained by themselves: `3`, `0-3`, or a UUID
        #[arg(long, value_name = "GPU,…", value_delimiter = ',')]
        gpu: Vec<String>,
    },
}

#[derive(Debug, clap::Args)]
struct Drain {
    /// Name of the node
    #[arg(value_name = "NODE")]
    node: String,
    /// Only these GPUs: `3`, `0-3`, a UUID, or the UUID of a GPU for all MIG slices of it
    #[arg(long, value_name = "GPU,…", value_delimiter = ',')]
    gpu: Vec<String>,
    /// Not now, but at this time: `18:00` is the next such time here, or `2026-08-01T06:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = parse_at, conflicts_with = "after")]
    at: Option<At>,
    /// Not now, but so much later: `2h`
    #[arg(long = "in", value_name = "SPAN", value_parser = parse_in, id = "after")]
    after: Option<Span>,
    /// Stop what runs there at that time, and queue it again
    #[arg(long)]
    stop: bool,
    /// Why, for people
    #[arg(long, default_value = "", hide_default_value = true)]
    reason: String,
}

/// An instant, or a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// That one.
    Instant(Time),
    /// The next one.
    TimeOfDay(civil::Time),
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let response = match args.action {
        Some(Action::Drain(drain)) => {
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
        Some(Action::Resume { node, gpu }) => {
            let request = ResumeRequest { gpus: gpu };
            client.resume(&node, &request).await.map_err(Failure::from)?
        }
        None => {
            let list = client.nodes().await.map_err(Failure::from)?;
            match args.output.json() {
                true => app.ui.json(&list)?,
                false => app.ui.data(&nodes(&list.nodes, list.now, &app.ui.style()))?,
            }
            return Ok(0);
        }
    };
    app.ui.status(&response.message);
    Ok(0)
}

/// The instant that is meant: of a time of day, the next.
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

/// Reads an instant, or a time of day.
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

/// Reads a length of time.
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
