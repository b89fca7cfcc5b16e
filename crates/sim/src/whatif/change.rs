//! Changes of a site: added or drained nodes, and other queues. A change enters the engine as the
//! events that would make it.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::{
    Bytes, CpuMilli, Device, Drain, Event, GpuModel, NodeName, NodeSpec, QueueSpec, QueueTree,
};

use super::{Situation, WhatIfError};

/// Changes of a site.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SiteChange {
    /// Nodes that are added.
    pub joined: Vec<NodeSpec>,
    /// Nodes that take no new work; what runs there continues.
    pub drained: Vec<NodeName>,
    /// Other queues, quotas and policies; `None`: unchanged.
    pub tree: Option<QueueTree>,
}

/// A kind of nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeKind {
    /// GPU model and number; `None`: as most nodes of the site.
    pub gpus: Option<(GpuModel, u32)>,
}

/// Reason why a change is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChangeError {
    /// The site has no node as a pattern.
    #[error("the site has no node whose kind new nodes could have")]
    NoNodes,
    /// Fewer nodes exist than are to be removed.
    #[error("the site has too few such nodes: {there} in service")]
    TooFew {
        /// Number of such nodes.
        there: usize,
    },
    /// The queue does not exist.
    #[error("there is no queue `{name}`; the queues are {known}")]
    NoQueue {
        /// Name of the queue.
        name: String,
        /// Names of the existing queues.
        known: String,
    },
    /// A quota without a model where there are several, or of an unknown model.
    #[error("name a GPU model; the models are {known}")]
    WhichModel {
        /// Names of the existing models.
        known: String,
    },
}

impl SiteChange {
    /// Adds nodes under new names.
    pub fn join(&mut self, nodes: Vec<NodeSpec>) {
        for node in nodes {
            let name = format!("new-{}", self.joined.len() + 1).into();
            self.joined.push(NodeSpec { name, ..node });
        }
    }
}

impl Situation {
    /// Returns the situation with a change.
    ///
    /// # Errors
    /// The engine rejects it.
    pub fn with(&self, change: &SiteChange) -> Result<Self, WhatIfError> {
        let mut changed = self.clone();
        let now = self.taken;
        let joined = change.joined.iter().map(|node| Event::NodeJoined(Box::new(node.clone())));
        let drained = change.drained.iter().map(|node| {
            let drain = Drain { from: now, by: None, reason: "what if".into(), stop: false };
            Event::DrainSet { node: node.clone(), devices: None, drain: Some(drain) }
        });
        let tree = change.tree.iter().map(|tree| Event::QueuesSet(Box::new(tree.clone())));
        changed.engine.advance_time(now);
        for event in joined.chain(drained).chain(tree) {
            let refused = |refusal| WhatIfError::Refused { what: what(&event).to_owned(), refusal };
            changed.engine.validate(&event).map_err(refused)?;
            changed.engine.apply(now, &event);
        }
        Ok(changed)
    }

    /// Returns nodes of a kind to be added, together in a new domain of the narrowest level. If no
    /// node is of that kind, CPUs and memory are those of most nodes.
    ///
    /// # Errors
    /// The site has no node.
    pub fn more(&self, count: u32, kind: &NodeKind) -> Result<Vec<NodeSpec>, ChangeError> {
        let nodes: Vec<&NodeSpec> = self.nodes().collect();
        let usual = most_common(&nodes).ok_or(ChangeError::NoNodes)?;
        let like = nodes
            .iter()
            .find(|node| kind.gpus.is_some() && kind.is(node))
            .copied()
            .unwrap_or(usual);
        let (model, gpus) = match &kind.gpus {
            Some((model, gpus)) => (Some(model), *gpus as usize),
            None => (like.devices.first().map(|device| &device.model), like.devices.len()),
        };
        let memory_bytes = like.devices.first().filter(|device| Some(&device.model) == model);
        let device = model.map(|model| {
            Device::declared(model.clone(), memory_bytes.map_or(Bytes(0), |device| device.memory))
        });
        let devices = device.iter().cycle().take(gpus).cloned().collect();
        let mut domains = like.domains.clone();
        if let Some(narrowest) = domains.last_mut() {
            *narrowest = "new".into();
        }
        Ok(vec![NodeSpec { devices, domains, ..like.clone() }; count as usize])
    }

    /// Returns a node of the most common kind in service and the number of such nodes, as many as can
    /// be removed; `None` without a node.
    #[must_use]
    pub fn usual_nodes(&self) -> Option<(NodeSpec, usize)> {
        let site = self.site();
        let nodes: Vec<&NodeSpec> = site.nodes.iter().collect();
        let usual = most_common(&nodes)?;
        let there = nodes.iter().filter(|node| looks(node) == looks(usual)).count();
        Some((usual.clone(), there))
    }

    /// Returns nodes of a kind to be removed, those on which least runs, besides those in `gone`.
    ///
    /// # Errors
    /// There are fewer.
    pub fn fewer(
        &self,
        count: u32,
        kind: &NodeKind,
        gone: &[NodeName],
    ) -> Result<Vec<NodeName>, ChangeError> {
        let site = self.site();
        let nodes: Vec<&NodeSpec> =
            site.nodes.iter().filter(|node| !gone.contains(&node.name)).collect();
        let usual = most_common(&nodes).ok_or(ChangeError::TooFew { there: 0 })?;
        let is_meant = |node: &&&NodeSpec| match kind.gpus {
            Some(_) => kind.is(node),
            None => looks(node) == looks(usual),
        };
        let used: BTreeMap<NodeName, (u64, CpuMilli)> = self
            .engine()
            .nodes()
            .into_iter()
            .map(|view| {
                let gpus: u64 = view.devices.iter().map(|device| u64::from(device.used.0)).sum();
                (view.name, (gpus, view.cpus_used))
            })
            .collect();
        let mut meant: Vec<&NodeName> =
            nodes.iter().filter(is_meant).map(|node| &node.name).collect();
        if meant.len() < count as usize {
            return Err(ChangeError::TooFew { there: meant.len() });
        }
        meant.sort_by_key(|name| used.get(*name).copied().unwrap_or_default());
        Ok(meant.into_iter().take(count as usize).cloned().collect())
    }

    /// Returns the tree with another nominal quota of a queue, on the site with the added nodes.
    /// `None` removes the quota.
    ///
    /// # Errors
    /// The queue does not exist, or the model is ambiguous.
    pub fn with_quota(
        &self,
        mut tree: QueueTree,
        joined: &[NodeSpec],
        queue: &str,
        model: Option<&GpuModel>,
        gpus: Option<u64>,
    ) -> Result<QueueTree, ChangeError> {
        let devices = self.nodes().chain(joined).flat_map(|node| &node.devices);
        let models: BTreeSet<&GpuModel> = devices.map(|device| &device.model).collect();
        let models: Vec<&GpuModel> = models.into_iter().collect();
        let mut known = Vec::new();
        names(&tree.queues, "", &mut known);
        let spec = find(&mut tree.queues, queue).ok_or_else(|| ChangeError::NoQueue {
            name: queue.to_owned(),
            known: known.join(", "),
        })?;
        let model = match (model, models.as_slice(), spec.quota.len()) {
            (Some(model), known, _) if known.contains(&model) || spec.quota.contains_key(model) => {
                model.clone()
            }
            (None, _, 1) => spec.quota.keys().next().expect("there is one").clone(),
            (None, [only], _) => (*only).clone(),
            (_, known, _) => {
                let known: Vec<String> = known.iter().map(ToString::to_string).collect();
                return Err(ChangeError::WhichModel { known: known.join(", ") });
            }
        };
        match gpus {
            Some(gpus) => drop(spec.quota.insert(model, gpus)),
            None => drop(spec.quota.remove(&model)),
        }
        Ok(tree)
    }
}

impl NodeKind {
    fn is(&self, node: &NodeSpec) -> bool {
        self.gpus.as_ref().is_some_and(|(model, count)| {
            node.devices.len() == *count as usize
                && node.devices.iter().all(|device| device.model == *model)
        })
    }
}

/// Returns the subject of a rejection message.
fn what(event: &Event) -> &'static str {
    match event {
        Event::NodeJoined(_) => "the nodes",
        Event::QueuesSet(_) => "the queues",
        _ => "the change",
    }
}

/// Properties that equal nodes share. Memory is not one: what is left of it for jobs differs
/// between machines of one kind.
type NodeLooks<'a> = (Vec<&'a GpuModel>, CpuMilli);

fn looks(node: &NodeSpec) -> NodeLooks<'_> {
    (node.devices.iter().map(|device| &device.model).collect(), node.cpus)
}

/// Returns a node of the most common kind; of several kinds the first.
fn most_common<'a>(nodes: &[&'a NodeSpec]) -> Option<&'a NodeSpec> {
    let mut kinds: BTreeMap<NodeLooks<'_>, usize> = BTreeMap::new();
    for node in nodes {
        *kinds.entry(looks(node)).or_default() += 1;
    }
    let most = kinds.values().max().copied()?;
    nodes.iter().find(|node| kinds[&looks(node)] == most).copied()
}

fn names(queues: &[QueueSpec], above: &str, known: &mut Vec<String>) {
    for queue in queues {
        let path = if above.is_empty() {
            queue.name.to_string()
        } else {
            format!("{above}/{}", queue.name)
        };
        names(&queue.queues, &path, known);
        known.push(path);
    }
}

fn find<'a>(queues: &'a mut [QueueSpec], path: &str) -> Option<&'a mut QueueSpec> {
    let (first, rest) =
        path.split_once('/').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let queue = queues.iter_mut().find(|queue| *queue.name == *first)?;
    match rest {
        None => Some(queue),
        Some(rest) => find(&mut queue.queues, rest),
    }
}
