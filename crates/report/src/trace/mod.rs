//! Summary of a trace: `muster trace summary`. The figures are computed in `sim`. Dates and hours
//! are in UTC, as most traces have no zone and the reader's would shift them.

mod quantiles;
mod words;

use muster_model::Span;
use muster_model::trace::{TraceNames, TraceRows, TraceSummary, TraceUnit};

use self::words::{decimal, share, span};
use crate::RenderContext;
use crate::amount::{grouped, grouped_count};
use crate::plot::{bar, columns, merged, per_column};
use crate::style::{Ink, clean, shorten};
use crate::table::{Cell, Labels, Table};

/// Columns if the output is not a terminal, and at most.
const WIDTH: usize = 100;
const MIN_WIDTH: usize = 40;
/// Columns before a bar in its table. A bar shorter than [`MIN_BAR`] is left out.
const BEFORE_BAR: usize = 50;
const MAX_BAR: usize = 40;
const MIN_BAR: usize = 6;
/// Most characters of one column of a plot.
const MAX_WIDE: usize = 6;
/// Lines of the plot of arrivals, and of that by hour of day.
const ARRIVAL_LINES: usize = 4;
const HOUR_LINES: usize = 3;
/// Width of the labels at the top.
const LABEL: usize = 10;
const NAMED: usize = 3;

/// Returns a trace as sentences, tables and plots. `name` is the name of the file.
#[must_use]
pub fn summary(summary: &TraceSummary, name: &str, context: RenderContext) -> String {
    let page = SummaryPage {
        context,
        unit: unit(summary.unit),
        held: summary.held_unit_secs,
        jobs: summary.rows.jobs,
    };
    let mut text = page.facts(summary, name);
    text.push('\n');
    text.push_str(&quantiles::table(summary, page.width(), context));
    text.push_str(&page.arrivals(summary));
    text.push_str(&page.hours(&summary.arrivals.by_hour));
    text.push_str(&page.sizes(summary));
    text.push_str(&page.runtimes(summary));
    text.push_str(&page.bad(&summary.rows));
    text
}

/// Returns the name of the unit, `processor` or `GPU`.
fn unit(unit: TraceUnit) -> &'static str {
    match unit {
        TraceUnit::Gpus => "GPU",
        TraceUnit::Processors => "processor",
    }
}

/// Context and totals that all parts of the summary need.
struct SummaryPage<'a> {
    context: RenderContext<'a>,
    unit: &'static str,
    held: u64,
    jobs: u64,
}

impl SummaryPage<'_> {
    fn width(&self) -> usize {
        self.context.width.unwrap_or(WIDTH).clamp(MIN_WIDTH, WIDTH)
    }

    fn heading(&self, text: &str) -> String {
        format!("\n{}\n", self.context.paint(Ink::Strong, text))
    }

    /// Returns a label with wrapped text beside it.
    fn fact(&self, label: &str, text: &str) -> String {
        let labels = Labels { indent: 0, width: LABEL, ink: Ink::Strong };
        labels.wrapped(label, &clean(text), self.width(), 1, self.context)
    }

    fn facts(&self, summary: &TraceSummary, name: &str) -> String {
        let rows = &summary.rows;
        let mut jobs = grouped_count(rows.jobs, "job");
        for (number, what) in [
            (rows.without_runtime, "without a runtime"),
            (rows.out_of_order, "out of order"),
            (rows.duplicate_ids, "with a repeated id"),
            (
                rows.bad,
                if rows.bad == 1 { "row that cannot be read" } else { "rows that cannot be read" },
            ),
        ] {
            if number > 0 {
                jobs.push_str(&format!(", {} {what}", grouped(number)));
            }
        }
        let machine = match summary.machine_processors {
            Some(processors) => {
                format!(", of a machine with {} processors", grouped(processors.into()))
            }
            None => String::new(),
        };
        let mut held = format!("{} {}-hours", grouped(self.held / 3600), self.unit);
        // There is no average if all jobs were submitted at one instant.
        if summary.span.last_submit_ms > summary.span.first_submit_ms {
            held.push_str(&format!(
                "; {} {}s on average from the first to the last submit",
                decimal(summary.mean_load_milli / 100 * 100),
                self.unit
            ));
        }
        let mut text = self.fact("trace", &format!("{name}, {}{machine}", summary.format));
        text.push_str(&self.fact("jobs", &jobs));
        text.push_str(&self.fact("span", &span(&summary.span)));
        text.push_str(&self.fact("held", &held));
        text.push_str(&self.fact("users", &self.names(&summary.users)));
        text.push_str(&self.fact("queues", &self.names(&summary.queues)));
        let outcomes = summary.outcomes.iter().map(|outcome| {
            format!(
                "{} {} ({} of {}-hours)",
                outcome.outcome,
                share(outcome.jobs, self.jobs),
                share(outcome.held_unit_secs, self.held),
                self.unit
            )
        });
        text.push_str(&self.fact("ended", &outcomes.collect::<Vec<_>>().join(", ")));
        text
    }

    /// `214; ann 12.5%, bob 8.0% of processor-hours; 3 jobs have none`.
    fn names(&self, names: &TraceNames) -> String {
        if names.count == 0 {
            return "the trace names none".to_owned();
        }
        let top: Vec<String> = names
            .top
            .iter()
            .take(NAMED)
            .map(|one| {
                format!("{} {}", shorten(&one.name, 20), share(one.held_unit_secs, self.held))
            })
            .collect();
        let mut text =
            format!("{}; {} of {}-hours", grouped(names.count), top.join(", "), self.unit);
        if names.jobs_without > 0 {
            text.push_str(&format!("; {} without", grouped_count(names.jobs_without, "job")));
        }
        text
    }

    fn arrivals(&self, summary: &TraceSummary) -> String {
        let arrivals = &summary.arrivals;
        if arrivals.jobs.len() < 2 {
            return String::new();
        }
        let width = self.width() - 2;
        let per = Span::from_secs(
            arrivals.bin_hours * per_column(arrivals.jobs.len(), width) as u64 * 3600,
        );
        let most = merged(&arrivals.jobs, width).into_iter().max().unwrap_or_default();
        // A short trace is drawn with wider columns.
        let wide = (width / arrivals.jobs.len()).clamp(1, MAX_WIDE);
        let values: Vec<u64> =
            arrivals.jobs.iter().flat_map(|jobs| std::iter::repeat_n(*jobs, wide)).collect();
        let title = format!("arrivals, {per} a column, at most {}", grouped_count(most, "job"));
        self.plot(&title, columns(&values, width, ARRIVAL_LINES))
    }

    /// Plots arrivals by hour, three characters wide if they fit, with every sixth hour named
    /// below.
    fn hours(&self, by_hour: &[u64]) -> String {
        if by_hour.is_empty() {
            return String::new();
        }
        let wide = if self.width() >= 24 * 3 + 2 { 3 } else { 1 };
        let values: Vec<u64> =
            by_hour.iter().flat_map(|jobs| std::iter::repeat_n(*jobs, wide)).collect();
        let mut lines = columns(&values, values.len(), HOUR_LINES);
        let sixth: Vec<String> =
            (0..4).map(|quarter| format!("{:<pad$}", quarter * 6, pad = 6 * wide)).collect();
        lines.push(sixth.concat().trim_end().to_owned());
        self.plot("arrivals by hour of day, UTC", lines)
    }

    fn plot(&self, title: &str, lines: Vec<String>) -> String {
        let drawn = lines.iter().map(|line| format!("  {line}").trim_end().to_owned() + "\n");
        self.heading(title) + &drawn.collect::<String>()
    }

    fn sizes(&self, summary: &TraceSummary) -> String {
        let rows = summary.sizes.iter().map(|size| {
            let milli = |milli: u64| decimal(milli);
            let name = if size.from_milli == size.to_milli {
                milli(size.from_milli)
            } else {
                format!("{}-{}", milli(size.from_milli), milli(size.to_milli))
            };
            (name, size.jobs, size.held_unit_secs)
        });
        let column = if summary.unit == TraceUnit::Gpus { "GPUS" } else { "PROCS" };
        self.bars("jobs by size", column, &rows.collect::<Vec<_>>())
    }

    fn runtimes(&self, summary: &TraceSummary) -> String {
        let rows = summary.runtimes.iter().map(|class| {
            let from = Span::from_secs(class.from_secs);
            let name = match class.below_secs {
                Some(below) => format!("{from} to {}", Span::from_secs(below)),
                None => format!("{from} on"),
            };
            (name, class.jobs, class.held_unit_secs)
        });
        self.bars("jobs by runtime", "RUNTIME", &rows.collect::<Vec<_>>())
    }

    /// Returns a table with rows of name, jobs and held time, and a bar for the jobs.
    fn bars(&self, title: &str, column: &'static str, rows: &[(String, u64, u64)]) -> String {
        if rows.is_empty() {
            return String::new();
        }
        let hours = if self.unit == "GPU" { "GPU-HOURS" } else { "PROC-HOURS" };
        let most = rows.iter().map(|(_, jobs, _)| *jobs).max().unwrap_or_default();
        let space = self.width().saturating_sub(BEFORE_BAR).min(MAX_BAR);
        let table = Table::of(rows)
            .right(column, |(name, ..)| name)
            .right("JOBS", |(_, jobs, _)| grouped(*jobs))
            .right("", |(_, jobs, _)| share(*jobs, self.jobs))
            .right(hours, |(.., held)| grouped(held / 3600))
            .right("", |(.., held)| share(*held, self.held))
            .left("", |(_, jobs, _)| {
                Cell::inked(bar(*jobs, most, if space < MIN_BAR { 0 } else { space }), Ink::Active)
            })
            .indented(2);
        self.heading(title) + &table.render(self.context)
    }

    fn bad(&self, rows: &TraceRows) -> String {
        if rows.bad == 0 {
            return String::new();
        }
        let mut text =
            self.heading(&format!("{} that cannot be read", grouped_count(rows.bad, "row")));
        for row in &rows.bad_shown {
            let line = format!("line {}: {}", row.line, row.message);
            text.push_str(&format!("  {}\n", shorten(&clean(&line), self.width() - 2)));
        }
        let hidden = rows.bad.saturating_sub(rows.bad_shown.len() as u64);
        if hidden > 0 {
            text.push_str(&format!("  and {} more\n", grouped(hidden)));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use muster_model::trace::{
        Arrivals, BadRow, NameShare, OutcomeShare, Quantiles, RuntimeClass, SizeClass, TraceSpan,
    };

    use super::*;

    fn sample() -> TraceSummary {
        let quantiles = Quantiles {
            count: 1200,
            mean: 9_000_000,
            p5: 1000,
            p50: 60_000,
            max: 864_000_000,
            ..Quantiles::default()
        };
        TraceSummary {
            format: "swf".to_owned(),
            machine_processors: Some(128),
            rows: TraceRows {
                jobs: 1234,
                without_runtime: 34,
                out_of_order: 0,
                duplicate_ids: 3,
                bad: 22,
                bad_shown: vec![BadRow {
                    line: 7,
                    message: "field 3 is `\u{1b}x`, not a number".to_owned(),
                }],
            },
            span: TraceSpan {
                first_submit_ms: 0,
                last_submit_ms: 864_000_000,
                zero_ms: Some(843_480_031_000),
            },
            unit: TraceUnit::Processors,
            held_unit_secs: 3_600_000,
            mean_load_milli: 4166,
            users: TraceNames {
                count: 3,
                jobs_without: 1,
                top: vec![NameShare {
                    name: "ann".to_owned(),
                    jobs: 900,
                    held_unit_secs: 1_800_000,
                }],
            },
            queues: TraceNames::default(),
            sizes: vec![
                SizeClass { from_milli: 1000, to_milli: 1000, jobs: 1000, held_unit_secs: 600_000 },
                SizeClass {
                    from_milli: 33_000,
                    to_milli: 64_000,
                    jobs: 234,
                    held_unit_secs: 3_000_000,
                },
            ],
            runtime_ms: quantiles,
            runtimes: vec![
                RuntimeClass {
                    from_secs: 60,
                    below_secs: Some(120),
                    jobs: 1199,
                    held_unit_secs: 600_000,
                },
                RuntimeClass {
                    from_secs: 604_800,
                    below_secs: None,
                    jobs: 1,
                    held_unit_secs: 3_000_000,
                },
            ],
            requested_ms: Quantiles::default(),
            used_percent: Quantiles { count: 100, p50: 40, max: 1200, ..Quantiles::default() },
            over_requested: 2,
            outcomes: vec![OutcomeShare {
                outcome: "completed".to_owned(),
                jobs: 617,
                held_unit_secs: 3_600_000,
            }],
            arrivals: Arrivals {
                by_hour: (0..24).collect(),
                from_ms: 0,
                bin_hours: 24,
                jobs: vec![1, 50, 100, 200, 400, 10, 0, 0, 20, 453],
            },
        }
    }

    #[test]
    fn a_trace_is_told_in_words_tables_and_plots() {
        insta::assert_snapshot!(summary(&sample(), "kth.swf.gz", RenderContext::plain()), @r"
        trace     kth.swf.gz, swf, of a machine with 128 processors
        jobs      1,234 jobs, 34 without a runtime, 3 with a repeated id, 22 rows that cannot be read
        span      10 days, 1996-09-23 to 1996-10-03
        held      1,000 processor-hours; 4.1 processors on average from the first to the last submit
        users     3; ann 50.0% of processor-hours; 1 job without
        queues    the trace names none
        ended     completed 50.0% (100.0% of processor-hours)

                     JOBS   MEAN  P5  P25  P50  P75  P95  P99     MAX
        runtime     1,200  2h30m  1s   0s   1m   0s   0s   0s     10d
        used of it    100     0%  0%   0%  40%   0%   0%   0%  1,200%
        2.0% of jobs ran longer than they asked for

        arrivals, 1d a column, at most 453 jobs
                                  ▄▄▄▄▄▄                        ██████
                                  ██████                        ██████
                            ▆▆▆▆▆▆██████                        ██████
          ▁▁▁▁▁▁▄▄▄▄▄▄▇▇▇▇▇▇████████████▁▁▁▁▁▁            ▁▁▁▁▁▁██████

        arrivals by hour of day, UTC
                                                          ▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇███
                                     ▁▁▁▂▂▂▃▃▃▅▅▅▆▆▆▇▇▇███████████████████████████
             ▁▁▁▂▂▂▃▃▃▄▄▄▅▅▅▆▆▆▇▇▇████████████████████████████████████████████████
          0                 6                 12                18

        jobs by size
          PROCS   JOBS         PROC-HOURS
              1  1,000  81.0%         166  16.6%  ████████████████████████████████████████
          33-64    234  18.9%         833  83.3%  █████████▍

        jobs by runtime
           RUNTIME   JOBS         PROC-HOURS
          1m to 2m  1,199  97.1%         166  16.6%  ████████████████████████████████████████
             7d on      1  <0.1%         833  83.3%  ▏

        22 rows that cannot be read
          line 7: field 3 is `?x`, not a number
          and 21 more
        ");
    }

    #[test]
    fn of_jobs_that_came_at_once_there_is_no_average() {
        let mut once = sample();
        (once.span.last_submit_ms, once.rows.bad) = (once.span.first_submit_ms, 1);
        let text = summary(&once, "once.csv", RenderContext::plain());
        assert!(
            !text.contains("on average") && text.contains("1 row that cannot be read"),
            "{text}"
        );
    }

    #[test]
    fn every_width_is_kept() {
        for width in [40, 60, 80, 200] {
            let text = summary(&sample(), "kth.swf.gz", RenderContext::plain().with_width(width));
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
            assert!(widest <= width.max(50), "{widest} of {width}:\n{text}");
            assert!(text.lines().all(|line| line.trim_end() == line), "{text}");
        }
    }
}
