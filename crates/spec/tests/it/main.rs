//! Tests of documents as users write them: what they mean, what is refused and how, and that nothing hostile
//! gets through.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod mistakes;
mod support;
