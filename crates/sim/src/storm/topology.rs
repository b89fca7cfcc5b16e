//! Do the tasks of a gang lie to each other as it wants? By the names of domains alone; it shares
//! no code with the engine.

use std::sync::Arc;

use muster_model::{NodeId, TaskPlacement, Topology, TopologyRule};

use super::book::{Book, Job};
use super::holdings::Host;

/// A domain by the names of all levels down to its own; a node is one by itself.
pub(crate) type Domain = (Vec<Arc<str>>, Option<NodeId>);

/// The domain of a level that a node is in; none where it does not name every level, or there is no
/// such level.
pub(crate) fn domain(levels: &[Arc<str>], host: &Host, id: NodeId, level: &str) -> Option<Domain> {
    if level == Topology::NODE {
        return Some((Vec::new(), Some(id)));
    }
    let at = levels.iter().position(|known| **known == *level)?;
    let names = host.spec.domains.get(..=at).filter(|_| host.spec.domains.len() >= levels.len())?;
    Some((names.to_vec(), None))
}

/// What must hold of a placement; wishes are not judged.
pub(crate) fn judge(book: &Book, job: &Job, placement: &[TaskPlacement]) -> Result<(), String> {
    let Some(wish) = &job.spec.constraint.topology else { return Ok(()) };
    let of = |place: &TaskPlacement, level: &str| {
        let host = book.nodes.get(place.node.0 as usize)?;
        domain(&book.levels, host, place.node, level)
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
                return Err(format!("with a slice in more than one {}", segment.level));
            }
        }
    }
    Ok(())
}
