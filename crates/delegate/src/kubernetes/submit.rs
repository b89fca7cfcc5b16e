//! Submission of a job file: all documents of a request are submitted, or none. Each becomes the objects
//! of one job, whose names end with letters of the request's key: a repeated request finds them.

use std::path::Path;

use muster_api::types::{SubmitRequest, SubmitResponse, Submitted};
use muster_kubernetes::job::{APIS, JobApi, JobObject};
use muster_kubernetes::names;
use muster_kubernetes::node::{GpuLabels, NodeFacts, NodeText};
use muster_kubernetes::queue::GROUP as QUEUE_GROUP;
use muster_kubernetes::queue::QUEUES;
use muster_kubernetes::render::{self, GangScheduler, JobForm, RenderInput, RenderedJob, SentFile};
use muster_model::{DependencyKind, JobId, JobSpec, QueueName, Time, UserName};
use muster_spec::{CheckedJob, SubmissionSite};
use serde_json::{Value, json};

use super::created::NotCreated;
use super::send::read_folder;
use super::server::{ApiServer, refusal};
use super::{JobKey, KubernetesScheduler, RequestError, Result, claimed_gpus, kai};
use crate::route::now;

/// API group of the PodGroups of the plugin coscheduling.
const COSCHEDULING: &str = "scheduling.x-k8s.io";

/// Time after which the cluster deletes an ended job and its pods: long enough to come back to it after
/// a weekend, short enough that lists stay short.
const KEPT_SECS: u32 = 7 * 24 * 3600;

/// Letters of the key in the names of objects. A name that is taken by another submission is an error.
const SUFFIX_LETTERS: usize = 5;

/// Letters and digits of suffixes, which the API server uses, too: without vowels, so that they spell no
/// words.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// Document ready for submission.
struct PreparedJob {
    checked: CheckedJob,
    rendered: RenderedJob,
}

/// Settings of a document beside its text.
struct PrepareInput<'a> {
    /// Identity of the submission.
    key: String,
    scheduler: GangScheduler,
    /// Objects that the job waits for.
    after: &'a [(DependencyKind, String)],
    /// Files that are sent with it.
    files: &'a [SentFile],
    /// Labels that name the GPU models of the nodes, where a job asks for a model.
    gpu_labels: &'a GpuLabels,
}

impl PreparedJob {
    /// Returns the object that is the job, and those that it needs beside it.
    fn split(&self) -> (&Value, &[Value]) {
        let (main, others) = self.rendered.objects.split_last().expect("a job has an object");
        (main, others)
    }
}

/// Gives a job the image and the variables of its environment; returns a warning about the latter.
fn add_environment(checked: &mut CheckedJob, request: &SubmitRequest) -> Result<Option<String>> {
    checked.kubernetes = checked.environment.for_kubernetes(&checked.kubernetes);
    checked.add_env_files(&request.env_files).map_err(|file| {
        RequestError::refused(format!(
            "the variables of `{file}`, which the job names in `env-file`, are missing"
        ))
    })?;
    let has_files = !checked.environment.env_files.is_empty();
    Ok(has_files.then(|| {
        format!(
            "`{}`: who may read its pods reads the variables of `env-file`; for secrets write `kubernetes: {{env-from: [secret/NAME]}}`",
            checked.spec.name
        )
    }))
}

impl KubernetesScheduler {
    /// Submits every document of a request.
    pub(super) async fn submit(&self, request: SubmitRequest) -> Result<SubmitResponse> {
        // 1. Parse and check the documents.
        let default_queue = QueueName::from("default");
        let documents =
            muster_spec::parse(&request.source, request.file.as_deref(), &request.overrides)?;
        let site = SubmissionSite::unknown(self.settings.user.clone(), &default_queue);
        let mut checked = muster_spec::check_all(&documents, &site)?;
        let mut warnings = Vec::new();
        for one in &mut checked {
            warnings.extend(add_environment(one, &request)?);
        }
        if request.interactive {
            return Err(RequestError::refused(
                "jobs on Kubernetes cannot be started with a terminal",
            )
            .hint("submit without -it and use `muster attach JOB` once it runs"));
        }
        // 2. Write all objects first: a job that Kubernetes cannot run rejects the whole request.
        let server = self.server().await?;
        let found = scheduler_of(|group, plural| server.serves(group, plural));
        let mut ready = Vec::new();
        let nodes = self.nodes_of_models(server, &checked).await?;
        for (nth, checked) in checked.into_iter().enumerate() {
            let key = format!("{}-{nth}", request.key);
            let after = self.dependencies(server, &checked, &ready).await?;
            let files = sent_files(&checked, &request.workdir)?;
            let resource = checked.kubernetes.gpu_resource.as_deref().unwrap_or(render::NVIDIA);
            let gpu_labels = GpuLabels::of(&nodes, resource);
            let scheduler = chosen_scheduler(server, &checked, found)?;
            claimed_gpus::check(server, &checked).await?;
            let input = PrepareInput {
                key,
                scheduler,
                after: &after,
                files: &files,
                gpu_labels: &gpu_labels,
            };
            ready.push(self.prepare(server, checked, input, &mut warnings)?);
        }
        let jobs = ready.iter().map(|one| (&*one.checked.spec.name, one.split().0));
        kai::check_release(server, jobs).await?;
        // 3. Let the server check them, then create them.
        if request.dry_run {
            for one in &ready {
                self.check(server, one).await?;
            }
            return Ok(response(&ready, &[], warnings));
        }
        let mut created: Vec<Value> = Vec::new();
        let mut sent = Vec::new();
        for one in &ready {
            match self.create_all(server, one, &mut sent).await {
                Ok(object) => created.push(object),
                Err(refusal) => return Err(self.withdraw_created(server, &sent, refusal).await),
            }
        }
        if self.is_withdrawn() {
            let refusal = RequestError::interrupted("the submission was withdrawn");
            return Err(self.withdraw_created(server, &sent, refusal).await);
        }
        let jobs: Vec<JobId> = ready
            .iter()
            .zip(&created)
            .map(|(one, object)| self.remember_created(server, one, object))
            .collect();
        Ok(response(&ready, &jobs, warnings))
    }

    /// Returns the nodes, whose labels name their GPU models; none if no document asks for a model.
    async fn nodes_of_models(
        &self,
        server: &ApiServer,
        checked: &[CheckedJob],
    ) -> Result<Vec<NodeFacts>> {
        let mut groups = checked.iter().flat_map(|one| &one.spec.groups);
        if groups.all(|group| group.task.gpu.models.is_empty()) {
            return Ok(Vec::new());
        }
        let listed = server.list("/api/v1/nodes".to_owned()).await.map_err(|refusal| {
            refusal.hint("or select the GPU as the nodes write it: `labels: {nvidia.com/gpu.product: …}` in place of `gpu`")
        })?;
        let read = |node| serde_json::from_value::<NodeText>(node).ok()?.facts().ok();
        Ok(listed.items.into_iter().filter_map(read).collect())
    }

    /// Returns the objects that a document waits for: those of earlier documents, and of jobs that exist.
    async fn dependencies(
        &self,
        server: &ApiServer,
        checked: &CheckedJob,
        earlier: &[PreparedJob],
    ) -> Result<Vec<(DependencyKind, String)>> {
        let own = checked.kubernetes.namespace.as_deref().unwrap_or(&server.namespace);
        let mut after = Vec::new();
        for (kind, document) in &checked.after_documents {
            let (main, _) = earlier[*document].split();
            let found = JobObject { api: api_of(main), object: main };
            after.push((*kind, found.namespace().to_owned(), word(found)));
        }
        for dependency in &checked.spec.after {
            let found = self.find(dependency.job).await?;
            after.push((dependency.kind, found.key.namespace.clone(), word(found.job())));
        }
        if let Some((_, namespace, name)) = after.iter().find(|(_, namespace, _)| namespace != own)
        {
            return Err(RequestError::refused(format!(
                "`{}` cannot wait for {name} of namespace {namespace}: it is in namespace {own}",
                checked.spec.name
            ))
            .hint("submit both to one namespace: `kubernetes: {namespace: …}`"));
        }
        Ok(after.into_iter().map(|(kind, _, name)| (kind, name)).collect())
    }

    /// Writes the objects of a document.
    fn prepare(
        &self,
        server: &ApiServer,
        mut checked: CheckedJob,
        input: PrepareInput<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<PreparedJob> {
        let PrepareInput { key, scheduler, after, files, gpu_labels } = input;
        let name = checked.spec.name.to_string();
        if checked.kubernetes.image.is_none() {
            let image = &self.settings.image;
            checked.kubernetes.image = Some(image.as_str().into());
            warnings.push(format!("`{name}` names no image: {image} is used"));
        }
        if checked.kubernetes.namespace.is_none() {
            checked.kubernetes.namespace = Some(server.namespace.as_str().into());
        }
        muster_ray::set_token(&mut checked.env, &checked.commands, getrandom::fill)
            .map_err(|error| RequestError::refused(format!("no random number: {error}")))?;
        let now = now();
        let begin = checked.begin.map(|begin| begin.at(now)).or(checked.spec.begin);
        let spec = JobSpec { begin, after: Vec::new(), ..checked.spec.clone() };
        let workdir = checked.workdir.as_ref().map(|dir| dir.to_string_lossy());
        let suffix = suffix(&key);
        let input = RenderInput {
            spec: &spec,
            commands: &checked.commands,
            sweep: checked.sweep.as_ref(),
            env: &checked.env,
            workdir: workdir.as_deref(),
            gpu_labels,
            files,
            has_output_files: !checked.files.is_empty(),
            after,
            options: &checked.kubernetes,
            environment: &checked.environment,
            scheduler,
            form: JobForm::Simplest.with(&checked.kubernetes),
            suffix: Some(&suffix),
        };
        let mut rendered = render::render(&input).map_err(|unfit| {
            let what: Vec<&str> = unfit.iter().map(|one| one.what.as_str()).collect();
            let mut refusal = RequestError::refused(format!(
                "Kubernetes cannot run `{name}` as written: {}",
                what.join("; ")
            ));
            if scheduler == GangScheduler::None && server.serves(COSCHEDULING, "podgroups") {
                refusal = refusal.hint("the cluster has the plugin coscheduling, but only its administrator knows the name of the scheduler that has it: write the objects with `muster export kubernetes`, and add that name, a PodGroup and its label");
            }
            unfit.iter().fold(refusal, |refusal, one| refusal.hint(one.hint.clone()))
        })?;
        check_versions(server, &name, &rendered.objects)?;
        if scheduler == GangScheduler::PodGroups
            && checked.kubernetes.scheduler.is_none()
            && checked.spec.min_tasks() > 1
        {
            warnings.push(format!(
                "`{name}` names a PodGroup, which kube-scheduler reads only where its own feature gate GenericWorkload is on: `muster check kubernetes --prove --scheduler pod-groups` tells; `kubernetes: {{scheduler: pod-groups}}` in the job file leaves this out"
            ));
        }
        let main = rendered.objects.last_mut().expect("a job has an object");
        let api = api_of(main);
        // That of a RayJob is the time for which its cluster stays; a TrainJob has none.
        if !api.is_service() && !["RayJob", "TrainJob"].contains(&api.kind) {
            main["spec"]["ttlSecondsAfterFinished"] = json!(KEPT_SECS);
        }
        sign(&mut rendered.objects, &name, &self.settings.user, &key, now);
        warnings.extend(checked.warnings.iter().chain(&rendered.warnings).cloned());
        warnings.extend(unsent(&checked));
        Ok(PreparedJob { checked, rendered })
    }

    /// Has the API server check the objects, without creating them.
    async fn check(&self, server: &ApiServer, one: &PreparedJob) -> Result<()> {
        for object in &one.rendered.objects {
            let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(object));
            server.create(&path, object).await.map_err(refusal)?;
        }
        Ok(())
    }

    /// Creates the objects of a job, what it needs first; returns the job's. Adds each to `sent` that
    /// exists or may exist, also if it fails.
    async fn create_all<'a>(
        &self,
        server: &ApiServer,
        one: &'a PreparedJob,
        sent: &mut Vec<&'a Value>,
    ) -> Result<Value> {
        let (main, others) = one.split();
        for object in others {
            self.create(server, object, sent).await?;
        }
        let created = self.create(server, main, sent).await?;
        // They are deleted with the job.
        let owner = json!({"ownerReferences": [{
            "apiVersion": main["apiVersion"],
            "kind": main["kind"],
            "name": main["metadata"]["name"],
            "uid": created["metadata"]["uid"],
        }]});
        for object in others {
            let path = path(object);
            let body = json!({"metadata": owner});
            self.until_answered(|| server.try_merge(&path, &body)).await?.map_err(refusal)?;
        }
        Ok(created)
    }

    /// Creates an object of a job, and adds it to `sent` if it exists or may exist.
    async fn create<'a>(
        &self,
        server: &ApiServer,
        object: &'a Value,
        sent: &mut Vec<&'a Value>,
    ) -> Result<Value> {
        let created = self.create_once(server, &collection(object), object).await;
        if created.as_ref().err().is_none_or(|error| error.may_exist) {
            sent.push(object);
        }
        created.map_err(|NotCreated { refusal, .. }| {
            if refusal.is_conflict() {
                refusal.hint("another object has this name: submit again, which makes another name")
            } else {
                refusal
            }
        })
    }

    /// Deletes what this submission has created, since a part of it was refused.
    async fn withdraw_created(
        &self,
        server: &ApiServer,
        sent: &[&Value],
        mut refusal: RequestError,
    ) -> RequestError {
        for object in sent.iter().rev() {
            refusal = self.delete_created(server, &path(object), object, refusal).await;
        }
        refusal
    }

    /// Keeps a job that was created, so that its number can be looked up; returns the number.
    fn remember_created(&self, server: &ApiServer, one: &PreparedJob, object: &Value) -> JobId {
        let (main, _) = one.split();
        let api = api_of(main);
        let job = JobObject { api, object };
        let root = server.job_kinds().find(|(kind, _)| *kind == api).map(|(_, root)| root);
        let key = JobKey::of(job, &root.unwrap_or_default());
        let mut seen = self.seen.lock().expect("no thread panics while holding this lock");
        seen.insert(job.number(), key);
        job.number()
    }
}

/// Returns the files that a document sends, from a folder relative to that of the submitter.
fn sent_files(checked: &CheckedJob, workdir: &str) -> Result<Vec<SentFile>> {
    let Some(folder) = &checked.kubernetes.send else { return Ok(Vec::new()) };
    read_folder(&Path::new(workdir).join(&**folder)).map_err(|error| {
        let hint = error.hint();
        RequestError::refused(error.to_string()).hint(hint)
    })
}

/// Returns the objects by which a cluster is known to have a scheduler, as API group and plural; `None` for
/// kube-scheduler alone, which needs none.
fn mark_of(scheduler: GangScheduler) -> Option<(&'static str, &'static str)> {
    match scheduler {
        GangScheduler::Muster => Some((QUEUE_GROUP, QUEUES)),
        GangScheduler::Kueue => Some(("kueue.x-k8s.io", "localqueues")),
        GangScheduler::Volcano => Some(("batch.volcano.sh", "jobs")),
        GangScheduler::Kai => Some(("scheduling.run.ai", "queues")),
        GangScheduler::PodGroups => Some(("scheduling.k8s.io", "podgroups")),
        GangScheduler::None => None,
    }
}

/// Returns the gang scheduler of a cluster that serves these kinds: Muster's before others.
fn scheduler_of(serves: impl Fn(&str, &str) -> bool) -> GangScheduler {
    let is_there = |scheduler: &GangScheduler| {
        mark_of(*scheduler).is_none_or(|(group, plural)| serves(group, plural))
    };
    GangScheduler::ALL.into_iter().find(is_there).unwrap_or(GangScheduler::None)
}

/// Returns the scheduler that a document names, or else the one that was found.
fn chosen_scheduler(
    server: &ApiServer,
    checked: &CheckedJob,
    found: GangScheduler,
) -> Result<GangScheduler> {
    let Some(chosen) = checked.kubernetes.scheduler else { return Ok(found) };
    // Muster's scheduler may run without Queue objects.
    let mark = mark_of(chosen).filter(|_| chosen != GangScheduler::Muster);
    match mark {
        Some((group, plural)) if !server.serves(group, plural) => {
            Err(RequestError::refused(format!(
                "`{}` names the scheduler {}, which this cluster does not have: it serves no {plural}.{group}",
                checked.spec.name,
                chosen.word()
            ))
            .hint("leave out `kubernetes: {scheduler: …}`: `run` finds the one that the cluster has"))
        }
        _ => Ok(chosen),
    }
}

/// Annotates every object with the job's name, user and submission.
fn sign(objects: &mut [Value], name: &str, user: &UserName, key: &str, now: Time) {
    for object in objects {
        let annotations = &mut object["metadata"]["annotations"];
        annotations[names::JOB_NAME] = json!(name);
        annotations[names::USER] = json!(user.as_str());
        annotations[names::SUBMISSION] = json!(key);
        annotations[names::SUBMITTED] = json!(now.0.to_string());
    }
}

/// Returns a job as `muster.run/after` names it: `job/train-x7k2p`.
fn word(job: JobObject<'_>) -> String {
    format!("{}/{}", job.api.word(), job.name())
}

/// Returns the letters of a key for names of objects.
fn suffix(key: &str) -> String {
    // FNV-1a, which is the same in every version.
    let mut hash = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut letters = String::with_capacity(SUFFIX_LETTERS);
    for _ in 0..SUFFIX_LETTERS {
        letters.push(ALPHABET[(hash % ALPHABET.len() as u64) as usize].into());
        hash /= ALPHABET.len() as u64;
    }
    letters
}

/// Returns the path of the objects of this one's kind, in its namespace.
fn collection(object: &Value) -> String {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let root = if version.contains('/') { "apis" } else { "api" };
    let plural = plural_of(object);
    format!("/{root}/{version}/namespaces/{}/{plural}", text("/metadata/namespace"))
}

/// Returns the resource name of an object's kind.
fn plural_of(object: &Value) -> &'static str {
    match object["kind"].as_str().unwrap_or_default() {
        "Service" => "services",
        "ConfigMap" => "configmaps",
        "Secret" => "secrets",
        "PodGroup" => "podgroups",
        "HorizontalPodAutoscaler" => "horizontalpodautoscalers",
        "TrainingRuntime" => "trainingruntimes",
        _ => api_of(object).plural,
    }
}

/// Refuses objects that the cluster does not serve, or only in other versions.
fn check_versions(server: &ApiServer, name: &str, objects: &[Value]) -> Result<()> {
    let api = api_of(objects.last().expect("a job has an object"));
    if !server.serves(api.group, api.plural) {
        return Err(RequestError::refused(format!(
            "`{name}` needs the kind {} ({}), which this cluster does not have",
            api.kind, api.group
        ))
        .hint(match api.kind {
            "RayJob" => "without `kubernetes: {kuberay: true}` it is a Job, which needs nothing; or an administrator installs KubeRay",
            "TrainJob" => "without `kubernetes: {trainer: true}` it is a Job, which needs nothing; or an administrator installs Kubeflow's Trainer",
            "InferenceService" => "without `kubernetes: {kserve: true}` it is a Deployment, which needs nothing; or an administrator installs KServe",
            _ => "several roles, a gang that restarts as a whole, and every gang of KAI need the JobSet controller: an administrator can install it",
        }));
    }
    let mut refusals = objects.iter().filter_map(|object| {
        // The core API has no group, and one version.
        let (group, _) = object["apiVersion"].as_str()?.split_once('/')?;
        other_version(name, object, server.versions(group, plural_of(object)))
    });
    refusals.next().map_or(Ok(()), Err)
}

/// Returns the error for an object whose kind the cluster serves, but only in other versions.
fn other_version(name: &str, object: &Value, served: &[String]) -> Option<RequestError> {
    let version = object["apiVersion"].as_str().unwrap_or_default();
    if served.is_empty() || served.iter().any(|one| one == version) {
        return None;
    }
    let kind = object["kind"].as_str().unwrap_or_default();
    let refusal = RequestError::refused(format!(
        "`{name}` is written as a {kind} of {version}, and this cluster serves only {}",
        served.join(" and ")
    ));
    Some(refusal.hint(format!(
        "use the release of Muster for that version, or an administrator installs a release of the API that serves {version}; `muster export kubernetes` writes the objects to a file, to be changed by hand"
    )))
}

fn path(object: &Value) -> String {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    format!("{}/{name}", collection(object))
}

/// Returns the kind of job that an object is.
fn api_of(object: &Value) -> &'static JobApi {
    let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/'));
    let is_it = |api: &&JobApi| {
        object["kind"] == api.kind && group.is_some_and(|(group, _)| group == api.group)
    };
    APIS.iter().find(is_it).expect("a job is written as one of these kinds")
}

/// Returns a warning for a job with notices.
fn unsent(checked: &CheckedJob) -> Option<String> {
    let name = &checked.spec.name;
    let has_notices = !checked.notices.is_empty();
    has_notices.then(|| format!("`{name}` has `notify`: no notices are sent from Kubernetes"))
}

fn response(ready: &[PreparedJob], jobs: &[JobId], warnings: Vec<String>) -> SubmitResponse {
    let submitted = ready.iter().enumerate().map(|(nth, one)| {
        let is_dry_run = jobs.is_empty();
        Submitted {
            job: jobs.get(nth).copied().unwrap_or(JobId(0)),
            name: one.checked.spec.name.to_string(),
            elements: one.checked.spec.element_count(),
            explanation: None,
            resolved: None,
            native: is_dry_run.then(|| render::yaml(&one.rendered.objects)),
        }
    });
    SubmitResponse { jobs: submitted.collect(), warnings }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_always_makes_the_same_letters_and_another_key_others() {
        assert_eq!(suffix("a1-0"), "klzhw");
        let all: std::collections::BTreeSet<String> =
            (0..1000).map(|nth| suffix(&format!("0f3c{nth:04x}-0"))).collect();
        // Of 14 million, a thousand collide with a chance of 3 %.
        assert!(all.len() >= 999, "{}", all.len());
        assert!(
            all.iter().all(
                |one| one.len() == SUFFIX_LETTERS && one.bytes().all(|b| ALPHABET.contains(&b))
            )
        );
    }

    #[test]
    fn the_scheduler_is_the_first_that_the_cluster_has() {
        let found =
            |kinds: &[(&str, &str)]| scheduler_of(|group, plural| kinds.contains(&(group, plural)));
        let kai = ("scheduling.run.ai", "queues");
        let native = ("scheduling.k8s.io", "podgroups");
        assert_eq!(found(&[native, kai]), GangScheduler::Kai);
        assert_eq!(found(&[native]), GangScheduler::PodGroups);
        assert_eq!(found(&[kai, ("batch.volcano.sh", "jobs")]), GangScheduler::Volcano);
        assert_eq!(found(&[kai, ("muster.run", "queues")]), GangScheduler::Muster);
        assert_eq!(found(&[]), GangScheduler::None);
    }

    #[test]
    fn an_object_of_a_version_that_is_not_served_is_refused() {
        let set = json!({"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"});
        let refused = |served: &[&str]| {
            let served: Vec<String> = served.iter().map(|one| (*one).to_owned()).collect();
            other_version("train", &set, &served).map(|refusal| refusal.to_string())
        };
        assert_eq!(refused(&["jobset.x-k8s.io/v1", "jobset.x-k8s.io/v1alpha2"]), None);
        // That it is not served at all is another error.
        assert_eq!(refused(&[]), None);
        let text = refused(&["jobset.x-k8s.io/v1"]).unwrap();
        for part in ["`train`", "JobSet of jobset.x-k8s.io/v1alpha2", "only jobset.x-k8s.io/v1"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn objects_have_the_paths_of_their_kinds() {
        let path_of = |version: &str, kind: &str| {
            let metadata = json!({"name": "train", "namespace": "team"});
            path(&json!({"apiVersion": version, "kind": kind, "metadata": metadata}))
        };
        assert_eq!(path_of("v1", "Service"), "/api/v1/namespaces/team/services/train");
        assert_eq!(path_of("batch/v1", "Job"), "/apis/batch/v1/namespaces/team/jobs/train");
        assert_eq!(
            path_of("scheduling.k8s.io/v1beta1", "PodGroup"),
            "/apis/scheduling.k8s.io/v1beta1/namespaces/team/podgroups/train"
        );
        assert_eq!(
            path_of("jobset.x-k8s.io/v1alpha2", "JobSet"),
            "/apis/jobset.x-k8s.io/v1alpha2/namespaces/team/jobsets/train"
        );
    }
}
