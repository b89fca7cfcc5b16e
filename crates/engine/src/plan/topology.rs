//! Places a gang that says how its nodes must lie to each other. In the order of what matters: the
//! fewest domains, then the tightest that takes it, so that larger gangs keep theirs, then the
//! least damage to wider domains, then names. Levels narrower than the one it names are used
//! sparingly, too; within a narrowest domain it is as everywhere.
//!
//! One group is exact: it is placed whenever its rule can be kept, in the fewest domains. Several
//! groups are placed one after the other, within one domain also by search (`search.rs`); over
//! several domains their number may not be the least.

use std::sync::Arc;

use muster_model::{ElementId, NodeId, Topology, TopologyRule};
use smallvec::SmallVec;

use super::ask::Ask;
use super::gang::{self, Gang, Placing};
use super::unit::{self, Terms};
use super::whole;
use crate::state::ends::End;
use crate::state::pool::Pool;
use crate::state::shape::{GroupNeed, Shape};
use crate::state::topology::{Level, Scope};

/// What is placed, for whom, until when.
#[derive(Clone, Copy)]
struct Case<'a> {
    element: ElementId,
    end: End,
    shape: &'a Arc<Shape>,
    terms: &'a Terms,
}

/// Places a gang as its topology says. On success the pool holds it; otherwise nothing changed.
pub(super) fn place(
    pool: &mut Pool,
    ask: Ask<'_>,
    element: ElementId,
    end: End,
    shape: &Arc<Shape>,
    wish: &Topology,
) -> Placing {
    // 1. What can never be: too little in all, levels that are not there.
    let groups = shape.groups.iter().zip(&ask.pick.models).filter(|(need, _)| need.devices > 0);
    if groups
        .clone()
        .any(|(need, models)| need.tasks > 0 && !whole::could_fit(pool, ask.scope, need, models))
    {
        return Placing::Impossible;
    }
    let level = match &wish.rule {
        TopologyRule::Anywhere => None,
        TopologyRule::Required(name)
        | TopologyRule::Preferred(name)
        | TopologyRule::Spread(name) => pool.domains.level(name),
    };
    let segment = wish.segment.as_ref().map(|one| (pool.domains.level(&one.level), one.tasks));
    let segment = match segment {
        Some((None, _)) => return Placing::Impossible,
        Some((Some(level), tasks)) => Some((level, tasks.max(1))),
        None => None,
    };
    // 2. The terms of the search.
    let nodes = pool.domains.levels().len();
    let mut models: SmallVec<[_; 2]> = ask.pick.models.iter().flatten().copied().collect();
    models.sort_unstable();
    models.dedup();
    let terms =
        &Terms { models, segment, end: if level == Some(nodes) { nodes + 1 } else { nodes } };
    let case = Case { element, end, shape, terms };
    // 3. By its rule: first where it ran last, if that was one domain; there may be checkpoints and
    //    caches.
    let home = level.and_then(|level| Some((home_of(pool, &ask, level)?, level)));
    if let Some((scope, level)) = home {
        let narrowed = Ask { scope, effort: 0, ..ask };
        let placing = match &wish.rule {
            TopologyRule::Required(_) => required(pool, narrowed, case, level),
            TopologyRule::Preferred(_) => preferred(pool, narrowed, case, level),
            TopologyRule::Spread(_) | TopologyRule::Anywhere => Placing::Impossible,
        };
        if let placed @ Placing::Placed(..) = placing {
            return placed;
        }
    }
    match (&wish.rule, level) {
        (TopologyRule::Required(_), None) => Placing::Impossible,
        (TopologyRule::Required(_), Some(level)) => required(pool, ask, case, level),
        (TopologyRule::Preferred(_), Some(level)) => preferred(pool, ask, case, level),
        (TopologyRule::Spread(_), Some(level)) => {
            let mut by_group = |gang: &mut Gang<'_>, group| spread(gang, terms, group, level);
            or_anywhere(pool, ask, case, &mut by_group)
        }
        (TopologyRule::Anywhere, _) | (_, None) => match segment {
            Some((level, _)) => within(pool, ask, case, level),
            None => gang::place_anywhere(pool, ask, element, end, shape),
        },
    }
}

/// The one domain of a level that it ran in last.
fn home_of(pool: &Pool, ask: &Ask<'_>, level: Level) -> Option<Scope> {
    let of = |id: &NodeId| match pool.node(*id).domains.get(level) {
        Some((domain, _)) => Some(Scope::Domain(*domain)),
        None => (level >= pool.domains.levels().len()).then_some(Scope::Node(*id)),
    };
    let first = of(ask.home.first()?)?;
    (ask.scope == Scope::Cluster && ask.home.iter().all(|id| of(id) == Some(first)))
        .then_some(first)
}

/// In one domain of a level: the tightest that takes it.
fn required(pool: &mut Pool, ask: Ask<'_>, case: Case<'_>, level: Level) -> Placing {
    let mut scopes = pool.scopes_in(ask.scope, level);
    // Slices as wide as this are kept by any domain that is in one of theirs.
    let in_domain = |pool: &Pool, scope| {
        case.terms.segment.is_none_or(|(wide, _)| !pool.scopes_in(scope, wide).is_empty())
    };
    scopes.retain(|scope| in_domain(pool, *scope) && is_plausible(pool, &ask, *scope));
    scopes.sort_by_cached_key(|scope| unit::tightness(pool, case.terms, *scope));
    let effort = ask.effort / scopes.len().max(1) as u32;
    let mut gave_up = false;
    for scope in scopes {
        match within(pool, Ask { scope, effort, ..ask }, case, level + 1) {
            Placing::Impossible => {}
            Placing::GaveUp => gave_up = true,
            placed @ Placing::Placed(..) => return placed,
        }
    }
    if gave_up { Placing::GaveUp } else { Placing::Impossible }
}

/// A bound from the indexes alone.
fn is_plausible(pool: &mut Pool, ask: &Ask<'_>, scope: Scope) -> bool {
    let groups = ask.shape.groups.iter().zip(&ask.pick.models);
    let mut whole = groups.filter(|(need, _)| need.tasks > 0 && need.devices > 0);
    match scope {
        Scope::Node(id) => {
            let devices = |need: &GroupNeed| u64::from(need.tasks) * u64::from(need.devices);
            whole.map(|(need, _)| devices(need)).sum::<u64>()
                <= u64::from(pool.node(id).free().len())
        }
        _ => whole.all(|(need, models)| whole::could_fit(pool, scope, need, models)),
    }
}

/// In as few domains of a level as can be.
fn preferred(pool: &mut Pool, ask: Ask<'_>, case: Case<'_>, level: Level) -> Placing {
    let level = case.terms.segment.map_or(level, |(wide, _)| level.min(wide));
    if case.shape.groups.len() > 1 {
        // Groups compete: first all of them in one domain, then in one wider domain.
        let quick = Ask { effort: 0, ..ask };
        if let placed @ Placing::Placed(..) = required(pool, quick, case, level) {
            return placed;
        }
        for wide in (0..level).rev() {
            for scope in pool.scopes_in(ask.scope, wide) {
                let narrowed = Ask { scope, ..quick };
                if is_plausible(pool, &ask, scope)
                    && let placed @ Placing::Placed(..) = by_level(pool, narrowed, case, level)
                {
                    return placed;
                }
            }
        }
    }
    match by_level(pool, ask, case, level) {
        placed @ Placing::Placed(..) => placed,
        failed if case.terms.segment.is_some() => failed,
        _ => gang::place_anywhere(pool, ask, case.element, case.end, case.shape),
    }
}

/// Within the scope of the request; if not domain by domain, then anywhere in it.
fn within(pool: &mut Pool, ask: Ask<'_>, case: Case<'_>, level: Level) -> Placing {
    match by_level(pool, ask, case, level) {
        Placing::Impossible | Placing::GaveUp
            if case.shape.groups.len() > 1 && case.terms.segment.is_none() =>
        {
            gang::place_anywhere(pool, ask, case.element, case.end, case.shape)
        }
        placing => placing,
    }
}

/// Each group in as few domains of a level as can be.
fn by_level(pool: &mut Pool, ask: Ask<'_>, case: Case<'_>, level: Level) -> Placing {
    let mut by_group = |gang: &mut Gang<'_>, group: u16| {
        let tasks = gang.ask.shape.groups[usize::from(group)].tasks;
        pack(gang, case.terms, group, tasks, ask.scope, level)
    };
    in_both_orders(pool, ask, case, &mut by_group)
}

fn or_anywhere(
    pool: &mut Pool,
    ask: Ask<'_>,
    case: Case<'_>,
    by_group: &mut dyn FnMut(&mut Gang<'_>, u16) -> bool,
) -> Placing {
    match in_both_orders(pool, ask, case, by_group) {
        placed @ Placing::Placed(..) => placed,
        _ => gang::place_anywhere(pool, ask, case.element, case.end, case.shape),
    }
}

/// One group after the other, the hardest first, and then the other way round.
fn in_both_orders(
    pool: &mut Pool,
    ask: Ask<'_>,
    case: Case<'_>,
    by_group: &mut dyn FnMut(&mut Gang<'_>, u16) -> bool,
) -> Placing {
    let Case { element, end, shape, .. } = case;
    let order = &shape.order;
    let first = gang::place_in_order(pool, ask, element, end, shape, order.iter(), by_group);
    if let Some((key, placement)) = first {
        return Placing::Placed(key, placement);
    }
    if order.len() < 2 {
        return Placing::Impossible;
    }
    match gang::place_in_order(pool, ask, element, end, shape, order.iter().rev(), by_group) {
        Some((key, placement)) => Placing::Placed(key, placement),
        None => Placing::GaveUp,
    }
}

/// Fills tasks of a group into a scope, in as few domains of a level as can be, and so on below.
fn pack(
    gang: &mut Gang<'_>,
    terms: &Terms,
    group: u16,
    tasks: u32,
    scope: Scope,
    level: Level,
) -> bool {
    if level >= terms.end || matches!(scope, Scope::Node(_)) {
        return fill(gang, group, tasks, scope);
    }
    let units = unit::units(gang, terms, group, scope, level);
    match unit::fewest(gang.pool, terms, units, tasks) {
        Some(chosen) => {
            chosen.into_iter().all(|(unit, tasks)| pack(gang, terms, group, tasks, unit, level + 1))
        }
        None => false,
    }
}

/// Fills tasks of a group into as many domains of a level as can be, evenly.
fn spread(gang: &mut Gang<'_>, terms: &Terms, group: u16, level: Level) -> bool {
    let need = &gang.ask.shape.groups[usize::from(group)];
    let (tasks, block) = (need.tasks, need.per_node.unwrap_or(1));
    let units = unit::units(gang, terms, group, gang.ask.scope, level);
    match unit::evenly(units, tasks, block) {
        Some(chosen) => {
            chosen.into_iter().all(|(unit, tasks)| pack(gang, terms, group, tasks, unit, level + 1))
        }
        None => false,
    }
}

/// Places tasks of a group in a scope as everywhere.
fn fill(gang: &mut Gang<'_>, group: u16, tasks: u32, scope: Scope) -> bool {
    let need = GroupNeed { tasks, ..gang.ask.shape.groups[usize::from(group)].clone() };
    let outer = std::mem::replace(&mut gang.ask.scope, scope);
    let filled = gang.place_tasks(group, &need);
    gang.ask.scope = outer;
    filled
}
