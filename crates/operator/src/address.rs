//! Addresses and requests of the API server.

use http::{Method, Request};
use muster_kubernetes::object::ObjectKey;
use serde_json::Value;

/// Returns the address of a namespaced object of the core API.
#[must_use]
pub fn core(plural: &str, key: &ObjectKey) -> String {
    format!("/api/v1/namespaces/{}/{plural}/{}", key.namespace, key.name)
}

/// Makes a request without a body.
#[must_use]
pub fn get(path: &str) -> Request<Vec<u8>> {
    request(Method::GET, path, "application/json", Vec::new())
}

/// Makes a request with a JSON body.
///
/// # Panics
/// If the path holds letters that addresses cannot have, as names of objects do not.
#[must_use]
pub fn with_body(method: Method, path: &str, body: &Value) -> Request<Vec<u8>> {
    request(method, path, "application/json", body.to_string().into_bytes())
}

/// Makes a request that merges a patch into an object, lists by their keys.
#[must_use]
pub fn patch(path: &str, body: &Value) -> Request<Vec<u8>> {
    request(
        Method::PATCH,
        path,
        "application/strategic-merge-patch+json",
        body.to_string().into_bytes(),
    )
}

/// Makes a request that merges a patch into an object, lists as a whole: custom objects know no
/// other way.
#[must_use]
pub fn merge(path: &str, body: &Value) -> Request<Vec<u8>> {
    request(Method::PATCH, path, "application/merge-patch+json", body.to_string().into_bytes())
}

fn request(method: Method, path: &str, content_type: &str, body: Vec<u8>) -> Request<Vec<u8>> {
    Request::builder()
        .method(method)
        .uri(path)
        .header(http::header::CONTENT_TYPE, content_type)
        .body(body)
        .expect("names of Kubernetes objects are valid in addresses")
}
