//! Advance reservations: the table of `muster reserve`, the reasons to wait for them, and their
//! notes on nodes. In texts they are called reservations.

use std::collections::BTreeMap;

use muster_model::view::{AdvanceReservationView, NodeAdvanceReservationView, ReservedCapacity};
use muster_model::{AdvanceReservationName, Reason, Time};

use crate::RenderContext;
use crate::amount::ranges;
use crate::clock;
use crate::explanation_line::ExplanationLine;
use crate::style::{Ink, clean};
use crate::table::{Cell, Table};

/// Most reservations that one phrase names.
const MAX_NAMED: usize = 3;

/// Returns a table with one row per reservation.
#[must_use]
pub fn windows(rows: &[AdvanceReservationView], context: RenderContext) -> String {
    if rows.is_empty() {
        return "no reservations\n".to_owned();
    }
    let at = |time: Option<Time>| time.map_or(String::new(), |time| clock::time(time, context));
    Table::of(rows)
        .left("NAME", |row| row.name.as_str())
        .left("STATE", |row| {
            let (state, ink) = match (row.begins, row.is_active) {
                (_, true) => ("active", Ink::Good),
                (Some(_), false) => ("upcoming", Ink::Waiting),
                (None, false) => ("over", Ink::Faint),
            };
            Cell::inked(state, ink)
        })
        .left("BEGINS", |row| at(row.begins))
        .left("ENDS", |row| at(row.ends))
        .left("EVERY", every)
        .left("RESERVES", reserved_devices)
        .left("FOR", admitted)
        .right("RUNNING", |row| row.running.to_string())
        .right("WAITING", |row| row.waiting.to_string())
        .left("NOTE", note)
        .render(context)
}

/// `1d`, `1d, 5 times`.
fn every(row: &AdvanceReservationView) -> String {
    match (row.times.every, row.times.count) {
        (None, _) => String::new(),
        (Some(every), None) => every.to_string(),
        (Some(every), Some(count)) => format!("{every}, {count} times"),
    }
}

/// `n1, n2`, `GPUs 0-3 of n1, GPU 2 of n2`.
fn reserved_devices(row: &AdvanceReservationView) -> String {
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

/// Returns the users, then the queues, that a reservation is for.
fn admitted(row: &AdvanceReservationView) -> String {
    let users = row.users.iter().map(|user| user.to_string());
    users
        .chain(row.queues.iter().map(|queue| format!("queue {queue}")))
        .collect::<Vec<_>>()
        .join(", ")
}

fn note(row: &AdvanceReservationView) -> String {
    let mut notes = Vec::new();
    if row.gpus_missing > 0 {
        let of = row.gpus.unwrap_or(row.gpus_missing);
        notes.push(format!("{} of {of} GPUs are missing", row.gpus_missing));
    }
    if row.stop && !row.is_active {
        notes.push("stops other jobs when it begins".to_owned());
    }
    if !row.reason.is_empty() {
        notes.push(row.reason.clone());
    }
    notes.join("; ")
}

/// `reserved for night from 18:00:00`, `GPUs 0,1 reserved for night until 06:00:00`.
pub(crate) fn on_node(window: &NodeAdvanceReservationView, context: RenderContext) -> String {
    let when = if window.is_active {
        format!("until {}", clock::time(window.ends, context))
    } else {
        format!("from {}", clock::time(window.begins, context))
    };
    let name = clean(window.advance_reservation.as_str());
    match &window.devices[..] {
        [] => format!("reserved for {name} {when}"),
        devices => format!("{} reserved for {name} {when}", crate::amount::gpu_indices(devices)),
    }
}

/// Returns which reservations set capacity aside that a job could use, as one phrase; `None` without any.
pub(crate) fn holders(all: &[ReservedCapacity], context: RenderContext) -> Option<String> {
    let mut until: BTreeMap<&AdvanceReservationName, Time> = BTreeMap::new();
    for one in all {
        let latest = until.entry(&one.advance_reservation).or_insert(one.ends);
        *latest = one.ends.max(*latest);
    }
    let one = |(name, until): (&&AdvanceReservationName, &Time)| {
        format!("{} until {}", clean(name.as_str()), clock::time(*until, context))
    };
    let named: Vec<String> = until.iter().take(MAX_NAMED).map(one).collect();
    let more = if until.len() > MAX_NAMED { " and others" } else { "" };
    (!named.is_empty()).then(|| format!("set aside for reservation {}{more}", named.join(", ")))
}

/// `n1 for night until 06:00:00`.
pub(crate) fn set_aside(one: &ReservedCapacity, context: RenderContext) -> String {
    let what = of_node(&clean(one.node.as_str()), &one.devices);
    format!(
        "{what} for {} until {}",
        clean(one.advance_reservation.as_str()),
        clock::time(one.ends, context)
    )
}

/// Returns the fragment of a reason about a reservation; empty for any other.
pub(crate) fn short(reason: &Reason, context: RenderContext) -> String {
    let at = |time: Time| clock::time(time, context);
    match reason {
        Reason::UpcomingAdvanceReservation { advance_reservation: window, from, .. } => {
            format!("would run into reservation {window} at {}", at(*from))
        }
        Reason::AdvanceReservationNotActive { advance_reservation: window, begins } => {
            format!("reservation {window} begins at {}", at(*begins))
        }
        Reason::AdvanceReservationEnds { advance_reservation: window, ends, .. } => {
            format!("would outlast reservation {window}, which ends at {}", at(*ends))
        }
        Reason::AdvanceReservationOver { advance_reservation: window } => {
            format!("reservation {window} is over")
        }
        Reason::AdvanceReservationTooShort { advance_reservation: window, asked, length } => {
            let asks = match asked {
                None => "has no time limit".to_owned(),
                Some(asked) => {
                    let more = muster_model::Span(asked.0.saturating_sub(length.0));
                    format!("asks for {} more, grace included", clock::remaining(more))
                }
            };
            format!("reservation {window} lasts {length}, this {asks}")
        }
        _ => String::new(),
    }
}

/// Returns the sentences of a reason about a reservation; none for any other.
pub(crate) fn lines(reason: &Reason, context: RenderContext) -> Vec<ExplanationLine> {
    let at = |time: Time| clock::time(time, context);
    let shorter = |line: ExplanationLine, fits: &Option<muster_model::Span>| match fits {
        Some(limit) => line.with(format!("muster run … --time {limit}")),
        None => line,
    };
    let line = match reason {
        Reason::UpcomingAdvanceReservation {
            advance_reservation: window,
            from,
            fits_if_shorter_than,
        } => {
            let text = format!("{window} reserves the same GPUs from {} on", at(*from));
            shorter(ExplanationLine::new("reserved", text), fits_if_shorter_than)
        }
        Reason::AdvanceReservationNotActive { advance_reservation: window, begins } => {
            let ahead = clock::remaining(begins.since(context.now));
            ExplanationLine::new(
                "waits for",
                format!("reservation {window} to begin at {}, in {ahead}", at(*begins)),
            )
            .with("muster reserve")
        }
        Reason::AdvanceReservationEnds {
            advance_reservation: window,
            ends,
            again,
            fits_if_shorter_than,
        } => {
            let again = again.map_or("it does not begin again".to_owned(), |again| {
                format!("it begins again at {}", at(again))
            });
            let text = format!("{window} ends at {}, before this would; {again}", at(*ends));
            shorter(ExplanationLine::new("reservation", text), fits_if_shorter_than)
        }
        Reason::AdvanceReservationOver { advance_reservation: window } => ExplanationLine::new(
            "reservation",
            format!("{window} has ended, was deleted, or no longer admits this job"),
        )
        .with("muster reserve"),
        Reason::AdvanceReservationTooShort { .. } => {
            let text = short(reason, context);
            ExplanationLine::new("reservation", text)
        }
        _ => return Vec::new(),
    };
    vec![line]
}

#[cfg(test)]
mod tests {
    use muster_model::view::ReservedPlaceView;
    use muster_model::{AdvanceReservationTimes, Span};

    use super::*;
    use crate::sample::NOON;

    fn row(name: &str) -> AdvanceReservationView {
        AdvanceReservationView {
            name: name.into(),
            users: vec!["ann".into()],
            queues: vec!["research/vision".into()],
            times: AdvanceReservationTimes {
                start: NOON,
                length: Span::from_secs(3600),
                every: None,
                count: None,
            },
            is_active: true,
            begins: Some(NOON),
            ends: Some(NOON + Span::from_secs(3600)),
            gpus: None,
            model: None,
            gpus_missing: 0,
            places: vec![ReservedPlaceView { node: "n1".into(), devices: Vec::new() }],
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
        (nightly.is_active, nightly.stop, nightly.reason) = (false, true, "demo".to_owned());
        (nightly.gpus, nightly.gpus_missing) = (Some(4), 1);
        nightly.places[0].devices = vec![0, 1, 3];
        let text = windows(&[row("exam"), nightly], RenderContext::plain().at(NOON));
        let expected = "\
NAME     STATE     BEGINS    ENDS      EVERY        RESERVES         FOR                         RUNNING  WAITING  NOTE
exam     active    12:00:00  13:00:00               n1               ann, queue research/vision        1        2
nightly  upcoming  12:00:00  13:00:00  1d, 5 times  GPUs 0,1,3 of n1 queue research/vision             1        2  1 of 4 GPUs are missing; stops other jobs when it begins; demo
";
        let squeeze = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(squeeze(&text), squeeze(expected));
        assert_eq!(windows(&[], RenderContext::plain().at(NOON)), "no reservations\n");
    }

    #[test]
    fn every_reason_names_its_reservation_and_the_way_out() {
        let window = "exam".into();
        let later = NOON + Span::from_secs(600);
        let fits = Some(Span::from_secs(300));
        let rows = [
            (
                Reason::UpcomingAdvanceReservation {
                    advance_reservation: window,
                    from: later,
                    fits_if_shorter_than: fits,
                },
                "would run into reservation exam at 12:10:00",
                "exam reserves the same GPUs from 12:10:00 on",
                Some("muster run … --time 5m"),
            ),
            (
                Reason::AdvanceReservationNotActive {
                    advance_reservation: "exam".into(),
                    begins: later,
                },
                "reservation exam begins at 12:10:00",
                "reservation exam to begin at 12:10:00, in 10m",
                Some("muster reserve"),
            ),
            (
                Reason::AdvanceReservationEnds {
                    advance_reservation: "exam".into(),
                    ends: later,
                    again: None,
                    fits_if_shorter_than: fits,
                },
                "would outlast reservation exam, which ends at 12:10:00",
                "exam ends at 12:10:00, before this would; it does not begin again",
                Some("muster run … --time 5m"),
            ),
            (
                Reason::AdvanceReservationOver { advance_reservation: "exam".into() },
                "reservation exam is over",
                "exam has ended, was deleted, or no longer admits this job",
                Some("muster reserve"),
            ),
            (
                Reason::AdvanceReservationTooShort {
                    advance_reservation: "exam".into(),
                    asked: None,
                    length: Span::from_secs(600),
                },
                "reservation exam lasts 10m, this has no time limit",
                "reservation exam lasts 10m, this has no time limit",
                None,
            ),
        ];
        for (reason, fragment, sentence, command) in rows {
            assert_eq!(short(&reason, RenderContext::plain().at(NOON)), fragment);
            let lines = lines(&reason, RenderContext::plain().at(NOON));
            assert_eq!((lines.len(), &*lines[0].text), (1, sentence));
            assert_eq!(lines[0].command.as_deref(), command);
        }
    }
}
