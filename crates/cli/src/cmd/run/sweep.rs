//! Sweeps from the command line: `--param lr=1e-4,3e-4` as fields of a job file.

use anyhow::Result;
use serde_json::{Map, Value, json};

use crate::exit::Failure;

/// Options of a sweep.
#[derive(Debug, Default, clap::Args)]
#[command(next_help_heading = "Sweep (the job runs once for each combination of values)")]
pub struct SweepArgs {
    /// Parameter with its values, which take the place of {NAME} in the command: lr=1e-4,3e-4; or a range to
    /// draw from: lr=log:1e-5:1e-2, dropout=uniform:0:0.5, layers=whole:1:8
    #[arg(long, value_name = "NAME=VALUES")]
    param: Vec<String>,
    /// Number of points to draw from the values and ranges, instead of every combination
    #[arg(long, value_name = "N")]
    samples: Option<String>,
    /// Seed of the draws
    #[arg(long, value_name = "N")]
    seed: Option<String>,
    /// Most elements of the sweep that run at once
    #[arg(long, value_name = "N")]
    max_running: Option<String>,
    /// Metric that the tasks write to $MUSTER_REPORT_FILE, with its goal: loss=min or accuracy=max
    #[arg(long, value_name = "NAME=GOAL")]
    metric: Option<String>,
}

impl SweepArgs {
    /// Returns the options as fields of a job document.
    pub fn fields(&self) -> Result<Map<String, Value>> {
        let mut fields = Map::new();
        let scalars =
            [("samples", &self.samples), ("seed", &self.seed), ("max-running", &self.max_running)];
        for (name, value) in scalars {
            fields.extend(value.as_ref().map(|value| (name.to_owned(), json!(value))));
        }
        if let Some(metric) = &self.metric {
            let (name, goal) = pair("--metric", metric, "NAME=GOAL, such as loss=min")?;
            fields.insert("metric".to_owned(), json!({ "name": name, "goal": goal }));
        }
        if !self.param.is_empty() {
            // A list keeps the order, which counts the points.
            let mut params = Vec::new();
            for param in &self.param {
                let (name, values) = pair("--param", param, "NAME=VALUES, such as lr=1e-4,3e-4")?;
                params.push(json!({ name: self::values(param, values)? }));
            }
            fields.insert("params".to_owned(), Value::Array(params));
            fields.insert("kind".to_owned(), json!("sweep"));
        }
        Ok(fields)
    }
}

fn pair<'a>(option: &str, text: &'a str, form: &str) -> Result<(&'a str, &'a str), Failure> {
    let found = text.split_once('=').filter(|(name, value)| !name.is_empty() && !value.is_empty());
    found.ok_or_else(|| Failure::usage(format!("`{option} {text}` is not {form}")))
}

/// Returns values as a job file has them: a list, or a range `log:1e-5:1e-2`.
fn values(param: &str, text: &str) -> Result<Value, Failure> {
    let parts: Vec<&str> = text.split(':').collect();
    match parts.as_slice() {
        [range @ ("log" | "uniform" | "whole"), low, high] => Ok(json!({ *range: [low, high] })),
        [range @ ("log" | "uniform" | "whole"), ..] => {
            Err(Failure::usage(format!("`--param {param}` has no range"))
                .hint(format!("a range has two ends: {range}:1:10")))
        }
        _ => Ok(json!(text.split(',').map(str::trim).collect::<Vec<_>>())),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct SweepCommand {
        #[command(flatten)]
        sweep: SweepArgs,
    }

    fn fields(args: &[&str]) -> Result<Map<String, Value>> {
        SweepCommand::parse_from(["run"].iter().chain(args)).sweep.fields()
    }

    #[test]
    fn options_are_fields() {
        let args = [
            "--param",
            "lr=log:1e-5:1e-2",
            "--param",
            "opt=adam, sgd",
            "--param",
            "url=a:b",
            "--samples",
            "20",
            "--metric",
            "loss=min",
        ];
        let expected = json!({
            "kind": "sweep",
            "params": [{ "lr": { "log": ["1e-5", "1e-2"] } }, { "opt": ["adam", "sgd"] }, { "url": ["a:b"] }],
            "samples": "20",
            "metric": { "name": "loss", "goal": "min" },
        });
        assert_eq!(Value::Object(fields(&args).unwrap()), expected);
        assert!(fields(&[]).unwrap().is_empty());
    }

    #[test]
    fn what_has_no_values_is_refused() {
        for args in
            [["--param", "lr"], ["--param", "=1"], ["--metric", "loss"], ["--param", "lr=log:1,2"]]
        {
            assert!(fields(&args).is_err(), "{args:?}");
        }
    }
}
