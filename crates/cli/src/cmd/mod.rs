//! One file per subcommand: its options with their help texts, and its implementation.

pub mod advise;
pub mod attach;
pub mod cancel;
pub mod check;
pub mod checkpoint;
pub mod compare;
pub mod completions;
pub mod docs;
pub mod explain;
pub mod export;
pub mod hold;
pub mod import;
pub mod info;
pub mod init;
pub mod inventory;
pub mod logs;
pub mod man;
pub mod names;
pub mod nodes;
pub mod prove;
pub mod ps;
pub mod queues;
pub mod release;
pub mod requeue;
pub mod reserve;
pub mod run;
pub mod scale;
pub mod schema;
pub mod serve;
pub mod show;
pub mod simulate;
pub mod stop_daemon;
pub mod trace;
pub mod usage;
pub mod verify;
pub mod wait;
pub mod whatif;

use anyhow::Result;
use muster_api::types::ActionRequest;
use muster_api::{Client, JobAction};

use crate::exit::Failure;
use crate::jobref::JobTarget;

async fn act_on(client: &Client, target: JobTarget, action: JobAction) -> Result<String> {
    let request = ActionRequest { index: target.index };
    let response = client.act(target.job, action, request).await.map_err(Failure::from)?;
    Ok(response.message)
}
