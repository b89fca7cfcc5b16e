//! `muster scale`.

use anyhow::Result;
use muster_api::types::ScaleRequest;
use muster_model::Replicas;
use muster_spec::quantity::parse_range;
use serde::Serialize;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::JobRef;

/// Change the number of replicas of a service
///
/// 2..6 means 2 guaranteed replicas and up to 4 opportunistic ones on idle GPUs. Replicas above the
/// new maximum are stopped, the last ones first; the others keep running.
#[derive(Debug, clap::Args)]
pub struct ScaleArgs {
    /// Service, by number or name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// Number of replicas: 3, or 2..6 for a minimum and a maximum
    #[arg(value_name = "REPLICAS", value_parser = replicas)]
    replicas: Replicas,
    #[command(flatten)]
    output: OutputArgs,
}

/// Result of scaling, as JSON.
#[derive(Serialize)]
struct Scaled {
    job: u64,
    message: String,
}

fn replicas(text: &str) -> Result<Replicas, String> {
    let (floor, ceiling) = parse_range(text).map_err(|error| error.label)?;
    let number = |count: i64| {
        u32::try_from(count)
            .ok()
            .filter(|count| *count <= Replicas::LIMIT)
            .ok_or_else(|| format!("at most {} replicas are supported", Replicas::LIMIT))
    };
    let floor = number(floor)?;
    let ceiling = number(ceiling)?;
    match ceiling {
        0 => Err("a service needs at least one replica; `muster cancel` ends it".to_owned()),
        _ => Ok(Replicas { guaranteed: floor, max: ceiling }),
    }
}

/// Runs `muster scale`; returns its exit code.
pub async fn run(app: &App, args: ScaleArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    if target.index.is_some() {
        return Err(Failure::usage("a single replica cannot be scaled; name the service").into());
    }
    let Replicas { guaranteed: floor, max: ceiling } = args.replicas;
    let response = client
        .scale(target.job, &ScaleRequest { guaranteed: floor, max: ceiling })
        .await
        .map_err(Failure::from)?;
    if args.output.json() {
        app.ui.json(&Scaled { job: target.job.0, message: response.message })?
    } else {
        app.ui.data(&format!("{}: {}\n", target.text(&client), response.message))?
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ranges() {
        let both = |floor, ceiling| Ok(Replicas { guaranteed: floor, max: ceiling });
        for (text, expected) in [("3", both(3, 3)), ("2..6", both(2, 6)), ("0..4", both(0, 4))] {
            assert_eq!(replicas(text), expected);
        }
        for wrong in ["0", "6..2", "-1", "1001", "many", ""] {
            assert!(replicas(wrong).is_err(), "{wrong}");
        }
    }
}
