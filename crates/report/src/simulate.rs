//! Comparison of schedulers on a trace: `muster simulate` without a cluster.

use muster_model::Span;
use muster_model::simulation::{FlatComparison, ScheduleFigures};

use crate::RenderContext;
use crate::amount::count;
use crate::table::Table;

/// Returns the load, a row per scheduler, and the greatest difference.
#[must_use]
pub fn comparison(comparison: &FlatComparison, context: RenderContext) -> String {
    let FlatComparison { procs, jobs, never_ran, too_wide, bad_rows, runs, .. } = comparison;
    let mut text =
        format!("{} on {}\n", count(*jobs, "job"), count(u64::from(*procs), "processor"));
    let left_out = [
        (*never_ran, "have no known runtime"),
        (*too_wide, "are wider than the machine"),
        (*bad_rows, "cannot be read"),
    ];
    for (number, why) in left_out.into_iter().filter(|(number, _)| *number > 0) {
        text += &format!("left out: {number} that {why}\n");
    }
    text += "\n";
    text += &waits(runs, context);
    text += "\n";
    text += &totals(runs, context);
    for run in runs.iter().filter(|run| run.is_partial) {
        text += &format!(
            "\n{} was interrupted: {} had begun, and only they are counted\n",
            run.scheduler,
            count(run.begun, "job")
        );
    }
    if let Some(sentence) = difference(runs) {
        text += &format!("\n{sentence}\n");
    }
    text
}

fn waits(runs: &[ScheduleFigures], context: RenderContext) -> String {
    Table::of(runs)
        .left("SCHEDULER", |run| &run.scheduler)
        .right("WAIT: MEAN", |run| span(run.wait_secs.mean))
        .right("HALF", |run| span(run.wait_secs.p50))
        .right("95 %", |run| span(run.wait_secs.p95))
        .right("99 %", |run| span(run.wait_secs.p99))
        .right("MOST", |run| span(run.wait_secs.max))
        .render(context)
}

fn totals(runs: &[ScheduleFigures], context: RenderContext) -> String {
    Table::of(runs)
        .left("SCHEDULER", |run| &run.scheduler)
        .right("SLOWDOWN", |run| format!("{:.2}", run.bounded_slowdown.mean))
        .right("95 %", |run| format!("{:.2}", run.bounded_slowdown.p95))
        .right("USED", |run| format!("{:.1} %", run.utilisation * 100.0))
        .right("FROM FIRST TO LAST", |run| span(run.makespan_secs))
        .left("DECIDED BY", |run| if run.is_engine { "the engine" } else { "a model" })
        .render(context)
}

fn span(secs: f64) -> String {
    Span((secs * 1000.0) as u64).to_string()
}

/// Names the schedulers under which jobs wait least and most, and the ratio.
fn difference(runs: &[ScheduleFigures]) -> Option<String> {
    let whole = || runs.iter().filter(|run| !run.is_partial);
    let by_wait = |one: &&ScheduleFigures, other: &&ScheduleFigures| {
        one.wait_secs.mean.total_cmp(&other.wait_secs.mean)
    };
    let least = whole().min_by(by_wait)?;
    let most = whole().max_by(by_wait)?;
    let times = most.wait_secs.mean / least.wait_secs.mean;
    (times.is_finite() && times >= 1.01).then(|| {
        format!(
            "under {} jobs wait {} on average, {times:.1} times less than under {}",
            least.scheduler,
            span(least.wait_secs.mean),
            most.scheduler
        )
    })
}

#[cfg(test)]
mod tests {
    use muster_model::simulation::Spread;

    use super::*;

    fn run(scheduler: &str, wait_secs: f64) -> ScheduleFigures {
        let spread = |mean| Spread {
            mean,
            p50: mean / 2.0,
            p95: mean * 3.0,
            p99: mean * 5.0,
            max: mean * 9.0,
        };
        ScheduleFigures {
            scheduler: scheduler.to_owned(),
            is_engine: scheduler != "srtf",
            is_partial: false,
            begun: 28_481,
            wait_secs: spread(wait_secs),
            turnaround_secs: spread(wait_secs + 600.0),
            bounded_slowdown: spread(92.694),
            utilisation: 0.6856,
            makespan_secs: 29_363_626.0,
        }
    }

    #[test]
    fn schedulers_side_by_side() {
        let mut shown = FlatComparison {
            trace: "kth.swf.gz".to_owned(),
            procs: 100,
            jobs: 28_481,
            never_ran: 7,
            too_wide: 0,
            bad_rows: 1,
            duplicate_ids: 0,
            runs: vec![run("easy", 6834.59), run("srtf", 90.0), run("fcfs", 353_776.0)],
        };
        insta::assert_snapshot!(comparison(&shown, RenderContext::plain()));
        shown.runs.truncate(1);
        (shown.runs[0].is_partial, shown.runs[0].begun) = (true, 1);
        insta::assert_snapshot!(comparison(&shown, RenderContext::plain()));
    }
}
