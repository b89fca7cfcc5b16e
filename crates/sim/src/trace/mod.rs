//! Statistics of traces, and traces generated from a recipe. Jobs are added one by one; memory does
//! not grow with them, but for one number per job and quantile. It reads no file.

mod generate;
mod names;
mod quantiles;
mod summary;

pub(crate) use generate::draw;
pub use generate::generate;
pub use summary::{TraceSource, TraceSummarizer};
