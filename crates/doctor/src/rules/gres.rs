//! Rules on the GPUs in slurm.conf and gres.conf. The two files must agree, or nodes are drained.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::Severity::{High, Low, Medium};
use muster_model::hostlist::expand;

use crate::rule::{CheckRule, DocPage, RuleFinding, RuleResult, check_setting, fail_if_any};
use muster_slurm::conf::ConfLine;
use muster_slurm::conf::evidence::{
    ConfRecord, Evidence, MissingInput, gpu_types, gpus, needs_input,
};

pub(super) const RULES: &[CheckRule] = &[
    CheckRule {
        id: "gres-types-without-gpu",
        severity: High,
        title: "GPUs are not managed by Slurm",
        meaning: "Slurm manages a generic resource only if GresTypes names it",
        cure: "GresTypes=gpu",
        page: DocPage::Man("slurm.conf", "GresTypes"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let types = evidence.conf_setting("GresTypes", Some(""))?;
            check_setting(&types, types.lists("gpu"))
        },
    },
    CheckRule {
        id: "gres-conf-missing-node",
        severity: High,
        title: "gres.conf lacks GPUs that slurm.conf has",
        meaning: "the node registers with fewer GPUs than slurm.conf has, and is drained",
        cure: "a line in gres.conf for these nodes, or AutoDetect=nvml",
        page: DocPage::Man("gres.conf", "NodeName"),
        check: missing_node,
    },
    CheckRule {
        id: "gres-conf-unknown-node",
        severity: Medium,
        title: "gres.conf has GPUs that slurm.conf lacks",
        meaning: "GPUs that are not in slurm.conf are not scheduled",
        cure: "Gres=gpu:TYPE:COUNT on the NodeName line of slurm.conf, or remove the line from gres.conf",
        page: DocPage::Man("gres.conf", "NodeName"),
        check: unknown_node,
    },
    CheckRule {
        id: "gres-count-differs",
        severity: High,
        title: "slurm.conf and gres.conf differ in the number of GPUs",
        meaning: "a node with fewer GPUs than in slurm.conf is drained",
        cure: "the same number in Gres= and in File= or Count=",
        page: DocPage::Man("gres.conf", "File"),
        check: counts_differ,
    },
    CheckRule {
        id: "gres-type-differs",
        severity: High,
        title: "slurm.conf and gres.conf differ in GPU types",
        meaning: "GPUs of a type that is not in gres.conf are missing on the node",
        cure: "the same type in Gres=gpu:TYPE:COUNT and in Type=",
        page: DocPage::Man("gres.conf", "Type"),
        check: types_differ,
    },
    CheckRule {
        id: "gres-type-not-the-device",
        severity: High,
        title: "the GPU type does not match the model",
        meaning: "jobs that request a model get another one; with AutoDetect, Slurm drops GPUs whose name does not contain the type, and drains the node",
        cure: "a type that is part of the GPU's name in `nvidia-smi -L`, in Gres= and in Type=",
        page: DocPage::Man("gres.conf", "Type"),
        check: not_the_device,
    },
    CheckRule {
        id: "gres-without-file",
        severity: High,
        title: "GPUs without a device file",
        meaning: "Slurm only counts these GPUs; it does not know which of them a job has, and cannot confine jobs to them",
        cure: "File=/dev/nvidia[0-7], or AutoDetect=nvml",
        page: DocPage::Man("gres.conf", "File"),
        check: without_file,
    },
    CheckRule {
        id: "gres-files-beside-autodetect",
        severity: Low,
        title: "device files are both listed and detected",
        meaning: "the listed files are only compared with the detected ones, and a node where they differ is drained",
        cure: "AutoDetect alone, or AutoDetect=off on these nodes",
        page: DocPage::Man("gres.conf", "AutoDetect"),
        check: beside_autodetect,
    },
    CheckRule {
        id: "gpus-typed-and-untyped",
        severity: Medium,
        title: "some GPUs have a type and others have none",
        meaning: "a job that requests a type never gets GPUs without one, and a job that requests none gets any",
        cure: "a type for all, in slurm.conf and in gres.conf",
        page: DocPage::Guide("gres"),
        check: typed_and_untyped,
    },
];

/// Line of gres.conf on GPUs, with the nodes that it applies to; `None` is all.
struct GpuLine<'a> {
    line: &'a ConfLine,
    nodes: Option<BTreeSet<String>>,
}

impl GpuLine<'_> {
    fn is_for(&self, node: &str) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }

    fn count(&self) -> u64 {
        let files = self
            .line
            .get("File")
            .or(self.line.get("MultipleFiles"))
            .and_then(|list| expand(list).ok());
        let given = self.line.get("Count").and_then(|count| count.parse().ok());
        given.or(files.map(|files| files.len() as u64)).unwrap_or(1)
    }
}

fn lines(evidence: &Evidence) -> Result<Vec<GpuLine<'_>>, MissingInput> {
    let Some(lines) = &evidence.gres else { return needs_input("gres.conf") };
    let is_gpu =
        |line: &&ConfLine| line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"));
    let read = |line| GpuLine { line, nodes: nodes_of(line) };
    Ok(lines.iter().filter(is_gpu).map(read).collect())
}

fn nodes_of(line: &ConfLine) -> Option<BTreeSet<String>> {
    line.get("NodeName").map(|list| expand(list).unwrap_or_default().into_iter().collect())
}

/// Returns the line that sets AutoDetect for a node, if any: a line for the node precedes one for
/// all.
fn detected<'a>(evidence: &'a Evidence, node: &str) -> Option<&'a ConfLine> {
    let lines: Vec<&ConfLine> =
        evidence.gres.iter().flatten().filter(|line| line.get("AutoDetect").is_some()).collect();
    let own = lines.iter().find(|line| nodes_of(line).is_some_and(|nodes| nodes.contains(node)));
    let found = own.or_else(|| lines.iter().find(|line| line.get("NodeName").is_none()))?;
    (!found.get("AutoDetect")?.eq_ignore_ascii_case("off")).then_some(*found)
}

/// Groups nodes with the same problem into one finding that names them.
fn grouped(said: Vec<(String, &ConfRecord)>) -> Vec<RuleFinding> {
    let mut groups: BTreeMap<String, Vec<&ConfRecord>> = BTreeMap::new();
    for (says, node) in said {
        groups.entry(says).or_default().push(node);
    }
    let finding = |(says, nodes): (String, Vec<&ConfRecord>)| {
        let first = nodes[0];
        let more = match nodes.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        RuleFinding {
            key: says.clone(),
            says: format!("{}{more}: {says}", first.name),
            place: Some(first.place.clone()),
        }
    };
    groups.into_iter().map(finding).collect()
}

fn missing_node(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let lacks = |node: &&&ConfRecord| {
        detected(evidence, &node.name).is_none()
            && !lines.iter().any(|line| line.is_for(&node.name))
    };
    let said = nodes.iter().filter(lacks).map(|node| {
        (format!("Gres={}, but no line in gres.conf", node.get("Gres").unwrap_or_default()), *node)
    });
    fail_if_any(
        grouped(said.collect()),
        format!("{} nodes with GPUs have lines or AutoDetect", nodes.len()),
    )
}

fn unknown_node(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.nodes()?;
    let lines = lines(evidence)?;
    let known: BTreeSet<&str> =
        nodes.iter().filter(|node| gpus(node) > 0).map(|node| node.name.as_str()).collect();
    let mut findings = Vec::new();
    for line in &lines {
        let unknown: Vec<&String> =
            line.nodes.iter().flatten().filter(|name| !known.contains(name.as_str())).collect();
        if let Some(first) = unknown.first() {
            findings.push(RuleFinding {
                key: first.to_string(),
                says: format!(
                    "{} nodes have no Gres=gpu in slurm.conf, such as {first}",
                    unknown.len()
                ),
                place: Some(line.line.place.clone()),
            });
        }
    }
    fail_if_any(findings, format!("all nodes of {} lines on GPUs have Gres=gpu", lines.len()))
}

fn counts_differ(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let mut said = Vec::new();
    for node in &nodes {
        let own: Vec<u64> =
            lines.iter().filter(|line| line.is_for(&node.name)).map(GpuLine::count).collect();
        let count = own.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
        if !own.is_empty() && count != gpus(node) {
            said.push((format!("{} GPUs in slurm.conf, {count} in gres.conf", gpus(node)), *node));
        }
    }
    fail_if_any(grouped(said), format!("{} nodes have the same number in both files", nodes.len()))
}

fn types_differ(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let mut said = Vec::new();
    for node in &nodes {
        let own: BTreeSet<String> = lines
            .iter()
            .filter(|line| line.is_for(&node.name))
            .filter_map(|line| line.line.get("Type").map(str::to_ascii_lowercase))
            .collect();
        let wanted = gpu_types(node).into_iter().filter_map(|(kind, _)| kind);
        let lost: Vec<String> =
            wanted.filter(|kind| !own.contains(&kind.to_ascii_lowercase())).collect();
        let has_lines = lines.iter().any(|line| line.is_for(&node.name));
        let is_detected = own.is_empty() && detected(evidence, &node.name).is_some();
        if has_lines && !is_detected && !lost.is_empty() {
            let own = if own.is_empty() {
                "no type".to_owned()
            } else {
                own.into_iter().collect::<Vec<_>>().join(", ")
            };
            said.push((format!("{} in slurm.conf, {own} in gres.conf", lost.join(", ")), *node));
        }
    }
    fail_if_any(grouped(said), format!("{} nodes have the same types in both files", nodes.len()))
}

/// Words in model names, with the vendor whose device files the model has.
const VENDORS: [(&str, &str); 19] = [
    ("a10", "nvidia"),
    ("a100", "nvidia"),
    ("a30", "nvidia"),
    ("a40", "nvidia"),
    ("b200", "nvidia"),
    ("b300", "nvidia"),
    ("gb200", "nvidia"),
    ("gh200", "nvidia"),
    ("h100", "nvidia"),
    ("h200", "nvidia"),
    ("l4", "nvidia"),
    ("l40s", "nvidia"),
    ("t4", "nvidia"),
    ("v100", "nvidia"),
    ("mi100", "amd"),
    ("mi210", "amd"),
    ("mi250", "amd"),
    ("mi300x", "amd"),
    ("mi300a", "amd"),
];

/// Compares with the devices of the machine that the check runs on if it is such a node, else with
/// the vendor of the device files.
fn not_the_device(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.gpu_nodes()?;
    let mut said = Vec::new();
    // 1. Compare with the driver's names on this machine.
    let here = evidence.devices.as_ref().and_then(|(host, names)| {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let is_here = |node: &&&ConfRecord| {
            short(&node.name) == short(host)
                || node.get("NodeHostname").is_some_and(|name| short(name) == short(host))
        };
        Some((*nodes.iter().find(is_here)?, names))
    });
    if let Some((node, names)) = here {
        // As Slurm compares: any part of the name, with `_` for blanks.
        let fits = |kind: &str| {
            let kind = kind.to_ascii_lowercase();
            names.iter().any(|name| name.to_ascii_lowercase().replace(' ', "_").contains(&kind))
        };
        let odd = gpu_types(node).into_iter().filter_map(|(kind, _)| kind).find(|kind| !fits(kind));
        said.extend(odd.map(|kind| {
            (format!("{kind} in slurm.conf, but the device is {}", names.join(", ")), node)
        }));
    }
    // 2. Compare with the vendor of the device files.
    for line in lines(evidence).unwrap_or_default() {
        let (Some(kind), Some(file)) = (line.line.get("Type"), line.line.get("File")) else {
            continue;
        };
        let vendor = VENDORS
            .iter()
            .find(|(word, _)| kind.to_ascii_lowercase().split(['_', '-']).any(|own| own == *word));
        let files = [("/dev/nvidia", "nvidia"), ("/dev/dri/", "amd"), ("/dev/kfd", "amd")];
        let of_file = files.iter().find(|(prefix, _)| file.starts_with(prefix));
        if let (Some((_, vendor)), Some((_, of_file))) = (vendor, of_file)
            && vendor != of_file
        {
            let node = nodes.iter().find(|node| line.is_for(&node.name)).unwrap_or(&nodes[0]);
            said.push((
                format!("{kind} in gres.conf, but File={file} is a device of {of_file}"),
                *node,
            ));
        }
    }
    let known = if here.is_some() {
        "the types are part of the device names on this machine"
    } else {
        "no device file belongs to another vendor"
    };
    fail_if_any(grouped(said), known)
}

fn without_file(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let bare = |line: &&GpuLine| {
        let has_file = line.line.get("File").is_some() || line.line.get("MultipleFiles").is_some();
        let for_undetected = |node: &&ConfRecord| {
            line.is_for(&node.name) && detected(evidence, &node.name).is_none()
        };
        !has_file && nodes.iter().any(for_undetected)
    };
    let finding = |line: &GpuLine| RuleFinding {
        key: line.line.get("NodeName").unwrap_or("all nodes").to_owned(),
        says: format!(
            "the GPU line of {} has no File",
            line.line.get("NodeName").unwrap_or("all nodes")
        ),
        place: Some(line.line.place.clone()),
    };
    fail_if_any(
        lines.iter().filter(bare).map(finding).collect(),
        "all GPUs have device files or AutoDetect",
    )
}

fn beside_autodetect(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let both = |line: &&GpuLine| {
        let detects = |node: &&ConfRecord| {
            line.is_for(&node.name) && detected(evidence, &node.name).is_some()
        };
        line.line.get("File").is_some() && nodes.iter().any(detects)
    };
    let finding = |line: &GpuLine| RuleFinding {
        key: line.line.get("NodeName").unwrap_or("all nodes").to_owned(),
        says: format!("File={} beside AutoDetect", line.line.get("File").unwrap_or_default()),
        place: Some(line.line.place.clone()),
    };
    fail_if_any(lines.iter().filter(both).map(finding).collect(), "no node has both")
}

fn typed_and_untyped(evidence: &Evidence) -> RuleResult {
    let nodes = evidence.gpu_nodes()?;
    let first = |typed: bool| {
        let has =
            |node: &&&ConfRecord| gpu_types(node).iter().any(|(kind, _)| kind.is_some() == typed);
        nodes.iter().find(has)
    };
    let finding = first(true).zip(first(false)).map(|(typed, untyped)| RuleFinding {
        key: "typed".to_owned(),
        says: format!(
            "{} has Gres={}, {} has Gres={}",
            typed.name,
            typed.get("Gres").unwrap_or_default(),
            untyped.name,
            untyped.get("Gres").unwrap_or_default()
        ),
        place: Some(untyped.place.clone()),
    });
    fail_if_any(
        finding.into_iter().collect(),
        format!("{} nodes have either only typed or only untyped GPUs", nodes.len()),
    )
}
