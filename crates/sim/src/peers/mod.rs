//! Models of how others schedule, to be compared with the engine. Each file says what is modelled, from which source, and
//! what is not; no constant in a model is taken from a number that it is to match.

mod gang;
pub mod kai;
pub mod kube;
<<<<<<< HEAD
mod line;
pub mod none;
=======
pub mod kueue;
>>>>>>> 9fce535 (sim: models of Kubernetes' own gangs and of Kueue: quota first, then pods, with and without waiting for them and topology)
pub mod packing;
pub mod ray;
pub mod slurm;
pub mod textbook;
pub mod volcano;
