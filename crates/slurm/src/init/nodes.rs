//! Generates the node and partition lines of slurm.conf: equal nodes share a line, and a
//! partition's billing weights and defaults are computed from its nodes.

use std::fmt::Write as _;

use muster_model::{NodeSpec, Span, gpu_model, hostlist};

use super::accounting::GeneratedAccounting;
use super::{InitError, InitInput, clock};
use crate::pool::{is_word, kind, kinds};
use crate::sizes::{cpus, gpus, memory_mib, partition_defaults};

/// Partition of nodes without a label `partition`.
const BATCH: &str = "batch";
/// Partition of nodes without GPUs, where other nodes have some: jobs without GPUs must not take
/// the processors of GPU nodes.
const CPU: &str = "cpu";

/// Rejects nodes whose CPUs do not match the given sockets and threads.
pub(super) fn check(order: &InitInput<'_>) -> Result<(), InitError> {
    let Some(sockets) = order.choices.sockets else { return Ok(()) };
    let threads = order.choices.threads_per_core;
    let wrong = order.nodes.iter().find(|node| {
        let of_core = sockets.checked_mul(threads).filter(|product| *product > 0);
        of_core.is_none_or(|product| !cpus(node).is_multiple_of(product))
    });
    match wrong {
        Some(node) => Err(InitError::Sockets {
            node: node.name.to_string(),
            cpus: cpus(node),
            sockets,
            threads,
        }),
        None => Ok(()),
    }
}

/// Groups nodes with the same line, in order of their first member.
pub(super) fn alike<'a>(
    nodes: &'a [NodeSpec],
    say: &dyn Fn(&NodeSpec) -> String,
) -> Vec<(Vec<&'a str>, String)> {
    let mut groups: Vec<(Vec<&str>, String)> = Vec::new();
    for node in nodes {
        let said = say(node);
        match groups.iter_mut().find(|(_, known)| *known == said) {
            Some((names, _)) => names.push(node.name.as_str()),
            None => groups.push((vec![node.name.as_str()], said)),
        }
    }
    groups
}

/// Generates the `NodeName` lines.
pub(super) fn lines(order: &InitInput<'_>) -> String {
    let mut text = String::new();
    for (names, settings) in alike(order.nodes, &|node| settings(order, node)) {
        let _ = writeln!(text, "NodeName={}{settings} State=UNKNOWN", hostlist::folded(names));
    }
    text
}

/// Returns the names of generic resources other than GPUs.
pub(super) fn extras(nodes: &[NodeSpec]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for name in nodes.iter().flat_map(|node| node.extras.keys()).filter(|name| is_word(name)) {
        if !names.iter().any(|known| **known == **name) {
            names.push(name.to_string());
        }
    }
    names
}

/// Returns the number of shards of a node; `None` where its GPUs cannot be shared: only whole GPUs
/// of one model can, as slices are shares already.
pub(super) fn shares(order: &InitInput<'_>, node: &NodeSpec) -> Option<u64> {
    let is_whole = |(name, _): &(&str, usize)| !gpu_model::is_slice(name);
    let kinds = kinds(node);
    let can = order.choices.shards > 0 && kinds.len() == 1 && kinds.iter().all(is_whole);
    can.then(|| u64::from(order.choices.shards) * node.devices.len() as u64)
}

fn settings(order: &InitInput<'_>, node: &NodeSpec) -> String {
    let threads = order.choices.threads_per_core;
    let mut text = match order.choices.sockets {
        Some(sockets) => format!(
            " Sockets={sockets} CoresPerSocket={} ThreadsPerCore={threads}",
            cpus(node) / (sockets * threads)
        ),
        None => format!(" CPUs={}", cpus(node)),
    };
    let _ = write!(text, " RealMemory={}", memory_mib(node));
    let mut gres: Vec<String> =
        kinds(node).iter().map(|(model, count)| format!("gpu:{}:{count}", kind(model))).collect();
    gres.extend(shares(order, node).map(|count| format!("shard:{count}")));
    let extras = node.extras.iter().filter(|(name, count)| is_word(name) && **count > 0);
    gres.extend(extras.map(|(name, count)| format!("{name}:{count}")));
    if !gres.is_empty() {
        let _ = write!(text, " Gres={}", gres.join(","));
    }
    let features = node.labels.get("features").map_or("", AsRef::as_ref);
    let features: Vec<&str> = features.split(',').filter(|word| is_word(word)).collect();
    if !features.is_empty() {
        let _ = write!(text, " Features={}", features.join(","));
    }
    text
}

/// Returns the partition of a node.
fn partition_of(node: &NodeSpec, some_have_gpus: bool) -> &str {
    let label = node.labels.get("partition").map(AsRef::as_ref).filter(|name| is_word(name));
    label.unwrap_or(if node.devices.is_empty() && some_have_gpus { CPU } else { BATCH })
}

/// Groups nodes by partition, the one with the most GPUs first.
fn partitions<'a>(order: &InitInput<'a>) -> Vec<(&'a str, Vec<&'a NodeSpec>)> {
    let some_have_gpus = order.nodes.iter().any(|node| !node.devices.is_empty());
    let mut found: Vec<(&str, Vec<&NodeSpec>)> = Vec::new();
    for node in order.nodes {
        let name = partition_of(node, some_have_gpus);
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, nodes)) => nodes.push(node),
            None => found.push((name, vec![node])),
        }
    }
    found.sort_by_key(|(_, nodes)| std::cmp::Reverse(gpus(nodes)));
    found
}

/// Generates the `PartitionName` lines, with comments.
pub(super) fn partition_lines(order: &InitInput<'_>, accounting: &GeneratedAccounting) -> String {
    let choices = order.choices;
    let max_time = accounting.longest.map_or(choices.max_time, |longest| {
        if accounting.all_limited { longest } else { longest.max(choices.max_time) }
    });
    let spread = if accounting.spreads { " LLN=YES" } else { "" };
    let mut text = String::new();
    let all = partitions(order);
    for (index, (name, nodes)) in all.iter().enumerate() {
        let default = if index == 0 { " Default=YES" } else { "" };
        let _ = writeln!(
            text,
            "PartitionName={name} Nodes={}{default}{} {}{spread} State=UP",
            folded(nodes),
            times(choices.default_time, max_time),
            shape(order, nodes),
        );
    }
    let Some((_, nodes)) = all.first().filter(|_| !accounting.interactive.is_empty()) else {
        return text;
    };
    text.push_str(
        "
# Interactive partitions: the same nodes, short time limits, higher priority than batch jobs. A forgotten session ends by itself.
",
    );
    for (account, limit) in &accounting.interactive {
        let limit =
            limit.map_or(choices.interactive_time, |limit| limit.min(choices.interactive_time));
        let _ = writeln!(
            text,
            "PartitionName={account} Nodes={} AllowAccounts={account}{} PriorityJobFactor=10 {}{spread} State=UP",
            folded(nodes),
            times(choices.default_time, limit),
            shape(order, nodes),
        );
    }
    text
}

/// Returns the longest time limit of any partition, in minutes.
pub(super) fn longest_minutes(order: &InitInput<'_>, accounting: &GeneratedAccounting) -> u64 {
    super::minutes(
        accounting
            .longest
            .map_or(order.choices.max_time, |longest| longest.max(order.choices.max_time)),
    )
}

fn folded(nodes: &[&NodeSpec]) -> String {
    hostlist::folded(nodes.iter().map(|node| node.name.as_str()))
}

fn times(default_time: Span, max_time: Span) -> String {
    format!(" DefaultTime={} MaxTime={}", clock(default_time.min(max_time)), clock(max_time))
}

fn shape(order: &InitInput<'_>, nodes: &[&NodeSpec]) -> String {
    let has_shards = nodes.iter().any(|node| shares(order, node).is_some());
    partition_defaults(nodes, if has_shards { order.choices.shards } else { 0 })
}
