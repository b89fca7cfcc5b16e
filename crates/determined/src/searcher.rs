//! The searcher: how many trials there are, how many run at once, their metric, and which of them end early.

use crate::NotAnExperiment;
use crate::draft::{ExperimentDraft, HalvingDraft, MetricDraft};
use crate::fields::ExperimentFields;

/// Trials that run at once where a searcher does not say.
const MAX_CONCURRENT: u64 = 16;
/// Factor between two comparisons where `divisor` is not given.
const DIVISOR: f64 = 4.0;
/// Comparisons of a trial where `max_rungs` is not given.
const MAX_RUNGS: u64 = 5;
/// Seeds of Determined are below this, as are those of sweeps.
const MAX_SEED: u64 = 1 << 31;

/// Converts all of the searcher but the seed of its draws.
pub(crate) fn convert(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    let name = fields.text("/searcher/name").unwrap_or_else(|| "single".to_owned());
    match name.as_str() {
        "single" => {
            draft.trials = Some(1);
            fields.field("/searcher/name", "one element");
        }
        "random" => {
            samples(fields, draft)?;
            fields.field("/searcher/name", "a sweep of drawn points");
        }
        "grid" => fields.field("/searcher/name", "a sweep of every combination"),
        "async_halving" => {
            samples(fields, draft)?;
            fields.field("/searcher/name", "early-stop: {rule: asha}");
            let rungs = fields.whole("/searcher/num_rungs")?.unwrap_or(MAX_RUNGS);
            fields.field("/searcher/num_rungs", "early-stop: its first comparison");
            halve(fields, draft, rungs)?;
        }
        "adaptive_asha" | "adaptive" | "adaptive_simple" | "sync_halving" => {
            samples(fields, draft)?;
            fields
                .near("/searcher/name", "early-stop: {rule: asha}, one comparison for all trials");
            adapt(fields, draft)?;
        }
        other => return Err(NotAnExperiment::CustomSearcher(other.to_owned())),
    }
    metric(fields, draft);
    concurrency(fields, draft, name != "single")
}

/// Takes back what only a sweep has, where there are no parameters that would make it one.
pub(crate) fn without_sweep(fields: &mut ExperimentFields, draft: &mut ExperimentDraft) {
    let comparisons = ["num_rungs", "max_rungs", "bracket_rungs", "mode", "divisor"];
    let reports = ["metric", "smaller_is_better", "time_metric", "max_length", "max_time"];
    for name in comparisons.into_iter().chain(reports) {
        let at = format!("/searcher/{name}");
        fields.lost(&at, "trials are compared only where they have hyperparameters");
    }
    draft.metric = None;
    draft.early_stop = None;
    if draft.trials.is_some_and(|trials| trials > 1) {
        fields.near("/searcher/name", "array: of trials that run to their end");
        fields.field("/searcher/max_trials", "array");
        fields.field("/searcher/max_concurrent_trials", "array: its limit");
        fields.field("/resources/max_slots", "array: its limit");
    } else {
        draft.max_running = None;
        fields.field("/searcher/name", "one job");
        for at in
            ["/searcher/max_trials", "/searcher/max_concurrent_trials", "/resources/max_slots"]
        {
            fields.lost(at, "only one trial runs");
        }
    }
}

/// Converts the seed of the draws, where values are drawn.
pub(crate) fn seed(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    let at = "/reproducibility/experiment_seed";
    let is_drawn = draft.is_sweep() && draft.samples.is_some();
    draft.seed = fields.whole(at)?.filter(|seed| *seed < MAX_SEED && is_drawn);
    if draft.seed.is_some() {
        fields.near(at, "seed: of the draws; a program reads it from its own arguments");
    } else {
        fields.lost(at, "nothing is drawn: give it to the program in `run`");
    }
    Ok(())
}

fn samples(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    let at = "/searcher/max_trials";
    let trials =
        fields.whole(at)?.filter(|trials| *trials > 0).ok_or(NotAnExperiment::BadField {
            line: fields.line("/searcher"),
            why: "the searcher has no `max_trials`".to_owned(),
        })?;
    fields.field(at, "samples");
    (draft.samples, draft.trials) = (Some(trials), Some(trials));
    Ok(())
}

/// Converts the terms of several brackets of successive halving: the one that stops most trials.
fn adapt(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    let given = fields.get("/searcher/bracket_rungs").and_then(serde_json::Value::as_array);
    let given = given.and_then(|list| list.iter().filter_map(serde_json::Value::as_u64).max());
    let most = fields.whole("/searcher/max_rungs")?.unwrap_or(MAX_RUNGS);
    let divisor = divisor(fields);
    let Some((length, _)) = length(fields) else { return Err(without_length(fields)) };
    let trials = draft.trials.unwrap_or(1) as f64;
    // As Determined's searcher does: the last comparison has at least one trial, and is at the end.
    let by = |number: f64| (number.max(1.0).ln() / divisor.ln()) as u64 + 1;
    let rungs = given.unwrap_or_else(|| most.min(by(length)).min(by(trials)));
    fields.field("/searcher/max_rungs", "early-stop: its first comparison");
    fields.near(
        "/searcher/bracket_rungs",
        "early-stop: all trials are compared as those of the bracket with most comparisons",
    );
    fields
        .near("/searcher/mode", "early-stop: all trials are compared as by the mode `aggressive`");
    halve(fields, draft, rungs)
}

/// Converts successive halving with comparisons at `rungs` steps, the last of which is the end of a trial.
fn halve(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
    rungs: u64,
) -> Result<(), NotAnExperiment> {
    let divisor = divisor(fields);
    let Some((length, step)) = length(fields) else { return Err(without_length(fields)) };
    let exponent = i32::try_from(rungs.saturating_sub(1)).unwrap_or(i32::MAX);
    let first = (length / divisor.powi(exponent)).max(1.0) as u64;
    draft.early_stop = Some(HalvingDraft { first, factor: divisor.round().max(2.0) as u64 });
    fields.field(
        &format!("/searcher/{step}"),
        "early-stop: its first comparison; the program ends by itself",
    );
    if divisor.fract() == 0.0 {
        fields.field("/searcher/divisor", "early-stop: factor");
    } else {
        fields.near("/searcher/divisor", "early-stop: factor, which is a whole number");
    }
    Ok(())
}

fn without_length(fields: &ExperimentFields) -> NotAnExperiment {
    NotAnExperiment::BadField {
        line: fields.line("/searcher"),
        why: "the searcher has neither `max_time` nor `max_length`".to_owned(),
    }
}

fn divisor(fields: &ExperimentFields) -> f64 {
    let given = fields.get("/searcher/divisor").and_then(serde_json::Value::as_f64);
    given.filter(|divisor| *divisor > 1.0).unwrap_or(DIVISOR)
}

/// Returns how far a trial goes, and the field that says so.
fn length(fields: &ExperimentFields) -> Option<(f64, &'static str)> {
    let number = |at: &str| fields.get(at).and_then(serde_json::Value::as_f64);
    if let Some(time) = number("/searcher/max_time") {
        return Some((time, "max_time"));
    }
    let units = ["", "/batches", "/epochs", "/records"];
    let length = units.iter().find_map(|unit| number(&format!("/searcher/max_length{unit}")))?;
    Some((length, "max_length"))
}

fn metric(fields: &mut ExperimentFields, draft: &mut ExperimentDraft) {
    let units = ["batches", "epochs", "records"];
    let unit = units
        .into_iter()
        .find(|unit| fields.get(&format!("/searcher/max_length/{unit}")).is_some());
    let step = fields.text("/searcher/time_metric").or(unit.map(str::to_owned));
    let is_better_smaller = fields.get("/searcher/smaller_is_better") != Some(&false.into());
    draft.metric =
        fields.text("/searcher/metric").map(|name| MetricDraft { name, is_better_smaller, step });
    fields.field("/searcher/metric", "metric: name");
    fields.field("/searcher/smaller_is_better", "metric: goal");
    fields.field("/searcher/time_metric", "metric: step");
    fields.near("/searcher/max_length", "metric: step; the program ends by itself");
    fields.lost("/searcher/max_time", "the program ends by itself");
    if draft.early_stop.is_some() {
        fields.field("/searcher/max_time", "early-stop: first; the program ends by itself");
        fields.field("/searcher/max_length", "early-stop: first; the program ends by itself");
    }
}

/// Converts the number of trials that run at once; the limit on slots is added by `resources`.
fn concurrency(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
    is_search: bool,
) -> Result<(), NotAnExperiment> {
    let at = "/searcher/max_concurrent_trials";
    draft.max_running = match fields.whole(at)? {
        Some(0) => None,
        Some(most) => Some(most),
        None => is_search.then_some(MAX_CONCURRENT),
    };
    fields.field(at, "max-running");
    Ok(())
}
