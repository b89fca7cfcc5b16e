//! Context that every subcommand is given: the shared options and the terminal.

use crate::args::Global;
use crate::ui::Ui;

/// Context of a subcommand.
pub struct App {
    /// Options that every subcommand takes.
    pub global: Global,
    /// Standard streams and how to write to them.
    pub ui: Ui,
}
