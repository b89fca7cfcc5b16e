//! Where an element is and why it is a good place, or who made it leave, as `muster explain` says
//! it.

use muster_model::view::{LevelUse, LevelWish, PlacedOn, PlacementView, PreemptedView};
use muster_model::{EvictionCause, Time};

use crate::amount::{count, ranges};
use crate::clock;
use crate::reason::{Line, element};
use crate::style::{Style, clean};

/// Names in a row; JSON has more.
const NAMED: usize = 4;

/// What it holds, what that spans, and what comes after it.
pub(crate) fn lines(placement: &PlacementView, now: Time, style: &Style) -> Vec<Line> {
    let tasks = count(placement.tasks.into(), "task");
    let mut lines = vec![Line::new("placed", format!("{tasks} on {}", places(placement)))];
    let levels =
        placement.levels.iter().filter(|level| placement.tasks > 1 || level.asked.is_some());
    for (at, level) in levels.enumerate() {
        lines.push(Line::new(if at == 0 { "spans" } else { "" }, span(level)));
    }
    if placement.backfilled {
        lines.push(Line::new(
            "backfilled",
            "it passed jobs that were ahead of it, and delays none of them",
        ));
    }
    if let Some(next) = &placement.next {
        let (name, id, start) =
            (clean(&next.name), element(next.element), clock::time(next.start, now, style));
        lines.push(
            Line::new("then", format!("{name} ({id}) starts here at {start} at the latest"))
                .with(format!("muster explain {id}")),
        );
    }
    lines
}

/// `n1, n2: GPUs 0-7 each; n3: GPU 0`.
fn places(placement: &PlacementView) -> String {
    let mut alike: Vec<(&[u16], Vec<&PlacedOn>)> = Vec::new();
    for place in &placement.places {
        match alike.iter_mut().find(|(devices, _)| *devices == place.devices) {
            Some((_, places)) => places.push(place),
            None => alike.push((&place.devices, vec![place])),
        }
    }
    let unnamed = placement.nodes as usize - placement.places.len().min(placement.nodes as usize);
    let one = |(devices, places): &(&[u16], Vec<&PlacedOn>)| {
        let names: Vec<&str> = places.iter().map(|place| place.node.as_str()).collect();
        let each = if names.len() > 1 { " each" } else { "" };
        let share = match places[0].share.0 {
            1..1000 => format!("{} of ", places[0].share),
            _ => String::new(),
        };
        let what = if devices.is_empty() {
            String::new()
        } else {
            format!(": {share}{}{each}", devices_of(devices))
        };
        format!("{}{what}", named(&names, names.len()))
    };
    let mut text = alike.iter().map(one).collect::<Vec<_>>().join("; ");
    if unnamed > 0 {
        text.push_str(&format!("; and {} more", count(unnamed as u64, "node")));
    }
    clean(&text).into_owned()
}

fn devices_of(devices: &[u16]) -> String {
    let indices: Vec<u32> = devices.iter().map(|index| u32::from(*index)).collect();
    format!("{} {}", if devices.len() == 1 { "GPU" } else { "GPUs" }, ranges(&indices))
}

/// `l1, l2 and 6 more`.
fn named(names: &[&str], all: usize) -> String {
    match all {
        0..=NAMED => names.join(", "),
        _ => format!(
            "{} and {} more",
            names[..NAMED.min(names.len())].join(", "),
            all - NAMED.min(names.len())
        ),
    }
}

/// `1 leaf (l1), as required; it cannot be fewer`.
fn span(level: &LevelUse) -> String {
    let names: Vec<&str> = level.names.iter().map(String::as_str).collect();
    let domains = format!(
        "{} ({})",
        count(level.domains.into(), &level.level),
        named(&names, level.domains as usize)
    );
    let asked = match level.asked {
        None => "",
        Some(LevelWish::Required) => ", as required",
        Some(LevelWish::Preferred) => ", as few as could be had when it started",
        Some(LevelWish::Spread) => ", spread as asked",
        Some(LevelWish::Segments) => ", each slice in one",
    };
    let least = match level.least {
        _ if level.domains == 1 || level.asked == Some(LevelWish::Spread) => String::new(),
        Some(least) if least < level.domains => format!("; if nothing else ran, {least} would do"),
        Some(_) => "; fewer are never enough".to_owned(),
        None => String::new(),
    };
    format!("{domains}{asked}{least}")
}

/// Who made it go, and what it keeps.
pub(crate) fn preempted(view: &PreemptedView, now: Time, style: &Style) -> Vec<Line> {
    let by = element(view.by);
    let name = view.name.as_deref().map_or(String::new(), |name| format!("{} ", clean(name)));
    let whom = match &view.queue {
        Some(queue) => format!("{name}({by}) of {queue}"),
        None if name.is_empty() => by.clone(),
        None => format!("{name}({by})"),
    };
    let right = match view.cause {
        EvictionCause::Reclaimed => "which took back what its queue had lent",
        EvictionCause::Outranked => "which has a higher priority",
        EvictionCause::Yielded => "whose turn it was, as it ran in what was idle",
        EvictionCause::Shrunk => "whose turn it was; it goes on with fewer tasks",
        EvictionCause::Grown => "since there is room for more of its tasks",
        EvictionCause::Moved => "which found no whole place; it goes on elsewhere",
    };
    let at = clock::time(view.at, now, style);
    let kept = match &view.checkpoint {
        _ if let Some(until) = view.saves_until => {
            format!("it saves its progress until {} at the latest", clock::time(until, now, style))
        }
        Some(saved) if saved.label.is_empty() => {
            format!("it keeps its checkpoint of {}", clock::time(saved.at, now, style))
        }
        Some(saved) => {
            let at = clock::time(saved.at, now, style);
            format!("it keeps its checkpoint {} of {at}", clean(&saved.label))
        }
        None => "it has no checkpoint, and begins anew".to_owned(),
    };
    vec![
        Line::new("preempted", format!("at {at}, for {whom}, {right}"))
            .with(format!("muster explain {by}")),
        Line::new("", kept),
    ]
}

#[cfg(test)]
mod tests {
    use muster_model::view::{CheckpointView, Waiter};
    use muster_model::{GpuMilli, NodeName};

    use super::*;
    use crate::sample::{NOON, after, id};

    fn placed(node: &str, devices: &[u16], share: u32) -> PlacedOn {
        PlacedOn {
            node: NodeName::from(node),
            tasks: 1,
            devices: devices.to_vec(),
            share: GpuMilli(share),
        }
    }

    fn level(
        level: &str,
        names: &[&str],
        least: Option<u32>,
        asked: Option<LevelWish>,
    ) -> LevelUse {
        let (level, names) =
            (level.to_owned(), names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        LevelUse { level, domains: names.len() as u32, names, least, asked }
    }

    fn check(lines: Vec<Line>, expected: &[&str]) {
        let text: Vec<String> =
            lines.iter().map(|line| format!("{:<10} {}", line.label, line.text)).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn places_alike_are_said_once_and_levels_beside_what_would_do() {
        let nodes = ["n1", "n2", "n3", "n4", "n5"];
        let mut places: Vec<PlacedOn> = nodes.map(|node| placed(node, &[0, 1, 2, 3], 1000)).into();
        places.push(placed("n6", &[7], 500));
        places.push(placed("n7", &[], 0));
        let placement = PlacementView {
            tasks: 7,
            nodes: 9,
            places,
            levels: vec![
                level("block", &["b1"], Some(1), None),
                level("leaf", &["l1", "l2"], Some(1), Some(LevelWish::Preferred)),
                level("rack", &["r1", "r2"], Some(1), Some(LevelWish::Spread)),
                level("node", &["n1", "n2", "n3", "n4", "n5", "n6", "n7"], None, None),
            ],
            since: NOON,
            backfilled: true,
            next: Some(Waiter { element: id(2, 0), name: "right".to_owned(), start: after(20) }),
        };
        check(
            lines(&placement, NOON, &Style::plain()),
            &[
                "placed     7 tasks on n1, n2, n3, n4 and 1 more: GPUs 0-3 each; n6: 0.5 of GPU 7; n7; and 2 nodes more",
                "spans      1 block (b1)",
                "           2 leafs (l1, l2), as few as could be had when it started; if nothing else ran, 1 would do",
                "           2 racks (r1, r2), spread as asked",
                "           7 nodes (n1, n2, n3, n4 and 3 more)",
                "backfilled it passed jobs that were ahead of it, and delays none of them",
                "then       right (2) starts here at 12:00:20 at the latest",
            ],
        );
        let alone =
            PlacementView { tasks: 1, nodes: 1, backfilled: false, next: None, ..placement };
        assert_eq!(
            lines(&alone, NOON, &Style::plain()).len(),
            3,
            "levels only where something was asked of them"
        );
    }

    #[test]
    fn who_was_made_to_go_is_told_by_whom_and_what_is_kept() {
        let saved = CheckpointView { at: after(5), label: "step 1200".to_owned(), attempt: 1 };
        let view = PreemptedView {
            by: id(7, 0),
            name: Some("train".to_owned()),
            queue: Some("a".into()),
            cause: EvictionCause::Reclaimed,
            at: after(20),
            saves_until: None,
            checkpoint: Some(saved.clone()),
        };
        check(
            preempted(&view, NOON, &Style::plain()),
            &[
                "preempted  at 12:00:20, for train (7) of a, which took back what its queue had lent",
                "           it keeps its checkpoint step 1200 of 12:00:05",
            ],
        );
        let unnamed = CheckpointView { label: String::new(), ..saved };
        let gone =
            PreemptedView { name: None, queue: None, cause: EvictionCause::Outranked, ..view };
        check(
            preempted(
                &PreemptedView { checkpoint: Some(unnamed), ..gone.clone() },
                NOON,
                &Style::plain(),
            ),
            &[
                "preempted  at 12:00:20, for 7, which has a higher priority",
                "           it keeps its checkpoint of 12:00:05",
            ],
        );
        let second = |view| preempted(&view, NOON, &Style::plain())[1].text.clone();
        let unsaved = PreemptedView { checkpoint: None, ..gone };
        assert_eq!(second(unsaved.clone()), "it has no checkpoint, and begins anew");
        let saving = PreemptedView { saves_until: Some(after(60)), ..unsaved };
        assert_eq!(second(saving), "it saves its progress until 12:01:00 at the latest");
    }
}
