//! Converts views to text: tables, explanations, timelines. Pure: the present time, time zone,
//! terminal width and colour are passed in as [`RenderContext`]; nothing here may read a clock, an
//! environment variable or a file, or write anywhere.
//!
//! Every function returns text whose lines end in `\n`, without tabs and without trailing blanks.

#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test that cannot unwrap should fail"))]

pub mod advance_reservations;
pub mod advise;
pub mod amount;
pub mod check;
pub mod clock;
pub mod compare;
mod context;
pub mod data_table;
pub mod elements;
pub mod explain;
pub mod explanation_line;
pub mod fleet;
mod gang;
pub mod html;
pub mod imported;
mod limits;
pub mod metrics;
pub mod nodes;
pub mod packing;
mod placed;
pub mod plot;
mod preemption;
pub mod prove;
pub mod ps;
pub mod queues;
pub mod reason;
pub mod show;
pub mod simulate;
pub mod style;
pub mod table;
pub mod timeline;
pub mod top;
mod topology;
pub mod trace;
pub mod usage;
pub mod verify;
pub mod watch;
pub mod whatif;
mod words;

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod linear;
#[cfg(test)]
mod sample;

pub use context::RenderContext;
pub use style::Ink;
pub use words::Words;
