//! Generates the lines of slurm.conf and gres.conf for a pool of nodes, and reads the nodes that
//! such lines define. Writes no other setting of a site's Slurm.

use std::fmt::Write as _;

use muster_model::{NodeSpec, gpu_model, hostlist};

use crate::sizes::partition_defaults;

/// Partition of nodes without a label `partition`.
const PARTITION: &str = "batch";

/// Generates lines for slurm.conf: the nodes, and their partitions by the label `partition`. The
/// label `features` becomes features.
#[must_use]
pub fn nodes(nodes: &[NodeSpec]) -> String {
    let mut text = String::from(
        "\
# The batch pool, for slurm.conf on every Slurm node:
#   include /etc/slurm/slurm-nodes.conf
# slurm.conf itself must say GresTypes=gpu. `slurmd -C` on a node prints its true CPUs and RealMemory; with less than is
# written here it is drained. These nodes must run no kubelet (BOUNDARY.md).
",
    );
    for (names, settings) in runs(nodes, &settings) {
        let _ = writeln!(text, "NodeName={names}{settings} State=UNKNOWN");
    }
    text.push_str(
        "\n# MaxTime applies to jobs without --time; backfill needs time limits, so keep one. Yours may be shorter.\n",
    );
    let mut partitions: Vec<(&str, Vec<&NodeSpec>)> = Vec::new();
    for node in nodes {
        let name = node.labels.get("partition").map(AsRef::as_ref).filter(|name| is_word(name));
        let name = name.unwrap_or(PARTITION);
        match partitions.iter_mut().find(|(known, _)| *known == name) {
            Some((_, nodes)) => nodes.push(node),
            None => partitions.push((name, vec![node])),
        }
    }
    for (index, (name, nodes)) in partitions.iter().enumerate() {
        let default = if index == 0 { " Default=YES" } else { "" };
        let _ = writeln!(
            text,
            "PartitionName={name} Nodes={}{default} DefaultTime=01:00:00 MaxTime=7-00:00:00{} State=UP",
            hostlist::folded(nodes.iter().map(|node| node.name.as_str())),
            defaults(nodes)
        );
    }
    text
}

/// Returns what a job is charged and what it gets by default, as far as the sizes of the nodes are
/// known.
fn defaults(nodes: &[&NodeSpec]) -> String {
    let is_sized = |node: &&&NodeSpec| node.cpus.0 >= 1000 && node.memory.0 >> 20 > 0;
    if nodes.iter().filter(is_sized).count() == nodes.len() {
        format!(" {}", partition_defaults(nodes, 0))
    } else if nodes.iter().any(|node| !node.devices.is_empty()) {
        " TRESBillingWeights=\"GRES/gpu=1.0\"".to_owned()
    } else {
        String::new()
    }
}

/// Generates lines for gres.conf.
#[must_use]
pub fn gres(nodes: &[NodeSpec]) -> String {
    let mut text = String::from(
        "\
# The GPUs of the batch pool, for gres.conf on every Slurm node:
#   include /etc/slurm/slurm-gres.conf
# The device files are derived from the number of GPUs: compare with `ls /dev/nvidia*` on a node. cgroup.conf needs
# ConstrainDevices=yes, else a job sees GPUs that are not allocated to it.
",
    );
    for (names, line) in runs(nodes, &device_lines) {
        if !line.is_empty() {
            let _ = writeln!(text, "NodeName={names}{line}");
        }
    }
    text
}

/// Returns the node lists of `NodeName=` lines as written, without `DEFAULT`.
#[must_use]
pub fn node_lists(conf: &str) -> Vec<String> {
    let joined = conf.replace("\\\n", " ");
    let lines = joined.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    let name = |line: &str| {
        let (key, rest) = line.split_once('=')?;
        let list = rest.split_whitespace().next()?;
        (key.trim().eq_ignore_ascii_case("nodename") && !list.eq_ignore_ascii_case("default"))
            .then(|| list.to_owned())
    };
    lines.filter_map(name).collect()
}

/// Groups consecutive nodes with the same settings.
fn runs(nodes: &[NodeSpec], say: &dyn Fn(&NodeSpec) -> String) -> Vec<(String, String)> {
    let mut runs: Vec<(Vec<&str>, String)> = Vec::new();
    for node in nodes {
        let said = say(node);
        match runs.last_mut() {
            Some((names, last)) if *last == said => names.push(node.name.as_str()),
            _ => runs.push((vec![node.name.as_str()], said)),
        }
    }
    runs.into_iter().map(|(names, said)| (hostlist::folded(names), said)).collect()
}

fn settings(node: &NodeSpec) -> String {
    let mut text = String::new();
    if node.cpus.0 >= 1000 {
        let _ = write!(text, " CPUs={}", node.cpus.0 / 1000);
    }
    if node.memory.0 >> 20 > 0 {
        let _ = write!(text, " RealMemory={}", node.memory.0 >> 20);
    }
    let gres: Vec<String> =
        kinds(node).iter().map(|(model, count)| format!("gpu:{}:{count}", kind(model))).collect();
    if !gres.is_empty() {
        let _ = write!(text, " Gres={}", gres.join(","));
    }
    let features: Vec<&str> = node
        .labels
        .get("features")
        .map(|features| features.split(',').filter(|word| is_word(word)).collect())
        .unwrap_or_default();
    if !features.is_empty() {
        let _ = write!(text, " Features={}", features.join(","));
    }
    text
}

fn device_lines(node: &NodeSpec) -> String {
    let kinds = kinds(node);
    let Some((name, _)) = kinds.first().copied() else { return String::new() };
    let kind = kind(name);
    // Only the vendor's library maps files to models; slices have no device files.
    if kinds.len() > 1 {
        return format!(
            " Name=gpu AutoDetect={}",
            if gpu_model::is_amd(name) { "rsmi" } else { "nvml" }
        );
    }
    if gpu_model::is_slice(name) {
        return format!(" Name=gpu Type={kind} AutoDetect=nvml");
    }
    if gpu_model::is_amd(name) {
        return format!(" Name=gpu Type={kind} AutoDetect=rsmi");
    }
    match node.devices.len() {
        1 => format!(" AutoDetect=off Name=gpu Type={kind} File=/dev/nvidia0"),
        count => format!(" AutoDetect=off Name=gpu Type={kind} File=/dev/nvidia[0-{}]", count - 1),
    }
}

/// Returns the models of a node with their device counts, in order.
pub(super) fn kinds(node: &NodeSpec) -> Vec<(&str, usize)> {
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for device in &node.devices {
        match kinds.iter_mut().find(|(model, _)| *model == device.model.as_str()) {
            Some((_, count)) => *count += 1,
            None => kinds.push((device.model.as_str(), 1)),
        }
    }
    kinds
}

/// Returns the type for Slurm. For a slice only its profile: with AutoDetect the type must be part
/// of the detected name, which spells out the model (gres.conf(5), Type).
pub(super) fn kind(model: &str) -> &str {
    match model.rsplit_once('-') {
        Some((_, profile)) if gpu_model::is_slice(model) => profile,
        _ => model,
    }
}

/// Returns whether a name is a plain word in a configuration file.
pub(super) fn is_word(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    !text.is_empty() && text.chars().all(allowed)
}

/// Returns the GPU types, each once, as in `gres/gpu:TYPE`.
pub(crate) fn types(nodes: &[NodeSpec]) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for (name, _) in nodes.iter().flat_map(kinds) {
        if !types.iter().any(|known| known == kind(name)) {
            types.push(kind(name).to_owned());
        }
    }
    types
}
