//! Where the tasks of a gang go, and that they all go there: what the models of gang schedulers
//! have in common. Which node is liked best is theirs to say.

use muster_model::NodeId;
use muster_model::job::Resources;

use crate::fleet::{Desk, JobNo, PlaneError, Pool, PoolNode};

/// A node with room for tasks of the gang.
struct Seat {
    node: NodeId,
    /// For so many more.
    room: u32,
    /// Tasks of the gang that are there so far.
    placed: u32,
    score: u64,
}

/// A node for each task, one task after the other to the node with the highest score: `score` is
/// told how many tasks of the gang the node has already, and of several equals `tie` says which.
/// `None` where not all have room.
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
        let open = || seats.iter().enumerate().filter(|(_, seat)| seat.room > 0);
        let highest = open().map(|(_, seat)| seat.score).max()?;
        let mut equals = open().filter(|(_, seat)| seat.score == highest);
        let which = match equals.clone().count() as u64 {
            1 => 0,
            count => tie(count),
        };
        let (at, _) = equals.nth(which as usize)?;
        let seat = &mut seats[at];
        (seat.room, seat.placed) = (seat.room - 1, seat.placed + 1);
        seat.score = score(pool.node(seat.node), seat.placed);
        places.push(seat.node);
    }
    Some(places)
}

/// Nodes with room for tasks of a gang; `None` where all of them together have not enough.
fn seats(pool: &Pool, task: &Resources, tasks: u32) -> Option<Vec<Seat>> {
    let of = |(node, there): (NodeId, &PoolNode)| {
        let room = there.room(task, tasks);
        (room > 0).then_some(Seat { node, room, placed: 0, score: 0 })
    };
    let seats: Vec<Seat> = pool.nodes().filter_map(of).collect();
    let room: u64 = seats.iter().map(|seat| u64::from(seat.room)).sum();
    (room >= u64::from(tasks)).then_some(seats)
}

/// Tasks of a job that hold nothing.
pub(super) fn missing(desk: &Desk, job: JobNo) -> Vec<u32> {
    (0..desk.job(job).tasks).filter(|rank| desk.place_of(job, *rank).is_none()).collect()
}

/// Places the tasks that hold nothing, in order of rank.
///
/// # Errors
/// There is no room: whoever made the plan has a defect.
pub(super) fn seat(desk: &mut Desk, job: JobNo, places: &[NodeId]) -> Result<(), PlaneError> {
    for (rank, node) in missing(desk, job).into_iter().zip(places) {
        if !desk.place(job, rank, *node)? {
            let node = desk.pool().node(*node).spec.name.to_string();
            return Err(PlaneError::NotFree { job: desk.job(job).id.to_string(), rank, node });
        }
    }
    Ok(())
}
