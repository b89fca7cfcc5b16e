//! Settings of a job that Kubernetes, or the scheduler of a cluster, cannot express, and those that
//! it handles differently.

use std::path::Path;

use crate::group::ObjectRef;
use muster_model::{
    GpuModel, Protection, PythonEnvironment, Replicas, Service, TaskGroup, TopologyRule,
    Unsupported, WorkloadKind,
};

use super::files::brings_files;
use super::pod::share_annotation;
use super::{
    GangScheduler, JobForm, JobShape, RenderInput, TaskCommand, main_object, ray_job, role_name,
    sweep_size,
};

/// Most indices of an array that is a list: all are in the command of its containers.
const MAX_LISTED: u32 = 2_000;

/// Returns everything that cannot be expressed.
pub(super) fn unsupported(input: &RenderInput<'_>) -> Vec<Unsupported> {
    let mut unfit = Vec::new();
    let mut refuse =
        |what: &str, hint: &str| unfit.push(Unsupported::new(what.to_owned(), hint.to_owned()));
    let spec = input.spec;
    if input.options.image.is_none() {
        refuse(
            "it names no image, and a container has no other programs",
            "write `image: registry.example.com/train:1`",
        );
    }
    environment(input, &mut refuse);
    match &spec.kind {
        WorkloadKind::Task | WorkloadKind::Notebook(_) => {}
        WorkloadKind::Service(service) => replicas(input, service, &mut refuse),
    }
    if input.workdir.is_some_and(|workdir| !workdir.starts_with('/')) {
        refuse(
            "its working directory is relative to a directory of this machine",
            "name a directory of the image or of a volume: `workdir: /data/run`",
        );
    }
    let on_volume = |dir: &str| {
        input.options.volumes.iter().any(|volume| Path::new(dir).starts_with(&*volume.path))
    };
    if brings_files(input) && input.workdir.is_some_and(on_volume) {
        refuse(
            "`send` or `git`: its working directory is on a volume, which the files would hide",
            "remove `workdir`, or copy the code to the volume; write results to the volume by its path",
        );
    }
    gang(input, &mut refuse);
    sweep_size::unsupported(input, &mut refuse);
    if input.form == JobForm::TrainJob {
        train_job(input, &mut refuse);
    }
    if input.form == JobForm::RayJob {
        ray_job::unsupported(input, &mut refuse);
    }
    sizes(input, &mut refuse);
    start(input, &mut refuse);
    if spec.constraint.advance_reservation.is_some() && input.scheduler != GangScheduler::Muster {
        refuse(
            "`reservation`: only Muster's scheduler sets nodes and GPUs aside",
            "remove `reservation`, or install the scheduler (`muster init kubernetes`)",
        );
    }
    unfit
}

/// Refuses environments that are on this machine only.
fn environment(input: &RenderInput<'_>, refuse: &mut impl FnMut(&str, &str)) {
    let environment = input.environment;
    match &environment.python {
        Some(PythonEnvironment::Venv(_)) => refuse(
            "`venv`: a folder of this machine is not in the image",
            "build the packages into the image; for a venv on a volume write `run: /data/venv/bin/python train.py`",
        ),
        Some(PythonEnvironment::Conda(_)) => refuse(
            "`conda`: an environment of this machine is not in the image",
            "build the packages into the image; for one in the image write `run: conda run -n NAME python train.py`",
        ),
        Some(PythonEnvironment::Uv(_)) => refuse(
            "`uv`: the `.venv` of this machine is not in the image",
            "build the packages into the image (`uv sync` in its Dockerfile)",
        ),
        None => {}
    }
    if !environment.modules.is_empty() {
        refuse("`modules`: containers have none", "choose an image that has these programs");
    }
    if !environment.secrets.is_empty() {
        refuse(
            "`secrets` are in files of this machine",
            "put them into a Secret (`kubectl create secret generic wandb --from-file=WANDB_API_KEY=FILE`) and write `kubernetes: {env-from: [secret/wandb]}`",
        );
    }
    if !environment.mounts.is_empty() {
        refuse(
            "`mounts` are directories of this machine",
            "write `kubernetes: {volumes: [CLAIM:/path]}`",
        );
    }
}

/// Refuses services that neither a Deployment nor an InferenceService can be.
fn replicas(input: &RenderInput<'_>, service: &Service, refuse: &mut impl FnMut(&str, &str)) {
    let spec = input.spec;
    let replicas = service.replicas;
    if JobShape::of(input).tasks() > 1 {
        refuse(
            "a service whose replicas have several tasks",
            "write a LeaderWorkerSet by hand, or start the tasks from one program",
        );
    }
    if replicas.guaranteed == 0 {
        refuse(
            "`replicas: 0..…`: Kubernetes has no replicas that use idle GPUs only",
            "write at least 1",
        );
    }
    let task = spec.groups.first().map(|group| &group.task);
    if replicas.guaranteed < replicas.max && task.is_none_or(|task| task.cpus.0 == 0) {
        refuse(
            "a range of `replicas` without `cpus`: their number follows the load of these",
            "write `cpus`, or one number of replicas",
        );
    }
    if spec.held || spec.begin.is_some() {
        refuse(
            "`hold` and `begin` of a service: a Deployment starts at once",
            "submit it when it may start",
        );
    }
}

/// Refuses terms of the start that the scheduler does not know.
fn start(input: &RenderInput<'_>, refuse: &mut impl FnMut(&str, &str)) {
    let spec = input.spec;
    let starts_alone = matches!(input.scheduler, GangScheduler::Kueue | GangScheduler::Volcano);
    if spec.held && starts_alone {
        refuse(
            "`hold`: this scheduler starts a job as soon as it can",
            "use `kubernetes: {scheduler: muster}`, or create the objects when the job may start",
        );
    }
    for (_, object) in input.after {
        if let Err(why) = object.parse::<ObjectRef>() {
            refuse(
                &format!("`after`: {why}"),
                "leave it out: a service has no end, and Muster's scheduler watches neither Jobs of Volcano nor RayJobs",
            );
        }
    }
    if spec.begin.is_some() && input.scheduler != GangScheduler::Muster {
        refuse(
            "`begin`: of the schedulers only Muster's waits for an instant",
            "use `kubernetes: {scheduler: muster}`, or submit the job later",
        );
    }
    if !spec.after.is_empty() {
        refuse(
            "`after` names a job by its number, which Kubernetes does not know",
            "write both jobs in one file, and name the other one: `after: prepare`",
        );
    }
    if !input.after.is_empty() && input.scheduler != GangScheduler::Muster {
        refuse(
            "`after`: of the schedulers only Muster's has jobs wait for each other",
            "use `kubernetes: {scheduler: muster}`, or submit the job when the other has ended",
        );
    }
}

/// Refuses gangs that nothing would start together.
fn gang(input: &RenderInput<'_>, refuse: &mut impl FnMut(&str, &str)) {
    let spec = input.spec;
    let pods: u32 =
        spec.groups.iter().map(|group| group.min_tasks / group.tasks_per_node.unwrap_or(1)).sum();
    if input.scheduler == GangScheduler::None && pods > 1 {
        refuse(
            &format!(
                "kube-scheduler would start its {pods} pods one by one, and may hold GPUs for a part of them for ever"
            ),
            "install a gang scheduler, for example with `muster init kubernetes`; `run` finds it, and `kubernetes: {scheduler: …}` names one",
        );
    }
    if spec.array.is_some() && (pods > 1 || spec.groups.len() > 1) {
        refuse(
            "an array whose elements have several pods",
            "submit the elements as jobs of their own",
        );
    }
    if spec.array.is_some() && input.scheduler == GangScheduler::Volcano {
        refuse(
            "an array or sweep: Jobs of Volcano start as gangs",
            "use another scheduler: `kubernetes: {scheduler: …}`",
        );
    }
    if spec.array.as_ref().is_some_and(|array| !array.more.is_empty() && array.count() > MAX_LISTED)
    {
        refuse(
            &format!("an array that is a list of more than {MAX_LISTED} indices"),
            "submit it in parts, or as a range",
        );
    }
    let Some(topology) = &spec.constraint.topology else { return };
    let is_known = input.scheduler == GangScheduler::Muster
        && topology.segment.is_none()
        && !matches!(topology.rule, TopologyRule::Spread(_));
    if !is_known {
        refuse(
            "`topology`: of the schedulers only Muster's knows levels by name, and it knows `required` and `preferred`",
            "write one of these with `kubernetes: {scheduler: muster}`, or select nodes with `labels`",
        );
    }
}

/// Refuses jobs that no TrainJob can be.
fn train_job(input: &RenderInput<'_>, refuse: &mut impl FnMut(&str, &str)) {
    let spec = input.spec;
    if spec.groups.len() > 1 {
        refuse(
            "several `groups`: a TrainJob has one role",
            "use `muster export kubernetes`, which writes a JobSet",
        );
    }
    if spec.array.is_some() || spec.kind != WorkloadKind::Task {
        refuse(
            "an array, a service or a notebook: a TrainJob trains once",
            "use `muster export kubernetes`",
        );
    }
    if matches!(input.scheduler, GangScheduler::Kai | GangScheduler::PodGroups) {
        refuse(
            "a TrainJob for this scheduler: its runtime has no setting for the size of the gang",
            "use `kubernetes: {scheduler: …}` with muster, kueue or volcano, or `muster export kubernetes`",
        );
    }
}

/// Refuses resources that no pod can ask for.
fn sizes(input: &RenderInput<'_>, refuse: &mut impl FnMut(&str, &str)) {
    let groups = &input.spec.groups;
    for (index, group) in groups.iter().enumerate() {
        let name = role_name(group);
        if let Some(other) = groups[..index].iter().find(|other| role_name(other) == name) {
            refuse(
                &format!("groups {} and {} would both be named {name}", other.name, group.name),
                "rename one of them",
            );
        }
    }
    for group in &input.spec.groups {
        let task = &group.task;
        if task.gpu.share.0 > 0 {
            shares(input, group, refuse);
        }
        gpu_models(input, &task.gpu.models, refuse);
        if let Some(name) = task.extras.keys().find(|name| !name.contains('/')) {
            refuse(
                &format!("`extras: {{{name}: …}}`: resources of Kubernetes have a domain"),
                "name it as the nodes do, such as `rdma/hca` or `example.com/licence`",
            );
        }
    }
}

/// Refuses shares of GPUs that the scheduler does not give, or that are not one for each pod.
fn shares(input: &RenderInput<'_>, group: &TaskGroup, refuse: &mut impl FnMut(&str, &str)) {
    if share_annotation(input.scheduler).is_none() {
        refuse(
            "a share of a GPU: device plugins give out whole devices",
            "request whole GPUs, or the site's MIG resource with `extras: {nvidia.com/mig-1g.10gb: 1}`; schedulers \
             that give shares are muster and kai",
        );
    }
    if group.tasks_per_node.unwrap_or(1) > 1 {
        refuse("several tasks of a pod with a share of a GPU each", "leave out `tasks-per-node`");
    }
    if input.commands.values().any(|command| matches!(command, TaskCommand::Ray(_))) {
        refuse("a share of a GPU in a Ray job", "request whole GPUs");
    }
}

/// Refuses GPU models that no label of a node names.
fn gpu_models(input: &RenderInput<'_>, models: &[GpuModel], refuse: &mut impl FnMut(&str, &str)) {
    if models.is_empty() || !input.gpu_labels.of_models(models).is_empty() {
        return;
    }
    let there: Vec<&str> = input.gpu_labels.models().map(GpuModel::as_str).collect();
    if there.is_empty() {
        return refuse(
            "`gpu`: nodes of Kubernetes name their GPUs in labels, and none of them is known",
            "select it as the nodes write it: `labels: {nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3}`",
        );
    }
    let wanted: Vec<&str> = models.iter().map(GpuModel::as_str).collect();
    refuse(
        &format!("`gpu: {}`: no node has such a GPU", wanted.join(" or ")),
        &format!("write one of the models of its nodes: {}", there.join(", ")),
    );
}

/// Returns a warning about a repository of which pods may get different commits.
fn moving_reference(input: &RenderInput<'_>) -> Option<String> {
    let git = input.options.git.as_ref().filter(|git| !git.is_fixed())?;
    let reference = git.reference.as_deref().unwrap_or("the default branch");
    Some(format!(
        "`git`: each pod fetches {reference} as it is when the pod starts; the whole id of a commit is the same for all"
    ))
}

/// Returns what is different from a run elsewhere.
pub(super) fn differences(input: &RenderInput<'_>) -> Vec<String> {
    let spec = input.spec;
    let mut warnings = Vec::new();
    let is_ray_job = input.form == JobForm::RayJob;
    if ray_job::has_growth(input) && !(is_ray_job && input.scheduler != GangScheduler::Kueue) {
        warnings.push(
            "the Ray cluster keeps its smallest size: only KubeRay's autoscaler adds nodes, and not under Kueue"
                .to_owned(),
        );
    }
    warnings.extend(moving_reference(input));
    if let Some(elastic) = spec.elastic() {
        warnings.push(format!(
            "the number of tasks is fixed: the job runs with {} instead of up to {}",
            elastic.min, elastic.max
        ));
    }
    if spec.priority != 0 && input.options.priority_class.is_none() {
        warnings.push(
            "`priority` is ignored: Kubernetes has priority classes; `kubernetes: {priority-class: …}` names one"
                .to_owned(),
        );
    }
    if spec.protect != Protection::None {
        warnings.push("`protect` is ignored: priority classes decide who is preempted".to_owned());
    }
    if spec.checkpoint.is_some() && !is_ray_job {
        warnings.push(
            "`checkpoint`: the signal is sent when a pod is stopped (`preStop`): at a preemption, by `muster cancel`, and at the time limit, not before it; also by `muster checkpoint`. $MUSTER_LAST_CHECKPOINT is not set"
                .to_owned(),
        );
    }
    if input.has_output_files {
        warnings.push("`output` and `error` are ignored: `kubectl logs` has the output".to_owned());
    }
    if spec.held && (input.scheduler != GangScheduler::Muster || is_ray_job) {
        warnings.push(format!(
            "`hold`: no scheduler releases the job; start it with `muster release`, or `kubectl patch {} --type=merge --patch '{{\"spec\":{{\"suspend\":false}}}}'`",
            main_object(input)
        ));
    }
    match &spec.kind {
        WorkloadKind::Task => {}
        WorkloadKind::Notebook(_) => warnings.push(format!(
            "`idle` is ignored: the notebook runs until its time limit, or `muster cancel`; `kubectl port-forward {} 8888` leads to it, with the port and token that its output shows",
            main_object(input)
        )),
        WorkloadKind::Service(service) => differences_of_service(input, service, &mut warnings),
    }
    if spec.restart.always && spec.kind == WorkloadKind::Task {
        warnings
            .push("`restart: always` is ignored: a Job that ended well is not repeated".to_owned());
    }
    if spec.restart.on_failure && spec.restart.has_own_backoff() {
        warnings.push(format!(
            "`backoff: {}` is ignored: Kubernetes uses its own back-off",
            spec.restart.backoff
        ));
    }
    if is_ray_job {
        warnings.extend(ray_job::differences(input));
    }
    differences_of_array(input, &mut warnings);
    warnings
}

fn differences_of_array(input: &RenderInput<'_>, warnings: &mut Vec<String>) {
    if input.sweep.is_some_and(|sweep| sweep.early_stop.is_some()) {
        warnings
            .push("no element is stopped early: nothing compares them on Kubernetes".to_owned());
    }
    if input.spec.array.is_some() && starts_whole(input) {
        let field = if input.sweep.is_some() { "max-running" } else { "array: …%M" };
        let job = if input.sweep.is_some() { "the sweep" } else { "`array`: it" };
        warnings.push(format!(
            "{job} starts when all pods that run at once fit; `{field}` makes them fewer"
        ));
    }
}

/// Returns true if the scheduler starts all pods of an array together.
fn starts_whole(input: &RenderInput<'_>) -> bool {
    match input.scheduler {
        GangScheduler::Kueue => true,
        GangScheduler::Muster => input.spec.held || input.spec.begin.is_some(),
        GangScheduler::Volcano
        | GangScheduler::Kai
        | GangScheduler::PodGroups
        | GangScheduler::None => false,
    }
}

fn differences_of_service(input: &RenderInput<'_>, service: &Service, warnings: &mut Vec<String>) {
    let spec = input.spec;
    let Replicas { guaranteed, max } = service.replicas;
    if guaranteed < max {
        warnings.push(format!(
            "`replicas: {guaranteed}..{max}`: their number follows the load of their CPUs, not idle GPUs"
        ));
    }
    if spec.time_limit.is_some() {
        warnings.push("`time` is ignored: replicas of a Deployment have no time limit".to_owned());
    }
    if !spec.restart.always {
        warnings
            .push("`restart` is ignored: replicas of a Deployment are always restarted".to_owned());
    }
}
