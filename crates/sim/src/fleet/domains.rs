//! Topology domains of nodes: racks, blocks, any levels a site has. It only counts; placements are
//! chosen elsewhere.

use std::collections::BTreeMap;
use std::sync::Arc;

use muster_model::NodeId;
use muster_model::job::Resources;
use muster_model::simulation::LevelSpread;

use super::load::FleetJob;
use super::pool::Pool;
use super::site::FleetSite;

/// Topology domains of a site.
#[derive(Clone, Debug, Default)]
pub struct Domains {
    levels: Vec<Arc<str>>,
    /// Domain numbers of each node by level, widest first; empty without levels. Nodes that name no
    /// domain share one.
    paths: Vec<Vec<u32>>,
}

impl Domains {
    /// Numbers the domains of each level; domains of the same name below different ones differ.
    #[must_use]
    pub fn new(site: &FleetSite) -> Self {
        if site.levels.is_empty() {
            return Self::default();
        }
        let mut known: BTreeMap<(usize, &[Arc<str>]), u32> = BTreeMap::new();
        let mut paths = Vec::new();
        for node in &site.nodes {
            let numbered = (1..=site.levels.len()).map(|depth| {
                let next = known.len() as u32;
                *known
                    .entry((depth, &node.domains[..depth.min(node.domains.len())]))
                    .or_insert(next)
            });
            paths.push(numbered.collect());
        }
        Self { levels: site.levels.clone(), paths }
    }

    /// Returns the domain of a level that a node is in.
    #[must_use]
    pub fn of(&self, node: NodeId, level: usize) -> u32 {
        self.paths[node.0 as usize][level]
    }

    /// Returns the number of levels.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.levels.len()
    }

    /// Returns the number of domains of each level that these nodes are in.
    pub(super) fn spanned(&self, nodes: impl Iterator<Item = NodeId> + Clone) -> Vec<u32> {
        let at = |level: usize| {
            let mut domains: Vec<u32> = nodes.clone().map(|node| self.of(node, level)).collect();
            domains.sort_unstable();
            domains.dedup();
            domains.len() as u32
        };
        (0..self.depth()).map(at).collect()
    }

    /// Returns the fewest domains of each level that could host the tasks if all were idle, taking
    /// the roomiest first.
    fn fewest(&self, idle: &Pool, task: &Resources, tasks: u32) -> Vec<u32> {
        let at = |level: usize| {
            let mut capacities: BTreeMap<u32, u64> = BTreeMap::new();
            for (id, node) in idle.nodes() {
                *capacities.entry(self.of(id, level)).or_default() +=
                    u64::from(node.capacity(task, tasks));
            }
            let mut capacities: Vec<u64> = capacities.into_values().collect();
            capacities.sort_unstable_by(|one, other| other.cmp(one));
            let before = capacities.iter().scan(0, |sum, capacity| {
                let before = *sum;
                *sum += capacity;
                Some(before)
            });
            before.take_while(|before| *before < u64::from(tasks)).count().max(1) as u32
        };
        (0..self.depth()).map(at).collect()
    }

    /// Returns, by level, domains that jobs of several tasks ran in ÷ the fewest that could have
    /// hosted them on the idle pool, as the mean over these jobs. `jobs` have the number of domains
    /// of each level in their last start.
    pub(super) fn spreads<'j>(
        &self,
        idle: impl FnOnce() -> Pool,
        jobs: impl Iterator<Item = (&'j FleetJob, &'j [u32])>,
    ) -> Vec<LevelSpread> {
        if self.levels.is_empty() {
            return Vec::new();
        }
        let idle = idle();
        let mut known: BTreeMap<(u32, &Resources), Vec<u32>> = BTreeMap::new();
        let mut sums = vec![0.0; self.depth()];
        let mut count = 0.0;
        for (spec, spanned) in jobs {
            if spec.tasks < 2 || spanned.is_empty() {
                continue;
            }
            let fewest = known
                .entry((spec.tasks, &spec.task))
                .or_insert_with(|| self.fewest(&idle, &spec.task, spec.tasks));
            for ((sum, spanned), fewest) in sums.iter_mut().zip(spanned).zip(fewest) {
                *sum += f64::from(*spanned) / f64::from(*fewest);
            }
            count += 1.0;
        }
        let mean = |sum: f64| if count > 0.0 { sum / count } else { 1.0 };
        let levels = self.levels.iter().zip(sums);
        levels
            .map(|(level, sum)| LevelSpread { level: level.to_string(), spread: mean(sum) })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use muster_model::job::GpuRequest;
    use muster_model::{Bytes, CpuMilli, Device, NodeSpec, QueueTree};

    use super::*;

    /// Nodes with this many GPUs each, in these blocks and racks.
    fn site(nodes: &[(usize, &str, &str)]) -> FleetSite {
        let device = Device::declared("a100", Bytes(0));
        let node = |(gpus, block, rack): &(usize, &str, &str)| NodeSpec {
            devices: vec![device.clone(); *gpus],
            domains: vec![(*block).into(), (*rack).into()],
            ..NodeSpec::plain(format!("{block}-{rack}-{gpus}"), CpuMilli(64_000), Bytes(0))
        };
        let levels = vec!["block".into(), "rack".into()];
        FleetSite { nodes: nodes.iter().map(node).collect(), levels, tree: QueueTree::single() }
    }

    #[test]
    fn racks_of_one_name_in_different_blocks_differ_and_the_emptiest_is_first() {
        let site = site(&[(8, "a", "r1"), (8, "a", "r1"), (8, "a", "r2"), (8, "b", "r1")]);
        let domains = Domains::new(&site);
        let spanned = |nodes: &[u32]| domains.spanned(nodes.iter().copied().map(NodeId));
        assert_eq!(spanned(&[0, 1]), [1, 1]);
        assert_eq!(spanned(&[0, 2]), [1, 2]);
        assert_eq!(spanned(&[0, 3]), [2, 2]);
        let whole = Resources { gpu: GpuRequest::whole(8), ..Resources::default() };
        let fewest = |tasks| domains.fewest(&Pool::new(&site.nodes), &whole, tasks);
        assert_eq!(fewest(2), [1, 1]);
        assert_eq!(fewest(3), [1, 2]);
        assert_eq!(fewest(4), [2, 3]);
    }
}
