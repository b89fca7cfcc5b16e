//! Hyperparameters become the parameters of a sweep; those within others get names with a dot.

use muster_document::child;
use serde_json::{Value, json};

use crate::NotAnExperiment;
use crate::draft::{ExperimentDraft, ParameterValues, SearchParameter};
use crate::fields::ExperimentFields;

const AT: &str = "/hyperparameters";
/// Most elements of a sweep.
const MAX_POINTS: u64 = 100_000;

/// Makes hyperparameters the parameters of the sweep, and counts the points of a grid.
pub(crate) fn convert(
    fields: &mut ExperimentFields,
    draft: &mut ExperimentDraft,
) -> Result<(), NotAnExperiment> {
    let Some(Value::Object(all)) = fields.get(AT).cloned() else { return Ok(()) };
    let is_grid = fields.text("/searcher/name").as_deref() == Some("grid");
    let mut found = Vec::new();
    for (name, value) in &all {
        read(fields, &child(AT, name), name, value, is_grid, &mut found)?;
    }
    let has_range = found.iter().any(|one| matches!(one.values, ParameterValues::Range(..)));
    if draft.samples.is_none() && has_range {
        // A single trial draws its values, too.
        draft.samples = Some(1);
    }
    if is_grid {
        let sizes = found.iter().map(|one| match &one.values {
            ParameterValues::List(list) => list.len() as u64,
            ParameterValues::Range(..) => 1,
        });
        draft.trials = Some(sizes.fold(1, u64::saturating_mul));
    }
    draft.parameters = found;
    Ok(())
}

/// Reads one hyperparameter, or those within it.
fn read(
    fields: &mut ExperimentFields,
    at: &str,
    name: &str,
    value: &Value,
    is_grid: bool,
    found: &mut Vec<SearchParameter>,
) -> Result<(), NotAnExperiment> {
    let (values, becomes) = match (value.get("type").and_then(Value::as_str), value) {
        (None, Value::Object(inner)) if !inner.is_empty() => {
            for (key, value) in inner {
                let name = format!("{name}.{}", letters(key));
                read(fields, &child(at, key), &name, value, is_grid, found)?;
            }
            return Ok(());
        }
        (None, _) => (ParameterValues::List(vec![text(value)]), "params: one value"),
        (Some(kind), _) => {
            values(kind, value, is_grid).map_err(|why| NotAnExperiment::BadField {
                line: fields.line(at),
                why: format!("hyperparameter `{name}` {why}"),
            })?
        }
    };
    fields.field(at, becomes);
    found.push(SearchParameter { name: letters(name), values });
    Ok(())
}

/// Returns the values of a hyperparameter with a type, and what they become in words; or what it lacks.
fn values(
    kind: &str,
    value: &Value,
    is_grid: bool,
) -> Result<(ParameterValues, &'static str), String> {
    match kind {
        "const" => Ok((ParameterValues::List(vec![text(&value["val"])]), "params: one value")),
        "categorical" => {
            let list = value["vals"].as_array().filter(|list| !list.is_empty());
            let list = list.ok_or("has no `vals`")?;
            Ok((ParameterValues::List(list.iter().map(text).collect()), "params: a list"))
        }
        "int" | "double" | "log" => range(kind, value, is_grid),
        other => Err(format!("has the type `{other}`")),
    }
}

/// Returns the values of a range: its ends to draw from, or the points of a grid.
fn range(
    kind: &str,
    value: &Value,
    is_grid: bool,
) -> Result<(ParameterValues, &'static str), String> {
    let number = |key: &str| value.get(key).and_then(Value::as_f64);
    let ends = number("minval").zip(number("maxval"));
    let (low, high) = ends.ok_or("has no `minval` and `maxval`")?;
    if low > high {
        return Err("has a `minval` above its `maxval`".to_owned());
    }
    let base = number("base").unwrap_or(10.0);
    let written = |point: f64| match kind {
        "int" => json!(point.round() as i64),
        "log" => json!(rounded(base.powf(point))),
        _ => json!(point),
    };
    let (name, becomes) = match kind {
        "int" => ("whole", "params: whole numbers"),
        "log" => ("log", "params: numbers on a logarithmic scale"),
        _ => ("uniform", "params: numbers"),
    };
    if !is_grid {
        return Ok((ParameterValues::Range(name, written(low), written(high)), becomes));
    }
    let count = value.get("count").and_then(Value::as_u64).filter(|count| *count > 0);
    let count = count.ok_or("has no `count`, which a grid needs")?;
    // A grid has each whole number once.
    let count = if kind == "int" { count.min((high - low) as u64 + 1) } else { count };
    if count > MAX_POINTS {
        return Err(format!("has more than {MAX_POINTS} points"));
    }
    Ok((ParameterValues::List(points(low, high, count).map(written).collect()), becomes))
}

/// Returns evenly spaced numbers, with both ends.
fn points(low: f64, high: f64, count: u64) -> impl Iterator<Item = f64> {
    let step = if count > 1 { (high - low) / (count - 1) as f64 } else { 0.0 };
    (0..count).map(move |at| rounded(low + step * at as f64))
}

/// Rounds to twelve digits, so that no power of ten ends in 0000001.
fn rounded(number: f64) -> f64 {
    format!("{number:.11e}").parse().unwrap_or(number)
}

/// Returns a value as it can stand in a list of values: those with parts are JSON.
fn text(value: &Value) -> Value {
    match value {
        Value::Number(_) | Value::String(_) | Value::Bool(_) => value.clone(),
        Value::Null | Value::Array(_) | Value::Object(_) => value.to_string().into(),
    }
}

/// Replaces letters that the name of a parameter may not have.
fn letters(name: &str) -> String {
    let letters =
        name.chars().map(|c| if c.is_ascii_alphanumeric() || "_.-".contains(c) { c } else { '_' });
    letters.collect()
}
