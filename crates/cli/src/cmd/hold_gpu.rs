//! `muster __hold-gpu`: the program of the pods that hold a GPU of a Kubernetes node for pods with shares of
//! it. The kubelet gives the pod a GPU; the program writes down which one, or waits until the pod is deleted.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use muster_backends::gpu::nvml;
use muster_kubernetes::names::VISIBLE_GPUS;
use tokio::signal::unix::{SignalKind, signal};

/// Values of it that name no GPU: the plugin tells the runtime in another way.
const NAMELESS: [&str; 4] = ["", "void", "none", "all"];

/// Hold a GPU until SIGTERM, or write its ids to a file
#[derive(Debug, clap::Args)]
pub struct HoldGpuArgs {
    /// File for the ids of the GPU, such as the container's last words
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// Runs `muster __hold-gpu`; returns its exit code.
pub async fn run(args: &HoldGpuArgs) -> Result<u8> {
    if let Some(file) = &args.report {
        let ids = ids()?;
        std::fs::write(file, &ids).with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(0);
    }
    // A program that is the first of its container must ask for SIGTERM.
    let mut terminate = signal(SignalKind::terminate()).context("cannot wait for signals")?;
    terminate.recv().await;
    Ok(0)
}

/// Returns the ids of the GPUs of this container, separated by commas.
fn ids() -> Result<String> {
    let named = std::env::var(VISIBLE_GPUS).unwrap_or_default();
    if !NAMELESS.contains(&&*named) {
        return Ok(named);
    }
    let uuids: Vec<String> = nvml::describe().into_iter().map(|gpu| gpu.uuid).collect();
    match uuids.as_slice() {
        [one] => Ok(one.clone()),
        // Several mean that the runtime shows all GPUs of the node: which one the pod has is unknown.
        _ => bail!("{VISIBLE_GPUS} names no GPU, and the driver shows {}", uuids.len()),
    }
}
