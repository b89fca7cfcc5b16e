//! Inventory from Slurm's JSON: rows of `sinfo --json`, and records of `scontrol show nodes
//! --json`, which `sinfo --json` printed up to 22.05. Fields are read by structure instead of
//! version: in data_parser v0.0.37 to v0.0.44 numbers are plain or `{set, infinite, number}`, and
//! states one word or a list.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{Bytes, GpuModel, NodeSpec};
use serde_json::Value;

use super::gres;
use super::json::{self, words};
use muster_model::gpu_model;
use muster_model::inventory::{self, Inventory, InventoryError, InventoryOptions, ListedNode};

/// Bytes in one megabyte of Slurm (`RealMemory`, slurm.conf(5)).
const MEGABYTE: u64 = 1 << 20;

/// Prefixes of states and flags in which a node takes no jobs (sinfo(1), node state codes). Others,
/// such as `IDLE`, `MIXED` or `RESERVED`, are temporary.
const OUT_OF_SERVICE: [&str; 12] = [
    "BLOCKED",
    "DOWN",
    "DRAIN",
    "ERROR",
    "FAIL",
    "FUTURE",
    "INVALID",
    "MAINT",
    "NOT_RESPONDING",
    "POWER",
    "REBOOT",
    "UNKNOWN",
];

/// Returns whether the JSON is a list of nodes printed by Slurm.
fn recognises(value: &Value) -> bool {
    let lists = |field| value.get(field).is_some_and(Value::is_array);
    // Many programs print `nodes`; Slurm's always print `meta` beside it.
    lists("sinfo") || (lists("nodes") && value.get("meta").is_some_and(Value::is_object))
}

/// Node as one row describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmNodeRow {
    /// Name of the node.
    pub name: String,
    /// Number of processors of the node.
    pub cpus: u64,
    /// Memory in Slurm's megabytes (`RealMemory`).
    pub memory_mb: u64,
    /// Generic resources, such as `gpu:h100:8`.
    pub gres: String,
    /// Features, separated by commas.
    pub features: String,
    /// States in which it takes no jobs; empty when there are none.
    pub out_of_service: String,
    /// Partitions, the one for the label first.
    pub partitions: Vec<String>,
    /// Number of the row, from 1.
    pub row: usize,
}

/// Converts nodes that were read elsewhere, such as from slurm.conf, for a cluster file.
///
/// # Errors
/// The first node that a cluster file cannot describe.
pub fn of_records(
    records: &[SlurmNodeRow],
    options: &InventoryOptions,
) -> Result<Vec<ListedNode>, InventoryError> {
    records.iter().map(|record| listed(record, options)).collect()
}

/// Reads a list of nodes; `None` where the value is no such list of Slurm.
pub fn read(
    value: &Value,
    options: &InventoryOptions,
) -> Option<Result<Inventory, InventoryError>> {
    recognises(value).then(|| list(value, options))
}

fn list(value: &Value, options: &InventoryOptions) -> Result<Inventory, InventoryError> {
    if !options.levels.is_empty() {
        let message = "Slurm's list of nodes has no topology for --level";
        return Err(InventoryError::Levels(message.to_owned()));
    }
    // 1. Read the rows. Rows beside an error of Slurm are incomplete.
    if json::failure(value).is_some() {
        let program = if value.get("sinfo").is_some() { "sinfo --json" } else { "Slurm's JSON" };
        return Err(none(value, program));
    }
    let (rows, source) = match value.get("sinfo").and_then(Value::as_array) {
        Some(rows) => (rows, "sinfo --json"),
        None => (
            value
                .get("nodes")
                .and_then(Value::as_array)
                .ok_or_else(|| none(value, "Slurm's JSON"))?,
            "Slurm's JSON",
        ),
    };
    let is_sinfo = source == "sinfo --json";
    let mut records: Vec<SlurmNodeRow> = Vec::new();
    let mut known: BTreeMap<String, usize> = BTreeMap::new();
    let mut is_grouped = false;
    for (index, row) in rows.iter().enumerate() {
        let found =
            if is_sinfo { sinfo_row(row, index + 1)? } else { vec![node_row(row, index + 1)?] };
        is_grouped |= found.len() > 1;

        // 2. sinfo prints a node once per partition.
        for record in found {
            match known.get(&record.name) {
                Some(at) if is_sinfo => join(&mut records[*at], record)?,
                _ => {
                    known.insert(record.name.clone(), records.len());
                    records.push(record);
                }
            }
        }
    }
    if records.is_empty() {
        return Err(none(value, source));
    }

    // 3. Convert the nodes.
    let nodes = records.iter().map(|record| listed(record, options)).collect::<Result<_, _>>()?;
    let hint = "rows are for several nodes, but sinfo shows the generic resources of one only; use `sinfo -N --json`";
    let hints = is_grouped.then(|| hint.to_owned()).into_iter().collect();
    Ok(Inventory { source, levels: Vec::new(), nodes, hints })
}

fn none(value: &Value, source_name: &'static str) -> InventoryError {
    let why = json::failure(value).map(|why| format!(": {why}")).unwrap_or_default();
    InventoryError::NoNodes { source_name, why }
}

/// Reads a row of `sinfo`: equal nodes of one partition.
fn sinfo_row(row: &Value, number: usize) -> Result<Vec<SlurmNodeRow>, InventoryError> {
    let names = row.pointer("/nodes/nodes").or_else(|| row.get("nodes")).and_then(Value::as_array);
    let names: Vec<&str> = match names {
        Some(names) => names.iter().filter_map(Value::as_str).collect(),
        None => return Err(wrong(number, None, "no list of node names at `nodes.nodes`")),
    };
    let wrong = |what: String| wrong(number, names.first().copied(), what);
    let same = |field: &str| -> Result<u64, InventoryError> {
        let at = |end: &str| whole(row, &format!("/{field}/{end}"), &format!("/{field}"));
        let low = at("minimum").map_err(wrong)?;
        let high = at("maximum").map_err(wrong)?;
        if low == high {
            Ok(low)
        } else {
            Err(wrong(format!(
                "`{field}` ranges from {low} to {high}: the row is for unequal nodes; use `sinfo -N --json`"
            )))
        }
    };
    let text = |paths: &[&str]| words(row, paths).join(",");
    let partition = words(row, &["/partition/name", "/partition"]);
    let record = SlurmNodeRow {
        name: String::new(),
        cpus: same("cpus")?,
        memory_mb: same("memory")?,
        gres: text(&["/gres/total", "/gres"]),
        features: text(&["/features/total", "/features"]),
        out_of_service: out_of_service(
            &words(row, &["/node/state", "/state"]),
            &text(&["/reason"]),
        ),
        partitions: partition,
        row: number,
    };
    Ok(names
        .iter()
        .map(|name| SlurmNodeRow { name: (*name).to_owned(), ..record.clone() })
        .collect())
}

/// Reads a record of one node.
fn node_row(row: &Value, number: usize) -> Result<SlurmNodeRow, InventoryError> {
    let name = row.get("name").and_then(Value::as_str);
    let Some(name) = name.filter(|name| !name.is_empty()) else {
        return Err(wrong(number, None, format!("no `name` in {}", inventory::shape(row))));
    };
    let wrong = |what: String| wrong(number, Some(name), what);
    let mut states = words(row, &["/state"]);
    states.extend(words(row, &["/state_flags"]));
    Ok(SlurmNodeRow {
        name: name.to_owned(),
        cpus: whole(row, "/cpus", "/cpus").map_err(wrong)?,
        memory_mb: whole(row, "/real_memory", "/real_memory").map_err(wrong)?,
        gres: words(row, &["/gres"]).join(","),
        features: words(row, &["/features"]).join(","),
        out_of_service: out_of_service(&states, &words(row, &["/reason"]).join(" ")),
        partitions: words(row, &["/partitions"]),
        row: number,
    })
}

/// Merges the same node of another partition.
fn join(known: &mut SlurmNodeRow, again: SlurmNodeRow) -> Result<(), InventoryError> {
    let same =
        SlurmNodeRow { partitions: known.partitions.clone(), row: known.row, ..again.clone() };
    if *known != same {
        let what = format!("the node differs from row {}", known.row);
        return Err(wrong(again.row, Some(&again.name), what));
    }
    known.partitions.extend(again.partitions);
    Ok(())
}

fn listed(record: &SlurmNodeRow, options: &InventoryOptions) -> Result<ListedNode, InventoryError> {
    let wrong = |what: String| wrong(record.row, Some(&record.name), what);
    let gres = gres::parse(&record.gres).map_err(wrong)?;
    let mut notes = Vec::new();
    if !record.out_of_service.is_empty() {
        notes.push(record.out_of_service.clone());
    }

    // 1. Devices.
    let total = gres.gpus.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
    if total > muster_model::DeviceSet::MAX_DEVICES as u64 {
        return Err(wrong(format!(
            "{total} GPUs; a node has at most {}",
            muster_model::DeviceSet::MAX_DEVICES
        )));
    }
    let mut devices = Vec::new();
    for (kind, count) in &gres.gpus {
        let model = match (kind.as_str(), &options.gpu) {
            ("", Some(model)) => model.clone(),
            ("", None) => {
                notes
                    .push("Slurm has no type for these GPUs; set it with `--gpu MODEL`".to_owned());
                GpuModel::from("gpu")
            }
            (kind, _) => gpu_model::normalise_label(kind),
        };
        devices.extend(inventory::devices(&model, Bytes(0), *count as usize, false));
    }

    // 2. Labels: the first of its partitions is the node's label.
    let partitions = inventory::once(record.partitions.iter().cloned());
    let mut labels: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
    if let Some((first, others)) = partitions.split_first() {
        labels.insert("partition".into(), first.as_str().into());
        if !others.is_empty() {
            notes.push(format!("also in partition {}", others.join(", ")));
        }
    }
    if !record.features.is_empty() {
        labels.insert("features".into(), record.features.as_str().into());
    }
    let node = NodeSpec {
        name: record.name.as_str().into(),
        devices,
        cpus: inventory::cpus(u128::from(record.cpus) * 1000).map_err(wrong)?,
        memory: Bytes(record.memory_mb.saturating_mul(MEGABYTE)),
        extras: gres
            .extras
            .iter()
            .map(|(name, count)| (Arc::from(name.as_str()), *count))
            .collect(),
        labels,
        domains: Vec::new(),
    };
    inventory::check(&node).map_err(wrong)?;
    Ok(inventory::declared(node, notes))
}

/// Returns why a node takes no jobs, with the reason; empty when it takes jobs.
fn out_of_service(states: &[String], reason: &str) -> String {
    let is_out =
        |state: &&String| OUT_OF_SERVICE.iter().any(|word| state.to_uppercase().starts_with(word));
    let words: Vec<String> =
        states.iter().filter(is_out).map(|state| state.to_lowercase().replace('_', " ")).collect();
    match (words.is_empty(), reason.trim()) {
        (true, _) => String::new(),
        (false, "") => format!("out of service in Slurm: {}", words.join(", ")),
        (false, reason) => format!("out of service in Slurm: {} ({reason})", words.join(", ")),
    }
}

/// Reads a whole number at the first path that exists; 0 where there is none.
fn whole(row: &Value, path: &str, otherwise: &str) -> Result<u64, String> {
    let there = if row.pointer(path).is_some() { path } else { otherwise };
    let name = path.trim_start_matches('/').replace('/', ".");
    match json::try_number(row, there) {
        Ok(number) => Ok(number.unwrap_or(0)),
        Err(Value::Number(number)) => {
            Err(format!("`{name}` is {number}, not a whole number from 0 on"))
        }
        Err(other) => Err(format!("`{name}` is {}, not a number", inventory::shape(other))),
    }
}

fn wrong(number: usize, name: Option<&str>, what: impl Into<String>) -> InventoryError {
    let name = name.map(|name| format!(" (`{name}`)")).unwrap_or_default();
    inventory::row(format!("row {number}{name}"), what.into())
}
