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
    for (schema, least) in [
        (muster_spec::schema(), 40),
        (muster_spec::queues_schema(), 15),
        (muster_spec::cluster_schema(), 11),
        (muster_spec::facts_schema(), 10),
        (muster_spec::site_schema(), 60),
    ] {
        let mut found = Vec::new();
        properties(&schema, "", &mut found);
        assert!(found.len() >= least, "{} fields", found.len());
        for (path, property) in found {
            let description =
                property.get("description").and_then(Value::as_str).unwrap_or_default();
            assert!(
                description.len() > 10 && description.ends_with('.'),
                "{path}: {description:?}"
            );
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

/// Every fact and threshold stands in the schemas with its bounds, and every field there is one
/// that is read.
#[test]
fn the_schemas_of_advice_follow_the_tables() {
    use muster_model::advice::{Fact, FactKind, Threshold};
    let facts = muster_spec::facts_schema();
    let site = muster_spec::site_schema();
    for fact in Fact::WORKLOAD {
        let described = &facts["properties"][fact.name()];
        assert_eq!(described, &site["$defs"]["workload"]["properties"][fact.name()], "{fact}");
        assert!(
            described["description"]
                .as_str()
                .unwrap()
                .to_lowercase()
                .starts_with(&fact.question().to_lowercase())
        );
        match fact.kind() {
            FactKind::Flag => assert_eq!(described["type"], "boolean"),
            FactKind::Count { min, max, default } => {
                assert_eq!(
                    (&described["minimum"], &described["maximum"]),
                    (&min.into(), &max.into())
                );
                assert_eq!(described["default"], default);
            }
            FactKind::Hundredths { .. } => assert_eq!(described["multipleOf"], 0.01),
        }
    }
    for threshold in Threshold::ALL {
        assert!(
            site["properties"]["rules"]["properties"][threshold.name()].is_object(),
            "{}",
            threshold.name()
        );
    }
    for (section, described) in site["properties"].as_object().unwrap() {
        for name in described["properties"].as_object().into_iter().flatten().map(|(name, _)| name)
        {
            let text = format!("{section}: {{{name}: {{a: [[]]}}}}");
            let error = muster_spec::parse_site(&text, None).unwrap_err().to_string();
            assert!(!error.contains("there is no"), "{error}");
        }
    }
    for name in facts["properties"].as_object().unwrap().keys() {
        let error =
            muster_spec::parse_facts(&format!("{name}: [[]]"), None).unwrap_err().to_string();
        assert!(!error.contains("there is no"), "{error}");
    }
}
