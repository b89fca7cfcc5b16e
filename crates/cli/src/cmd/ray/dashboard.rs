//! `muster ray dashboard`: where Ray's dashboard is; on another machine, a tunnel to it.

use std::process::Stdio;

use anyhow::{Context, Result};
use muster_api::query::AttachQuery;
use muster_ray::{DASHBOARD, DashboardPlace, RELAY, inside};
use serde::Serialize;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;

use crate::app::App;
use crate::connect;
use crate::exit::Failure;
use crate::jobref::JobRef;
use crate::ray_cluster::ask;

/// Open Ray's dashboard in a browser of this machine
///
/// The dashboard listens on the node of the head only. For a job of this machine its address is printed; for one on
/// Slurm or Kubernetes a tunnel to it is open until Ctrl-C. The dashboard asks for the secret of the cluster, which is
/// printed as well. JSON: a `DashboardAddress`.
#[derive(Debug, clap::Args)]
#[command(
    after_long_help = "Examples:\n  muster ray dashboard tune\n  muster --on slurm ray dashboard tune --port 8265"
)]
pub(super) struct DashboardArgs {
    /// Job: 3, an array element 3[7], or a name
    #[arg(value_name = "JOB")]
    job: String,
    /// Port of this machine for a tunnel; by default a free one
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Write JSON; docs/openapi.json and docs/schema describe it
    #[arg(long)]
    json: bool,
}

/// Answer of `muster ray dashboard --json`.
#[derive(Debug, Serialize)]
struct DashboardAddress<'a> {
    /// Address for a browser of this machine.
    url: String,
    /// Secret of the cluster, for which the dashboard asks.
    token: &'a str,
}

/// Runs `muster ray dashboard`; returns its exit code.
pub(super) async fn run(app: &App, args: &DashboardArgs) -> Result<u8> {
    let job: JobRef = args.job.parse().map_err(Failure::usage)?;
    let client = connect::find(&app.global)?;
    let target = job.resolve(&client).await?;
    let place = ask(app, &args.job, DASHBOARD, DashboardPlace::parse)?;
    let Some(port) = place.port else {
        return Err(Failure::new(format!("the Ray cluster of {} has no dashboard", args.job))
            .hint("`ray: {dashboard: true}` starts one; it needs the package ray[default]")
            .into());
    };
    let query = AttachQuery { index: target.index, rank: Some(0) };
    let Some(mut words) = client.terminal(target.job, query).await.map_err(Failure::from)? else {
        show(app, args, &place, port)?;
        return Ok(0);
    };
    // Bytes must pass unchanged and at once: without a terminal, srun passes on whole lines only.
    words.retain(|word| word != "--tty");
    for word in words.iter_mut().filter(|word| *word == "--pty") {
        "--unbuffered".clone_into(word);
    }
    let relay = ["python", "-c", RELAY, &port.to_string()].map(str::to_owned);
    words.extend(inside(&relay));
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await.map_err(|error| {
        Failure::new(format!("cannot listen on port {} of this machine: {error}", args.port))
            .hint("leave --port out for a free one")
    })?;
    show(app, args, &place, listener.local_addr()?.port())?;
    app.ui.status("Ctrl-C closes the tunnel");
    loop {
        let (browser, _) = listener.accept().await?;
        let words = words.clone();
        tokio::spawn(async move {
            // A browser that goes away, or a job that ends, ends its connections only.
            let _ = forward(browser, &words).await;
        });
    }
}

fn show(app: &App, args: &DashboardArgs, place: &DashboardPlace, port: u16) -> Result<()> {
    let url = format!("http://127.0.0.1:{port}");
    if args.json {
        return app.ui.json(&DashboardAddress { url, token: &place.token });
    }
    let text = format!("{url}\nThe dashboard asks for this token: {}\n", place.token);
    Ok(app.ui.data(&text)?)
}

/// Connects a browser with the dashboard by a program on the node of the head.
async fn forward(browser: TcpStream, words: &[String]) -> Result<()> {
    let (program, args) = words.split_first().context("a terminal is a program")?;
    let mut relay = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()?;
    let mut to = relay.stdin.take().context("its input is a pipe")?;
    let mut from = relay.stdout.take().context("its output is a pipe")?;
    let (mut read, mut write) = browser.into_split();
    let up = async {
        let copied = tokio::io::copy(&mut read, &mut to).await;
        drop(to);
        copied
    };
    let down = async {
        let copied = tokio::io::copy(&mut from, &mut write).await;
        let _ = write.shutdown().await;
        copied
    };
    // The dashboard's end of a connection ends it; the browser may ask no more and still wait for an answer.
    tokio::pin!(down);
    tokio::select! {
        done = &mut down => drop(done?),
        _ = up => drop(down.await?),
    }
    Ok(())
}
