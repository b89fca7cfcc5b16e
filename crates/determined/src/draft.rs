//! Job file under construction, and its output as YAML.

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Value, json};
use serde_saphyr::{FlowMap, FlowSeq};

/// Longest line that is not folded.
const MAX_LINE: usize = 1 << 20;

/// Job file of an experiment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExperimentDraft {
    pub(crate) name: String,
    pub(crate) parameters: Vec<SearchParameter>,
    /// Number of points to draw; `None` for every combination.
    pub(crate) samples: Option<u64>,
    pub(crate) seed: Option<u64>,
    pub(crate) max_running: Option<u64>,
    pub(crate) metric: Option<MetricDraft>,
    pub(crate) early_stop: Option<HalvingDraft>,
    pub(crate) queue: Option<String>,
    /// GPUs of a trial, in all.
    pub(crate) slots: u64,
    /// Nodes of a trial; `None` if it fits on one.
    pub(crate) nodes: Option<u64>,
    pub(crate) gpu: Option<String>,
    pub(crate) restarts: Option<u64>,
    pub(crate) grace_secs: Option<u64>,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) image: Option<String>,
    pub(crate) mounts: Vec<String>,
    /// Text or list of words.
    pub(crate) run: Value,
    /// Options that only sbatch gets, as `--name=value`.
    pub(crate) slurm_options: Vec<String>,
    /// Number of trials, where it is known.
    pub(crate) trials: Option<u64>,
}

/// SearchParameter of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SearchParameter {
    pub(crate) name: String,
    pub(crate) values: ParameterValues,
}

/// ParameterValues of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ParameterValues {
    List(Vec<Value>),
    /// Range to draw from: its kind in the job file, its least and its greatest value.
    Range(&'static str, Value, Value),
}

/// Metric of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricDraft {
    pub(crate) name: String,
    pub(crate) is_better_smaller: bool,
    /// Field of the reports that is the step; `None` for the default.
    pub(crate) step: Option<String>,
}

/// Steps at which successive halving compares trials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HalvingDraft {
    pub(crate) first: u64,
    pub(crate) factor: u64,
}

impl ExperimentDraft {
    /// Returns true if it has values that differ between trials, or that a program reads.
    pub(crate) fn is_sweep(&self) -> bool {
        !self.parameters.is_empty()
    }

    /// Returns the job file as YAML.
    pub(crate) fn yaml(&self) -> String {
        // Long lines of a program stay as they are.
        let options = serde_saphyr::ser_options! { folded_wrap_chars: MAX_LINE };
        let text = serde_saphyr::to_string_with_options(self, options)
            .expect("texts and numbers are valid YAML");
        format!("{}\n", text.trim_end())
    }

    /// Returns the fields that only a sweep has, after its parameters.
    fn sweep(&self) -> Vec<(&'static str, DraftEntry)> {
        let metric = self.metric.as_ref().map(|metric| {
            let goal = if metric.is_better_smaller { "min" } else { "max" };
            let step = metric.step.as_deref().map(|step| ("step", step.into()));
            let fields = [("name", metric.name.as_str().into()), ("goal", goal.into())];
            DraftEntry::Fields(fields.into_iter().chain(step).collect())
        });
        let early_stop = self.early_stop.as_ref().map(|halving| {
            let steps = [("first", halving.first.into()), ("factor", halving.factor.into())];
            DraftEntry::Fields([("rule", "asha".into())].into_iter().chain(steps).collect())
        });
        let fields = [
            ("samples", self.samples.map(number)),
            ("seed", self.seed.map(number)),
            ("max-running", self.max_running.map(number)),
            ("metric", metric),
            ("early-stop", early_stop),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Returns the fields that any job has, before its variables and its program.
    fn rest(&self) -> Vec<(&'static str, DraftEntry)> {
        let per_node = self.slots / self.nodes.unwrap_or(1);
        // Trials without parameters differ in nothing but their index.
        let trials = self.trials.filter(|trials| *trials > 1 && !self.is_sweep());
        let array = trials.map(|trials| match self.max_running {
            Some(most) => format!("0-{}%{most}", trials - 1),
            None => format!("0-{}", trials - 1),
        });
        let text =
            |text: &Option<String>| text.as_deref().map(|text| DraftEntry::Value(text.into()));
        let fields = [
            ("array", text(&array)),
            ("queue", text(&self.queue)),
            ("nodes", self.nodes.map(number)),
            ("gpus", (per_node > 0).then(|| number(per_node))),
            ("gpu", text(&self.gpu)),
            ("restart", self.restarts.map(number)),
            ("grace", self.grace_secs.map(|secs| DraftEntry::Value(format!("{secs}s").into()))),
            ("image", text(&self.image)),
            (
                "mounts",
                (!self.mounts.is_empty()).then(|| DraftEntry::Value(self.mounts.clone().into())),
            ),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }
}

fn number(number: u64) -> DraftEntry {
    DraftEntry::Value(number.into())
}

impl Serialize for ExperimentDraft {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if self.is_sweep() {
            map.serialize_entry("kind", "sweep")?;
            map.serialize_entry("params", &ParameterMap(&self.parameters))?;
        }
        let sweep = if self.is_sweep() { self.sweep() } else { Vec::new() };
        for (name, entry) in sweep.iter().chain(&self.rest()) {
            map.serialize_entry(name, entry)?;
        }
        if !self.env.is_empty() {
            let env: serde_json::Map<_, _> = self
                .env
                .iter()
                .map(|(name, value)| (name.clone(), value.as_str().into()))
                .collect();
            map.serialize_entry("env", &env)?;
        }
        map.serialize_entry("run", &OnOneLine(&self.run))?;
        if !self.slurm_options.is_empty() {
            map.serialize_entry("slurm", &json!({"options": self.slurm_options}))?;
        }
        map.end()
    }
}

/// Value of a field, on one line.
enum DraftEntry {
    Value(Value),
    Fields(Vec<(&'static str, Value)>),
}

impl Serialize for DraftEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            DraftEntry::Value(value) => OnOneLine(value).serialize(serializer),
            DraftEntry::Fields(fields) => FlowMap(Pairs(fields)).serialize(serializer),
        }
    }
}

struct Pairs<'a>(&'a [(&'static str, Value)]);

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// Value whose list or mapping stands on one line.
struct OnOneLine<'a>(&'a Value);

impl Serialize for OnOneLine<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Object(map) => FlowMap(map).serialize(serializer),
            Value::Array(list) => FlowSeq(list).serialize(serializer),
            scalar => scalar.serialize(serializer),
        }
    }
}

struct ParameterMap<'a>(&'a [SearchParameter]);

impl Serialize for ParameterMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for SearchParameter { name, values } in self.0 {
            let values = match values {
                ParameterValues::List(list) => Value::Array(list.clone()),
                ParameterValues::Range(kind, low, high) => json!({*kind: [low, high]}),
            };
            map.serialize_entry(name, &OnOneLine(&values))?;
        }
        map.end()
    }
}
