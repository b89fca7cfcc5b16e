//! The OpenAPI 3.1 document, made from the route table and the types' schemas. Deterministic: the
//! same binary always writes the same bytes, so the committed copy can be compared in CI.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::routes::{Body, EXTRA_SCHEMAS, ROUTES, Route, SchemaOf};
use crate::types::ErrorBody;

/// Where schemas lie in the document, as a JSON pointer.
const DEFINITIONS: &str = "/components/schemas";

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let settings = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = DEFINITIONS.into());
    let mut generator = settings.into_generator();

    let error = generator.subschema_for::<ErrorBody>().to_value();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let operation = operation(route, &error, &mut generator);
        paths
            .entry(route.path)
            .or_default()
            .insert(route.method.as_str().to_lowercase(), operation);
    }
    for schema in EXTRA_SCHEMAS {
        schema(&mut generator);
    }
    let schemas: BTreeMap<String, Value> = generator.take_definitions(true).into_iter().collect();

    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Muster",
            "version": "1",
            "summary": "What a Muster daemon answers on its unix socket",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// The document as pretty-printed text, ending in a newline.
#[must_use]
pub fn text() -> String {
    let mut text =
        serde_json::to_string_pretty(&document()).expect("a JSON value always serialises");
    text.push('\n');
    text
}

fn operation(route: &Route, error: &Value, generator: &mut SchemaGenerator) -> Value {
    let mut operation = Map::new();
    operation.insert("operationId".into(), format!("{:?}", route.id).into());
    operation.insert("summary".into(), route.summary.into());

    let mut parameters = path_parameters(route.path);
    if let Some(query) = route.query {
        parameters.extend(query_parameters(query));
    }
    if !parameters.is_empty() {
        operation.insert("parameters".into(), parameters.into());
    }
    if let Some(content) = content(route.request, generator) {
        operation.insert("requestBody".into(), json!({ "required": true, "content": content }));
    }

    let mut responses: BTreeMap<String, Value> = BTreeMap::new();
    let mut success = json!({ "description": success_text(route.response) });
    if let Some(content) = content(route.response, generator) {
        success["content"] = content;
    }
    responses.insert(route.success().to_string(), success);
    for status in route.errors {
        let refusal = json!({
            "description": refusal_text(*status),
            "content": { "application/json": { "schema": error } },
        });
        responses.insert(status.to_string(), refusal);
    }
    operation.insert("responses".into(), json!(responses));
    operation.into()
}

fn content(body: Body, generator: &mut SchemaGenerator) -> Option<Value> {
    match body {
        Body::None | Body::Upgrade => None,
        Body::Json(schema) => Some(json!({ "application/json": { "schema": schema(generator) } })),
        Body::AnyJson => Some(json!({ "application/json": { "schema": { "type": "object" } } })),
        Body::Bytes => Some(json!({ "application/octet-stream": {} })),
    }
}

/// `{id}` is a job number; every other path parameter is a name.
fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| {
            let schema = match name {
                "id" => json!({ "type": "integer", "minimum": 0 }),
                _ => json!({ "type": "string" }),
            };
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect()
}

/// Every property of the query type is an optional parameter. Query types hold plain values only,
/// so their schemas are written in place.
fn query_parameters(query: SchemaOf) -> Vec<Value> {
    let settings =
        SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let schema = query(&mut settings.into_generator());
    let properties =
        schema.get("properties").and_then(Value::as_object).cloned().unwrap_or_default();
    properties
        .into_iter()
        .map(|(name, mut schema)| {
            let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
            json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
        })
        .collect()
}

fn success_text(body: Body) -> &'static str {
    match body {
        Body::None => "Done.",
        Body::Json(_) | Body::AnyJson => "The answer.",
        Body::Bytes => "The bytes, chunk by chunk.",
        Body::Upgrade => "The connection now speaks the session protocol.",
    }
}

fn refusal_text(status: u16) -> &'static str {
    match status {
        400 => "Not a request of this API.",
        403 => "Not yours.",
        404 => "No such thing.",
        409 => "The state of things does not allow it.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The text has errors; the diagnostics say where.",
        503 => {
            "The state cannot be written or read right now, or too many connections are open; nothing was changed."
        }
        _ => "A defect of the daemon.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_resolves_and_the_text_is_stable() {
        let document = document();
        let mut stack = vec![&document];
        let mut references = 0;
        while let Some(value) = stack.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(target)) = fields.get("$ref") {
                        references += 1;
                        let pointer = target.strip_prefix('#').unwrap();
                        assert!(
                            document.pointer(pointer).is_some(),
                            "{target} resolves to nothing"
                        );
                    }
                    stack.extend(fields.values());
                }
                Value::Array(items) => stack.extend(items),
                _ => {}
            }
        }
        assert!(
            references > 50,
            "the document refers to its schemas, found {references} references"
        );
        assert_eq!(text(), text());
    }

    #[test]
    fn query_and_path_parameters_are_listed() {
        let document = document();
        let parameters = document["paths"]["/v1/jobs/{id}/logs"]["get"]["parameters"]
            .as_array()
            .unwrap()
            .clone();
        let names: Vec<_> =
            parameters.iter().map(|parameter| parameter["name"].as_str().unwrap()).collect();
        for name in ["id", "index", "rank", "attempt", "follow", "tail", "offset"] {
            assert!(names.contains(&name), "{name} is missing from {names:?}");
        }
    }
}
