//! Context that every subcommand is given: the shared options and the terminal.

use muster_model::ClusterName;

use crate::args::Global;
use crate::on::On;
use crate::ui::Ui;

/// Context of a subcommand.
pub struct App {
    /// Options that every subcommand takes.
    pub global: Global,
    /// Standard streams and how to write to them.
    pub ui: Ui,
}

impl App {
    /// Returns the context for the same subcommand on a cluster.
    pub fn on(&self, cluster: ClusterName) -> Self {
        let global = Global { on: Some(On::Cluster(cluster)), ..self.global.clone() };
        Self { global, ui: self.ui.clone() }
    }
}
