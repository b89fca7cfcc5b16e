//! A job of kind `ray` as a RayJob of KubeRay, which makes the cluster and starts the program on it. The first
//! task is the head; the others are workers in groups. What only KubeRay's way of running a job changes is
//! reported here.

use muster_model::payload::{RayGrowth, RayTask, TaskCommand};
use muster_model::{Span, WorkloadKind};
use serde_json::{Map, Value, json};

use super::objects::{object, sent_files, started_by};
use super::pod::template;
use super::{GangScheduler, JobShape, RenderInput, Role, names_queue};
use crate::names;

/// Longest name of a RayJob (KubeRay's validation); it adds its own letters in those of its cluster and pods.
pub(super) const MAX_NAME: usize = 47;
/// Names that KubeRay and Kueue use for the head.
const OF_HEAD: [&str; 2] = ["head", "headgroup"];
/// First version of Ray with secrets.
const FIRST_WITH_TOKEN: (u64, u64) = (2, 52);
/// Volume with the files by which the program starts.
const PROGRAM: &str = "program";
/// Time that pods have to end by default, in Kubernetes as in a job file.
const DEFAULT_GRACE: Span = Span::from_secs(30);

/// Returns all objects of the job, the RayJob last.
pub(super) fn objects(job: &JobShape<'_>) -> Vec<Value> {
    let task = head_task(job.input).expect("only jobs of kind `ray` are rendered as RayJobs");
    let driver = task.driver.as_ref().expect("clusters without a program are refused before");
    let start = muster_ray::entrypoint(task, driver);
    let mut objects: Vec<Value> = sent_files(job).into_iter().collect();
    if !start.files.is_empty() {
        let mut files = object(job, "v1", "ConfigMap", Value::Null);
        files["metadata"]["name"] = json!(program_name(job));
        files["data"] = json!(start.files);
        if let Some(fields) = files.as_object_mut() {
            fields.remove("spec");
        }
        objects.push(files);
    }
    let mut spec = json!({
        "entrypoint": start.line,
        // In the head's pod: a pod of its own would be outside of the gang, and could wait while this holds GPUs.
        "submissionMode": "SidecarMode",
        "shutdownAfterJobFinishes": true,
        "backoffLimit": if job.input.spec.restart.on_failure { job.input.spec.restart.max_restarts } else { 0 },
        "rayClusterSpec": cluster(job, task, !start.files.is_empty()),
    });
    if let Some(runtime_env) = &task.runtime_env {
        // JSON is YAML.
        spec["runtimeEnvYAML"] = json!(runtime_env);
    }
    if let Some(limit) = job.input.spec.time_limit {
        spec["activeDeadlineSeconds"] = json!(limit.0.div_ceil(1000));
    }
    let mut ray_job = object(job, "ray.io/v1", "RayJob", started_by(job, spec));
    // KubeRay copies them to the cluster, and for Volcano to its PodGroup.
    let labels = &mut ray_job["metadata"]["labels"];
    if job.input.scheduler == GangScheduler::Volcano {
        if let Some(queue) = job.queue() {
            labels[names::VOLCANO_QUEUE_LABEL] = queue.into();
        }
        if let Some(class) = &job.input.options.priority_class {
            labels[names::RAY_PRIORITY_CLASS] = json!(**class);
        }
    }
    if *job.name != *job.input.spec.name {
        ray_job["metadata"]["annotations"][names::JOB_NAME] = json!(*job.input.spec.name);
    }
    objects.push(ray_job);
    objects
}

/// Returns the node of the first group; `None` for jobs of other kinds.
fn head_task<'a>(input: &RenderInput<'a>) -> Option<&'a RayTask> {
    task_of(input, &input.spec.groups.first()?.name)
}

fn task_of<'a>(input: &RenderInput<'a>, group: &str) -> Option<&'a RayTask> {
    match input.commands.get(group)? {
        TaskCommand::Ray(task) => Some(task),
        TaskCommand::Argv(_) | TaskCommand::Script(_) => None,
    }
}

fn program_name(job: &JobShape<'_>) -> String {
    format!("{}-{PROGRAM}", job.name)
}

/// Returns the cluster of the job.
fn cluster(job: &JobShape<'_>, task: &RayTask, has_files: bool) -> Value {
    let mut head = pods(job, &job.roles[0], "ray-head");
    if has_files {
        let mount = json!({"name": PROGRAM, "mountPath": muster_ray::PROGRAM_FOLDER});
        add(&mut head["spec"]["containers"][0], "volumeMounts", mount);
        let map = json!({"name": program_name(job), "defaultMode": 0o755});
        add(&mut head["spec"], "volumes", json!({"name": PROGRAM, "configMap": map}));
    }
    let growth = growth(job.input);
    let workers = job.roles.iter().enumerate().filter_map(|(at, role)| {
        let of_head = u32::from(at == 0);
        let least = role.pods - of_head;
        let more = growth.filter(|growth| growth.group == role.group.name);
        let most = least + more.map_or(0, |growth| growth.nodes);
        (most > 0).then(|| {
            json!({
                "groupName": group_name(&role.name),
                "replicas": least,
                "minReplicas": least,
                "maxReplicas": most,
                "rayStartParams": params(job.input, role),
                "template": pods(job, role, "ray-worker"),
            })
        })
    });
    let mut cluster = json!({
        "headGroupSpec": {"rayStartParams": params(job.input, &job.roles[0]), "template": head},
        "workerGroupSpecs": workers.collect::<Vec<_>>(),
    });
    if growth.is_some() {
        cluster["enableInTreeAutoscaling"] = json!(true);
        cluster["autoscalerOptions"] = json!({"version": "v2"});
        if let Some(idle) = task.idle {
            cluster["autoscalerOptions"]["idleTimeoutSeconds"] = json!(idle.0.div_ceil(1000));
        }
    }
    if let Some(version) = version(job.input, task) {
        if has_token(&version) {
            cluster["authOptions"] = json!({"mode": "token"});
        }
        cluster["rayVersion"] = version.into();
    }
    cluster
}

fn params(input: &RenderInput<'_>, role: &Role<'_>) -> Value {
    task_of(input, &role.group.name).map_or(json!({}), |task| json!(muster_ray::start_params(task)))
}

/// Returns the name of a group of workers; Kueue refuses that of the head.
fn group_name(role: &str) -> String {
    if OF_HEAD.contains(&role) { format!("{role}-workers") } else { role.to_owned() }
}

/// Returns the pods of a role without what KubeRay decides: their command, their end and their secret.
fn pods(job: &JobShape<'_>, role: &Role<'_>, container: &str) -> Value {
    let mut template = template(job, role);
    if let Some(pod) = template["spec"].as_object_mut() {
        pod.remove("activeDeadlineSeconds");
        pod.remove("shareProcessNamespace");
    }
    let first = &mut template["spec"]["containers"][0];
    first["name"] = json!(container);
    if let Some(fields) = first.as_object_mut() {
        fields.remove("command");
        if let Some(env) = fields.get_mut("env").and_then(Value::as_array_mut) {
            env.retain(|one| one["name"] != muster_ray::TOKEN);
            if env.is_empty() {
                fields.remove("env");
            }
        }
    }
    template
}

/// Adds an item to a list of an object.
fn add(object: &mut Value, list: &str, item: Value) {
    let fields: &mut Map<String, Value> = object.as_object_mut().expect("a template has objects");
    let list = fields.entry(list).or_insert_with(|| json!([]));
    list.as_array_mut().expect("it is a list").push(item);
}

/// Returns the sizes between which KubeRay's autoscaler chooses; Kueue starts clusters of a fixed size.
fn growth<'a>(input: &RenderInput<'a>) -> Option<&'a RayGrowth> {
    let growth = head_task(input)?.growth.as_ref();
    growth.filter(|_| input.scheduler != GangScheduler::Kueue)
}

/// Returns true for a cluster that may grow.
pub(super) fn has_growth(input: &RenderInput<'_>) -> bool {
    head_task(input).is_some_and(|task| task.growth.is_some())
}

/// Returns the version of Ray: that of the job, else that in the tag of one of Ray's own images.
fn version(input: &RenderInput<'_>, task: &RayTask) -> Option<String> {
    task.version.clone().or_else(|| version_of_image(input.options.image.as_deref()?))
}

/// Returns the version in the name of an image of Ray, such as `rayproject/ray:2.60.0-py312-gpu`.
pub(crate) fn version_of_image(image: &str) -> Option<String> {
    let (name, tag) = image.rsplit('/').next()?.split_once(':')?;
    let tag = tag.split(['-', '@']).next()?;
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_version = tag.split('.').count() == 3 && tag.split('.').all(is_number);
    (is_version && name.starts_with("ray")).then(|| tag.to_owned())
}

/// Returns true if Ray of this version can demand a secret.
pub(crate) fn has_token(version: &str) -> bool {
    let mut parts = version.split('.').map(|part| part.parse::<u64>().unwrap_or(0));
    (parts.next().unwrap_or(0), parts.next().unwrap_or(0)) >= FIRST_WITH_TOKEN
}

/// Returns what no RayJob can be.
pub(super) fn unsupported(input: &RenderInput<'_>, refuse: &mut impl FnMut(&str, &str)) {
    let spec = input.spec;
    let Some(task) = head_task(input) else {
        return refuse(
            "a RayJob is a Ray cluster: the job is of another kind",
            "write `kind: ray`, or use `muster export kubernetes`",
        );
    };
    if task.driver.is_none() {
        refuse(
            "a cluster without `run`: a RayJob ends with its program",
            "write `run`, or use `muster export kubernetes`",
        );
    }
    if let Some(path) = task.runtime_env.as_deref().and_then(local_path) {
        refuse(
            &format!(
                "the runtime environment has the path `{path}`, which KubeRay's submitter does not see"
            ),
            "leave `working_dir` out and send the folder with `kubernetes: {send: …}`: the program starts in it; list packages by name, or name an archive by its URL; or use `muster export kubernetes`",
        );
    }
    if task.runtime_env.as_deref().is_some_and(|text| text.contains(['$', '`'])) {
        refuse(
            "the runtime environment has `$` or a backquote, which KubeRay's shell would expand",
            "set it in the program, or use `muster export kubernetes`",
        );
    }
    if spec.array.is_some() || spec.kind != WorkloadKind::Task {
        refuse("an array: a RayJob runs once", "use `muster export kubernetes`");
    }
    if spec.groups.iter().any(|group| group.tasks_per_node.is_some_and(|tasks| tasks > 1)) {
        refuse(
            "several tasks for each node: a pod of KubeRay is one Ray node",
            "give the Ray nodes all GPUs of their machines: `nodes: 2`, `gpus: 8`",
        );
    }
    if spec.begin.is_some() || !input.after.is_empty() {
        refuse(
            "`begin` and `after`: KubeRay starts a RayJob at once",
            "submit it when it may start, or use `muster export kubernetes`",
        );
    }
    if input.scheduler == GangScheduler::PodGroups && spec.min_tasks() > 1 {
        refuse(
            "a RayJob of several nodes for this scheduler: KubeRay's pods name no PodGroup",
            "use `kubernetes: {scheduler: …}` with muster, kueue, volcano or kai, or leave out `kuberay`: `muster export kubernetes`",
        );
    }
}

/// Returns the first path of a runtime environment that Ray would read where the program is submitted: a folder, a file
/// of requirements (`pip`, `uv`), or a file that describes an environment of conda.
fn local_path(runtime_env: &str) -> Option<String> {
    let fields: Value = serde_json::from_str(runtime_env).ok()?;
    let modules = fields["py_modules"].as_array().into_iter().flatten();
    let named = ["working_dir", "pip", "uv"].map(|name| &fields[name]);
    let paths = modules.chain(named).filter_map(Value::as_str);
    let mut local = paths.filter(|path| !path.contains("://"));
    let is_file = |path: &&str| path.ends_with(".yml") || path.ends_with(".yaml");
    local.next().or(fields["conda"].as_str().filter(is_file)).map(str::to_owned)
}

/// Returns what KubeRay does differently.
pub(super) fn differences(input: &RenderInput<'_>) -> Vec<String> {
    let Some(task) = head_task(input) else { return Vec::new() };
    let spec = input.spec;
    let mut warnings = Vec::new();
    let mut warn = |text: &str| warnings.push(text.to_owned());
    if spec.checkpoint.is_some() {
        warn(
            "`checkpoint` is ignored: KubeRay sends the program no signal; save on SIGTERM, or at intervals",
        );
    }
    if spec.checkpoint.is_some() || spec.grace != DEFAULT_GRACE {
        warn(
            "`grace`: KubeRay ends all pods of the cluster at once, so that actors cannot save when the program is told to end",
        );
    }
    let waits_suspended = match input.scheduler {
        GangScheduler::Muster => names_queue(spec),
        scheduler => scheduler == GangScheduler::Kueue,
    };
    if spec.time_limit.is_some() && !waits_suspended {
        warn(
            "`time` counts from when KubeRay makes the pods, and so also while they wait for GPUs",
        );
    }
    if task.python != "python3" {
        warn(
            "`python` starts the program only: KubeRay starts the nodes with `ray` from the PATH of the image",
        );
    }
    if !task.has_dashboard {
        warn("`dashboard: false` is ignored: KubeRay submits the program through the dashboard");
    }
    let version = version(input, task);
    let in_image = input.options.image.as_deref().and_then(version_of_image);
    match (&version, &in_image) {
        (None, _) => warn(
            "without `ray: {version: …}` KubeRay makes no secret for the cluster: whoever reaches its head can run programs there",
        ),
        (Some(version), _) if !has_token(version) => warn(
            "Ray before 2.52 has no secret: whoever reaches the head of the cluster can run programs there",
        ),
        (Some(version), Some(image)) if version != image => {
            warn(&format!("`ray: {{version: {version}}}`: the image is of version {image}"));
        }
        _ => {}
    }
    let operator = match input.scheduler {
        GangScheduler::Volcano => Some("volcano"),
        GangScheduler::Kai => Some("kai-scheduler"),
        GangScheduler::Muster
        | GangScheduler::Kueue
        | GangScheduler::PodGroups
        | GangScheduler::None => None,
    };
    if let Some(name) = operator {
        warn(&format!(
            "its pods start together only if KubeRay's operator runs with `--batch-scheduler={name}`"
        ));
    }
    warnings
}
