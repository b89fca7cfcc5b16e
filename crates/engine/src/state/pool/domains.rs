//! Nodes enter and leave domains, and every change of a node reaches the indexes of the cluster and
//! of its domains: not when it is made, but before they are asked next. Nobody else reads what they
//! say of a node.

use std::collections::BTreeSet;
use std::sync::Arc;

use muster_model::NodeId;

use super::Pool;
use crate::state::index::{Index, describe, describe_plain};
use crate::state::node::Window;
use crate::state::topology::{DomainId, Domains, Level, Scope};

/// A node in the index for tasks without a GPU: free devices, free CPUs, its rank, and which it is.
pub(crate) type PlainKey = (u16, u64, u32, NodeId);

impl Pool {
    /// Sets the levels, widest first; every node finds its domains anew.
    pub(crate) fn set_levels(&mut self, levels: &[Arc<str>]) {
        if self.domains.levels() == levels {
            return;
        }
        let ids: Vec<NodeId> = self.by_rank.clone();
        for id in &ids {
            self.leave_domains(*id);
        }
        self.domains = Domains::new(levels);
        for id in ids {
            self.enter_domains(id);
        }
        self.epoch += 1;
    }

    /// The index of all nodes, as they are now.
    pub(crate) fn index(&mut self) -> &Index {
        self.refresh();
        &self.index
    }

    /// The index of a scope, as its nodes are now; a node has none of its own.
    pub(crate) fn index_of(&mut self, scope: Scope) -> Option<&Index> {
        self.refresh();
        match scope {
            Scope::Cluster => Some(&self.index),
            Scope::Domain(id) => Some(&self.domains.get(id).index),
            Scope::Node(_) => None,
        }
    }

    /// The node of a rank in a scope's index.
    pub(crate) fn at_rank_of(&self, scope: Scope, rank: u32) -> NodeId {
        match scope {
            Scope::Cluster => self.at_rank(rank),
            Scope::Domain(id) => self.domains.get(id).nodes[rank as usize],
            Scope::Node(id) => id,
        }
    }

    /// Nodes of a scope, by name.
    pub(crate) fn nodes_in(&self, scope: Scope) -> Vec<NodeId> {
        match scope {
            Scope::Cluster => self.by_rank.clone(),
            Scope::Domain(id) => self.domains.get(id).nodes.clone(),
            Scope::Node(id) => vec![id],
        }
    }

    /// The domains of a level that lie in a scope, by name; at the level of the nodes, its nodes. A
    /// scope that lies in a domain of the level itself stands for its part of that.
    pub(crate) fn scopes_in(&self, scope: Scope, level: Level) -> Vec<Scope> {
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

    /// Where a node lies at a level; `None` when it is in no domain.
    pub(crate) fn scope_at(&self, id: NodeId, level: Level) -> Option<Scope> {
        match level >= self.domains.levels().len() {
            true => Some(Scope::Node(id)),
            false => self.node(id).domains.get(level).map(|(id, _)| Scope::Domain(*id)),
        }
    }

    /// Nodes that are in no domain, by name.
    pub(crate) fn loners(&self) -> impl Iterator<Item = NodeId> {
        self.by_rank.iter().copied().filter(|id| self.node(*id).domains.is_empty())
    }

    /// The wider domains of a scope, the narrowest first.
    pub(crate) fn above(&self, scope: Scope) -> impl Iterator<Item = DomainId> {
        let parent = match scope {
            Scope::Cluster => None,
            Scope::Domain(id) => self.domains.get(id).parent,
            Scope::Node(id) => self.node(id).domains.last().map(|(id, _)| *id),
        };
        std::iter::successors(parent, |id| self.domains.get(*id).parent)
    }

    fn level_of(&self, id: DomainId) -> Level {
        std::iter::successors(self.domains.get(id).parent, |id| self.domains.get(*id).parent)
            .count()
    }

    /// The index of a scope for tasks without a GPU, as its nodes are now; a node has none of its
    /// own.
    pub(crate) fn plain_of(&mut self, scope: Scope) -> Option<&BTreeSet<(u16, u64, u32)>> {
        self.refresh_plain();
        match scope {
            Scope::Cluster => Some(&self.index.plain),
            Scope::Domain(id) => Some(&self.domains.get(id).index.plain),
            Scope::Node(_) => None,
        }
    }

    /// What the index of all nodes would say of one to tasks without a GPU at the beginning of a
    /// window. `None` where it takes no work.
    pub(crate) fn plain_ahead(&self, id: NodeId, window: Window) -> Option<PlainKey> {
        let node = self.node(id);
        node.plain_by(window).map(|(devices, cpus)| (devices, cpus, node.rank, id))
    }

    /// A node changes: the indexes follow when they are asked next.
    pub(super) fn touch(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.0 as usize];
        if !std::mem::replace(&mut node.is_stale, true) {
            self.stale.push(id);
        }
        if !std::mem::replace(&mut node.is_plain_stale, true) {
            self.plain_stale.push(id);
        }
    }

    /// A copy with all its indexes up to date.
    pub(crate) fn refreshed(&self) -> Self {
        let mut copy = self.clone();
        copy.refresh();
        copy.refresh_plain();
        copy
    }

    /// Brings the indexes up to date with the devices of all nodes that changed.
    pub(crate) fn refresh(&mut self) {
        while let Some(id) = self.stale.pop() {
            self.nodes[id.0 as usize].is_stale = false;
            self.publish(id);
        }
    }

    /// The same for tasks without a GPU.
    fn refresh_plain(&mut self) {
        while let Some(id) = self.plain_stale.pop() {
            let node = &mut self.nodes[id.0 as usize];
            node.is_plain_stale = false;
            let present = describe_plain(node);
            if present == node.plain {
                continue;
            }
            let old = std::mem::replace(&mut node.plain, present);
            self.index.update_plain(node.rank, old, present);
            for (domain, rank) in &node.domains {
                self.domains.get_mut(*domain).index.update_plain(*rank, old, present);
            }
        }
    }

    /// Brings the indexes up to date with the devices of a node.
    fn publish(&mut self, id: NodeId) {
        self.update_kind(id);
        let present = describe(self.node(id));
        if present != self.node(id).published {
            let old = std::mem::replace(&mut self.nodes[id.0 as usize].published, present);
            let node = &self.nodes[id.0 as usize];
            self.index.update(node, node.rank, &old, &node.published);
            for (domain, rank) in &node.domains {
                self.domains.get_mut(*domain).index.update(node, *rank, &old, &node.published);
            }
        }
    }

    /// Takes a node out of all indexes.
    pub(super) fn retire(&mut self, id: NodeId) {
        self.withdraw(id);
        let node = &mut self.nodes[id.0 as usize];
        (node.published, node.plain) = Default::default();
    }

    fn withdraw(&mut self, id: NodeId) {
        let node = &self.nodes[id.0 as usize];
        self.index.leave(node, node.rank);
        for (domain, rank) in &node.domains {
            self.domains.get_mut(*domain).index.leave(node, *rank);
        }
    }

    pub(super) fn leave_domains(&mut self, id: NodeId) {
        let left = std::mem::take(&mut self.nodes[id.0 as usize].domains);
        for (domain, _) in left {
            self.domains.get_mut(domain).nodes.retain(|node| *node != id);
            self.rebuild(domain);
        }
    }

    pub(super) fn enter_domains(&mut self, id: NodeId) {
        let names = self.nodes[id.0 as usize].spec.domains.clone();
        for domain in self.domains.enter(&names) {
            let own = self.node(id).rank;
            let nodes = &self.domains.get(domain).nodes;
            let at = nodes.partition_point(|other| self.node(*other).rank < own);
            let is_last = at == nodes.len();
            self.domains.get_mut(domain).nodes.insert(at, id);
            self.nodes[id.0 as usize].domains.push((domain, at as u32));
            match is_last {
                true => {
                    self.domains.get_mut(domain).index.enter(&self.nodes[id.0 as usize], at as u32)
                }
                false => self.rebuild(domain),
            }
        }
    }

    /// Ranks within a domain changed: its index is made anew.
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
