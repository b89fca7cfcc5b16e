//! Models of other schedulers, to be compared with the engine, and policies of users. Each model says what is modelled,
//! from which source, and what is not; no constant is fitted to a result.

pub mod external;
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
