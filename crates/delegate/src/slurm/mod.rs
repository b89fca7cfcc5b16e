//! Slurm behind the API's routes: each is answered with Slurm's own programs, run as the caller, so
//! that limits, shares and places in the queue are the caller's own. The queue and the nodes are
//! read through slurmrestd where one is named. Nothing is asked for that the route does not need.

mod accounts;
mod act;
mod after;
mod bulk;
mod cluster;
mod evidence;
mod explain;
mod headroom;
mod list;
mod named;
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

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use futures_util::future::BoxFuture;
use muster_api::query::{
    AttachQuery, ChangesQuery, ElementQuery, JobFilter, LogQuery, TimelineQuery,
};
use muster_api::routes::RouteId;
use muster_api::types::{ActionRequest, BulkRequest, ErrorBody, SubmitRequest};
use muster_api::{Answer, Call, Responder, Stay};
use muster_backends::slurm::job::NativeJob;
use muster_backends::slurm::rest::Rest;
use muster_backends::slurm::tool::Tools;
use muster_model::{JobId, Time, UserName};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::{OnceCell, watch};

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
    /// It was said that the accounting does not answer.
    accounting_failed: AtomicBool,
    /// It was said that Slurm does not answer, and since then it has not.
    is_silent: AtomicBool,
    /// How long the caller stays.
    stay: Mutex<Stay>,
    /// The caller has withdrawn its submission.
    withdrawn: watch::Sender<bool>,
    /// Jobs that were named by Muster's id, by the number under which they were shown.
    meant: Mutex<BTreeMap<u64, String>>,
    /// The last list was not only of one's own jobs: who waits for changes waits for those of
    /// everybody.
    watches_everybody: AtomicBool,
    /// What a watcher was told of last, and when.
    seen: Mutex<Option<(Instant, Vec<NativeJob>)>>,
    /// Elements that were asked to save their progress through here, and have not answered yet.
    asked: Mutex<Vec<saved::Asked>>,
    /// Whether jobs have ended whose output is followed.
    ended: Arc<output::Ended>,
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
            accounting_failed: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            stay: Mutex::default(),
            withdrawn: watch::Sender::new(false),
            meant: Mutex::default(),
            watches_everybody: AtomicBool::new(false),
            seen: Mutex::default(),
            asked: Mutex::default(),
            ended: Arc::default(),
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

    fn stay(&self) -> Stay {
        *self.stay.lock().expect("nobody panics with this lock")
    }

    /// The caller shows a queue for as long as it likes.
    fn watches(&self) -> bool {
        self.stay() == Stay::Watches
    }

    /// The caller waits for jobs: what Slurm lost of them is handed on again.
    fn waits(&self) -> bool {
        self.stay() == Stay::Waits
    }

    fn is_withdrawn(&self) -> bool {
        *self.withdrawn.borrow()
    }

    /// Ends when the caller has withdrawn its submission.
    async fn withdrawal(&self) {
        // The sender is in `self`: it does not go away.
        let _ = self.withdrawn.subscribe().wait_for(|is_withdrawn| *is_withdrawn).await;
    }

    async fn records(&self) -> Result<Records> {
        Ok(Records::new(self.settings.root.join(self.cluster().await?)))
    }

    /// Answers a call. Who stays is answered once Slurm is: that it does not answer is said once,
    /// and so is that it does again.
    async fn patiently(&self, call: Call) -> Result<Answer> {
        loop {
            match self.route(call.clone()).await {
                Err(refusal)
                    if refusal.is_unavailable()
                        && self.stay() != Stay::No
                        && only_reads(call.route) =>
                {
                    if !self.is_silent.swap(true, Ordering::Relaxed) {
                        (self.settings.warn)(&format!("{refusal}; asking again until it answers"));
                    }
                    tokio::time::sleep(self.settings.look_again).await;
                }
                answer => {
                    if answer.is_ok() && self.is_silent.swap(false, Ordering::Relaxed) {
                        (self.settings.warn)("Slurm answers again");
                    }
                    return answer;
                }
            }
        }
    }

    async fn route(&self, call: Call) -> Result<Answer> {
        let job = || {
            let name = call.name.as_deref().unwrap_or_default();
            name.parse()
                .map(JobId)
                .map_err(|_| Refusal::invalid(format!("`{name}` is no job number")))
        };
        let acted =
            async |verb| json(&self.act(job()?, read::<ActionRequest>(&call.body)?, verb).await?);
        match call.route {
            RouteId::Submit => json(&self.submit(read::<SubmitRequest>(&call.body)?).await?),
            RouteId::Jobs => json(&self.list(&read::<JobFilter>(&call.query)?).await?),
            RouteId::Job => {
                json(&self.detail(job()?, read::<ElementQuery>(&call.query)?.index).await?)
            }
            RouteId::Explain => {
                json(&self.explain(job()?, read::<ElementQuery>(&call.query)?.index).await?)
            }
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
            RouteId::Bulk => json(&self.bulk(read::<BulkRequest>(&call.body)?).await?),
            other => Err(elsewhere(other)),
        }
    }
}

impl Responder for Slurm {
    fn answer(&self, call: Call) -> BoxFuture<'_, std::result::Result<Answer, ErrorBody>> {
        Box::pin(async move { self.patiently(call).await.map_err(ErrorBody::from) })
    }

    fn stay(&self, stay: Stay) {
        *self.stay.lock().expect("nobody panics with this lock") = stay;
    }

    fn mean(&self, job: JobId, id: &str) {
        self.take_as_meant(job, id);
    }

    fn withdraw(&self) {
        self.withdrawn.send_replace(true);
    }

    fn on_each_node(
        &self,
        job: JobId,
        index: Option<u32>,
        program: Vec<String>,
    ) -> BoxFuture<'_, std::result::Result<Vec<Vec<String>>, ErrorBody>> {
        Box::pin(
            async move { self.everywhere(job, index, &program).await.map_err(ErrorBody::from) },
        )
    }
}

/// True for routes that change nothing, which can be asked again.
fn only_reads(route: RouteId) -> bool {
    use RouteId::{Changes, Explain, Job, Jobs, Logs, Nodes, Queues, Timeline, Usage};
    matches!(route, Jobs | Job | Explain | Nodes | Queues | Usage | Timeline | Changes | Logs)
}

/// What Slurm does not do, or not through here.
fn elsewhere(route: RouteId) -> Refusal {
    let (what, hint) = match route {
        RouteId::Scale => (
            "a job of Slurm has the size that it was submitted with",
            "submit it again, larger or smaller",
        ),
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
        RouteId::Saved => (
            "a job of Slurm says so by writing to $MUSTER_CHECKPOINT_FILE",
            "`muster logs` shows its output",
        ),
        _ => ("this is not done for jobs of Slurm yet", "Slurm's own programs do it"),
    };
    Refusal::refused(what).hint(hint)
}

fn read<T: DeserializeOwned>(value: &Value) -> Result<T> {
    serde_json::from_value(value.clone()).map_err(|error| Refusal::invalid(error.to_string()))
}

fn json<T: Serialize>(value: &T) -> Result<Answer> {
    serde_json::to_vec(value)
        .map(Answer::Json)
        .map_err(|error| Refusal::internal(error.to_string()))
}
