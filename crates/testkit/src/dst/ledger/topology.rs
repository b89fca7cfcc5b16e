//! Checks the topology constraint of a gang by the names of domains alone. It shares no code with
//! the engine.

use std::sync::Arc;

use muster_model::{NodeId, TaskPlacement, Topology, TopologyRule};

use super::nodes::LedgerNode;
use super::{Ledger, LedgerJob};

/// A domain by the names of all levels down to its own; at node level, the node.
pub(crate) type LedgerDomain = (Vec<Arc<str>>, Option<NodeId>);

/// Returns the domain of a level that a node is in; `None` if the node does not name every level,
/// or the level does not exist.
pub(crate) fn domain(
    levels: &[Arc<str>],
    host: &LedgerNode,
    id: NodeId,
    level: &str,
) -> Option<LedgerDomain> {
    if level == Topology::NODE {
        return Some((Vec::new(), Some(id)));
    }
    let at = levels.iter().position(|known| **known == *level)?;
    let names = host.spec.domains.get(..=at).filter(|_| host.spec.domains.len() >= levels.len())?;
    Some((names.to_vec(), None))
}

/// Checks a placement against the required topology; preferences are not checked.
pub(crate) fn check(
    ledger: &Ledger,
    job: &LedgerJob,
    placement: &[TaskPlacement],
) -> Result<(), String> {
    let Some(wish) = &job.spec.constraint.topology else { return Ok(()) };
    let of = |place: &TaskPlacement, level: &str| {
        let host = ledger.nodes.get(place.node.0 as usize)?;
        domain(&ledger.levels, host, place.node, level)
    };
    let together = |places: &[&TaskPlacement], level: &str| {
        let first = places.first().and_then(|place| of(place, level));
        first.is_some() && places.iter().all(|place| of(place, level) == first)
    };
    let all: Vec<&TaskPlacement> = placement.iter().collect();
    if let TopologyRule::Required(level) = &wish.rule
        && !together(&all, level)
    {
        return Err(format!("in more than one {level}"));
    }
    if let Some(segment) = &wish.segment {
        for group in 0..job.spec.groups.len() as u16 {
            let ranks: Vec<&TaskPlacement> =
                placement.iter().filter(|place| place.group == group).collect();
            if ranks.chunks(segment.tasks as usize).any(|slice| !together(slice, &segment.level)) {
                return Err(format!("with a segment in more than one {}", segment.level));
            }
        }
    }
    Ok(())
}
