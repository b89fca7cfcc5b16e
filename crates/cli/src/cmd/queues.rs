//! `muster queues`.

use std::path::PathBuf;

use anyhow::Result;
use muster_api::types::{QueueList, QueuesRequest};
use muster_report::queues::queues;

use crate::app::App;
use crate::args::OutputArgs;
use crate::connect;
use crate::exit::Failure;
use crate::kubernetes::KubernetesArgs;
use crate::source;

/// List queues, or replace them
///
/// GPUs in use and quota, pending and running jobs, and the fair-share value that orders sibling
/// queues (lowest first). JSON: a `QueueList`.
#[derive(Debug, clap::Args)]
pub struct QueuesArgs {
    /// Replace the queue tree by that of a queue file; - is stdin. Jobs of removed queues move to
    /// the default queue
    #[arg(long, value_name = "FILE")]
    set: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    kubernetes: KubernetesArgs,
}

/// Runs `muster queues`; returns its exit code.
pub async fn run(app: &App, args: QueuesArgs) -> Result<u8> {
    let reader = args.kubernetes.reader(&app.global, None).await?;
    if let Some(file) = &args.set {
        if reader.is_some() {
            return Err(Failure::usage("the queues of a Kubernetes cluster are objects")
                .hint("`kubectl apply` changes Queue objects: docs/kubernetes.md")
                .into());
        }
        let text = source::read(file)?;
        muster_spec::parse_queues(&text.source, text.file.as_deref()).map_err(Failure::from)?;
        let client = connect::find(&app.global)?;
        let request = QueuesRequest { source: text.source, file: text.file };
        let response = client.set_queues(&request).await.map_err(Failure::from)?;
        app.ui.status(&response.message);
        return Ok(0);
    }
    let list = match reader {
        Some(reader) => {
            let (now, queues) = reader.queues().await.map_err(Failure::from)?;
            QueueList { now, queues }
        }
        None => connect::find(&app.global)?.queues().await.map_err(Failure::from)?,
    };
    if args.output.json() {
        app.ui.json(&list)?;
    } else {
        app.ui.data(&queues(&list.queues, app.ui.context().at(list.now)))?;
    }
    Ok(0)
}
