//! JSON Schemas of answers, generated from the types, for programs that read them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// Returns the JSON Schema (2020-12) of an answer as it is written: fields that are absent when
/// empty are not required.
#[must_use]
pub fn answer_schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
