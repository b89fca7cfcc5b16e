//! The wire: versioned request and response types, the route table, the OpenAPI document made from both, and a
//! client. Views come from `model`. Nothing here knows the engine.

pub mod types;
