//! Elements of an array or sweep, one row each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ElementView, JobState};
use crate::outcome::Outcome;
use crate::sweep::{Goal, MetricReport};
use crate::unit::Time;

/// Element of an array or sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ElementRow {
    /// Index of the element.
    pub index: u32,
    /// State of the element.
    pub state: JobState,
    /// Number of the current or last attempt, from 1; 0 before the first.
    pub attempt: u32,
    /// Instant at which the processes of the current or last attempt started; `None` before that.
    pub started: Option<Time>,
    /// Instant of the final end; `None` before that.
    pub ended: Option<Time>,
    /// Final outcome; `None` before the end.
    pub outcome: Option<Outcome>,
    /// Values of the parameters of a sweep, in their order; empty for other arrays, and for jobs of other users.
    pub values: Vec<String>,
    /// Newest report of the metric; `None` without one.
    pub report: Option<MetricReport>,
}

impl ElementRow {
    /// Makes the row of an element, without values and report.
    #[must_use]
    pub fn of(view: &ElementView) -> Self {
        Self {
            index: view.element.index,
            state: view.state,
            attempt: view.attempt,
            started: view.started,
            ended: view.ended,
            outcome: view.outcome.clone(),
            values: Vec::new(),
            report: None,
        }
    }
}

/// Metric of a sweep, for tables.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MetricView {
    /// Name of the metric.
    pub name: String,
    /// Values that count as better.
    pub goal: Goal,
}
