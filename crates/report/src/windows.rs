//! Advance reservations: the table of `muster reserve`, the reasons to wait that come of them, and
//! what nodes show of them. People read "reservation" for them.

use muster_model::view::{NodeWindowView, SetAside, WindowView};
use muster_model::{Reason, Time};

use crate::amount::ranges;
use crate::clock;
use crate::nodes;
use crate::reason::Line;
use crate::style::{Ink, Style, clean};
use crate::table::{Align, Cell, Table};

/// One row per reservation.
#[must_use]
pub fn windows(rows: &[WindowView], now: Time, style: &Style) -> String {
    if rows.is_empty() {
        return "no reservations\n".to_owned();
    }
    let mut table = Table::new(&[
        ("NAME", Align::Left),
        ("STATE", Align::Left),
        ("BEGINS", Align::Left),
        ("ENDS", Align::Left),
        ("EVERY", Align::Left),
        ("SETS ASIDE", Align::Left),
        ("FOR", Align::Left),
        ("RUNNING", Align::Right),
        ("WAITING", Align::Right),
        ("NOTE", Align::Left),
    ]);
    for row in rows {
        let (state, ink) = match (row.begins, row.is_open) {
            (_, true) => ("open", Ink::Good),
            (Some(_), false) => ("ahead", Ink::Waiting),
            (None, false) => ("over", Ink::Faint),
        };
        let at =
            |time: Option<Time>| time.map_or(String::new(), |time| clock::time(time, now, style));
        table.row(vec![
            Cell::from(row.name.as_str()),
            Cell::inked(state, ink),
            Cell::from(at(row.begins)),
            Cell::from(at(row.ends)),
            Cell::from(every(row)),
            Cell::from(sets_aside(row)),
            Cell::from(whom(row)),
            Cell::from(row.running.to_string()),
            Cell::from(row.waiting.to_string()),
            Cell::from(note(row)),
        ]);
    }
    table.render(style)
}

/// `1d`, `1d, 5 times`.
fn every(row: &WindowView) -> String {
    match (row.times.every, row.times.count) {
        (None, _) => String::new(),
        (Some(every), None) => every.to_string(),
        (Some(every), Some(count)) => format!("{every}, {count} times"),
    }
}

/// `n1, n2`, `GPUs 0-3 of n1, GPU 2 of n2`.
fn sets_aside(row: &WindowView) -> String {
    let places = row.places.iter().map(|place| of_node(place.node.as_str(), &place.devices));
    let places: Vec<String> = places.collect();
    match (places.is_empty(), row.gpus) {
        (true, Some(_)) => "nothing yet".to_owned(),
        _ => places.join(", "),
    }
}

fn of_node(node: &str, devices: &[u16]) -> String {
    match devices {
        [] => node.to_owned(),
        [one] => format!("GPU {one} of {node}"),
        many => {
            let numbers: Vec<u32> = many.iter().map(|device| u32::from(*device)).collect();
            format!("GPUs {} of {node}", ranges(&numbers))
        }
    }
}

/// Users, then queues.
fn whom(row: &WindowView) -> String {
    let users = row.users.iter().map(|user| user.to_string());
    users
        .chain(row.queues.iter().map(|queue| format!("queue {queue}")))
        .collect::<Vec<_>>()
        .join(", ")
}

fn note(row: &WindowView) -> String {
    let mut notes = Vec::new();
    if row.gpus_missing > 0 {
        let of = row.gpus.unwrap_or(row.gpus_missing);
        notes.push(format!("{} of {of} GPUs are missing", row.gpus_missing));
    }
    if row.stop && !row.is_open {
        notes.push("stops what of others is there".to_owned());
    }
    if !row.reason.is_empty() {
        notes.push(row.reason.clone());
    }
    notes.join("; ")
}

/// `reserved for night from 18:00:00`, `GPUs 0,1 reserved for night until 06:00:00`.
pub(crate) fn on_node(window: &NodeWindowView, now: Time, style: &Style) -> String {
    let when = match window.is_open {
        true => format!("until {}", clock::time(window.ends, now, style)),
        false => format!("from {}", clock::time(window.begins, now, style)),
    };
    let name = clean(window.window.as_str());
    match &window.devices[..] {
        [] => format!("reserved for {name} {when}"),
        devices => format!("{} reserved for {name} {when}", nodes::gpus(devices)),
    }
}

/// `n1 for night until 06:00:00`.
pub(crate) fn set_aside(one: &SetAside, now: Time, style: &Style) -> String {
    let what = of_node(&clean(one.node.as_str()), &one.devices);
    format!("{what} for {} until {}", clean(one.window.as_str()), clock::time(one.ends, now, style))
}

/// The fragment of a reason that is about a reservation; empty for every other.
pub(crate) fn short(reason: &Reason, now: Time, style: &Style) -> String {
    let at = |time: Time| clock::time(time, now, style);
    match reason {
        Reason::WindowAhead { window, from, .. } => {
            format!("would run into reservation {window} at {}", at(*from))
        }
        Reason::WindowNotOpen { window, begins } => {
            format!("reservation {window} begins at {}", at(*begins))
        }
        Reason::WindowEnds { window, ends, .. } => {
            format!("would outlast reservation {window}, which ends at {}", at(*ends))
        }
        Reason::WindowOver { window } => format!("reservation {window} is over"),
        Reason::WindowTooShort { window, asked, length } => {
            let asks = match asked {
                None => "has no time limit".to_owned(),
                Some(asked) => {
                    let more = muster_model::Span(asked.0.saturating_sub(length.0));
                    format!("asks for {} more, grace included", clock::ahead(more))
                }
            };
            format!("reservation {window} is open for {length}, this {asks}")
        }
        _ => String::new(),
    }
}

/// The sentences of such a reason.
pub(crate) fn lines(reason: &Reason, now: Time, style: &Style) -> Vec<Line> {
    let at = |time: Time| clock::time(time, now, style);
    let shorter = |line: Line, fits: &Option<muster_model::Span>| match fits {
        Some(limit) => line.with(format!("muster run … --time {limit}")),
        None => line,
    };
    let line = match reason {
        Reason::WindowAhead { window, from, fits_if_shorter_than } => {
            let text = format!("{window} takes what it would hold from {} on", at(*from));
            shorter(Line::new("reserved", text), fits_if_shorter_than)
        }
        Reason::WindowNotOpen { window, begins } => {
            let ahead = clock::ahead(begins.since(now));
            Line::new(
                "waits for",
                format!("reservation {window} to begin at {}, in {ahead}", at(*begins)),
            )
            .with("muster reserve")
        }
        Reason::WindowEnds { window, ends, again, fits_if_shorter_than } => {
            let again = again.map_or("it does not begin again".to_owned(), |again| {
                format!("it begins again at {}", at(again))
            });
            let text = format!("{window} ends at {}, before this would; {again}", at(*ends));
            shorter(Line::new("reservation", text), fits_if_shorter_than)
        }
        Reason::WindowOver { window } => Line::new(
            "reservation",
            format!("{window} is over, was taken back, or is for others now"),
        )
        .with("muster reserve"),
        Reason::WindowTooShort { .. } => {
            let text = short(reason, now, style);
            Line::new("reservation", text)
        }
        _ => return Vec::new(),
    };
    vec![line]
}

#[cfg(test)]
mod tests {
    use muster_model::view::WindowPlaceView;
    use muster_model::{Span, WindowTimes};

    use super::*;
    use crate::sample::NOON;

    fn row(name: &str) -> WindowView {
        WindowView {
            name: name.into(),
            users: vec!["ann".into()],
            queues: vec!["research/vision".into()],
            times: WindowTimes {
                start: NOON,
                length: Span::from_secs(3600),
                every: None,
                count: None,
            },
            is_open: true,
            begins: Some(NOON),
            ends: Some(NOON + Span::from_secs(3600)),
            gpus: None,
            model: None,
            gpus_missing: 0,
            places: vec![WindowPlaceView { node: "n1".into(), devices: Vec::new() }],
            running: 1,
            waiting: 2,
            stop: false,
            by: Some("root".into()),
            reason: String::new(),
        }
    }

    #[test]
    fn a_row_says_when_what_and_for_whom() {
        let mut nightly = row("nightly");
        nightly.users.clear();
        (nightly.times.every, nightly.times.count) = (Some(Span::from_secs(86_400)), Some(5));
        (nightly.is_open, nightly.stop, nightly.reason) = (false, true, "demo".to_owned());
        (nightly.gpus, nightly.gpus_missing) = (Some(4), 1);
        nightly.places[0].devices = vec![0, 1, 3];
        let text = windows(&[row("exam"), nightly], NOON, &Style::plain());
        let expected = "\
NAME     STATE  BEGINS    ENDS      EVERY        SETS ASIDE         FOR                         RUNNING  WAITING  NOTE
exam     open   12:00:00  13:00:00               n1                 ann, queue research/vision        1        2
nightly  ahead  12:00:00  13:00:00  1d, 5 times  GPUs 0,1,3 of n1   queue research/vision             1        2  1 of 4 GPUs are missing; stops what of others is there; demo
";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&text), squeeze(expected));
        assert_eq!(windows(&[], NOON, &Style::plain()), "no reservations\n");
    }

    #[test]
    fn every_reason_names_its_reservation_and_the_way_out() {
        let (window, later) = ("exam".into(), NOON + Span::from_secs(600));
        let fits = Some(Span::from_secs(300));
        let rows = [
            (
                Reason::WindowAhead { window, from: later, fits_if_shorter_than: fits },
                "would run into reservation exam at 12:10:00",
                "exam takes what it would hold from 12:10:00 on",
                Some("muster run … --time 5m"),
            ),
            (
                Reason::WindowNotOpen { window: "exam".into(), begins: later },
                "reservation exam begins at 12:10:00",
                "reservation exam to begin at 12:10:00, in 10m",
                Some("muster reserve"),
            ),
            (
                Reason::WindowEnds {
                    window: "exam".into(),
                    ends: later,
                    again: None,
                    fits_if_shorter_than: fits,
                },
                "would outlast reservation exam, which ends at 12:10:00",
                "exam ends at 12:10:00, before this would; it does not begin again",
                Some("muster run … --time 5m"),
            ),
            (
                Reason::WindowOver { window: "exam".into() },
                "reservation exam is over",
                "exam is over, was taken back, or is for others now",
                Some("muster reserve"),
            ),
            (
                Reason::WindowTooShort {
                    window: "exam".into(),
                    asked: None,
                    length: Span::from_secs(600),
                },
                "reservation exam is open for 10m, this has no time limit",
                "reservation exam is open for 10m, this has no time limit",
                None,
            ),
        ];
        for (reason, fragment, sentence, command) in rows {
            assert_eq!(short(&reason, NOON, &Style::plain()), fragment);
            let lines = lines(&reason, NOON, &Style::plain());
            assert_eq!((lines.len(), &*lines[0].text), (1, sentence));
            assert_eq!(lines[0].command.as_deref(), command);
        }
    }
}
