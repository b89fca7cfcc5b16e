//! Generates gres.conf: the device files of the GPUs in slurm.conf, and resources that are only
//! counted.

use std::fmt::Write as _;

use muster_model::{NodeSpec, gpu_model, hostlist};

use super::InitInput;
use super::nodes::{alike, extras, shares};
use crate::pool::{kind, kinds};

/// Generates the text of gres.conf.
pub(super) fn text(order: &InitInput<'_>) -> String {
    let mut text = String::from(
        "\
# gres.conf: the same file on every machine. It must agree with Gres= in slurm.conf: a node with fewer GPUs, or GPUs of another
# type, is drained when it registers.
# The device files are derived from the number of GPUs: compare with `ls /dev/nvidia*` on a node. AutoDetect=off disables the
# comparison with detected GPUs; with nvml or rsmi the node detects its GPUs itself, and the cores close to each of them.
",
    );
    let mut lines = |say: &dyn Fn(&NodeSpec) -> String| {
        for (names, line) in
            alike(order.nodes, say).into_iter().filter(|(_, line)| !line.is_empty())
        {
            let _ = writeln!(text, "NodeName={}{line}", hostlist::folded(names));
        }
    };
    lines(&devices);
    lines(&|node| {
        shares(order, node).map_or(String::new(), |count| format!(" Name=shard Count={count}"))
    });
    for extra in extras(order.nodes) {
        lines(&|node| match node.extras.get(extra.as_str()) {
            Some(count) if *count > 0 => format!(" Name={extra} Count={count}"),
            _ => String::new(),
        });
    }
    text
}

/// Returns the device lines of a node. Only the vendor's library maps files to models, and slices
/// have no device files: such nodes use AutoDetect.
fn devices(node: &NodeSpec) -> String {
    let kinds = kinds(node);
    let Some((name, count)) = kinds.first().copied() else { return String::new() };
    if gpu_model::is_amd(name) {
        return " AutoDetect=rsmi".to_owned();
    }
    if kinds.len() > 1 || gpu_model::is_slice(name) {
        return " AutoDetect=nvml".to_owned();
    }
    let files = if count == 1 { "0".to_owned() } else { format!("[0-{}]", count - 1) };
    format!(" AutoDetect=off Name=gpu Type={} File=/dev/nvidia{files}", kind(name))
}
