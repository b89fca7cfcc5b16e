//! `muster top`: a live view of GPUs and jobs, with keys that act on a job.

use std::process::Stdio;
use std::time::Duration;

use anstream::adapter::strip_str;
use anyhow::Result;
use muster_api::Client;
use muster_api::query::JobFilter;
use muster_api::types::{JobList, NodeList};
use muster_model::JobId;
use muster_model::view::{GpuLoadView, IdleView, JobView};
use muster_report::top::{Top, frame};
use serde::Serialize;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

use crate::app::App;
use crate::args::{Global, OutputArgs};
use crate::connect;
use crate::exit::Failure;
use crate::screen::{Key, Screen};

/// Shortest time between two views: drivers measure loads over about a second.
const MIN_INTERVAL: Duration = Duration::from_millis(200);
/// Most jobs of the live view, more than a screen has lines: the daemon makes a view of each once a second.
const JOBS: u32 = 200;
/// Most lines of output that a key fetches of a task.
const LOG_LINES: &str = "200";

/// Show GPUs and jobs live: how busy, who holds what, who waits
///
/// For every GPU: how busy it is, its memory and power, and who holds it; for every job the same over
/// its GPUs, and why it waits. A GPU that is held and under 5 % busy counts as idle. Loads are read
/// from the driver (NVIDIA's library, or the files of AMD's) once a second while somebody watches;
/// virtual GPUs are shown as simulated, and GPUs of Slurm and Kubernetes have no load here.
///
/// Keys: up and down choose a job, `e` explains it, `l` shows its last lines, `c` cancels it after a
/// question, `q` ends. Without a terminal, or with --once, one view is printed. JSON: `now`, the nodes
/// of a `NodeList`, the `gpus` and `idle` jobs of a `GpuLoadList` and the `jobs` of a `JobList`.
#[derive(Debug, clap::Args)]
pub struct TopArgs {
    /// Seconds between two views
    #[arg(short, long, value_name = "SECONDS", default_value = "1", value_parser = seconds)]
    interval: Duration,
    /// Print one view and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    output: OutputArgs,
}

fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let secs: Option<f64> = text.parse().ok();
    let span = secs.and_then(|secs| Duration::try_from_secs_f64(secs).ok());
    span.filter(|span| *span >= MIN_INTERVAL)
        .ok_or_else(|| format!("expected a number of at least {}", MIN_INTERVAL.as_secs_f32()))
}

/// State of the cluster at one time.
#[derive(Serialize)]
struct ClusterNow {
    #[serde(flatten)]
    nodes: NodeList,
    gpus: Vec<GpuLoadView>,
    idle: Vec<IdleView>,
    jobs: Vec<JobView>,
    /// Number of all jobs, of which these are the first.
    #[serde(skip)]
    total_jobs: usize,
}

impl ClusterNow {
    /// Reads the state with the first jobs, those that run before the others.
    async fn read(client: &Client, first: Option<u32>) -> Result<Self> {
        let nodes = client.nodes().await.map_err(Failure::from)?;
        // Other schedulers do not know the loads of their GPUs.
        let loads = client.gpu_loads().await.ok();
        let filter = JobFilter { first, ..JobFilter::default() };
        let list = client.jobs(filter).await.map_err(Failure::from)?;
        let JobList { mut jobs, matched, .. } = list;
        // Running jobs first, otherwise in the order of the list.
        jobs.sort_by_key(|job| !job.elements.iter().any(|element| element.started.is_some()));
        let (gpus, idle) = loads.map(|loads| (loads.gpus, loads.idle)).unwrap_or_default();
        let total_jobs = matched.and_then(|all| usize::try_from(all).ok()).unwrap_or(jobs.len());
        Ok(Self { nodes, gpus, idle, jobs, total_jobs })
    }

    fn frame(&self, app: &App, chosen: Option<JobId>, height: Option<usize>) -> String {
        let top = Top {
            nodes: &self.nodes.nodes,
            loads: &self.gpus,
            idle: &self.idle,
            jobs: &self.jobs,
            total_jobs: self.total_jobs.max(self.jobs.len()),
            chosen,
            height,
        };
        frame(&top, app.ui.context().at(self.nodes.now))
    }
}

/// Runs `muster top`; returns its exit code.
pub async fn run(app: &App, args: TopArgs) -> Result<u8> {
    let client = connect::find(&app.global)?;
    if args.output.json() {
        app.ui.json(&ClusterNow::read(&client, None).await?)?;
        return Ok(0);
    }
    if args.once || !Screen::is_possible() {
        let now = ClusterNow::read(&client, None).await?;
        app.ui.data(&now.frame(app, None, None))?;
        return Ok(0);
    }
    client.set_wait_mode(muster_api::WaitMode::Watch);
    let now = ClusterNow::read(&client, Some(JOBS)).await?;
    let chosen = now.jobs.first().map(|job| job.job);
    let screen = Screen::enter()?;
    LiveView { app, client, screen, now, chosen, page: None, to_cancel: None, trouble: None }
        .run(args.interval)
        .await
}

/// The view while it is on the screen.
struct LiveView<'a> {
    app: &'a App,
    client: Client,
    screen: Screen,
    now: ClusterNow,
    chosen: Option<JobId>,
    /// Output of a subcommand, shown in place of the view until a key is pressed.
    page: Option<String>,
    /// Job that is cancelled if the next key is `y`, with its label.
    to_cancel: Option<(JobId, String)>,
    /// Error of the last request, while the view is not current.
    trouble: Option<String>,
}

impl LiveView<'_> {
    async fn run(mut self, interval: Duration) -> Result<u8> {
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let mut hung_up = signal(SignalKind::hangup())?;
        loop {
            self.draw()?;
            tokio::select! {
                read = read_after(interval, &self.client), if self.page.is_none() => self.take(read),
                key = self.screen.key() => match key {
                    None | Some(Key::Quit) => return Ok(0),
                    Some(key) => self.press(key).await?,
                },
                _ = terminated.recv() => return Ok(0),
                _ = interrupted.recv() => return Ok(0),
                _ = hung_up.recv() => return Ok(0),
            }
        }
    }

    /// Shows the state that was read, or why it could not be read; it is read again later.
    fn take(&mut self, read: Result<ClusterNow>) {
        match read {
            Ok(now) => {
                self.now = now;
                self.trouble = None;
                self.keep_choice();
            }
            Err(error) => self.trouble = Some(format!("{error:#}")),
        }
    }

    fn draw(&self) -> Result<()> {
        let height = self.app.ui.height();
        let text = match (&self.page, &self.to_cancel) {
            (Some(text), _) => last_lines(text, height),
            (None, Some((_, label))) => {
                format!("{}cancel job {label}? y: yes, any other key: no", self.frame(height))
            }
            (None, None) => {
                let keys = "up, down: choose  e explain  l logs  c cancel  q quit";
                let line = match &self.trouble {
                    Some(error) => format!("not up to date: {error}  q quit"),
                    None => keys.to_owned(),
                };
                format!("{}{line}", self.frame(height))
            }
        };
        Ok(self.app.ui.data(&Screen::frame(&text))?)
    }

    fn frame(&self, height: Option<usize>) -> String {
        // The last line is that of the keys.
        self.now.frame(self.app, self.chosen, height.map(|height| height.saturating_sub(1)))
    }

    /// Chooses another job if the chosen one has ended.
    fn keep_choice(&mut self) {
        if self.position().is_none() {
            self.chosen = self.now.jobs.first().map(|job| job.job);
            self.to_cancel = None;
        }
    }

    fn position(&self) -> Option<usize> {
        self.now.jobs.iter().position(|job| Some(job.job) == self.chosen)
    }

    async fn press(&mut self, key: Key) -> Result<()> {
        if self.page.take().is_some() {
            return Ok(());
        }
        let to_cancel = self.to_cancel.take();
        let place = self.position();
        let job = place.map(|place| &self.now.jobs[place]);
        let label = job.map(JobView::label);
        // Of an array the first element that runs: it may have thousands.
        let element = job.filter(|job| job.array.is_some()).and_then(|job| job.elements.first());
        let element = element.map(|element| format!("[{}]", element.element.index));
        match (key, label) {
            (Key::Up, _) => self.choose(place.map(|place| place.saturating_sub(1))),
            (Key::Down, _) => self.choose(place.map(|place| place + 1)),
            (Key::Letter('e'), Some(job)) => self.show(&["explain", &job]).await?,
            (Key::Letter('l'), Some(job)) => {
                let job = format!("{job}{}", element.unwrap_or_default());
                self.show(&["logs", &job, "-n", LOG_LINES]).await?
            }
            (Key::Letter('c'), Some(label)) => self.to_cancel = self.chosen.map(|job| (job, label)),
            (Key::Letter('y'), _) => {
                if let Some((_, label)) = to_cancel {
                    self.show(&["cancel", &label]).await?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn choose(&mut self, place: Option<usize>) {
        let place = place.map(|place| place.min(self.now.jobs.len().saturating_sub(1)));
        self.chosen = place.and_then(|place| Some(self.now.jobs.get(place)?.job));
    }

    /// Runs another subcommand, and shows what it prints.
    async fn show(&mut self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(std::env::current_exe()?);
        let Global { socket, on } = &self.app.global;
        command.args(socket.iter().flat_map(|path| ["--socket".as_ref(), path.as_os_str()]));
        command.args(on.iter().flat_map(|on| ["--on".to_owned(), on.to_string()]));
        command.args(words).stdin(Stdio::null()).kill_on_drop(true);
        let output = command.output();
        tokio::pin!(output);
        let output = loop {
            tokio::select! {
                output = &mut output => break output?,
                key = self.screen.key() => match key {
                    None | Some(Key::Quit) => return Ok(()),
                    Some(_) => {}
                },
            }
        };
        let printed = [output.stdout, output.stderr].concat();
        let printed = String::from_utf8_lossy(&printed);
        let text = strip_str(&printed).to_string();
        self.page = Some(format!("{}\n\nany key goes back", text.trim_end()));
        Ok(())
    }
}

/// Reads the state of the cluster after a time.
async fn read_after(interval: Duration, client: &Client) -> Result<ClusterNow> {
    sleep(interval).await;
    ClusterNow::read(client, Some(JOBS)).await
}

/// Returns the last lines of a text, as many as the screen has.
fn last_lines(text: &str, height: Option<usize>) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let from = lines.len().saturating_sub(height.unwrap_or(usize::MAX));
    lines[from..].join("\n")
}
