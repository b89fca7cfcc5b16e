//! Sweep: an array of which each element has its own values of some parameters.
//!
//! The index of an element is the number of its point in the sweep, so that the same job file gives the same
//! values to the same index, also when only some indices are submitted.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Parameters of a sweep, with what is compared of its elements.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sweep {
    /// Parameters, in the order of the job file; never empty.
    pub params: Vec<Param>,
    /// Combination of their values.
    pub points: Points,
    /// Figure that the elements report; `None` when they report none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metric: Option<Metric>,
    /// Rule by which elements are stopped before their end; `None` when none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub early_stop: Option<EarlyStop>,
}

/// Parameter with its values as text, as the job file has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    /// Name that stands in braces in commands.
    pub name: Arc<str>,
    /// Texts that take the place of the name, at least one.
    pub values: Vec<Arc<str>>,
}

impl Param {
    /// Start of the names of variables that hold values of parameters.
    pub const VARIABLE: &'static str = "MUSTER_PARAM_";

    /// Returns the environment variable that holds the value: `MUSTER_PARAM_OPTIMIZER_LR` of `optimizer.lr`.
    #[must_use]
    pub fn variable(&self) -> String {
        let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
        Self::VARIABLE.chars().chain(self.name.chars().map(letter)).collect()
    }
}

/// Combination of the values of parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Points {
    /// Every value with every value of the others; those of the last parameter change first.
    Grid,
    /// The first values together, then the second ones. All parameters have as many.
    Rows,
}

/// Figure that the elements of a sweep report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metric {
    /// Name: that of a field of the reported lines, unless there is a pattern.
    pub name: Arc<str>,
    /// Values that count as better.
    pub goal: Goal,
    /// Regular expression over lines of the output, whose group `value` (or first group) is the figure and
    /// whose group `step` the step; `None` when the elements write lines of JSON to their report file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<Arc<str>>,
    /// Name of the field of reported lines that holds the step.
    pub step: Arc<str>,
}

/// Direction in which values of a metric are better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Goal {
    /// Lower values are better.
    Min,
    /// Higher values are better.
    Max,
}

impl Goal {
    /// Returns true if one value is better than another one.
    #[must_use]
    pub fn is_better(self, value: f64, other: f64) -> bool {
        match self {
            Self::Min => value < other,
            Self::Max => value > other,
        }
    }

    /// Returns the word in job files.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Min => "min",
            Self::Max => "max",
        }
    }
}

/// Rule by which elements that do badly are stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EarlyStop {
    /// Asynchronous successive halving, in its form without pauses: at steps `first`, `first` × `factor`, and so
    /// on, an element continues if it is among the best `1 / factor` of those that have come as far.
    Asha {
        /// Step of the first comparison, at least 1.
        first: u64,
        /// Factor between the steps of two comparisons, and of the elements of which one continues; at least 2.
        factor: u32,
    },
    /// At every multiple of `every`, an element is stopped if its best value so far is worse than the median of
    /// the running means of the others at that step.
    Median {
        /// Steps between two comparisons, at least 1.
        every: u64,
        /// Fewest other elements that must have come as far.
        others: u32,
    },
}

/// Value of the metric that an element reported.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetricReport {
    /// Step of the report; the number of the report, from 1, where it names none.
    pub step: u64,
    /// Value of the metric; finite.
    pub value: f64,
}

impl Sweep {
    /// Returns the number of points; `None` when it exceeds 32 bits.
    #[must_use]
    pub fn count(&self) -> Option<u32> {
        let counts = self.params.iter().map(|param| u32::try_from(param.values.len()).ok());
        match self.points {
            Points::Grid => {
                counts.into_iter().try_fold(1u32, |product, count| product.checked_mul(count?))
            }
            Points::Rows => counts.into_iter().next()?,
        }
    }

    /// Returns the value of each parameter at a point, in order. Beyond the last point they begin again.
    #[must_use]
    pub fn values(&self, point: u32) -> Vec<&Arc<str>> {
        let mut rest = point as usize;
        let mut values: Vec<&Arc<str>> = self
            .params
            .iter()
            .rev()
            .map(|param| {
                let count = param.values.len();
                let value = &param.values[rest % count];
                if self.points == Points::Grid {
                    rest /= count;
                }
                value
            })
            .collect();
        values.reverse();
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sweep(points: Points, params: &[(&str, &[&str])]) -> Sweep {
        let param = |(name, values): &(&str, &[&str])| Param {
            name: (*name).into(),
            values: values.iter().map(|value| Arc::from(*value)).collect(),
        };
        let params = params.iter().map(param).collect();
        Sweep { params, points, metric: None, early_stop: None }
    }

    fn lines(sweep: &Sweep) -> Vec<String> {
        let count = sweep.count().expect("it fits");
        let line = |point| {
            let values = sweep.values(point);
            values.iter().map(|value| value.as_ref()).collect::<Vec<_>>().join(" ")
        };
        (0..count).map(line).collect()
    }

    #[test]
    fn a_grid_has_every_combination_once_and_the_last_parameter_changes_first() {
        let grid = sweep(Points::Grid, &[("a", &["1", "2"]), ("b", &["x", "y", "z"])]);
        assert_eq!(lines(&grid), ["1 x", "1 y", "1 z", "2 x", "2 y", "2 z"]);
    }

    #[test]
    fn rows_take_values_together() {
        let rows = sweep(Points::Rows, &[("a", &["1", "2"]), ("b", &["x", "y"])]);
        assert_eq!(lines(&rows), ["1 x", "2 y"]);
    }

    #[test]
    fn a_count_beyond_32_bits_is_none() {
        let many: Vec<String> = (0..100_000).map(|n| n.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(sweep(Points::Grid, &[("a", &many), ("b", &many)]).count(), None);
    }

    #[test]
    fn variables_are_in_capitals() {
        let param = Param { name: "optimizer.lr-2".into(), values: Vec::new() };
        assert_eq!(param.variable(), "MUSTER_PARAM_OPTIMIZER_LR_2");
    }
}
