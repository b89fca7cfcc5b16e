//! Placement of gangs, all tasks or none, shared by the models of gang schedulers. The score of a
//! node is up to each model.

use muster_model::NodeId;
use muster_model::job::Resources;

use crate::fleet::{ClusterState, JobNo, Pool, PoolNode, SchedulerError};

/// A node that can host tasks of the gang.
struct CandidateNode {
    node: NodeId,
    /// Number of further tasks that fit.
    capacity: u32,
    /// Tasks of the gang on the node so far.
    placed: u32,
    score: u64,
}

/// Returns a node for each task, one task after the other on the node with the highest score.
/// `score` gets the number of tasks of the gang on the node so far; `tie` chooses among equals.
/// `None` if not all fit.
pub(super) fn places(
    pool: &Pool,
    task: &Resources,
    tasks: u32,
    score: impl Fn(&PoolNode, u32) -> u64,
    mut tie: impl FnMut(u64) -> u64,
) -> Option<Vec<NodeId>> {
    let mut seats = seats(pool, task, tasks)?;
    for seat in &mut seats {
        seat.score = score(pool.node(seat.node), 0);
    }
    let mut places = Vec::with_capacity(tasks as usize);
    for _ in 0..tasks {
        let open = || seats.iter().enumerate().filter(|(_, seat)| seat.capacity > 0);
        let highest = open().map(|(_, seat)| seat.score).max()?;
        let mut equals = open().filter(|(_, seat)| seat.score == highest);
        let which = match equals.clone().count() as u64 {
            1 => 0,
            count => tie(count),
        };
        let (at, _) = equals.nth(which as usize)?;
        let seat = &mut seats[at];
        (seat.capacity, seat.placed) = (seat.capacity - 1, seat.placed + 1);
        seat.score = score(pool.node(seat.node), seat.placed);
        places.push(seat.node);
    }
    Some(places)
}

/// Returns the nodes that can host tasks of a gang; `None` if all of them together are not enough.
fn seats(pool: &Pool, task: &Resources, tasks: u32) -> Option<Vec<CandidateNode>> {
    let of = |(node, there): (NodeId, &PoolNode)| {
        let capacity = there.capacity(task, tasks);
        (capacity > 0).then_some(CandidateNode { node, capacity, placed: 0, score: 0 })
    };
    let seats: Vec<CandidateNode> = pool.nodes().filter_map(of).collect();
    let capacity: u64 = seats.iter().map(|seat| u64::from(seat.capacity)).sum();
    (capacity >= u64::from(tasks)).then_some(seats)
}

/// Returns the ranks of a job that hold nothing.
pub(super) fn missing_ranks(cluster: &ClusterState, job: JobNo) -> Vec<u32> {
    (0..cluster.job(job).tasks).filter(|rank| cluster.place_of(job, *rank).is_none()).collect()
}

/// Places the tasks that hold nothing, in order of rank.
///
/// # Errors
/// A task does not fit: a defect of the caller's plan.
pub(super) fn seat(
    cluster: &mut ClusterState,
    job: JobNo,
    places: &[NodeId],
) -> Result<(), SchedulerError> {
    for (rank, node) in missing_ranks(cluster, job).into_iter().zip(places) {
        if !cluster.place(job, rank, *node)? {
            let node = cluster.pool().node(*node).spec.name.to_string();
            return Err(SchedulerError::NotFree {
                job: cluster.job(job).id.to_string(),
                rank,
                node,
            });
        }
    }
    Ok(())
}
