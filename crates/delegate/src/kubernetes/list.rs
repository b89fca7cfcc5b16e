//! Lists of jobs, and one job in full: from the objects of all kinds of jobs and their pods.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use futures_util::future::{join_all, try_join_all};
use muster_api::Responder;
use muster_api::query::{ChangesQuery, JobFilter};
use muster_api::types::{ChangesResponse, JobDetail, JobList};
use muster_kubernetes::job::{JobApi, JobObject, kueue, label, view, volcano, with_element};
use muster_model::view::{ElementView, JobState, JobView};
use muster_model::{ElementId, JobId, Outcome, Reason};
use serde_json::Value;

use super::server::{ApiServer, Listed, ReadLists};
use super::{JobKey, KubernetesScheduler, RequestError, Result};
use crate::route::now;

/// Value of the user filter that lists the jobs of all users, as without one.
const ALL_USERS: &str = "all";

/// Default number of ended jobs in a list, as in the daemon.
const DEFAULT_ENDED_JOBS: usize = 1000;

/// Exit code of `wait` for a job that was deleted, as for one that was cancelled.
const CANCELLED_CODE: i32 = 130;

/// Most jobs that are read one by one, each with two lists; more are read with all.
const MOST_SINGLE: usize = 8;

/// Least time between two lists of all jobs: in a busy cluster each watch ends at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Query for objects that Muster has made: other Deployments are no jobs.
const OF_MUSTER: &str = "?labelSelector=muster.run%2Fjob";

/// Longest wait for a change, as in the daemon.
const LONGEST_WAIT_SECS: u64 = 60;

/// Number of the last lists whose changes can be followed: a caller who asks for very many jobs does so in
/// parts, and follows the first of them.
const LISTS_KEPT: usize = 32;

/// Objects of jobs with their pods, at one instant.
#[derive(Default)]
pub(super) struct JobObjects {
    jobs: Vec<(JobKey, Value)>,
    /// Pods by namespace and the value of a label that names their job.
    pods: BTreeMap<(String, String), Vec<Value>>,
    /// Reasons for jobs that wait, from the objects that their schedulers make for them, by the id of the job.
    reasons: BTreeMap<String, Reason>,
}

/// A job's object and pods.
pub(super) struct FoundJob {
    pub(super) key: JobKey,
    pub(super) object: Value,
    pub(super) pods: Vec<Value>,
    /// Reason for which it waits, from the object that its scheduler makes for it; `None` without one.
    pub(super) reason: Option<Reason>,
}

impl FoundJob {
    pub(super) fn job(&self) -> JobObject<'_> {
        JobObject { api: self.key.api, object: &self.object }
    }

    pub(super) fn pods(&self) -> Vec<&Value> {
        self.pods.iter().collect()
    }

    /// Returns its view for a user of this namespace.
    pub(super) fn view(&self, namespace: &str) -> JobView {
        view_of(self.job(), &self.pods(), namespace, self.reason.as_ref())
    }
}

impl KubernetesScheduler {
    /// Lists the jobs that a filter selects.
    pub(super) async fn list(&self, filter: &JobFilter) -> Result<JobList> {
        let server = self.server().await?;
        let asked = filter.ids.iter().flat_map(|ids| ids.split(','));
        let asked: BTreeSet<JobId> =
            asked.filter_map(|id| id.trim().parse().ok().map(JobId)).collect();
        // 1. Read the jobs that were named, or all.
        let known: Option<Vec<JobKey>> = asked.iter().map(|job| self.key_of(*job)).collect();
        let known = known.filter(|known| (1..=MOST_SINGLE).contains(&known.len()));
        let objects = match (known, filter.only_name().filter(|_| asked.is_empty())) {
            (Some(known), _) => self.read_some(server, &known, Vec::new()).await?,
            (None, Some(name)) => self.read_named(server, name).await?,
            (None, None) => self.read_all(server).await?,
        };
        // 2. Build the views.
        let views = objects.views(&server.namespace).map(|view| self.in_context(view));
        let mut jobs: Vec<JobView> = views.filter(|job| is_asked(job, &asked, filter)).collect();
        let is_there = |job: &JobId| jobs.iter().any(|view| view.job == *job);
        let gone: Vec<JobView> = asked
            .iter()
            .filter(|job| !is_there(job))
            .filter_map(|job| self.deleted(*job))
            .collect();
        jobs.extend(gone);
        let most = filter.limit.map_or(DEFAULT_ENDED_JOBS, |limit| limit as usize);
        let ended = jobs.iter().filter(|job| job.state.is_final()).count();
        jobs.sort_by_key(|job| job.submitted);
        let mut surplus = ended.saturating_sub(most);
        jobs.retain(|job| {
            let is_surplus = surplus > 0 && job.state.is_final();
            surplus -= usize::from(is_surplus);
            !is_surplus
        });
        let matched = filter.first.map(|_| jobs.len() as u64);
        if let Some(first) = filter.first {
            jobs = first_of(jobs, first as usize);
        }
        jobs.sort_by_cached_key(|job| (job.submitted, job.label()));
        Ok(JobList { now: now(), revision: self.last_lists().revision(), jobs, matched })
    }

    /// Adds the context that names the cluster, by which jobs of several clusters are told apart.
    fn in_context(&self, mut view: JobView) -> JobView {
        if let Some(native) = &mut view.native {
            native.cluster.clone_from(&self.settings.context);
        }
        view
    }

    /// Returns a job that was listed before and whose object no longer exists, as cancelled, so that
    /// `wait` ends.
    fn deleted(&self, job: JobId) -> Option<JobView> {
        let key = self.key_of(job)?;
        let outcome = Outcome::Native {
            state: "Deleted".into(),
            message: "its object was deleted".into(),
            code: CANCELLED_CODE,
        };
        let element = ElementView {
            outcome: Some(outcome),
            ..ElementView::blank(ElementId::single(job), JobState::Cancelled)
        };
        let no_user = "".into();
        Some(JobView {
            elements: vec![element],
            ..JobView::blank(job, key.name, no_user, JobState::Cancelled, now())
        })
    }

    /// Returns a job in full; with an index, also that element of an array.
    pub(super) async fn detail(&self, job: JobId, index: Option<u32>) -> Result<JobDetail> {
        let found = self.find(job).await?;
        let pods = found.pods();
        let namespace = &self.server().await?.namespace;
        let mut shown = self.in_context(found.view(namespace));
        if let Some(index) = index {
            shown = with_element(shown, found.job(), &pods, index);
        }
        self.checkpoints.fill(&mut shown);
        Ok(JobDetail {
            job: shown,
            now: now(),
            commands: None,
            workdir: None,
            files: None,
            logs: Vec::new(),
            environment: None,
            missing_output: Vec::new(),
            has_ray: false,
            is_sweep: found.job().sweep().is_some(),
            idle_since: None,
            gpu_use: None,
            notices: Vec::new(),
            enforcement: Vec::new(),
        })
    }

    /// Waits until a job of the last list has changed, or the time is over.
    pub(super) async fn changes(&self, query: ChangesQuery) -> Result<ChangesResponse> {
        let wait = query.timeout_secs.unwrap_or(LONGEST_WAIT_SECS).clamp(1, LONGEST_WAIT_SECS);
        if let Some(lists) = query.after.and_then(|after| self.lists_of(after)) {
            let server = self.server().await?;
            tokio::select! {
                () = self.checkpoints.changed() => {}
                _ = server.wait_for_change(&lists, Duration::from_secs(wait)) => {
                    if lists.are_of_all() {
                        tokio::time::sleep(PAUSE).await;
                    }
                }
            }
        }
        // The list after this shows what has changed, if anything: a revision of its own each time.
        let revision = self.last_lists().revision().wrapping_add(1);
        Ok(ChangesResponse { revision, now: now() })
    }

    /// Returns a job with its pods.
    pub(super) async fn find(&self, job: JobId) -> Result<FoundJob> {
        let server = self.server().await?;
        let missing = || {
            let name = self.label(job).unwrap_or_else(|| job.to_string());
            RequestError::not_found(format!("there is no job {name}"))
                .hint("`muster ps -a` lists all jobs")
        };
        let objects = match self.key_of(job) {
            Some(key) => self.read_some(server, &[key], Vec::new()).await?,
            None => self.read_all(server).await?,
        };
        objects.take(job).ok_or_else(missing)
    }

    // ---- the cluster ----

    /// Reads the jobs of a name, be it that of the job file or of the object. Lists the metadata of all jobs
    /// to find them, since a cluster may have thousands of others.
    async fn read_named(&self, server: &ApiServer, name: &str) -> Result<JobObjects> {
        let mut listed = Vec::new();
        let mut keys = Vec::new();
        for (api, root, list) in list_kinds(server, Extent::Metadata).await? {
            listed.push((list.path, list.version));
            for object in &list.items {
                let job = JobObject { api, object };
                let label = label(job.namespace(), job.name(), &server.namespace);
                if (job.job_name() == name || label == name) && !job.is_part_of_another() {
                    keys.push(JobKey::of(job, &root));
                }
            }
        }
        if keys.len() > MOST_SINGLE {
            return self.read_all(server).await;
        }
        self.read_some(server, &keys, listed).await
    }

    /// Reads these jobs, and the pods of each. `listed` are the lists in which they were found, whose changes
    /// are followed, too.
    async fn read_some(
        &self,
        server: &ApiServer,
        keys: &[JobKey],
        mut listed: Vec<(String, String)>,
    ) -> Result<JobObjects> {
        let lists = keys.iter().map(|key| async move {
            let objects = format!("{}?fieldSelector=metadata.name%3D{}", key.list_path(), key.name);
            if key.api.kind != "RayJob" {
                let pods = key.pods_path(&key.name);
                let (jobs, pods) = tokio::try_join!(server.list(objects), server.list(pods))?;
                return Ok::<_, RequestError>((key, jobs, Some(pods)));
            }
            // A RayJob says which cluster has its pods.
            let jobs = server.list(objects).await?;
            let object = jobs.items.first();
            let cluster =
                object.and_then(|object| JobObject { api: key.api, object }.pod_label_value());
            let pods = match cluster.map(|cluster| key.pods_path(cluster)) {
                Some(path) => Some(server.list(path).await?),
                None => None,
            };
            Ok((key, jobs, pods))
        });
        let mut objects = JobObjects::default();
        for (key, jobs, pods) in try_join_all(lists).await? {
            listed.push((jobs.path, jobs.version));
            objects.add_jobs(key.api, &key.root, jobs.items);
            if let Some(pods) = pods {
                listed.push((pods.path, pods.version));
                objects.add_pods(key.api.pod_label, pods.items);
            }
        }
        objects.add_reasons(server).await;
        self.remember(listed, &objects);
        Ok(objects)
    }

    /// Reads all jobs and their pods: of all namespaces, and of kinds for which that is forbidden, of the
    /// caller's own. Kinds that the caller may not list at all have no jobs.
    pub(super) async fn read_all(&self, server: &ApiServer) -> Result<JobObjects> {
        let labels: BTreeSet<&str> = server.job_kinds().map(|(api, _)| api.pod_label).collect();
        let of_pods = labels.iter().map(|label| {
            let selector = label.replace('/', "%2F");
            let pods = format!("pods?labelSelector={selector}");
            list_anywhere(server, "/api/v1", pods, Extent::Whole)
        });
        let (of_kinds, of_pods) =
            tokio::join!(list_kinds(server, Extent::Whole), try_join_all(of_pods));
        let mut objects = JobObjects::default();
        let mut listed = Vec::new();
        for (api, root, list) in of_kinds? {
            listed.push((list.path, list.version));
            objects.add_jobs(api, &root, list.items);
        }
        for (label, list) in labels.iter().zip(of_pods?) {
            listed.push((list.path, list.version));
            objects.add_pods(label, list.items);
        }
        objects.add_reasons(server).await;
        self.remember(listed, &objects);
        Ok(objects)
    }

    /// Keeps what was listed, so that numbers can be looked up and changes followed.
    fn remember(&self, listed: Vec<(String, String)>, objects: &JobObjects) {
        let mut lists = self.lists.lock().expect("no thread panics while holding this lock");
        lists.push_back(ReadLists(listed));
        while lists.len() > LISTS_KEPT {
            lists.pop_front();
        }
        let mut seen = self.seen.lock().expect("no thread panics while holding this lock");
        for (key, object) in &objects.jobs {
            seen.insert(JobObject { api: key.api, object }.number(), key.clone());
        }
    }

    /// Returns the lists that were read last; without any before the first.
    pub(super) fn last_lists(&self) -> ReadLists {
        let lists = self.lists.lock().expect("no thread panics while holding this lock");
        lists.back().cloned().unwrap_or_default()
    }

    /// Returns the lists of a revision, if it is one of the last ones.
    fn lists_of(&self, revision: u64) -> Option<ReadLists> {
        let lists = self.lists.lock().expect("no thread panics while holding this lock");
        lists.iter().find(|lists| lists.revision() == revision).cloned()
    }
}

impl JobObjects {
    fn add_jobs(&mut self, api: &'static JobApi, root: &str, items: Vec<Value>) {
        for object in items {
            let job = JobObject { api, object: &object };
            if !job.is_part_of_another() {
                self.jobs.push((JobKey::of(job, root), object));
            }
        }
    }

    fn add_pods(&mut self, label: &str, items: Vec<Value>) {
        for pod in items {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let namespace = text(&pod["metadata"]["namespace"]);
            let owner = text(&pod["metadata"]["labels"][label]);
            let key = (namespace, format!("{label} {owner}"));
            self.pods.entry(key).or_default().push(pod);
        }
    }

    /// Adds the reasons of Kueue and Volcano to jobs that wait for them; without the right to list their
    /// objects, they are left out.
    async fn add_reasons(&mut self, server: &ApiServer) {
        let of_kueue = self.jobs().any(kueue::is_waiting);
        if of_kueue && let Some(root) = server.root(kueue::GROUP, kueue::WORKLOADS) {
            let list =
                list_anywhere(server, &root, kueue::WORKLOADS.to_owned(), Extent::Whole).await;
            let workloads = list.map(|list| list.items).unwrap_or_default();
            self.reasons.extend(workloads.iter().filter_map(kueue::waiting_reason));
        }
        let of_volcano = self.jobs().any(volcano::is_waiting);
        if of_volcano && let Some(root) = server.root(volcano::GROUP, volcano::POD_GROUPS) {
            let list =
                list_anywhere(server, &root, volcano::POD_GROUPS.to_owned(), Extent::Whole).await;
            let groups = list.map(|list| list.items).unwrap_or_default();
            self.reasons.extend(groups.iter().filter_map(volcano::waiting_reason));
        }
    }

    fn jobs(&self) -> impl Iterator<Item = JobObject<'_>> {
        self.jobs.iter().map(|(key, object)| JobObject { api: key.api, object })
    }

    fn pods_of(&self, key: &JobKey, object: &Value) -> &[Value] {
        let job = JobObject { api: key.api, object };
        let Some(value) = job.pod_label_value() else { return &[] };
        let name = format!("{} {value}", key.api.pod_label);
        self.pods.get(&(key.namespace.clone(), name)).map_or(&[], Vec::as_slice)
    }

    /// Returns each job with its pods.
    pub(super) fn with_pods(&self) -> impl Iterator<Item = (&JobKey, &Value, Vec<&Value>)> {
        self.jobs
            .iter()
            .map(|(key, object)| (key, object, self.pods_of(key, object).iter().collect()))
    }

    fn views(&self, namespace: &str) -> impl Iterator<Item = JobView> {
        self.with_pods().map(move |(key, object, pods)| {
            let job = JobObject { api: key.api, object };
            view_of(job, &pods, namespace, self.reasons.get(job.uid()))
        })
    }

    fn take(mut self, job: JobId) -> Option<FoundJob> {
        let is_it =
            |(key, object): &(JobKey, Value)| JobObject { api: key.api, object }.number() == job;
        let at = self.jobs.iter().position(is_it)?;
        let (key, object) = self.jobs.swap_remove(at);
        let pods = self.pods_of(&key, &object).to_vec();
        let reason = self.reasons.remove(JobObject { api: key.api, object: &object }.uid());
        Some(FoundJob { key, object, pods, reason })
    }
}

/// Returns the view of a job, with the reason of its scheduler while that has not started it.
fn view_of(
    job: JobObject<'_>,
    pods: &[&Value],
    namespace: &str,
    reason: Option<&Reason>,
) -> JobView {
    let mut view = view(job, pods, namespace);
    let is_of_another = kueue::is_waiting(job) || volcano::is_waiting(job);
    if is_of_another && view.state == JobState::Pending {
        view.waiting_for = reason.cloned().or(view.waiting_for);
    }
    view
}

/// Part of each object that is read.
#[derive(Clone, Copy)]
enum Extent {
    Whole,
    /// The metadata by which a job is found.
    Metadata,
}

/// Lists the objects of all kinds of jobs, but for kinds that the caller may not list.
///
/// # Errors
/// If that is none of them.
async fn list_kinds(
    server: &ApiServer,
    extent: Extent,
) -> Result<Vec<(&'static JobApi, String, Listed)>> {
    let kinds: Vec<(&'static JobApi, String)> = server.job_kinds().collect();
    let lists = kinds.iter().map(|(api, root)| {
        let label = if api.is_of_muster_only() { OF_MUSTER } else { "" };
        list_anywhere(server, root, format!("{}{label}", api.plural), extent)
    });
    let lists = join_all(lists).await;
    let mut listed = Vec::new();
    let mut forbidden = None;
    for ((api, root), list) in kinds.into_iter().zip(lists) {
        match list {
            Ok(list) => listed.push((api, root, list)),
            Err(refusal) if refusal.is_forbidden() => forbidden = Some(refusal),
            Err(refusal) => return Err(refusal),
        }
    }
    match forbidden {
        Some(refusal) if listed.is_empty() => Err(refusal),
        _ => Ok(listed),
    }
}

/// Lists the objects of all namespaces, or of the caller's own where only that is allowed.
async fn list_anywhere(
    server: &ApiServer,
    root: &str,
    rest: String,
    extent: Extent,
) -> Result<Listed> {
    let list = async |path| match extent {
        Extent::Whole => server.list(path).await,
        Extent::Metadata => server.list_metadata(path).await,
    };
    match list(format!("{root}/{rest}")).await {
        Err(refusal) if refusal.is_forbidden() => {
            list(format!("{root}/namespaces/{}/{rest}", server.namespace)).await
        }
        answer => answer,
    }
}

/// Returns the first jobs of a list: those that have not ended before others, the newest first.
fn first_of(mut jobs: Vec<JobView>, most: usize) -> Vec<JobView> {
    jobs.sort_by_key(|job| (job.state.is_final(), Reverse(job.submitted)));
    jobs.truncate(most);
    jobs
}

/// Returns true for a job that was asked for.
fn is_asked(job: &JobView, asked: &BTreeSet<JobId>, filter: &JobFilter) -> bool {
    let shows_ended = filter.all || !asked.is_empty() || filter.state.is_some();
    let is_below = |queue: &str| {
        let own = job.queue.as_str();
        own == queue || own.strip_prefix(queue).is_some_and(|rest| rest.starts_with('/'))
    };
    (asked.is_empty() || asked.contains(&job.job))
        && (shows_ended || !job.state.is_final())
        && filter.state.as_deref().is_none_or(|state| job.state.word() == state)
        && filter.user.as_deref().is_none_or(|user| user == ALL_USERS || job.user.as_str() == user)
        && filter.queue.as_deref().is_none_or(is_below)
        && (filter.names(&job.name) || filter.names(&job.label()))
}
