//! Rules on GPUs as slurm.conf and gres.conf write them down. The two must agree, or nodes are
//! drained.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::check::Severity::{High, Low, Medium};

use crate::conf::Line;
use crate::evidence::{Evidence, Record, Untested, gpu_types, gpus, untested};
use crate::hosts::expand;
use crate::rule::{Judged, Page, Rule, Trip, none_of, right};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "gres-types-without-gpu",
        severity: High,
        title: "GPUs of nodes are not managed",
        meaning: "no generic resource is managed unless GresTypes names it",
        cure: "GresTypes=gpu",
        page: Page::Man("slurm.conf", "GresTypes"),
        check: |evidence| {
            evidence.gpu_nodes()?;
            let types = evidence.said("GresTypes", Some(""))?;
            right(&types, types.lists("gpu"))
        },
    },
    Rule {
        id: "gres-conf-missing-node",
        severity: High,
        title: "gres.conf has no GPUs for nodes that have some",
        meaning: "the node has fewer GPUs than slurm.conf promises, and is drained when it registers",
        cure: "a line of gres.conf for these nodes, or AutoDetect=nvml",
        page: Page::Man("gres.conf", "NodeName"),
        check: missing_node,
    },
    Rule {
        id: "gres-conf-unknown-node",
        severity: Medium,
        title: "gres.conf has GPUs for nodes that have none",
        meaning: "GPUs that slurm.conf does not name are not scheduled",
        cure: "Gres=gpu:TYPE:COUNT on the NodeName line of slurm.conf, or take the line out of gres.conf",
        page: Page::Man("gres.conf", "NodeName"),
        check: unknown_node,
    },
    Rule {
        id: "gres-count-differs",
        severity: High,
        title: "slurm.conf and gres.conf count GPUs differently",
        meaning: "a node that has fewer than slurm.conf says is drained",
        cure: "the same number in Gres= and in File= or Count=",
        page: Page::Man("gres.conf", "File"),
        check: counts_differ,
    },
    Rule {
        id: "gres-type-differs",
        severity: High,
        title: "slurm.conf and gres.conf name GPUs differently",
        meaning: "GPUs of a type that gres.conf does not have are missing on the node",
        cure: "the same word in Gres=gpu:TYPE:COUNT and in Type=",
        page: Page::Man("gres.conf", "Type"),
        check: types_differ,
    },
    Rule {
        id: "gres-type-not-the-device",
        severity: High,
        title: "GPUs have the type of another model",
        meaning: "jobs that ask for a model get another one; where GPUs are detected, Slurm leaves out those whose name does not contain the type, and drains the node",
        cure: "a type that is part of the name that `nvidia-smi -L` prints, in Gres= and in Type=",
        page: Page::Man("gres.conf", "Type"),
        check: not_the_device,
    },
    Rule {
        id: "gres-without-file",
        severity: High,
        title: "GPUs without their device file",
        meaning: "Slurm counts them and does not know which a job has, so that nothing can be kept from anybody",
        cure: "File=/dev/nvidia[0-7], or AutoDetect=nvml",
        page: Page::Man("gres.conf", "File"),
        check: without_file,
    },
    Rule {
        id: "gres-files-beside-autodetect",
        severity: Low,
        title: "device files are given and detected",
        meaning: "the files are only compared with what is detected, and a node where they differ is drained",
        cure: "AutoDetect alone, or AutoDetect=off on these nodes",
        page: Page::Man("gres.conf", "AutoDetect"),
        check: beside_autodetect,
    },
    Rule {
        id: "gpus-typed-and-untyped",
        severity: Medium,
        title: "some GPUs have a type and others have none",
        meaning: "a job that asks for a type never gets those without, and one that asks for none gets any",
        cure: "a type for all, in slurm.conf and in gres.conf",
        page: Page::Guide("gres"),
        check: typed_and_untyped,
    },
];

/// Lines of gres.conf on GPUs, with the nodes that they are for; `None` is all.
struct GpuLine<'a> {
    line: &'a Line,
    nodes: Option<BTreeSet<String>>,
}

impl GpuLine<'_> {
    fn is_for(&self, node: &str) -> bool {
        self.nodes.as_ref().is_none_or(|nodes| nodes.contains(node))
    }

    fn count(&self) -> u64 {
        let files = self.line.get("File").or(self.line.get("MultipleFiles")).and_then(expand);
        let given = self.line.get("Count").and_then(|count| count.parse().ok());
        given.or(files.map(|files| files.len() as u64)).unwrap_or(1)
    }
}

fn lines(evidence: &Evidence) -> Result<Vec<GpuLine<'_>>, Untested> {
    let Some(lines) = &evidence.gres else { return untested("gres.conf") };
    let is_gpu =
        |line: &&Line| line.get("Name").is_some_and(|name| name.eq_ignore_ascii_case("gpu"));
    let read = |line| GpuLine { line, nodes: nodes_of(line) };
    Ok(lines.iter().filter(is_gpu).map(read).collect())
}

fn nodes_of(line: &Line) -> Option<BTreeSet<String>> {
    line.get("NodeName").map(|list| expand(list).unwrap_or_default().into_iter().collect())
}

/// How GPUs of a node are detected, if they are: a line of its own goes before one for all.
fn detected<'a>(evidence: &'a Evidence, node: &str) -> Option<&'a Line> {
    let lines: Vec<&Line> =
        evidence.gres.iter().flatten().filter(|line| line.get("AutoDetect").is_some()).collect();
    let own = lines.iter().find(|line| nodes_of(line).is_some_and(|nodes| nodes.contains(node)));
    let found = own.or_else(|| lines.iter().find(|line| line.get("NodeName").is_none()))?;
    (!found.get("AutoDetect")?.eq_ignore_ascii_case("off")).then_some(*found)
}

/// Nodes that are alike fall into one finding: what is said, and the nodes of which it is said.
fn grouped(said: Vec<(String, &Record)>) -> Vec<Trip> {
    let mut groups: BTreeMap<String, Vec<&Record>> = BTreeMap::new();
    for (says, node) in said {
        groups.entry(says).or_default().push(node);
    }
    let trip = |(says, nodes): (String, Vec<&Record>)| {
        let first = nodes[0];
        let more = match nodes.len() {
            1 => String::new(),
            count => format!(" and {} more", count - 1),
        };
        Trip {
            key: says.clone(),
            says: format!("{}{more}: {says}", first.name),
            place: Some(first.place.clone()),
        }
    };
    groups.into_iter().map(trip).collect()
}

fn missing_node(evidence: &Evidence) -> Judged {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let lacks = |node: &&&Record| {
        detected(evidence, &node.name).is_none()
            && !lines.iter().any(|line| line.is_for(&node.name))
    };
    let said = nodes.iter().filter(lacks).map(|node| {
        (format!("Gres={}, and no line of gres.conf", node.get("Gres").unwrap_or_default()), *node)
    });
    none_of(
        grouped(said.collect()),
        format!("{} nodes with GPUs have lines or are detected", nodes.len()),
    )
}

fn unknown_node(evidence: &Evidence) -> Judged {
    let nodes = evidence.nodes()?;
    let lines = lines(evidence)?;
    let known: BTreeSet<&str> =
        nodes.iter().filter(|node| gpus(node) > 0).map(|node| node.name.as_str()).collect();
    let mut trips = Vec::new();
    for line in &lines {
        let unknown: Vec<&String> =
            line.nodes.iter().flatten().filter(|name| !known.contains(name.as_str())).collect();
        if let Some(first) = unknown.first() {
            trips.push(Trip {
                key: first.to_string(),
                says: format!(
                    "{} nodes without Gres=gpu in slurm.conf, such as {first}",
                    unknown.len()
                ),
                place: Some(line.line.place.clone()),
            });
        }
    }
    none_of(trips, format!("{} lines on GPUs are about nodes that have some", lines.len()))
}

fn counts_differ(evidence: &Evidence) -> Judged {
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
    none_of(grouped(said), format!("{} nodes have as many in both files", nodes.len()))
}

fn types_differ(evidence: &Evidence) -> Judged {
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
            let own = match own.is_empty() {
                true => "no type".to_owned(),
                false => own.into_iter().collect::<Vec<_>>().join(", "),
            };
            said.push((format!("{} in slurm.conf, {own} in gres.conf", lost.join(", ")), *node));
        }
    }
    none_of(grouped(said), format!("{} nodes have the same types in both files", nodes.len()))
}

/// Words of models, with the vendor whose device files they have.
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

/// By the devices of the machine that the check runs on, where it is a node with some; else by the
/// vendor of device files.
fn not_the_device(evidence: &Evidence) -> Judged {
    let nodes = evidence.gpu_nodes()?;
    let mut said = Vec::new();
    // 1. What the driver calls them here.
    let here = evidence.devices.as_ref().and_then(|(host, names)| {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        let is_here = |node: &&&Record| {
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
            (format!("{kind} in slurm.conf, and the device is {}", names.join(", ")), node)
        }));
    }
    // 2. Whose files they have.
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
            said.push((format!("{kind} in gres.conf, and File={file} is of {of_file}"), *node));
        }
    }
    let known = if here.is_some() {
        "types are part of the devices' names here"
    } else {
        "no file is of another vendor"
    };
    none_of(grouped(said), known)
}

fn without_file(evidence: &Evidence) -> Judged {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let bare = |line: &&GpuLine| {
        let has_file = line.line.get("File").is_some() || line.line.get("MultipleFiles").is_some();
        let for_undetected =
            |node: &&Record| line.is_for(&node.name) && detected(evidence, &node.name).is_none();
        !has_file && nodes.iter().any(for_undetected)
    };
    let trip = |line: &GpuLine| Trip {
        key: line.line.get("NodeName").unwrap_or("all nodes").to_owned(),
        says: format!(
            "a line on GPUs of {} has no File",
            line.line.get("NodeName").unwrap_or("all nodes")
        ),
        place: Some(line.line.place.clone()),
    };
    none_of(lines.iter().filter(bare).map(trip).collect(), "all GPUs have files or are detected")
}

fn beside_autodetect(evidence: &Evidence) -> Judged {
    let nodes = evidence.gpu_nodes()?;
    let lines = lines(evidence)?;
    let both = |line: &&GpuLine| {
        let detects =
            |node: &&Record| line.is_for(&node.name) && detected(evidence, &node.name).is_some();
        line.line.get("File").is_some() && nodes.iter().any(detects)
    };
    let trip = |line: &GpuLine| Trip {
        key: line.line.get("NodeName").unwrap_or("all nodes").to_owned(),
        says: format!("File={} beside AutoDetect", line.line.get("File").unwrap_or_default()),
        place: Some(line.line.place.clone()),
    };
    none_of(lines.iter().filter(both).map(trip).collect(), "no node has both")
}

fn typed_and_untyped(evidence: &Evidence) -> Judged {
    let nodes = evidence.gpu_nodes()?;
    let first = |typed: bool| {
        let has = |node: &&&Record| gpu_types(node).iter().any(|(kind, _)| kind.is_some() == typed);
        nodes.iter().find(has)
    };
    let trip = first(true).zip(first(false)).map(|(typed, untyped)| Trip {
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
    none_of(
        trip.into_iter().collect(),
        format!("{} nodes with GPUs are alike in this", nodes.len()),
    )
}
