//! Tests of the rules on a sound configuration with single changes, and on configurations in
//! printed pages.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail")]

mod answers;
mod cluster;
mod forms;
mod gang_probes;
mod kubernetes;
mod random;
mod ray;
mod ray_objects;
mod rules;
mod seeds;
mod site;
