//! Reads a header that decides who sends a request: two of one name could be read as either, so they are none.

use axum::http::{HeaderMap, HeaderName};

/// Returns the value of a header that occurs once.
pub(super) fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let first = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(first)
}
