//! GPU allocation and fragmentation under each placement policy: `muster simulate --no-departures`.
//! The figures are computed in `sim`.

use muster_model::simulation::{PackingComparison, PackingFigures};

use crate::RenderContext;
use crate::amount::count;
use crate::style::{Ink, clean};
use crate::table::Table;

/// Percentages of arrived demand that have a column, if that much arrived. Most differences are
/// near the end.
const PERCENTS: [(&str, usize); 7] =
    [("20%", 20), ("50%", 50), ("80%", 80), ("90%", 90), ("95%", 95), ("100%", 100), ("130%", 130)];

/// Returns what was compared, and two tables, one per curve.
#[must_use]
pub fn packing(comparison: &PackingComparison, context: RenderContext) -> String {
    let PackingComparison { cluster, trace, nodes, gpus, arrivals, bad_rows, .. } = comparison;
    let nodes = count(*nodes, "node");
    let gpus = count(*gpus, "GPU");
    let arrivals = count(*arrivals, "pod");
    let mut text = format!(
        "{} ({nodes}, {gpus}); {arrivals} of {} arrive, none leaves\n",
        clean(cluster),
        clean(trace)
    );
    if *bad_rows > 0 {
        text.push_str(&format!(
            "left out since they cannot be read: {}\n",
            count(*bad_rows, "row")
        ));
    }
    let heading = |text: &str| format!("\n{}\n", context.paint(Ink::Strong, text));
    text.push_str(&heading(
        "allocated GPUs in percent of all, by requested GPUs in percent of all",
    ));
    text.push_str(&table(comparison, |run| &run.gpu_allocation_percent, context));
    text.push_str(&heading("fragmentation: percent of the idle GPUs that typical pods cannot use"));
    text.push_str(&table(comparison, |run| &run.fragmentation_ratio, context));
    if comparison.runs.iter().any(|run| run.is_partial) {
        text.push_str(
            "\ninterrupted: rows marked with * cover only the pods that had arrived by then\n",
        );
    }
    text
}

fn table(
    comparison: &PackingComparison,
    curve: fn(&PackingFigures) -> &Vec<f64>,
    context: RenderContext,
) -> String {
    let value = |point: Option<&f64>| point.map_or(String::new(), |point| format!("{point:.2}"));
    let table = Table::of(&comparison.runs)
        .left("SCHEDULER", |run| {
            format!("{}{}", run.scheduler, if run.is_partial { "*" } else { "" })
        })
        .right("PLACED", |run| run.placed.to_string())
        .right("TURNED AWAY", |run| run.turned_away.to_string());
    let table = PERCENTS.into_iter().fold(table, |table, (heading, percent)| {
        table.right(heading, |run| value(curve(run).get(percent)))
    });
    table.right("END", |run| value(curve(run).last())).render(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheduler: &str, last: usize, is_partial: bool) -> PackingFigures {
        PackingFigures {
            scheduler: scheduler.to_owned(),
            is_engine: true,
            is_partial,
            placed: 12,
            turned_away: 3,
            gpu_allocation_percent: (0..=last).map(|percent| percent as f64 * 0.9).collect(),
            fragmentation_ratio: (0..=last).map(|percent| 14.0 + percent as f64 / 4.0).collect(),
        }
    }

    #[test]
    fn curves_are_shown_as_far_as_they_go() {
        let comparison = PackingComparison {
            cluster: "nodes.csv".to_owned(),
            trace: "pods.csv".to_owned(),
            nodes: 2,
            gpus: 1,
            arrivals: 15,
            bad_rows: 1,
            duplicate_ids: 0,
            seed: 7,
            runs: vec![run("fragmentation", 92, false), run("random", 50, true)],
        };
        let expected = "\
nodes.csv (2 nodes, 1 GPU); 15 pods of pods.csv arrive, none leaves
left out since they cannot be read: 1 row

allocated GPUs in percent of all, by requested GPUs in percent of all
SCHEDULER      PLACED  TURNED AWAY    20%    50%    80%    90%    END
fragmentation      12            3  18.00  45.00  72.00  81.00  82.80
random*            12            3  18.00  45.00                45.00

fragmentation: percent of the idle GPUs that typical pods cannot use
SCHEDULER      PLACED  TURNED AWAY    20%    50%    80%    90%    END
fragmentation      12            3  19.00  26.50  34.00  36.50  37.00
random*            12            3  19.00  26.50                26.50

interrupted: rows marked with * cover only the pods that had arrived by then
";
        assert_eq!(packing(&comparison, RenderContext::plain()), expected);
    }
}
