//! Nodes enter and leave topology domains. A change of a node reaches the indexes of the cluster
//! and of its domains lazily, before the next read; no other code reads what the indexes store of a
//! node.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::NodeId;

use super::Pool;
use super::index::{Index, indexed_cpu_only, indexed_state};
use super::node::Interval;
use super::scope::{DomainId, LevelIndex, Scope};
use super::topology::TopologyDomains;

/// Key of a node in the index for tasks without a GPU: free devices, free CPUs, rank of the node,
/// id.
pub(crate) type CpuOnlyKey = (u16, u64, u32, NodeId);

impl Pool {
    /// Sets the levels, widest first, and assigns every node to its domains again.
    pub(crate) fn set_levels(&mut self, levels: &[Arc<str>]) {
        if self.domains.levels() == levels {
            return;
        }
        let ids: Vec<NodeId> = self.by_rank.clone();
        for id in &ids {
            self.leave_domains(*id);
        }
        self.domains = TopologyDomains::new(levels);
        for id in ids {
            self.enter_domains(id);
        }
        self.epoch += 1;
    }

    /// Returns the up-to-date index of all nodes.
    pub(crate) fn index(&mut self) -> &Index {
        self.refresh();
        &self.index
    }

    /// Returns the up-to-date index of a scope; `None` for a single node, which has none.
    pub(crate) fn index_of(&mut self, scope: Scope) -> Option<&Index> {
        self.refresh();
        match scope {
            Scope::Cluster => Some(&self.index),
            Scope::Domain(id) => Some(&self.domains.get(id).index),
            Scope::Node(_) => None,
        }
    }

    /// Returns the node of a rank in a scope's index.
    pub(crate) fn at_rank_of(&self, scope: Scope, rank: u32) -> NodeId {
        match scope {
            Scope::Cluster => self.at_rank(rank),
            Scope::Domain(id) => self.domains.get(id).nodes[rank as usize],
            Scope::Node(id) => id,
        }
    }

    /// Returns the nodes of a scope, by name.
    pub(crate) fn nodes_in(&self, scope: Scope) -> Vec<NodeId> {
        match scope {
            Scope::Cluster => self.by_rank.clone(),
            Scope::Domain(id) => self.domains.get(id).nodes.clone(),
            Scope::Node(id) => vec![id],
        }
    }

    /// Returns the domains of a level within a scope, by name; at the node level, its nodes. If the
    /// scope lies within one domain of the level, the result is the scope itself.
    pub(crate) fn scopes_in(&self, scope: Scope, level: LevelIndex) -> Vec<Scope> {
        let lies_in = |id: &DomainId| {
            let mut above = std::iter::successors(Some(*id), |id| self.domains.get(*id).parent);
            above.any(|one| scope == Scope::Domain(one))
        };
        let is_nodes = level >= self.domains.levels().len();
        match scope {
            Scope::Node(id) if is_nodes || self.node(id).domains.len() > level => vec![scope],
            Scope::Node(_) => Vec::new(),
            _ if is_nodes => self.nodes_in(scope).into_iter().map(Scope::Node).collect(),
            Scope::Cluster => self.domains.of_level(level).map(Scope::Domain).collect(),
            Scope::Domain(id) => match self.level_of(id) {
                own if own >= level => vec![scope],
                own if own + 1 == level => {
                    self.domains.get(id).children.iter().copied().map(Scope::Domain).collect()
                }
                _ => self.domains.of_level(level).filter(lies_in).map(Scope::Domain).collect(),
            },
        }
    }

    /// Returns the domain of a node at a level; `None` if it is in no domain.
    pub(crate) fn scope_at(&self, id: NodeId, level: LevelIndex) -> Option<Scope> {
        if level >= self.domains.levels().len() {
            return Some(Scope::Node(id));
        }
        self.node(id).domains.get(level).map(|(id, _)| Scope::Domain(*id))
    }

    /// Returns the nodes that are in no domain, by name.
    pub(crate) fn nodes_without_domain(&self) -> impl Iterator<Item = NodeId> {
        self.by_rank.iter().copied().filter(|id| self.node(*id).domains.is_empty())
    }

    /// Returns the wider domains of a scope, narrowest first.
    pub(crate) fn above(&self, scope: Scope) -> impl Iterator<Item = DomainId> {
        let parent = match scope {
            Scope::Cluster => None,
            Scope::Domain(id) => self.domains.get(id).parent,
            Scope::Node(id) => self.node(id).domains.last().map(|(id, _)| *id),
        };
        std::iter::successors(parent, |id| self.domains.get(*id).parent)
    }

    fn level_of(&self, id: DomainId) -> LevelIndex {
        std::iter::successors(self.domains.get(id).parent, |id| self.domains.get(*id).parent)
            .count()
    }

    /// Returns the up-to-date index of a scope for tasks without a GPU; `None` for a single node,
    /// which has none.
    pub(crate) fn cpu_only_index_of(&mut self, scope: Scope) -> Option<&BTreeSet<(u16, u64, u32)>> {
        self.refresh_plain();
        match scope {
            Scope::Cluster => Some(&self.index.cpu_only),
            Scope::Domain(id) => Some(&self.domains.get(id).index.cpu_only),
            Scope::Node(_) => None,
        }
    }

    /// Returns the key that a node will have in the index for tasks without a GPU at the beginning
    /// of an interval; `None` if the node takes no work.
    pub(crate) fn cpu_only_key_at(&self, id: NodeId, interval: Interval) -> Option<CpuOnlyKey> {
        let node = self.node(id);
        node.cpu_only_at(interval).map(|(devices, cpus)| (devices, cpus, node.rank, id))
    }

    /// Marks a node as changed: the indexes are updated before the next read.
    pub(crate) fn touch(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0 as usize];
        if !std::mem::replace(&mut node.is_stale, true) {
            self.stale.push(id);
        }
        if !std::mem::replace(&mut node.is_cpu_only_stale, true) {
            self.plain_stale.push(id);
        }
    }

    /// Returns a copy with all indexes up to date.
    pub(crate) fn refreshed(&self) -> Self {
        let mut copy = self.clone();
        copy.refresh();
        copy.refresh_plain();
        copy
    }

    /// Updates the device indexes for all changed nodes.
    pub(crate) fn refresh(&mut self) {
        while let Some(id) = self.stale.pop() {
            self.nodes[id.0 as usize].is_stale = false;
            self.publish(id);
        }
    }

    /// Updates the indexes for tasks without a GPU.
    fn refresh_plain(&mut self) {
        while let Some(id) = self.plain_stale.pop() {
            let node = &mut self.nodes[id.0 as usize];
            node.is_cpu_only_stale = false;
            let present = indexed_cpu_only(node);
            if present == node.cpu_only {
                continue;
            }
            let old = std::mem::replace(&mut node.cpu_only, present);
            self.index.update_cpu_only(node.rank, old, present);
            for (domain, rank) in &node.domains {
                self.domains.get_mut(*domain).index.update_cpu_only(*rank, old, present);
            }
        }
    }

    /// Updates the device indexes for one node.
    fn publish(&mut self, id: NodeId) {
        self.update_kind(id);
        let present = indexed_state(self.node(id));
        if present != self.node(id).published {
            let old = std::mem::replace(&mut self.nodes[id.0 as usize].published, present);
            let node = &self.nodes[id.0 as usize];
            self.index.update(node, node.rank, &old, &node.published);
            for (domain, rank) in &node.domains {
                self.domains.get_mut(*domain).index.update(node, *rank, &old, &node.published);
            }
        }
    }

    /// Removes a node from all indexes.
    pub(crate) fn retire(&mut self, id: NodeId) {
        self.withdraw(id);
        let node = &mut self.nodes[id.0 as usize];
        (node.published, node.cpu_only) = Default::default();
    }

    fn withdraw(&mut self, id: NodeId) {
        let node = &self.nodes[id.0 as usize];
        self.index.leave(node, node.rank);
        for (domain, rank) in &node.domains {
            self.domains.get_mut(*domain).index.leave(node, *rank);
        }
    }

    pub(crate) fn leave_domains(&mut self, id: NodeId) {
        let left = std::mem::take(&mut self.nodes[id.0 as usize].domains);
        for (domain, _) in left {
            self.domains.get_mut(domain).nodes.retain(|node| *node != id);
            self.rebuild(domain);
        }
    }

    pub(crate) fn enter_domains(&mut self, id: NodeId) {
        let names = self.nodes[id.0 as usize].spec.domains.clone();
        for domain in self.domains.enter(&names) {
            let own = self.node(id).rank;
            let nodes = &self.domains.get(domain).nodes;
            let at = nodes.partition_point(|other| self.node(*other).rank < own);
            let is_last = at == nodes.len();
            self.domains.get_mut(domain).nodes.insert(at, id);
            self.nodes[id.0 as usize].domains.push((domain, at as u32));
            if is_last {
                self.domains.get_mut(domain).index.enter(&self.nodes[id.0 as usize], at as u32);
            } else {
                self.rebuild(domain);
            }
        }
    }

    /// Rebuilds the index of a domain after ranks within it changed.
    fn rebuild(&mut self, domain: DomainId) {
        let mut index = Index::default();
        for (rank, id) in self.domains.get(domain).nodes.iter().enumerate() {
            let node = &mut self.nodes[id.0 as usize];
            if let Some(entry) = node.domains.iter_mut().find(|(known, _)| *known == domain) {
                entry.1 = rank as u32;
            }
            index.enter(node, rank as u32);
        }
        self.domains.get_mut(domain).index = index;
    }
}
