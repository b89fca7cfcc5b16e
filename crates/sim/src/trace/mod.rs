//! What is in a trace, in numbers, and traces that are made from a recipe. Jobs are handed in one
//! by one; what is kept of them does not grow with what they are, but for one number a job and
//! quantile. It reads no file.

mod generate;
mod names;
mod quantiles;
mod summary;

pub(crate) use generate::draw;
pub use generate::generate;
pub use summary::{Source, Summary};
