//! Topology domains as units to fill: how many tasks of a group each takes, and which are chosen:
//! as few as possible, or as evenly as possible. It only counts and holds nothing.
//!
//! Tasks of one group are alike, and nodes take them independently of each other, so the capacity
//! of a unit is the sum over its nodes, and the fewest units that suffice are the largest. Among
//! several sets of that size, the one whose units share the narrowest enclosing domain is chosen,
//! and of several such domains the one with the least free capacity. In it the units with the least
//! free capacity that still suffice are taken, so that the largest free capacity stays together.

use muster_model::NodeId;
use muster_policy::ModelId;
use smallvec::SmallVec;

use super::{GangPlacer, search};
use crate::pool::Pool;
use crate::pool::scope::{DomainId, LevelIndex, Scope};

/// Terms of the search that hold for the whole gang.
pub(crate) struct SearchTerms {
    /// Models that some group may use; empty for a gang without GPUs.
    pub(crate) models: SmallVec<[ModelId; 2]>,
    /// Level of which one domain must host each segment, and the number of consecutive ranks of a
    /// segment.
    pub(crate) segment: Option<(LevelIndex, u32)>,
    /// Level below which a scope is filled without regard to domains.
    pub(crate) end: LevelIndex,
}

/// Free capacity of a unit; units with less are chosen first.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tightness {
    free: (u64, u64),
    /// Free capacity of the wider domains, narrow to wide: a larger gang may need one of them
    /// whole.
    above: SmallVec<[(u64, u64); 2]>,
    /// Number of nodes: with equal free capacity, a larger domain may free more later.
    nodes: usize,
}

/// Topology domain, or node, to fill.
#[derive(Clone, Debug)]
pub(crate) struct DomainUnit {
    pub(crate) scope: Scope,
    /// Tasks of the group that it takes, in whole segments and blocks.
    capacity: u64,
    tightness: Tightness,
    /// Rank among the units by name.
    order: usize,
}

/// Most units that are chosen by tightness; of a larger number, the others are simply the largest
/// ones, since comparing them costs more than it gains.
const MAX_WEIGHED: usize = 32;

pub(crate) fn tightness(pool: &mut Pool, terms: &SearchTerms, scope: Scope) -> Tightness {
    let above: SmallVec<[DomainId; 2]> = pool.above(scope).collect();
    let above = above.into_iter().map(|wide| free(pool, terms, Scope::Domain(wide))).collect();
    let nodes = match scope {
        Scope::Domain(id) => pool.domains.get(id).nodes.len(),
        Scope::Cluster | Scope::Node(_) => 1,
    };
    Tightness { free: free(pool, terms, scope), above, nodes }
}

/// Returns free devices of the gang's models, unbooked; for a gang without GPUs, free devices of
/// all models and free CPUs.
fn free(pool: &mut Pool, terms: &SearchTerms, scope: Scope) -> (u64, u64) {
    if terms.models.is_empty()
        && let Some(index) = pool.cpu_only_index_of(scope)
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
            if terms.models.is_empty() {
                (u64::from(free.len()), node.limit.cpus.saturating_sub(node.used.cpus))
            } else {
                (
                    terms
                        .models
                        .iter()
                        .map(|model| u64::from(free.and(node.of_model(*model)).len()))
                        .sum(),
                    0,
                )
            }
        }
        (None, _) => (0, 0),
    }
}

/// Returns the domains of a level within a scope that take any task of a group. Nodes in no domain
/// are units by themselves, unless segments must be in one.
pub(crate) fn units(
    gang: &mut GangPlacer<'_>,
    terms: &SearchTerms,
    group: u16,
    scope: Scope,
    level: LevelIndex,
) -> Vec<DomainUnit> {
    let pool = &*gang.pool;
    let mut scopes = pool.scopes_in(scope, level);
    if scope == Scope::Cluster && level < pool.domains.levels().len() && terms.segment.is_none() {
        scopes.extend(pool.nodes_without_domain().map(Scope::Node));
    }
    let capacities =
        scopes.into_iter().map(|scope| (scope, capacity(gang, terms, group, scope, level)));
    let useful: Vec<(Scope, u64)> = capacities.filter(|(_, capacity)| *capacity > 0).collect();
    let unit = |(order, (scope, capacity))| DomainUnit {
        scope,
        capacity,
        tightness: tightness(gang.pool, terms, scope),
        order,
    };
    let mut units: Vec<DomainUnit> = useful.into_iter().enumerate().map(unit).collect();
    units.sort_by(|one, other| one.tightness.cmp(&other.tightness));
    units
}

/// Returns how many tasks of a group a domain of a level takes.
fn capacity(
    gang: &GangPlacer<'_>,
    terms: &SearchTerms,
    group: u16,
    scope: Scope,
    level: LevelIndex,
) -> u64 {
    let tasks_in = |scope| {
        let nodes = gang.pool.nodes_in(scope).into_iter();
        nodes.map(|node| tasks_on_node(gang, group, node)).fold(0, u64::saturating_add)
    };
    match terms.segment {
        Some((narrow, tasks)) if level <= narrow => {
            let whole = |scope| tasks_in(scope) / u64::from(tasks) * u64::from(tasks);
            if level == narrow {
                whole(scope)
            } else {
                gang.pool
                    .scopes_in(scope, narrow)
                    .into_iter()
                    .map(whole)
                    .fold(0, u64::saturating_add)
            }
        }
        _ => tasks_in(scope),
    }
}

/// Returns how many tasks of a group a node takes, over all models of the choice.
fn tasks_on_node(gang: &GangPlacer<'_>, group: u16, node: NodeId) -> u64 {
    let need = &gang.request.shape.groups[usize::from(group)];
    let capacity_on = |model| u64::from(search::task_capacity(gang, need, model, node, u32::MAX));
    if !need.wants_gpu() {
        return capacity_on(None);
    }
    let models = gang.request.choice.models[usize::from(group)].iter();
    let capacities = models.map(|model| capacity_on(Some(*model)));
    match need.per_node {
        // All tasks of a block are of one model.
        Some(_) => capacities.max().unwrap_or(0),
        None => match capacities.sum::<u64>() {
            0 => 0,
            sum => sum.min(u64::from(gang.tasks_within_scalars(node, need))),
        },
    }
}

/// Chooses as few units as possible for the tasks, and how many tasks each takes; `None` if all
/// together do not suffice.
pub(crate) fn fewest(
    pool: &mut Pool,
    terms: &SearchTerms,
    units: Vec<DomainUnit>,
    tasks: u32,
) -> Option<Vec<(Scope, u32)>> {
    // 1. The number of units needed, and those that lie closest together.
    let count = count_needed(&units, tasks)?;
    let mut units = match count {
        0 | 1 => units,
        _ => in_narrowest_domain(pool, terms, &units, count, tasks).unwrap_or(units),
    };
    // 2. One unit after the other: the tightest that, together with the largest of the remaining
    //    ones, is enough.
    let mut left = u64::from(tasks);
    let mut chosen = Vec::new();
    for others in (0..count).rev() {
        let at = if others >= MAX_WEIGHED {
            (0..units.len()).max_by_key(|at| (units[*at].capacity, std::cmp::Reverse(*at)))?
        } else {
            tightest(&units, others, left)?
        };
        let unit = units.remove(at);
        let taken = unit.capacity.min(left);
        left -= taken;
        chosen.push((unit.scope, taken as u32));
    }
    (left == 0).then_some(chosen)
}

/// Returns how many of the largest units suffice.
fn count_needed(units: &[DomainUnit], tasks: u32) -> Option<usize> {
    let mut sum = 0u64;
    let largest = descending(units);
    let sums = largest.iter().map(|capacity| {
        sum = sum.saturating_add(*capacity);
        sum
    });
    let enough = sums.take_while(|sum| *sum < u64::from(tasks)).count() + 1;
    (enough <= units.len()).then_some(enough)
}

fn descending(units: &[DomainUnit]) -> Vec<u64> {
    let mut capacities: Vec<u64> = units.iter().map(|unit| unit.capacity).collect();
    capacities.sort_unstable_by_key(|capacity| std::cmp::Reverse(*capacity));
    capacities
}

/// Returns the first unit with which this many largest others take what is left.
fn tightest(units: &[DomainUnit], others: usize, left: u64) -> Option<usize> {
    let largest = descending(units);
    let sum =
        |count: usize| largest.iter().take(count).fold(0u64, |sum, one| sum.saturating_add(*one));
    let with = sum(others + 1);
    let without = sum(others);
    let is_among = |unit: &DomainUnit| {
        others > 0 && largest.get(others - 1).is_some_and(|least| unit.capacity >= *least)
    };
    units.iter().position(|unit| {
        if is_among(unit) { with >= left } else { without.saturating_add(unit.capacity) >= left }
    })
}

/// Returns the units of the narrowest wider domain in which `count` units suffice.
fn in_narrowest_domain(
    pool: &mut Pool,
    terms: &SearchTerms,
    units: &[DomainUnit],
    count: usize,
    tasks: u32,
) -> Option<Vec<DomainUnit>> {
    for depth in 0.. {
        let mut wide: Vec<(DomainId, Vec<DomainUnit>)> = Vec::new();
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
        let first_by_name = |inside: &[DomainUnit]| inside.iter().map(|unit| unit.order).min();
        let key = |(id, inside): &(DomainId, Vec<DomainUnit>)| {
            (tightness(pool, terms, Scope::Domain(*id)), first_by_name(inside))
        };
        if let Some((_, inside)) = wide.into_iter().min_by_key(key) {
            return Some(inside);
        }
    }
    None
}

/// Spreads tasks over as many units as possible, evenly, in blocks; `None` if not all fit.
pub(crate) fn evenly(
    mut units: Vec<DomainUnit>,
    tasks: u32,
    block: u32,
) -> Option<Vec<(Scope, u32)>> {
    let block = u64::from(block.max(1));
    for unit in &mut units {
        unit.capacity /= block;
    }
    units.sort_by_key(|unit| unit.order);
    let mut counts = vec![0u64; units.len()];
    let mut left = u64::from(tasks).div_ceil(block);
    // 1. The same number for all with free capacity, repeatedly.
    loop {
        let unfilled: Vec<usize> =
            (0..units.len()).filter(|at| counts[*at] < units[*at].capacity).collect();
        let each = left.checked_div(unfilled.len() as u64)?;
        if each == 0 {
            break;
        }
        for at in unfilled {
            let more = each.min(units[at].capacity - counts[at]);
            counts[at] += more;
            left -= more;
        }
        if left == 0 {
            break;
        }
    }
    // 2. The rest one by one, on the units with the most free capacity.
    let mut unfilled: Vec<usize> =
        (0..units.len()).filter(|at| counts[*at] < units[*at].capacity).collect();
    unfilled.sort_by_key(|at| (std::cmp::Reverse(units[*at].capacity - counts[*at]), *at));
    for at in unfilled.into_iter().take(left as usize) {
        counts[at] += 1;
    }
    let chosen = units.iter().zip(counts).filter(|(_, count)| *count > 0);
    Some(chosen.map(|(unit, count)| (unit.scope, (count * block) as u32)).collect())
}
