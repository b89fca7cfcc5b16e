//! Rules on configurations that are right but for one thing, and on what printed pages hold.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod answers;
mod forms;
mod random;
mod rules;
mod seeds;
mod site;
