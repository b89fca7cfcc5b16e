//! Objects of typical jobs, and what is refused.

use muster_model::job::GpuRequest;
use muster_model::job::Resources;
use muster_model::kubernetes::ClaimMount;
use muster_model::{Array, Restart, Span, Time};
use serde_json::json;

use super::*;

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

/// Renders a job whose groups all run `torchrun train.py`.
fn rendered(
    spec: &JobSpec,
    options: &KubernetesOptions,
    scheduler: GangScheduler,
) -> Result<RenderedJob, Vec<Unsupported>> {
    let run = TaskCommand::Script("torchrun train.py".to_owned());
    let names = spec.groups.iter().map(|group| Arc::clone(&group.name));
    let commands = names.map(|name| (name, run.clone())).collect();
    let env = BTreeMap::from([("PRICE".to_owned(), "$(5)".to_owned())]);
    render(&RenderInput {
        spec,
        commands: &commands,
        env: &env,
        workdir: Some("/data/run"),
        has_output_files: false,
        options,
        scheduler,
    })
}

fn objects(spec: &JobSpec, scheduler: GangScheduler) -> Vec<Value> {
    rendered(spec, &options(), scheduler).unwrap().objects
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
        "export RANK=$((JOB_COMPLETION_INDEX * 2 + 1)) WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 NODE_RANK=$((JOB_COMPLETION_INDEX))"
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
    assert!(second.contains("RANK=$((JOB_COMPLETION_INDEX + 2)) WORLD_SIZE=5"), "{second}");
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
    let [job] = &objects(&spec, GangScheduler::Muster)[..] else { panic!("one object") };
    assert_eq!((&job["spec"]["completions"], &job["spec"]["parallelism"]), (&5.into(), &2.into()));
    let template = &job["spec"]["template"];
    assert_eq!(template["metadata"]["annotations"][crate::names::GANG_SIZE], "1");
    let command = template["spec"]["containers"][0]["command"][2].as_str().unwrap();
    assert!(command.contains("MUSTER_ARRAY_INDEX=$((JOB_COMPLETION_INDEX * 2 + 10))"), "{command}");
    assert!(command.contains("RANK=0 WORLD_SIZE=1"), "{command}");
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
    assert_eq!((job["spec"].get("suspend"), job["metadata"].get("annotations")), (None, None));
    assert_eq!(job["metadata"]["labels"].get("muster.run/queue"), None);
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
fn what_cannot_be_expressed_is_refused() {
    let refused = |spec: &JobSpec, options: &KubernetesOptions, scheduler| -> Vec<String> {
        rendered(spec, options, scheduler).unwrap_err().into_iter().map(|one| one.what).collect()
    };
    let found = refused(&train(), &KubernetesOptions::default(), GangScheduler::None);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].contains("no image"));
    assert!(found[1].contains("one by one"));
    let mut spec = train();
    spec.groups[0].task.gpu.models = vec!["h100".into()];
    spec.groups[0].task.extras.insert("licence".into(), 1);
    assert_eq!(refused(&spec, &options(), GangScheduler::Muster).len(), 2);
    let mut spec = train();
    spec.held = true;
    spec.begin = Some(Time(0));
    assert_eq!(refused(&spec, &options(), GangScheduler::Kueue).len(), 2);
    assert_eq!(refused(&spec, &options(), GangScheduler::PodGroups).len(), 1);
}

#[test]
fn names_are_valid_host_names() {
    assert_eq!(object_name("Train_1"), "train-1");
    assert_eq!(object_name("8b.sft"), "job-8b-sft");
    assert_eq!(object_name("__"), "job");
    assert!(object_name(&"x".repeat(64)).len() <= 40);
}

#[test]
fn dollar_signs_mean_themselves() {
    // What Kubernetes makes of each: `$$` is `$`, and `$((` begins no reference.
    let cases = [
        ("$$", "$$$"),
        ("$(date)", "$$(date)"),
        ("$((1 + 1))", "$((1 + 1))"),
        ("$HOME", "$HOME"),
        ("$$(x)", "$$$$(x)"),
    ];
    for (text, literal) in cases {
        assert_eq!(command::literal(text), literal, "{text}");
    }
}
