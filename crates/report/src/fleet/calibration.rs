//! Recorded beside simulated waits, as tables and one sentence of judgement per scheduler. The
//! figures are computed in `sim`.

use muster_model::simulation::{Calibration, CalibrationVerdict, FleetComparison, Spread};

use super::findings::sized;
use super::unit;
use super::words::{percent, span};
use crate::RenderContext;
use crate::amount::{grouped, grouped_count};
use crate::style::Ink;
use crate::table::Table;

/// A row: heading, number of jobs, recorded and simulated waits, median error and share that is
/// near.
struct WaitRow {
    name: String,
    jobs: u64,
    recorded: Spread,
    simulated: Spread,
    median_error_secs: f64,
    near: f64,
}

/// Returns the tables, and the sentences below them; empty without a calibration.
pub(super) fn text(comparison: &FleetComparison, width: usize, context: RenderContext) -> String {
    if comparison.calibration.is_empty() {
        return String::new();
    }
    let title = "calibration: time from submission to first start";
    let mut text = format!("{}\n", context.paint(Ink::Strong, title));
    text.push_str(&table("SCHEDULER", &overall(&comparison.calibration), context));
    let defined = "recorded: in the trace; simulated: in the replay; error: median of the absolute differences; near: within a \
                   factor of 2, or within 10 minutes";
    text.push_str(&super::wrapped(defined, width));
    let sizes = by_size(&comparison.calibration, unit(comparison.unit));
    if !sizes.is_empty() {
        text.push('\n');
        text.push_str(&table("BY SIZE", &sizes, context));
    }
    text.push('\n');
    for sentence in sentences(comparison) {
        text.push_str(&super::wrapped(&sentence, width));
    }
    text
}

fn overall(calibration: &[Calibration]) -> Vec<WaitRow> {
    let row = |of: &Calibration| WaitRow {
        name: format!("{}{}", of.scheduler, if of.is_partial { "*" } else { "" }),
        jobs: of.jobs,
        recorded: of.recorded_secs,
        simulated: of.simulated_secs,
        median_error_secs: of.median_error_secs,
        near: of.near,
    };
    calibration.iter().map(row).collect()
}

/// Returns a row per scheduler and size, if there are several sizes.
fn by_size(calibration: &[Calibration], unit: &str) -> Vec<WaitRow> {
    let several = calibration.iter().filter(|of| of.sizes.len() > 1);
    let rows = several.flat_map(|of| {
        of.sizes.iter().map(|size| WaitRow {
            name: format!("{}, {}", of.scheduler, sized(&size.size, unit)),
            jobs: size.jobs,
            recorded: size.recorded_secs,
            simulated: size.simulated_secs,
            median_error_secs: size.median_error_secs,
            near: size.near,
        })
    });
    rows.collect()
}

fn table(heading: &str, rows: &[WaitRow], context: RenderContext) -> String {
    Table::of(rows)
        .left(heading, |row| row.name.as_str())
        .right("JOBS", |row| grouped(row.jobs))
        .right("RECORDED", |row| span(row.recorded.mean))
        .right("HALF", |row| span(row.recorded.p50))
        .dropped(1)
        .right("95 %", |row| span(row.recorded.p95))
        .dropped(2)
        .right("SIMULATED", |row| span(row.simulated.mean))
        .right("HALF", |row| span(row.simulated.p50))
        .dropped(1)
        .right("95 %", |row| span(row.simulated.p95))
        .dropped(2)
        .right("ERROR", |row| span(row.median_error_secs))
        .right("NEAR", |row| percent(row.near))
        .render(context)
}

/// Returns one sentence of judgement per scheduler, each with what it does not cover, and one on
/// starts that cannot be compared.
#[must_use]
pub fn sentences(comparison: &FleetComparison) -> Vec<String> {
    let seed = comparison.seeds.first().filter(|_| comparison.seeds.len() > 1).copied();
    let judged = comparison.calibration.iter().map(|of| judged(of, seed));
    let early = comparison.calibration.iter().map(|of| of.start_before_submit).max().unwrap_or(0);
    let early = (early > 0).then(|| {
        format!(
            "{} not compared, since the recorded start is before the submission. Likely causes: dates in different time zones, or \
             waits in place of start times",
            grouped_count(early, "job")
        )
    });
    judged.chain(early).collect()
}

/// Returns the judgement of one scheduler; `seed` is that of its run if there are several.
fn judged(of: &Calibration, seed: Option<u64>) -> String {
    let Calibration { verdict, long_waits, near_of_long, .. } = of;
    let seed = seed.map_or(String::new(), |seed| format!(" (seed {seed})"));
    let scheduler = format!("{}{seed}", of.scheduler);
    let long = grouped_count(*long_waits, "job");
    let near = percent(*near_of_long);
    let means = format!(
        "their mean {} recorded, {} simulated",
        span(of.long_recorded_secs),
        span(of.long_simulated_secs)
    );
    let of_long = format!("of {long} that waited more than 10 minutes, {near} are near ({means})");
    let mut text = match verdict {
        CalibrationVerdict::TooFew => format!(
            "{scheduler}: only {long} waited more than 10 minutes, in the trace or in the replay ({means}): this says nothing about \
             a load under which jobs wait"
        ),
        CalibrationVerdict::Close => format!(
            "{scheduler}: close to the record: {of_long}. This holds for this load on this cluster; waits on another are still a \
             forecast"
        ),
        CalibrationVerdict::Rough => format!(
            "{scheduler}: roughly like the record: {of_long}. Trust only differences between variants that are larger than this error"
        ),
        CalibrationVerdict::Interrupted => {
            format!("{scheduler}: interrupted, and not judged; so far, {of_long}")
        }
        CalibrationVerdict::Poor => format!(
            "{scheduler}: unlike the record: {of_long}. Do not forecast waits with it: check the cluster file (nodes out of service), \
             the queue file and --estimates first"
        ),
    };
    let uncovered = [
        (
            of.never_started,
            if of.is_partial {
                "had not started at the interruption, and count as not near"
            } else {
                "never start in the replay, and count as not near"
            },
        ),
        (
            of.not_replayed,
            "ran in the trace but not in the replay: too large, or still running at its end",
        ),
        (of.without_start, "run in the replay without a recorded start to compare"),
        (of.refused, "refused in the replay"),
    ];
    for (number, how) in uncovered.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!("; {} {how}", grouped(number));
    }
    text
}
