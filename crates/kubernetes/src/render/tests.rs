//! Objects of typical jobs, and what is refused.

use std::sync::LazyLock;

use muster_model::job::GpuRequest;
use muster_model::job::Resources;
use muster_model::kubernetes::{ClaimMount, GitSource};
use muster_model::{
    AfterCheckpoint, Array, Checkpoint, CheckpointBy, CheckpointTo, CpuMilli, Dependency,
    DependencyKind, GpuMilli, JobId, Notebook, Protection, Replicas, Restart, Segment, Service,
    Span, Time, Topology, TopologyRule, WorkloadKind,
};
use serde_json::json;

use super::*;
use crate::gpu_share;
use crate::node::NodeText;

mod gangs;
mod ray_job;
mod sweep;

/// Job of 2 nodes with 8 GPUs each, and one program.
fn train() -> JobSpec {
    let task = Resources { gpu: GpuRequest::whole(8), ..Resources::default() };
    let group = TaskGroup { tasks_per_node: Some(1), ..TaskGroup::of("main", 2, task) };
    JobSpec {
        time_limit: Some(Span::from_secs(7200)),
        grace: Span::from_secs(30),
        queue: "research/vision".into(),
        ..JobSpec::plain("Train_1", "ann", vec![group])
    }
}

fn options() -> KubernetesOptions {
    let volume = ClaimMount { claim: "data".into(), path: "/data".into(), is_read_only: true };
    KubernetesOptions {
        image: Some("registry.example.com/train:1".into()),
        volumes: vec![volume],
        ..KubernetesOptions::default()
    }
}

static NO_VARIABLES: BTreeMap<String, String> = BTreeMap::new();
static NO_LABELS: LazyLock<GpuLabels> = LazyLock::new(GpuLabels::default);
static NO_ENVIRONMENT: LazyLock<TaskEnvironment> = LazyLock::new(TaskEnvironment::default);

impl<'a> RenderInput<'a> {
    /// Returns the input of a job for Muster's scheduler that has these fields only.
    pub(crate) fn plain(
        spec: &'a JobSpec,
        commands: &'a BTreeMap<Arc<str>, TaskCommand>,
        options: &'a KubernetesOptions,
    ) -> Self {
        Self {
            spec,
            commands,
            sweep: None,
            env: &NO_VARIABLES,
            workdir: None,
            gpu_labels: &NO_LABELS,
            files: &[],
            has_output_files: false,
            after: &[],
            options,
            environment: &NO_ENVIRONMENT,
            scheduler: GangScheduler::Muster,
            form: JobForm::Simplest,
            suffix: None,
        }
    }
}

/// Renders a job whose groups all run `torchrun train.py`.
fn rendered(
    spec: &JobSpec,
    options: &KubernetesOptions,
    scheduler: GangScheduler,
) -> Result<RenderedJob, Vec<Unsupported>> {
    rendered_with(spec, &[], options, scheduler, None)
}

/// Renders a job that waits for objects, with a suffix of its name.
fn rendered_with(
    spec: &JobSpec,
    after: &[(DependencyKind, String)],
    options: &KubernetesOptions,
    scheduler: GangScheduler,
    suffix: Option<&str>,
) -> Result<RenderedJob, Vec<Unsupported>> {
    let run = TaskCommand::Script("torchrun train.py".to_owned());
    let names = spec.groups.iter().map(|group| Arc::clone(&group.name));
    let commands = names.map(|name| (name, run.clone())).collect();
    let env = BTreeMap::from([("PRICE".to_owned(), "$(5)".to_owned())]);
    render(&RenderInput {
        env: &env,
        workdir: Some("/data/run"),
        after,
        scheduler,
        suffix,
        ..RenderInput::plain(spec, &commands, options)
    })
}

fn objects(spec: &JobSpec, scheduler: GangScheduler) -> Vec<Value> {
    rendered(spec, &options(), scheduler).unwrap().objects
}

#[test]
fn a_share_of_a_gpu_is_an_annotation_and_a_variable() {
    use GangScheduler::{Kai, Muster};
    let mut spec = one_pod();
    spec.groups[0].task.gpu = GpuRequest { share: GpuMilli(250), ..GpuRequest::default() };
    for (scheduler, key) in [(Muster, "muster.run/gpu-share"), (Kai, "gpu-fraction")] {
        let job = objects_of_kind(&spec, scheduler, "Job");
        let template = &job["spec"]["template"];
        assert_eq!(template["metadata"]["annotations"][key], "0.25");
        let container = &template["spec"]["containers"][0];
        assert!(container["resources"]["limits"]["nvidia.com/gpu"].is_null(), "{container}");
        let is_told = container["env"].as_array().unwrap().contains(&gpu_share::variable());
        assert_eq!(is_told, scheduler == Muster);
    }
}

#[test]
fn a_gang_for_musters_scheduler() {
    let rendered = rendered(&train(), &options(), GangScheduler::Muster).unwrap();
    assert_eq!(rendered.warnings.len(), 1, "{:?}", rendered.warnings);
    insta::assert_json_snapshot!(rendered.objects);
}

#[test]
fn several_tasks_of_a_node_are_containers_of_a_pod() {
    let mut spec = train();
    spec.groups[0].min_tasks = 4;
    spec.groups[0].tasks_per_node = Some(2);
    let job = &objects(&spec, GangScheduler::Muster)[1]["spec"];
    assert_eq!(job["parallelism"], 2);
    let containers = job["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2);
    let command = containers[1]["command"][2].as_str().unwrap();
    let first = command.lines().next().unwrap();
    assert_eq!(
        first,
        "export RANK=$$((JOB_COMPLETION_INDEX * 2 + 1)) WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 NODE_RANK=$$((JOB_COMPLETION_INDEX))"
    );
}

#[test]
fn roles_and_whole_restarts_make_a_job_set() {
    let mut spec = train();
    spec.restart =
        Restart { on_failure: true, max_restarts: 3, backoff: Span(1000), always: false };
    let [job_set] = &objects(&spec, GangScheduler::Kueue)[..] else { panic!("one object") };
    assert_eq!(job_set["kind"], "JobSet");
    assert_eq!(job_set["metadata"]["labels"][crate::names::KUEUE_QUEUE], "vision");
    assert_eq!(job_set["spec"]["failurePolicy"]["maxRestarts"], 3);
    assert_eq!(job_set["spec"]["suspend"], true);

    let mut spec = train();
    spec.groups.push(TaskGroup::of("rollout", 3, Resources::default()));
    let job_set = &objects(&spec, GangScheduler::Muster)[0];
    let roles = job_set["spec"]["replicatedJobs"].as_array().unwrap();
    assert_eq!(roles[1]["template"]["spec"]["completions"], 3);
    let second = roles[1]["template"]["spec"]["template"]["spec"]["containers"][0]["command"][2]
        .as_str()
        .unwrap();
    assert!(second.contains("RANK=$$((JOB_COMPLETION_INDEX + 2)) WORLD_SIZE=5"), "{second}");
    assert!(second.contains("MASTER_ADDR=train-1-main-0-0.train-1 "), "{second}");
    assert!(second.contains("PET_MASTER_ADDR=train-1-rollout-0-0.train-1 PET_MASTER_PORT=29501"));
}

#[test]
fn volcano_and_native_pod_groups_hold_the_whole_gang() {
    let [job] = &objects(&train(), GangScheduler::Volcano)[..] else { panic!("one object") };
    assert_eq!(job["spec"]["minAvailable"], 2);
    assert_eq!(job["spec"]["queue"], "research.vision");
    let [service, group, job] = &objects(&train(), GangScheduler::PodGroups)[..] else {
        panic!("three objects")
    };
    assert_eq!(service["kind"], "Service");
    assert_eq!(group["spec"]["schedulingPolicy"]["gang"]["minCount"], 2);
    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(pod["schedulingGroup"]["podGroupName"], group["metadata"]["name"]);
}

#[test]
fn an_array_is_a_list_of_independent_pods() {
    let mut spec =
        JobSpec::plain("sweep", "ann", vec![TaskGroup::of("main", 1, Resources::default())]);
    spec.array = Some(Array::range(10, 18, 2, Some(2)));
    spec.queue = "research/vision".into();
    let [job] = &objects(&spec, GangScheduler::Muster)[..] else { panic!("one object") };
    assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&5.into(), &2.into()));
    assert!(job["spec"]["suspend"].is_null(), "its elements start one by one");
    assert_eq!(job["metadata"]["labels"][crate::names::QUEUE], "research.vision");
    let template = &job["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"][crate::names::GANG_SIZE], "1");
    let command = template["spec"]["containers"][0]["command"][2].as_str().unwrap();
    assert!(
        command.contains("MUSTER_ARRAY_INDEX=$$((JOB_COMPLETION_INDEX * 2 + 10))"),
        "{command}"
    );
    assert!(command.contains("RANK=0 WORLD_SIZE=1"), "{command}");
    // What the cluster ends starts again; in a gang the others would wait for it.
    let policy = &job["spec"]["podFailurePolicy"]["rules"];
    assert_eq!(policy[0]["action"], "Ignore");
    let single = &objects(&one_pod(), GangScheduler::None)[0]["spec"];
    assert_eq!(&single["podFailurePolicy"]["rules"], policy);
    let gang = objects(&train(), GangScheduler::Kueue);
    assert!(gang.iter().all(|object| object["spec"].get("podFailurePolicy").is_none()));
}

/// Checks the reasons for which a job of one pod is refused, after a change.
fn check_refused(change: impl FnOnce(&mut JobSpec), scheduler: GangScheduler, expected: &[&str]) {
    let mut spec = one_pod();
    change(&mut spec);
    let found = rendered(&spec, &options(), scheduler).unwrap_err();
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.what.contains(expected), "{found:?}");
    }
}

fn one_pod() -> JobSpec {
    JobSpec::plain("one", "ann", vec![TaskGroup::of("main", 1, Resources::default())])
}

#[test]
fn a_job_that_waits_is_suspended_with_its_terms() {
    let mut spec = train();
    spec.queue = "default".into();
    spec.held = true;
    spec.begin = Some(Time(1_795_176_000_000));
    let [service, job] = &objects(&spec, GangScheduler::Muster)[..] else { panic!("two objects") };
    assert_eq!(service["metadata"].get("annotations"), None);
    assert_eq!(job["spec"]["suspend"], true);
    // The default queue, whatever its name is in the cluster.
    assert_eq!(job["metadata"]["labels"]["muster.run/queue"], "");
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"muster.run/held": "true", "muster.run/begin": "2026-11-20T12:00:00Z"})
    );
    let plain = JobSpec { held: false, begin: None, ..spec.clone() };
    let [_, job] = &objects(&plain, GangScheduler::Muster)[..] else { panic!("two objects") };
    assert_eq!(job["metadata"].get("annotations"), None);
    let [job] = &objects(&one_pod(), GangScheduler::Muster)[..] else { panic!("one object") };
    assert_eq!(job["spec"].get("suspend"), None);
    assert_eq!(job["metadata"]["labels"].get("muster.run/queue"), None);
}

#[test]
fn a_gang_waits_as_a_whole_for_the_scheduler_that_can_stop_it_as_a_whole() {
    let gang = JobSpec { queue: "default".into(), ..train() };
    let job = |scheduler| {
        let objects = objects(&gang, scheduler);
        objects.into_iter().find(|object| object["kind"] == "Job").unwrap()
    };
    let of_muster = job(GangScheduler::Muster);
    assert_eq!(of_muster["spec"]["suspend"], true);
    assert_eq!(of_muster["metadata"]["labels"]["muster.run/queue"], "");
    let of_others = job(GangScheduler::PodGroups);
    assert!(of_others["spec"]["suspend"].is_null());
}

#[test]
fn a_job_waits_for_the_objects_of_others() {
    let after = [
        (DependencyKind::AfterOk, "job/prep".to_owned()),
        (DependencyKind::AfterAny, "jobset/tune".to_owned()),
    ];
    let waiting = |scheduler| rendered_with(&train(), &after, &options(), scheduler, None);
    let job = &waiting(GangScheduler::Muster).unwrap().objects[1];
    assert_eq!(
        job["metadata"]["annotations"],
        json!({"muster.run/after": "afterok:job/prep,afterany:jobset/tune"})
    );
    assert_eq!(job["spec"]["suspend"], true);
    for scheduler in [GangScheduler::Kueue, GangScheduler::Volcano, GangScheduler::PodGroups] {
        let unfit = waiting(scheduler).unwrap_err();
        assert_eq!(unfit.len(), 1, "{unfit:?}");
        assert!(unfit[0].hint.contains("{scheduler: muster}"), "{unfit:?}");
    }
    let mut numbered = train();
    numbered.after = vec![Dependency { kind: DependencyKind::AfterOk, job: JobId(12) }];
    assert_eq!(rendered(&numbered, &options(), GangScheduler::Muster).unwrap_err().len(), 1);
}

/// Without a scheduler that releases it, a user does.
#[test]
fn a_held_job_of_kube_scheduler_is_started_by_its_user() {
    let mut spec = train();
    spec.held = true;
    let rendered = rendered(&spec, &options(), GangScheduler::PodGroups).unwrap();
    let job = &rendered.objects[2];
    assert_eq!(job["spec"]["suspend"], true);
    assert_eq!(job["metadata"]["annotations"], json!({"muster.run/held": "true"}));
    assert_eq!(job["metadata"]["labels"].get("muster.run/queue"), None);
    let told = |one: &&String| one.contains("kubectl patch job/train-1 --type=merge");
    assert!(rendered.warnings.iter().any(|one| told(&one)), "{:?}", rendered.warnings);
}

#[test]
fn settings_that_kubernetes_cannot_express_are_refused() {
    use GangScheduler::{Kueue, Muster, Volcano};
    let terms = |job: &mut JobSpec| {
        job.held = true;
        job.begin = Some(Time(1));
    };
    check_refused(terms, Kueue, &["`hold`", "`begin`"]);
    check_refused(terms, GangScheduler::PodGroups, &["`begin`"]);
    let after = |job: &mut JobSpec| {
        job.after = vec![Dependency { kind: DependencyKind::AfterOk, job: JobId(1) }];
    };
    check_refused(after, Muster, &["`after`"]);
    let reservation = |job: &mut JobSpec| {
        job.constraint.advance_reservation = Some("maintenance".into());
    };
    check_refused(reservation, Kueue, &["`reservation`"]);
    let share = |job: &mut JobSpec| {
        job.groups[0].task.gpu = GpuRequest { share: GpuMilli(500), ..GpuRequest::whole(1) };
    };
    check_refused(share, GangScheduler::Volcano, &["a share of a GPU"]);
    let shares = |job: &mut JobSpec| {
        share(job);
        job.groups[0].tasks_per_node = Some(2);
    };
    check_refused(shares, Muster, &["several tasks of a pod with a share of a GPU each"]);
    let model = |job: &mut JobSpec| job.groups[0].task.gpu.models = vec!["h100".into()];
    check_refused(model, Muster, &["`gpu`"]);
    let extras = |job: &mut JobSpec| {
        job.groups[0].task.extras.insert("licence".into(), 1);
    };
    check_refused(extras, Muster, &["`extras: {licence: …}`"]);

    let topology = |rule| {
        move |job: &mut JobSpec| {
            job.constraint.topology = Some(Topology { rule, segment: None });
        }
    };
    let required = || TopologyRule::Required("rack".into());
    check_refused(topology(TopologyRule::Spread("rack".into())), Muster, &["`topology`"]);
    check_refused(topology(required()), Kueue, &["`topology`"]);
    let segments = |job: &mut JobSpec| {
        let segment = Some(Segment { tasks: 1, level: "rack".into() });
        job.constraint.topology = Some(Topology { rule: required(), segment });
    };
    check_refused(segments, Muster, &["`topology`"]);

    let array = |job: &mut JobSpec| job.array = Some(Array::range(0, 3, 1, None));
    check_refused(array, Volcano, &["Jobs of Volcano start as gangs"]);
    let pairs = |job: &mut JobSpec| {
        array(job);
        job.groups[0].min_tasks = 2;
    };
    check_refused(pairs, Muster, &["elements have several pods"]);
    let list = |job: &mut JobSpec| {
        job.array = Array::list((0..2_000).chain([3_000]).collect(), None);
    };
    check_refused(list, Muster, &["more than 2000 indices"]);

    let gang = |job: &mut JobSpec| job.groups[0].min_tasks = 2;
    check_refused(gang, GangScheduler::None, &["one by one"]);
    let same_names = |job: &mut JobSpec| {
        let group = |name| TaskGroup::of(name, 1, Resources::default());
        job.groups = vec![group("a_b"), group("a.b")];
    };
    check_refused(same_names, Muster, &["groups a_b and a.b would both be named a-b"]);
}

#[test]
fn what_the_options_lack_is_refused() {
    let found = rendered(&one_pod(), &KubernetesOptions::default(), GangScheduler::Muster);
    assert!(found.unwrap_err()[0].what.contains("no image"));
    let spec = one_pod();
    let found = render(&RenderInput {
        workdir: Some("run"),
        ..RenderInput::plain(&spec, &BTreeMap::new(), &options())
    });
    assert!(found.unwrap_err()[0].what.contains("working directory"));
}

/// Checks the only warning of a job of one pod, after a change; none if `expected` is empty.
fn check_warned(change: impl FnOnce(&mut JobSpec), scheduler: GangScheduler, expected: &str) {
    let mut spec = one_pod();
    change(&mut spec);
    let found = rendered(&spec, &options(), scheduler).unwrap().warnings;
    assert_eq!(found.len(), usize::from(!expected.is_empty()), "{found:?}");
    assert!(found.iter().all(|one| one.contains(expected)), "{found:?}");
}

#[test]
fn settings_that_have_another_effect_are_warnings() {
    use GangScheduler::{Kueue, Muster};
    check_warned(|_| (), Muster, "");
    check_warned(|job| job.priority = 5, Muster, "`priority` is ignored");
    check_warned(|job| job.protect = Protection::Always, Muster, "`protect` is ignored");
    let checkpoint = Checkpoint {
        signal: 10,
        lead: Span::from_secs(60),
        by: CheckpointBy::First,
        then: AfterCheckpoint::Continue,
        to: CheckpointTo::Handlers,
    };
    let sets = |job: &mut JobSpec| job.checkpoint = Some(checkpoint);
    check_warned(sets, Muster, "the signal is sent when a pod is stopped");
    let restart = |backoff, always| {
        move |job: &mut JobSpec| {
            job.restart = Restart { on_failure: true, max_restarts: 3, backoff, always };
        }
    };
    check_warned(restart(Span::from_secs(10), false), Muster, "");
    check_warned(restart(Span::from_secs(60), false), Muster, "`backoff: 1m` is ignored");
    check_warned(restart(Span::from_secs(1), true), Muster, "`restart: always` is ignored");
    let array = |job: &mut JobSpec| job.array = Some(Array::range(0, 3, 1, None));
    check_warned(array, Muster, "");
    check_warned(array, Kueue, "`array`: it starts when all pods that run at once fit");
    let held = |job: &mut JobSpec| {
        array(job);
        job.held = true;
    };
    check_warned(held, Muster, "`array`: it starts when all pods that run at once fit");
    check_warned(|job| job.name = "One".into(), Muster, "the objects are named one");
}

#[test]
fn names_are_valid_host_names() {
    assert_eq!(object_name("Train_1", MAX_NAMES), "train-1");
    assert_eq!(object_name("8b.sft", MAX_NAMES), "job-8b-sft");
    assert_eq!(object_name("__", MAX_NAMES), "job");
    assert_eq!(object_name("abc-def", 4), "abc");
}

/// Names of pods are labels of DNS: at most 63 characters.
#[test]
fn the_longest_names_of_pods_are_labels() {
    for letter in ["x", "8"] {
        let mut spec = train();
        spec.name = letter.repeat(64).into();
        let [_, job] = &objects(&spec, GangScheduler::Muster)[..] else { panic!("two objects") };
        let name = job["metadata"]["name"].as_str().unwrap();
        assert!(format!("{name}-9999-xxxxx").len() <= 63, "{name}");
        for group in ["rollout".to_owned(), letter.repeat(64)] {
            spec.groups = vec![
                spec.groups[0].clone(),
                TaskGroup::of(group.as_str(), 3, Resources::default()),
            ];
            let job_set = &objects(&spec, GangScheduler::Muster)[0];
            let name = job_set["metadata"]["name"].as_str().unwrap();
            let role = job_set["spec"]["replicatedJobs"][1]["name"].as_str().unwrap();
            assert!(format!("{name}-{role}-0-9999-xxxxx").len() <= 63, "{name} {role}");
            assert!(name.len() >= 25, "{name}");
        }
    }
}

/// Expands references as Kubernetes does where no variable is known (`expansion.Expand`).
fn expanded(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let name = after.strip_prefix('(').and_then(|inner| inner.split_once(')'));
        rest = match (after.strip_prefix('$'), name) {
            (None, Some((name, after))) => {
                out += &format!("$({name})");
                after
            }
            (escaped, _) => {
                out.push('$');
                escaped.unwrap_or(after)
            }
        };
    }
    out + rest
}

#[test]
fn dollar_signs_mean_themselves() {
    let texts = [
        "$$",
        "$(date)",
        "$((1 + 1))",
        "$HOME",
        "$$(x)",
        "$(( $(nproc) / 2 ))",
        "$(( $$ + 1 ))",
        "$(echo $$ $(id))",
        "$(unclosed",
        "$",
    ];
    for text in texts {
        assert_eq!(expanded(&command::literal(text)), text);
        // No reference is left that a variable of the container could take.
        let known = command::literal(text).replace("$$", "");
        assert!(!known.contains("$("), "{known}");
    }
}

fn service(replicas: Replicas) -> JobSpec {
    let kind = WorkloadKind::Service(Service { replicas, port: Some(8000) });
    let mut spec =
        JobSpec { kind, restart: Restart::ALWAYS, queue: "serving/chat".into(), ..one_pod() };
    spec.groups[0].task.cpus = CpuMilli(4000);
    spec
}

#[test]
fn a_service_is_a_deployment_with_an_address_and_an_autoscaler() {
    let spec = service(Replicas { guaranteed: 2, max: 6 });
    insta::assert_snapshot!(yaml(&objects(&spec, GangScheduler::Muster)));
    let fixed = service(Replicas { guaranteed: 3, max: 3 });
    let kinds: Vec<String> = objects(&fixed, GangScheduler::Kueue)
        .iter()
        .map(|object| object["kind"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(kinds, ["Service", "Deployment"]);
    check_warned(
        |job| *job = service(Replicas { guaranteed: 2, max: 6 }),
        GangScheduler::Muster,
        "follows the load of their CPUs",
    );
    let none = |job: &mut JobSpec| *job = service(Replicas { guaranteed: 0, max: 2 });
    check_refused(none, GangScheduler::Muster, &["idle GPUs"]);
    let without_cpus = |job: &mut JobSpec| {
        *job = service(Replicas { guaranteed: 1, max: 2 });
        job.groups[0].task.cpus = CpuMilli(0);
    };
    check_refused(without_cpus, GangScheduler::Muster, &["without `cpus`"]);
    let wide = |job: &mut JobSpec| {
        *job = service(Replicas { guaranteed: 1, max: 1 });
        job.groups[0].min_tasks = 2;
    };
    check_refused(wide, GangScheduler::Muster, &["several tasks"]);
}

#[test]
fn a_service_that_asks_for_kserve_is_an_inference_service() {
    let spec = service(Replicas { guaranteed: 2, max: 6 });
    let run = TaskCommand::Script("vllm serve".to_owned());
    let commands = spec.groups.iter().map(|group| (Arc::clone(&group.name), run.clone())).collect();
    let options = KubernetesOptions { is_kserve: true, ..options() };
    let input = RenderInput {
        form: JobForm::default().with(&options),
        scheduler: GangScheduler::Muster,
        ..RenderInput::plain(&spec, &commands, &options)
    };
    assert_eq!(main_object(&input), "inferenceservice/one");
    insta::assert_snapshot!(yaml(&render(&input).unwrap().objects));
}

#[test]
fn a_notebook_is_a_job_of_one_pod() {
    let notebook = |job: &mut JobSpec| job.kind = WorkloadKind::Notebook(Notebook { idle: None });
    check_warned(notebook, GangScheduler::Muster, "`idle` is ignored");
    let mut spec = one_pod();
    notebook(&mut spec);
    assert_eq!(objects(&spec, GangScheduler::Muster)[0]["kind"], "Job");
}

#[test]
fn a_suffix_has_room_in_the_longest_name() {
    let spec = JobSpec { name: "n".repeat(64).into(), ..one_pod() };
    let rendered =
        rendered_with(&spec, &[], &options(), GangScheduler::Muster, Some("x7k2p")).unwrap();
    let name = rendered.objects[0]["metadata"]["name"].as_str().unwrap();
    assert!(name.ends_with("n-x7k2p"), "{name}");
    // A suffix is said by the names of submitted jobs themselves.
    assert!(name.len() <= MAX_NAMES && rendered.warnings.is_empty(), "{:?}", rendered.warnings);
}

#[test]
fn a_gpu_model_is_a_choice_of_nodes_by_their_labels() {
    let node = |product: &str| {
        let labels = json!({"nvidia.com/gpu.product": product});
        let there = json!({"nvidia.com/gpu": "8"});
        let node =
            json!({"metadata": {"name": "a", "labels": labels}, "status": {"allocatable": there}});
        serde_json::from_value::<NodeText>(node).unwrap().facts().unwrap()
    };
    let nodes = [node("NVIDIA-H100-80GB-HBM3"), node("NVIDIA-L40S")];
    let gpu_labels = GpuLabels::of(&nodes, NVIDIA);
    let rendered = |models: &[&str], exclude: &[&str]| {
        let mut spec = one_pod();
        spec.groups[0].task.gpu.models = models.iter().map(|model| (*model).into()).collect();
        spec.constraint.exclude = exclude.iter().map(|node| (*node).into()).collect();
        let run = TaskCommand::Script("true".into());
        render(&RenderInput {
            gpu_labels: &gpu_labels,
            ..RenderInput::plain(&spec, &BTreeMap::from([(Arc::from("main"), run)]), &options())
        })
    };
    let terms = |models: &[&str], exclude: &[&str]| {
        let objects = rendered(models, exclude).unwrap().objects;
        let path = "/spec/template/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
        objects.last().unwrap().pointer(path).unwrap().clone()
    };
    let product = |values: Value| json!({"key": "nvidia.com/gpu.product", "operator": "In", "values": values});
    assert_eq!(
        terms(&["h100"], &[]),
        json!([{"matchExpressions": [product(json!(["NVIDIA-H100-80GB-HBM3"]))]}])
    );
    // Excluded nodes stay excluded, and a model that no node has is left out beside one that is there.
    let others = json!({"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["n7"]});
    assert_eq!(
        terms(&["l40s", "b200"], &["n7"]),
        json!([{"matchExpressions": [product(json!(["NVIDIA-L40S"])), others]}])
    );
    let unfit = rendered(&["b200"], &[]).unwrap_err();
    assert_eq!(unfit[0].what, "`gpu: b200`: no node has such a GPU");
    assert_eq!(unfit[0].hint, "write one of the models of its nodes: h100, l40s");
}

#[test]
fn sent_files_are_copied_to_the_working_directory() {
    let file = |path: &str, content: &[u8], is_executable| SentFile {
        path: path.to_owned(),
        content: content.to_vec(),
        is_executable,
    };
    let files = [file("run.sh", b"exec train", true), file("model/net.bin", &[0xff, 0xfe], false)];
    let mut spec = one_pod();
    let task = &mut spec.groups[0].task;
    task.gpu = GpuRequest::whole(2);
    task.memory = muster_model::Bytes(4096);
    let commands = BTreeMap::from([(Arc::from("main"), TaskCommand::Script("./run.sh".into()))]);
    let options = options();
    let input = RenderInput { files: &files, ..RenderInput::plain(&spec, &commands, &options) };
    let objects = render(&input).unwrap().objects;
    assert_eq!(objects[0]["kind"], "ConfigMap");
    assert_eq!(objects[0]["data"], json!({"file0": "exec train"}));
    assert_eq!(objects[0]["binaryData"], json!({"file1": "//4="}));
    let pod = &objects.last().unwrap()["spec"]["template"]["spec"];
    let items = &pod["volumes"][0]["configMap"]["items"];
    assert_eq!(
        items[1],
        json!({"key": "file1", "path": "sent/model/net.bin", "mode": 0o644}),
        "{items}"
    );
    assert_eq!(items[0]["mode"], 0o755);
    let copier = &pod["initContainers"][0];
    assert_eq!(copier["command"], json!(["cp", "-RL", "/muster/files/sent/.", "/workdir"]));
    // It needs no GPU, and no more than the task of what that asks for.
    assert_eq!(copier["resources"]["limits"], json!({"memory": "4096"}));
    let container = &pod["containers"][0];
    assert_eq!(container["workingDir"], "/workdir");
    assert_eq!(container["volumeMounts"][0], json!({"name": "workdir", "mountPath": "/workdir"}));
    // Its volume would be hidden.
    let hidden = render(&RenderInput { workdir: Some("/data/run"), ..input });
    assert!(hidden.unwrap_err()[0].what.contains("on a volume"));
    // A working directory that the job names has them.
    let named = render(&RenderInput { workdir: Some("/srv/run"), ..input }).unwrap().objects;
    let pod = &named.last().unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/srv/run");
}

#[test]
fn a_repository_is_fetched_to_the_working_directory() {
    let source = |reference: Option<&str>, image: Option<&str>, secret: Option<&str>| GitSource {
        url: "https://git.example.com/team/train.git".into(),
        reference: reference.map(Into::into),
        image: image.map(Into::into),
        secret: secret.map(Into::into),
    };
    let rendered = |source: GitSource| {
        let options = KubernetesOptions { git: Some(source), volumes: Vec::new(), ..options() };
        rendered(&train(), &options, GangScheduler::Muster).unwrap()
    };
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let job = rendered(source(Some(commit), Some("git:1"), Some("key")));
    let is_of_git = |warning: &String| warning.contains("`git`");
    assert!(!job.warnings.iter().any(is_of_git), "{:?}", job.warnings);
    let pod = &job.objects.last().unwrap()["spec"]["template"]["spec"];
    let fetcher = &pod["initContainers"][0];
    assert_eq!(fetcher["image"], "git:1");
    let words = fetcher["command"].as_array().unwrap();
    let url = "https://git.example.com/team/train.git";
    assert_eq!(words[3..], [json!("git"), json!(url), json!(commit), json!("/data/run")]);
    assert!(words[2].as_str().unwrap().contains("auth=/muster/git\n"), "where it reads the secret");
    let directory = json!({"name": "workdir", "mountPath": "/data/run"});
    let secret = json!({"name": "git", "mountPath": "/muster/git", "readOnly": true});
    assert_eq!(fetcher["volumeMounts"], json!([directory, secret]));
    let task = &pod["containers"][0];
    assert_eq!((&task["workingDir"], &task["volumeMounts"][0]), (&json!("/data/run"), &directory));
    assert!(!task["volumeMounts"].as_array().unwrap().contains(&secret));
    // A branch may be another commit for each pod.
    let job = rendered(source(None, None, None));
    assert!(job.warnings.iter().any(is_of_git), "{:?}", job.warnings);
    let pod = &job.objects.last().unwrap()["spec"]["template"]["spec"];
    assert_eq!(pod["initContainers"][0]["image"], "registry.example.com/train:1");
    assert_eq!(pod["initContainers"][0]["command"][5], "HEAD");
    assert_eq!(pod["volumes"][0], json!({"name": "workdir", "emptyDir": {}}));
}

/// Renders a job as a TrainJob.
fn train_job(spec: &JobSpec, scheduler: GangScheduler) -> Result<RenderedJob, Vec<Unsupported>> {
    let run = TaskCommand::Script("torchrun train.py".to_owned());
    let names = spec.groups.iter().map(|group| Arc::clone(&group.name));
    render(&RenderInput {
        env: &BTreeMap::from([("A".to_owned(), "b".to_owned())]),
        scheduler,
        form: JobForm::TrainJob,
        ..RenderInput::plain(spec, &names.map(|name| (name, run.clone())).collect(), &options())
    })
}

#[test]
fn a_train_job_has_a_runtime_of_its_own() {
    let rendered = train_job(&train(), GangScheduler::Kueue).unwrap();
    insta::assert_snapshot!(yaml(&rendered.objects));
    let volcano = train_job(&train(), GangScheduler::Volcano).unwrap().objects;
    assert_eq!(volcano[0]["spec"]["podGroupPolicy"], json!({"volcano": {}}));
    for (change, scheduler, part) in [
        (None, GangScheduler::Kai, "size of the gang"),
        (None, GangScheduler::PodGroups, "size of the gang"),
        (Some(Array::range(0, 3, 1, None)), GangScheduler::Muster, "trains once"),
    ] {
        let mut spec = if change.is_some() { one_pod() } else { train() };
        spec.array = change;
        let refused = train_job(&spec, scheduler).unwrap_err();
        assert!(refused.iter().any(|one| one.what.contains(part)), "{part}: {refused:?}");
    }
}

#[test]
fn kai_is_told_the_size_of_a_gang() {
    let objects = objects(&train(), GangScheduler::Kai);
    let job = objects.last().unwrap();
    let metadata = &job["metadata"];
    assert_eq!(metadata["annotations"], json!({"kai.scheduler/batch-min-member": "2"}));
    assert_eq!(metadata["labels"]["kai.scheduler/queue"], "research.vision");
    let pods = &job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"];
    assert_eq!((&job["kind"], &pods["schedulerName"]), (&json!("JobSet"), &json!("kai-scheduler")));
    assert!(job["spec"].get("suspend").is_none());
    // One gang of all roles.
    assert_eq!(job["spec"]["startupPolicy"], json!({"startupPolicyOrder": "AnyOrder"}));
    // A job of one pod, and an array, are no gang.
    let one = objects_of_kind(&one_pod(), GangScheduler::Kai, "Job");
    assert!(one["metadata"].get("annotations").is_none(), "{one}");
}

fn objects_of_kind(spec: &JobSpec, scheduler: GangScheduler, kind: &str) -> Value {
    let all = objects(spec, scheduler);
    all.into_iter().find(|object| object["kind"] == kind).unwrap()
}
