//! Topology domains: the nodes of each, and for each the same indexes as for the whole cluster,
//! kept up to date node by node. A search within a domain is then a search in a small cluster.
//!
//! A domain is identified by the names of all levels down to its own, so equal names under
//! different parents are different domains. A node that does not name every level is in no domain.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::{NodeId, Topology as Wish};
use smallvec::SmallVec;

use super::index::Index;
use super::scope::{DomainId, LevelIndex};

/// Topology domain at one level.
#[derive(Clone, Debug)]
pub(crate) struct TopologyDomain {
    pub(crate) name: Arc<str>,
    /// Wider domain that contains it.
    pub(crate) parent: Option<DomainId>,
    /// Domains of the next narrower level, by name.
    pub(crate) children: Vec<DomainId>,
    /// Nodes by name: the rank of a node within the domain is its position here.
    pub(crate) nodes: Vec<NodeId>,
    pub(crate) index: Index,
}

/// All levels and domains.
#[derive(Clone, Debug, Default)]
pub(crate) struct TopologyDomains {
    levels: Vec<Arc<str>>,
    domains: Vec<TopologyDomain>,
    /// Domains by level and path of names; those of one level are ordered by path.
    by_path: BTreeMap<(LevelIndex, Vec<Arc<str>>), DomainId>,
}

impl TopologyDomains {
    pub(crate) fn new(levels: &[Arc<str>]) -> Self {
        Self { levels: levels.to_vec(), ..Self::default() }
    }

    /// Returns the names of the levels, widest first, without the node level.
    pub(crate) fn levels(&self) -> &[Arc<str>] {
        &self.levels
    }

    /// Returns a level by name.
    pub(crate) fn level(&self, name: &str) -> Option<LevelIndex> {
        match name {
            Wish::NODE => Some(self.levels.len()),
            _ => self.levels.iter().position(|level| **level == *name),
        }
    }

    pub(crate) fn get(&self, id: DomainId) -> &TopologyDomain {
        &self.domains[id.0 as usize]
    }

    pub(crate) fn get_mut(&mut self, id: DomainId) -> &mut TopologyDomain {
        &mut self.domains[id.0 as usize]
    }

    /// Returns the domains of a level, by path. Some may have lost all their nodes.
    pub(crate) fn of_level(&self, level: LevelIndex) -> impl Iterator<Item = DomainId> {
        self.by_path.range((level, Vec::new())..(level + 1, Vec::new())).map(|(_, id)| *id)
    }

    /// Returns the domains of a node with these names, widest first, and creates new ones.
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
                self.domains.push(TopologyDomain {
                    name: Arc::clone(name),
                    parent,
                    children: Vec::new(),
                    nodes: Vec::new(),
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
