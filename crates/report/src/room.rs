//! Who makes room for what waits, as `muster explain` says it: who leaves, and why the others stay.

use muster_model::view::{LeavingView, Stays, StaysView};
use muster_model::{EvictionCause, QueueName, Time};

use crate::amount::count;
use crate::clock;
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
pub(crate) fn stays(stays: &[StaysView], queue: &QueueName, now: Time, style: &Style) -> Option<Line> {
    let mut alike: Vec<Vec<&StaysView>> = Vec::new();
    for one in stays {
        match alike.iter_mut().find(|those| (those[0].why, those[0].until) == (one.why, one.until)) {
            Some(those) => those.push(one),
            None => alike.push(vec![one]),
        }
    }
    let words: Vec<String> = alike.iter().map(|those| sentence(those, queue, now, style)).collect();
    (!words.is_empty()).then(|| Line::new("room", format!("nobody goes for it: {}", words.join("; "))))
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
            format!("{who} {owes} {queue} nothing, which would use more than its own quota with this")
        }
        (Stays::BehindAll, _) => format!("{who} {is} in turn, and this runs in what is idle"),
        (Stays::Off, _) => format!("{who} {is} kept by `preemption` of the queue file"),
        (Stays::InVain, _) => format!("without {who} it would not start either"),
    }
}

/// `left (1), sweep[3] (2) and 4 more`.
fn names(those: &[&StaysView]) -> String {
    let named: Vec<String> = those
        .iter()
        .take(NAMED)
        .map(|one| format!("{} ({})", clean(&one.name), element(one.element)))
        .collect();
    match those.len().saturating_sub(NAMED) {
        0 => named.join(", "),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!((line.label, line.text), ("room", format!("nobody goes for it: {expected}")));
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
    fn who_leaves_saves_or_is_stopped() {
        let view = |job, saves_until, cause| LeavingView {
            element: id(job, 0),
            name: "left".to_owned(),
            queue: "b".into(),
            cause,
            saves_until,
            by: after(90),
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
        assert_eq!(text(2, true), "2 jobs were told to make room for it, and will have by 12:00:00");
        assert_eq!(text(2, false), "2 jobs would be told to make room for it, and would have by 12:00:00");
    }
}
