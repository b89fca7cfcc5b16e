//! Reading Slurm's JSON by shape and not by version: data_parser v0.0.37 to v0.0.44 differ in whether a number is plain or
//! `{set, infinite, number}`, and a state one word or a list.

use serde_json::Value;

/// A whole number, plain or as `{set, infinite, number}`; `None` where it is not set, infinite, or no number.
pub(super) fn number(row: &Value, path: &str) -> Option<u64> {
    let value = match row.pointer(path)? {
        Value::Object(fields) => {
            let is = |field: &str| fields.get(field).and_then(Value::as_bool);
            match (is("set"), is("infinite")) {
                (Some(false), _) | (_, Some(true)) => return None,
                _ => fields.get("number")?,
            }
        }
        other => other,
    };
    // Some versions print whole numbers as floating point.
    let plain = |text: String| text.strip_suffix(".0").and_then(|text| text.parse().ok());
    value.as_u64().or_else(|| value.as_number().and_then(|number| plain(number.to_string())))
}

/// Text at a path; empty where there is none.
pub(super) fn text(row: &Value, path: &str) -> String {
    row.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Text or a list of texts at the first path that leads somewhere.
pub(super) fn words(row: &Value, paths: &[&str]) -> Vec<String> {
    let found = paths.iter().find_map(|path| match row.pointer(path) {
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(Value::Array(items)) => {
            Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => None,
    });
    found.unwrap_or_default().into_iter().filter(|word| !word.is_empty()).collect()
}
