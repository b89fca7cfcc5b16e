//! Places a gang with a topology rule. Preference order: the fewest domains, then the tightest that
//! fits, so that larger gangs keep theirs, then the least damage to wider domains, then names.
//! Levels narrower than the named one are used sparingly, too; within a narrowest domain, placing
//! is as without topology.
//!
//! One group is exact: it is placed whenever its rule can be satisfied, in the fewest domains.
//! Several groups are placed one after the other, within one domain also by search (`search.rs`);
//! over several domains their number may not be the minimum.

use std::sync::Arc;

use muster_model::{ElementId, NodeId, Topology, TopologyRule};
use smallvec::SmallVec;

use super::domain_unit::{self, SearchTerms};
use super::{GangPlacer, PlacementOutcome, place_anywhere, place_in_order, whole_gpu};
use crate::place::request::PlacementRequest;
use crate::pool::Pool;
use crate::pool::ends::HoldingEnd;
use crate::pool::scope::{LevelIndex, Scope};
use crate::pool::shape::{GroupNeed, Shape};

/// Gang to place, with the terms of the search.
#[derive(Clone, Copy)]
struct GangCase<'a> {
    element: ElementId,
    end: HoldingEnd,
    shape: &'a Arc<Shape>,
    terms: &'a SearchTerms,
}

/// Places a gang by its topology rule. On success the pool holds it; otherwise nothing changed.
pub(crate) fn place(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    element: ElementId,
    end: HoldingEnd,
    shape: &Arc<Shape>,
    topology: &Topology,
) -> PlacementOutcome {
    // 1. Impossible cases: too little in all, unknown levels.
    let groups =
        shape.groups.iter().zip(&request.choice.models).filter(|(need, _)| need.devices > 0);
    if groups.clone().any(|(need, models)| {
        need.tasks > 0 && !whole_gpu::could_fit(pool, request.scope, need, models)
    }) {
        return PlacementOutcome::Impossible;
    }
    let level = match &topology.rule {
        TopologyRule::Anywhere => None,
        TopologyRule::Required(name)
        | TopologyRule::Preferred(name)
        | TopologyRule::Spread(name) => pool.domains.level(name),
    };
    let segment = topology.segment.as_ref().map(|one| (pool.domains.level(&one.level), one.tasks));
    let segment = match segment {
        Some((None, _)) => return PlacementOutcome::Impossible,
        Some((Some(level), tasks)) => Some((level, tasks.max(1))),
        None => None,
    };
    // 2. The terms of the search.
    let nodes = pool.domains.levels().len();
    let mut models: SmallVec<[_; 2]> = request.choice.models.iter().flatten().copied().collect();
    models.sort_unstable();
    models.dedup();
    let terms =
        &SearchTerms { models, segment, end: if level == Some(nodes) { nodes + 1 } else { nodes } };
    let case = GangCase { element, end, shape, terms };
    // 3. By its rule: first where it ran last, if that was one domain; checkpoints and caches may
    //    be there.
    let last = level.and_then(|level| Some((last_domain(pool, &request, level)?, level)));
    if let Some((scope, level)) = last {
        let narrowed = PlacementRequest { scope, max_steps: 0, ..request };
        let outcome = match &topology.rule {
            TopologyRule::Required(_) => required(pool, narrowed, case, level),
            TopologyRule::Preferred(_) => preferred(pool, narrowed, case, level),
            TopologyRule::Spread(_) | TopologyRule::Anywhere => PlacementOutcome::Impossible,
        };
        if let placed @ PlacementOutcome::Placed(..) = outcome {
            return placed;
        }
    }
    match (&topology.rule, level) {
        (TopologyRule::Required(_), None) => PlacementOutcome::Impossible,
        (TopologyRule::Required(_), Some(level)) => required(pool, request, case, level),
        (TopologyRule::Preferred(_), Some(level)) => preferred(pool, request, case, level),
        (TopologyRule::Spread(_), Some(level)) => {
            let mut by_group = |gang: &mut GangPlacer<'_>, group| spread(gang, terms, group, level);
            or_anywhere(pool, request, case, &mut by_group)
        }
        (TopologyRule::Anywhere, _) | (_, None) => match segment {
            Some((level, _)) => within(pool, request, case, level),
            None => place_anywhere(pool, request, element, end, shape),
        },
    }
}

/// Returns the domain of a level in which it ran last, if that was one.
fn last_domain(pool: &Pool, request: &PlacementRequest<'_>, level: LevelIndex) -> Option<Scope> {
    let of = |id: &NodeId| match pool.node(*id).domains.get(level) {
        Some((domain, _)) => Some(Scope::Domain(*domain)),
        None => (level >= pool.domains.levels().len()).then_some(Scope::Node(*id)),
    };
    let first = of(request.last_nodes.first()?)?;
    (request.scope == Scope::Cluster && request.last_nodes.iter().all(|id| of(id) == Some(first)))
        .then_some(first)
}

/// Places a gang in one domain of a level: the tightest that fits.
fn required(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    case: GangCase<'_>,
    level: LevelIndex,
) -> PlacementOutcome {
    let mut scopes = pool.scopes_in(request.scope, level);
    // If segments must be together at this or a wider level, the domain must lie in a domain of
    // that level; then they are.
    let in_domain = |pool: &Pool, scope| {
        case.terms.segment.is_none_or(|(wide, _)| !pool.scopes_in(scope, wide).is_empty())
    };
    scopes.retain(|scope| in_domain(pool, *scope) && is_plausible(pool, &request, *scope));
    scopes.sort_by_cached_key(|scope| domain_unit::tightness(pool, case.terms, *scope));
    let max_steps = request.max_steps / scopes.len().max(1) as u32;
    let mut gave_up = false;
    for scope in scopes {
        match within(pool, PlacementRequest { scope, max_steps, ..request }, case, level + 1) {
            PlacementOutcome::Impossible => {}
            PlacementOutcome::GaveUp => gave_up = true,
            placed @ PlacementOutcome::Placed(..) => return placed,
        }
    }
    if gave_up { PlacementOutcome::GaveUp } else { PlacementOutcome::Impossible }
}

/// Returns false if the indexes alone prove that a gang does not fit in a scope.
fn is_plausible(pool: &mut Pool, request: &PlacementRequest<'_>, scope: Scope) -> bool {
    let groups = request.shape.groups.iter().zip(&request.choice.models);
    let mut whole = groups.filter(|(need, _)| need.tasks > 0 && need.devices > 0);
    match scope {
        Scope::Node(id) => {
            let devices = |need: &GroupNeed| u64::from(need.tasks) * u64::from(need.devices);
            whole.map(|(need, _)| devices(need)).sum::<u64>()
                <= u64::from(pool.node(id).free().len())
        }
        _ => whole.all(|(need, models)| whole_gpu::could_fit(pool, scope, need, models)),
    }
}

/// Places a gang in as few domains of a level as possible.
fn preferred(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    case: GangCase<'_>,
    level: LevelIndex,
) -> PlacementOutcome {
    let level = case.terms.segment.map_or(level, |(wide, _)| level.min(wide));
    if case.shape.groups.len() > 1 {
        // Groups compete: first all in one domain, then in one wider domain.
        let quick = PlacementRequest { max_steps: 0, ..request };
        if let placed @ PlacementOutcome::Placed(..) = required(pool, quick, case, level) {
            return placed;
        }
        for wide in (0..level).rev() {
            for scope in pool.scopes_in(request.scope, wide) {
                let narrowed = PlacementRequest { scope, ..quick };
                if is_plausible(pool, &request, scope)
                    && let placed @ PlacementOutcome::Placed(..) =
                        by_level(pool, narrowed, case, level)
                {
                    return placed;
                }
            }
        }
    }
    match by_level(pool, request, case, level) {
        placed @ PlacementOutcome::Placed(..) => placed,
        failed if case.terms.segment.is_some() => failed,
        _ => place_anywhere(pool, request, case.element, case.end, case.shape),
    }
}

/// Places a gang within the scope of the request; domain by domain, or else anywhere in it.
fn within(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    case: GangCase<'_>,
    level: LevelIndex,
) -> PlacementOutcome {
    match by_level(pool, request, case, level) {
        PlacementOutcome::Impossible | PlacementOutcome::GaveUp
            if case.shape.groups.len() > 1 && case.terms.segment.is_none() =>
        {
            place_anywhere(pool, request, case.element, case.end, case.shape)
        }
        outcome => outcome,
    }
}

/// Places each group in as few domains of a level as possible.
fn by_level(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    case: GangCase<'_>,
    level: LevelIndex,
) -> PlacementOutcome {
    let mut by_group = |gang: &mut GangPlacer<'_>, group: u16| {
        let tasks = gang.request.shape.groups[usize::from(group)].tasks;
        pack(gang, case.terms, group, tasks, request.scope, level)
    };
    in_both_orders(pool, request, case, &mut by_group)
}

fn or_anywhere(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    case: GangCase<'_>,
    by_group: &mut dyn FnMut(&mut GangPlacer<'_>, u16) -> bool,
) -> PlacementOutcome {
    match in_both_orders(pool, request, case, by_group) {
        placed @ PlacementOutcome::Placed(..) => placed,
        _ => place_anywhere(pool, request, case.element, case.end, case.shape),
    }
}

/// Places the groups one after the other, the hardest first, and if that fails in reverse.
fn in_both_orders(
    pool: &mut Pool,
    request: PlacementRequest<'_>,
    case: GangCase<'_>,
    by_group: &mut dyn FnMut(&mut GangPlacer<'_>, u16) -> bool,
) -> PlacementOutcome {
    let GangCase { element, end, shape, .. } = case;
    let order = &shape.order;
    let first = place_in_order(pool, request, element, end, shape, order.iter(), by_group);
    if let Some((key, placement)) = first {
        return PlacementOutcome::Placed(key, placement);
    }
    if order.len() < 2 {
        return PlacementOutcome::Impossible;
    }
    match place_in_order(pool, request, element, end, shape, order.iter().rev(), by_group) {
        Some((key, placement)) => PlacementOutcome::Placed(key, placement),
        None => PlacementOutcome::GaveUp,
    }
}

/// Places tasks of a group in a scope, in as few domains of a level as possible, and so on below.
fn pack(
    gang: &mut GangPlacer<'_>,
    terms: &SearchTerms,
    group: u16,
    tasks: u32,
    scope: Scope,
    level: LevelIndex,
) -> bool {
    if level >= terms.end || matches!(scope, Scope::Node(_)) {
        return fill(gang, group, tasks, scope);
    }
    let units = domain_unit::units(gang, terms, group, scope, level);
    match domain_unit::fewest(gang.pool, terms, units, tasks) {
        Some(chosen) => {
            chosen.into_iter().all(|(unit, tasks)| pack(gang, terms, group, tasks, unit, level + 1))
        }
        None => false,
    }
}

/// Places tasks of a group in as many domains of a level as possible, evenly.
fn spread(gang: &mut GangPlacer<'_>, terms: &SearchTerms, group: u16, level: LevelIndex) -> bool {
    let need = &gang.request.shape.groups[usize::from(group)];
    let tasks = need.tasks;
    let block = need.per_node.unwrap_or(1);
    let units = domain_unit::units(gang, terms, group, gang.request.scope, level);
    match domain_unit::evenly(units, tasks, block) {
        Some(chosen) => {
            chosen.into_iter().all(|(unit, tasks)| pack(gang, terms, group, tasks, unit, level + 1))
        }
        None => false,
    }
}

/// Places tasks of a group in a scope without regard to domains.
fn fill(gang: &mut GangPlacer<'_>, group: u16, tasks: u32, scope: Scope) -> bool {
    let need = GroupNeed { tasks, ..gang.request.shape.groups[usize::from(group)].clone() };
    let outer = std::mem::replace(&mut gang.request.scope, scope);
    let filled = gang.place_tasks(group, &need);
    gang.request.scope = outer;
    filled
}
