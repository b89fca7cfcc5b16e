//! `muster scale`.

use anyhow::Result;
use muster_api::types::ScaleRequest;
use muster_model::Replicas;
use muster_spec::quantity::parse_range;
use serde::Serialize;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::JobRef;

/// Change how many replicas a service has
///
/// Of 2..6, two are the service's own, and up to four more run in what is idle. Replicas beyond the
/// new ceiling are stopped, the last ones first; the others go on as they are.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The service, by number or name
    #[arg(value_name = "JOB")]
    job: JobRef,
    /// How many: 3, or 2..6 for a floor and a ceiling
    #[arg(value_name = "REPLICAS", value_parser = replicas)]
    replicas: Replicas,
    #[command(flatten)]
    output: Output,
}

/// What came of it.
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
            .filter(|count| *count <= Replicas::MOST)
            .ok_or_else(|| format!("at most {} replicas are supported", Replicas::MOST))
    };
    let (floor, ceiling) = (number(floor)?, number(ceiling)?);
    match ceiling {
        0 => Err("a service has at least one replica; `muster cancel` ends it".to_owned()),
        _ => Ok(Replicas { floor, ceiling }),
    }
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let target = args.job.resolve(&client).await?;
    if target.index.is_some() {
        return Err(Failure::usage("one replica cannot be scaled; name the service").into());
    }
    let Replicas { floor, ceiling } = args.replicas;
    let response =
        client.scale(target.job, &ScaleRequest { floor, ceiling }).await.map_err(Failure::from)?;
    match args.output.json() {
        true => app.ui.json(&Scaled { job: target.job.0, message: response.message })?,
        false => app.ui.data(&format!("{}: {}\n", target.text(), response.message))?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_ranges() {
        let both = |floor, ceiling| Ok(Replicas { floor, ceiling });
        for (text, expected) in [("3", both(3, 3)), ("2..6", both(2, 6)), ("0..4", both(0, 4))] {
            assert_eq!(replicas(text), expected);
        }
        for wrong in ["0", "6..2", "-1", "1001", "many", ""] {
            assert!(replicas(wrong).is_err(), "{wrong}");
        }
    }
}
