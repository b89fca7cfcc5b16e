//! Slurm as an external scheduler: answers the API's routes with Slurm's own programs, run as the
//! caller, so that the caller's limits, shares and priorities apply. Reads the queue and the nodes
//! through slurmrestd where one is configured. A route asks Slurm for nothing that it does not
//! need. The main type is [`SlurmScheduler`].

mod accounts;
mod act;
mod bulk;
mod checkpoint;
mod cluster;
mod dependency;
mod elements;
mod evidence;
mod explain;
mod headroom;
mod list;
mod nodes;
mod output;
mod queue;
mod reconcile;
mod record;
mod resolve;
pub mod rest;
mod sooner;
mod submit;
mod timeline;
pub mod tool;
mod view;

use crate::route::now;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::slurm::rest::RestClient;
use crate::slurm::tool::Tools;
use futures_util::future::BoxFuture;
use muster_api::query::{
    AttachQuery, ChangesQuery, ElementQuery, JobFilter, LogQuery, TimelineQuery, UsageQuery,
};
use muster_api::routes::RouteId;
use muster_api::types::{ActionRequest, BulkRequest, ErrorBody, SubmitRequest};
use muster_api::{Call, Responder, RouteResponse, WaitMode};
use muster_model::{JobId, UserName};
use muster_slurm::job::NativeJob;
use tokio::sync::{OnceCell, watch};

use crate::error::RequestError;
use crate::route::{job_number, read, value};
use record::SubmissionRecords;

/// Configuration of the front end.
#[derive(Clone, Debug)]
pub struct SlurmFrontConfig {
    /// Runner of Slurm's programs.
    pub tools: Tools,
    /// Client of slurmrestd, which is asked before the programs for the queue and the nodes.
    pub rest: Option<RestClient>,
    /// Function that shows a warning to the user, beside an answer.
    pub warn: fn(&str),
    /// Path of this program, which runs it on a node to check a job's devices.
    pub program: PathBuf,
    /// User that sends the requests.
    pub user: UserName,
    /// Directory for scripts and output that every node sees; each cluster has a subdirectory.
    pub root: PathBuf,
    /// Time between two queries of the queue by a watcher.
    pub poll_interval: Duration,
}

/// Front end to one Slurm cluster, for one user.
#[derive(Debug)]
pub struct SlurmScheduler {
    settings: SlurmFrontConfig,
    cluster: OnceCell<String>,
    /// Set once slurmrestd has failed; it is not asked again.
    rest_failed: AtomicBool,
    /// Set once the user was warned that the accounting does not answer.
    accounting_failed: AtomicBool,
    /// Set while Slurm does not answer and the user was warned of it.
    is_silent: AtomicBool,
    /// Duration of the caller's connection: one answer, a wait, or a watch.
    stay: Mutex<WaitMode>,
    /// Set once the caller has withdrawn its submission.
    withdrawn: watch::Sender<bool>,
    /// Muster ids of jobs that were named by id, by the number under which they were shown.
    named_by_id: Mutex<BTreeMap<u64, String>>,
    /// Set when the last list was not only of the user's own jobs: changes are then reported for
    /// all users.
    watches_all_users: AtomicBool,
    /// Rows last reported to a watcher, and when.
    last_reported: Mutex<Option<(Instant, Vec<NativeJob>)>>,
    /// Checkpoint requests made through this front end and not acknowledged yet.
    open_checkpoints: Mutex<Vec<checkpoint::CheckpointRequest>>,
    /// Cache of whether jobs have ended whose output is followed.
    ended: Arc<output::EndedJobs>,
    /// GPU usage samples collected from lists.
    timeline: Mutex<timeline::UsageSamples>,
}

type Result<T> = std::result::Result<T, RequestError>;

impl SlurmScheduler {
    /// Creates a front end without querying Slurm.
    #[must_use]
    pub fn new(settings: SlurmFrontConfig) -> Self {
        Self {
            settings,
            cluster: OnceCell::new(),
            rest_failed: AtomicBool::new(false),
            accounting_failed: AtomicBool::new(false),
            is_silent: AtomicBool::new(false),
            stay: Mutex::default(),
            withdrawn: watch::Sender::new(false),
            named_by_id: Mutex::default(),
            watches_all_users: AtomicBool::new(false),
            last_reported: Mutex::default(),
            open_checkpoints: Mutex::default(),
            ended: Arc::default(),
            timeline: Mutex::default(),
        }
    }

    fn tools(&self) -> &Tools {
        &self.settings.tools
    }

    fn stay(&self) -> WaitMode {
        *self.stay.lock().expect("no thread panics while holding this lock")
    }

    /// Returns whether the caller shows the queue continuously.
    fn watches(&self) -> bool {
        self.stay() == WaitMode::Watch
    }

    /// Returns whether the caller waits for jobs: jobs that Slurm lost are resubmitted then.
    fn waits_for_jobs(&self) -> bool {
        self.stay() == WaitMode::WaitForJobs
    }

    fn is_withdrawn(&self) -> bool {
        *self.withdrawn.borrow()
    }

    /// Completes when the caller has withdrawn its submission.
    async fn wait_for_withdrawal(&self) {
        // The sender is a field of `self`, so the channel stays open.
        let _ = self.withdrawn.subscribe().wait_for(|is_withdrawn| *is_withdrawn).await;
    }

    async fn records(&self) -> Result<SubmissionRecords> {
        Ok(SubmissionRecords::new(self.settings.root.join(self.cluster().await?)))
    }

    /// Answers a call. A caller that stays connected is retried until Slurm answers; the outage and
    /// its end are each reported once.
    async fn answer_with_retry(&self, call: Call) -> Result<RouteResponse> {
        loop {
            match self.route(call.clone()).await {
                Err(refusal)
                    if refusal.is_unavailable()
                        && self.stay() != WaitMode::Once
                        && call.route.only_reads() =>
                {
                    if !self.is_silent.swap(true, Ordering::Relaxed) {
                        (self.settings.warn)(&format!("{refusal}; retrying until it answers"));
                    }
                    tokio::time::sleep(self.settings.poll_interval).await;
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

    async fn route(&self, call: Call) -> Result<RouteResponse> {
        let job = || job_number(&call);
        let acted = async |verb| {
            Ok(value(self.act(job()?, read::<ActionRequest>(&call.body)?, verb).await?))
        };
        match call.route {
            RouteId::Submit => Ok(value(self.submit(read::<SubmitRequest>(&call.body)?).await?)),
            RouteId::Jobs => Ok(value(self.list(&read::<JobFilter>(&call.query)?).await?)),
            RouteId::Job => {
                Ok(value(self.detail(job()?, read::<ElementQuery>(&call.query)?.index).await?))
            }
            RouteId::Elements => Ok(value(self.elements(job()?).await?)),
            RouteId::Explain => {
                Ok(value(self.explain(job()?, read::<ElementQuery>(&call.query)?.index).await?))
            }
            RouteId::Nodes => Ok(value(self.nodes().await?)),
            RouteId::Queues => Ok(value(self.queues().await?)),
            RouteId::Usage => Ok(value(self.usage().await?)),
            RouteId::UsageReport => {
                Ok(value(self.usage_report(&read::<UsageQuery>(&call.query)?).await?))
            }
            RouteId::Timeline => {
                let seen = self.timeline.lock().expect("no thread panics while holding this lock");
                Ok(value(seen.timeline(read::<TimelineQuery>(&call.query)?, now())))
            }
            RouteId::Changes => Ok(value(self.changes(read::<ChangesQuery>(&call.query)?).await?)),
            RouteId::Logs => self.output(job()?, read::<LogQuery>(&call.query)?).await,
            RouteId::Attach => self.terminal(job()?, read::<AttachQuery>(&call.query)?).await,
            RouteId::Cancel => acted(act::SlurmAction::Cancel).await,
            RouteId::Hold => acted(act::SlurmAction::Hold).await,
            RouteId::Release => acted(act::SlurmAction::Release).await,
            RouteId::Requeue => acted(act::SlurmAction::Requeue).await,
            RouteId::Checkpoint => acted(act::SlurmAction::Checkpoint).await,
            RouteId::Bulk => Ok(value(self.bulk(read::<BulkRequest>(&call.body)?).await?)),
            other => Err(unsupported_route(other)),
        }
    }
}

impl Responder for SlurmScheduler {
    fn answer(&self, call: Call) -> BoxFuture<'_, std::result::Result<RouteResponse, ErrorBody>> {
        Box::pin(async move { self.answer_with_retry(call).await.map_err(ErrorBody::from) })
    }

    fn set_wait_mode(&self, stay: WaitMode) {
        *self.stay.lock().expect("no thread panics while holding this lock") = stay;
    }

    fn bind_job_id(&self, job: JobId, id: &str) {
        self.bind_number(job, id);
    }

    fn withdraw(&self) {
        self.withdrawn.send_replace(true);
    }

    fn probe_commands(
        &self,
        job: JobId,
        index: Option<u32>,
        program: Vec<String>,
    ) -> BoxFuture<'_, std::result::Result<Vec<Vec<String>>, ErrorBody>> {
        Box::pin(async move {
            self.run_on_each_node(job, index, &program).await.map_err(ErrorBody::from)
        })
    }
}

/// Refuses a route that Slurm does not support, or not through Muster, with the alternative.
fn unsupported_route(route: RouteId) -> RequestError {
    let (what, hint) = match route {
        RouteId::Scale => ("Slurm jobs cannot be resized", "resubmit it with the new size"),
        RouteId::SetQueues => {
            ("Slurm's accounts and QOS are set with sacctmgr", "`sacctmgr modify account …`")
        }
        RouteId::Drain | RouteId::Resume => (
            "Slurm nodes are drained with scontrol",
            "`scontrol update nodename=NODE state=drain reason=…`",
        ),
        RouteId::Reserve | RouteId::DropReservation | RouteId::Reservations => (
            "Slurm reservations are created with scontrol",
            "`scontrol show reservations`, `scontrol create reservation …`",
        ),
        RouteId::Daemon | RouteId::StopDaemon => {
            ("there is no daemon: Slurm is asked directly", "leave out --on to reach one")
        }
        RouteId::Saved => (
            "Slurm jobs acknowledge a checkpoint by writing to $MUSTER_CHECKPOINT_FILE",
            "`muster logs` shows its output",
        ),
        _ => ("not supported for Slurm jobs yet", "use Slurm's own commands"),
    };
    RequestError::refused(what).hint(hint)
}
