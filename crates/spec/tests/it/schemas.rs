//! The published schemas: every field described, every documented example accepted.

use serde_json::Value;

/// Walks every property of a schema, `$defs` included.
fn properties(schema: &Value, path: &str, found: &mut Vec<(String, Value)>) {
    match schema {
        Value::Object(fields) => {
            for (key, value) in fields {
                if key == "properties" {
                    for (name, property) in value.as_object().unwrap() {
                        found.push((format!("{path}/{name}"), property.clone()));
                    }
                }
                properties(value, &format!("{path}/{key}"), found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| properties(item, path, found)),
        _ => {}
    }
}

#[test]
fn every_field_has_a_description() {
    for (schema, least) in
        [(muster_spec::schema(), 40), (muster_spec::queues_schema(), 15), (muster_spec::cluster_schema(), 11)]
    {
        let mut found = Vec::new();
        properties(&schema, "", &mut found);
        assert!(found.len() >= least, "{} fields", found.len());
        for (path, property) in found {
            let description = property.get("description").and_then(Value::as_str).unwrap_or_default();
            assert!(description.len() > 10 && description.ends_with('.'), "{path}: {description:?}");
        }
        assert_eq!(schema["additionalProperties"], false);
        assert!(schema["$schema"].as_str().unwrap().contains("2020-12"));
    }
}

#[test]
fn the_fields_of_the_schema_are_the_fields_that_are_read() {
    let schema = muster_spec::schema();
    for name in schema["properties"].as_object().unwrap().keys() {
        let error = muster_spec::parse(&format!("{name}: [[]]"), None, &serde_json::Map::new());
        let text = error.unwrap_err().to_string();
        assert!(!text.contains("there is no field"), "{text}");
    }
}
