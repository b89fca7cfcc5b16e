//! Slurm behind the API's routes: each is answered with Slurm's own programs, run as the caller, so that limits, shares and places
//! in the queue are the caller's own. The queue and the nodes are read through slurmrestd where one is named. Nothing is asked for that
//! the route does not need.

mod accounts;
mod act;
mod after;
mod evidence;
mod explain;
mod headroom;
mod list;
mod nodes;
mod output;
mod queue;
mod reconcile;
mod record;
mod saved;
mod sooner;
mod submit;
mod timeline;
mod view;

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use muster_api::query::{AttachQuery, ChangesQuery, ElementQuery, JobFilter, LogQuery, TimelineQuery};
use muster_api::routes::RouteId;
use muster_api::types::{ActionRequest, ErrorBody, SubmitRequest};
use muster_api::{Answer, Call, Responder};
use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::rest::Rest;
use muster_backends::slurm::tool::Tools;
use muster_model::{JobId, Time, UserName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::OnceCell;

use crate::refusal::Refusal;
use record::Records;

/// What the front is made of.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Slurm's programs.
    pub tools: Tools,
    /// Slurm's front by HTTP, which is asked before its programs for the queue and the nodes.
    pub rest: Option<Rest>,
    /// What people should know beside an answer.
    pub warn: fn(&str),
    /// This program, by its path; it checks a job's place there.
    pub program: PathBuf,
    /// Who asks.
    pub user: UserName,
    /// Folder for scripts and output that every node sees; one folder per cluster is made in it.
    pub root: PathBuf,
    /// Between two looks at the queue of those who watch.
    pub look_again: Duration,
}

/// The front of one Slurm cluster, for one user.
#[derive(Debug)]
pub struct Slurm {
    settings: Settings,
    cluster: OnceCell<String>,
    /// slurmrestd has not answered as it should, and is not asked again.
    rest_failed: AtomicBool,
    /// The last list was not only of one's own jobs: who waits for changes waits for those of everybody.
    watches_everybody: AtomicBool,
    /// What a watcher was told of last, and when.
    seen: Mutex<Option<(Instant, Vec<NativeJob>)>>,
    /// Elements that were asked to save their progress through here, and have not answered yet.
    asked: Mutex<Vec<saved::Asked>>,
    /// What lists have shown of devices.
    timeline: Mutex<timeline::Seen>,
}

type Result<T> = std::result::Result<T, Refusal>;

impl Slurm {
    /// Asks nothing yet.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            cluster: OnceCell::new(),
            rest_failed: AtomicBool::new(false),
            watches_everybody: AtomicBool::new(false),
            seen: Mutex::default(),
            asked: Mutex::default(),
            timeline: Mutex::default(),
        }
    }

    fn tools(&self) -> &Tools {
        &self.settings.tools
    }

    fn now(&self) -> Time {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Time(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// The cluster's name, as its controller has it; while that is away, as it was, where only one is known.
    async fn cluster(&self) -> Result<&str> {
        let ask = async || {
            let text = match self.tools().output("scontrol", &["show", "config"]).await {
                Ok(text) => text,
                Err(error) => return self.only_cluster().ok_or_else(|| Refusal::from(error)),
            };
            let mut lines = text.lines().filter_map(|line| line.split_once('='));
            let name =
                lines.find(|(name, _)| name.trim() == "ClusterName").map(|(_, name)| name.trim().to_owned());
            name.ok_or_else(|| Refusal::internal("Slurm's configuration names no cluster"))
        };
        Ok(self.cluster.get_or_try_init(ask).await?)
    }

    fn only_cluster(&self) -> Option<String> {
        let entries = std::fs::read_dir(&self.settings.root).ok()?;
        let mut names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.next().filter(|_| names.next().is_none())
    }

    async fn records(&self) -> Result<Records> {
        Ok(Records::new(self.settings.root.join(self.cluster().await?)))
    }

    async fn route(&self, call: Call) -> Result<Answer> {
        let job = || {
            let name = call.name.as_deref().unwrap_or_default();
            name.parse().map(JobId).map_err(|_| Refusal::invalid(format!("`{name}` is no job number")))
        };
        let acted = async |verb| json(&self.act(job()?, read::<ActionRequest>(&call.body)?, verb).await?);
        match call.route {
            RouteId::Submit => json(&self.submit(read::<SubmitRequest>(&call.body)?).await?),
            RouteId::Jobs => json(&self.list(&read::<JobFilter>(&call.query)?).await?),
            RouteId::Job => json(&self.detail(job()?, read::<ElementQuery>(&call.query)?.index).await?),
            RouteId::Explain => json(&self.explain(job()?, read::<ElementQuery>(&call.query)?.index).await?),
            RouteId::Nodes => json(&self.nodes().await?),
            RouteId::Queues => json(&self.queues().await?),
            RouteId::Usage => json(&self.usage().await?),
            RouteId::Timeline => {
                let seen = self.timeline.lock().expect("nobody panics with this lock");
                json(&seen.timeline(read::<TimelineQuery>(&call.query)?, self.now()))
            }
            RouteId::Changes => json(&self.changes(read::<ChangesQuery>(&call.query)?).await?),
            RouteId::Logs => self.output(job()?, read::<LogQuery>(&call.query)?).await,
            RouteId::Attach => self.terminal(job()?, read::<AttachQuery>(&call.query)?).await,
            RouteId::Cancel => acted(act::Verb::Cancel).await,
            RouteId::Hold => acted(act::Verb::Hold).await,
            RouteId::Release => acted(act::Verb::Release).await,
            RouteId::Requeue => acted(act::Verb::Requeue).await,
            RouteId::Checkpoint => acted(act::Verb::Checkpoint).await,
            other => Err(elsewhere(other)),
        }
    }
}

impl Responder for Slurm {
    fn answer(&self, call: Call) -> BoxFuture<'_, std::result::Result<Answer, ErrorBody>> {
        Box::pin(async move { self.route(call).await.map_err(ErrorBody::from) })
    }

    fn on_each_node(
        &self,
        job: JobId,
        index: Option<u32>,
        program: Vec<String>,
    ) -> BoxFuture<'_, std::result::Result<Vec<Vec<String>>, ErrorBody>> {
        Box::pin(async move { self.everywhere(job, index, &program).await.map_err(ErrorBody::from) })
    }
}

/// What Slurm does not do, or not through here.
fn elsewhere(route: RouteId) -> Refusal {
    let (what, hint) = match route {
        RouteId::Scale => {
            ("a job of Slurm has the size that it was submitted with", "submit it again, larger or smaller")
        }
        RouteId::SetQueues => {
            ("Slurm's accounts and QOS are set with sacctmgr", "`sacctmgr modify account …`")
        }
        RouteId::Drain | RouteId::Resume => (
            "nodes of Slurm are drained with scontrol",
            "`scontrol update nodename=NODE state=drain reason=…`",
        ),
        RouteId::Reserve | RouteId::DropReservation | RouteId::Reservations => (
            "reservations of Slurm are made with scontrol",
            "`scontrol show reservations`, `scontrol create reservation …`",
        ),
        RouteId::Daemon | RouteId::StopDaemon => {
            ("there is no daemon: Slurm is asked directly", "leave out --on to reach one")
        }
        RouteId::Saved => {
            ("a job of Slurm says so by writing to $MUSTER_CHECKPOINT_FILE", "`muster logs` shows its output")
        }
        _ => ("this is not done for jobs of Slurm yet", "Slurm's own programs do it"),
    };
    Refusal::refused(what).hint(hint)
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|error| Refusal::invalid(error.to_string()))
}

fn json<T: Serialize>(value: &T) -> Result<Answer> {
    serde_json::to_value(value).map(Answer::Json).map_err(|error| Refusal::internal(error.to_string()))
}
