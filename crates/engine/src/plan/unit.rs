//! Domains as units to be filled: how many tasks of a group each takes, and which are taken: as few
//! as can be, or as evenly as can be. Counting only; it holds nothing.
//!
//! Tasks of one group are alike, and nodes take them independently of each other, so a unit's
//! capacity is the sum over its nodes, and the fewest units that suffice are the largest. Which of
//! several sets of so many is taken: the one that lies in the narrowest wider domain, the least
//! free one of these; in it the least free units that still make do, so that what is left over
//! stays together where it is most.

use muster_model::NodeId;
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::gang::Gang;
use super::search;
use crate::state::pool::Pool;
use crate::state::topology::{DomainId, Level, Scope};

/// What holds for the whole gang.
pub(super) struct Terms {
    /// Models that some group may use; empty for a gang without GPUs.
    pub(super) models: SmallVec<[ModelId; 2]>,
    /// Slices of so many consecutive ranks, each in one domain of a level.
    pub(super) segment: Option<(Level, u32)>,
    /// Below this level a scope is filled without regard to domains.
    pub(super) end: Level,
}

/// How much is free; less is taken first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tightness {
    free: (u64, u64),
    /// Of the wider domains, narrow to wide: a larger gang may want one of them whole.
    above: SmallVec<[(u64, u64); 2]>,
    /// Where equally much is free, a larger domain may come to host more.
    nodes: usize,
}

/// A domain to be filled.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    pub(super) scope: Scope,
    /// Tasks of the group that it takes, whole segments and blocks only.
    capacity: u64,
    tightness: Tightness,
    /// Its place by name.
    order: usize,
}

/// In so many units or more, all but the last are simply the largest: to weigh them costs more than
/// it brings.
const MOST_WEIGHED: usize = 32;

pub(super) fn tightness(pool: &mut Pool, terms: &Terms, scope: Scope) -> Tightness {
    let above: SmallVec<[DomainId; 2]> = pool.above(scope).collect();
    let above = above.into_iter().map(|wide| free(pool, terms, Scope::Domain(wide))).collect();
    let nodes = match scope {
        Scope::Domain(id) => pool.domains.get(id).nodes.len(),
        Scope::Cluster | Scope::Node(_) => 1,
    };
    Tightness { free: free(pool, terms, scope), above, nodes }
}

/// Free devices of the models in question, unbooked; without any, free devices of all models and
/// free CPUs.
fn free(pool: &mut Pool, terms: &Terms, scope: Scope) -> (u64, u64) {
    if terms.models.is_empty()
        && let Some(index) = pool.plain_of(scope)
    {
        let sum = |(devices, cpus), (more, free, _): &(u16, u64, u32)| {
            (devices + u64::from(*more), cpus + free)
        };
        return index.iter().fold((0, 0), sum);
    }
    match (pool.index_of(scope), scope) {
        (Some(index), _) => {
            let indexes = terms.models.iter().filter_map(|model| index.model(*model));
            (
                indexes
                    .flat_map(|index| index.clear.sizes())
                    .map(|(free, nodes)| free * nodes)
                    .sum(),
                0,
            )
        }
        (None, Scope::Node(id)) => {
            let node = pool.node(id);
            let free = node.free().minus(node.booked);
            match terms.models.is_empty() {
                true => (u64::from(free.len()), node.limit.cpus.saturating_sub(node.used.cpus)),
                false => (
                    terms
                        .models
                        .iter()
                        .map(|model| u64::from(free.and(node.of_model(*model)).len()))
                        .sum(),
                    0,
                ),
            }
        }
        (None, _) => (0, 0),
    }
}

/// The domains of a level within a scope that take any task of a group. Nodes in no domain are
/// units by themselves, unless slices must be in one.
pub(super) fn units(
    gang: &mut Gang<'_>,
    terms: &Terms,
    group: u16,
    scope: Scope,
    level: Level,
) -> Vec<Unit> {
    let pool = &*gang.pool;
    let mut scopes = pool.scopes_in(scope, level);
    if scope == Scope::Cluster && level < pool.domains.levels().len() && terms.segment.is_none() {
        scopes.extend(pool.loners().map(Scope::Node));
    }
    let capacities =
        scopes.into_iter().map(|scope| (scope, capacity(gang, terms, group, scope, level)));
    let useful: Vec<(Scope, u64)> = capacities.filter(|(_, capacity)| *capacity > 0).collect();
    let unit = |(order, (scope, capacity))| Unit {
        scope,
        capacity,
        tightness: tightness(gang.pool, terms, scope),
        order,
    };
    let mut units: Vec<Unit> = useful.into_iter().enumerate().map(unit).collect();
    units.sort_by(|one, other| one.tightness.cmp(&other.tightness));
    units
}

/// How many tasks of a group a domain of a level takes.
fn capacity(gang: &Gang<'_>, terms: &Terms, group: u16, scope: Scope, level: Level) -> u64 {
    let plain = |scope| {
        let nodes = gang.pool.nodes_in(scope).into_iter();
        nodes.map(|node| on_node(gang, group, node)).fold(0, u64::saturating_add)
    };
    match terms.segment {
        Some((narrow, tasks)) if level <= narrow => {
            let whole = |scope| plain(scope) / u64::from(tasks) * u64::from(tasks);
            match level == narrow {
                true => whole(scope),
                false => gang
                    .pool
                    .scopes_in(scope, narrow)
                    .into_iter()
                    .map(whole)
                    .fold(0, u64::saturating_add),
            }
        }
        _ => plain(scope),
    }
}

/// How many tasks of a group a node takes, over all models of the try.
fn on_node(gang: &Gang<'_>, group: u16, node: NodeId) -> u64 {
    let need = &gang.ask.shape.groups[usize::from(group)];
    let room = |model| u64::from(search::room(gang, need, model, node, u32::MAX));
    if !need.wants_gpu() {
        return room(None);
    }
    let models = gang.ask.pick.models[usize::from(group)].iter();
    let rooms = models.map(|model| room(Some(*model)));
    match need.per_node {
        // All tasks of a block are of one model.
        Some(_) => rooms.max().unwrap_or(0),
        None => match rooms.sum::<u64>() {
            0 => 0,
            sum => sum.min(u64::from(gang.scalar_room(node, need))),
        },
    }
}

/// As few units as can be for so many tasks, and how many tasks each takes; `None` when all
/// together do not suffice.
pub(super) fn fewest(
    pool: &mut Pool,
    terms: &Terms,
    units: Vec<Unit>,
    tasks: u32,
) -> Option<Vec<(Scope, u32)>> {
    // 1. How many it takes, and those among them that lie closest together.
    let count = count_needed(&units, tasks)?;
    let mut units = match count {
        0 | 1 => units,
        _ => together(pool, terms, &units, count, tasks).unwrap_or(units),
    };
    // 2. One by one the tightest with which the largest others make do.
    let mut left = u64::from(tasks);
    let mut chosen = Vec::new();
    for others in (0..count).rev() {
        let at = match others >= MOST_WEIGHED {
            true => {
                (0..units.len()).max_by_key(|at| (units[*at].capacity, std::cmp::Reverse(*at)))?
            }
            false => tightest(&units, others, left)?,
        };
        let unit = units.remove(at);
        let taken = unit.capacity.min(left);
        left -= taken;
        chosen.push((unit.scope, taken as u32));
    }
    (left == 0).then_some(chosen)
}

/// How many of the largest suffice.
fn count_needed(units: &[Unit], tasks: u32) -> Option<usize> {
    let mut sum = 0u64;
    let largest = descending(units);
    let sums = largest.iter().map(|capacity| {
        sum = sum.saturating_add(*capacity);
        sum
    });
    let enough = sums.take_while(|sum| *sum < u64::from(tasks)).count() + 1;
    (enough <= units.len()).then_some(enough)
}

fn descending(units: &[Unit]) -> Vec<u64> {
    let mut capacities: Vec<u64> = units.iter().map(|unit| unit.capacity).collect();
    capacities.sort_unstable_by_key(|capacity| std::cmp::Reverse(*capacity));
    capacities
}

/// The first unit with which so many largest others take what is left.
fn tightest(units: &[Unit], others: usize, left: u64) -> Option<usize> {
    let largest = descending(units);
    let sum =
        |count: usize| largest.iter().take(count).fold(0u64, |sum, one| sum.saturating_add(*one));
    let (with, without) = (sum(others + 1), sum(others));
    let is_among = |unit: &Unit| {
        others > 0 && largest.get(others - 1).is_some_and(|least| unit.capacity >= *least)
    };
    units.iter().position(|unit| match is_among(unit) {
        true => with >= left,
        false => without.saturating_add(unit.capacity) >= left,
    })
}

/// Units of the narrowest wider domain of which so many suffice.
fn together(
    pool: &mut Pool,
    terms: &Terms,
    units: &[Unit],
    count: usize,
    tasks: u32,
) -> Option<Vec<Unit>> {
    for depth in 0.. {
        let mut wide: Vec<(DomainId, Vec<Unit>)> = Vec::new();
        for unit in units {
            let Some(above) = pool.above(unit.scope).nth(depth) else { continue };
            match wide.iter_mut().find(|(known, _)| *known == above) {
                Some((_, inside)) => inside.push(unit.clone()),
                None => wide.push((above, vec![unit.clone()])),
            }
        }
        if wide.is_empty() {
            return None;
        }
        wide.retain(|(_, inside)| {
            count_needed(inside, tasks).is_some_and(|needed| needed <= count)
        });
        let first_by_name = |inside: &[Unit]| inside.iter().map(|unit| unit.order).min();
        let key = |(id, inside): &(DomainId, Vec<Unit>)| {
            (tightness(pool, terms, Scope::Domain(*id)), first_by_name(inside))
        };
        if let Some((_, inside)) = wide.into_iter().min_by_key(key) {
            return Some(inside);
        }
    }
    None
}

/// Tasks over as many units as can be, evenly, in blocks of so many; `None` when there is not room
/// for all.
pub(super) fn evenly(mut units: Vec<Unit>, tasks: u32, block: u32) -> Option<Vec<(Scope, u32)>> {
    let block = u64::from(block.max(1));
    for unit in &mut units {
        unit.capacity /= block;
    }
    units.sort_by_key(|unit| unit.order);
    let mut counts = vec![0u64; units.len()];
    let mut left = u64::from(tasks).div_ceil(block);
    // 1. The same for all that have room, again and again.
    loop {
        let open: Vec<usize> =
            (0..units.len()).filter(|at| counts[*at] < units[*at].capacity).collect();
        let each = left.checked_div(open.len() as u64)?;
        if each == 0 {
            break;
        }
        for at in open {
            let more = each.min(units[at].capacity - counts[at]);
            counts[at] += more;
            left -= more;
        }
        if left == 0 {
            break;
        }
    }
    // 2. The rest one by one, where the most is left.
    let mut open: Vec<usize> =
        (0..units.len()).filter(|at| counts[*at] < units[*at].capacity).collect();
    open.sort_by_key(|at| (std::cmp::Reverse(units[*at].capacity - counts[*at]), *at));
    for at in open.into_iter().take(left as usize) {
        counts[at] += 1;
    }
    let chosen = units.iter().zip(counts).filter(|(_, count)| *count > 0);
    Some(chosen.map(|(unit, count)| (unit.scope, (count * block) as u32)).collect())
}
