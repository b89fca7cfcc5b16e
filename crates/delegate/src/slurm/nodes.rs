//! Nodes of the cluster: the jobs that hold their GPUs, and why a node is drained or down.

use std::collections::BTreeMap;

use muster_api::types::NodeList;
use muster_model::view::{DeviceView, NodeView};
use muster_model::{Bytes, CpuMilli, ElementId, GpuMilli, GpuModel, JobId};
use muster_slurm::gres;
use muster_slurm::job::NativeJob;
use muster_slurm::node::{self, NativeNode};

use super::queue::JobSelection;
use super::{Result, SlurmScheduler, view};
use crate::route::now;

/// Bytes in one megabyte of Slurm, which is a mebibyte.
const MEBIBYTE: u64 = 1 << 20;

impl SlurmScheduler {
    /// Returns the nodes from the controller.
    pub(super) async fn hosts(&self) -> Result<Vec<NativeNode>> {
        if let Some((rest, cluster)) = self.rest().await
            && let Some(nodes) = self.take_rest_answer(rest.nodes(cluster).await)
        {
            return Ok(nodes);
        }
        let text =
            self.tools().output("scontrol", &["--oneliner", "--details", "show", "node"]).await?;
        Ok(node::read(&text))
    }

    /// Lists all nodes of the cluster.
    pub(super) async fn nodes(&self) -> Result<NodeList> {
        // The queue first: an answer of slurmrestd with nodes only may not name the cluster.
        let rows = self.with_devices(JobSelection::All).await?;
        let hosts = self.hosts().await?;
        let held = held(&rows);
        Ok(NodeList { now: now(), nodes: hosts.iter().map(|host| node(host, &held)).collect() })
    }
}

/// Returns the element that holds each device, by node and device index.
fn held(rows: &[NativeJob]) -> BTreeMap<(String, u16), ElementId> {
    let mut held = BTreeMap::new();
    for row in rows.iter().filter(|row| !row.gres_by_node.is_empty()) {
        let element = ElementId { job: JobId(row.job()), index: view::index(row) };
        let nodes = muster_spec::expand_names(&row.nodes).unwrap_or_default();
        for (node, gres) in nodes.iter().zip(&row.gres_by_node) {
            held.extend(
                gres::devices(gres).into_iter().map(|device| ((node.clone(), device), element)),
            );
        }
    }
    held
}

fn node(host: &NativeNode, held: &BTreeMap<(String, u16), ElementId>) -> NodeView {
    let models = host.gpus.iter().flat_map(|(kind, count)| (0..*count).map(move |_| kind.as_str()));
    let device = |(at, kind): (usize, &str)| {
        let index = u16::try_from(at).unwrap_or(u16::MAX);
        let element = held.get(&(host.name.clone(), index));
        let is_used = element.is_some() || host.gpus_used.contains(&index);
        DeviceView {
            index,
            model: GpuModel::from(if kind.is_empty() { "gpu" } else { kind }),
            memory: Bytes(0),
            is_virtual: false,
            used: GpuMilli(if is_used { 1000 } else { 0 }),
            foreign: false,
            foreign_processes: Vec::new(),
            drained: false,
            drain: None,
            elements: element.copied().into_iter().collect(),
        }
    };
    NodeView {
        name: host.name.as_str().into(),
        up: !host.is_lost(),
        drained: (host.is_drained() || host.is_lost()).then(|| {
            match host.reason_and_who().as_str() {
                "" => host.state.to_lowercase(),
                reason => format!("{}: {reason}", host.state.to_lowercase()),
            }
        }),
        drain: None,
        cpus: CpuMilli(host.cpus.saturating_mul(1000)),
        cpus_used: CpuMilli(host.cpus_used.saturating_mul(1000)),
        memory: Bytes(host.memory_mebibytes.saturating_mul(MEBIBYTE)),
        memory_used: Bytes(host.memory_used_mebibytes.saturating_mul(MEBIBYTE)),
        devices: models.enumerate().map(device).collect(),
        advance_reservations: Vec::new(),
    }
}
