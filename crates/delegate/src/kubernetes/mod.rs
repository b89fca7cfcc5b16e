//! Kubernetes as an external scheduler: answers the API's routes with requests to the API server, as
//! the caller. A job is an object that runs to its end, or a service of Muster's; nothing is stored anywhere but in the cluster.
//! The main type is [`KubernetesScheduler`].

mod act;
mod checkpoint;
mod claimed_gpus;
mod created;
mod elements;
mod explain;
mod kai;
mod list;
mod logs;
mod read;
mod reserve;
pub mod send;
mod server;
mod submit;
mod usage;

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::BoxFuture;
use muster_api::query::{AttachQuery, ChangesQuery, ElementQuery, JobFilter, LogQuery};
use muster_api::routes::RouteId;
use muster_api::types::{
    ActionRequest, BulkRequest, ErrorBody, ReserveRequest, ScaleRequest, SubmitRequest, Timeline,
};
use muster_api::{Call, Responder, RouteResponse, WaitMode};
use muster_kubernetes::job::{self, JobApi, JobObject};
use muster_model::{JobId, UserName};
use tokio::sync::{OnceCell, watch};

use crate::error::RequestError;
use crate::route::{job_number, now, read, value};
pub use read::{CheckedCluster, ListAnswer};

use act::KubernetesAction;
use checkpoint::CheckpointRequests;
use server::{ApiServer, ReadLists};

/// Pause before a request is repeated for a caller who waits.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for a change, after which the pods are read again in any case.
const REREAD_INTERVAL: Duration = Duration::from_secs(30);

type Result<T> = std::result::Result<T, RequestError>;

/// Configuration of the front end.
#[derive(Clone, Debug)]
pub struct KubernetesFrontConfig {
    /// Context of the kubeconfig; `None` means the current one.
    pub context: Option<String>,
    /// Login name of the caller, which is written on the jobs.
    pub user: UserName,
    /// Image of jobs that name none.
    pub image: String,
    /// Function that shows a warning to the user, beside an answer.
    pub warn: fn(&str),
}

/// Front end to one Kubernetes cluster, for one user.
pub struct KubernetesScheduler {
    settings: KubernetesFrontConfig,
    server: OnceCell<ApiServer>,
    /// Objects that were listed, by number.
    seen: Mutex<BTreeMap<JobId, JobKey>>,
    /// The last lists, from which changes are followed.
    lists: Mutex<VecDeque<ReadLists>>,
    wait_mode: Mutex<WaitMode>,
    /// Checkpoint requests made through this front end.
    checkpoints: CheckpointRequests,
    /// True once the caller has withdrawn its request.
    withdrawn: watch::Sender<bool>,
}

/// Identity of an object that is a job.
#[derive(Clone, Debug, PartialEq, Eq)]
struct JobKey {
    api: &'static JobApi,
    /// Path of the API version: `/apis/batch/v1`.
    root: String,
    namespace: String,
    name: String,
}

impl JobKey {
    /// Returns the identity of an object of an API version at this path.
    fn of(job: JobObject<'_>, root: &str) -> Self {
        Self {
            api: job.api,
            root: root.to_owned(),
            namespace: job.namespace().to_owned(),
            name: job.name().to_owned(),
        }
    }

    /// Returns the path of the object.
    fn path(&self) -> String {
        format!("{}/{}", self.list_path(), self.name)
    }

    /// Returns the path of the objects of its kind in its namespace.
    fn list_path(&self) -> String {
        format!("{}/namespaces/{}/{}", self.root, self.namespace, self.api.plural)
    }

    /// Returns the path of its pods, whose label has this value.
    fn pods_path(&self, value: &str) -> String {
        let label = self.api.pod_label.replace('/', "%2F");
        let namespace = &self.namespace;
        format!("/api/v1/namespaces/{namespace}/pods?labelSelector={label}%3D{value}")
    }
}

impl fmt::Debug for KubernetesScheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KubernetesScheduler")
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl KubernetesScheduler {
    /// Makes a front end without connecting.
    #[must_use]
    pub fn new(settings: KubernetesFrontConfig) -> Self {
        Self {
            settings,
            server: OnceCell::new(),
            seen: Mutex::default(),
            lists: Mutex::default(),
            wait_mode: Mutex::default(),
            withdrawn: watch::Sender::new(false),
            checkpoints: CheckpointRequests::default(),
        }
    }

    async fn server(&self) -> Result<&ApiServer> {
        let context = self.settings.context.as_deref();
        self.server.get_or_try_init(|| ApiServer::connect(context)).await
    }

    fn key_of(&self, job: JobId) -> Option<JobKey> {
        self.seen.lock().expect("no thread panics while holding this lock").get(&job).cloned()
    }

    /// Answers a call. For a caller that stays connected, an outage is waited out.
    async fn answer_with_retry(&self, call: Call) -> Result<RouteResponse> {
        let mut has_warned = false;
        loop {
            let answer = self.route(call.clone()).await;
            let stay = *self.wait_mode.lock().expect("no thread panics while holding this lock");
            match answer {
                Err(refusal)
                    if refusal.is_unavailable()
                        && stay != WaitMode::Once
                        && call.route.only_reads() =>
                {
                    if !has_warned {
                        (self.settings.warn)(&format!("{refusal}; retrying until it answers"));
                    }
                    has_warned = true;
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                answer => {
                    if has_warned {
                        (self.settings.warn)("the Kubernetes API server answers again");
                    }
                    return answer;
                }
            }
        }
    }

    async fn route(&self, call: Call) -> Result<RouteResponse> {
        let job = || job_number(&call);
        let acted = async |action| {
            let index = read::<ActionRequest>(&call.body)?.index;
            Ok(value(self.act(job()?, index, action).await?))
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
            RouteId::Reservations => Ok(value(self.reservations().await?)),
            RouteId::Reserve => {
                let request = read::<ReserveRequest>(&call.body)?;
                Ok(value(self.reserve(call.name.as_deref().unwrap_or_default(), &request).await?))
            }
            RouteId::DropReservation => {
                Ok(value(self.drop_reservation(call.name.as_deref().unwrap_or_default()).await?))
            }
            RouteId::Usage => Ok(value(self.usage().await?)),
            RouteId::Changes => Ok(value(self.changes(read::<ChangesQuery>(&call.query)?).await?)),
            RouteId::Timeline => Ok(value(Timeline {
                now: now(),
                devices: Vec::new(),
                bars: Vec::new(),
                reservations: Vec::new(),
            })),
            RouteId::Logs => self.output(job()?, read::<LogQuery>(&call.query)?).await,
            RouteId::Attach => self.terminal(job()?, read::<AttachQuery>(&call.query)?).await,
            RouteId::Cancel => acted(KubernetesAction::Cancel).await,
            RouteId::Hold => acted(KubernetesAction::Hold).await,
            RouteId::Release => acted(KubernetesAction::Release).await,
            RouteId::Requeue => acted(KubernetesAction::Requeue).await,
            RouteId::Checkpoint => {
                let index = read::<ActionRequest>(&call.body)?.index;
                Ok(value(self.checkpoint(job()?, index).await?))
            }
            RouteId::Scale => {
                Ok(value(self.scale(job()?, read::<ScaleRequest>(&call.body)?).await?))
            }
            RouteId::Bulk => Ok(value(self.bulk(read::<BulkRequest>(&call.body)?).await?)),
            other => Err(unsupported_route(other)),
        }
    }
}

impl Responder for KubernetesScheduler {
    fn answer(&self, call: Call) -> BoxFuture<'_, std::result::Result<RouteResponse, ErrorBody>> {
        Box::pin(async move { self.answer_with_retry(call).await.map_err(ErrorBody::from) })
    }

    fn set_wait_mode(&self, stay: WaitMode) {
        *self.wait_mode.lock().expect("no thread panics while holding this lock") = stay;
    }

    fn label(&self, job: JobId) -> Option<String> {
        let key = self.key_of(job)?;
        let own = self.server.get().map_or("", |server| &server.namespace);
        Some(job::label(&key.namespace, &key.name, own))
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
            self.beside_each_task(job, index, &program).await.map_err(ErrorBody::from)
        })
    }
}

/// Refuses a route that Kubernetes does not support, or not through Muster, with the alternative.
fn unsupported_route(route: RouteId) -> RequestError {
    let (what, hint) = match route {
        RouteId::SetQueues => (
            "queues of Kubernetes are objects",
            "`kubectl apply -f QUEUES`, see docs/kubernetes.md",
        ),
        RouteId::Drain | RouteId::Resume => (
            "nodes of Kubernetes are drained with kubectl",
            "`kubectl drain NODE`, `kubectl uncordon NODE`",
        ),
        RouteId::Saved => (
            "jobs on Kubernetes acknowledge a checkpoint themselves",
            "the program writes to $MUSTER_CHECKPOINT_FILE; docs/jobs.md shows how",
        ),
        RouteId::Daemon | RouteId::StopDaemon => {
            ("there is no daemon: the API server is asked directly", "leave out --on to reach one")
        }
        _ => (
            "not supported for jobs on Kubernetes yet",
            "docs/kubernetes.md lists what works there",
        ),
    };
    RequestError::refused(what).hint(hint)
}
