//! `muster inventory`: writes a cluster file of existing nodes. It reads this machine or saved
//! output of Slurm and Kubernetes; it never queries them itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use muster_backends::local::{self, VirtualGpus};
use muster_kubernetes as kubernetes;
use muster_model::inventory::{self, Inventory, InventoryOptions, InventoryReader, ListedNode};
use muster_model::{GpuModel, NodeSpec};
use muster_spec::{Cluster, ClusterNotes, Unwritable, write_cluster};

use crate::app::App;
use crate::exit::{Failure, USAGE};
use crate::output_files;
use crate::source;
use crate::topology_label::TopologyLabel;

/// Largest list in bytes that is read: kubectl prints some 15 KB per node, so this is more than
/// 15,000 nodes.
const MAX_BYTES: u64 = 256 << 20;

const EXAMPLES: &str = "\
Examples:
  muster inventory > cluster.yaml
  sinfo -N --json | muster inventory --from - -o cluster.yaml
  kubectl get nodes -o json > nodes.json
  muster inventory --from nodes.json --level zone=topology.kubernetes.io/zone";

/// Write a cluster file of existing nodes and GPUs
///
/// Without --from it describes this machine, as the daemon sees it. With --from it reads a node
/// list of Slurm or Kubernetes, whose format is detected. The cluster file goes to stdout. See
/// docs/inventory.md.
#[derive(Debug, clap::Args)]
#[command(after_long_help = EXAMPLES)]
pub struct InventoryArgs {
    /// Read nodes from this file in place of this machine: output of `sinfo --json`, `scontrol show
    /// nodes --json` or `kubectl get nodes -o json`; `-` is stdin
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Write to this file; `-` is stdout, the default
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Overwrite the file if it exists
    #[arg(long, requires = "output")]
    force: bool,
    /// Topology level, and the Kubernetes label with a node's domain at that level; repeat from the
    /// widest level to the narrowest
    #[arg(long, value_name = "LEVEL=LABEL", requires = "from")]
    level: Vec<TopologyLabel>,
    /// Keep this Kubernetes label, besides pool and zone; may be repeated
    #[arg(long, value_name = "LABEL", requires = "from")]
    keep_label: Vec<String>,
    /// Model of GPUs whose model is not in the list, such as h100
    #[arg(long, value_name = "MODEL", requires = "from", value_parser = model)]
    gpu: Option<GpuModel>,
    /// Describe this machine with simulated GPUs in place of its own: 8, 8:h100, or
    /// 2:a100,7:a100-1g.10gb
    #[arg(long, value_name = "N[:MODEL],..", conflicts_with = "from")]
    virtual_gpus: Option<VirtualGpus>,
}

fn model(text: &str) -> Result<GpuModel, String> {
    let allowed =
        |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    if !text.is_empty() && text.len() <= 64 && text.chars().all(allowed) {
        Ok(GpuModel::from(text))
    } else {
        Err("expected a model of lower-case letters and digits, such as h100".to_owned())
    }
}

/// Runs `muster inventory`; returns its exit code.
pub fn run(app: &App, args: &InventoryArgs) -> Result<u8> {
    // 1. Read the nodes.
    let found = match &args.from {
        Some(path) => read_list(path, args)?,
        None => this_machine(args.virtual_gpus.as_ref())?,
    };

    // 2. Render them; `write_cluster` checks that the text parses to the same cluster.
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

    // 3. Write the file.
    match &args.output {
        Some(path) if path.as_os_str() != "-" => output_files::write(path, &text, args.force)?,
        _ => app.ui.bytes(text.as_bytes())?,
    }
    app.ui.status(&summary);
    if out_of_service > 0 {
        app.ui.warning(&format!(
            "{out_of_service} out of service; comments in the file say which and why"
        ));
    }
    found.hints.iter().for_each(|hint| app.ui.hint(hint));
    Ok(0)
}

/// Converts the error of a cluster that cannot be written as a cluster file.
pub(super) fn unwritable(error: Unwritable) -> Failure {
    match error {
        Unwritable::Refused(diagnostics) => Failure::from(*diagnostics),
        Unwritable::Differs(_) => Failure::new(error.to_string()),
    }
}

fn is_out_of_service(listed: &ListedNode) -> bool {
    listed.notes.iter().any(|note| note.starts_with("out of service"))
}

/// Readers for the node lists of other control planes.
const READERS: [InventoryReader; 2] = [kubernetes::inventory::read, muster_slurm::inventory::read];

/// Reads a node list of another control plane.
fn read_list(path: &Path, args: &InventoryArgs) -> Result<Inventory> {
    let (name, text) = source::text(path, MAX_BYTES)?;
    let options = InventoryOptions {
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
    Ok(inventory::read(&text, &options, &READERS).map_err(refused)?)
}

/// Describes this machine, as the daemon sees it. A machine without GPUs is not an error.
fn this_machine(virtual_gpus: Option<&VirtualGpus>) -> Result<Inventory> {
    let (node, _) = local::inspect(&muster_daemon::host_name().into(), virtual_gpus)
        .context("cannot read the hardware of this machine")?;
    let mut notes = Vec::new();
    match (virtual_gpus, node.devices.is_empty()) {
        (Some(_), false) => notes.push("virtual GPUs: simulated, without hardware".to_owned()),
        (None, true) => {
            notes.push("no GPU was found: no NVIDIA driver and no AMD device".to_owned())
        }
        _ => {}
    }
    let nodes = vec![inventory::declared(node, notes)];
    Ok(Inventory { source: "this machine", levels: Vec::new(), nodes, hints: Vec::new() })
}

/// Returns a summary such as `8 nodes with 48 GPUs (40 h100, 8 a100)`.
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
