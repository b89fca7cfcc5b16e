//! Who makes room for what waits, as `muster explain` says it: who leaves, and why the others stay.

use muster_model::view::{LeavingView, MovesView, Stays, StaysView, Unmoved};
use muster_model::{ElementId, EvictionCause, QueueName, Time};

use crate::amount::{count, hours};
use crate::clock;
use crate::limits::hours_up;
use crate::reason::{Line, element};
use crate::style::{Style, clean};

/// Names in a row; JSON has more.
const NAMED: usize = 3;

/// Others were told to go; or would be, when it is not submitted yet.
pub(crate) fn making(evicting: u32, by: &str, is_submitted: bool) -> Vec<Line> {
    let who = count(evicting.into(), "job");
    let (told, will) = match (is_submitted, evicting) {
        (true, 1) => ("was", "will"),
        (true, _) => ("were", "will"),
        (false, _) => ("would be", "would"),
    };
    let text = format!("{who} {told} told to make room for it, and {will} have by {by}");
    vec![Line::new("waits for", text), Line::new("", "then it starts: its places are kept for it")]
}

/// Those who are on their way out for it.
pub(crate) fn leaving(leaving: &[LeavingView], now: Time, style: &Style) -> Vec<Line> {
    let line = |(at, one): (usize, &LeavingView)| {
        let (name, id) = (clean(&one.name), element(one.element));
        let by = clock::time(one.by, now, style);
        let how = match one.saves_until {
            Some(until) if one.undelivered => format!(
                "does not handle its checkpoint signal, is stopped at {} and gone by {by}",
                clock::time(until, now, style)
            ),
            Some(until) => {
                format!(
                    "saves its progress until {} at the latest, gone by {by}",
                    clock::time(until, now, style)
                )
            }
            None => format!("is being stopped, gone by {by}"),
        };
        let rest = match one.cause {
            EvictionCause::Shrunk => "; goes on with fewer tasks",
            EvictionCause::Moved => "; goes on elsewhere",
            EvictionCause::Yielded
            | EvictionCause::Reclaimed
            | EvictionCause::Outranked
            | EvictionCause::Grown => "",
        };
        let label = if at == 0 { "leaving" } else { "" };
        Line::new(label, format!("{name} ({id}) of {} {how}{rest}", one.queue))
    };
    let mut lines: Vec<Line> = leaving.iter().take(NAMED).enumerate().map(line).collect();
    if leaving.len() > NAMED {
        lines.push(Line::new("", "and others"));
    }
    lines
}

/// Why nobody goes for it: one sentence for all.
pub(crate) fn stays(
    stays: &[StaysView],
    queue: &QueueName,
    now: Time,
    style: &Style,
) -> Option<Line> {
    let mut alike: Vec<Vec<&StaysView>> = Vec::new();
    for one in stays {
        match alike.iter_mut().find(|those| (those[0].why, those[0].until) == (one.why, one.until))
        {
            Some(those) => those.push(one),
            None => alike.push(vec![one]),
        }
    }
    let words: Vec<String> = alike.iter().map(|those| sentence(those, queue, now, style)).collect();
    (!words.is_empty())
        .then(|| Line::new("room", format!("nobody goes for it: {}", words.join("; "))))
}

/// Why these stay, all of them for the same reason.
fn sentence(those: &[&StaysView], queue: &QueueName, now: Time, style: &Style) -> String {
    let is_one = those.len() == 1;
    let who = names(those);
    let (has, is) = if is_one { ("has", "is") } else { ("have", "are") };
    let (runs, owes) = if is_one { ("runs", "owes") } else { ("run", "owe") };
    match (those[0].why, those[0].until) {
        (Stays::NoLower, _) => format!("{who} {has} no lower priority"),
        (Stays::Protected, Some(until)) => {
            format!("{who} {is} protected until {}", clock::time(until, now, style))
        }
        (Stays::Protected, None) => format!("{who} {is} protected"),
        (Stays::WithinQuota, _) => format!("{who} {runs} within the quota of another queue"),
        (Stays::NotItsOwn, _) => {
            format!(
                "{who} {owes} {queue} nothing, which would use more than its own quota with this"
            )
        }
        (Stays::BehindAll, _) => format!("{who} {is} in turn, and this runs in what is idle"),
        (Stays::Off, _) => format!("{who} {is} kept by `preemption` of the queue file"),
        (Stays::InVain, _) => format!("without {who} it would not start either"),
    }
}

/// Whom it would help to move, and why that is not done.
pub(crate) fn moves(moves: &MovesView, now: Time, style: &Style) -> Line {
    let jobs = moves.jobs.iter().map(|one| (&*one.name, one.element));
    let (who, cost) = (some(jobs, moves.count as usize), hours_up(moves.cost_gpu_secs));
    let why = match moves.why {
        Unmoved::Off => "but `defragment` of the queue file is off".to_owned(),
        Unmoved::Spent { left_gpu_secs, refills_at } => {
            let left = format!("but {} are left for moves", hours(left_gpu_secs));
            match refills_at {
                Some(at) => format!("{left} until {}", clock::time(at, now, style)),
                None => format!("{left}, and never as many"),
            }
        }
        Unmoved::Dear { worth_gpu_secs } => {
            format!("which is more than it loses by waiting ({})", hours(worth_gpu_secs))
        }
    };
    Line::new(
        "moving",
        format!("if {who} went on elsewhere it would start, at {cost} GPU-hours, {why}"),
    )
}

/// `left (1), sweep[3] (2) and 4 more`.
fn names(those: &[&StaysView]) -> String {
    some(those.iter().map(|one| (&*one.name, one.element)), those.len())
}

/// The first few of so many.
fn some<'a>(named: impl Iterator<Item = (&'a str, ElementId)>, count: usize) -> String {
    let named: Vec<String> =
        named.take(NAMED).map(|(name, id)| format!("{} ({})", clean(name), element(id))).collect();
    match count.saturating_sub(named.len()) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use muster_model::view::Moved;

    use super::*;
    use crate::sample::{NOON, after, id};

    fn one(job: u64, why: Stays, until: Option<Time>) -> StaysView {
        StaysView { element: id(job, 0), name: "left".to_owned(), why, until }
    }

    #[test]
    fn why_each_of_them_stays() {
        let cases = [
            (one(1, Stays::NoLower, None), "left (1) has no lower priority"),
            (one(1, Stays::Protected, Some(after(60))), "left (1) is protected until 12:01:00"),
            (one(1, Stays::Protected, None), "left (1) is protected"),
            (one(1, Stays::WithinQuota, None), "left (1) runs within the quota of another queue"),
            (
                one(1, Stays::NotItsOwn, None),
                "left (1) owes a nothing, which would use more than its own quota with this",
            ),
            (one(1, Stays::BehindAll, None), "left (1) is in turn, and this runs in what is idle"),
            (one(1, Stays::Off, None), "left (1) is kept by `preemption` of the queue file"),
            (one(1, Stays::InVain, None), "without left (1) it would not start either"),
        ];
        for (stay, expected) in cases {
            let line = stays(&[stay], &"a".into(), NOON, &Style::plain()).expect("somebody stays");
            assert_eq!(
                (line.label, line.text),
                ("room", format!("nobody goes for it: {expected}"))
            );
        }
        assert_eq!(stays(&[], &"a".into(), NOON, &Style::plain()), None);
    }

    #[test]
    fn those_with_one_reason_are_named_together() {
        let all: Vec<StaysView> = (1..=5)
            .map(|job| one(job, if job == 2 { Stays::Protected } else { Stays::NoLower }, None))
            .collect();
        assert_eq!(
            stays(&all, &"a".into(), NOON, &Style::plain()).expect("somebody stays").text,
            "nobody goes for it: left (1), left (3), left (4) and 1 more have no lower priority; left (2) is protected"
        );
    }

    #[test]
    fn whom_it_would_help_to_move_and_why_that_is_not_done() {
        let jobs: Vec<Moved> =
            (1..=4).map(|job| Moved { element: id(job, 0), name: "left".to_owned() }).collect();
        let text = |why| {
            moves(
                &MovesView { jobs: jobs.clone(), count: 12, cost_gpu_secs: 3601, why },
                NOON,
                &Style::plain(),
            )
            .text
        };
        let who = "if left (1), left (2), left (3) and 9 more went on elsewhere it would start, at 1.1 GPU-hours";
        let spent = |refills_at| Unmoved::Spent { left_gpu_secs: 1800, refills_at };
        let cases = [
            (Unmoved::Off, "but `defragment` of the queue file is off"),
            (spent(Some(after(60))), "but 0.5 are left for moves until 12:01:00"),
            (spent(None), "but 0.5 are left for moves, and never as many"),
            (Unmoved::Dear { worth_gpu_secs: 720 }, "which is more than it loses by waiting (0.2)"),
        ];
        for (why, expected) in cases {
            assert_eq!(text(why), format!("{who}, {expected}"));
        }
    }

    #[test]
    fn who_leaves_saves_or_is_stopped() {
        let view = |job, saves_until, cause| LeavingView {
            element: id(job, 0),
            name: "left".to_owned(),
            queue: "b".into(),
            cause,
            saves_until,
            by: after(90),
            undelivered: job == 5,
        };
        let all = [
            view(1, Some(after(60)), EvictionCause::Reclaimed),
            view(2, None, EvictionCause::Moved),
            view(3, None, EvictionCause::Shrunk),
            view(4, None, EvictionCause::Yielded),
        ];
        let lines: Vec<String> = leaving(&all, NOON, &Style::plain())
            .into_iter()
            .map(|line| format!("{:<8}{}", line.label, line.text))
            .collect();
        assert_eq!(
            lines,
            [
                "leaving left (1) of b saves its progress until 12:01:00 at the latest, gone by 12:01:30",
                "        left (2) of b is being stopped, gone by 12:01:30; goes on elsewhere",
                "        left (3) of b is being stopped, gone by 12:01:30; goes on with fewer tasks",
                "        and others",
            ]
        );
    }

    #[test]
    fn before_it_is_submitted_all_of_it_is_a_condition() {
        let text = |count, is_submitted| making(count, "12:00:00", is_submitted)[0].text.clone();
        assert_eq!(text(1, true), "1 job was told to make room for it, and will have by 12:00:00");
        assert_eq!(
            text(2, true),
            "2 jobs were told to make room for it, and will have by 12:00:00"
        );
        assert_eq!(
            text(2, false),
            "2 jobs would be told to make room for it, and would have by 12:00:00"
        );
    }
}
