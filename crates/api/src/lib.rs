//! HTTP API, version 1: request and response types, the route table, the OpenAPI document generated
//! from both, and a client. The views are in `model`; this crate does not depend on the engine.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test fails by panicking"))]

pub mod client;
pub mod openapi;
pub mod query;
pub mod reserve;
pub mod responder;
pub mod routes;
pub mod types;

pub use client::{Client, ClientError, JobAction};
pub use responder::{Call, Responder, RouteResponse, RouteValue, WaitMode};

/// Largest request body that is accepted, in bytes: enough for a spec of the largest size with its
/// environment.
pub const MAX_BODY_BYTES: usize = 2 << 20;
