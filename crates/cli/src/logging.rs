//! Log lines of the long-running processes: the daemon, and the scheduler of a Kubernetes cluster.

use std::str::FromStr;

use anyhow::Result;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::exit::Failure;

/// Writes log lines to `writer`, as `MUSTER_LOG` selects them: by default those of level info.
pub fn log_to<W>(writer: W) -> Result<()>
where
    W: for<'a> tracing_subscriber::fmt::MakeWriter<'a> + Send + Sync + 'static,
{
    let wanted = std::env::var("MUSTER_LOG").unwrap_or_else(|_| "info".to_owned());
    let targets = Targets::from_str(&wanted).map_err(|error| {
        Failure::usage(format!("MUSTER_LOG is `{wanted}`: {error}"))
            .hint("for example info, or info,muster_daemon=debug")
    })?;
    let lines =
        tracing_subscriber::fmt::layer().with_writer(writer).with_ansi(false).with_target(false);
    tracing_subscriber::registry().with(targets).with(lines).init();
    Ok(())
}
