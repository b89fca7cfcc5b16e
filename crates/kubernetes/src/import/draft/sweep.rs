//! Fields of a sweep in a job file, whose points are those that the object has.

use muster_model::sweep::{EarlyStop, Metric, Points, Sweep};
use serde_json::Value;

use super::{Entry, Fields};

/// Step of reports in job files that name none.
const DEFAULT_STEP: &str = "step";

/// Adds the fields of a sweep.
pub(super) fn add(fields: &mut Fields, sweep: &Sweep) {
    fields.text("kind", Some("sweep"));
    // Lists keep the order of the parameters.
    fields.0.push(("params".to_owned(), Entry::Groups(params(sweep))));
    if let Some(metric) = &sweep.metric {
        fields.0.push(("metric".to_owned(), Entry::Fields(self::metric(metric))));
    }
    if let Some(rule) = sweep.early_stop {
        fields.0.push(("early-stop".to_owned(), Entry::Fields(early_stop(rule))));
    }
}

/// Returns a list of values for each parameter of a grid, else the values of each point.
fn params(sweep: &Sweep) -> Vec<Fields> {
    match sweep.points {
        Points::Grid => {
            let lists = sweep.params.iter().map(|param| {
                let values = param.values.iter().map(ToString::to_string).collect();
                Fields(vec![(param.name.to_string(), Entry::List(values))])
            });
            lists.collect()
        }
        Points::Rows => {
            let row = |point| {
                let mut fields = Fields::default();
                for (param, value) in sweep.params.iter().zip(sweep.values(point)) {
                    fields.text(&param.name, Some(value));
                }
                fields
            };
            (0..sweep.count().unwrap_or(0)).map(row).collect()
        }
    }
}

fn metric(metric: &Metric) -> Fields {
    let mut fields = Fields::default();
    fields.text("name", Some(&metric.name));
    fields.text("goal", Some(metric.goal.word()));
    fields.text("pattern", metric.pattern.as_deref());
    fields.text("step", Some(&*metric.step).filter(|step| *step != DEFAULT_STEP));
    fields
}

fn early_stop(rule: EarlyStop) -> Fields {
    let mut fields = Fields::default();
    let mut number = |name: &str, value: u64| fields.value(name, Some(Value::from(value)));
    let word = match rule {
        EarlyStop::Asha { first, factor } => {
            number("first", first);
            number("factor", factor.into());
            "asha"
        }
        EarlyStop::Median { every, others } => {
            number("every", every);
            number("others", others.into());
            "median"
        }
    };
    fields.text("rule", Some(word));
    fields
}
