//! The domains of the network: which nodes each holds, and for each the same indexes that the whole
//! cluster has, kept up to date node by node. Looking for a place within a domain is then looking
//! for a place in a small cluster.
//!
//! A domain is known by the names of all levels down to its own, so that equal names under
//! different parents are different domains. A node that does not name every level is in none. It
//! chooses nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{NodeId, Topology as Wish};
use smallvec::SmallVec;

use super::index::Index;

/// Key of a domain. It carries no order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DomainId(u32);

/// A level by its place from the widest; that of the nodes is the number of levels.
pub(crate) type Level = usize;

/// Where places are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    Cluster,
    Domain(DomainId),
    Node(NodeId),
}

/// One domain.
#[derive(Clone, Debug)]
pub(crate) struct Domain {
    pub(crate) name: Arc<str>,
    /// The wider domain that it lies in.
    pub(crate) parent: Option<DomainId>,
    /// Domains of the next narrower level, by name.
    pub(crate) children: Vec<DomainId>,
    /// Its nodes, by name: a node's rank within the domain is its place here.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) index: Index,
}

/// All levels and domains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Domains {
    levels: Vec<Arc<str>>,
    domains: Vec<Domain>,
    /// By names from the widest level down; those of one level are in order.
    by_path: BTreeMap<(Level, Vec<Arc<str>>), DomainId>,
}

impl Domains {
    pub(crate) fn new(levels: &[Arc<str>]) -> Self {
        Self { levels: levels.to_vec(), ..Self::default() }
    }

    /// Names of the levels, widest first, without the node.
    pub(crate) fn levels(&self) -> &[Arc<str>] {
        &self.levels
    }

    /// A level by name.
    pub(crate) fn level(&self, name: &str) -> Option<Level> {
        match name {
            Wish::NODE => Some(self.levels.len()),
            _ => self.levels.iter().position(|level| **level == *name),
        }
    }

    pub(crate) fn get(&self, id: DomainId) -> &Domain {
        &self.domains[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: DomainId) -> &mut Domain {
        &mut self.domains[id.0 as usize]
    }

    /// The domains of a level, by name from the widest level down. Some may have lost all their
    /// nodes.
    pub(crate) fn of_level(&self, level: Level) -> impl Iterator<Item = DomainId> {
        self.by_path.range((level, Vec::new())..(level + 1, Vec::new())).map(|(_, id)| *id)
    }

    /// The domains that a node with these names is in, widest first; new ones are made.
    pub(crate) fn enter(&mut self, names: &[Arc<str>]) -> SmallVec<[DomainId; 2]> {
        let mut found = SmallVec::new();
        if self.levels.is_empty() || names.len() < self.levels.len() {
            return found;
        }
        let mut parent = None;
        for (level, name) in names[..self.levels.len()].iter().enumerate() {
            let path = names[..=level].to_vec();
            let next = DomainId(self.domains.len() as u32);
            let id = *self.by_path.entry((level, path)).or_insert(next);
            if id == next {
                let (name, children, nodes) = (Arc::clone(name), Vec::new(), Vec::new());
                self.domains.push(Domain {
                    name,
                    parent,
                    children,
                    nodes,
                    index: Index::default(),
                });
                if let Some(parent) = parent {
                    self.adopt(parent, id);
                }
            }
            found.push(id);
            parent = Some(id);
        }
        found
    }

    fn adopt(&mut self, parent: DomainId, child: DomainId) {
        let at = self
            .get(parent)
            .children
            .partition_point(|one| self.get(*one).name < self.get(child).name);
        self.get_mut(parent).children.insert(at, child);
    }
}
