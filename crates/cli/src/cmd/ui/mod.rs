//! `muster ui`: serves a page for a browser. It runs as the user, and passes requests of the page on to
//! the client that all commands use, so that the page can do what its user can do (ADR 0051).

mod access;
mod assets;
mod forward;
mod job_origins;
mod link;
mod listen;
mod only;
mod proxy;
mod refusal;
mod server;
mod state;
mod texts;
mod whatif;

use std::sync::Arc;

use anyhow::Result;
use muster_api::WaitMode;
use tokio::signal::unix::{SignalKind, signal};

use crate::app::App;
use crate::connect;
use crate::on::On;

use access::Access;
use link::LinkFile;
use state::PageState;

/// Show jobs, GPUs and queues in a browser
///
/// Serves a page on a port of this machine until Ctrl-C: GPUs and who holds them, jobs with the reason why they wait,
/// output, sweeps, a timeline, queues, nodes, and what another number of nodes or another quota would change. It opens
/// notebooks and services of your own jobs. The page can do what you can do, and nothing runs when this command
/// does not. Other users of the machine cannot use it: the printed link opens the page in one browser; Enter prints a
/// link for another one.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  muster ui\n  muster ui --port 8300 --no-browser\n  muster ui --on slurm"
)]
pub struct UiArgs {
    /// Port of this machine to listen on; by default a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Only print the link, do not open a browser
    #[arg(long)]
    no_browser: bool,
}

/// Runs `muster ui`; returns its exit code.
pub async fn run(app: &App, args: UiArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    client.set_wait_mode(WaitMode::Watch);
    let listeners = listen::on(args.port).await?;
    let port = listeners.port;
    let access = Arc::new(Access::default());
    let cluster = app.global.on.as_ref().map_or(state::LOCAL.to_owned(), On::to_string);
    let router = server::router(PageState::new(client, cluster, access.clone(), port));

    let address = link::address(port, &access.new_link()?);
    app.ui.data(&format!("{address}\n"))?;
    let opened = if args.no_browser { None } else { LinkFile::open(app, &address) };
    tell(app, port, opened.is_some());

    let mut enter = link::enter_pressed(app);
    let mut interrupted = signal(SignalKind::interrupt())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut hung_up = signal(SignalKind::hangup())?;
    let server = listeners.serve(router);
    tokio::pin!(server);
    loop {
        tokio::select! {
            served = &mut server => return Ok(served.map(|()| 0)?),
            Some(()) = enter.recv() => {
                let address = link::address(port, &access.new_link()?);
                app.ui.data(&format!("{address}\n"))?;
            }
            _ = interrupted.recv() => return Ok(0),
            _ = terminated.recv() => return Ok(0),
            _ = hung_up.recv() => return Ok(0),
        }
    }
}

/// Says what to do with the link, and how to end.
fn tell(app: &App, port: u16, is_opened: bool) {
    if let Some(tunnel) = link::tunnel(port) {
        app.ui.status(&format!("on your own machine, run: {tunnel}\nand open the link there"));
    }
    app.ui.status(if is_opened {
        "opened in your browser"
    } else {
        "open this link in a browser; it works once"
    });
    let more = if app.ui.can_ask() { "Enter prints a link for another browser, " } else { "" };
    app.ui.status(&format!("{more}Ctrl-C ends the page; jobs keep running"));
}
