//! JSON Schemas of answers, made from the types that are written, for programs that read them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::{Advice, SiteAdvice};

/// JSON Schema (2020-12) of advice on one workload.
#[must_use]
pub fn advice_schema() -> Value {
    of::<Advice>()
}

/// JSON Schema (2020-12) of advice on a site.
#[must_use]
pub fn site_advice_schema() -> Value {
    of::<SiteAdvice>()
}

/// As it is written: what is absent when empty is not required.
fn of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize();
    settings.into_generator().into_root_schema_for::<T>().to_value()
}
