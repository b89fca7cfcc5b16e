//! Models of how others schedule, to be compared with the engine. Each file says what is modelled,
//! from which source, and what is not; no constant in a model is taken from a number that it is to
//! match.

mod gang;
pub mod kai;
pub mod kube;
pub mod kueue;
mod line;
pub mod none;
pub mod packing;
pub mod ray;
pub mod slurm;
pub mod textbook;
pub mod volcano;
