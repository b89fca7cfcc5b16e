//! `muster nodes`.

use anyhow::Result;
use clap::Subcommand;
use muster_report::nodes::nodes;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;

/// List nodes and their GPUs, or take a node out of service
///
/// Virtual GPUs are marked as virtual; GPUs that a foreign process uses are not given away. JSON: a `NodeList`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    output: Output,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Start nothing new on a node; what runs goes on
    Drain {
        /// Name of the node
        #[arg(value_name = "NODE")]
        node: String,
        /// Why, for people
        #[arg(long, default_value = "", hide_default_value = true)]
        reason: String,
    },
    /// Take a drained node back
    Resume {
        /// Name of the node
        #[arg(value_name = "NODE")]
        node: String,
    },
}

/// Runs the verb.
pub async fn run(app: &App, args: Args) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let response = match &args.action {
        Some(Action::Drain { node, reason }) => client.drain(node, reason).await.map_err(Failure::from)?,
        Some(Action::Resume { node }) => client.resume(node).await.map_err(Failure::from)?,
        None => {
            let list = client.nodes().await.map_err(Failure::from)?;
            match args.output.json() {
                true => app.ui.json(&list)?,
                false => app.ui.data(&nodes(&list.nodes, &app.ui.style()))?,
            }
            return Ok(0);
        }
    };
    app.ui.status(&response.message);
    Ok(0)
}
