//! Nodes and their devices: `muster nodes`.

use std::collections::BTreeMap;

use muster_model::view::{DeviceView, NodeView};
use muster_model::{Drain, ForeignProcess, GpuMilli};

use crate::RenderContext;
use crate::advance_reservations;
use crate::amount::{count, element, gpu_indices};
use crate::clock;
use crate::style::{Ink, clean};
use crate::table::{Cell, Table};

/// With at most this many devices in all, each gets a row of its own: as many as fit a screen below
/// the nodes.
const DEVICES_LISTED: usize = 16;

/// Returns the table of nodes, and of their devices if they are few.
#[must_use]
pub fn nodes(rows: &[NodeView], context: RenderContext) -> String {
    let mut text = Table::of(rows)
        .left("NODE", |node| node.name.as_str())
        .left("STATE", state)
        .left("GPUS", |node| models(&node.devices))
        .right("FREE", |node| free(node).to_string())
        .left("CPUS", |node| format!("{} of {} allocated", node.cpus_used, node.cpus))
        .left("MEMORY", |node| format!("{} of {}", node.memory_used, node.memory))
        .left("NOTE", |node| note(node, context))
        .render(context);
    let device_count: usize = rows.iter().map(|node| node.devices.len()).sum();
    if (1..=DEVICES_LISTED).contains(&device_count) {
        text.push('\n');
        text.push_str(&devices(rows, context));
    }
    text
}

fn devices(rows: &[NodeView], context: RenderContext) -> String {
    let devices: Vec<(&NodeView, &DeviceView)> = rows
        .iter()
        .flat_map(|node| node.devices.iter().map(move |device| (node, device)))
        .collect();
    Table::of(&devices)
        .left("NODE", |(node, _)| if rows.len() > 1 { node.name.as_str() } else { "" })
        .right("GPU", |(_, device)| device.index.to_string())
        .left("MODEL", |(_, device)| model(device))
        .right("MEMORY", |(_, device)| match device.memory.0 {
            0 => String::new(),
            _ => device.memory.to_string(),
        })
        .right("USED", |(_, device)| device.used.to_string())
        .left("BY", |(_, device)| holder(device, context))
        .render(context)
}

fn state(node: &NodeView) -> Cell {
    let (state, ink) = match (node.up, &node.drained) {
        (false, _) => ("lost", Ink::Bad),
        (true, Some(_)) if is_held(node) => ("draining", Ink::Waiting),
        (true, Some(_)) => ("drained", Ink::Waiting),
        (true, None) => ("up", Ink::Good),
    };
    Cell::inked(state, ink)
}

fn holder(device: &DeviceView, context: RenderContext) -> Cell {
    let ids: Vec<String> = device.elements.iter().map(|&id| element(id)).collect();
    let holders = ids.join(" ");
    let ahead = device.drain.as_ref().filter(|drain| drain.from > context.now);
    match (device.drained, device.foreign, ahead) {
        (true, _, _) if holders.is_empty() => Cell::inked("out of service", Ink::Waiting),
        (true, _, _) => Cell::inked(format!("{holders}, then out of service"), Ink::Waiting),
        (_, true, _) => {
            let by = foreign_processes(&device.foreign_processes);
            let by = if by.is_empty() { "a process".to_owned() } else { by + "," };
            Cell::inked(format!("{by} outside Muster"), Ink::Waiting)
        }
        (.., Some(drain)) => {
            let from = format!("out of service from {}", clock::time(drain.from, context));
            Cell::from(if holders.is_empty() { from } else { format!("{holders}, {from}") })
        }
        _ => Cell::from(holders),
    }
}

/// `python3 (pid 812, user anna)`; empty where no process is known.
pub(crate) fn foreign_processes(processes: &[ForeignProcess]) -> String {
    let one = |process: &ForeignProcess| {
        let ForeignProcess { pid, program, user, .. } = process;
        let user = if user.is_empty() { String::new() } else { format!(", user {}", clean(user)) };
        let program = if program.is_empty() { "a process".into() } else { clean(program) };
        format!("{program} (pid {pid}{user})")
    };
    processes.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Returns true while jobs hold resources of a node.
fn is_held(node: &NodeView) -> bool {
    node.cpus_used.0 > 0
        || node.memory_used.0 > 0
        || node.devices.iter().any(|device| device.used.0 > 0)
}

/// Describes drains, `since 12:00:00 by ann: bad fan`, `GPUs 3,5 from 18:00:00`, and advance
/// reservations.
fn note(node: &NodeView, context: RenderContext) -> String {
    let mut notes = Vec::new();
    match (&node.drain, &node.drained) {
        (Some(one), _) => notes.push(drain(one, context)),
        (None, Some(reason)) => notes.push(clean(reason).into_owned()),
        (None, None) => {}
    }
    let mut groups: Vec<(&Drain, Vec<u16>)> = Vec::new();
    for device in &node.devices {
        let Some(one) = &device.drain else { continue };
        match groups.iter_mut().find(|(known, _)| *known == one) {
            Some((_, devices)) => devices.push(device.index),
            None => groups.push((one, vec![device.index])),
        }
    }
    for (one, devices) in groups {
        notes.push(format!("{} {}", gpu_indices(&devices), drain(one, context)));
    }
    notes.extend(
        node.advance_reservations
            .iter()
            .map(|window| advance_reservations::on_node(window, context)),
    );
    notes.join("; ")
}

/// `since 12:00:00 by ann: bad fan`, `from 18:00:00 by ann, then stopped`.
pub(crate) fn drain(drain: &Drain, context: RenderContext) -> String {
    let ahead = drain.from > context.now;
    let mut text =
        format!("{} {}", if ahead { "from" } else { "since" }, clock::time(drain.from, context));
    if let Some(by) = &drain.by {
        text.push_str(&format!(" by {by}"));
    }
    if ahead && drain.stop {
        text.push_str(", which stops running jobs");
    }
    if !drain.reason.is_empty() {
        text.push_str(&format!(": {}", clean(&drain.reason)));
    }
    text
}

/// Returns the GPUs available to jobs now, shares included: none on a node that is lost or drained.
fn free(node: &NodeView) -> GpuMilli {
    if !node.up || node.drained.is_some() {
        return GpuMilli(0);
    }
    let usable = node.devices.iter().filter(|device| !device.foreign && !device.drained);
    GpuMilli(usable.map(|device| 1000u32.saturating_sub(device.used.0)).sum())
}

/// Returns the model, marked `virtual` for a simulated GPU.
fn model(device: &DeviceView) -> String {
    match (device.is_virtual, device.model.as_str()) {
        (false, model) => model.to_owned(),
        (true, "virtual") => "virtual".to_owned(),
        (true, model) => format!("{model}, virtual"),
    }
}

/// `8 h100`, `4 h100, virtual`, `none`.
fn models(devices: &[DeviceView]) -> String {
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for device in devices {
        *counts.entry(model(device)).or_default() += 1;
    }
    let words: Vec<String> =
        counts.into_iter().map(|(model, count)| format!("{count} {model}")).collect();
    if words.is_empty() { "none".to_owned() } else { words.join(" + ") }
}

/// `8 GPUs on 1 node`: for status lines.
#[must_use]
pub fn summary(rows: &[NodeView]) -> String {
    let devices: usize = rows.iter().map(|node| node.devices.len()).sum();
    format!("{} on {}", count(devices as u64, "GPU"), count(rows.len() as u64, "node"))
}

#[cfg(test)]
mod tests {
    use muster_model::{Bytes, CpuMilli};

    use super::*;
    use crate::sample::{self, NOON};

    fn device(index: u16, model: &str, is_virtual: bool) -> DeviceView {
        DeviceView {
            index,
            model: model.into(),
            memory: Bytes(if is_virtual { 0 } else { 80 << 30 }),
            is_virtual,
            used: GpuMilli(0),
            foreign: false,
            foreign_processes: Vec::new(),
            drained: false,
            drain: None,
            elements: Vec::new(),
        }
    }

    fn node(name: &str, devices: Vec<DeviceView>) -> NodeView {
        NodeView {
            name: name.into(),
            up: true,
            drained: None,
            drain: None,
            cpus: CpuMilli(64_000),
            cpus_used: CpuMilli(2500),
            memory: Bytes(256 << 30),
            memory_used: Bytes(0),
            devices,
            advance_reservations: Vec::new(),
        }
    }

    #[test]
    fn virtual_foreign_and_shared_devices_are_marked() {
        let mut devices = vec![
            device(0, "h100", false),
            device(1, "h100", false),
            device(2, "h100", true),
            device(3, "virtual", true),
        ];
        devices[0].used = GpuMilli(500);
        devices[0].elements = vec![sample::id(1, 0), sample::id(3, 7)];
        devices[1].foreign = true;
        devices[1].foreign_processes = vec![ForeignProcess {
            device: 1,
            pid: 812,
            program: "python3".into(),
            user: "anna".into(),
        }];
        devices[2].drained = true;
        insta::assert_snapshot!(nodes(&[node("host", devices)], RenderContext::plain().at(NOON)), @r"
        NODE  STATE  GPUS                                  FREE  CPUS                 MEMORY
        host  up     2 h100 + 1 h100, virtual + 1 virtual   1.5  2.5 of 64 allocated  0B of 256GiB

        GPU  MODEL          MEMORY  USED  BY
          0  h100            80GiB   0.5  1 3[7]
          1  h100            80GiB     0  python3 (pid 812, user anna), outside Muster
          2  h100, virtual             0  out of service
          3  virtual                   0
        ");
    }

    #[test]
    fn many_nodes_stay_one_row_each() {
        let mut rows: Vec<NodeView> = (0..3)
            .map(|n| {
                node(
                    &format!("node{n}"),
                    (0..8).map(|index| device(index, "h100", false)).collect(),
                )
            })
            .collect();
        rows[1].drained = Some("bad link".to_owned());
        rows[2].up = false;
        rows.push(node("login", Vec::new()));
        insta::assert_snapshot!(nodes(&rows, RenderContext::plain().at(NOON)), @r"
        NODE   STATE     GPUS    FREE  CPUS                 MEMORY        NOTE
        node0  up        8 h100     8  2.5 of 64 allocated  0B of 256GiB
        node1  draining  8 h100     0  2.5 of 64 allocated  0B of 256GiB  bad link
        node2  lost      8 h100     0  2.5 of 64 allocated  0B of 256GiB
        login  up        none       0  2.5 of 64 allocated  0B of 256GiB
        ");
        assert_eq!(summary(&rows), "24 GPUs on 4 nodes");
    }
}
