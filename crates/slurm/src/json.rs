//! Reads Slurm's JSON by structure instead of version: in data_parser v0.0.37 to v0.0.44 numbers
//! are plain or `{set, infinite, number}`, and states one word or a list. Lists are read by
//! [`list`] only: a program that cannot reach its controller prints an empty list beside a filled
//! `errors`, and exits with 0.

use serde_json::Value;

/// Reason why Slurm's JSON contains no list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// Slurm reports a failure.
    #[error("Slurm reported: {0}")]
    Failed(String),
    /// The JSON has no list of this name.
    #[error("no list of {0}")]
    NoList(&'static str),
}

/// Returns the failure that Slurm reports: the first entry of `errors`.
#[must_use]
pub fn failure(value: &Value) -> Option<String> {
    let first = value.get("errors")?.as_array()?.first()?;
    let said = ["error", "description"].map(|name| text(first, &format!("/{name}")));
    let mut said: Vec<String> = said.into_iter().filter(|text| !text.is_empty()).collect();
    said.dedup();
    Some(if said.is_empty() { first.to_string() } else { said.join(": ") })
}

/// Returns the list of this name.
///
/// # Errors
/// When Slurm reports a failure, even beside a list, or there is no list.
pub fn list<'a>(value: &'a Value, name: &'static str) -> Result<&'a Vec<Value>, JsonError> {
    if let Some(failure) = failure(value) {
        return Err(JsonError::Failed(failure));
    }
    value.get(name).and_then(Value::as_array).ok_or(JsonError::NoList(name))
}

/// Returns a whole number, plain or as `{set, infinite, number}`; `None` where it is not set,
/// infinite, or not a number.
pub fn number(row: &Value, path: &str) -> Option<u64> {
    try_number(row, path).ok().flatten()
}

/// As [`number`], but what stands in place of a whole number is an error.
///
/// # Errors
/// The value that is not a whole number.
pub(super) fn try_number<'a>(row: &'a Value, path: &str) -> Result<Option<u64>, &'a Value> {
    let value = match row.pointer(path) {
        Some(Value::Object(fields)) => {
            let is = |field: &str| fields.get(field).and_then(Value::as_bool);
            match (is("set"), is("infinite")) {
                (Some(false), _) | (_, Some(true)) => None,
                _ => fields.get("number"),
            }
        }
        other => other,
    };
    // Some versions print whole numbers as floating point.
    let plain = |text: String| text.strip_suffix(".0").and_then(|text| text.parse().ok());
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(value) => {
            let whole = value.as_u64();
            let whole = whole.or_else(|| plain(value.as_number()?.to_string()));
            whole.map(Some).ok_or(value)
        }
    }
}

/// Returns the text at a path; empty where there is none.
pub fn text(row: &Value, path: &str) -> String {
    row.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Returns the text or list of texts at the first path that exists.
pub fn words(row: &Value, paths: &[&str]) -> Vec<String> {
    let found = paths.iter().find_map(|path| match row.pointer(path) {
        Some(Value::String(text)) => Some(vec![text.clone()]),
        Some(Value::Array(items)) => {
            Some(items.iter().filter_map(Value::as_str).map(str::to_owned).collect())
        }
        _ => None,
    });
    found.unwrap_or_default().into_iter().filter(|word| !word.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_filled_list_of_errors_is_a_failure_whatever_stands_beside_it() {
        // Output of squeue 22.05, with exit code 0, while its controller is down.
        let down = json!({ "meta": {}, "errors": [{ "error_number": 1800, "error": "Unable to contact slurm controller" }], "jobs": [] });
        let said = "Slurm reported: Unable to contact slurm controller";
        assert_eq!(list(&down, "jobs").unwrap_err().to_string(), said);
        let beside = json!({ "errors": [{ "description": "slurm_load_jobs()", "error": "Zero Bytes" }], "jobs": [{ "job_id": 1 }] });
        assert_eq!(
            list(&beside, "jobs").unwrap_err().to_string(),
            "Slurm reported: Zero Bytes: slurm_load_jobs()"
        );
        assert!(list(&json!({ "errors": [{}], "jobs": [] }), "jobs").is_err());
        assert_eq!(list(&json!({ "errors": [], "jobs": [] }), "jobs"), Ok(&vec![]));
        assert_eq!(list(&json!({ "errors": [] }), "jobs"), Err(JsonError::NoList("jobs")));
    }
}
