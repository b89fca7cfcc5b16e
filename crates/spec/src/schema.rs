//! JSON Schemas for editors, made from the same field lists that the readers use, so that they
//! cannot diverge.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::advice::{FactsDocument, SiteDocument};
use crate::cluster::ClusterDocument;
use crate::job::JobDocument;
use crate::queues::QueuesDocument;
use crate::recipe::RecipeDocument;

/// Returns the JSON Schema (2020-12) of the job document.
#[must_use]
pub fn schema() -> Value {
    of::<JobDocument>()
}

/// Returns the JSON Schema (2020-12) of the queue file.
#[must_use]
pub fn queues_schema() -> Value {
    of::<QueuesDocument>()
}

/// Returns the JSON Schema (2020-12) of the cluster file.
#[must_use]
pub fn cluster_schema() -> Value {
    of::<ClusterDocument>()
}

/// Returns the JSON Schema (2020-12) of the facts file, and of each line of `--batch`.
#[must_use]
pub fn facts_schema() -> Value {
    of::<FactsDocument>()
}

/// Returns the JSON Schema (2020-12) of the site file.
#[must_use]
pub fn site_schema() -> Value {
    of::<SiteDocument>()
}

/// Returns the JSON Schema (2020-12) of a recipe for traces.
#[must_use]
pub fn recipe_schema() -> Value {
    of::<RecipeDocument>()
}

fn of<T: JsonSchema>() -> Value {
    SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value()
}
