//! `muster inventory`: the cluster file of what there is. It reads and writes down; it never asks
//! Slurm or Kubernetes itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{Context, Result};
use muster_backends::inventory::{self, Inventory, Listed, Options};
use muster_backends::local::{self, VirtualGpus};
use muster_model::{GpuModel, NodeSpec};
use muster_spec::{Cluster, ClusterNotes, Unwritable, write_cluster};

use crate::app::App;
use crate::exit::{Failure, USAGE};
use crate::output_files;
use crate::source;

/// Largest list that is read: kubectl prints some 15 KB for a node, so that this is more than
/// 15,000 of them.
const MAX_BYTES: u64 = 256 << 20;

const EXAMPLES: &str = "\
Examples:
  muster inventory > cluster.yaml
  sinfo -N --json | muster inventory --from - -o cluster.yaml
  kubectl get nodes -o json > nodes.json
  muster inventory --from nodes.json --level zone=topology.kubernetes.io/zone";

/// Write down what there is as a cluster file
///
/// Without --from it looks at this machine, as the daemon does. With --from it reads what Slurm or
/// Kubernetes prints of its nodes and finds out by itself which of them it is. The cluster file
/// goes to stdout. docs/inventory.md says what is read from where.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct Args {
    /// Read nodes from this file in place of this machine; `-` is stdin. `sinfo --json`, `scontrol
    /// show nodes --json` or `kubectl get nodes -o json`
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Write to this file in place of stdout, which `-` is too
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write over the file if it is there
    #[arg(long, requires = "output")]
    force: bool,
    /// A topology level, and the Kubernetes label that names a node's domain of it; repeat from the
    /// widest to the narrowest
    #[arg(long, value_name = "LEVEL=LABEL", requires = "from")]
    level: Vec<Level>,
    /// Keep this Kubernetes label beside pool and zone; may be repeated
    #[arg(long, value_name = "LABEL", requires = "from")]
    keep_label: Vec<String>,
    /// Model of the GPUs for which the list names none, such as h100
    #[arg(long, value_name = "MODEL", requires = "from", value_parser = model)]
    gpu: Option<GpuModel>,
    /// This machine with so many GPUs that do not exist, and none that do: 8, 8:h100, or
    /// 2:a100,7:a100-1g.10gb
    #[arg(long, value_name = "N[:MODEL],..", conflicts_with = "from")]
    virtual_gpus: Option<VirtualGpus>,
}

/// `leaf=network.topology.nvidia.com/leaf`.
#[derive(Clone, Debug)]
struct Level {
    name: String,
    label: String,
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, label) = text
            .split_once('=')
            .filter(|(name, label)| !name.is_empty() && !label.is_empty())
            .ok_or_else(|| {
                "expected a level and a label, such as leaf=network.topology.nvidia.com/leaf"
                    .to_owned()
            })?;
        Ok(Self { name: name.to_owned(), label: label.to_owned() })
    }
}

fn model(text: &str) -> Result<GpuModel, String> {
    let allowed =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    match !text.is_empty() && text.len() <= 64 && text.chars().all(allowed) {
        true => Ok(GpuModel::from(text)),
        false => Err("expected a model of lower-case letters and digits, such as h100".to_owned()),
    }
}

/// Runs the verb.
pub fn run(app: &App, args: &Args) -> Result<u8> {
    // 1. What there is.
    let found = match &args.from {
        Some(path) => listed(path, args)?,
        None => this_machine(args.virtual_gpus.as_ref())?,
    };

    // 2. As text that reads back as the same.
    let nodes: Vec<NodeSpec> = found.nodes.iter().map(|listed| listed.node.clone()).collect();
    let summary = format!("{}, from {}", summary(&nodes), found.source);
    let out_of_service = found.nodes.iter().filter(|listed| is_out_of_service(listed)).count();
    let notes = ClusterNotes {
        heading: vec![format!("{summary}; written by muster inventory")],
        nodes: found
            .nodes
            .iter()
            .map(|listed| (listed.node.name.clone(), listed.notes.clone()))
            .collect(),
    };
    let cluster = Cluster { levels: found.levels, nodes };
    let text = write_cluster(&cluster, &notes).map_err(unwritable)?;

    // 3. Out.
    match &args.output {
        Some(path) if path.as_os_str() != "-" => output_files::write(path, &text, args.force)?,
        _ => app.ui.bytes(text.as_bytes())?,
    }
    app.ui.status(&summary);
    if out_of_service > 0 {
        app.ui.warning(&format!(
            "{out_of_service} out of service now; comments in the file say which and why"
        ));
    }
    found.hints.iter().for_each(|hint| app.ui.hint(hint));
    Ok(0)
}

/// What a cluster file cannot say.
pub(super) fn unwritable(error: Unwritable) -> Failure {
    match error {
        Unwritable::Refused(diagnostics) => Failure::from(*diagnostics),
        Unwritable::Differs(_) => Failure::new(error.to_string()),
    }
}

fn is_out_of_service(listed: &Listed) -> bool {
    listed.notes.iter().any(|note| note.starts_with("out of service"))
}

/// What another control plane printed.
fn listed(path: &Path, args: &Args) -> Result<Inventory> {
    let (name, text) = source::text(path, MAX_BYTES)?;
    let options = Options {
        levels: args
            .level
            .iter()
            .map(|level| (Arc::from(level.name.as_str()), level.label.clone()))
            .collect(),
        keep_labels: args.keep_label.clone(),
        gpu: args.gpu.clone(),
    };
    let refused = |error: inventory::InventoryError| {
        let failure = Failure { code: USAGE, ..Failure::new(format!("{name}: {error}")) };
        match error.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        }
    };
    Ok(inventory::read(&text, &options).map_err(refused)?)
}

/// This machine, as the daemon sees it. Having no GPU is an answer.
fn this_machine(virtual_gpus: Option<&VirtualGpus>) -> Result<Inventory> {
    let (node, _) = local::inspect(&muster_daemon::host_name().into(), virtual_gpus)
        .context("cannot read the facts of this machine")?;
    let mut notes = Vec::new();
    match (virtual_gpus, node.devices.is_empty()) {
        (Some(_), false) => notes.push("virtual GPUs: no hardware behind them".to_owned()),
        (None, true) => notes
            .push("no GPU was found: neither NVIDIA's driver nor an AMD device answers".to_owned()),
        _ => {}
    }
    let nodes = vec![inventory::declared(node, notes)];
    Ok(Inventory { source: "this machine", levels: Vec::new(), nodes, hints: Vec::new() })
}

/// `8 nodes with 48 GPUs (40 h100, 8 a100)`.
pub(super) fn summary(nodes: &[NodeSpec]) -> String {
    let mut models: Vec<(&GpuModel, usize)> = Vec::new();
    for device in nodes.iter().flat_map(|node| &node.devices) {
        match models.iter_mut().find(|(model, _)| *model == &device.model) {
            Some((_, count)) => *count += 1,
            None => models.push((&device.model, 1)),
        }
    }
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    let gpus: usize = models.iter().map(|(_, count)| count).sum();
    let mut text = format!("{} node{}", nodes.len(), plural(nodes.len()));
    match models.as_slice() {
        [] => text.push_str(" without GPUs"),
        models => {
            let models: Vec<String> =
                models.iter().map(|(model, count)| format!("{count} {model}")).collect();
            let _ = write!(text, " with {gpus} GPU{} ({})", plural(gpus), models.join(", "));
        }
    }
    text
}
