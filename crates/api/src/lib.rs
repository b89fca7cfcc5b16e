//! The wire: versioned request and response types, the route table, the OpenAPI document made from
//! both, and a client. Views come from `model`. Nothing here knows the engine.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod client;
pub mod openapi;
pub mod query;
pub mod responder;
pub mod routes;
pub mod types;

pub use client::{Action, Client, ClientError};
pub use responder::{Answer, Call, Responder, Stay};

/// Largest request body that is read, in bytes: a spec of the largest size with its environment
/// fits.
pub const MAX_BODY_BYTES: usize = 2 << 20;
