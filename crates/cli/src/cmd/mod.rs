//! One file per verb: its options with their help, and what it does.

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
use muster_api::{Action, Client};
use serde::Serialize;

use crate::app::App;
use crate::args::Output;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::{JobRef, Target};

/// What an action on one job came to.
#[derive(Serialize)]
struct Acted {
    job: u64,
    index: Option<u32>,
    message: String,
}

/// Does the same to several jobs, in order; stops at the first refusal.
async fn act(app: &App, jobs: &[JobRef], action: Action, output: Output) -> Result<u8> {
    let client = connect::find(&app.global)?;
    let mut done = Vec::new();
    for job in jobs {
        let target = job.resolve(&client).await?;
        let message = act_on(&client, target, action).await?;
        if !output.json() {
            app.ui.data(&format!("{}: {message}\n", target.text()))?;
        }
        done.push(Acted { job: target.job.0, index: target.index, message });
    }
    if output.json() {
        app.ui.json(&done)?;
    }
    Ok(0)
}

async fn act_on(client: &Client, target: Target, action: Action) -> Result<String> {
    let request = ActionRequest { index: target.index };
    let response = client.act(target.job, action, request).await.map_err(Failure::from)?;
    Ok(response.message)
}
