//! OpenAPI 3.1 document, generated from the route table and the types' schemas. Deterministic: the
//! same binary always writes the same bytes, so that CI can compare the committed copy.

use std::collections::BTreeMap;

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::routes::{BodyKind, EXTRA_SCHEMAS, ROUTES, Route, SchemaOf};
use crate::types::ErrorBody;

/// JSON pointer to the schemas in the document.
const DEFINITIONS: &str = "/components/schemas";

/// Returns the document as JSON.
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
            "summary": "HTTP API of the Muster daemon on its unix socket",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": { "schemas": schemas },
    })
}

/// Returns the document as pretty-printed text, ending in a newline.
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

fn content(body: BodyKind, generator: &mut SchemaGenerator) -> Option<Value> {
    match body {
        BodyKind::None | BodyKind::Upgrade => None,
        BodyKind::Json(schema) => {
            Some(json!({ "application/json": { "schema": schema(generator) } }))
        }
        BodyKind::AnyJson => {
            Some(json!({ "application/json": { "schema": { "type": "object" } } }))
        }
        BodyKind::Bytes => Some(json!({ "application/octet-stream": {} })),
    }
}

/// Returns the path parameters: `{id}` is a job number, every other one is a name.
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

/// Returns the query parameters: every property of the query type, all optional. Query types hold
/// plain values only, so their schemas are inlined.
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

fn success_text(body: BodyKind) -> &'static str {
    match body {
        BodyKind::None => "Success without content.",
        BodyKind::Json(_) | BodyKind::AnyJson => "Success.",
        BodyKind::Bytes => "Stream of bytes.",
        BodyKind::Upgrade => "The connection now speaks the session protocol.",
    }
}

fn refusal_text(status: u16) -> &'static str {
    match status {
        400 => "The request does not conform to this API.",
        403 => "The user is not permitted to do this.",
        404 => "No such job, node, queue or reservation.",
        409 => "The present state does not permit the action.",
        413 => "The body is too large.",
        415 => "The body is not JSON.",
        422 => "The text has errors; `diagnostics` has their places.",
        503 => {
            "The state cannot be read or written now, or too many connections are open; nothing was changed."
        }
        _ => "Internal error of the daemon.",
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
