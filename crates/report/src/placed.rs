//! Parts of `muster explain` on placement: where an element runs and how compact that is, or which
//! job preempted it.

use muster_model::EvictionCause;
use muster_model::view::{LevelRequest, LevelUse, PlacedOn, PlacementView, PreemptedView};

use crate::RenderContext;
use crate::amount::count;
use crate::amount::element;
use crate::clock;
use crate::explanation_line::ExplanationLine;
use crate::style::clean;

/// Names listed in a line; `--json` has all.
const NAMED: usize = 4;

/// Returns what the element holds, which topology domains that spans, and which job starts there
/// next.
pub(crate) fn lines(placement: &PlacementView, context: RenderContext) -> Vec<ExplanationLine> {
    let tasks = context.words.tasks(placement.tasks);
    let text = format!("{tasks} on {}", places(placement, context));
    let mut lines = vec![ExplanationLine::new("placed", text)];
    let levels =
        placement.levels.iter().filter(|level| placement.tasks > 1 || level.asked.is_some());
    for (at, level) in levels.enumerate() {
        lines.push(ExplanationLine::new(if at == 0 { "spans" } else { "" }, span(level)));
    }
    if placement.backfilled {
        let delays = if placement.predicted {
            "; it delays them only if it runs longer than predicted"
        } else {
            " and delays none of them"
        };
        let text = format!("it started before jobs ahead of it in the queue{delays}");
        lines.push(ExplanationLine::new("backfilled", text));
    }
    if let Some(next) = &placement.next {
        let job = context.words.named_job(&next.name, next.element);
        let start = clock::planned_start(next.start, next.predicted, context);
        let text = format!("{job} starts here {start}");
        lines.push(
            ExplanationLine::new("then", text)
                .with(format!("muster explain {}", element(next.element))),
        );
    }
    lines
}

/// `n1, n2: GPUs 0-7 each; n3: GPU 0`.
fn places(placement: &PlacementView, context: RenderContext) -> String {
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
            format!(": {share}{}{each}", context.words.gpu_list(devices))
        };
        format!("{}{what}", named(&names, names.len()))
    };
    let mut text = alike.iter().map(one).collect::<Vec<_>>().join("; ");
    if unnamed > 0 {
        text.push_str(&format!("; and {} more", count(unnamed as u64, "node")));
    }
    clean(&text).into_owned()
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
        Some(LevelRequest::Required) => ", as required",
        Some(LevelRequest::Preferred) => ", as few as possible when it started",
        Some(LevelRequest::Spread) => ", spread as asked",
        Some(LevelRequest::Segments) => ", each slice in one",
    };
    let least = match level.least {
        _ if level.domains == 1 || level.asked == Some(LevelRequest::Spread) => String::new(),
        Some(least) if least < level.domains => {
            format!("; on an idle cluster {least} would be enough")
        }
        Some(_) => "; it cannot be fewer".to_owned(),
        None => String::new(),
    };
    format!("{domains}{asked}{least}")
}

/// Describes which job preempted the element, and what remains of its progress.
pub(crate) fn preempted(view: &PreemptedView, context: RenderContext) -> Vec<ExplanationLine> {
    let by = element(view.by);
    let name = view.name.as_deref().map_or(String::new(), |name| format!("{} ", clean(name)));
    let preemptor = match &view.queue {
        Some(queue) => format!("{name}({by}) of {queue}"),
        None if name.is_empty() => by.clone(),
        None => format!("{name}({by})"),
    };
    let why = match view.cause {
        EvictionCause::Reclaimed => "which reclaimed quota that its queue had lent",
        EvictionCause::Outranked => "which has a higher priority",
        EvictionCause::Opportunistic => "which has precedence, since this job ran in idle capacity",
        EvictionCause::Shrunk => "which has precedence; this job resumes with fewer tasks",
        EvictionCause::Grown => "since more of its tasks fit now",
        EvictionCause::Moved => {
            "for which no node had enough free GPUs; this job resumes on other GPUs"
        }
    };
    let at = clock::time(view.at, context);
    let kept = match &view.checkpoint {
        _ if let Some(until) = view.saves_until => {
            format!("it may save a checkpoint until {}", clock::time(until, context))
        }
        Some(saved) if saved.label.is_empty() => {
            format!("it resumes from its checkpoint of {}", clock::time(saved.at, context))
        }
        Some(saved) => {
            let at = clock::time(saved.at, context);
            format!("it resumes from its checkpoint {} of {at}", clean(&saved.label))
        }
        None => "it has no checkpoint and starts over".to_owned(),
    };
    vec![
        ExplanationLine::new("preempted", format!("at {at} by {preemptor}, {why}"))
            .with(format!("muster explain {by}")),
        ExplanationLine::new("", kept),
    ]
}

#[cfg(test)]
mod tests {
    use muster_model::view::{CheckpointView, NextStart};
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
        asked: Option<LevelRequest>,
    ) -> LevelUse {
        let level = level.to_owned();
        let names = names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        LevelUse { level, domains: names.len() as u32, names, least, asked }
    }

    fn check(lines: Vec<ExplanationLine>, expected: &[&str]) {
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
                level("leaf", &["l1", "l2"], Some(1), Some(LevelRequest::Preferred)),
                level("rack", &["r1", "r2"], Some(1), Some(LevelRequest::Spread)),
                level("node", &["n1", "n2", "n3", "n4", "n5", "n6", "n7"], None, None),
            ],
            since: NOON,
            backfilled: true,
            predicted: false,
            next: Some(NextStart {
                element: id(2, 0),
                name: "right".to_owned(),
                start: after(20),
                predicted: false,
            }),
        };
        check(
            lines(&placement, RenderContext::plain().at(NOON)),
            &[
                "placed     7 tasks on n1, n2, n3, n4 and 1 more: GPUs 0-3 each; n6: 0.5 of GPU 7; n7; and 2 nodes more",
                "spans      1 block (b1)",
                "           2 leafs (l1, l2), as few as possible when it started; on an idle cluster 1 would be enough",
                "           2 racks (r1, r2), spread as asked",
                "           7 nodes (n1, n2, n3, n4 and 3 more)",
                "backfilled it started before jobs ahead of it in the queue and delays none of them",
                "then       right (2) starts here at 12:00:20 at the latest",
            ],
        );
        let next = placement.next.clone().map(|next| NextStart { predicted: true, ..next });
        let predicted = PlacementView { predicted: true, next, ..placement.clone() };
        let lines_of = |placement| lines(placement, RenderContext::plain().at(NOON));
        check(
            lines_of(&predicted).split_off(5),
            &[
                "backfilled it started before jobs ahead of it in the queue; it delays them only if it runs longer than predicted",
                "then       right (2) starts here about 12:00:20, if jobs run as long as predicted",
            ],
        );
        let alone =
            PlacementView { tasks: 1, nodes: 1, backfilled: false, next: None, ..placement };
        assert_eq!(
            lines(&alone, RenderContext::plain().at(NOON)).len(),
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
            preempted(&view, RenderContext::plain().at(NOON)),
            &[
                "preempted  at 12:00:20 by train (7) of a, which reclaimed quota that its queue had lent",
                "           it resumes from its checkpoint step 1200 of 12:00:05",
            ],
        );
        let unnamed = CheckpointView { label: String::new(), ..saved };
        let gone =
            PreemptedView { name: None, queue: None, cause: EvictionCause::Outranked, ..view };
        check(
            preempted(
                &PreemptedView { checkpoint: Some(unnamed), ..gone.clone() },
                RenderContext::plain().at(NOON),
            ),
            &[
                "preempted  at 12:00:20 by 7, which has a higher priority",
                "           it resumes from its checkpoint of 12:00:05",
            ],
        );
        let second = |view| preempted(&view, RenderContext::plain().at(NOON))[1].text.clone();
        let unsaved = PreemptedView { checkpoint: None, ..gone };
        assert_eq!(second(unsaved.clone()), "it has no checkpoint and starts over");
        let saving = PreemptedView { saves_until: Some(after(60)), ..unsaved };
        assert_eq!(second(saving), "it may save a checkpoint until 12:01:00");
    }
}
