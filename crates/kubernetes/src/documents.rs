//! Documents of manifests in YAML, or in JSON, which is YAML as well. It does not know what they mean.

use serde_json::Value;

/// Parses all documents of a text; empty ones are left out.
///
/// # Errors
///
/// Why the text is no YAML, with its place.
pub fn values(text: &str) -> Result<Vec<Value>, String> {
    let all: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    Ok(all.into_iter().filter(|value| !value.is_null()).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn empty_documents_are_left_out() {
        let text = "# a comment\n---\nkind: Pod\nspec: {n: 1, text: \"1\"}\n---\n---\nkind: Job\n";
        let expected =
            [json!({"kind": "Pod", "spec": {"n": 1, "text": "1"}}), json!({"kind": "Job"})];
        assert_eq!(values(text).unwrap(), expected);
        assert!(values("a: [").is_err());
    }
}
