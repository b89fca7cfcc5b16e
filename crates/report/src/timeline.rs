//! Timeline of GPU allocations drawn with characters: one row per GPU, time to the right.
//!
//! A cell shows the job that held the GPU longest in its slice of time, `+` if several shared it,
//! `·` if it was idle; the future is blank. Elements of an array share their job's symbol.

use std::collections::{BTreeMap, BTreeSet};

use muster_model::view::DeviceBar;
use muster_model::{ElementId, JobId, NodeName, Span, Time};

use crate::RenderContext;
use crate::clock;
use crate::style::{Ink, clean, wrap};

/// A reserved future start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimelineStart {
    /// Element that is planned to start.
    pub element: ElementId,
    /// Name of its job.
    pub name: String,
    /// Instant at which it starts at the latest, or, if `predicted`, at which it is expected to start.
    pub start: Time,
    /// True if the start is planned by predicted run times, and may come later.
    pub predicted: bool,
}

/// Input of a drawing.
#[derive(Clone, Copy, Debug)]
pub struct TimelineInput<'a> {
    /// Left edge, at which bars are cut; `None` for the start of the first bar.
    pub from: Option<Time>,
    /// All devices, in order of rows.
    pub devices: &'a [(NodeName, u16)],
    /// Allocations of devices to elements over time.
    pub bars: &'a [DeviceBar],
    /// Starts to mark in the future.
    pub planned: &'a [TimelineStart],
    /// Names for the legend, which is drawn if symbols are not job numbers.
    pub names: &'a BTreeMap<JobId, String>,
    /// Most rows of GPUs.
    pub max_rows: usize,
}

/// Symbols for jobs once numbers have more than one digit.
const SYMBOLS: &[u8] = b"123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
/// Symbol of jobs beyond [`SYMBOLS`].
const OTHER: char = '#';
/// Columns if the output is not a terminal, and at most on a wide one.
const DEFAULT_WIDTH: usize = 100;
const MAX_WIDTH: usize = 160;
/// Above this many GPUs, neighbours with identical rows share one.
const ROWS_APART: usize = 16;
/// Planned starts marked; later ones are only counted.
const MARKS: usize = 3;

/// Returns the drawing; empty if there are no devices.
#[must_use]
pub fn timeline(gantt: &TimelineInput<'_>, context: RenderContext) -> String {
    // 1. The bars within the time range.
    let window = DrawnRange::of(gantt, context.now);
    let bars: Vec<&DeviceBar> = gantt
        .bars
        .iter()
        .filter(|bar| bar.to.is_none_or(|to| to > window.from) && bar.from < window.now)
        .collect();
    if gantt.devices.is_empty() || bars.is_empty() && gantt.planned.is_empty() {
        return String::new();
    }
    let symbols = Symbols::of(bars.iter().map(|bar| bar.element.job));

    // 2. Widths.
    let labels = labels(gantt.devices);
    let may_merge = gantt.devices.len() > ROWS_APART;
    let longest = labels.iter().map(|label| label.chars().count()).max().unwrap_or(0);
    let label_width = longest + if may_merge { "-127".len() } else { 0 };
    let width = context.width.unwrap_or(DEFAULT_WIDTH).min(MAX_WIDTH);
    let columns = width.saturating_sub(label_width + 5).max(20);

    // 3. Rows, the axis below them, and a legend if symbols are not job numbers.
    let rows: Vec<Vec<Option<TimelineCell>>> = gantt
        .devices
        .iter()
        .map(|(node, device)| {
            let own = bars.iter().copied().filter(|bar| bar.device == *device && bar.node == *node);
            cells(own, &window, columns)
        })
        .collect();
    let mut text = String::new();
    let merged = merge(gantt.devices, labels, &rows);
    for (label, row) in merged.iter().take(gantt.max_rows) {
        let drawn: String = row.iter().map(|cell| draw(*cell, &symbols, context)).collect();
        push_line(&mut text, &format!("  {label:<label_width$} │{drawn}"));
    }
    if merged.len() > gantt.max_rows {
        push_line(
            &mut text,
            &format!("  {:label_width$} … {} more rows", "", merged.len() - gantt.max_rows),
        );
    }
    for (place, line) in axis(gantt, &window, columns, context).iter().enumerate() {
        let corner = if place == 0 { '└' } else { ' ' };
        push_line(&mut text, &format!("  {:label_width$} {corner}{line}", ""));
    }
    text.push_str(&legend(&symbols, gantt.names, &rows, width, context));
    text
}

fn push_line(text: &mut String, line: &str) {
    text.push_str(line.trim_end());
    text.push('\n');
}

/// The time range that is drawn.
struct DrawnRange {
    from: Time,
    now: Time,
    to: Time,
    /// True if nothing runs and nothing is planned: then the right edge is the end of the last bar,
    /// not the present.
    over: bool,
}

impl DrawnRange {
    /// Returns the time range. The future gets at most as much width as the past, so that a distant
    /// start does not compress what has happened.
    fn of(gantt: &TimelineInput<'_>, now: Time) -> Self {
        let first = gantt.bars.iter().map(|bar| bar.from).min().unwrap_or(now);
        let from = gantt.from.unwrap_or(first).min(now);
        let over = gantt.planned.is_empty() && gantt.bars.iter().all(|bar| bar.to.is_some());
        let now = match gantt.bars.iter().filter_map(|bar| bar.to).max() {
            Some(last) if over => last.min(now),
            _ => now,
        };
        let now = now.max(from + Span(1));
        let past = now.since(from).max(Span::from_secs(10));
        let last_planned = gantt.planned.iter().map(|plan| plan.start).max().unwrap_or(now);
        let ahead = last_planned.since(now).min(past);
        Self { from, now, to: now + ahead, over }
    }

    fn length(&self) -> u64 {
        self.to.since(self.from).0.max(1)
    }

    /// Returns the column of an instant; `columns` for the right edge and beyond.
    fn column(&self, at: Time, columns: usize) -> usize {
        let column =
            u128::from(at.since(self.from).0) * columns as u128 / u128::from(self.length());
        usize::try_from(column).unwrap_or(columns).min(columns)
    }

    /// Returns the first instant of a column.
    fn start(&self, column: usize, columns: usize) -> Time {
        let offset = u128::from(self.length()) * column as u128 / columns as u128;
        self.from + Span(u64::try_from(offset).unwrap_or(u64::MAX))
    }
}

/// Content of a slice of time; `None` in a row is the future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimelineCell {
    Idle,
    Job(JobId),
    Shared,
}

fn cells<'a>(
    bars: impl Iterator<Item = &'a DeviceBar>,
    window: &DrawnRange,
    columns: usize,
) -> Vec<Option<TimelineCell>> {
    let mut pieces: Vec<Vec<(JobId, Time, Time)>> = vec![Vec::new(); columns];
    for bar in bars {
        let from = bar.from.max(window.from);
        let to = bar.to.unwrap_or(window.now).min(window.now).max(from + Span(1));
        let last = window.column(to - Span(1), columns).min(columns - 1);
        for (column, cell) in
            pieces.iter_mut().enumerate().take(last + 1).skip(window.column(from, columns))
        {
            let start = from.max(window.start(column, columns));
            let end = to.min(window.start(column + 1, columns)).max(start + Span(1));
            cell.push((bar.element.job, start, end));
        }
    }
    let present = window.column(window.now - Span(1), columns);
    pieces
        .iter()
        .enumerate()
        .map(|(column, pieces)| match (pieces.is_empty(), column <= present) {
            (true, true) => Some(TimelineCell::Idle),
            (true, false) => None,
            (false, _) => Some(occupant(pieces)),
        })
        .collect()
}

fn occupant(pieces: &[(JobId, Time, Time)]) -> TimelineCell {
    let mut held: BTreeMap<JobId, u64> = BTreeMap::new();
    for (place, &(job, start, end)) in pieces.iter().enumerate() {
        let at_once =
            |&(other, from, to): &(JobId, Time, Time)| other != job && from < end && start < to;
        if pieces[..place].iter().any(at_once) && end.since(start).0 > 1 {
            return TimelineCell::Shared;
        }
        *held.entry(job).or_default() += end.since(start).0;
    }
    let longest = held.iter().max_by_key(|(job, length)| (**length, std::cmp::Reverse(**job)));
    longest.map_or(TimelineCell::Idle, |(job, _)| TimelineCell::Job(*job))
}

/// Assigns a character to each job.
struct Symbols {
    jobs: Vec<JobId>,
    by_number: bool,
}

impl Symbols {
    fn of(jobs: impl Iterator<Item = JobId>) -> Self {
        let jobs: Vec<JobId> = jobs.collect::<BTreeSet<_>>().into_iter().collect();
        let by_number = jobs.last().is_none_or(|job| job.0 <= 9);
        Self { jobs, by_number }
    }

    fn place(&self, job: JobId) -> usize {
        self.jobs.binary_search(&job).unwrap_or(usize::MAX)
    }

    fn symbol(&self, job: JobId) -> char {
        if self.by_number {
            job.0.to_string().pop().unwrap_or(OTHER)
        } else {
            SYMBOLS.get(self.place(job)).map_or(OTHER, |&symbol| char::from(symbol))
        }
    }
}

fn draw(cell: Option<TimelineCell>, symbols: &Symbols, context: RenderContext) -> String {
    match cell {
        None => " ".to_owned(),
        Some(TimelineCell::Idle) => context.paint(Ink::Faint, "·"),
        Some(TimelineCell::Shared) => "+".to_owned(),
        Some(TimelineCell::Job(job)) => context
            .paint(Ink::Job(symbols.place(job)), symbols.symbol(job).encode_utf8(&mut [0; 4])),
    }
}

/// Returns the labels of the rows: `gpu 0`, with the node's name if there are several.
fn labels(devices: &[(NodeName, u16)]) -> Vec<String> {
    let several = devices.iter().any(|(node, _)| *node != devices[0].0);
    devices
        .iter()
        .map(|(node, device)| {
            if several {
                format!("{} gpu {device}", clean(node.as_str()))
            } else {
                format!("gpu {device}")
            }
        })
        .collect()
}

/// Returns one row per device; if there are many, identical neighbours on a node share one:
/// `gpu 0-7`.
fn merge<'a>(
    devices: &[(NodeName, u16)],
    labels: Vec<String>,
    rows: &'a [Vec<Option<TimelineCell>>],
) -> Vec<(String, &'a [Option<TimelineCell>])> {
    let mut merged: Vec<(String, &[Option<TimelineCell>])> = Vec::new();
    let mut run_start = 0;
    for (place, (label, row)) in labels.into_iter().zip(rows).enumerate() {
        let joins = devices.len() > ROWS_APART
            && place > 0
            && devices[place].0 == devices[run_start].0
            && rows[run_start] == *row;
        match merged.last_mut() {
            Some((shown, _)) if joins => {
                let base = shown.split('-').next().unwrap_or(shown).to_owned();
                *shown = format!("{base}-{}", devices[place].1);
            }
            _ => {
                run_start = place;
                merged.push((label, row));
            }
        }
    }
    merged
}

/// Returns the marks below the rows: start, now or end, planned starts; on as many lines as needed
/// to avoid overlap.
fn axis(
    gantt: &TimelineInput<'_>,
    window: &DrawnRange,
    columns: usize,
    context: RenderContext,
) -> Vec<String> {
    let at = |time: Time| clock::time(time, context);
    let mut marks = vec![(
        window.column(window.now, columns),
        if window.over { format!("end {}", at(window.now)) } else { "now".to_owned() },
    )];
    let mut starts: BTreeMap<(Time, bool), Vec<String>> = BTreeMap::new();
    for plan in gantt.planned {
        let jobs = starts.entry((plan.start, plan.predicted)).or_default();
        jobs.push(crate::amount::element(plan.element));
    }
    for ((start, predicted), jobs) in starts.iter().take(MARKS) {
        let verb = if jobs.len() == 1 { "starts" } else { "start" };
        let basis = if *predicted { ", as predicted" } else { "" };
        let far = if *start > window.to { " ▸" } else { "" };
        marks.push((
            window.column(*start, columns),
            format!("{}: {} {verb}{basis}{far}", at(*start), jobs.join(", ")),
        ));
    }

    let mut lines = vec![format!(" {}", at(window.from))];
    for (column, words) in marks {
        let length = words.chars().count() + 1;
        let (begin, words) = if column + length <= columns {
            (column, format!("▏{words}"))
        } else {
            ((column + 1).saturating_sub(length), format!("{words}▕"))
        };
        let free = lines.iter().position(|line| {
            let used = line.chars().count();
            used == 0 || used < begin
        });
        let line = match free {
            Some(place) => &mut lines[place],
            None => {
                lines.push(String::new());
                let last = lines.len() - 1;
                &mut lines[last]
            }
        };
        let pad = begin.saturating_sub(line.chars().count());
        line.push_str(&format!("{:pad$}{words}", ""));
    }
    let hidden = starts.len().saturating_sub(MARKS);
    if hidden > 0 {
        lines.push(format!(" and {hidden} more planned starts"));
    }
    lines
}

fn legend(
    symbols: &Symbols,
    names: &BTreeMap<JobId, String>,
    rows: &[Vec<Option<TimelineCell>>],
    width: usize,
    context: RenderContext,
) -> String {
    let shared = rows.iter().flatten().any(|cell| *cell == Some(TimelineCell::Shared));
    let mut words: Vec<String> = Vec::new();
    if !symbols.by_number {
        words.extend(symbols.jobs.iter().take(SYMBOLS.len()).map(|job| {
            let name =
                names.get(job).map_or(String::new(), |name| format!("\u{a0}{}", clean(name)));
            format!("{}={job}{name}", symbols.symbol(*job))
        }));
        if symbols.jobs.len() > SYMBOLS.len() {
            words.push(format!("{OTHER}=others"));
        }
    }
    if shared {
        words.push("+=shared".to_owned());
    }
    let mut text = String::new();
    for line in wrap(&words.join(" "), width.saturating_sub(2)) {
        push_line(
            &mut text,
            &format!("  {}", context.paint(Ink::Faint, &line.replace('\u{a0}', " "))),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{self, after, id};

    fn gantt<'a>(
        devices: &'a [(NodeName, u16)],
        bars: &'a [DeviceBar],
        planned: &'a [TimelineStart],
        names: &'a BTreeMap<JobId, String>,
    ) -> TimelineInput<'a> {
        TimelineInput { from: None, devices, bars, planned, names, max_rows: 64 }
    }

    #[test]
    fn the_contention_example_in_the_middle() {
        let names = BTreeMap::new();
        let devices = sample::devices();
        let bars = sample::bars();
        let planned = sample::planned();
        let text = timeline(
            &gantt(&devices, &bars, &planned, &names),
            RenderContext::plain().at(after(10)).with_width(60),
        );
        insta::assert_snapshot!(text, @r"
        gpu 0 │1111111111111111111111111
        gpu 1 │1111111111111111111111111
        gpu 2 │1111111111111111111111111
        gpu 3 │1111111111111111111111111
        gpu 4 │1111111111111111111111111
        gpu 5 │··33333333333333333333333
        gpu 6 │··33333333333333333333333
        gpu 7 │44444444·················
              └ 12:00:00                ▏now   12:00:20: 2 starts▕
        ");
    }

    #[test]
    fn at_the_end_the_right_edge_is_the_end() {
        let names = BTreeMap::new();
        let devices = sample::devices();
        let bars: Vec<DeviceBar> = sample::bars()
            .into_iter()
            .map(|bar| DeviceBar { to: bar.to.or(Some(after(8))), ..bar })
            .collect();
        let text = timeline(
            &gantt(&devices, &bars, &[], &names),
            RenderContext::plain().at(after(10)).with_width(60),
        );
        insta::assert_snapshot!(text, @r"
        gpu 0 │11111111111111111111111111111111111111111111111111
        gpu 1 │11111111111111111111111111111111111111111111111111
        gpu 2 │11111111111111111111111111111111111111111111111111
        gpu 3 │11111111111111111111111111111111111111111111111111
        gpu 4 │11111111111111111111111111111111111111111111111111
        gpu 5 │······33333333333333333333333333333333333333333333
        gpu 6 │······33333333333333333333333333333333333333333333
        gpu 7 │4444444444444444444·······························
              └ 12:00:00                             end 12:00:08▕
        ");
    }

    #[test]
    fn predicted_starts_are_told_apart() {
        let names = BTreeMap::new();
        let devices = sample::devices();
        let bars = sample::bars();
        let start = |job, predicted| TimelineStart {
            element: id(job, 0),
            name: "right".into(),
            start: after(20),
            predicted,
        };
        let planned = [start(2, true), start(5, false), start(6, true)];
        let text = timeline(
            &gantt(&devices, &bars, &planned, &names),
            RenderContext::plain().at(after(10)),
        );
        for mark in ["12:00:20: 2, 6 start, as predicted", "12:00:20: 5 starts▕"] {
            assert!(text.contains(mark), "{text}");
        }
    }

    #[test]
    fn it_fits_every_width_and_has_no_trailing_blank() {
        let names = BTreeMap::new();
        let devices = sample::devices();
        let bars = sample::bars();
        let far = [
            TimelineStart {
                element: id(2, 0),
                name: "right".into(),
                start: after(20),
                predicted: false,
            },
            TimelineStart {
                element: id(5, 0),
                name: "wide".into(),
                start: after(90_000),
                predicted: false,
            },
            TimelineStart {
                element: id(6, 3),
                name: "late".into(),
                start: after(90_001),
                predicted: false,
            },
            TimelineStart {
                element: id(7, 0),
                name: "later".into(),
                start: after(90_002),
                predicted: false,
            },
        ];
        for width in 60..=200 {
            let text = timeline(
                &gantt(&devices, &bars, &far, &names),
                RenderContext::plain().at(after(10)).with_width(width),
            );
            for line in text.lines() {
                assert!(line.chars().count() <= width, "{width}: {line}");
                assert_eq!(line, line.trim_end());
            }
            for word in ["now", "2 starts", "5 starts ▸", "6[3] starts ▸", "1 more planned"] {
                assert!(text.contains(word), "{width}: {word}\n{text}");
            }
        }
    }

    #[test]
    fn many_gpus_and_jobs_collapse_and_get_a_legend() {
        let devices: Vec<(NodeName, u16)> = ["a", "b"]
            .iter()
            .flat_map(|node| (0..16).map(|device| (NodeName::from(*node), device)))
            .collect();
        let bars: Vec<DeviceBar> = devices
            .iter()
            .map(|(node, device)| DeviceBar {
                node: node.clone(),
                device: *device,
                element: id(
                    if node.as_str() == "a" { 100 } else { 120 + u64::from(*device) / 8 },
                    0,
                ),
                from: after(u64::from(*device) / 8),
                to: None,
            })
            .collect();
        let names =
            BTreeMap::from([(JobId(100), "big".to_owned()), (JobId(120), "small".to_owned())]);
        let text = timeline(
            &gantt(&devices, &bars, &[], &names),
            RenderContext::plain().at(after(10)).with_width(60),
        );
        insta::assert_snapshot!(text, @r"
        a gpu 0-7    │1111111111111111111111111111111111111111111
        a gpu 8-15   │····111111111111111111111111111111111111111
        b gpu 0-7    │2222222222222222222222222222222222222222222
        b gpu 8-15   │····333333333333333333333333333333333333333
                     └ 12:00:00                               now▕
        1=100 big 2=120 small 3=121
        ");
    }

    #[test]
    fn a_shared_gpu_is_marked_and_one_job_after_another_is_not() {
        let devices = vec![("host".into(), 0), ("host".into(), 1)];
        let bar = |device, job, from, to| DeviceBar {
            node: "host".into(),
            device,
            element: id(job, 0),
            from: after(from),
            to: Some(after(to)),
        };
        let bars = [bar(0, 1, 0, 8), bar(0, 2, 4, 10), bar(1, 1, 0, 5), bar(1, 2, 5, 10)];
        let names = BTreeMap::new();
        let text = timeline(
            &gantt(&devices, &bars, &[], &names),
            RenderContext::plain().at(after(10)).with_width(32),
        );
        insta::assert_snapshot!(text, @r"
        gpu 0 │11111111++++++++++2222
        gpu 1 │1111111111122222222222
              └ 12:00:00 end 12:00:10▕
        +=shared
        ");
    }

    #[test]
    fn nothing_to_draw_is_nothing() {
        let names = BTreeMap::new();
        let devices = sample::devices();
        assert_eq!(
            timeline(&gantt(&devices, &[], &[], &names), RenderContext::plain().at(after(10))),
            ""
        );
        assert_eq!(
            timeline(
                &gantt(&[], &sample::bars(), &[], &names),
                RenderContext::plain().at(after(10))
            ),
            ""
        );
    }
}
