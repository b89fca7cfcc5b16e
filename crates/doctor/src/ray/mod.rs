//! Checks of the Ray clusters on one machine: its processes in, findings out. `host` is what a reader
//! of /proc found, `process` reads the command lines of Ray, `view` has nodes and clusters as the rules
//! need them. Reads no file and starts nothing.

mod host;
mod process;
pub(crate) mod rules;
mod view;

pub use host::{DashboardAnswer, HostProcess, RayHost};
pub use process::{VARIABLES, is_dashboard, is_of_ray};
pub(crate) use view::HostView;
